"""The atoms of predicates that kernels have read."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, AtomArrays
from tamis.encode.dictionary import ABSENT, FIRST, Dictionary
from tamis.encode.kernel import kernel
from tamis.encode.plain.predicates import BETWEEN, GE, GT, IN, LE, LT, OTHER, PRESENT

__all__ = ["make_atoms"]

_FEW = 32
"""Up to how many codes are sorted by insertion."""


def make_atoms(
    dictionary: Dictionary,
    attribute: NDArray[np.int32],
    op: NDArray[np.uint8],
    negated: NDArray[np.uint8],
    weak: NDArray[np.uint8],
    value_start: NDArray[np.int64],
    code: NDArray[np.int32],
) -> AtomArrays:
    """The atom of each predicate; the row of an OTHER one is left empty.

    Parameters
    ----------
    attribute, op, negated
        The predicates, with attributes numbered as in `dictionary`.
    weak
        Whether a predicate is from a rule in the weak logic.
    value_start
        Where the values of each predicate begin in `code`, and where the last ones end.
    code
        The codes of the values.
    """
    table = np.zeros((len(op), 4), np.int32)
    codes = np.empty(len(code), np.int32)
    strings_at = np.array([axis.strings_at for axis in dictionary.axes], np.int32)
    times_at = np.array([axis.times_at for axis in dictionary.axes], np.int32)
    size = np.array([axis.size for axis in dictionary.axes], np.int32)
    count = _fill(
        attribute,
        op,
        negated,
        weak,
        value_start,
        code,
        strings_at,
        times_at,
        size,
        table,
        codes,
    )
    return AtomArrays(table, codes[:count].copy())


@kernel
def _fill(attribute, op, negated, weak, value_start, code, strings_at, times_at, size, table, out):
    count = 0
    for i in range(len(op)):
        if op[i] == OTHER:
            continue
        own = attribute[i]
        first, last = value_start[i], value_start[i + 1]
        flags = 0
        if negated[i]:
            flags = NEGATED | (IF_ABSENT if weak[i] or op[i] == PRESENT else 0)
        if op[i] == IN:
            begin = count
            for j in range(first, last):
                out[count] = code[j]
                count += 1
            count = _sort_distinct(out, begin, count)
            test, low, high = SET, begin, count
        elif op[i] == PRESENT:
            test, low, high = RANGE, ABSENT + 1, size[own] - 1
        else:
            test = RANGE
            low, high = code[first], code[last - 1]
            low_kind, lowest, highest = _kind_of(low, strings_at[own], times_at[own], size[own])
            high_kind, _, _ = _kind_of(high, strings_at[own], times_at[own], size[own])
            if op[i] == LT:
                low, high = lowest, high - 1
            elif op[i] == LE:
                low = lowest
            elif op[i] == GT:
                low, high = low + 1, highest
            elif op[i] == GE:
                high = highest
            elif op[i] == BETWEEN and (low_kind != high_kind or low > high):
                low, high = 1, 0
        table[i, 0], table[i, 1], table[i, 2], table[i, 3] = own, test | flags, low, high
    return count


@kernel
def _kind_of(code, strings_at, times_at, size):
    """A number for the kind of a code's value, and the first and the last code of that kind."""
    if code < FIRST:
        return 0, 1, 2
    if code < strings_at:
        return 1, FIRST, strings_at - 1
    if code < times_at:
        return 2, strings_at, times_at - 1
    return 3, times_at, size - 1


@kernel
def _sort_distinct(codes, first, last):
    """Sort codes[first:last] and drop repeated ones. Returns where they end."""
    if last - first <= _FEW:
        for i in range(first + 1, last):
            code, at = codes[i], i
            while at > first and codes[at - 1] > code:
                codes[at] = codes[at - 1]
                at -= 1
            codes[at] = code
    else:
        size = last - first
        for root in range(size // 2 - 1, -1, -1):
            _sift_down(codes, first, root, size)
        for end in range(size - 1, 0, -1):
            codes[first], codes[first + end] = codes[first + end], codes[first]
            _sift_down(codes, first, 0, end)
    kept = first + 1
    for i in range(first + 1, last):
        if codes[i] != codes[kept - 1]:
            codes[kept] = codes[i]
            kept += 1
    return kept


@kernel
def _sift_down(codes, first, root, size):
    """Restore the heap codes[first:first + size] below `root`."""
    item = codes[first + root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size and codes[first + child + 1] > codes[first + child]:
            child += 1
        if codes[first + child] <= item:
            break
        codes[first + root] = codes[first + child]
        root, child = child, 2 * child + 1
    codes[first + root] = item
