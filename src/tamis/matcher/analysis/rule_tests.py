"""Tests that rules carry: events that a rule must match, and events that it must not match.

They stand in the rule's payload, so that every road that carries a rule carries its tests::

    {"id": "adults", "rule": "age >= 18",
     "payload": {"tests": {"must_match": [{"age": 18}], "must_not_match": [{"age": 17}, {}]}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tamis.errors import RuleError, TamisError
from tamis.expr.analysis.explain import Explanation
from tamis.expr.event import Event
from tamis.expr.html import write_box, write_table
from tamis.matcher.explainer import Explainer
from tamis.matcher.rule import Rule, RuleId

__all__ = ["RuleTest", "RuleTestFailure", "RuleTestReport", "read_tests", "run_tests"]

TESTS: Final = "tests"
_EXPECTED: Final = {"must_match": True, "must_not_match": False}


class RuleTest(NamedTuple):
    """An event, and whether the rule has to match it."""

    number: int
    """Its place in its list, from 1."""
    event: Event
    must_match: bool


class RuleTestFailure(NamedTuple):
    """A test that failed."""

    rule: RuleId
    test: RuleTest | None
    """None if the tests of the rule cannot be read."""
    explanation: Explanation | None
    """The rule's tree on the event; None if the event is refused."""
    message: str

    def __str__(self) -> str:
        tree = "" if self.explanation is None else f"\n{self.explanation}"
        return self.message + tree.replace("\n", "\n    ")


class RuleTestReport(NamedTuple):
    """The result of running the tests of rules."""

    rules: int
    """How many rules have tests."""
    tests: int
    failures: tuple[RuleTestFailure, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as dicts, lists, strings, numbers and booleans."""
        failures = [
            {
                "rule": failure.rule,
                "message": failure.message,
                "event": None if failure.test is None else dict(failure.test.event),
                "must_match": None if failure.test is None else failure.test.must_match,
                "explanation": failure.explanation and failure.explanation.to_json(),
            }
            for failure in self.failures
        ]
        return {"rules": self.rules, "tests": self.tests, "failures": failures}

    def _repr_html_(self) -> str:
        *_, title = str(self).splitlines()
        rows = [
            (
                str(one.rule),
                one.message,
                ((one.explanation and one.explanation._repr_html_()) or "").encode(),
            )
            for one in self.failures
        ]
        return write_box(title, write_table(rows, ("rule", "failure", "why")) if rows else "")

    def __str__(self) -> str:
        lines = [str(failure) for failure in self.failures]
        passed = self.tests - len(self.failures)
        lines.append(
            f"{self.rules:,} rules with tests: {passed:,} passed, {len(self.failures):,} failed"
        )
        return "\n".join(lines)


def read_tests(rule: Rule) -> list[RuleTest]:
    """Read the tests of a rule; none if its payload has none.

    Raises
    ------
    RuleError
        The tests are malformed.
    """
    payload = rule.payload
    if not isinstance(payload, Mapping) or TESTS not in payload:
        return []
    given = payload[TESTS]
    if not isinstance(given, Mapping) or not given.keys() <= _EXPECTED.keys():
        raise RuleError(
            f"the tests of {rule.id!r} are {{'must_match': [event, …], 'must_not_match': "
            f"[event, …]}}, not {_shorten(given)}",
            rule_id=rule.id,
        )
    return [
        test for name, expected in _EXPECTED.items() for test in _read_list(rule, name, expected)
    ]


def _read_list(rule: Rule, name: str, expected: bool) -> Iterator[RuleTest]:
    events = rule.payload[TESTS].get(name, [])
    if not isinstance(events, list) or not all(isinstance(event, Mapping) for event in events):
        raise RuleError(
            f"{name} of {rule.id!r} is a list of events, not {_shorten(events)}", rule_id=rule.id
        )
    for number, event in enumerate(events, 1):
        yield RuleTest(number, event, expected)


def run_tests(rules: Iterable[Rule], explainer: Explainer) -> RuleTestReport:
    """Run the tests of rules."""
    with_tests, count = 0, 0
    failures: list[RuleTestFailure] = []
    for rule in rules:
        try:
            tests = read_tests(rule)
        except RuleError as error:
            with_tests, count = with_tests + 1, count + 1
            failures.append(RuleTestFailure(rule.id, None, None, f"{rule.id}: {error}"))
            continue
        with_tests, count = with_tests + bool(tests), count + len(tests)
        failures += filter(None, (_run(rule, test, explainer) for test in tests))
    return RuleTestReport(with_tests, count, tuple(failures))


def _run(rule: Rule, test: RuleTest, explainer: Explainer) -> RuleTestFailure | None:
    name = "must_match" if test.must_match else "must_not_match"
    where = f"{rule.id}: {name} {test.number}"
    try:
        explanation = explainer.explain(rule, test.event)
    except TamisError as error:
        return RuleTestFailure(rule.id, test, None, f"{where}: the event is refused: {error}")
    if explanation.held is test.must_match:
        return None
    said = "does not match" if test.must_match else "matches"
    return RuleTestFailure(
        rule.id, test, explanation, f"{where}: the rule {said} {_shorten(test.event)}"
    )


def _shorten(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"
