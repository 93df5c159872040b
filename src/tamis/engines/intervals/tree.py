"""The tree of one attribute while it is built, and many of them as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.lists import joined, starts
from tamis.engines.filing import Lists
from tamis.engines.intervals.arrays import LISTED, NOWHERE, PASS, STOP, TreeArrays, packed
from tamis.engines.intervals.intervals import Intervals

__all__ = ["LEFT", "RIGHT", "Sapling", "Tree", "balanced", "planted"]

_Numbers: TypeAlias = NDArray[np.integer[Any]]

LEFT: Final = 3
RIGHT: Final = 4
"""Where the children stand in a node's row."""

_NOBODY = np.empty(0, np.int32)
_NO_ROWS = np.empty((0, 2), np.int32)


class Tree(NamedTuple):
    """The tree of one attribute; see `TreeArrays`."""

    root: int
    node: NDArray[np.int32]
    vector: Lists
    """The conjunctions of each node, which become its bit vector."""
    rising: Lists
    falling: Lists
    """The lists of each node, in rows."""

    @classmethod
    def of_vectors(cls, root: int, node: NDArray[np.int32], vector: Lists) -> Tree:
        """A tree none of whose nodes is LISTED."""
        nothing = starts(np.zeros(len(node), np.int64)), _NO_ROWS
        return cls(root, node, vector, nothing, nothing)


class Sapling:
    """A tree that grows node by node."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._vectors: list[_Numbers] = []
        self._rising: list[_Numbers] = []
        self._falling: list[_Numbers] = []

    def split(self, key: int) -> int:
        """A new node that only shows the way; returns its number, as all of these do."""
        return self._add(PASS, key, key, _NOBODY)

    def leaf(self, conjunctions: NDArray[np.int64]) -> int:
        """A new node where the search ends, and takes these."""
        return self._add(PASS, 0, 0, conjunctions)

    def stop(self, low: int, high: int, conjunctions: NDArray[np.int64]) -> int:
        """A new node for the values from `low` to `high`, which take these."""
        return self._add(STOP, low, high, conjunctions)

    def listed(self, key: int, intervals: Intervals) -> int:
        """A new node that lists intervals, all of which contain its key."""
        by_low = np.argsort(intervals.low, kind="stable")
        by_high = np.argsort(-intervals.high, kind="stable")
        rising = np.stack((intervals.conjunction, intervals.low), axis=1)[by_low]
        falling = np.stack((intervals.conjunction, intervals.high), axis=1)[by_high]
        return self._add(LISTED, key, key, _NOBODY, rising, falling)

    def graft(self, tree: Tree) -> int:
        """A whole tree of vectors; returns its root."""
        first = len(self._rows)
        self._rows += _shifted(tree.node, first).tolist()
        start, conjunctions = tree.vector
        self._vectors += np.split(conjunctions, start[1:-1])
        self._rising += [_NO_ROWS] * len(tree.node)
        self._falling += [_NO_ROWS] * len(tree.node)
        return first + tree.root

    def connect(self, parent: int, side: int, child: int) -> None:
        """Make a node the LEFT or RIGHT child of another."""
        self._rows[parent][side] = child

    def grown(self, root: int) -> Tree:
        """The tree as it is by now."""
        node = np.array(self._rows, np.int32)
        return Tree(root, node, _lists(self._vectors), _lists(self._rising), _lists(self._falling))

    def _add(
        self,
        kind: int,
        low: int,
        high: int,
        vector: _Numbers,
        rising: _Numbers = _NO_ROWS,
        falling: _Numbers = _NO_ROWS,
    ) -> int:
        self._rows.append([kind, low, high, NOWHERE, NOWHERE])
        self._vectors.append(vector)
        self._rising.append(rising)
        self._falling.append(falling)
        return len(self._rows) - 1


def _lists(items: list[_Numbers]) -> Lists:
    return starts(map(len, items)), np.concatenate(items).astype(np.int32)


def _shifted(node: NDArray[np.int32], by: int) -> NDArray[np.int32]:
    """Nodes with numbers that are higher by so many."""
    moved = node.copy()
    children = moved[:, LEFT:]
    children[children != NOWHERE] += by
    return moved


def balanced(size: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """A search tree over the numbers below `size`: its root, and the children of each of them.

    The root of n numbers is the ⌈n/2⌉th, and so it is in each half.
    """
    left, right = np.full(size, NOWHERE, np.int64), np.full(size, NOWHERE, np.int64)
    first, stop = np.array([0]), np.array([size])
    while len(first):
        middle = _middle(first, stop)
        has_left, has_right = first < middle, middle + 1 < stop
        left[middle[has_left]] = _middle(first[has_left], middle[has_left])
        right[middle[has_right]] = _middle(middle[has_right] + 1, stop[has_right])
        first, stop = (
            np.concatenate((first[has_left], middle[has_right] + 1)),
            np.concatenate((middle[has_left], stop[has_right])),
        )
    return (size - 1) // 2, left, right


def _middle(first: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    return first + (stop - first - 1) // 2


def planted(trees: Iterable[tuple[int, Tree]], attributes: int) -> TreeArrays:
    """The trees of some attributes, end to end."""
    root = np.full(attributes, NOWHERE, np.int64)
    forest = [Tree.of_vectors(NOWHERE, np.empty((0, 5), np.int32), (starts([]), _NOBODY))]
    size = 0
    for attribute, tree in trees:
        root[attribute] = size + tree.root
        forest.append(tree._replace(node=_shifted(tree.node, size)))
        size += len(tree.node)
    return TreeArrays(
        root,
        np.concatenate([tree.node for tree in forest]),
        packed(joined([tree.vector for tree in forest])),
        *joined([tree.rising for tree in forest]),
        joined([tree.falling for tree in forest])[1],
    )
