"""Scores that the forms imply take no memory, and are the same to the last bit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.events import EventEncoder
from tamis.encode.ragged import narrow_starts
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.registry import ENGINES, load_engine
from tamis.expr.evaluate import score
from tamis.expr.event import flatten
from tamis.expr.model import And, Expr, Op, Or, Predicate
from tamis.expr.text.grammar import parse
from tamis.expr.weights import EventWeights, RuleWeights

EXPLICIT = {"shared"}
"""Engines that store how scores add up, and the owners of each conjunction."""

NAMES = [f"a{i}" for i in range(12)]
TENTHS = {
    (name, value): 0.1 * (i + 1) + value / 3 for i, name in enumerate(NAMES) for value in (1, 2)
}
"""Weights whose sum depends on the order of its terms."""


def single_conjunctions(random: Random, size: int) -> list[Expr]:
    """Distinct conjunctions with their atoms in any order."""
    found: dict[frozenset[Any], Expr] = {}
    while len(found) < size:
        names = random.sample(NAMES, random.randint(1, 8))
        parts = tuple(Predicate(name, Op.LE, (random.randint(1, 3),)) for name in names)
        found.setdefault(frozenset(parts), And(parts))
    return list(found.values())


def encode(rules: list[Expr], weights: dict[int, dict[Any, float]] | None = None) -> EncodedRules:
    encoder = RuleEncoder()
    for number, rule in enumerate(rules):
        encoder.add(rule, "strong", RuleWeights.of((weights or {}).get(number), rule))
    return encoder.finish()


def tops(engine: Engine, event: dict[str, Any]) -> list[tuple[int, float]]:
    rows = EventEncoder(engine.rules)
    found = engine.top(rows.encode_weighted(flatten(event), EventWeights.of(TENTHS)), 1_000)
    return list(zip(engine.order[found.rule].tolist(), found.score.tolist(), strict=True))


def rank_matches(rules: list[Expr], event: dict[str, Any]) -> list[tuple[int, float]]:
    scored = [(i, score(rule, event, event_weights=TENTHS)) for i, rule in enumerate(rules)]
    matching = [(number, points) for number, points in scored if points is not None]
    return sorted(matching, key=lambda pair: -pair[1])


def is_implied(rules: EncodedRules) -> bool:
    return not any(np.size(array) for array in rules.scores[:-1])


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_add_up_in_the_order_of_the_text(engine: str) -> None:
    random = Random(31)
    rules = single_conjunctions(random, 120)
    built = load_engine(engine)(encode(rules))
    assert is_implied(built.rules) or engine in EXPLICIT
    for _ in range(20):
        event = {name: random.choice(([1, 2], 1, 2)) for name in NAMES}
        assert tops(built, event) == rank_matches(rules, event)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_atoms_in_another_order_add_up_in_that_order(engine: str) -> None:
    random = Random(32)
    rules = single_conjunctions(random, 40)
    rules += [And(tuple(reversed(rule.children))) for rule in rules if isinstance(rule, And)]
    built = load_engine(engine)(encode(rules))
    assert not is_implied(built.rules)
    assert len(built.rules.scores.weights) == 0
    event = {name: [1, 2] for name in NAMES}
    assert tops(built, event) == rank_matches(rules, event)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_rules_may_repeat_another(engine: str) -> None:
    random = Random(33)
    rules = single_conjunctions(random, 80)
    rules += [And(tuple(reversed(rule.children))) for rule in rules[:5] if isinstance(rule, And)]
    rules.append(rules[7])
    built = load_engine(engine)(encode(rules))
    assert is_implied(built.rules) or engine in EXPLICIT
    assert len(built.rules.forms.owner) == 0 or engine in EXPLICIT
    event = {name: [1, 2] for name in NAMES}
    assert tops(built, event) == rank_matches(rules, event)


@pytest.mark.parametrize(
    ("texts", "implied"),
    [
        (["a = 1", "b = 2 AND a = 1", "TRUE"], True),
        (["b = 2 AND a = 1", "a = 1 AND c <> 3 AND b = 2"], True),
        (["a = 1", "a = 1"], False),
        (["a = 1 AND b = 2", "b = 2 AND a = 1"], False),
        (["a = 1 AND a = 1"], False),
        (["a > 1 AND a > 2"], False),
        (["a = 1 OR b = 2"], False),
        (["a = 1", "FALSE"], False),
        ([], True),
    ],
)
def test_when_scores_are_implied(texts: list[str], implied: bool) -> None:
    by_model, by_text = encode([parse(text) for text in texts]), RuleEncoder()
    for text in texts:
        by_text.add_text(text, "strong")
    assert is_implied(by_model) is is_implied(by_text.finish()) is implied


def test_weights_are_stored() -> None:
    rules: list[Expr] = [Predicate("a", Op.EQ, (1,)), Or((Predicate("b", Op.EQ, (2,)),))]
    found = encode(rules, {0: {("a", 1): 3.0}}).scores
    assert found.weight.tolist() == [3.0]
    assert (found.weights >= 0).sum() == 1


def test_expanded_scores() -> None:
    encoder = RuleEncoder()
    for text in ("b = 2 AND a = 1", "c = 3", "TRUE"):
        encoder.add_text(text, "strong")
    rules = encoder.finish()
    assert is_implied(rules)
    found = expand_scores(rules.forms, rules.scores)
    assert found.start.tolist() == [0, 3, 4, 5]
    assert found.code.tolist() == [0, 1, -5, 2, -1]
    assert expand_scores(rules.forms, found) is found


def test_more_atoms_than_32_bits_can_number_are_refused() -> None:
    assert narrow_starts(np.array([0, 2**31 - 1])).tolist() == [0, 2**31 - 1]
    with pytest.raises(OverflowError, match="two billion atoms"):
        narrow_starts(np.array([0, 2**31]))
