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
    find_nonzero,
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
_BLOCK = 64 * 64
"""The numbers of eight lines, which are one word among the bytes for lines."""

_SPARSE, _MIXED = 46, 60
"""Up to how many words of 64 have marks where a word has about one, and where it has about two."""
_SPARSE_BITS, _MIXED_BITS, _DENSE_BITS = 3, 5, 8
"""How many bits of a word with marks are read without a branch there, and elsewhere."""
_SOME, _MANY = 6, 14
"""How many more are read if there are more, and if there are still more."""


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
def list_bits(word, first, few, out, found):
    """Write first + i to `out` for each bit i of a word; returns how many items there are now.

    `found` is unsigned. Up to SLACK items after these are overwritten: most words have no more than
    `few` bits, and writing some in vain is faster than to have the processor guess how many.
    """
    end = found + count_bits(word)
    begin = np.int64(first)
    for k in range(few):
        out[found + np.uint64(k)] = begin + np.int64(count_zeros_below(word))
        word = without_lowest_bit(word)
    if word:
        for k in range(few, few + _SOME):
            out[found + np.uint64(k)] = begin + np.int64(count_zeros_below(word))
            word = without_lowest_bit(word)
    if word:
        for k in range(few + _SOME, few + _MANY):
            out[found + np.uint64(k)] = begin + np.int64(count_zeros_below(word))
            word = without_lowest_bit(word)
        found += np.uint64(few + _MANY)
        while word:
            out[found] = begin + np.int64(lowest_bit(word))
            word = without_lowest_bit(word)
            found += ONE
    return end


@part
def _list_words(marks, first, chosen, few, offset, out, found):
    """List the marks of the words first + i for each bit i of `chosen`, and clear them."""
    while chosen:
        word = first + lowest_bit(chosen)
        chosen = without_lowest_bit(chosen)
        bits = marks[word]
        marks[word] = ZERO
        found = list_bits(bits, offset + np.int64(word << _WORD_AT), few, out, found)
    return found


@part
def _count_words(marks, first, chosen):
    """How many marks the words first + i have for each bit i of `chosen`."""
    count = ZERO
    while chosen:
        count += count_bits(marks[first + lowest_bit(chosen)])
        chosen = without_lowest_bit(chosen)
    return count


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


@part
def list_marked(marks, words, offset, out):
    """Write the numbers of a set, plus `offset`, to `out`, rising, and empty the set.

    Returns how many there are, or -1 if `out` has no room for them and SLACK more; then it has some
    of them.
    """
    found = ZERO
    room = np.int64(len(out)) - SLACK
    for at in range(np.uint64(len(words))):
        lines = words[at]
        if lines == ZERO:
            continue
        first = at << _WORD_AT
        # A bit for each of 64 words: whether it has marks.
        chosen = ZERO
        while lines:
            line = lowest_bit(lines)
            lines = without_lowest_bit(lines)
            chosen |= find_nonzero(marks, first + line) << line
        may_lack_room = np.int64(found) + _BLOCK > room
        if may_lack_room and np.int64(found + _count_words(marks, first, chosen)) > room:
            count_marked(marks, words)
            return np.int64(-1)
        words[at] = ZERO
        count = count_bits(chosen)
        if count <= _SPARSE:
            found = _list_words(marks, first, chosen, _SPARSE_BITS, offset, out, found)
        elif count <= _MIXED:
            found = _list_words(marks, first, chosen, _MIXED_BITS, offset, out, found)
        else:
            found = _list_words(marks, first, chosen, _DENSE_BITS, offset, out, found)
    return np.int64(found)
