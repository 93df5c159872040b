"""When segments are merged.

Each segment costs an event some microseconds, and a merge costs time in proportion to its
rules. So segments get larger from the youngest to the oldest, each by more than a ratio: there are
only logarithmically many of them, and a rule is merged only logarithmically often. While rules
come in the ratio is low; in quiet times there is time for fewer segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Load", "run_to_merge"]

_BUSY_RATIO = 2
_QUIET_RATIO = 16
"""A segment is merged with younger ones that have at least 1/ratio as many living rules."""


class Load(NamedTuple):
    """What a segment holds."""

    alive: int
    rules: int
    """Dead ones included."""


def run_to_merge(loads: Sequence[Load], quiet: bool) -> range | None:
    """Which neighbours, oldest first, are to be merged into one, if any are.

    A segment more than half of which is dead is worth a run of its own.
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
