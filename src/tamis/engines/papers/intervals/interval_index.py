"""The Interval Index: elementary intervals (section 4.1.2 of the paper that `engine.py` names).

A binary search tree over the elementary intervals that conjunctions cover. Each has the bit vector
of the conjunctions that cover it. The search ends at the interval that contains the value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.ragged import run_places
from tamis.engines.papers.intervals.arrays import STOP, VectorArrays
from tamis.engines.papers.intervals.intervals import Elementary, Intervals, cut_elementary
from tamis.engines.papers.intervals.tree import Tree, balance, middle, node_rows

__all__ = ["cover_elementary", "grow_interval"]


def grow_interval(intervals: Intervals, codes: int) -> Tree:
    """Grow the Interval Index of an attribute with `codes` codes."""
    pieces, vectors = cover_elementary(intervals, codes)
    first, stop = np.array([0]), np.array([len(pieces.first)])
    children = balance(first, stop, len(pieces.first))
    node = node_rows(STOP, pieces.first, pieces.last, *children)
    return Tree.of_vectors(int(middle(first, stop)[0]), node, vectors)


def cover_elementary(intervals: Intervals, codes: int) -> tuple[Elementary, VectorArrays]:
    """The elementary intervals that conjunctions cover, and the conjunctions that cover each."""
    pieces = cut_elementary(intervals, codes)
    place, begin, length, word = _find_runs(intervals, pieces)
    piece = run_places(begin, length)
    order = np.argsort(piece, kind="stable")
    start = np.searchsorted(piece[order], np.arange(len(pieces.first) + 1))
    kept = np.flatnonzero(np.diff(start))
    # Uncovered intervals have no words, so the words of the others are still end to end.
    vectors = VectorArrays(
        start[np.append(kept, len(pieces.first))].astype(np.int64),
        np.repeat(place, length)[order].astype(np.int32),
        np.repeat(word, length)[order],
    )
    return Elementary(pieces.first[kept], pieces.last[kept]), vectors


class _Runs(NamedTuple):
    """Nonzero words of vectors, each the same for a run of elementary intervals."""

    place: NDArray[np.int64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    """The first elementary interval of each word's run, and how many there are."""
    word: NDArray[np.uint64]


def _find_runs(intervals: Intervals, pieces: Elementary) -> _Runs:
    """Find the words of all elementary intervals.

    From one piece to the next, a word changes only where an interval of one of its 64 conjunctions
    begins or has ended. So the cost of all vectors depends on their words, not their bits.
    """
    begin, end = pieces.find_covered(intervals)
    piece = np.concatenate((begin, end + 1))
    place = np.tile(intervals.conjunction >> 6, 2)
    bit = np.uint64(1) << np.tile(intervals.conjunction & 63, 2).astype(np.uint64)
    order = np.lexsort((piece, place))
    piece, place = piece[order], place[order]
    # A word is zero again after its last piece, so places do not mix.
    word = np.bitwise_xor.accumulate(bit[order])
    is_settled = np.append((np.diff(piece) != 0) | (np.diff(place) != 0), True)
    piece, place, word = piece[is_settled], place[is_settled], word[is_settled]
    holds = np.flatnonzero(word)
    return _Runs(place[holds], piece[holds], piece[holds + 1] - piece[holds], word[holds])
