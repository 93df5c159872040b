"""Every engine must give the answers of `evaluate`, for all kinds of rules and events.

An engine joins this suite when it is registered. Each test runs a whole :class:`tamis.Matcher`, as
users do: rules are added and removed, single events and batches are matched, and a batch may be
divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

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


def test_the_registry_names_the_engine_as_it_names_itself(engine: str) -> None:
    assert load_engine(engine).name == engine


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_those_of_evaluate(engine: str, name: str) -> None:
    rules, events, expected = load_scenario(name)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    check(matcher, events, expected)


def test_one_rule_at_a_time(engine: str) -> None:
    random = Random(7)
    for number in range(60):
        rule = Rule(randoms.rule(random, EVERYTHING, depth=3), random.choice(LOGICS))
        matcher = tamis.Matcher(engine=engine, logic=rule.logic)
        matcher.add("the one", rule.expr)
        few = random_events(random, EVERYTHING, 6)
        check(matcher, few, find_expected({"the one": rule}, few))
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
    some = random_events(random, EVERYTHING, 20)
    check(matcher, some, find_expected(rules, some))


@pytest.mark.parametrize("logic", LOGICS)
def test_the_workload_of_the_paper(engine: str, logic: Logic) -> None:
    workload = Workload(size=1_000, operators="high", match_probability=0.1)
    matcher = tamis.Matcher(engine=engine, logic=logic)
    matcher.add_many(workload.rules_table())
    rules = {number: Rule(tamis.parse(text), logic) for number, text in workload.rules()}
    random = Random(12)
    some: list[Event] = [*workload.events(10)]
    some += [dict(random.sample(list(event.items()), 8)) for event in some]
    check(matcher, some, find_expected(rules, some))


def test_rules_of_one_shape(engine: str) -> None:
    """Texts that differ only in their literals share a template when they are parsed."""
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
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(rows)
    rules = {number: Rule(tamis.parse(text), logic) for number, text, logic in rows}
    found = random_events(random, [attribute(name, range(6)) for name in "abc"], 60)
    check(matcher, found, find_expected(rules, found))


def _fill(random: Random, template: str) -> str:
    return template.format(*(random.randint(0, 5) for _ in range(template.count("{}"))))
