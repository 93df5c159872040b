"""60 recorded tests of Mustang: their steps, and its answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.importers import mustang, paths_of, widened
from tamis.matcher.rule import Rule

NO_MATCH = -1.0
"""Mustang's score of a criteria that does not match."""


@pytest.fixture(scope="module")
def cases(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "mustang_cases.json.gz", "rt", encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)["cases"]
    return found


def read_rule(criteria: dict[str, Any]) -> Rule:
    imported = mustang.read([criteria])
    assert not imported.refused, imported.refused
    return imported.rules[0]


class Replay:
    """Repeats a test of Mustang, with a Matcher for each index."""

    def __init__(self) -> None:
        self.indexes: dict[str, tamis.Matcher] = {}

    def run(self, step: dict[str, Any]) -> Any:
        """Run a step, and return the result as the recording writes it."""
        event: dict[str, Any] = step.get("event", {})
        match step["op"]:
            case "add":
                return self.add(step["index"], [step["criteria"]])
            case "add_all":
                return self.add(step["index"], step["criterias"])
            case "update":
                self.indexes[step["index"]].add_many([read_rule(step["criteria"])], replace=True)
            case "replace_index":
                self.indexes[step["old"]] = self.indexes.pop(step["new"])
            case "search" | "scan" | "search_top_n":
                return self.find(step["index"], event, step.get("n"))
            case "evaluate" | "debug":
                rule = read_rule(step["criteria"])
                return tamis.evaluate(rule.expr, widen(event, [rule]), "weak")
            case "score":
                return score(read_rule(step["criteria"]), event)
        return None

    def add(self, index: str, criterias: list[dict[str, Any]]) -> Any:
        matcher = self.indexes.setdefault(index, tamis.Matcher(engine="scan"))
        imported = mustang.read(criterias)
        if imported.refused:
            assert "is taken" in imported.refused[0].reason
            return "INDEX_GENERATION_ERROR"
        matcher.add_many(imported.rules)
        return None

    def find(self, index: str, event: dict[str, Any], n: int | None) -> Any:
        if index not in self.indexes:
            return "INDEX_NOT_FOUND"
        matcher = self.indexes[index]
        known = widen(event, [matcher.rule(id) for id in matcher])
        if n is None:
            return sorted(map(str, matcher.match(known)))
        return [id for id, _ in matcher.top(known, n)]


def widen(event: dict[str, Any], rules: list[Rule]) -> dict[str, Any]:
    return widened(event, paths_of(rules))


def score(rule: Rule, event: dict[str, Any]) -> float:
    matcher = tamis.Matcher(engine="scan")
    matcher.add_many([rule])
    found = matcher.top(event, 1)
    return found[0][1] if found else NO_MATCH


def recorded_answer(step: dict[str, Any]) -> Any:
    """The recorded answer of Mustang."""
    if "error" in step:
        return step["error"]
    result: Any = step.get("result")
    if step["op"] == "debug":
        return result["result"]
    return sorted(result) if step["op"] in ("search", "scan") else result


def test_answers_are_those_of_mustang(cases: list[dict[str, Any]]) -> None:
    different = {}
    answers = 0
    for case in cases:
        replay = Replay()
        for number, step in enumerate(case["steps"]):
            found, expected = replay.run(step), recorded_answer(step)
            answers += expected is not None
            if found != expected:
                different[case["test"], number] = (found, expected)
    assert (len(cases), answers) == (60, 75)
    assert different == {}


NOT_WRITTEN = {"bin", "year"}
"""Functions with an operation in Mustang that we do not write."""


def test_criteria_are_the_same_after_reading_and_writing(cases: list[dict[str, Any]]) -> None:
    written = 0
    for case in cases:
        steps = case["steps"]
        events = [step["event"] for step in steps if "event" in step]
        criterias = [step["criteria"] for step in steps if "criteria" in step]
        for criteria in criterias:
            rule = read_rule(criteria)
            if any(f"{function}(" in rule.text for function in NOT_WRITTEN):
                continue
            again = read_rule(mustang.write(rule))
            assert again.weights == rule.weights
            for event in events:
                known = widen(event, [rule])
                held = tamis.evaluate(rule.expr, known, "weak")
                assert tamis.evaluate(again.expr, known, "weak") == held
            written += 1
    assert written > 100
