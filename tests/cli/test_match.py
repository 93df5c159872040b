"""Matching a file of events from the shell."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli import app
from tests.cli.command import MATCHES, RULES, parse_lines, run, run_failing, write


def match(*options: str) -> list[Any]:
    """The lines that the command prints for the usual rules and events."""
    return parse_lines(run("match", "rules.jsonl", "events.jsonl", *options))


def test_match_prints_a_line_for_each_event() -> None:
    expected = [{"event": n, "rules": rules} for n, rules in enumerate(MATCHES)]
    assert match() == expected


@pytest.mark.parametrize("engine", ["auto", *tamis.engines()])
def test_every_engine_finds_the_same_rules(engine: str) -> None:
    found = match("--engine", engine)
    assert [line["rules"] for line in found] == MATCHES


def test_publish_remembers_events_for_later_ones() -> None:
    write("lows.jsonl", [{"id": "low", "rule": "x < ALL (SELECT d.x FROM seen d)"}])
    write("first.jsonl", [{"x": 5}, {"x": 7}, {"x": 3}])
    write("more.jsonl", [{"x": 4}, {"x": 2}])
    found = parse_lines(run("match", "lows.jsonl", "first.jsonl", "--publish"))
    assert [line["rules"] for line in found] == [["low"], [], ["low"]]
    found = parse_lines(run("match", "lows.jsonl", "first.jsonl"))
    assert [line["rules"] for line in found] == [["low"]] * 3
    run("build", "lows.jsonl", "-o", "index")
    run("match", "index", "first.jsonl", "--publish")
    found = parse_lines(run("match", "index", "more.jsonl", "--publish", "--event-id", "x"))
    assert found == [{"event": 4, "rules": []}, {"event": 2, "rules": ["low"]}]
    run("match", "lows.jsonl", "more.jsonl", "--publish", "--count", code=2)


def test_an_attribute_can_identify_events() -> None:
    found = match("--event-id", "id")
    assert [line["event"] for line in found] == ["e1", "e2", "e3", "e4"]


def test_count_counts_rules_and_top_scores_them() -> None:
    found = match("--count")
    assert [line["matches"] for line in found] == [1, 2, 1, 0]
    found = match("--top", "1")
    assert found[1]["top"] == [{"rule": 7, "score": 1.0}]
    assert found[2]["top"] == [{"rule": "fans", "score": 2.0}]


def test_only_and_tag_select_rules() -> None:
    found = match("--only", "7", "--only", "fans")
    assert [line["rules"] for line in found] == [[], [7], ["fans"], []]
    found = match("--tag", "eu")
    assert [line["rules"] for line in found] == [["teens"], [], [], []]


def test_an_expression_matches_a_partly_known_event() -> None:
    command = ["match", "rules.jsonl", "--expression"]
    assert run(*command, "age BETWEEN 19 AND 30 AND country = 'FR'") == (
        '{"event":0,"rules":["teens",7]}\n'
    )
    assert run(*command, "age < 15", "--logic", "weak") == '{"event":0,"rules":["not-ca"]}\n'
    assert run(*command, "age > 15", "-o", "out.csv", "--only", "7") == ""
    assert Path("out.csv").read_text() == "event,rule\n0,7\n"
    assert "at character 6" in run_failing(*command, "age >")
    assert "= or IN" in run_failing(*command, "country LIKE '%R'")


def test_logic_applies_to_rules_that_name_none() -> None:
    found = match("--logic", "weak")
    assert [line["rules"] for line in found][3] == ["not-ca"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_output_goes_to_a_file(name: str) -> None:
    assert run("match", "rules.jsonl", "events.jsonl", "-o", name, "--count") == ""
    if name.endswith("jsonl"):
        assert Path(name).read_text() == run("match", "rules.jsonl", "events.jsonl", "--count")
    elif name.endswith("csv"):
        assert Path(name).read_text() == "event,matches\n0,1\n1,2\n2,1\n3,0\n"
    else:
        assert pq.read_table(name).to_pydict() == {"event": [0, 1, 2, 3], "matches": [1, 2, 1, 0]}


def test_rules_or_events_come_from_standard_input() -> None:
    expected = run("match", "rules.jsonl", "events.jsonl")
    events, rules = Path("events.jsonl").read_text(), Path("rules.jsonl").read_text()
    assert run("match", "rules.jsonl", "-", stdin=events) == expected
    assert run("match", "-", "events.jsonl", stdin=rules) == expected


def test_skip_bad_rules_names_the_rules_it_skips() -> None:
    write("rules.jsonl", [*RULES, {"id": "bad", "rule": "a = "}, {"rule": "TRUE"}])
    result = CliRunner().invoke(app, ["match", "rules.jsonl", "events.jsonl", "--skip-bad-rules"])
    assert result.exit_code == 0
    assert [line["rules"] for line in parse_lines(result.stdout)] == MATCHES
    first, second, last = result.stderr.splitlines()
    assert first.startswith("tamis: skipped: rules.jsonl:5: rule 'bad': ")
    assert second == "tamis: skipped: rules.jsonl:6: the rule has no 'id'"
    assert last == "tamis: 2 rules were skipped"


def test_skip_bad_events_names_the_events_it_skips() -> None:
    write("rules.jsonl", [{"id": "r", "rule": "a > 1"}])
    lines = ['{"a": 2}', "{", '{"a": 18446744073709551616}', '{"a": 3}', "[1]"]
    Path("mixed.jsonl").write_text("\n".join(lines))
    arguments = ["match", "rules.jsonl", "mixed.jsonl", "--skip-bad-events"]
    for option, answers in (
        ([], [{"event": 0, "rules": ["r"]}, {"event": 2, "rules": ["r"]}]),
        (["--count"], [{"event": 0, "matches": 1}, {"event": 2, "matches": 1}]),
        (["--publish"], [{"event": 0, "rules": ["r"]}, {"event": 2, "rules": ["r"]}]),
    ):
        result = CliRunner().invoke(app, [*arguments, *option])
        assert result.exit_code == 0
        assert parse_lines(result.stdout) == answers
        *named, last = result.stderr.splitlines()
        assert sorted(line.split(":")[3] for line in named) == ["2", "3", "5"]
        assert any("mixed.jsonl:3: attribute 'a' holds 18446744073709551616" in n for n in named)
        assert last == "tamis: 3 events were skipped"
    assert CliRunner().invoke(app, arguments[:-1]).exit_code == 1


def test_at_decides_which_rules_are_valid() -> None:
    write(
        "timed.jsonl",
        [{"id": "r", "rule": "a = 1", "valid_from": "2026-05-01T12:00:00Z", "priority": 2}],
    )
    write("one.jsonl", [{"a": 1}])
    for at, expected in (
        ("2026-05-01", []),
        ("2026-05-01T12:00:00", ["r"]),
        ("2026-05-01T13:59:00+0200", []),
    ):
        (found,) = parse_lines(run("match", "timed.jsonl", "one.jsonl", "--at", at))
        assert found["rules"] == expected
        shown = run("explain", "timed.jsonl", "r", '{"a": 1}', "--at", at)
        assert shown.startswith("r matches" if expected else "r does not match")
    assert "only from 2026-05-01" in run(
        "explain", "timed.jsonl", "r", '{"a": 1}', "--at", "2026-05-01"
    )
    (printed,) = parse_lines(run("export", "timed.jsonl"))
    assert (printed["priority"], printed["valid_from"]) == (2, "2026-05-01T12:00:00+00:00")


def test_limits_of_events_and_rules_are_kept() -> None:
    Path("wide.jsonl").write_text('{"x": 1}\n{"x": [1, 2, 3]}\n')
    error = run_failing("match", "rules.jsonl", "wide.jsonl", "--limit", "event_values=2")
    assert "wide.jsonl:2: the event has more than 2 values, the limit event_values" in error
    for command in (("match", "rules.jsonl", "wide.jsonl"), ("build", "rules.jsonl", "-o", "new")):
        error = run_failing(*command, "--limit", "milliseconds=1e6", "--limit", "rule_bytes=3")
        assert "rule 'teens': the rule has more than 3 bytes, the limit rule_bytes" in error
    assert not Path("new").exists()


@pytest.mark.parametrize(
    "text", ["event_values", "event_values=", "event_values=0", "milliseconds=fast", "nodes=3"]
)
def test_limits_that_do_not_exist_or_are_no_numbers(text: str) -> None:
    done = CliRunner().invoke(app, ["match", "rules.jsonl", "events.jsonl", "--limit", text])
    assert done.exit_code == 2
    assert "limit" in done.stderr


def test_several_files_and_folders_are_read_in_order() -> None:
    Path("rules").mkdir()
    Path("rules/a.json").write_text(
        '[{"id": "a", "rule": "x = 1"},\n {"id": "b", "rule": "x = 2"}]'
    )
    write("rules/b.jsonl", [{"id": "c", "rule": "x >= 2"}])
    Path("rules/README.md").write_text("not rules")
    Path("events").mkdir()
    write("events/1.jsonl", [{"x": 1}])
    Path("events/2.csv").write_text("x\n2\n")
    write("more.jsonl", [{"x": 3}])
    Path("one.json").write_text('{\n  "x": 2\n}\n')
    found = parse_lines(run("match", "rules", "events", "more.jsonl", "one.json"))
    assert [(line["event"], line["rules"]) for line in found] == [
        (0, ["a"]),
        (1, ["b", "c"]),
        (2, ["c"]),
        (3, ["b", "c"]),
    ]
    two = run(
        "match", "rules/a.json", "--rules", "rules/b.jsonl", "events", "more.jsonl", "one.json"
    )
    assert parse_lines(two) == found
    write("again.jsonl", [{"id": "c", "rule": "TRUE"}])
    message = run_failing("match", "rules", "--rules", "again.jsonl", "events")
    assert message == "again.jsonl:1: rule 'c': the id is taken by rules/b.jsonl, line 1"
    run("build", "rules", "-o", "index")
    run("match", "index", "--rules", "again.jsonl", "events", code=2)
    assert "2 rules" in run("build", "rules/a.json", "-o", "other")


@pytest.mark.parametrize(
    "name", ["a.jsonl.zst", "a.json.zst", "a.json.gz", "a.jsonl.gz", "a.csv.zst"]
)
def test_compressed_files_are_read(name: str) -> None:
    text = {"jsonl": '{"x": 1}\n{"x": 5}\n', "json": '[{"x": 1}, {"x": 5}]', "csv": "x\n1\n5\n"}
    data = text[name.split(".")[1]].encode()
    codec = "gzip" if name.endswith("gz") else "zstd"
    Path(name).write_bytes(
        pa.Codec(codec).compress(data, asbytes=True) if codec == "zstd" else gzip.compress(data)
    )
    write("ones.jsonl", [{"id": "one", "rule": "x = 1"}])
    found = parse_lines(run("match", "ones.jsonl", name))
    assert [line["rules"] for line in found] == [["one"], []]
    run("match", "ones.jsonl", name, "-o", "out.jsonl.zst")
    stored = pa.input_stream("out.jsonl.zst", compression="zstd").read().decode()
    assert parse_lines(stored) == found


def test_a_zstandard_file_that_was_cut_is_reported() -> None:
    data = b"".join(b'{"x": %d}\n' % n for n in range(10_000))
    Path("cut.jsonl.zst").write_bytes(pa.Codec("zstd").compress(data, asbytes=True)[:-50])
    assert "cut.jsonl.zst" in run_failing(
        "match", "rules.jsonl", "cut.jsonl.zst", "--count", "-o", "x.csv"
    )


def test_hits_only_leaves_out_events_without_matches() -> None:
    assert [line["event"] for line in match("--hits-only")] == [0, 1, 2]
    assert match("--hits-only", "--count")[-1] == {"event": 2, "matches": 1}
    assert [line["event"] for line in match("--hits-only", "--event-id", "id")] == [
        "e1",
        "e2",
        "e3",
    ]
    run("match", "rules.jsonl", "events.jsonl", "--hits-only", "--count", "-o", "counts.csv")
    assert Path("counts.csv").read_text() == "event,matches\n0,1\n1,2\n2,1\n"


def test_a_summary_ends_the_run() -> None:
    for options, by in (([], "4 of 4"), (["--count"], "4"), (["--hits-only"], "4 of 4")):
        result = CliRunner().invoke(
            app, ["match", "rules.jsonl", "events.jsonl", "--summary", *options]
        )
        expected = f"tamis: 4 events, 3 with matches; 4 matches by {by} rules; "
        assert result.stderr.startswith(expected), result.stderr


def test_details_are_printed_beside_ids() -> None:
    owner = {"name": "Ana", "level": 3}
    write(
        "d.jsonl",
        [
            {
                "id": "r",
                "rule": "x = 1",
                "tags": ["b", "a"],
                "payload": {"title": "One", "owner": owner},
            },
            {"id": "s", "rule": "x > 0"},
        ],
    )
    write("x.jsonl", [{"x": 1}])
    (line,) = parse_lines(run("match", "d.jsonl", "x.jsonl", "--with", "title,tags,owner.name"))
    assert line["rules"] == [
        {"rule": "r", "title": "One", "tags": ["a", "b"], "owner.name": "Ana"},
        {"rule": "s", "title": None, "tags": [], "owner.name": None},
    ]
    (line,) = parse_lines(run("match", "d.jsonl", "x.jsonl", "--with", "text", "--top", "1"))
    assert line["top"][0]["text"] == "x = 1"
    run("match", "d.jsonl", "x.jsonl", "--with", "title,owner,priority", "-o", "out.csv")
    assert Path("out.csv").read_text().splitlines() == [
        "event,rule,title,owner,priority",
        '0,r,One,"{""name"":""Ana"",""level"":3}",0',
        "0,s,,,0",
    ]
    run("match", "d.jsonl", "x.jsonl", "--with", "title", "-o", "out.parquet")
    assert pq.read_table("out.parquet")["title"].to_pylist() == ["One", None]
    message = run_failing("match", "d.jsonl", "x.jsonl", "--with", "titel")
    assert message == "no rule has 'titel' in its payload; did you mean 'title'?"
    run("match", "d.jsonl", "x.jsonl", "--with", "title", "--count", code=2)
