"""What each value of an event changes: lists of atoms by attribute and code."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, NO_INT32, RANGE, SET, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules

__all__ = ["Changes", "list_changes"]

_WIDE = 64
"""An atom that more codes than this would list is tested instead, wherever its attribute is."""


class Changes(NamedTuple):
    """See the fields of the same names in `SharedArrays`."""

    change_start: NDArray[np.int32]
    change: NDArray[np.int32]
    wide_start: NDArray[np.int32]
    wide: NDArray[np.int32]
    text_start: NDArray[np.int32]
    text_atom: NDArray[np.int32]


def list_changes(rules: EncodedRules) -> Changes:
    """List what each code, attribute and text predicate changes."""
    table, base = rules.atoms.table, rules.dictionary.base
    size = int(base[-1])
    is_wide = np.zeros(len(table), np.bool_)
    _find_wide(table, np.diff(base), is_wide)
    narrow = np.flatnonzero(~is_wide).astype(np.int32)
    count = np.zeros(size + 1, np.int32)
    _write_changes(rules.atoms, base, narrow, count, NO_INT32)
    start = np.zeros(size + 1, np.int32)
    np.cumsum(count[:-1], out=start[1:])
    change = np.empty(start[-1], np.int32)
    filled = start.copy()
    if len(change):
        _write_changes(rules.atoms, base, narrow, filled, change)
    is_text = np.flatnonzero((table[:, 1] & 3) == TEXT)
    return Changes(
        start,
        change,
        *_list_by(table[is_wide, 0], np.flatnonzero(is_wide), len(base) - 1),
        *_list_by(table[is_text, 2], is_text, rules.texts.size),
    )


def _list_by(
    key: NDArray[np.int32], atom: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The atoms of each key below `size`: where they begin, and all of them."""
    order = np.argsort(key, kind="stable")
    start = np.searchsorted(key[order], np.arange(size + 1))
    return start.astype(np.int32), atom[order].astype(np.int32)


@kernel
def _find_wide(table, sizes, is_wide):
    for atom in range(len(table)):
        test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
        width = max(0, high - low + (1 if test & 3 == RANGE else 0))
        if test & 3 == TEXT:
            width = 0
        if test & NEGATED and not test & IF_ABSENT:
            width = sizes[table[atom, 0]] - 1 - width
        is_wide[atom] = width > _WIDE


@kernel
def _write_changes(atoms, base, narrow, filled, out):
    """Count what each code changes, or list it if `out` has room.

    An atom changes on the codes that satisfy its predicate; one that needs its attribute and is
    negated on all others. Code 0 stands for an absent attribute.
    """
    table, codes = atoms
    for atom in narrow:
        test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
        first = base[table[atom, 0]]
        if test & NEGATED and not test & IF_ABSENT:
            place = low
            for code in range(1, base[table[atom, 0] + 1] - first):
                if test & 3 == SET:
                    while place < high and codes[place] < code:
                        place += 1
                    satisfied = place < high and codes[place] == code
                else:
                    satisfied = test & 3 == RANGE and low <= code <= high
                if not satisfied:
                    if len(out):
                        out[filled[first + code]] = atom
                    filled[first + code] += 1
        elif test & 3 != TEXT:
            for i in range(low, high if test & 3 == SET else high + 1):
                code = codes[i] if test & 3 == SET else i
                if len(out):
                    out[filled[first + code]] = atom
                filled[first + code] += 1
