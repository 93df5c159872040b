"""The arrays of the trees, and what becomes of lists of conjunctions: bit vectors.

Of a bit vector the words that are not zero are stored, each with its place. A value that visits
nodes ORs their words into a vector of all words.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.engines.papers.code_trees import Lists

__all__ = [
    "LISTED",
    "NO_NODE",
    "PASS",
    "STOP",
    "IntervalArrays",
    "TreeArrays",
    "VectorArrays",
    "pack_vectors",
]

PASS: Final = 0
"""Of a node: what is there is taken; then the search goes left below the key, and right from it on.
Its vector may be empty, and it has no children where the search ends."""
STOP: Final = 1
"""Of a node: it is an interval. What is there is taken by a value within it, which ends the search;
any other one goes to its side."""
LISTED: Final = 2
"""Of a node: it is a key, and lists intervals that contain it. Those that contain the value, too,
are taken; the search goes to the value's side, or ends at the key."""

NO_NODE: Final = -1
"""In place of a child that is not there, or of the root of an attribute without intervals."""


class VectorArrays(NamedTuple):
    """Bit vectors, one after the other: bit i of word w is that of conjunction 64 w + i."""

    start: NDArray[np.int64]
    place: NDArray[np.int32]
    """Which word of its vector each word is, rising within a vector."""
    word: NDArray[np.uint64]


class TreeArrays(NamedTuple):
    """The trees of all attributes."""

    root: NDArray[np.int64]
    """The root of each attribute's tree, or NO_NODE."""
    node: NDArray[np.int32]
    """A row for each node: its kind, the first and the last code of its interval (or its key
    twice), its left and its right child, or NO_NODE."""
    vector: VectorArrays
    """The vector of each node; empty where it is LISTED."""
    list_start: NDArray[np.int64]
    """Where the list of each node begins; empty where it is not LISTED."""
    rising: NDArray[np.int32]
    """The listed intervals by their first codes: a row of conjunction and first code for each."""
    falling: NDArray[np.int32]
    """The same intervals by their last codes, the last first: conjunction and last code."""


class IntervalArrays(NamedTuple):
    """What an engine of this folder adds to the rules."""

    trees: TreeArrays
    mention: VectorArrays
    """For each attribute, the conjunctions that have an interval in its tree."""
    test_start: NDArray[np.int64]
    test_atom: NDArray[np.int32]
    """The atoms that each conjunction is yet to be verified by, when all trees agree to it."""
    to_the_end: int
    """1 where all of these are evaluated, even if one of them does not hold."""


def pack_vectors(lists: Lists) -> VectorArrays:
    """Lists of conjunctions as bit vectors."""
    start, conjunction = lists
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.lexsort((conjunction, owner))
    owner, conjunction = owner[order], conjunction[order]
    place = conjunction >> 6
    bit = np.uint64(1) << (conjunction & 63).astype(np.uint64)
    if len(bit) == 0:
        return VectorArrays(np.zeros(len(start), np.int64), place.astype(np.int32), bit)
    new = np.ones(len(bit), np.bool_)
    new[1:] = (np.diff(owner) != 0) | (np.diff(place) != 0)
    first = np.flatnonzero(new)
    return VectorArrays(
        np.searchsorted(owner[first], np.arange(len(start))).astype(np.int64),
        place[first].astype(np.int32),
        np.bitwise_or.reduceat(bit, first),
    )
