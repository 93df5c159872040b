"""The Cluster Index: intervals in groups (section 4.1.1 of the paper that `engine.py` names).

A key splits the intervals into two groups: those that begin before it, and those that do not end
before it. An interval may be in both. Each group is split again until one interval is left or no
key makes both groups smaller. A value finds the leaf of its group, whose conjunctions *may* match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.engines.papers.code_trees import group_by_key
from tamis.engines.papers.intervals.arrays import NO_NODE, PASS, pack_vectors
from tamis.engines.papers.intervals.intervals import Intervals
from tamis.engines.papers.intervals.tree import Tree, node_rows

__all__ = ["Splits", "best_key", "cluster_intervals", "grow_cluster"]


class Splits(NamedTuple):
    """How keys would split a set of intervals."""

    key: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    """How many intervals go to each side of each key."""
    size: int
    """The number of intervals."""

    @classmethod
    def of(cls, intervals: Intervals) -> Splits:
        """All endpoints as keys."""
        key = intervals.endpoints
        left = np.searchsorted(np.sort(intervals.low), key)
        right = intervals.size - np.searchsorted(np.sort(intervals.high), key)
        return cls(key, left, right, intervals.size)

    @property
    def score(self) -> NDArray[np.int64]:
        """How bad each key is: the difference of its sides, plus the intervals on both."""
        unequal: NDArray[np.int64] = np.abs(self.left - self.right)
        return unequal + self.left + self.right - self.size

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> Splits:
        """The splits at some places, in that order."""
        chosen = np.asarray(places, np.int64)
        return self._replace(key=self.key[chosen], left=self.left[chosen], right=self.right[chosen])


def best_key(intervals: Intervals) -> int | None:
    """Choose the key to split at; None if all intervals overlap pairwise.

    Takes the best key on a binary search, and the first of equals. A key is useless if all
    intervals begin before it, or none ends before it. Useful keys are then on the side with more
    intervals, where the search continues, so it meets one.
    """
    if intervals.high.min() >= intervals.low.max():
        return None
    splits = Splits.of(intervals)
    met = splits.at(_search_path(splits))
    useful = met.at(np.flatnonzero((met.left < met.size) & (met.right < met.size)))
    return int(useful.key[useful.score.argmin()])


def _search_path(splits: Splits) -> list[int]:
    """The places of the keys that a binary search meets, from the middle on."""
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


class Group(NamedTuple):
    """The conjunctions of a group, and the first and last code that lead to it."""

    conjunction: NDArray[np.int32]
    first: int
    last: int


class Clusters(NamedTuple):
    """Groups, and the keys that lead to them."""

    key: NDArray[np.int64]
    children: NDArray[np.int64]
    """A row for each key: what is to its left and its right, a key or ~group."""
    root: int
    """The topmost key, or ~group."""
    groups: list[Group]

    def rows(self, key_node: int, group_node: NDArray[np.int64]) -> NDArray[np.int32]:
        """The keys as rows of nodes, numbered from `key_node` on, above the nodes of the groups."""
        children = _number_nodes(self.children, key_node, group_node)
        return node_rows(PASS, self.key, self.key, children[:, 0], children[:, 1])

    def root_node(self, key_node: int, group_node: NDArray[np.int64]) -> int:
        """The node of the root, with nodes numbered in the same way."""
        return int(_number_nodes(np.array([self.root]), key_node, group_node)[0])


def _number_nodes(
    things: NDArray[np.int64], key_node: int, group_node: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The nodes of keys, and of groups given as ~group."""
    nodes = things + key_node
    nodes[things < 0] = group_node[~things[things < 0]]
    return nodes


def cluster_intervals(intervals: Intervals, codes: int, enough: int) -> Clusters:
    """Split intervals into groups until a group cannot be split or has at most `enough` intervals.

    This does not recurse, since keys may be nested deeply where many intervals overlap.
    """
    keys: list[int] = []
    children = [[NO_NODE, NO_NODE]]
    groups: list[Group] = []
    waiting = [(intervals, 0, codes - 1, children[0], 0)]
    while waiting:
        inside, first, last, parent, side = waiting.pop()
        key = best_key(inside) if inside.size > enough else None
        if key is None:
            parent[side] = ~len(groups)
            groups.append(Group(inside.conjunction.astype(np.int32), first, last))
            continue
        parent[side] = len(keys)
        keys.append(key)
        below = [NO_NODE, NO_NODE]
        children.append(below)
        waiting.append((inside.at(inside.high >= key), key, last, below, 1))
        waiting.append((inside.at(inside.low < key), first, key - 1, below, 0))
    rows = np.array(children[1:], np.int64).reshape(-1, 2)
    return Clusters(np.array(keys, np.int64), rows, children[0][0], groups)


def grow_cluster(intervals: Intervals, codes: int) -> Tree:
    """Grow the Cluster Index of an attribute with `codes` codes: its keys, then its groups."""
    clusters = cluster_intervals(intervals, codes, 1)
    members = [group.conjunction for group in clusters.groups]
    keys = len(clusters.key)
    leaf = keys + np.arange(len(members))
    nowhere = np.full(len(members), NO_NODE)
    node = np.concatenate(
        (clusters.rows(0, leaf), node_rows(PASS, nowhere, nowhere, nowhere, nowhere))
    )
    owner = np.repeat(leaf, [len(each) for each in members])
    vectors = pack_vectors(group_by_key(owner, np.concatenate(members), len(node)))
    return Tree.of_vectors(clusters.root_node(0, leaf), node, vectors)
