"""Finding out why rules match nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tamis.cli import app
from tests.cli.command import parse_lines, run, run_failing, write

ZERO = [{"id": "r1", "rule": "aeg = 30"}, {"id": "r2", "rule": 'country = "FR"'}]


def test_check_names_what_no_event_has() -> None:
    write("zero.jsonl", ZERO)
    assert run("check", "zero.jsonl", "events.jsonl", code=1).splitlines() == [
        "no event has 'aeg'; did you mean 'age'? (1 rule: 'r1')",
        (
            "'country' is compared with the attribute \"FR\", which no event has; "
            "a text is 'FR', in single quotes (1 rule: 'r2')"
        ),
        "0 of 2 rules can match; compared with 4 events",
    ]
    found = json.loads(run("check", "zero.jsonl", "events.jsonl", "--json", code=1))
    assert [(one["kind"], one["attribute"]) for one in found["findings"]] == [
        ("unknown", "aeg"),
        ("quoted", "country"),
    ]
    assert (found["rules"], found["events"], found["possible"]) == (2, 4, 0)


def test_check_is_content_with_rules_that_can_match() -> None:
    shown = "4 of 4 rules can match; compared with 4 events\n"
    assert run("check", "rules.jsonl", "events.jsonl") == shown
    run("build", "rules.jsonl", "-o", "index")
    assert run("check", "index", "-", stdin=Path("events.jsonl").read_text()) == shown


def test_check_reads_every_format() -> None:
    write("zero.jsonl", [{"id": "r", "rule": "age = '30'"}])
    Path("events.csv").write_text("age,country\n30,FR\n31,\n")
    pq.write_table(pa.table({"age": [30, 31]}), "events.parquet", row_group_size=1)
    for name in ("events.csv", "events.parquet"):
        assert "write 30 without quotes" in run("check", "zero.jsonl", name, code=1)
    Path("header.csv").write_text("age,country\n")
    assert "no events" in run("check", "zero.jsonl", "header.csv")


def test_match_says_on_a_terminal_that_nothing_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    write("zero.jsonl", ZERO)
    # `run` also checks that nothing is said in a pipe.
    assert len(parse_lines(run("match", "zero.jsonl", "events.jsonl"))) == 4
    monkeypatch.setattr("tamis.cli.commands.match.is_on_terminal", lambda: True)
    for option in ([], ["--count"], ["--top", "1"]):
        result = CliRunner().invoke(app, ["match", "zero.jsonl", "events.jsonl", *option])
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == 4
        totals, reason = result.stderr.splitlines()
        assert totals.startswith("tamis: 4 events, 0 with matches; 0 matches by ")
        assert reason == (
            "tamis: no rule matches any event (4 in all); find out why: "
            "tamis check zero.jsonl events.jsonl"
        )


def test_a_tag_that_no_rule_has_is_reported() -> None:
    arguments = ["match", "rules.jsonl", "events.jsonl", "--tag", "eu", "--tag"]
    assert run_failing(*arguments, "EU") == "no rule has the tag 'EU'; did you mean 'eu'?"
    assert run_failing(*arguments, "none") == "no rule has the tag 'none'"
    assert "'eU'" in run_failing("export", "rules.jsonl", "--tag", "eU")
