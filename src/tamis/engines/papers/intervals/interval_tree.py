"""The Interval Tree: each interval once (section 4.1.4 of the paper that `engine.py` names).

The key of a node is the middle endpoint of its intervals. The intervals that contain it stay, in
two lists sorted by where they begin and where they end; the others go to their side of the key. A
value left of the key takes intervals from the first list up to one that begins after it. A value on
the right takes intervals from the second list in the same way. The key itself takes all.

The paper does not say how a key is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32
from tamis.encode.ragged import Lists
from tamis.engines.papers.code_trees import group_by_key
from tamis.engines.papers.intervals.arrays import LISTED, NO_NODE, pack_vectors
from tamis.engines.papers.intervals.intervals import Intervals
from tamis.engines.papers.intervals.tree import Tree, node_rows

__all__ = ["grow_interval_tree"]


class _Keys(NamedTuple):
    """The keys of one level from left to right, and where its intervals go."""

    key: NDArray[np.int64]
    side: NDArray[np.int64]
    """-1 for each interval left of its key, 1 if it is to the right, 0 if it stays."""


def grow_interval_tree(intervals: Intervals, codes: int) -> Tree:
    """Grow the Interval Tree of an attribute with `codes` codes, level by level."""
    keys: list[NDArray[np.int64]] = []
    children: list[NDArray[np.int64]] = []
    home = np.empty(intervals.size, np.int64)
    moving, node = np.arange(intervals.size), np.zeros(intervals.size, np.int64)
    size = 0
    while len(moving):
        key, side = _choose_keys(intervals.at(moving), node - size, codes)
        home[moving[side == 0]] = node[side == 0]
        is_moving = side != 0
        branch, new = np.unique(
            2 * (node - size)[is_moving] + (side[is_moving] > 0), return_inverse=True
        )
        below = np.full(2 * len(key), NO_NODE)
        below[branch] = size + len(key) + np.arange(len(branch))
        keys.append(key)
        children.append(below.reshape(-1, 2))
        size += len(key)
        moving, node = moving[is_moving], size + new
    key, below = np.concatenate(keys), np.concatenate(children)
    no_vectors = pack_vectors((np.zeros(size + 1, np.int64), NO_INT32))
    rows = node_rows(LISTED, key, key, below[:, 0], below[:, 1])
    return Tree(0, rows, no_vectors, *_build_lists(intervals, home, size))


def _choose_keys(intervals: Intervals, group: NDArray[np.int64], codes: int) -> _Keys:
    """The middle endpoint of each group of intervals; groups are numbered from 0."""
    points = np.unique(
        np.concatenate((group * codes + intervals.low, group * codes + intervals.high))
    )
    start = np.searchsorted(points // codes, np.arange(group.max() + 2))
    key = points[(start[:-1] + start[1:] - 1) // 2] % codes
    side = (intervals.low > key[group]).astype(np.int64) - (intervals.high < key[group])
    return _Keys(key, side)


def _build_lists(intervals: Intervals, home: NDArray[np.int64], size: int) -> tuple[Lists, Lists]:
    """The intervals of each node in rows, sorted by first code, and by last code."""
    lists = []
    for end, order in (
        (intervals.low, np.argsort(intervals.low, kind="stable")),
        (intervals.high, np.argsort(-intervals.high, kind="stable")),
    ):
        start, places = group_by_key(home[order], order, size)
        rows = np.stack((intervals.conjunction[places], end[places]), axis=1)
        lists.append((start, rows.astype(np.int32)))
    return lists[0], lists[1]
