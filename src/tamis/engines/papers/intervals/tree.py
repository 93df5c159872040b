"""The tree of one attribute, and the trees of all attributes end to end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32
from tamis.encode.ragged import Lists, concatenate_lists, starts
from tamis.engines.papers.intervals.arrays import NO_NODE, TreeArrays, VectorArrays, pack_vectors

__all__ = ["CHILDREN", "Tree", "balance", "middle", "node_rows", "plant_trees"]

CHILDREN: Final = slice(3, 5)
"""The columns of the children in a node's row."""


class Tree(NamedTuple):
    """The tree of one attribute; see `TreeArrays`."""

    root: int
    node: NDArray[np.int32]
    vector: VectorArrays
    rising: Lists
    falling: Lists
    """The lists of each node, as rows."""

    @classmethod
    def of_vectors(cls, root: int, node: NDArray[np.int32], vector: VectorArrays) -> Tree:
        """A tree without LISTED nodes."""
        nothing = starts(np.zeros(len(node), np.int64)), np.empty((0, 2), np.int32)
        return cls(root, node, vector, nothing, nothing)


def node_rows(
    kind: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Nodes of one kind as rows."""
    columns = (np.full(len(low), kind), low, high, left, right)
    return np.stack(columns, axis=1).astype(np.int32)


def balance(
    first: NDArray[np.int64], stop: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Build balanced search trees over runs of the numbers below `size`: the children of each.

    The root of n numbers is the ⌈n/2⌉th (`middle`), and likewise in each half.
    """
    left, right = np.full(size, NO_NODE, np.int64), np.full(size, NO_NODE, np.int64)
    while len(first):
        root = middle(first, stop)
        on_left, on_right = first < root, root + 1 < stop
        left[root[on_left]] = middle(first[on_left], root[on_left])
        right[root[on_right]] = middle(root[on_right] + 1, stop[on_right])
        first, stop = (
            np.concatenate((first[on_left], root[on_right] + 1)),
            np.concatenate((root[on_left], stop[on_right])),
        )
    return left, right


def middle(first: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ⌈n/2⌉th of the n numbers of each run."""
    return first + (stop - first - 1) // 2


def plant_trees(trees: Iterable[tuple[int, Tree]], attributes: int) -> TreeArrays:
    """Put the trees of attributes end to end."""
    root = np.full(attributes, NO_NODE, np.int64)
    no_vectors = pack_vectors((starts([]), NO_INT32))
    forest = [Tree.of_vectors(NO_NODE, np.empty((0, 5), np.int32), no_vectors)]
    size = 0
    for attribute, tree in trees:
        root[attribute] = size + tree.root
        node = tree.node.copy()
        children = node[:, CHILDREN]
        children[children != NO_NODE] += size
        forest.append(tree._replace(node=node))
        size += len(node)
    vectors = [tree.vector for tree in forest]
    return TreeArrays(
        root,
        np.concatenate([tree.node for tree in forest]),
        VectorArrays(
            *concatenate_lists([(vector.start, vector.place) for vector in vectors]),
            np.concatenate([vector.word for vector in vectors]),
        ),
        *concatenate_lists([tree.rising for tree in forest]),
        concatenate_lists([tree.falling for tree in forest])[1],
    )
