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


# No gap of `c` lacks values, as one below '' does; where an attribute has such gaps, each code is
# looked at, and an empty range cannot be taken for one that has some.
IMPOSSIBLE = (
    "c > TRUE", "c < FALSE", "c BETWEEN TRUE AND FALSE", "c BETWEEN 5 AND 3", "c > 3 AND c <= 3",
    "c BETWEEN 'b' AND 'a'", "c BETWEEN 1 AND 'a'", "d < ''", "c IS NULL AND c > TRUE", "FALSE",
)  # fmt: skip
CERTAIN = ("NOT c > TRUE", "NOT c BETWEEN 5 AND 3", "c IS NULL OR c IS NOT NULL", "TRUE")
EXPRESSIONS = (
    "c IS NOT NULL", "c IS NOT NULL AND a = 1", "c <> 2 AND a >= 0", "c IS NULL AND a IN (1, 7)",
    "c BETWEEN 1 AND 10 AND a <> 1", "c >= 'a'", "c = TRUE AND a = 1", "c = FALSE OR a = 3",
    "c IN (TRUE, 'b', 4) AND a < 9", "a = 1 OR a = 2", "c = 4 AND a IN (1, 2) OR c = TRUE", "z = 1",
    "d IS NOT NULL AND a = 1", "d <> 'x' AND c = TRUE", "c <> 7 AND d = '' AND p0 = 1",
    "c > 3 AND c < 6 AND p0 = 1 AND p1 = 1", "c IS NOT NULL AND p0 = 1 AND p1 = 1 AND p2 = 1",
)  # fmt: skip


def test_event_expressions_find_no_rule_that_nothing_satisfies(engine: str) -> None:
    rules, expectations = _expect_of_edges()
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    for event, expected in expectations:
        assert matcher.match_expression(event) == expected
    matcher.remove_many(range(0, len(rules), 2))
    matcher.optimize()
    for event, expected in expectations:
        assert matcher.match_expression(event) == [number for number in expected if number % 2]


@cache
def _expect_of_edges() -> tuple[list[Rule], list[tuple[Expr, list[int]]]]:
    """Rules with parts that never or always hold, and the reference's answers."""
    many = " AND ".join(f"(p{i} = 1 OR q{i} > TRUE)" for i in range(3))
    shapes = (
        "{}", "NOT ({})", "a = 1 AND ({})", "a = 1 OR ({})", "c < 9 AND ({})",
        "a IN (1, 2) AND NOT ({})",
        f"{many} AND ({{}} OR a > 5) AND ({{}} OR a < 5) AND ({{}} OR a = 3) AND (a = 1 OR {{}})",
    )  # fmt: skip
    texts = [shape.replace("{}", part) for shape in shapes for part in (*IMPOSSIBLE, *CERTAIN)]
    rules = [Rule(tamis.parse(text), logic) for text in texts for logic in LOGICS]
    trees = [nnf(*rule) for rule in rules]
    expectations = []
    for event in map(tamis.parse, EXPRESSIONS):
        found = _find_by_reference(trees, event)
        assert found is not None
        expectations.append((event, found))
    shares = [len(found) / len(rules) for _, found in expectations]
    assert 0.2 < sum(shares) / len(shares) < 0.8
    return rules, expectations


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
