"""Finds the names that an unknown name may stand for: by spelling, case and dotted path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["find_near", "list_near"]

_SEPARATORS: Final = str.maketrans("", "", "._- /:")
"""Removes the characters by which the parts of a name are joined."""


def find_near(name: str, known: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Find the names that someone who wrote `name` may have meant.

    Near are names that differ in case or in separators only (``userId``, ``user_id``), paths of
    which one ends with the other (``city``, ``address.city``), and names with few typing errors
    (``aeg``, ``age``).

    Parameters
    ----------
    name
        The unknown name.
    known
        The names to choose from.
    limit
        How many names to return at most.

    Returns
    -------
    tuple of str
        The nearest first.
    """
    plain = _reduce(name)
    ranked = []
    for other in known:
        distance = _measure(name, plain, other)
        if distance is not None and other != name:
            ranked.append((distance, other))
    return tuple(other for _, other in sorted(ranked)[:limit])


def list_near(near: Iterable[str]) -> str:
    """The end of a message about an unknown name: ``; did you mean 'age' or 'ages'?``."""
    shown = " or ".join(map(repr, near))
    return f"; did you mean {shown}?" if shown else ""


def _measure(name: str, plain: str, other: str) -> int | None:
    """How far two names are apart: 0 for equal but for case, None if they are not near."""
    reduced = _reduce(other)
    if reduced == plain:
        return 0
    shorter, longer = sorted((name.casefold(), other.casefold()), key=len)
    if longer.endswith(f".{shorter}"):
        return 1
    # Two short names that share no letter have a small distance, too.
    most = min(len(plain), len(reduced)) // 3
    if abs(len(plain) - len(reduced)) > most:
        return None
    distance = _count_errors(plain, reduced)
    return 1 + distance if distance <= most else None


def _reduce(name: str) -> str:
    """`name` without case and separators."""
    return name.casefold().translate(_SEPARATORS)


def _count_errors(a: str, b: str) -> int:
    """How many characters to insert, drop, replace or exchange with their neighbour, from a to b.

    This is the optimal string alignment distance.
    """
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
