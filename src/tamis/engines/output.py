"""Kernels that write the rules found for an event; see `Engine.run`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel
from tamis.engines.bits import lowest_bit

__all__ = ["close_row", "emit_owners"]


@kernel
def emit_owners(owner_start, owner, conjunction, mask, seen, out, found):
    """Append the rules of a satisfied conjunction that were not found before."""
    if len(owner) == 0:
        if mask[conjunction]:
            out[found] = conjunction
            found += 1
        return found
    for i in range(owner_start[conjunction], owner_start[conjunction + 1]):
        rule = owner[i]
        if mask[rule] and not seen[rule]:
            seen[rule] = 1
            out[found] = rule
            found += 1
    return found


@kernel
def close_row(out, first, found, seen, bits):
    """Put what was found for one event in order, and forget that it was seen."""
    rising = True
    for i in range(first, found):
        if len(seen):
            seen[out[i]] = 0
        if i > first and out[i] < out[i - 1]:
            rising = False
    if rising:
        return
    if len(bits) < _WORDS_PER_ITEM * (found - first):
        _bit_sort(out, first, found, bits)
    else:
        _heap_sort(out, first, found - first)


_WORDS_PER_ITEM = 16
"""Up to how many words of a bit set a heap sort is worth that sorts one item."""


@kernel
def _bit_sort(items, first, last, bits):
    """Sort distinct small numbers by way of a bit set, which is left empty."""
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
    """Sort items[first:first + size] in place; NumPy's sort is not to be had in a kernel."""
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
