"""Random rules and events that need every road: what texts, functions and guards depend on.

A text predicate is looked at only for events that satisfy a guard of its rule, and an attribute of
a function is read otherwise than one that is only compared. So rules mix both on few attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

__all__ = [
    "FUNCTIONS",
    "draw_event",
    "draw_functions",
    "draw_guarded",
    "draw_rule",
    "to_json_event",
]

WORDS = ("", "bob", "Bob", "o", "OO", "rob%", "é", "x_y", "🙂", "a long word, longer than others")
TAGS = ("a", "ab", "b", "o")
TIMES = tuple(datetime(2024, month, 29, 12, 30, tzinfo=UTC) for month in (1, 2, 12))
DECIMALS = tuple(map(Decimal, ("0.1", "0.10000000000000000001", "9.99", "123456789012345678.5")))
BIG = (-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1)

_PLAIN = (
    "k = {k}", "k IN ({k}, {k})", "k < {k}", "k BETWEEN 1 AND {k}", "k <> {k}", "k IS NULL",
    "x = {x}", "x > {x}", "x IS NOT NULL", "big = {big}", "big >= {big}", "flag = TRUE",
    "flag <> FALSE", "n.x = {k}", "n.x >= {k}", "n.s = '{word}'", "u = '{word}'", "w IN ('{word}')",
    "w >= '{word}'", "tags = '{tag}'", "tags NOT IN ('{tag}', 'z')", "nums > {x}", "nums = {k}",
    "d = {d}", "d > {d}", "d < {d}", "at < TIMESTAMP '2024-03-01'", "wide = 'w{wide}'",
)  # fmt: skip
_TEXTS = (
    "{s} LIKE '%o%'", "{s} LIKE 'b%'", "{s} ILIKE '%OB%'", "{s} NOT LIKE '%b'", "{s} LIKE '_o_'",
    "{s} RLIKE 'b$'", "{s} NOT RLIKE '^[a-z]+$'", "{s} RLIKE '[bo]{{2}}'",
    "{s} LIKE 'x!_%' ESCAPE '!'",
)  # fmt: skip
_GUARDS = ("k = {k}", "n.x = {k}", "big = {big}", "tags = '{tag}'", "flag = TRUE")
OF_NUMBERS = (
    "k % 3 = {k}", "k + 1 > {k}", "x * 2 = 1", "abs(x) >= {x}", "size(tags) = {k}",
    "superset(tags, ('a', 'b'))", "size(nums) > 1", "month(at) = 2",
)  # fmt: skip
"""Functions, none of them of the attributes that most text predicates are about."""
FUNCTIONS = (
    *OF_NUMBERS, "k + n.x > 3", "k < n.x", "length(u) > 2", "upper({s}) = 'BOB'",
    "lower({s}) LIKE '%o%'", "substr(u, 1, 2) = 'bo'", "contains(u, 'bo')", "length(n.s) <= 3",
    "big % 2 = 1", "u = w", "length(w) % 2 = 1",
)  # fmt: skip


def draw_guarded(random: Random, functions: Sequence[str]) -> str:
    """A rule in which an equality guards each text predicate.

    One rule without a guard, and all texts of its attribute are looked at.
    """
    if random.random() < 0.3:
        return _fill(random, random.choice((*functions, *_PLAIN)))
    return _fill(random, f"{random.choice(_GUARDS)} AND {random.choice(_TEXTS)}")


def draw_rule(random: Random, functions: Sequence[str] = FUNCTIONS, depth: int = 3) -> str:
    """A rule's text; `functions` are those that some rules of a set use."""
    choice = random.random()
    if depth == 0 or choice < 0.2:
        return _draw_leaf(random, functions)
    if choice < 0.3:
        return f"NOT ({draw_rule(random, functions, depth - 1)})"
    parts = [draw_rule(random, functions, depth - 1) for _ in range(random.randint(2, 3))]
    # Conjunctions have guards.
    return "(" + f" {random.choice(('AND', 'AND', 'OR'))} ".join(parts) + ")"


def _draw_leaf(random: Random, functions: Sequence[str]) -> str:
    pool = random.choice((_PLAIN, _PLAIN, _TEXTS, _TEXTS, functions or _PLAIN))
    return _fill(random, random.choice(pool))


def _fill(random: Random, form: str) -> str:
    return form.format(
        s=random.choice(("u", "u", "w", "n.s", "tags")),
        k=random.randint(0, 4),
        x=random.choice((-1.5, 0.1, 0.5, 2.0)),
        d=random.choice(DECIMALS),
        big=random.choice(BIG),
        word=random.choice(WORDS[:5]),
        tag=random.choice(TAGS),
        wide=random.randint(0, 99),
    )


def draw_functions(random: Random) -> list[str]:
    """The functions of a set of rules: none, few or all."""
    return random.sample(FUNCTIONS, random.choice((0, 1, 2, 3, len(FUNCTIONS))))


def draw_event(random: Random, is_columnar: bool = False) -> dict[str, Any]:
    """An event; where it is columnar, an attribute has one type in all events."""
    event: dict[str, Any] = {
        "k": random.randint(0, 4),
        "u": _draw_word(random),
        "w": _draw_word(random),
        "x": random.choice((-1.5, -0.0, 0.1, 0.5, 2.0, 1e300)),
        "big": random.choice(BIG),
        "flag": random.choice((True, False)),
        "tags": random.choices(TAGS, k=random.randint(0, 3)),
        "nums": [random.choice((0.0, 1.0, 2.5)) for _ in range(random.randint(0, 3))],
        "n": {"x": random.randint(0, 4), "s": _draw_word(random)},
        "d": random.choice(DECIMALS),
        "at": random.choice(TIMES),
        "wide": [f"w{n}" for n in random.sample(range(100), random.choice((0, 1, 80)))],
        "in no rule": random.choice(("", "o", "b")),
    }
    if not is_columnar:
        event["k"] = random.choice((event["k"], event["k"], [0, 1], "1", True, 2.0, 2**63))
        event["u"] = random.choice((event["u"], event["u"], ["bob", "x"], 5, None))
        event["n"] = random.choice((event["n"], event["n"], [event["n"], {"x": 2}]))
        if random.random() < 0.3:
            nested = event.pop("n")
            event |= {"n.x": 3} if isinstance(nested, list) else {"n.s": nested["s"]}
        if random.random() < 0.1:
            event["n.s"] = "bob"
    present = random.choice((0.3, 0.8, 1.0))
    return {name: item for name, item in event.items() if random.random() < present}


def _draw_word(random: Random) -> str:
    """A word, often one that no other event has: what was looked at before needs no guard."""
    return random.choice(WORDS) + random.choice(("", str(random.getrandbits(16))))


def to_json_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event as JSON can hold it: decimals are doubles, times are texts."""
    found = dict(event)
    for name, item in event.items():
        if isinstance(item, Decimal):
            found[name] = float(item)
        elif isinstance(item, datetime):
            found[name] = item.isoformat()
    return found
