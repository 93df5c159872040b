"""Sets of small numbers that are filled in any order and read in rising order, without sorting.

A number is a bit among the *marks*. So that a set of a few numbers is read quickly, one byte for
each *line*, LINE words of marks, says whether the line has a mark at all.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import part
from tamis.engines.kernels.bits import (
    EIGHT,
    ONE,
    ZERO,
    count_bits,
    count_zeros_below,
    lowest_bit,
    without_lowest_bit,
)

__all__ = ["SLACK", "count_marked", "list_bits", "list_marked", "mark", "new_marks"]

SLACK = 64
"""How many more items than there are numbers an output must have room for."""

_LINE = 8
_WORD_AT, _BIT = np.uint64(6), np.uint64(63)
_LINE_BITS, _LINE_AT = np.uint64(3), np.uint64(9)
"""The words of a line; what to shift a word or a number by to get its line."""

_FEW, _SOME, _MANY = 2, 8, 16
"""How many bits of a word are read without a branch: at first, if there are more, and if there are
still more."""


def new_marks(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint64]]:
    """An empty set of numbers below `size`: its marks, its bytes for lines, and these as words."""
    lines = -(-max(size, 1) // (64 * _LINE))
    words = np.zeros(-(-lines // 8), np.uint64)
    # One word per byte for a line, not less: bytes are read eight at a time.
    return np.zeros(64 * len(words), np.uint64), words.view(np.uint8), words


@part
def mark(marks, lines, number):
    """Add a number, which is unsigned, to a set."""
    marks[number >> _WORD_AT] |= ONE << (number & _BIT)
    lines[number >> _LINE_AT] = 1


@part
def list_bits(word, first, out, found):
    """Write first + i to `out` for each bit i of a word; returns how many items there are now.

    `first` and `found` are unsigned. Up to SLACK items after these are overwritten: most words
    have few bits, and writing some in vain is faster than to have the processor guess how many.
    """
    end = found + count_bits(word)
    for k in range(_FEW):
        out[found + np.uint64(k)] = first + count_zeros_below(word)
        word = without_lowest_bit(word)
    if word:
        for k in range(_FEW, _SOME):
            out[found + np.uint64(k)] = first + count_zeros_below(word)
            word = without_lowest_bit(word)
    if word:
        for k in range(_SOME, _MANY):
            out[found + np.uint64(k)] = first + count_zeros_below(word)
            word = without_lowest_bit(word)
        found += np.uint64(_MANY)
        while word:
            out[found] = first + lowest_bit(word)
            word = without_lowest_bit(word)
            found += ONE
    return end


@part
def list_marked(marks, words, out):
    """Write the numbers of a set to `out`, rising, and empty the set; returns how many there are.

    See `list_bits` for the room that `out` needs.
    """
    found = ZERO
    for at in range(len(words)):
        lines = words[at]
        words[at] = ZERO
        while lines:
            line = EIGHT * np.uint64(at) + (lowest_bit(lines) >> _LINE_BITS)
            lines = without_lowest_bit(lines)
            first = line << _LINE_BITS
            for k in range(_LINE):
                word = first + np.uint64(k)
                bits = marks[word]
                marks[word] = ZERO
                found = list_bits(bits, word << _WORD_AT, out, found)
    return np.int64(found)


@part
def count_marked(marks, words):
    """How many numbers a set has; empties the set."""
    found = ZERO
    for at in range(len(words)):
        lines = words[at]
        words[at] = ZERO
        while lines:
            line = EIGHT * np.uint64(at) + (lowest_bit(lines) >> _LINE_BITS)
            lines = without_lowest_bit(lines)
            first = line << _LINE_BITS
            for k in range(_LINE):
                word = first + np.uint64(k)
                found += count_bits(marks[word])
                marks[word] = ZERO
    return np.int64(found)
