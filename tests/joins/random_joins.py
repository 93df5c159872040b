"""Random rules with join predicates, and documents for them."""

from __future__ import annotations

from random import Random
from typing import Any

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

_VALUES: dict[str, tuple[Any, ...]] = {
    "n": (-1, 0, 1, 2, 3),
    "m": (1, 2, 3, 4),
    "x": (-1.5, 0.0, 0.5, 1.0, 2.0),
    "s": ("", "a", "ab", "b", "Z"),
    "b": (False, True),
}
_LIKE = {"n": "nmx", "m": "nmx", "x": "nmx", "s": "s", "b": "b"}
"""The attributes whose values compare with those of another."""

_Spelled = tuple[str, str]
"""A piece of a rule as Tamis and as DuckDB read it."""


def document(random: Random) -> dict[str, Any]:
    """A document, which may lack any attribute."""
    return {n: random.choice(values) for n, values in _VALUES.items() if random.random() < 0.8}


def rule(random: Random, depth: int = 0) -> _Spelled:
    """A rule of join and constant predicates under AND, OR and NOT."""
    if depth < 2 and random.random() < 0.5:
        connective = random.choice((" AND ", " OR "))
        return _connected(connective, [rule(random, depth + 1) for _ in range(2)])
    if random.random() < 0.2:
        ours, theirs = rule(random, depth + 1)
        return f"NOT ({ours})", f"NOT ({theirs})"
    return _constant(random, "") if random.random() < 0.25 else join(random)


def join(random: Random) -> _Spelled:
    """A join predicate."""
    ours, theirs = (" WHERE {}", " WHERE {}") if random.random() < 0.6 else ("", "")
    if ours:
        inner = condition(random)
        ours, theirs = ours.format(inner[0]), theirs.format(inner[1])
    no = "NOT " if random.random() < 0.3 else ""
    if random.random() < 0.4:
        head = f"{no}EXISTS (SELECT 1 FROM seen d"
        return f"{head}{ours})", f"{head}{theirs})"
    new = random.choice(list(_VALUES))
    old = random.choice(_LIKE[new])
    if random.random() < 0.2:
        head = f"{no}IN (SELECT d.{old} FROM seen d"
    else:
        sign, many = random.choice(COMPARISONS), random.choice(("ANY", "ALL"))
        head = f"{sign} {many} (SELECT d.{old} FROM seen d"
    return f"{new} {head}{ours})", f"e.{new} {head}{theirs})"


def condition(random: Random, depth: int = 0) -> _Spelled:
    """A condition of a subquery on an old document."""
    if depth < 2 and random.random() < 0.4:
        parts = [condition(random, depth + 1) for _ in range(random.randrange(2, 4))]
        return _connected(random.choice((" AND ", " AND ", " OR ")), parts)
    if random.random() < 0.15:
        ours, theirs = condition(random, depth + 1)
        return f"NOT ({ours})", f"NOT ({theirs})"
    kind = random.random()
    if kind < 0.25:
        return _constant(random, "d.")
    if kind < 0.35:
        return _constant(random, "")
    old = random.choice(list(_VALUES))
    new, sign = random.choice(_LIKE[old]), random.choice(COMPARISONS)
    if random.random() < 0.5:
        return f"d.{old} {sign} {new}", f"d.{old} {sign} e.{new}"
    return f"{new} {sign} d.{old}", f"e.{new} {sign} d.{old}"


def _constant(random: Random, alias: str) -> _Spelled:
    name = random.choice(list(_VALUES))
    values = [_literal(random.choice(_VALUES[name])) for _ in range(2)]
    kind = random.random()
    if kind < 0.5:
        rest = f"{random.choice(COMPARISONS)} {values[0]}"
    elif kind < 0.7:
        rest = f"IN ({', '.join(values)})"
    elif kind < 0.85:
        rest = f"BETWEEN {values[0]} AND {values[1]}"
    else:
        rest = f"IS {random.choice(('', 'NOT '))}NULL"
    return f"{alias}{name} {rest}", f"{alias or 'e.'}{name} {rest}"


def _connected(connective: str, parts: list[_Spelled]) -> _Spelled:
    ours, theirs = (
        connective.join(f"({text})" for text in side) for side in zip(*parts, strict=True)
    )
    return ours, theirs


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return f"'{value}'" if isinstance(value, str) else repr(value)
