"""The Hybrid Index: groups, then intervals (section 4.1.3 of the paper that `engine.py` names).

A Cluster Index, whose leaves are Interval Indexes of their groups. So what it finds need not be
verified.

Where we differ: a group of one is an interval by itself, which takes one comparison; and the
Interval Index of a group is that of the codes that lead there, not of the whole line.
"""

from __future__ import annotations

from typing import Final

from tamis.engines.intervals.cluster import clustered
from tamis.engines.intervals.interval import interval_index_between
from tamis.engines.intervals.intervals import Intervals
from tamis.engines.intervals.tree import Sapling, Tree

__all__ = ["LEAST_CLUSTER", "grow_hybrid"]

LEAST_CLUSTER: Final = 4
"""Groups of so many intervals are not split any further."""


def grow_hybrid(intervals: Intervals, codes: int, least_cluster: int = LEAST_CLUSTER) -> Tree:
    """The Hybrid Index of an attribute with so many codes."""
    return clustered(intervals, codes, least_cluster, _plant)


def _plant(sapling: Sapling, intervals: Intervals, first: int, last: int) -> int:
    if intervals.size == 1:
        return sapling.stop(int(intervals.low[0]), int(intervals.high[0]), intervals.conjunction)
    return sapling.graft(interval_index_between(intervals, first, last))
