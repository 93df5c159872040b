"""The best rules and their scores, for every engine."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest

import tamis
from tamis.expr.evaluate import score
from tamis.expr.model import (
    LOGICS,
    Expr,
    Op,
    Value,
    predicates,
)
from tests import randoms
from tests.contract.checks import Event, Rule, RuleId, random_events
from tests.randoms import EVERYTHING

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


class Weighted(NamedTuple):
    rule: Rule
    weights: dict[Any, float] | None


class Question(NamedTuple):
    event: Event
    weights: dict[tuple[str, Value], float]
    best: list[tuple[RuleId, float]]
    """What is expected without weights of the event."""
    weighted_best: list[tuple[RuleId, float]]


WEIGHTS = (0, 0.1, 0.3, 0.5, 1, 2, 10)


@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize("n", [1, 4, 1_000])
def test_the_best_rules_are_those_of_the_definition(engine: str, count: int, n: int) -> None:
    rules, questions = _expect(count)
    matcher = tamis.Matcher(engine=engine)
    for number, (rule, weights) in rules.items():
        matcher.add(number, rule.expr, logic=rule.logic, weights=weights)
    for event, event_weights, best, weighted_best in questions:
        assert matcher.top(event, n=n) == best[:n]
        assert matcher.top(event, n=n, weights=event_weights) == weighted_best[:n]
    found = matcher.top_many([question.event for question in questions], n=n)
    columns = [found[name].to_pylist() for name in ("event", "rank", "rule", "score")]
    assert list(zip(*columns, strict=True)) == [
        (number, rank, rule_id, points)
        for number, question in enumerate(questions)
        for rank, (rule_id, points) in enumerate(question.best[:n], 1)
    ]


def test_equal_scores_keep_the_order_of_addition(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    ids = list(range(200))
    Random(3).shuffle(ids)
    matcher.add_many([(rule_id, "a = 1") for rule_id in ids])
    assert matcher.top({"a": 1}, n=150) == [(rule_id, 1.0) for rule_id in ids[:150]]


def test_a_score_sums_values_and_takes_the_best_branch(engine: str) -> None:
    """Scores computed by hand, so that the test does not rely on the reference alone."""
    matcher = tamis.Matcher(engine=engine)
    weights = {("a", 1): 2.0, ("a", 2): 3.0, "b > 5": 4.0}
    matcher.add("and", "a IN (1, 2, 3) AND b > 5", weights=weights)
    matcher.add("or", "a = 1 OR b > 5", weights={("a", 1): 2.0, "b > 5": 4.0})
    matcher.add("not", "a <> 9 AND NOT b < 5", weights=None)
    event = {"a": [1, 2], "b": 7}
    assert matcher.top(event, n=5) == [("and", 9.0), ("or", 4.0), ("not", 0.0)]
    event_weights = {("a", 2): 10.0, ("b", 7): 0.5}
    assert matcher.top(event, n=2, weights=event_weights) == [("and", 34.0), ("or", 2.0)]


@cache
def _expect(count: int) -> tuple[dict[RuleId, Weighted], list[Question]]:
    """Rules, events and the definition's answers, computed once for all engines."""
    random = Random(count)
    rules: dict[RuleId, Weighted] = {}
    for number in range(count):
        rule = Rule(_scored_rule(random), random.choice(LOGICS))
        weights = _rule_weights(random, rule.expr) if random.random() < 0.6 else None
        rules[number] = Weighted(rule, weights)
    questions = []
    for event in random_events(random, EVERYTHING, 25):
        weights = _event_weights(random, event)
        bests = _best(rules, event, None), _best(rules, event, weights)
        questions.append(Question(event, weights, *bests))
    return rules, questions


def _scored_rule(random: Random) -> Expr:
    if random.random() < 0.5:
        return randoms.predicate(random, EVERYTHING)
    return randoms.rule(random, EVERYTHING, 3)


def _rule_weights(random: Random, expr: Expr) -> dict[Any, float]:
    weights: dict[Any, float] = {}
    for leaf in predicates(expr):
        if leaf.op in (Op.EQ, Op.IN):
            for value in leaf.values:
                if random.random() < 0.7:
                    weights[leaf.attribute, value] = random.choice(WEIGHTS)
        elif random.random() < 0.7:
            weights[leaf.positive] = random.choice(WEIGHTS)
    return weights


def _event_weights(random: Random, event: Event) -> dict[tuple[str, Value], float]:
    return {
        (of.name, value): random.choice(WEIGHTS)
        for of in EVERYTHING
        for value in random.sample(list(of.values), 2)
    }


def _best(
    rules: dict[RuleId, Weighted], event: Event, event_weights: Any
) -> list[tuple[RuleId, float]]:
    """All matching rules by falling score; sorting is stable, so ties keep their order."""
    scores = [
        (rule_id, score(rule.expr, event, rule.logic, weights, event_weights))
        for rule_id, (rule, weights) in rules.items()
    ]
    matching = [(rule_id, points) for rule_id, points in scores if points is not None]
    return sorted(matching, key=lambda pair: -pair[1])
