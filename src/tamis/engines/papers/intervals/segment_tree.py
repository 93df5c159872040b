"""The Segment Tree: few nodes an interval (section 4.1.4 of the paper that `engine.py` names).

Its leaves are the elementary intervals; above them, two neighbours form a node, level by level. A
last node without a neighbour moves up to the next level. An interval is stored at the highest nodes
that it covers, and a value takes what is stored on the path to its leaf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.ragged import Lists
from tamis.engines.papers.code_trees import group_by_key
from tamis.engines.papers.intervals.arrays import NO_NODE, PASS, pack_vectors
from tamis.engines.papers.intervals.intervals import Elementary, Intervals, cut_elementary
from tamis.engines.papers.intervals.tree import Tree, node_rows

__all__ = ["grow_segment"]


class _Level(NamedTuple):
    """The nodes of one level, from left to right."""

    number: NDArray[np.int64]
    first: NDArray[np.int64]
    """The first code of each node."""


def grow_segment(intervals: Intervals, codes: int) -> Tree:
    """Grow the Segment Tree of an attribute with `codes` codes."""
    leaves = cut_elementary(intervals, codes)
    levels, node = _combine_levels(leaves)
    root = int(levels[-1].number[0])
    return Tree.of_vectors(
        root, node, pack_vectors(_store_intervals(intervals, leaves, levels, len(node)))
    )


def _combine_levels(leaves: Elementary) -> tuple[list[_Level], NDArray[np.int32]]:
    """Build the levels, leaves first, and the rows of all nodes."""
    size = len(leaves.first)
    levels = [_Level(np.arange(size), leaves.first)]
    nowhere = np.full(size, NO_NODE)
    rows = [node_rows(PASS, leaves.first, leaves.first, nowhere, nowhere)]
    while len(levels[-1].number) > 1:
        number, first = levels[-1]
        left, right = number[0:-1:2], number[1::2]
        rows.append(node_rows(PASS, first[1::2], first[1::2], left, right))
        above = size + np.arange(len(left))
        size += len(left)
        alone = len(number) // 2 * 2
        levels.append(_Level(np.append(above, number[alone:]), first[::2]))
    return levels, np.concatenate(rows)


def _store_intervals(
    intervals: Intervals, leaves: Elementary, levels: list[_Level], nodes: int
) -> Lists:
    """List the conjunctions at each node.

    An interval covers a run of nodes on each level, from the leaves up. It is stored at an edge of
    the run if the neighbour of that node is outside; the parents of the other nodes cover them.
    """
    number, conjunction = [], []
    begin, end = leaves.find_covered(intervals)
    whose = intervals.conjunction
    for level in levels:
        last = len(level.number) - 1
        at_top = last == 0
        on_left = begin & 1 == 1
        on_right = (end & 1 == 0) & (end < last) | at_top
        on_right &= begin + on_left <= end
        number += [level.number[begin[on_left]], level.number[end[on_right]]]
        conjunction += [whose[on_left], whose[on_right]]
        begin, end = (begin + on_left) >> 1, (end - on_right) >> 1
        going_on = begin <= end
        begin, end, whose = begin[going_on], end[going_on], whose[going_on]
    return group_by_key(np.concatenate(number), np.concatenate(conjunction), nodes)
