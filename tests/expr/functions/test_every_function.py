"""Every function of the language, in many rules of each shape: a matcher agrees with `evaluate`.

Rules that differ in their literals only share a template (:mod:`tamis.expr.text.shapes`), which
must not depend on what the literals are. The functions come from their registries, so that a new
one is tested without being listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeAlias

import pytest

import tamis
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import ALIASES, COMPARISONS, FUNCTIONS, SIGNS
from tamis.expr.functions.terms import SIZE
from tamis.expr.model import LOGICS, Expr

NAMES = [*FUNCTIONS, *ALIASES, *CONDITIONS, SIZE]
ATTRIBUTES = ["a", "b", "c.d"]

Kind: TypeAlias = Callable[[Random], str]
"""Draws a literal; all literals of a kind leave the same shape."""

WORDS = ["", "a", "ab", "Ab", "b", "a%", "a_b", "%", "\\", "5", "1.2", "1.10", "1.2-rc1", "2.0.0"]
ADDRESSES = ["10.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fe80::1"]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/24", "::/0", "10.0.0.1"]
TIMES = ["2024-02-29", "2024-02-29 12:30:00", "1969-12-31 23:59:59", "2024-03-01"]
ZONES = ["UTC", "Asia/Kolkata", "America/New_York"]
TIME_PATTERNS = ["yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy"]

NUMBERS: list[Kind] = [
    lambda random: str(random.choice([0, 1, 2, 3, 5, 12, 52, 75, 175])),
    lambda random: f"-{random.choice([0, 1, 2, 3, 5, 12, 52, 75, 175])}",
    lambda random: str(random.choice([0.0, 0.5, 1.0, 2.0, 14.5, 53.25, 170.5])),
    lambda random: f"-{random.choice([0.0, 0.5, 1.0, 2.0, 14.5, 53.25, 170.5])}",
]
STRINGS: list[Kind] = [
    lambda random, texts=texts: f"'{random.choice(texts)}'"  # type: ignore[misc]  # bound here
    for texts in (WORDS, ADDRESSES, NETWORKS, TIMES, ZONES, TIME_PATTERNS)
]
OTHERS: list[Kind] = [
    lambda random: random.choice(["TRUE", "FALSE"]),
    lambda random: f"TIMESTAMP '{random.choice(TIMES)}'",
]
KINDS = [NUMBERS, STRINGS, [*NUMBERS, *STRINGS, *OTHERS]]
COMPARED = ["{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} IN ({}, {})", "{} BETWEEN {} AND {}"]
COMPARED += ["{} LIKE {}", "{} IS NULL"]
WRAPPED = ["{}", "NOT ({})", "NOT ({} AND e > {})", "{} AND e > {}", "({} OR e = {}) AND f IS NULL"]
RULES_OF_A_SHAPE = 3
SHAPES = 10
"""How many shapes of valid rules each function is tested in."""


def condition_form(random: Random, function: str) -> str:
    """A condition that calls a function, with ``{}`` for each literal."""
    first, second, third = random.sample(ATTRIBUTES, 3)
    if function in CONDITIONS:
        terms = ", ".join((first, second, third)[: len(CONDITIONS[function].takes)])
        count = CONDITIONS[function].literals
        listed = ", ".join(["{}"] * (count or random.randint(1, 3)))
        return f"{function}({terms}, {listed if count else f'({listed})'})"
    compared = random.choice(COMPARED)
    second = random.choice([second, "{}"])
    if function in COMPARISONS:
        return f"{first} {function} {second}"
    if function in SIGNS:
        return compared.replace("{}", f"{first} {function} {second}", 1)
    known = FUNCTIONS.get(ALIASES.get(function, function))
    literals = 0 if known is None else random.randint(known.required, len(known.literals))
    arguments = [first, *["{}"] * literals]
    return compared.replace("{}", f"{function}({', '.join(arguments)})", 1)


def rules_of_one_shape(random: Random, function: str) -> list[tuple[str, Expr]]:
    """Texts of the same shape and their rules; fewer than wanted if the language refuses some."""
    form = random.choice(WRAPPED).replace("{}", condition_form(random, function), 1)
    pool = random.choice(KINDS)
    kinds = [random.choice(pool) for _ in range(form.count("{}"))]
    found = []
    for _ in range(RULES_OF_A_SHAPE):
        text = form.format(*[kind(random) for kind in kinds])
        try:
            found.append((text, tamis.parse(text)))
        except tamis.RuleError:
            continue
    return found


def rules_of(random: Random, function: str) -> list[tuple[str, Expr]]:
    found: list[tuple[str, Expr]] = []
    shapes = 0
    for _ in range(3000):
        some = rules_of_one_shape(random, function)
        if len(some) > 1:
            found += some
            shapes += 1
            if shapes == SHAPES:
                return found
    pytest.fail(f"{function} takes hardly any literal of this test; add some that it takes")


def make_event(random: Random) -> dict[str, Any]:
    values: list[Any] = [0, 1, 2, 3.5, 5, 13, 52.5, 53, 160, -1, -2.5, -74, -175, True]
    values += [*WORDS, *ADDRESSES, *TIMES, datetime(2024, 2, 29, 12, 30, tzinfo=UTC)]
    numbers: list[Any] = [value for value in values if not isinstance(value, str | bool | datetime)]
    event: dict[str, Any] = {}
    pools: list[list[Any]] = [values, numbers, numbers, WORDS, ADDRESSES, TIMES]
    pool = random.choice(pools)
    for name in [*ATTRIBUTES, "e", "f"]:
        choice = random.random()
        if choice < 0.75:
            event[name] = random.choice(pool)
        elif choice < 0.9:
            event[name] = random.choices(pool, k=random.randint(1, 3))
    return event


@pytest.mark.parametrize("one_by_one", [True, False])
def test_every_function_in_rules_of_the_same_shapes(one_by_one: bool) -> None:
    random = Random(15)
    assert {*FAMILIES} <= {*CONDITIONS}
    texts = [pair for function in NAMES for pair in rules_of(random, function)]
    rules = [(id, *pair, random.choice(LOGICS)) for id, pair in enumerate(texts)]
    events = [make_event(random) for _ in range(100)]
    wanted = [
        [id for id, _, rule, logic in rules if tamis.evaluate(rule, event, logic)]
        for event in events
    ]
    m = tamis.Matcher()
    if one_by_one:
        for id, text, _, logic in rules:
            m.add(id, text, logic=logic)
    else:
        m.add_many([(id, text, logic) for id, text, _, logic in rules])

    def check() -> None:
        for event, ids in zip(events, wanted, strict=True):
            found = m.match(event)
            wrong = [(text, id in ids) for id, text, _, _ in rules if (id in found) != (id in ids)]
            assert not wrong, f"on {event}, these rules and whether they hold: {wrong}"

    check()
    m.optimize()
    check()


def test_a_box_across_the_180th_meridian_beside_one_that_is_not() -> None:
    m = tamis.Matcher()
    m.add(1, "within_box(lat, lon, 52, 13, 53, 14.5)")
    m.add(2, "within_box(lat, lon, 50, 13, 54, 15.5)")
    m.add(3, "within_box(lat, lon, 50, 170, 54, -170)")
    m.add(4, "within_box(lat, lon, 50, 170, 54, -175)")
    assert m.match({"lat": 52.5, "lon": -74}) == []
    assert m.match({"lat": 52.5, "lon": 14}) == [1, 2]
    assert m.match({"lat": 52.5, "lon": -172}) == [3]
