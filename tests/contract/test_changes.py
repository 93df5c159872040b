"""Rules are added and removed between matches, for every engine."""

from __future__ import annotations

from random import Random

import pytest

import tamis
from tamis.expr.model import (
    LOGICS,
)
from tests import randoms
from tests.contract.checks import Rule, RuleId, check, find_expected
from tests.randoms import EVERYTHING
from tests.thorough import share

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


EXPECTED_AFTER: dict[tuple[int, int], list[list[RuleId]]] = {}
"""The expected answers after each step of each seed, computed once for all engines."""


@pytest.mark.parametrize("seed", range(2))
def test_adds_removes_and_replaces_between_matches(engine: str, seed: int) -> None:
    random = Random(seed)
    matcher = tamis.Matcher(engine=engine)
    shadow: dict[RuleId, Rule] = {}
    for step in range(share(engine, 100, 40)):
        _change(random, matcher, shadow, step)
        assert len(matcher) == len(shadow)
        few = [randoms.event(random, EVERYTHING) for _ in range(2)]
        if (seed, step) not in EXPECTED_AFTER:
            EXPECTED_AFTER[seed, step] = find_expected(shadow, few)
        check(matcher, few, EXPECTED_AFTER[seed, step])
    assert len(shadow) > 64, "so few rules never leave the tail"
    for rule_id in list(shadow):
        assert rule_id in matcher
        matcher.remove(rule_id)
    assert len(matcher) == 0
    check(matcher, [{}, {"n": 1}], [[], []])


def _change(random: Random, matcher: tamis.Matcher, shadow: dict[RuleId, Rule], step: int) -> None:
    """Apply a random change to the matcher and to its shadow."""
    choice = random.random()
    if choice < 0.3 and shadow:
        for rule_id in random.sample(list(shadow), min(len(shadow), random.choice((1, 1, 10)))):
            matcher.remove(rule_id)
            del shadow[rule_id]
            assert rule_id not in matcher
        return
    taken = list(shadow)
    replace = choice < 0.5 and bool(taken)
    count = random.choice((1, 1, 2, 5, 5, 30, 100))
    ids = (
        random.sample(taken, min(count, len(taken)))
        if replace
        else [random.choice((f"{step}.{i}", 1_000 * step + i)) for i in range(count)]
    )
    added = {
        rule_id: Rule(randoms.rule(random, EVERYTHING, 3), random.choice(LOGICS)) for rule_id in ids
    }
    if len(added) == 1:
        ((rule_id, rule),) = added.items()
        matcher.add(rule_id, rule.expr, logic=rule.logic, replace=replace)
    else:
        matcher.add_many([(rule_id, *rule) for rule_id, rule in added.items()], replace=replace)
    for rule_id in added:
        shadow.pop(rule_id, None)  # a replaced rule counts as new
    shadow.update(added)
