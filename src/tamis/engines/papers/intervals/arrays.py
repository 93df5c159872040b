"""The arrays of the trees, and the bit vectors of conjunctions.

Only the nonzero words of a bit vector are stored, each with its place. A value that visits nodes
ORs their words into a full vector.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.ragged import Lists, list_numbers

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
"""A kind of node: every value takes its vector, then goes left if it is below the key, else right.
Its vector may be empty. A leaf has no children."""
STOP: Final = 1
"""A kind of node: an interval. A value within it takes its vector and ends the search; other values
go to their side."""
LISTED: Final = 2
"""A kind of node: a key with a list of intervals that contain it. A value takes those that also
contain it, and goes to its side, or ends the search if it is the key."""

NO_NODE: Final = -1
"""In place of a missing child, or of the root of an attribute without intervals."""


class VectorArrays(NamedTuple):
    """Bit vectors, end to end: bit i of word w stands for conjunction 64 w + i."""

    start: NDArray[np.int64]
    place: NDArray[np.int32]
    """The place of each word in its vector, rising within a vector."""
    word: NDArray[np.uint64]


class TreeArrays(NamedTuple):
    """The trees of all attributes."""

    root: NDArray[np.int64]
    """The root of each attribute's tree, or NO_NODE."""
    node: NDArray[np.int32]
    """A row for each node: its kind, the first and the last code of its interval (or its key
    twice), and its left and its right child, or NO_NODE."""
    vector: VectorArrays
    """The vector of each node; empty if it is LISTED."""
    list_start: NDArray[np.int64]
    """Where the list of each node begins; empty if it is not LISTED."""
    rising: NDArray[np.int32]
    """The listed intervals sorted by first code: rows of conjunction and first code."""
    falling: NDArray[np.int32]
    """The same intervals sorted by falling last code: rows of conjunction and last code."""


class IntervalArrays(NamedTuple):
    """The arrays of the engines in this folder."""

    trees: TreeArrays
    mention: VectorArrays
    """For each attribute, the conjunctions with an interval in its tree."""
    test_start: NDArray[np.int64]
    test_atom: NDArray[np.int32]
    """The atoms of each conjunction that must be verified after the trees."""
    to_the_end: int
    """1 if all of these atoms are evaluated even after one fails."""


def pack_vectors(lists: Lists) -> VectorArrays:
    """Pack lists of conjunctions into bit vectors."""
    start, conjunction = lists
    owner = list_numbers(start)
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
