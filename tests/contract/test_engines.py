"""What every engine must do: give the answers of `evaluate`, whatever the rules and events.

An engine joins by being registered. Each test runs a whole :class:`tamis.Matcher`, because
that is where users meet an engine: its rules come and go, single events are looked up beside
batches, and a batch may be split among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import tamis
from tamis.expr.model import (
    LOGICS,
    Expr,
    Logic,
)
from tamis.workloads.begen import Workload
from tests import randoms
from tests.contract.checking import Event, Rule, RuleId, check, events, expected_of
from tests.contract.scenarios import SCENARIOS, made
from tests.randoms import EVERYTHING, attribute

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_those_of_evaluate(engine: str, name: str) -> None:
    rules, events, expected = made(name)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    check(matcher, events, expected)


def test_one_rule_at_a_time(engine: str) -> None:
    random = Random(7)
    for number in range(60):
        rule = Rule(randoms.rule(random, EVERYTHING, depth=3), random.choice(LOGICS))
        matcher = tamis.Matcher(engine=engine, logic=rule.logic)
        matcher.add("the one", rule.expr)
        few = events(random, EVERYTHING, 6)
        check(matcher, few, expected_of({"the one": rule}, few))
        assert len(matcher) == 1, number


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


@pytest.mark.parametrize("logic", LOGICS)
def test_texts_models_and_json_are_the_same_rule(engine: str, logic: Logic) -> None:
    random = Random(11)
    exprs = [randoms.rule(random, EVERYTHING) for _ in range(80)]
    exprs += [randoms.conjunction(random, EVERYTHING, random.randint(1, 5)) for _ in range(200)]
    forms: dict[str, Callable[[Expr], Any]] = {
        "text": tamis.to_sql,
        "json": tamis.to_json,
        "model": lambda expr: expr,
    }
    matcher = tamis.Matcher(engine=engine, logic=logic)
    rules: dict[RuleId, Rule] = {}
    for form, written in forms.items():
        matcher.add_many([(f"{form} {i}", written(expr)) for i, expr in enumerate(exprs)])
        rules |= {f"{form} {i}": Rule(expr, logic) for i, expr in enumerate(exprs)}
    some = events(random, EVERYTHING, 20)
    check(matcher, some, expected_of(rules, some))


@pytest.mark.parametrize("logic", LOGICS)
def test_the_workload_of_the_paper(engine: str, logic: Logic) -> None:
    workload = Workload(size=1_000, operators="high", match_probability=0.1)
    matcher = tamis.Matcher(engine=engine, logic=logic)
    matcher.add_many(workload.rules_table())
    rules = {number: Rule(tamis.parse(text), logic) for number, text in workload.rules()}
    random = Random(12)
    some: list[Event] = [*workload.events(10)]
    some += [dict(random.sample(list(event.items()), 8)) for event in some]
    check(matcher, some, expected_of(rules, some))


def test_rules_of_one_shape(engine: str) -> None:
    """Texts that differ in their literals only take the fast road in."""
    random = Random(5)
    templates = [
        "a = {} AND b BETWEEN {} AND {}",
        "a IN ({}, {}) AND c <> {}",
        "a > {} AND a < {}",
        "NOT (a = {} OR b = {}) AND c IS NOT NULL",
        "a = {} OR b = {} OR c = {}",
    ]
    rows = [
        (number, _filled(random, template), random.choice(LOGICS))
        for number, template in enumerate(templates * 60)
    ]
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(rows)
    rules = {number: Rule(tamis.parse(text), logic) for number, text, logic in rows}
    found = events(random, [attribute(name, range(6)) for name in "abc"], 60)
    check(matcher, found, expected_of(rules, found))


def _filled(random: Random, template: str) -> str:
    return template.format(*(random.randint(0, 5) for _ in range(template.count("{}"))))
