"""Rules and events from files of every format, what is wrong with files, and what is written."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis.files import (
    Question,
    answers,
    load_rule,
    load_rules,
    open_output,
    read_event,
    read_events,
    save_rules,
)

RULES = [
    {"id": "young", "rule": "age < 20"},
    {"id": "french", "rule": "country = 'FR' AND NOT (age > 99)"},
    {"id": "named", "rule": "name IS NOT NULL", "logic": "weak"},
]
EVENTS: list[dict[str, Any]] = [
    {"age": 15, "country": "FR", "name": "Ana"},
    {"age": 40, "country": "FR", "name": None},
    {"age": 41, "country": "DE", "name": 'Bo, 5" tall'},
    {"age": None, "country": None, "name": None},
]
MATCHES = [(0, "young"), (0, "french"), (0, "named"), (1, "french"), (2, "named")]


def write_json_lines(path: Path, records: list[Any]) -> None:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_csv(path: Path, records: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for r in records for key in r)))
        writer.writeheader()
        writer.writerows(records)


def write_parquet(path: Path, records: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(records), path)


def write(path: Path, records: list[Any]) -> str:
    """Write `records` in the format that the name tells."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    writers: dict[str, Callable[[Path, list[Any]], None]] = {
        "csv": write_csv,
        "parquet": write_parquet,
    }
    writers.get(kind, write_json_lines)(path, records)
    return str(path)


def matcher_of(path: str, **options: Any) -> tamis.Matcher:
    matcher = tamis.Matcher()
    load_rules(matcher, path, **options)
    return matcher


def matches_of(matcher: tamis.Matcher, path: str) -> list[tuple[Any, Any]]:
    found = []
    for answer in answers(matcher, path, Question()):
        rows = answer.table.to_pylist()
        found += [(answer.keys[row["event"]], row["rule"]) for row in rows]
    return found


def all_events(path: str) -> object:
    return list(read_events(path))


FORMATS = ["jsonl", "ndjson", "jsonl.gz", "csv", "csv.gz", "parquet"]


@pytest.mark.parametrize("events", FORMATS)
@pytest.mark.parametrize("rules", FORMATS)
def test_every_format_gives_the_same_matches(rules: str, events: str, tmp_path: Path) -> None:
    matcher = matcher_of(write(tmp_path / f"rules.{rules}", RULES))
    assert matches_of(matcher, write(tmp_path / f"events.{events}", EVENTS)) == MATCHES


def test_a_rule_keeps_all_that_its_line_says(tmp_path: Path) -> None:
    line = {
        "id": 7,
        "rule": {"or": [{"attr": "author", "=": "Smith"}, {"attr": "price", ">": 10}]},
        "logic": "weak",
        "weights": [["author", "Smith", 2.0], ["price > 10", 0.5]],
        "payload": {"owner": ["me"]},
        "tags": ["gold"],
        "comment": "not of interest",
    }
    matcher = matcher_of(write(tmp_path / "rules.jsonl", [line]))
    rule = matcher.rule(7)
    assert str(rule) == "author = 'Smith' OR price > 10"
    assert rule.logic == "weak"
    assert rule.payload == {"owner": ["me"]}
    assert rule.tags == {"gold"}
    assert matcher.top({"author": "Smith", "price": 1}) == [(7, 2.0)]
    assert matcher.top({"author": "Jones", "price": 11}) == [(7, 0.5)]


def test_a_weight_may_be_for_a_timestamp(tmp_path: Path) -> None:
    stamp = {"timestamp": "2020-01-02T00:00:00Z"}
    line = {"id": 1, "rule": {"attr": "day", "=": stamp}, "weights": [["day", stamp, 3]]}
    matcher = matcher_of(write(tmp_path / "rules.jsonl", [line]))
    assert matcher.top({"day": date(2020, 1, 2)}) == [(1, 3.0)]


def test_tags_come_from_parquet_too(tmp_path: Path) -> None:
    rules = [{"id": 1, "rule": "TRUE", "tags": ["a", "b"]}, {"id": 2, "rule": "TRUE", "tags": None}]
    matcher = matcher_of(write(tmp_path / "rules.parquet", rules))
    assert matcher.match({}, only=tamis.tagged("b")) == [1]


def test_ids_in_csv_are_texts_and_rules_may_be_long(tmp_path: Path) -> None:
    long = "x IN (" + ", ".join(map(str, range(50_000))) + ")"
    path = write(
        tmp_path / "rules.csv", [{"id": "007", "rule": long}, {"id": "7", "rule": "a\n=1"}]
    )
    assert list(matcher_of(path)) == ["007", "7"]


def test_the_default_logic_is_for_rules_that_name_none(tmp_path: Path) -> None:
    rules = [{"id": 1, "rule": "a <> 1", "logic": "strong"}, {"id": 2, "rule": "a <> 1"}]
    for name in ("rules.jsonl", "rules.csv", "rules.parquet"):
        matcher = matcher_of(write(tmp_path / name, rules), logic="weak")
        assert [str(id) for id in matcher.match({})] == ["2"]


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    (batch,) = read_events(str(path))
    assert batch.events == [{"a": 1}, {"a": 2}]
    assert batch.numbers.tolist() == [1, 4]
    assert batch.fraction == 1.0


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    events = [{"n": n, "text": "x" * 2_500_000} for n in range(5)]
    read = [e for batch in read_events(write(tmp_path / "e.jsonl", events)) for e in batch.events]
    assert read == events


def test_an_empty_field_of_csv_is_absent_and_a_time_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("name,n,at\nx,NA,12:30\n,2,13:45:00\n")
    (batch,) = read_events(str(path))
    assert not isinstance(batch.events, list)
    assert batch.events.to_pylist() == [
        {"name": "x", "n": None, "at": "12:30"},
        {"name": None, "n": 2, "at": "13:45:00"},
    ]


def test_a_file_without_rows_is_fine(tmp_path: Path) -> None:
    matcher = matcher_of(write(tmp_path / "rules.jsonl", RULES))
    header = tmp_path / "events.csv"
    header.write_text("age,name\n")
    assert matches_of(matcher, str(header)) == []
    table = pa.table({"age": pa.array([], pa.int64())})
    pq.write_table(table, tmp_path / "events.parquet")
    assert matches_of(matcher, str(tmp_path / "events.parquet")) == []


def test_many_matches_come_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.files.match._FIRST", 4)
    monkeypatch.setattr("tamis.files.match._MATCHES", 20)
    rules = [{"id": n, "rule": "TRUE"} for n in range(10)]
    matcher = matcher_of(write(tmp_path / "rules.jsonl", rules))
    path = write(tmp_path / "events.parquet", [{"a": n} for n in range(12)])
    sizes = [len(answer.keys) for answer in answers(matcher, path, Question())]
    assert sizes == [4, 3, 3, 2]
    assert len(matches_of(matcher, path)) == 120


# What is wrong with files ---------------------------------------------------------------------


def parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"id": [str(n) for n in range(20_000)], "rule": ["TRUE"] * 20_000}), sink
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


PARQUET = parquet_bytes()
GZIPPED = gzip.compress(b'{"id": 1, "rule": "TRUE"}\n' * 5_000)

BROKEN = {
    "empty": ("f.jsonl", b"", None, "the file is empty"),
    "empty csv": ("f.csv", b"", None, "the file is empty"),
    "empty parquet": ("f.parquet", b"", None, "the file is empty"),
    "empty in gzip": ("f.jsonl.gz", gzip.compress(b""), None, "the file is empty"),
    "empty csv in gzip": ("f.csv.gz", gzip.compress(b""), None, "the file is empty"),
    "blank lines only": ("f.jsonl", b"\n \n\n", None, "the file is empty"),
    "unknown extension": ("f.json", b"{}", None, r"expected \.jsonl, \.ndjson or \.csv.*\.parquet"),
    "parquet in gzip": ("f.parquet.gz", b"{}", None, "unknown extension"),
    "no extension": ("rules", b"{}", None, "unknown extension"),
    "truncated line": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n{"id": 2, "ru', 2, "truncated"),
    "malformed line": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n\n{id: 2}\n', 3, "not valid JSON"),
    "two objects in a line": ("f.jsonl", b"{}{}\n", 1, "trailing characters"),
    "NaN": ("f.jsonl", b'{"id": NaN}\n', 1, "not valid JSON"),
    "number out of range": ("f.jsonl", b'{"id": 1e999}\n', 1, "number out of range"),
    "not UTF-8": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n{"id": "\xff"}\n', 2, "not UTF-8.*0xff"),
    "not UTF-8 at all": ("f.jsonl", b"\xff\xfe{\x00}\x00", 1, "not UTF-8"),
    "array": ("f.jsonl", b"[1, 2]\n", 1, "expected a JSON object, found an array"),
    "number": ("f.jsonl", b"12\n", 1, "expected a JSON object, found a number"),
    "null": ("f.jsonl", b"null\n", 1, "expected a JSON object, found null"),
    "nested too deep": ("f.jsonl", b'{"a":' * 100_000, 1, "nested too deep"),
    "truncated gzip": ("f.jsonl.gz", GZIPPED[:-20], None, "gzip"),
    "corrupt gzip": ("f.jsonl.gz", GZIPPED[:30] + b"?" * 30 + GZIPPED[60:], None, "gzip"),
    "no gzip": ("f.jsonl.gz", b'{"id": 1}', None, "gzip"),
    "truncated parquet": ("f.parquet", PARQUET[:-50], None, "cannot be read"),
    "corrupt parquet": ("f.parquet", PARQUET[:50] + bytes(5_000) + PARQUET[5_050:], None, "read"),
    "no parquet": ("f.parquet", b"id,rule\n", None, "cannot be read"),
    "csv not UTF-8": ("f.csv", b"id,rule\n1,a\n2,\xff\n", 3, "not UTF-8"),
    "csv header not UTF-8": ("f.csv", b"id,rule,\xff\n1,a,2\n", 1, "not UTF-8"),
    "csv row too long": ("f.csv", b'id,rule\n1,"a\n=1"\n\n2,b,c\n', 5, "2 columns"),
}


@pytest.mark.parametrize("reading", ["rules", "events"])
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    case: str, reading: str, tmp_path: Path
) -> None:
    name, data, line, message = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(data)
    matcher = tamis.Matcher()
    read = partial(load_rules, matcher) if reading == "rules" else all_events
    with pytest.raises(tamis.InputFileError, match=message) as caught:
        read(str(path))
    assert caught.value.path == str(path)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert len(matcher) == 0


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.csv", "missing.parquet", "missing"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    with pytest.raises(tamis.InputFileError, match="there is no such file") as caught:
        list(read_events(path))
    assert caught.value.path == path


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(tamis.InputFileError, match="directory"):
        load_rules(tamis.Matcher(), str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.touch(mode=0)
    with pytest.raises(tamis.InputFileError, match="Permission denied"):
        load_rules(tamis.Matcher(), str(path))


BAD_RULES = {
    "no id": ({"rule": "TRUE"}, "the rule has no 'id'"),
    "no rule": ({"id": 1}, "the rule has no 'rule'"),
    "null id": ({"id": None, "rule": "TRUE"}, "the rule has no 'id'"),
    "id of a wrong type": ({"id": 1.5, "rule": "TRUE"}, "id is a string or an integer"),
    "large id": ({"id": 2**63, "rule": "TRUE"}, "64 bits"),
    "rule of a wrong type": ({"id": 1, "rule": 5}, "rule 1: a rule is a text"),
    "wrong JSON form": ({"id": 1, "rule": {"attr": "a", "~": 1}}, "rule 1: "),
    "unknown logic": ({"id": 1, "rule": "TRUE", "logic": "fuzzy"}, "unknown logic 'fuzzy'"),
    "logic of a wrong type": ({"id": 1, "rule": "TRUE", "logic": 3}, "unknown logic 3"),
    "tags of a wrong type": ({"id": 1, "rule": "TRUE", "tags": "gold"}, "tags are a list"),
    "tag of a wrong type": ({"id": 1, "rule": "TRUE", "tags": [5]}, "a tag is a string"),
    "weights of a wrong type": ({"id": 1, "rule": "a = 1", "weights": {"a": 1}}, "weights are a"),
    "weight of a wrong form": ({"id": 1, "rule": "a = 1", "weights": [["a"]]}, r"\[attribute, val"),
    "idle weight": ({"id": 1, "rule": "a = 1", "weights": [["a", 2, 1.0]]}, "idle"),
    "negative weight": ({"id": 1, "rule": "a = 1", "weights": [["a", 1, -1]]}, "negative"),
    "weight of a wrong type": ({"id": 1, "rule": "a = 1", "weights": [["a", 1, "x"]]}, "a number"),
    "weighed twice": (
        {"id": 1, "rule": "a = 1", "weights": [["a", 1, 1], ["a", 1, 2]]},
        "weighed twice",
    ),
    "taken id": ({"id": "first", "rule": "TRUE"}, "rule 'first': the id is taken by line 1"),
    "unparsable": ({"id": 1, "rule": "a = "}, r"rule 1: .*\(at character"),
    "unknown function": ({"id": 1, "rule": "foo(a) = 1"}, "foo"),
    "NULL": ({"id": 1, "rule": "a = NULL"}, "IS NULL"),
    "large number": ({"id": 1, "rule": "a = 99999999999999999999"}, "too large"),
    "deep": ({"id": 1, "rule": "(" * 10_000 + "a = 1" + ")" * 10_000}, "nested"),
    "pattern": ({"id": 1, "rule": "a RLIKE '('"}, "invalid pattern"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_a_rule_that_is_refused_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    line, message = BAD_RULES[case]
    path = write(tmp_path / "rules.jsonl", [{"id": "first", "rule": "TRUE"}, line])
    matcher = tamis.Matcher()
    with pytest.raises(tamis.InputFileError, match=message) as caught:
        load_rules(matcher, path)
    assert (caught.value.path, caught.value.line) == (path, 2)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, tamis.RuleError)
    assert len(matcher) == 0


@pytest.mark.parametrize("case", BAD_RULES)
def test_a_rule_that_is_refused_may_be_skipped(case: str, tmp_path: Path) -> None:
    line, message = BAD_RULES[case]
    lines = [{"id": "first", "rule": "TRUE"}, line, {"id": "last", "rule": "FALSE"}]
    matcher = tamis.Matcher()
    report = load_rules(matcher, write(tmp_path / "rules.jsonl", lines), skip_bad=True)
    assert list(matcher) == ["first", "last"]
    (bad,) = report.bad
    assert bad.line == 2
    with pytest.raises(tamis.InputFileError, match=message):
        raise bad


def test_a_bad_row_of_a_table_is_named(tmp_path: Path) -> None:
    rules = [{"id": "a", "rule": "TRUE"}, {"id": "b", "rule": "x = "}]
    with pytest.raises(tamis.InputFileError, match="row 2: rule 'b'"):
        load_rules(tamis.Matcher(), write(tmp_path / "rules.parquet", rules))
    with pytest.raises(tamis.InputFileError, match="rule 'b'") as caught:
        load_rules(tamis.Matcher(), write(tmp_path / "rules.csv", rules))
    assert caught.value.line == 3


@pytest.mark.parametrize("name", ["rules.csv", "rules.parquet"])
def test_a_table_without_rules_is_told_from_one_with(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [{"id": "a", "text": "TRUE"}])
    with pytest.raises(tamis.InputFileError, match="no column 'rule'; it has id, text"):
        load_rules(tamis.Matcher(), path)


def test_an_unclosed_quote_in_csv_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text('id,rule\n1,"a = 1\n')
    with pytest.raises(tamis.InputFileError, match="malformed CSV"):
        load_rules(tamis.Matcher(), str(path))


def test_a_column_that_changes_its_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.files.events._CSV_BLOCK", 64)
    path = tmp_path / "events.csv"
    path.write_text("a,b\n" + "1,2\n" * 100 + "1,x\n")
    with pytest.raises(tamis.InputFileError, match=r"column 'b' held int64 so far.*'x'") as caught:
        list(read_events(str(path)))
    assert caught.value.line == 102


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(tamis.InputFileError, match="two columns are called 'a'"):
        list(read_events(str(path)))


def test_an_event_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    matcher = matcher_of(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a = 1"}]))
    path = write(tmp_path / "events.jsonl", [{"a": 1}, {"a": 2**70}])
    with pytest.raises(tamis.InputFileError, match=r"attribute 'a' holds 1180.*64 bits") as caught:
        matches_of(matcher, path)
    assert (caught.value.path, caught.value.line) == (path, 2)


def test_a_column_that_no_rule_can_compare_is_named(tmp_path: Path) -> None:
    matcher = matcher_of(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a = 1"}]))
    path = write(tmp_path / "events.parquet", [{"a": b"bytes"}])
    with pytest.raises(tamis.InputFileError, match="column 'a' has the type binary"):
        matches_of(matcher, path)


# One rule, one event --------------------------------------------------------------------------


def test_one_rule_is_found_whatever_the_others_are(tmp_path: Path) -> None:
    lines = [{"id": 1, "rule": "a = "}, {"id": 2, "rule": "a = 1"}, {"id": 3, "rule": "b ="}]
    path = write(tmp_path / "rules.jsonl", lines)
    matcher = tamis.Matcher()
    assert load_rule(matcher, path, "2").id == 2
    assert matcher.match({"a": 1}) == [2]
    with pytest.raises(tamis.InputFileError, match="rule 3") as caught:
        load_rule(matcher, path, "3")
    assert caught.value.line == 3
    with pytest.raises(tamis.UnknownRuleError, match=r"rules\.jsonl: there is no rule '4'"):
        load_rule(matcher, path, "4")


@pytest.mark.parametrize("name", ["events.jsonl", "events.csv", "events.parquet"])
def test_one_event_is_found_by_its_number(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, EVENTS)
    assert read_event(f"{path}:2") == EVENTS[2]
    with pytest.raises(tamis.InputFileError, match="there is no event 5"):
        read_event(f"{path}:5")


def test_one_event_may_be_given_as_text() -> None:
    assert read_event(' {"a": [1, "é"]}') == {"a": [1, "é"]}
    for text, message in {
        '{"a": ': "EVENT: not valid JSON",
        "[1]": "EVENT: expected a JSON object, found an array",
        "nothing": "an event is a JSON object, FILE:NUMBER",
        "missing.jsonl:1": r"missing\.jsonl: there is no such file",
    }.items():
        with pytest.raises(tamis.InputFileError, match=message):
            read_event(text)


# What is written ------------------------------------------------------------------------------


def write_answers(rules: str, events: str, question: Question, out: Path) -> None:
    with open_output(str(out)) as output:
        for answer in answers(matcher_of(rules), events, question):
            output.write(answer)


def written(tmp_path: Path, name: str, question: Question, rules: list[Any] = RULES) -> Path:
    path = tmp_path / name
    events = write(tmp_path / "events.jsonl", [{"key": f"e{i}", **e} for i, e in enumerate(EVENTS)])
    write_answers(write(tmp_path / "rules.jsonl", rules), events, question, path)
    assert not list(tmp_path.glob(".*"))
    return path


def json_lines(path: Path) -> list[Any]:
    data = path.read_bytes()
    return [
        json.loads(line)
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.ndjson", "out.jsonl.gz"])
def test_json_lines_have_a_line_for_each_event(name: str, tmp_path: Path) -> None:
    assert json_lines(written(tmp_path, name, Question())) == [
        {"event": 0, "rules": ["young", "french", "named"]},
        {"event": 1, "rules": ["french"]},
        {"event": 2, "rules": ["named"]},
        {"event": 3, "rules": []},
    ]


def test_counts_and_scores_as_json_lines(tmp_path: Path) -> None:
    counted = json_lines(written(tmp_path, "out.jsonl", Question("count", event_id="key")))
    assert counted[0] == {"event": "e0", "matches": 3}
    assert [line["matches"] for line in counted] == [3, 1, 1, 0]
    best = json_lines(written(tmp_path, "out.jsonl", Question("top", n=1)))
    assert best[0] == {"event": 0, "top": [{"rule": "young", "score": 1.0}]}
    assert best[3] == {"event": 3, "top": []}


def test_csv_has_a_row_for_each_match(tmp_path: Path) -> None:
    path = written(tmp_path, "out.csv", Question())
    assert path.read_text() == "event,rule\n" + "".join(f"{e},{r}\n" for e, r in MATCHES)
    with gzip.open(written(tmp_path, "out.csv.gz", Question("count")), "rt") as file:
        assert file.read() == "event,matches\n0,3\n1,1\n2,1\n3,0\n"
    path = written(tmp_path, "out.csv", Question("top", n=1, event_id="key"))
    assert path.read_text().splitlines()[:2] == ["event,rank,rule,score", "e0,1,young,1.0"]


def test_parquet_has_a_row_for_each_match(tmp_path: Path) -> None:
    table = pq.read_table(written(tmp_path, "out.parquet", Question()))
    assert table.schema.types == [pa.int64(), pa.string()]
    assert [(row["event"], row["rule"]) for row in table.to_pylist()] == MATCHES
    table = pq.read_table(written(tmp_path, "out.parquet", Question("count", event_id="key")))
    assert table.to_pydict() == {"event": ["e0", "e1", "e2", "e3"], "matches": [3, 1, 1, 0]}


def test_ids_of_both_kinds_are_kept_in_json_and_texts_in_parquet(tmp_path: Path) -> None:
    rules = [*RULES, {"id": 5, "rule": "age = 15"}]
    assert 5 in json_lines(written(tmp_path, "out.jsonl", Question(), rules))[0]["rules"]
    table = pq.read_table(written(tmp_path, "out.parquet", Question(), rules))
    assert "5" in table["rule"].to_pylist()


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.csv.gz", "out.parquet"])
def test_a_run_that_fails_leaves_the_file_as_it_was(name: str, tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.jsonl", RULES)
    # More than a block, so that something is written before the culprit is met.
    events = write(tmp_path / "events.jsonl", [*EVENTS * 30_000, "no object"])
    path = tmp_path / name
    path.write_bytes(b"as it was")
    with pytest.raises(tamis.InputFileError, match="a string"):
        write_answers(rules, events, Question(), path)
    assert path.read_bytes() == b"as it was"
    assert not list(tmp_path.glob(".*"))


def test_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, message in {
        "nowhere/out.csv": "cannot be written: No such file",
        "folder.csv": "cannot be written: this is a directory",
        "out.txt": "unknown extension",
    }.items():
        path = str(tmp_path / name)
        with pytest.raises(tamis.InputFileError, match=message) as caught, open_output(path):
            pass
        assert caught.value.path == path


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"key": "a"}, {"b": 1}], "the id 'key' of event 1 is missing"),
        ([{"key": 1.5}], "the id 'key' of event 0 is 1.5, no string or integer"),
        ([{"key": True}], "no string or integer"),
        ([{"key": "a"}, {"key": 1}], "one kind only; write JSON lines"),
    ],
)
def test_event_ids_are_checked(events: list[Any], message: str, tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "TRUE"}])
    path = write(tmp_path / "events.jsonl", events)
    with pytest.raises(tamis.InputFileError, match=message):
        write_answers(rules, path, Question(event_id="key"), tmp_path / "out.parquet")


def test_a_column_of_event_ids_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "events.parquet", [{"a": 1}])
    with pytest.raises(tamis.InputFileError, match="there is no column 'key'"):
        list(answers(tamis.Matcher(), path, Question(event_id="key")))


# Rules into files -----------------------------------------------------------------------------


def everything() -> list[tamis.Rule]:
    """Rules with all that may be said of them."""
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    model = tamis.parse("a = 1 OR NOT b IN ('x', 'y')")
    weights = {("a", 1): 2.0, ("t", moment): 0.25, "price > 10": 0.5}
    return [
        tamis.Rule("plain", "a = 1", "strong"),
        tamis.Rule(7, "state <> 'CA'", "weak", None, {"to": ["me", None]}, frozenset({"b", "a"})),
        tamis.Rule("model", model, "strong", tags=frozenset({"gold"})),
        tamis.Rule("heavy", "a = 1 AND t = DATE '2024-05-01' AND price > 10", "strong", weights),
        tamis.Rule("näme 🙂", "é = 'x'", "weak", payload=0),
    ]


@pytest.mark.parametrize("name", ["rules.jsonl", "rules.ndjson.gz"])
@pytest.mark.parametrize("stored", [False, True])
def test_rules_that_were_written_are_read_again(name: str, stored: bool, tmp_path: Path) -> None:
    matcher = tamis.Matcher()
    matcher.add_many(everything())
    if stored:
        matcher.save(tmp_path / "index")
        matcher = tamis.open(tmp_path / "index", read_only=True)
    seen: list[int] = []
    target = str(tmp_path / name)
    assert save_rules(matcher, target, watch=lambda count, _: seen.append(count)) == 5
    assert seen == [5]
    again = tamis.Matcher()
    assert load_rules(again, target).bad == []
    assert list(again) == list(matcher)
    for id in matcher:
        assert again.rule(id) == matcher.rule(id)
    event = {"a": 1, "t": datetime(2024, 5, 1, tzinfo=UTC), "price": 20, "é": "x"}
    assert again.top(event, 5) == matcher.top(event, 5)


def test_some_rules_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.files.export._RULES_A_BLOCK", 2)
    matcher = tamis.Matcher()
    matcher.add_many([(n, f"a = {n}") for n in range(5)])
    matcher.add("gold", "a = 9", tags=["gold"])

    def written(**options: Any) -> list[Any]:
        save_rules(matcher, str(tmp_path / "some.jsonl"), **options)
        lines = (tmp_path / "some.jsonl").read_text().splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert written() == [0, 1, 2, 3, 4, "gold"]
    assert written(only=[3, 0, "gold"]) == [3, 0, "gold"]
    assert written(only=tamis.tagged("gold", "x")) == ["gold"]
    assert written(only=[]) == []
    with pytest.raises(tamis.UnknownRuleError, match="'nobody'"):
        written(only=["nobody"])
    assert (tmp_path / "some.jsonl").read_text() == "", "what was there before is left alone"


def test_rules_that_are_removed_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.files.export._RULES_A_BLOCK", 2)
    matcher = tamis.Matcher()
    matcher.add_many([(n, f"a = {n}") for n in range(5)])

    def remove(count: int, fraction: float | None) -> None:
        if 3 in matcher:
            matcher.remove(3)

    target = str(tmp_path / "rules.jsonl")
    assert save_rules(matcher, target, watch=remove) == 4
    again = tamis.Matcher()
    load_rules(again, target)
    assert list(again) == list(matcher) == [0, 1, 2, 4]


@pytest.mark.parametrize("name", ["rules.csv", "rules.parquet", "rules.txt", "no/rules.jsonl"])
def test_rules_go_to_json_lines_only(name: str, tmp_path: Path) -> None:
    with pytest.raises(tamis.InputFileError, match=name):
        save_rules(tamis.Matcher(), str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
