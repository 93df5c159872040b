"""Gives equal atoms, and equal conjunctions, the same number.

Hash tables with open addressing and at least twice as many slots as items; a slot is a number,
or -1 if it is free.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import SET, AtomArrays
from tamis.encode.kernel import kernel

__all__ = ["Numbering", "number_atoms", "number_conjunctions"]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class Numbering(NamedTuple):
    """Numbers of things; equal things have the same number."""

    number: NDArray[np.int32]
    """The number of each thing, in the order of first appearance."""
    first: NDArray[np.int64]
    """For each number, the first thing with it."""


def number_atoms(atoms: AtomArrays, part: NDArray[np.int64]) -> Numbering:
    """Number the atoms of several parts; two atoms of one part never get the same number.

    Two atoms of one part may have equal rows without being the same predicate: ``x = 5`` and
    ``x BETWEEN 5 AND 5``. They stay two, so that a conjunction of both keeps both. The first of
    these equal rows in one part equals the first in another part, the second equals the second.
    """
    size = len(atoms.table)
    slots, number, first = _allocate(size)
    count = _number_atoms(atoms, part, slots, np.empty(size, np.int64), number, first)
    return Numbering(number, first[:count].copy())


def number_conjunctions(start: NDArray[np.int64], atom: NDArray[np.int32]) -> Numbering:
    """Number conjunctions; those with the same atoms, in any order, are equal."""
    size = len(start) - 1
    slots, number, first = _allocate(size)
    hashes = np.empty(size, np.uint64)
    count = _number_conjunctions(start, atom, slots, hashes, number, first)
    return Numbering(number, first[:count].copy())


def _allocate(size: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    slots = np.full(1 << (2 * size + 1).bit_length(), -1, np.int32)
    return slots, np.empty(size, np.int32), np.empty(size, np.int64)


@kernel
def _mix(state, item):
    state = (state ^ np.uint64(item)) * _MIX
    return state ^ (state >> _SHIFT)


@kernel
def _hash_atom(table, codes, i):
    state = _mix(_mix(_MIX, table[i, 0]), table[i, 1])
    if table[i, 1] & 3 != SET:
        return _mix(_mix(state, table[i, 2]), table[i, 3])
    for k in range(table[i, 2], table[i, 3]):
        state = _mix(state, codes[k])
    return state


@kernel
def _same_atom(table, codes, i, j):
    if table[i, 0] != table[j, 0] or table[i, 1] != table[j, 1]:
        return False
    if table[i, 1] & 3 != SET:
        return table[i, 2] == table[j, 2] and table[i, 3] == table[j, 3]
    size = table[i, 3] - table[i, 2]
    if table[j, 3] - table[j, 2] != size:
        return False
    same = 0
    while same < size and codes[table[i, 2] + same] == codes[table[j, 2] + same]:
        same += 1
    return same == size


@kernel
def _number_atoms(atoms, part, slots, last_part, number, first):
    table, codes = atoms
    count = 0
    mask = np.uint64(len(slots) - 1)
    for i in range(len(table)):
        at = _hash_atom(table, codes, i) & mask
        while slots[at] >= 0:
            known = slots[at]
            if last_part[known] != part[i] and _same_atom(table, codes, i, first[known]):
                break
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = count
            first[count] = i
            count += 1
        number[i] = slots[at]
        last_part[slots[at]] = part[i]
    return count


@kernel
def _hash_atoms(start, atom, i):
    """A hash that does not depend on the order of the atoms."""
    total = np.uint64(start[i + 1] - start[i])
    for k in range(start[i], start[i + 1]):
        total += _mix(_MIX, atom[k])
    return _mix(_MIX, total)


@kernel
def _same_atoms(start, atom, i, j):
    if start[i + 1] - start[i] != start[j + 1] - start[j]:
        return False
    for k in range(start[i], start[i + 1]):
        at = start[j]
        while at < start[j + 1] and atom[at] != atom[k]:
            at += 1
        if at == start[j + 1]:
            return False
    return True


@kernel
def _number_conjunctions(start, atom, slots, hashes, number, first):
    count = 0
    mask = np.uint64(len(slots) - 1)
    for i in range(len(start) - 1):
        found = _hash_atoms(start, atom, i)
        at = found & mask
        while slots[at] >= 0:
            known = slots[at]
            if hashes[known] == found and _same_atoms(start, atom, i, first[known]):
                break
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = count
            first[count] = i
            hashes[count] = found
            count += 1
        number[i] = slots[at]
    return count
