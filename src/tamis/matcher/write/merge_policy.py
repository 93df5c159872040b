"""Decides which segments to merge.

Each segment costs an event some microseconds, and a merge costs time in proportion to its rules. So
each segment is larger than the next younger one by more than a ratio: then there are only
logarithmically many segments, and a rule is merged only logarithmically often. While rules are
being added the ratio is low; in quiet times it is high, which leaves fewer segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Load", "find_run_to_merge"]

_BUSY_RATIO: Final = 2
_QUIET_RATIO: Final = 16
"""A segment is merged with younger ones that have at least 1/ratio as many living rules."""


class Load(NamedTuple):
    """How many rules a segment holds."""

    alive: int
    rules: int
    """Dead ones included."""


def find_run_to_merge(loads: Sequence[Load], quiet: bool) -> range | None:
    """The neighbouring segments to merge into one; None if there are none.

    A segment whose rules are mostly dead is a run by itself.

    Parameters
    ----------
    loads
        The segments, oldest first.
    quiet
        Whether no rules are being added.
    """
    ratio = _QUIET_RATIO if quiet else _BUSY_RATIO
    for last in range(len(loads), 0, -1):
        first, total = last - 1, loads[last - 1].alive
        while first > 0 and loads[first - 1].alive <= ratio * total:
            first -= 1
            total += loads[first].alive
        if first < last - 1:
            return range(first, last)
    for i, load in enumerate(loads):
        if 2 * load.alive < load.rules:
            return range(i, i + 1)
    return None
