"""The Cluster Index: intervals in groups (section 4.1.1 of the paper that `engine.py` names).

A key splits the intervals in two groups, those that begin before it and those that do not end
before it; an interval may be in both. Each group is split again, until one interval is left or no
key makes both groups smaller. A value finds the leaf of its group, whose conjunctions *may* match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.engines.intervals.arrays import NOWHERE
from tamis.engines.intervals.intervals import Intervals
from tamis.engines.intervals.tree import LEFT, RIGHT, Sapling, Tree

__all__ = ["Splits", "best_key", "clustered", "grow_cluster"]

Plant = Callable[[Sapling, Intervals, int, int], int]
"""Plants what a leaf becomes, given its intervals and the first and last code that lead to it."""


class Splits(NamedTuple):
    """What keys would make of a set of intervals."""

    key: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    """How many intervals would go to each side of each key."""
    size: int
    """How many intervals there are."""

    @classmethod
    def of(cls, intervals: Intervals) -> Splits:
        """All endpoints as keys."""
        key = intervals.endpoints
        left = np.searchsorted(np.sort(intervals.low), key)
        right = intervals.size - np.searchsorted(np.sort(intervals.high), key)
        return cls(key, left, right, intervals.size)

    @property
    def score(self) -> NDArray[np.int64]:
        """How bad each key is: how unequal its sides are, and how many intervals are on both."""
        unequal: NDArray[np.int64] = np.abs(self.left - self.right)
        return unequal + self.left + self.right - self.size

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> Splits:
        """Some of them, in that order."""
        chosen = np.asarray(places, np.int64)
        return self._replace(key=self.key[chosen], left=self.left[chosen], right=self.right[chosen])


def best_key(intervals: Intervals) -> int | None:
    """The key to split at, of equal scores the first that is met; None if none splits.

    A key is of no use if all intervals begin before it, or none ends before it. The useful ones, if
    any, are then on the side with more intervals, to which the search turns.
    """
    splits = Splits.of(intervals)
    met = splits.at(_met(splits))
    useful = met.at(np.flatnonzero((met.left < met.size) & (met.right < met.size)))
    return int(useful.key[useful.score.argmin()]) if len(useful.key) else None


def _met(splits: Splits) -> list[int]:
    """The places of the keys that a binary search meets, from the middle one on."""
    met = []
    first, stop = 0, len(splits.key)
    while first < stop:
        middle = (first + stop - 1) // 2
        met.append(middle)
        if splits.left[middle] > splits.right[middle]:
            stop = middle
        else:
            first = middle + 1
    return met


class _Group(NamedTuple):
    """Intervals to be split, the codes that lead to them, and where their node belongs."""

    intervals: Intervals
    first: int
    last: int
    parent: int
    side: int


def clustered(intervals: Intervals, codes: int, enough: int, plant: Plant) -> Tree:
    """The tree of splits, down to groups of `enough` intervals, each of which is planted.

    It may be deep where intervals overlap much, so there is no recursion.
    """
    sapling = Sapling()
    root = NOWHERE
    waiting = [_Group(intervals, 0, codes - 1, NOWHERE, LEFT)]
    while waiting:
        group, first, last, parent, side = waiting.pop()
        key = best_key(group) if group.size > enough else None
        if key is None:
            node = plant(sapling, group, first, last)
        else:
            node = sapling.split(key)
            waiting.append(_Group(group.at(group.high >= key), key, last, node, RIGHT))
            waiting.append(_Group(group.at(group.low < key), first, key - 1, node, LEFT))
        if parent == NOWHERE:
            root = node
        else:
            sapling.connect(parent, side, node)
    return sapling.grown(root)


def grow_cluster(intervals: Intervals, codes: int) -> Tree:
    """The Cluster Index of an attribute with so many codes."""
    return clustered(intervals, codes, 1, _leaf)


def _leaf(sapling: Sapling, intervals: Intervals, first: int, last: int) -> int:  # noqa: ARG001
    """A group is what it is, whichever codes lead to it."""
    return sapling.leaf(intervals.conjunction)
