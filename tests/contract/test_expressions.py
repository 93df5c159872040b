"""Event expressions match as in the reference, for every engine."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

import tamis
from tamis.expr.analysis.event_expressions import Verdict, find_alternatives, stabs
from tamis.expr.model import (
    LOGICS,
    And,
    Expr,
    Or,
)
from tamis.expr.normalize import nnf
from tamis.expr.value_order import LINES
from tests import randoms
from tests.contract.checks import Rule
from tests.randoms import attribute

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


ATTRIBUTES = [
    attribute("n", (1, 2, 3, 3.5, 7)),
    attribute("s", ("", "a", "ab", "b")),
    attribute("mixed", (1, 2), (True,), ("a", "b"), randoms.TIMESTAMPS[2:4]),
    attribute("small", (1, 2, 3)),
]


def test_event_expressions_match_as_the_reference_says(engine: str) -> None:
    rules, expectations = _expect()
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules[:-1])])
    matcher.add(len(rules) - 1, rules[-1].expr)
    for event, expected in expectations:
        if expected is None:
            with pytest.raises(tamis.EventError):
                matcher.match_expression(event)
        else:
            assert matcher.match_expression(event) == expected


@cache
def _expect() -> tuple[list[Rule], list[tuple[Expr, list[int] | None]]]:
    """Rules, event expressions and the reference's answers, computed once for all engines."""
    random = Random(21)
    rules = [
        Rule(randoms.conjunction(random, ATTRIBUTES, random.randint(1, 4)), random.choice(LOGICS))
        for _ in range(250)
    ]
    rules += [Rule(randoms.rule(random, ATTRIBUTES, 3), random.choice(LOGICS)) for _ in range(100)]
    rules += [Rule(_past_the_budget(random), "strong") for _ in range(10)]
    rules.append(Rule(tamis.parse("n > 2 AND n < 3"), "strong"))
    trees = [nnf(*rule) for rule in rules]
    events = [randoms.conjunction(random, ATTRIBUTES, random.randint(1, 5)) for _ in range(60)]
    expectations = [(event, _find_by_reference(trees, event)) for event in events]
    shares = [len(found) / len(trees) for _, found in expectations if found is not None]
    assert len(shares) > 20
    assert 0.05 < sum(shares) / len(shares) < 0.8
    return rules, expectations


def _past_the_budget(random: Random) -> Expr:
    pairs = [
        Or((randoms.predicate(random, ATTRIBUTES[:1]), randoms.predicate(random, ATTRIBUTES[2:])))
        for _ in range(9)
    ]
    return And(tuple(pairs))


def _find_by_reference(trees: list[Expr], event: Expr) -> list[int] | None:
    """The rules that the reference finds; None if it cannot decide."""
    try:
        among = find_alternatives(event, lambda _: LINES)
    except tamis.EventError:
        return None
    verdicts = [stabs(tree, among) for tree in trees]
    if Verdict.MAYBE in verdicts:
        return None
    return [rule for rule, verdict in enumerate(verdicts) if verdict is Verdict.YES]
