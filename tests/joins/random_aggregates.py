"""Random rules with aggregates over earlier documents, and documents for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

START = datetime(2026, 1, 1)

VALUES: dict[str, tuple[Any, ...]] = {
    "u": ("ann", "bob", "carl"),
    "n": (-3, 0, 1, 2, 2**62, 9_007_199_254_740_993),
    "m": (1, 2, 3),
    "x": (-1.5, 0.0, 0.5, 1.0, 0.25, 1e6),
    "q": tuple(map(Decimal, ("0.10", "0.20", "-3.07", "99999999999999.99"))),
    "b": (False, True),
    "t": tuple(START + timedelta(minutes=minutes) for minutes in range(0, 30, 3)),
}
_THRESHOLDS: dict[str, tuple[str, ...]] = {
    "COUNT": ("0", "1", "2", "3"),
    "n": ("0", "1", "3", "9007199254740993", "9223372036854775807", "0.5"),
    "m": ("2", "1.5", "6", "0"),
    "x": ("0.5", "0", "-1.25", "1000000.5", "2"),
    "q": ("0.3", "0.10", "0", "-3.07", "100000000000000.19"),
    "u": ("'ann'", "'bob'", "'b'"),
    "b": ("TRUE", "FALSE"),
    "t": ("TIMESTAMP '2026-01-01 00:06:00'", "TIMESTAMP '2026-01-01 00:07:00'"),
}

_Spelled = tuple[str, str]
"""A piece of a rule as Tamis and as DuckDB read it."""


def document(random: Random) -> dict[str, Any]:
    """A document, which may lack any attribute."""
    return {n: random.choice(values) for n, values in VALUES.items() if random.random() < 0.85}


def rule(random: Random) -> _Spelled:
    """A predicate on an aggregate, or two of them."""
    if random.random() < 0.25:
        (a, b), (c, d) = rule(random), rule(random)
        connective = random.choice(("AND", "OR"))
        return f"({a}) {connective} NOT ({c})", f"({b}) {connective} NOT ({d})"
    what, name = _aggregate(random)
    ours, theirs = _where(random)
    thresholds = _THRESHOLDS["COUNT" if what.startswith("COUNT") else name]
    kind = random.random()
    if kind < 0.7:
        rest = f"{random.choice(COMPARISONS)} {random.choice(thresholds)}"
    elif kind < 0.8:
        rest = f"IN ({', '.join(random.choices(thresholds, k=2))})"
    elif kind < 0.9:
        rest = f"NOT BETWEEN {' AND '.join(random.choices(thresholds, k=2))}"
    else:
        rest = f"IS {random.choice(('', 'NOT '))}NULL"
    return (
        f"(SELECT {what} FROM seen d{ours}) {rest}",
        f"(SELECT {what} FROM seen d{theirs}) {rest}",
    )


def _aggregate(random: Random) -> tuple[str, str]:
    name = random.choice(list(VALUES))
    kinds = [f"COUNT(DISTINCT d.{name})", f"COUNT(d.{name})", f"MIN(d.{name})", f"MAX(d.{name})"]
    if name in "nmxq":
        kinds += [f"SUM(d.{name})", f"AVG(d.{name})"] * 2
    return random.choice([*kinds, "COUNT(*)", "COUNT(*)"]), name


def _where(random: Random) -> _Spelled:
    parts: list[_Spelled] = []
    if random.random() < 0.7:
        parts.append(("d.u = u", "d.u = e.u"))
    if random.random() < 0.7:
        minutes = random.choice((3, 6, 12))
        parts.append(_window(random, minutes))
    if random.random() < 0.3:
        parts.append(("d.t <= t", "d.t <= e.t"))
    if random.random() < 0.3:
        parts.append((f"d.m > {random.randrange(3)}",) * 2)
    if random.random() < 0.2:
        parts.append(("d.b = TRUE", "d.b = TRUE"))
    if random.random() < 0.15:
        parts.append(("m >= 2", "e.m >= 2"))
    if random.random() < 0.1:
        parts.append(("d.m <> m", "d.m <> e.m"))
    if random.random() < 0.1:
        parts.append(("d.m < m + 1", "d.m < e.m + 1"))
    if random.random() < 0.1:
        parts.append(("(d.m = m OR d.n > n)", "(d.m = e.m OR d.n > e.n)"))
    random.shuffle(parts)
    if not parts:
        return "", ""
    ours, theirs = (" AND ".join(side) for side in zip(*parts, strict=True))
    return f" WHERE {ours}", f" WHERE {theirs}"


def _window(random: Random, minutes: int) -> _Spelled:
    interval = f"INTERVAL '{minutes} minutes'"
    return random.choice(
        [
            (f"d.t > t - {interval}", f"d.t > e.t - {interval}"),
            (f"d.t + {interval} >= t", f"d.t + {interval} >= e.t"),
            (f"t - d.t < {interval}", f"e.t - d.t < {interval}"),
            (
                f"d.t BETWEEN t - {interval} AND t + {interval}",
                f"d.t BETWEEN e.t - {interval} AND e.t + {interval}",
            ),
        ]
    )
