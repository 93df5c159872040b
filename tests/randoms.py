"""Seeded random rules and events, for tests that need thousands of them at once.

Rules and events draw from the same small pools, so that many predicates hold. A test passes its own
``random.Random(seed)``; the seed reproduces a failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

from tamis.expr.event import kind_of
from tamis.expr.model import (
    FALSE,
    TRUE,
    And,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    value_of_literal,
)

INTEGERS = (-(2**53) + 1, -3, -1, 0, 1, 2, 3, 4, 5, 7, 100, 2**31, 2**53 - 1)
HUGE_INTEGERS = (
    -(2**63), -(2**63) + 1, -(2**53) - 1, -(2**53), 0, 1,
    2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 2, 2**63 - 1,
)  # fmt: skip
UNSIGNED = (2**63, 2**63 + 1, 2**64 - 1025, 2**64 - 1)
DOUBLES = (-1e300, -2.5, -1.0, -0.0, 0.0, 5e-324, 0.1, 0.5, 1.0, 2.0, 2.5, 3.75, 100.0, 1e300)
HUGE_DOUBLES = (-(2.0**63), -(2.0**53), 2.0**53, 2.0**53 + 2, 2.0**63, 1e19)
DECIMALS = tuple(
    value_of_literal(Decimal(text))
    for text in (
        "-0.1", "0.1", "0.5", "9.99", "0.10000000000000000001", "0.1000000000000000055", "1E-30",
        "1.000000000931322574615478515625", "9007199254740992.5", "9007199254740993.5",
        "9223372036854775807.5", "9223372036854775808.5", "18446744073709551615.25",
        "1" + "0" * 37, "-99999999999999999999999999999999999999", "12345678901234567890123456789",
        "12345678901234567890123456789.5",
    )
)  # fmt: skip
"""Some are doubles or integers; the others lie between them."""
STRINGS = (
    "", "a", "A", "ab", "aB", "AB", "b", "ba", "aab", "a b", "a\nb", "a%b", "a_b", "a.b",
    "é", "É", "eé", "ß", "ẞ", "İ", "i", "\u0131", "Σ", "σ", "ς", "k", "\u212a", "🙂", "a🙂b",
    "it's", 'say "a"', "back\\slash", "5", "true", "zzz",
)  # fmt: skip
REGEXES = (
    "a", "^a", "b$", "^$", "a.b", "a.?b", "[a-c]+", "^[^a]*$", "(?i)AB", "(?i)é", "é", "ß|🙂",
    "^.$", r"\bA", r"\\", r"\.", "a{2}", "(a|b){2,3}$", r"^\d$", "'", "%",
)  # fmt: skip
BOOLEANS = (False, True)
TIMESTAMPS = tuple(
    datetime.fromisoformat(text).replace(tzinfo=UTC)
    for text in (
        "0001-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00",
        "2024-02-29 12:00:00",
        "2024-02-29 12:00:00.000001",
        "2024-03-01 00:00:00",
        "9999-12-31 23:59:59.999999",
    )
)

ESCAPE = "!"
_PIECES = ("a", "b", "A", "B", "é", "É", "ß", "i", "🙂", " ", ".", "\\", "%", "%", "_", "_", "")

_ORDERED = (Op.LT, Op.LE, Op.GT, Op.GE)
_OPS = (Op.EQ, Op.EQ, Op.IN, Op.IN, *_ORDERED, Op.BETWEEN, Op.BETWEEN, Op.PRESENT)
_TEXT_OPS = (Op.LIKE, Op.ILIKE, Op.RLIKE)


@dataclass(frozen=True)
class Attribute:
    """An attribute, its values in events, and the literals that rules compare it with."""

    name: str
    values: Sequence[Value]
    literals: Sequence[Value]

    @property
    def ops(self) -> tuple[Op, ...]:
        """Operators that fit; text operators if there are strings."""
        return _OPS + _TEXT_OPS if any(isinstance(v, str) for v in self.literals) else _OPS


def attribute(name: str, *pools: Sequence[Value]) -> Attribute:
    """An attribute whose events and rules draw from the same pools."""
    values = tuple(value for pool in pools for value in pool)
    return Attribute(name, values, values)


NUMBERED = [
    attribute("n", INTEGERS),
    attribute("user.age", INTEGERS, DOUBLES),
    attribute("x", DOUBLES),
    attribute("small", (1, 2, 3)),
]
TEXTS = [attribute("s", STRINGS), attribute("user.name", STRINGS), attribute('o\'dd "n"', STRINGS)]
MIXED = [
    attribute("mixed", (0, 1, 2), (0.0, 1.0, 1.5), BOOLEANS, ("1", "true", "a"), TIMESTAMPS[2:4]),
    attribute("huge", HUGE_INTEGERS, UNSIGNED, HUGE_DOUBLES, DECIMALS),
]
EVERYTHING = [
    *NUMBERED,
    *TEXTS,
    *MIXED,
    attribute("flag", BOOLEANS),
    attribute("seen_at", TIMESTAMPS),
]
"""Attributes of every kind, and of several kinds at once."""


def predicate(random: Random, among: Sequence[Attribute]) -> Predicate:
    """A predicate on one of the attributes, negated three times in ten."""
    of = random.choice(among)
    op = random.choice(of.ops)
    return Predicate(of.name, op, _operands(random, op, of), random.random() < 0.3)


def rule(random: Random, among: Sequence[Attribute], depth: int = 4) -> Expr:
    """A tree of at most `depth` levels; a part of it may be TRUE or FALSE."""
    choice = random.random()
    if choice < 0.02:
        return random.choice((TRUE, FALSE))
    if depth <= 1 or choice < 0.25:
        return predicate(random, among)
    if choice < 0.4:
        return Not(rule(random, among, depth - 1))
    children = tuple(rule(random, among, depth - 1) for _ in range(random.randint(2, 4)))
    return And(children) if random.random() < 0.5 else Or(children)


def conjunction(random: Random, among: Sequence[Attribute], size: int) -> Expr:
    """An AND of predicates; an attribute may appear more than once."""
    parts = tuple(predicate(random, among) for _ in range(size))
    return parts[0] if size == 1 else And(parts)


def event(
    random: Random, among: Sequence[Attribute], present: float = 0.7, several: float = 0.3
) -> dict[str, Any]:
    """An event that has each attribute with probability `present`, as a list with `several`.

    An absent attribute is missing, null, an empty list, or a list of nothing but nulls.
    """
    found: dict[str, Any] = {}
    for of in among:
        if random.random() < present:
            found[of.name] = _item(random, of, several)
        elif random.random() < 0.3:
            absent: list[Any] = [None, [], [None], math.nan, [math.nan, None]]
            found[of.name] = random.choice(absent if several else absent[:1])
    return _nest(found) if random.random() < 0.5 else found


def flat_event(random: Random, among: Sequence[Attribute], present: float = 0.7) -> dict[str, Any]:
    """An event with at most one value per attribute, under the names that rules use."""
    return {of.name: random.choice(of.values) for of in among if random.random() < present}


def _operands(random: Random, op: Op, of: Attribute) -> tuple[Value, ...]:
    match op:
        case Op.PRESENT:
            return ()
        case Op.IN:
            return tuple(random.choices(of.literals, k=random.randint(1, 5)))
        case Op.BETWEEN:
            return _ends(random, of.literals)
        case Op.RLIKE:
            return (random.choice(REGEXES),)
        case Op.LIKE | Op.ILIKE:
            return _like(random)
        case _:
            return (random.choice(of.literals),)


def _ends(random: Random, literals: Sequence[Value]) -> tuple[Value, ...]:
    """Two values in order if they compare; one pair in ten is reversed."""
    ends: list[Any] = random.choices(literals, k=2)
    if kind_of(ends[0]) is kind_of(ends[1]):
        ends.sort(reverse=random.random() < 0.1)
    return tuple(ends)


def _like(random: Random) -> tuple[str, ...]:
    pieces = random.choices(_PIECES, k=random.randint(1, 4))
    if random.random() < 0.7:
        return ("".join(pieces),)
    escaped = [ESCAPE + piece if random.random() < 0.4 and piece else piece for piece in pieces]
    return ("".join(escaped), ESCAPE)


def _item(random: Random, of: Attribute, several: float) -> Any:
    if random.random() >= several:
        return random.choice(of.values)
    values: list[Any] = random.choices(of.values, k=random.randint(1, 4))
    if random.random() < 0.2:
        values.insert(random.randint(0, len(values)), random.choice((None, math.nan)))
    return values


def _nest(event: dict[str, Any]) -> dict[str, Any]:
    """The same event with ``{"user": {"age": …}}`` instead of ``{"user.age": …}``."""
    found: dict[str, Any] = {}
    for name, item in event.items():
        head, dot, tail = name.partition(".")
        if dot:
            found.setdefault(head, {})[tail] = item
        else:
            found[name] = item
    return found
