"""Rules that have no effect of their own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tamis
from tests import randoms


def lint(
    rules: dict[Any, Any], single_valued: bool = False, **settings: Any
) -> set[tuple[Any, ...]]:
    matcher = tamis.Matcher(**settings)
    matcher.add_many(rules)
    return {(f.kind, f.rule, f.other) for f in matcher.lint(single_valued=single_valued)}


def test_rules_that_do_not_depend_on_the_event() -> None:
    rules = {
        "fine": "a = 1",
        "never": "b = 1 AND b <> 1",
        "false": "FALSE",
        "true": "TRUE",
        "always": "c IS NULL OR c IS NOT NULL",
        "unless absent": "c = 1 OR c <> 1",
    }
    found = lint(rules)
    assert found == {
        ("never", "never", None),
        ("never", "false", None),
        ("always", "true", None),
        ("always", "always", None),
    }
    assert ("always", "unless absent", None) in lint(rules, logic="weak")


def test_contradictions_that_need_single_values() -> None:
    rules = {"r": "x > 5 AND x < 3 AND y = 1"}
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    (finding,) = matcher.lint()
    assert str(finding) == "'r' matches only events with several values of 'x'"
    (finding,) = matcher.lint(single_valued=True)
    assert str(finding) == "'r' never matches"
    assert lint(rules, schema={"x": "integer"}) == {("never", "r", None)}
    assert lint(rules, schema={"x": "integer[]"}, single_valued=False) == {("never", "r", None)}


def test_duplicates_and_subsumed_rules() -> None:
    found = lint(
        {
            "first": "a IN (1, 2) AND b = 'x'",
            "copy": "b = 'x' AND (a = 2 OR a = 1)",
            "weaker": "a IN (1, 2, 3)",
            "worded": "NOT (NOT (a = 1 AND b = 'x') AND NOT (a = 2 AND b = 'x'))",
            "apart": "c = 1",
            "narrow": "c = 1 AND d LIKE '%z%'",
            "equal to narrow": "d LIKE '%z%' AND c = 1.0",
        }
    )
    assert found == {
        ("subsumed", "first", "weaker"),
        ("duplicate", "copy", "first"),
        ("duplicate", "worded", "first"),
        ("subsumed", "narrow", "apart"),
        ("duplicate", "equal to narrow", "narrow"),
    }


def test_an_empty_matcher_has_no_findings() -> None:
    assert tamis.Matcher().lint() == []


def test_progress_is_reported() -> None:
    matcher = tamis.Matcher()
    matcher.add_many({n: f"a = {n}" for n in range(20)})
    seen: list[tuple[int, float]] = []
    assert matcher.lint(watch=lambda rules, part: seen.append((rules, part))) == []
    assert seen == sorted(seen)
    assert seen[-1] == (20, 1.0)


@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_findings_are_true(logic: str) -> None:
    random = Random(8)
    known = [*randoms.NUMBERED, *randoms.TEXTS[:1]]
    rules = {n: randoms.rule(random, known, 2) for n in range(300)}
    matcher = tamis.Matcher(logic=logic)
    matcher.add_many(rules)
    findings = matcher.lint()
    kinds = {finding.kind for finding in findings}
    assert kinds >= {"never", "duplicate", "subsumed"}
    for _ in range(300):
        event = randoms.event(random, known)
        matched = set(matcher.match(event))
        for finding in findings:
            match finding.kind:
                case "never":
                    single = all(not isinstance(item, list) for item in event.values())
                    assert finding.rule not in matched or not (
                        single or finding.message == "never matches"
                    )
                case "always":
                    assert finding.rule in matched
                case "duplicate":
                    assert (finding.rule in matched) == (finding.other in matched)
                case "subsumed":
                    assert finding.rule not in matched or finding.other in matched
