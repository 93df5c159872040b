"""The Interval Index: elementary intervals (section 4.1.2 of the paper that `engine.py` names).

A binary search tree over the elementary intervals that some conjunction covers. Each has the bit
vector of the conjunctions that cover it; the search ends where it meets the value.
"""

from __future__ import annotations

import numpy as np

from tamis.encode.lists import run_places
from tamis.engines.filing import grouped
from tamis.engines.intervals.arrays import STOP
from tamis.engines.intervals.intervals import Intervals, elementary
from tamis.engines.intervals.tree import Tree, balanced

__all__ = ["grow_interval", "interval_index_between"]


def grow_interval(intervals: Intervals, codes: int) -> Tree:
    """The Interval Index of an attribute with so many codes."""
    return interval_index_between(intervals, 0, codes - 1)


def interval_index_between(intervals: Intervals, first: int, last: int) -> Tree:
    """The Interval Index for the codes from `first` to `last`, of which each interval has some."""
    pieces = elementary(intervals, first, last)
    begin, end = pieces.covered_by(intervals.within(first, last))
    counts = end - begin + 1
    start, conjunction = grouped(
        run_places(begin, counts), np.repeat(intervals.conjunction, counts), len(pieces.first)
    )
    covered = np.flatnonzero(np.diff(start))
    root, left, right = balanced(len(covered))
    kind = np.full(len(covered), STOP)
    columns = (kind, pieces.first[covered], pieces.last[covered], left, right)
    node = np.stack(columns, axis=1).astype(np.int32)
    # What is left out is empty, so the lists of the others still stand end to end.
    return Tree.of_vectors(root, node, (start[np.append(covered, len(start) - 1)], conjunction))
