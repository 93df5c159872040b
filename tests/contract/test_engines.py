"""Every engine must give the answers of `evaluate`, for all kinds of rules and events.

An engine joins this suite when it is registered. Each test runs a whole :class:`tamis.Matcher`, as
users do: rules are added and removed, single events and batches are matched, and a batch may be
divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest

import tamis
from tamis.engines.registry import load_engine
from tamis.expr.model import (
    LOGICS,
    Expr,
    Logic,
)
from tamis.workloads.begen import Workload
from tests import randoms
from tests.contract.checks import Event, Rule, RuleId, check, find_expected, random_events
from tests.contract.scenarios import SCENARIOS, load_scenario
from tests.randoms import EVERYTHING, attribute

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


class Case(NamedTuple):
    """Rules, events and the answers of `evaluate`, computed once for all engines."""

    rules: dict[RuleId, Rule]
    events: list[Event]
    expected: list[list[RuleId]]


def _expect(rules: dict[RuleId, Rule], events: list[Event]) -> Case:
    return Case(rules, events, find_expected(rules, events))


def test_the_registry_names_the_engine_as_it_names_itself(engine: str) -> None:
    assert load_engine(engine).name == engine


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_those_of_evaluate(engine: str, name: str) -> None:
    rules, events, expected = load_scenario(name)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    check(matcher, events, expected)


def test_one_rule_at_a_time(engine: str) -> None:
    for number, (rules, events, expected) in enumerate(_single_rules()):
        ((rule_id, rule),) = rules.items()
        matcher = tamis.Matcher(engine=engine, logic=rule.logic)
        matcher.add(rule_id, rule.expr)
        check(matcher, events, expected)
        assert len(matcher) == 1, number


@cache
def _single_rules() -> list[Case]:
    random, cases = Random(7), []
    for _ in range(60):
        rule = Rule(randoms.rule(random, EVERYTHING, depth=3), random.choice(LOGICS))
        cases.append(_expect({"the one": rule}, random_events(random, EVERYTHING, 6)))
    return cases


def test_no_rules(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    check(matcher, [{}, {"a": 1}], [[], []])
    assert matcher.top({"a": 1}, n=3) == []
    matcher.add("r", "a = 1")
    matcher.remove("r")
    check(matcher, [{}, {"a": 1}], [[], []])


def test_ids_of_either_kind(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    ids: list[RuleId] = ["1", 1, "one", -(2**63), 2**63 - 1, ""]
    matcher.add_many([(rule_id, "a = 1") for rule_id in ids])
    check(matcher, [{"a": 1}, {"a": 2}], [ids, []])


FORMS: dict[str, Callable[[Expr], Any]] = {
    "text": tamis.to_sql,
    "json": tamis.to_json,
    "model": lambda expr: expr,
}


@pytest.mark.parametrize("logic", LOGICS)
def test_texts_models_and_json_are_the_same_rule(engine: str, logic: Logic) -> None:
    rules, events, expected = _rules_in_every_form(logic)
    matcher = tamis.Matcher(engine=engine, logic=logic)
    for form, written in FORMS.items():
        matcher.add_many(
            [(id, written(rule.expr)) for id, rule in rules.items() if str(id).startswith(form)]
        )
    check(matcher, events, expected)


@cache
def _rules_in_every_form(logic: Logic) -> Case:
    random = Random(11)
    exprs = [randoms.rule(random, EVERYTHING) for _ in range(80)]
    exprs += [randoms.conjunction(random, EVERYTHING, random.randint(1, 5)) for _ in range(200)]
    rules: dict[RuleId, Rule] = {
        f"{form} {i}": Rule(expr, logic) for form in FORMS for i, expr in enumerate(exprs)
    }
    return _expect(rules, random_events(random, EVERYTHING, 20))


PAPER = Workload(size=1_000, operators="high", match_probability=0.1)


@pytest.mark.parametrize("logic", LOGICS)
def test_the_workload_of_the_paper(engine: str, logic: Logic) -> None:
    _, events, expected = _rules_of_the_paper(logic)
    matcher = tamis.Matcher(engine=engine, logic=logic)
    matcher.add_many(PAPER.rules_table())
    check(matcher, events, expected)


@cache
def _rules_of_the_paper(logic: Logic) -> Case:
    rules: dict[RuleId, Rule] = {
        number: Rule(tamis.parse(text), logic) for number, text in PAPER.rules()
    }
    random = Random(12)
    some: list[Event] = [*PAPER.events(10)]
    some += [dict(random.sample(list(event.items()), 8)) for event in some]
    return _expect(rules, some)


def test_rules_of_one_shape(engine: str) -> None:
    """Texts that differ only in their literals share a template when they are parsed."""
    rows, events, expected = _rules_of_one_shape()
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(rows)
    check(matcher, events, expected)


@cache
def _rules_of_one_shape() -> tuple[list[tuple[int, str, Logic]], list[Event], list[list[RuleId]]]:
    random = Random(5)
    templates = [
        "a = {} AND b BETWEEN {} AND {}",
        "a IN ({}, {}) AND c <> {}",
        "a > {} AND a < {}",
        "NOT (a = {} OR b = {}) AND c IS NOT NULL",
        "a = {} OR b = {} OR c = {}",
    ]
    rows = [
        (number, _fill(random, template), random.choice(LOGICS))
        for number, template in enumerate(templates * 60)
    ]
    rules = {number: Rule(tamis.parse(text), logic) for number, text, logic in rows}
    events = random_events(random, [attribute(name, range(6)) for name in "abc"], 60)
    return rows, events, find_expected(rules, events)


def _fill(random: Random, template: str) -> str:
    return template.format(*(random.randint(0, 5) for _ in range(template.count("{}"))))
