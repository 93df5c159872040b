"""Importing rules of other systems from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import tamis
from tamis.cli import app
from tamis.files import load_rules


def import_rules(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["import", *arguments])


def test_import_writes_rules_and_names_the_others() -> None:
    Path("conditions.json").write_text('{"a": {"x": {"$gt": 3}}, "b": {"x": {"$near": 1}}}')
    done = import_rules("growthbook", "conditions.json", "-o", "rules.jsonl")
    assert done.exit_code == 0
    assert done.stdout == "1 rules taken, 1 not; in rules.jsonl\n"
    assert done.stderr.startswith(
        "tamis: not taken: conditions.json: b: rule 'b': the operator $near"
    )
    matcher = tamis.Matcher(engine="scan")
    load_rules(matcher, "rules.jsonl")
    assert matcher.match({"x": 4}) == ["a"]


def test_standard_output_has_only_the_rules() -> None:
    Path("patterns.jsonl").write_text('{"id": "a", "pattern": {"x": ["y"]}}\n')
    done = import_rules("eventbridge", "patterns.jsonl")
    assert json.loads(done.stdout) == {
        "id": "a",
        "rule": {"attr": "x", "=": "y"},
        "logic": "strong",
    }
    assert done.stderr == "1 rules taken, 0 not\n"


def test_strict_writes_nothing_if_a_rule_is_refused() -> None:
    Path("rules.json").write_text(
        '{"a": {"==": [{"var": "x"}, 3]}, "b": {"===": [{"var": "x"}, 3]}}'
    )
    done = import_rules("jsonlogic", "rules.json", "-o", "out.jsonl", "--strict")
    assert done.exit_code == 1
    assert "1 rules were not taken" in done.stderr
    assert not Path("out.jsonl").exists()
    done = import_rules("jsonlogic", "rules.json", "-o", "out.jsonl", "--strict", "--typed")
    assert done.exit_code == 0
    assert len(Path("out.jsonl").read_text().splitlines()) == 2


CRITERIA = {
    "form": "DNF",
    "id": "first",
    "conjunctions": [{"predicates": [{"type": "INCLUDED", "lhs": "$.l[0]", "values": [3]}]}],
}


def test_events_are_extended_with_the_values_at_paths() -> None:
    Path("criteria.jsonl").write_text(json.dumps(CRITERIA))
    Path("events.jsonl").write_text('{"l": [3, 4]}\n{"l": [4, 3]}\n{}\n')
    done = import_rules("mustang", "criteria.jsonl", "-o", "rules.jsonl")
    assert "events need a value for '$.l[0]'" in done.stderr
    done = import_rules(
        *("mustang", "criteria.jsonl", "-o", "rules.jsonl"),
        *("--events", "events.jsonl", "--events-output", "wide.jsonl"),
    )
    assert done.exit_code == 0
    assert not done.stderr
    matcher = tamis.Matcher(engine="scan")
    load_rules(matcher, "rules.jsonl")
    wide = [json.loads(line) for line in Path("wide.jsonl").read_text().splitlines()]
    assert [matcher.match(event) for event in wide] == [["first"], [], []]


@pytest.mark.parametrize(
    "arguments",
    [
        ("unheard-of", "x.json"),
        ("mongodb", "x.json", "--typed"),
        ("mongodb", "x.json", "--pipeline", "p"),
        ("mongodb", "x.json", "--zone", "Asia/Kolkata"),
        ("mustang", "x.json", "--events", "e"),
    ],
)
def test_options_of_other_systems_are_refused(arguments: tuple[str, ...]) -> None:
    assert import_rules(*arguments).exit_code == 2


@pytest.mark.parametrize("text", ["{", "3", ""])
def test_unreadable_files_are_named(text: str) -> None:
    Path("x.json").write_text(text)
    done = import_rules("mongodb", "x.json")
    assert done.exit_code == 1
    assert "x.json" in done.stderr
    assert import_rules("mongodb", "nowhere.json").exit_code == 1
