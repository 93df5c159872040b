"""Event expressions: the reference against all events of a small world, one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import pytest

from tamis.errors import EventError
from tamis.expr.analysis.event_expressions import Verdict, find_alternatives, stabs
from tamis.expr.evaluate import evaluate
from tamis.expr.model import LOGICS, And, Expr, Logic, Op, Or, Predicate, Value, predicates
from tamis.expr.normalize import nnf
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.grammar import parse
from tamis.expr.value_order import INTEGERS, LINES, Line
from tests import randoms
from tests.randoms import attribute

HOUR = datetime(2026, 1, 1, tzinfo=UTC)

FEW = [
    attribute("n", (1, 2, 3.5), (2**53, 2**53 + 1)),
    attribute("s", ("", "a", "a\0", "ab", "b")),
    attribute("m", (1, True, "a"), (HOUR, HOUR + timedelta(microseconds=2))),
]
"""Two or three kinds of values, some of them next to each other."""


def neighbours(value: Value) -> list[Value]:
    """The value and its nearest neighbours on both sides, as far as they can be named."""
    if isinstance(value, bool):
        return [True, False]
    if isinstance(value, int):
        double = float(value)
        near = (math.nextafter(double, -math.inf), math.nextafter(double, math.inf))
        return [value, value - 1, value + 1, *near]
    if isinstance(value, float):
        return [value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)]
    if isinstance(value, str):
        return [value, value + "\0", value + "\0\0", value + "zz", "", value[:-1]]
    if isinstance(value, LongDecimal):
        return [value, float(value)]
    step = timedelta(microseconds=1)
    return [value, value - step, value + step]


def world(of: randoms.Attribute) -> list[Value]:
    """Values of all kinds: one between any two literals, if there is one."""
    found = [near for literal in of.literals for near in neighbours(literal)]
    extremes: list[Value] = [-math.inf, math.inf, True, False, "", "\U0010ffff", 0, 5]
    return list({(type(v) is bool, v): v for v in [*found, *extremes, HOUR]}.values())


WORLD = {of.name: world(of) for of in FEW}


def some_event_satisfies(rule: Expr, logic: Logic, event: Expr) -> bool:
    """The definition, over all events of the small world."""
    names = sorted({predicate.attribute for predicate in predicates(event)})
    worlds = [[value for value in WORLD[name] if _possible(event, name, value)] for name in names]
    return any(
        evaluate(rule, dict(zip(names, values, strict=True)), logic) for values in product(*worlds)
    )


def _possible(event: Expr, name: str, value: Value) -> bool:
    """Whether a conjunction allows a value."""
    said = [p for p in predicates(event) if p.attribute == name]
    return evaluate(And(tuple(said)), {name: value})


def draw_ordered(random: Random, among: Sequence[randoms.Attribute], size: int) -> Expr:
    """A conjunction without patterns, and without IS NULL."""
    while True:
        made = randoms.conjunction(random, among, size)
        if not any(p.op.is_text or (p.op is Op.PRESENT and p.negated) for p in predicates(made)):
            return made


def verdict(
    rule: str | Expr, event: str | Expr, logic: Logic = "strong", lines: tuple[Line, ...] = LINES
) -> Verdict:
    tree = nnf(parse(rule) if isinstance(rule, str) else rule, logic)
    asked = parse(event) if isinstance(event, str) else event
    return stabs(tree, find_alternatives(asked, lambda _: lines))


@pytest.mark.parametrize("seed", range(8))
def test_conjunctions_against_all_events_of_a_small_world(seed: int) -> None:
    random = Random(seed)
    found = set()
    for _ in range(60):
        rule = draw_ordered(random, FEW[:2], random.randint(1, 4))
        event = draw_ordered(random, FEW[:2], random.randint(1, 4))
        logic = random.choice(LOGICS)
        expected = some_event_satisfies(rule, logic, event)
        assert verdict(rule, event, logic) == (Verdict.YES if expected else Verdict.NO)
        found.add(expected)
    assert found == {True, False}


@pytest.mark.parametrize("seed", range(8))
def test_trees_against_all_events_of_a_small_world(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        rule = Or(
            (
                And(
                    (
                        draw_ordered(random, FEW, 1),
                        Or((draw_ordered(random, FEW, 2), draw_ordered(random, FEW, 1))),
                    )
                ),
                draw_ordered(random, FEW, 3),
            )
        )
        event = draw_ordered(random, FEW[1:], random.randint(1, 3))
        logic = random.choice(LOGICS)
        expected = some_event_satisfies(rule, logic, event)
        assert verdict(rule, event, logic) == (Verdict.YES if expected else Verdict.NO)


@pytest.mark.parametrize(
    ("rule", "event", "matches"),
    [
        ("price < 25", "price BETWEEN 20 AND 40", True),
        ("price < 20", "price BETWEEN 20 AND 40", False),
        ("price < 25 AND price > 35", "price BETWEEN 20 AND 40", False),
        ("price = 25 AND genre = 'x'", "price BETWEEN 20 AND 40", False),
        ("price = 25 OR genre = 'x'", "price BETWEEN 20 AND 40", True),
        ("price <> 25", "price = 25", False),
        ("price <> 25", "price IN (25, 26)", True),
        ("(price = 1 OR price = 2) AND price <> 1", "price <= 1", False),
        ("price > 1 AND price < 2", "price IN (1, 2)", False),
        ("price > 1 AND price < 2", "price > 0", True),
        ("price = 'a'", "price > 0", False),
        ("a IS NULL", "b = 1", True),
        ("a IS NULL", "a = 1", False),
        ("TRUE", "a = 1", True),
        ("TRUE", "a = 1 AND a = 2", False),
        ("TRUE", "TRUE", True),
        ("TRUE", "FALSE", False),
        ("a IS NULL", "a IS NULL", True),
        ("TRUE", "a IS NULL AND a = 1", False),
        ("a = 3", "NOT (a <= 2)", True),
        ("a = 1", "NOT (a = 1 OR b = 2)", False),
        ("a = 1 AND b = 1", "a = 1 OR b = 1", False),
        ("a = 2 AND b IS NULL", "(a = 1 AND b = 1) OR a = 2", True),
        ("s LIKE 'ab%'", "s LIKE 'a%'", True),
        ("s LIKE 'ab%'", "s LIKE 'ac%'", False),
        ("s LIKE '%b'", "s IN ('a', 'ab')", True),
        ("s NOT LIKE '%b'", "s = 'ab'", False),
        ("s NOT LIKE '%b'", "s IS NOT NULL", True),
        ("s = 'ab' AND s LIKE '%b'", "s > 'a'", True),
        ("s = 'aa'", "s LIKE '%b' AND s IN ('aa', 'ab')", False),
        ("s ILIKE 'a_' AND n = 1", "s > 'a' AND n = 2", False),
    ],
)  # fmt: skip
def test_by_hand(rule: str, event: str, matches: bool) -> None:
    assert verdict(rule, event) is (Verdict.YES if matches else Verdict.NO)


def test_no_integer_lies_between_neighbours() -> None:
    rule = "n > 3 AND n < 4"
    assert verdict(rule, "n BETWEEN 0 AND 9") is Verdict.YES
    assert verdict(rule, "n BETWEEN 0 AND 9", lines=(INTEGERS,)) is Verdict.NO
    assert verdict("n > 3", "n < 4", lines=(INTEGERS,)) is Verdict.NO


def test_the_logic_decides_about_absent_attributes() -> None:
    assert verdict("state <> 'CA'", "age = 3", "strong") is Verdict.NO
    assert verdict("state <> 'CA'", "age = 3", "weak") is Verdict.YES


def test_a_pattern_on_strings_that_are_not_listed_is_unknown() -> None:
    assert verdict("s LIKE '%x%'", "s > 'a'") is Verdict.MAYBE
    assert verdict("s NOT RLIKE '^x'", "s > 'a'") is Verdict.MAYBE
    assert verdict("s LIKE '%x%' OR n = 1", "s > 'a' AND n = 1") is Verdict.YES


@pytest.mark.parametrize("event", ["s LIKE '%x%'", "s RLIKE 'x' AND s > 'a'", "NOT s ILIKE 'X'"])
def test_a_pattern_alone_is_refused_as_an_event(event: str) -> None:
    with pytest.raises(EventError, match="list those of 's' with = or IN"):
        find_alternatives(parse(event), lambda _: LINES)


def test_too_many_alternatives_are_refused() -> None:
    event = And(
        tuple(
            Or((Predicate(f"a{i}", Op.EQ, (1,)), Predicate(f"b{i}", Op.EQ, (1,))))
            for i in range(20)
        )
    )
    with pytest.raises(EventError, match="too many ORs"):
        find_alternatives(event, lambda _: LINES)


def pigeons(count: int, holes: int) -> tuple[Expr, Expr]:
    """A rule that puts each pigeon in its own hole, and an event that allows every hole."""

    def sits(pigeon: int, hole: int, value: int) -> Predicate:
        return Predicate(f"{pigeon} in {hole}", Op.EQ, (value,))

    somewhere = [Or(tuple(sits(p, h, 1) for h in range(holes))) for p in range(count)]
    alone = [
        Or((sits(p, h, 0), sits(q, h, 0)))
        for h in range(holes)
        for p in range(count)
        for q in range(p)
    ]
    places = [(p, h) for p in range(count) for h in range(holes)]
    open_ = And(tuple(Predicate(sits(p, h, 1).attribute, Op.IN, (0, 1)) for p, h in places))
    return And((*somewhere, *alone)), open_


def test_a_rule_with_too_many_ways_is_unknown() -> None:
    assert verdict(*pigeons(3, 3)) is Verdict.YES
    assert verdict(*pigeons(3, 2)) is Verdict.NO
    assert verdict(*pigeons(7, 6)) is Verdict.MAYBE
