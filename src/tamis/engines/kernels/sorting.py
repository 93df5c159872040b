"""Kernels that sort the rules found for each event."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel
from tamis.engines.kernels.bits import lowest_bit

__all__ = ["repeat", "sort_rows", "take"]


@kernel
def sort_rows(start, items, rank_of, item_of, bits):
    """Sort the items of each row by their ranks.

    Ranks are below 64 times the size of `bits`, and distinct within a row. `item_of` is the inverse
    of `rank_of`; both are empty where an item is its own rank.
    """
    for row in range(len(start) - 1):
        first, last = start[row], start[row + 1]
        if len(rank_of):
            for i in range(first, last):
                items[i] = rank_of[items[i]]
        if len(bits) < _WORDS_PER_ITEM * (last - first):
            _bit_sort(items, first, last, bits)
        else:
            _heap_sort(items, first, last - first)
        if len(item_of):
            for i in range(first, last):
                items[i] = item_of[items[i]]


@kernel
def take(values, places, out):
    """Write values[places] to `out`; NumPy would first widen the places."""
    for i in range(len(places)):
        out[i] = values[places[i]]


@kernel
def repeat(values, start, out):
    """Write values[i] to ``out[start[i]:start[i + 1]]``; NumPy would copy items one by one."""
    for i in range(len(values)):
        out[start[i] : start[i + 1]] = values[i]


_WORDS_PER_ITEM = 16
"""Heap sort is used where the bit set has at least this many words for each item."""


@kernel
def _bit_sort(items, first, last, bits):
    """Sort distinct small numbers through a bit set, which is left empty."""
    for i in range(first, last):
        bits[items[i] >> 6] |= np.uint64(1) << np.uint64(items[i] & 63)
    at = first
    for word in range(len(bits)):
        rest = bits[word]
        bits[word] = 0
        while rest:
            items[at] = 64 * word + lowest_bit(rest)
            at += 1
            rest &= rest - np.uint64(1)


@kernel
def _heap_sort(items, first, size):
    """Sort items[first:first + size] in place; NumPy's sort would allocate."""
    for root in range(size // 2 - 1, -1, -1):
        _sift_down(items, first, root, size)
    for last in range(size - 1, 0, -1):
        items[first], items[first + last] = items[first + last], items[first]
        _sift_down(items, first, 0, last)


@kernel
def _sift_down(items, first, root, size):
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and items[first + child] < items[first + child + 1]:
            child += 1
        if items[first + root] >= items[first + child]:
            return
        items[first + root], items[first + child] = items[first + child], items[first + root]
        root = child
