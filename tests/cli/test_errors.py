"""Wrong usage and bad input: exit codes and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import RULES, run, run_failing, write


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["match", "rules.jsonl"],
        ["match", "rules.jsonl", "events.jsonl", "--expression", "age = 3"],
        ["match", "rules.jsonl", "--expression", "age = 3", "--count"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "0"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "many"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "3", "--count"],
        ["match", "rules.jsonl", "events.jsonl", "--only", "7", "--tag", "eu"],
        ["match", "rules.jsonl", "events.jsonl", "--engine", "steam"],
        ["match", "rules.jsonl", "events.jsonl", "--logic", "fuzzy"],
        ["match", "-", "-"],
        ["export", "rules.jsonl", "--only", "7", "--tag", "x"],
        ["explain", "-", "7", "-"],
        ["explain", "rules.jsonl", "7"],
        ["match", "rules.jsonl", "events.jsonl", "-o", "rules.jsonl"],
        ["match", "rules.jsonl", "events.jsonl", "-o", "./events.jsonl"],
        ["import", "mongodb", "rules.jsonl", "-o", "rules.jsonl"],
        ["generate", "begen", "-o", "g.parquet", "--rules", "99999999999999"],
        ["generate", "begen", "-o", "g.parquet", "--events", "99999999999999999999999"],
        ["demo", "--rules", "0"],
        ["demo", "--flights", "0"],
    ],
)
def test_wrong_usage_exits_with_code_2(arguments: list[str]) -> None:
    assert run(*arguments, code=2) == ""


BAD_RULES = {
    "unparsable": ({"id": "x", "rule": "a = = 1"}, "rule 'x': "),
    "unknown function": ({"id": "x", "rule": "foo(a) = 1"}, "foo"),
    "NULL literal": ({"id": "x", "rule": "a = NULL"}, "IS NULL"),
    "number too large": ({"id": "x", "rule": "a = 99999999999999999999"}, "too large"),
    "duplicate id": ({"id": "teens", "rule": "TRUE"}, "rule 'teens': the id is taken by line 1"),
    "10,000 deep": ({"id": "x", "rule": "(" * 10_000 + "a = 1" + ")" * 10_000}, "nested"),
    "10,000 NOTs": ({"id": "x", "rule": "NOT " * 10_000 + "a = 1"}, "nested"),
    "invalid expression": ({"id": "x", "rule": "a RLIKE '(b'"}, "invalid pattern"),
    "enormous expression": ({"id": "x", "rule": "a RLIKE '((a{1000}){1000}){1000}'"}, "pattern"),
    "newline in the message": ({"id": "x\ny", "rule": "a = "}, r"rule 'x\ny': "),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_a_bad_rule_is_reported_with_file_and_line(case: str) -> None:
    rule, message = BAD_RULES[case]
    write("rules.jsonl", [*RULES, rule])
    line = run_failing("match", "rules.jsonl", "events.jsonl")
    assert line.startswith("rules.jsonl:5: ")
    assert message in line
    assert len(line) < 300


@pytest.mark.slow
def test_a_rule_with_a_million_nodes_is_reported_too() -> None:
    write("rules.jsonl", [{"id": "x", "rule": " OR ".join(["a = 1 AND b = 2"] * 350_000)}])
    line = run_failing("match", "rules.jsonl", "events.jsonl")
    assert line.startswith("rules.jsonl:1: rule 'x': the rule has more than")


BAD_EVENTS = {
    "not a mapping": (b'{"age": 1}\n[1, 2]\n', "events.jsonl:2: expected a JSON object"),
    "unsupported value": (b'{"age": 99999999999999999999}', "events.jsonl:1: attribute 'age'"),
    "not UTF-8": (b'{"age": 1}\n\n{"state": "\xff"}\n', "events.jsonl:3: not UTF-8"),
    "truncated": (b'{"age": 1}\n{"state": "N', "events.jsonl:2: not valid JSON"),
    "empty": (b"", "events.jsonl: the file is empty"),
}


@pytest.mark.parametrize("case", BAD_EVENTS)
def test_bad_events_are_reported_with_file_and_line(case: str) -> None:
    data, message = BAD_EVENTS[case]
    Path("events.jsonl").write_bytes(data)
    assert run_failing("match", "rules.jsonl", "events.jsonl").startswith(message)


def test_other_bad_input_is_reported_in_one_line() -> None:
    Path("out.csv").mkdir()
    for arguments, message in {
        ("match", "no.jsonl", "events.jsonl"): "no.jsonl: there is no such file",
        ("match", "rules.jsonl", "no.csv"): "no.csv: there is no such file",
        ("match", "rules.jsonl", "out.csv"): "out.csv: the folder has no file whose name ends in",
        ("match", "out.csv", "events.jsonl"): "out.csv: the folder has no file whose name ends in",
        ("match", "rule.jsonl", "events.jsonl"): "rule.jsonl: there is no such file; did you mean",
        ("match", "rules.jsonl", "events.jsonl", "--only", "x"): "there is no rule 'x'",
        ("match", "rules.jsonl", "events.jsonl", "-o", "out.txt"): "out.txt: unknown extension",
        ("match", "rules.jsonl", "events.jsonl", "-o", "out.csv"): "out.csv: cannot be written",
        (
            "match",
            "rules.jsonl",
            "events.jsonl",
            "-o",
            "rules.jsonl/a.csv",
        ): "rules.jsonl/a.csv: can",
        ("match", "rules.jsonl", "events.jsonl", "--event-id", "x"): "events.jsonl: the id 'x' of",
        ("explain", "rules.jsonl", "x", "{}"): "rules.jsonl: there is no rule 'x'",
        ("explain", "rules.jsonl", "7", "{"): "EVENT: not valid JSON",
        ("explain", "rules.jsonl", "7", "[]"): "EVENT: expected a JSON object",
        ("explain", "rules.jsonl", "7", "events.jsonl:9"): "events.jsonl: there is no event 9",
        ("stats", "no.jsonl"): "no.jsonl: there is no such file",
    }.items():
        assert run_failing(*arguments).startswith(message)
    assert run_failing("match", "rules.jsonl", "-", stdin="") == "<stdin>: the file is empty"
    assert run_failing("match", "rules.jsonl", "-", stdin="{}\n{").startswith("<stdin>:2: ")


def test_a_file_that_is_read_is_not_overwritten() -> None:
    Path("link.jsonl").symlink_to("events.jsonl")
    before = Path("events.jsonl").read_bytes()
    run("match", "rules.jsonl", "events.jsonl", "-o", "link.jsonl", code=2)
    run("match", "rules.jsonl", "link.jsonl", "-o", "events.jsonl", code=2)
    assert Path("events.jsonl").read_bytes() == before
    run("match", "rules.jsonl", "events.jsonl", "-o", "other.jsonl")
    run("match", "rules.jsonl", "events.jsonl", "-o", "other.jsonl")


def test_too_little_memory_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object, **__: object) -> None:
        raise MemoryError("unable to allocate 728 TiB")

    monkeypatch.setattr("tamis.cli.commands.generate.write_parquet", exhaust)
    line = run_failing("generate", "begen", "--rules", "1000", "-o", "g.parquet")
    assert line == "there is not enough memory: unable to allocate 728 TiB"
