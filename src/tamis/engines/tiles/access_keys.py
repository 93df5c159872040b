"""Chooses the access key of each conjunction: the atom that events satisfy least often."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, SET, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import TEXT_SHARE
from tamis.engines.tiles.arrays import ALWAYS

__all__ = [
    "Filings",
    "Keys",
    "choose_keys",
    "file_candidates",
    "price_atoms",
]

_PIECE_COST = 0.25
"""The cost of each further tree node that a key is filed under, relative to its likelihood."""


class Keys(NamedTuple):
    """The numbering of keys: ALWAYS, then presences, text predicates and tree nodes."""

    sizes: NDArray[np.int64]
    """The number of codes of each attribute."""
    tree: NDArray[np.int64]
    """The key of each attribute's node 0."""

    @classmethod
    def of(cls, rules: EncodedRules) -> Keys:
        """The numbering for the dictionary of `rules`."""
        base = rules.dictionary.base
        first = 1 + len(rules.dictionary.axes) + rules.texts.size
        return cls(np.diff(base), first + 2 * base[:-1])


class Filings(NamedTuple):
    """Candidates under keys; a conjunction is filed under each tree node of its key."""

    key: NDArray[np.int64]
    candidate: NDArray[np.int32]
    atom: NDArray[np.int32]
    """The atom that the key implies, which need not be tested again; -1 if there is none."""

    def sort_by(self, *columns: NDArray[np.generic]) -> Filings:
        """Sort by `columns`, of which the last is the primary key."""
        order = np.lexsort(columns)
        return Filings(self.key[order], self.candidate[order], self.atom[order])


@kernel
def _count_nodes(table, sizes, atom):
    """How many tree nodes an atom is filed under."""
    test = table[atom, 1]
    low, high = table[atom, 2], table[atom, 3]
    if test & NEGATED or test & 3 == TEXT:
        return 1
    if test & 3 == SET:
        return high - low
    size = sizes[table[atom, 0]]
    low += size
    high += size + 1
    pieces = 0
    while low < high:
        pieces += (low & 1) + (high & 1)
        low = (low + 1) >> 1
        high >>= 1
    return pieces


@kernel
def _cost_of_key(table, sizes, likely, atom):
    """What it costs to file a candidate under an atom, mostly how often events satisfy it."""
    return likely[atom] * (1 + _PIECE_COST * (_count_nodes(table, sizes, atom) - 1))


@kernel
def price_atoms(table, sizes, likely, price):
    """The cost of a cover by each atom; infinite where an event may lack the attribute."""
    for atom in range(len(table)):
        test = table[atom, 1]
        if test & IF_ABSENT:
            price[atom] = np.inf
        elif test & 3 == TEXT and not test & NEGATED:
            # Every event with the attribute has to be searched for the text.
            price[atom] = likely[atom] / TEXT_SHARE
        else:
            price[atom] = _cost_of_key(table, sizes, likely, atom)


@kernel
def choose_keys(table, sizes, start, conjunction_atom, likely, chosen):
    """Write for each conjunction the atom of its key and its two rarest other atoms, or -1."""
    for conjunction in range(len(start) - 1):
        best = -1
        best_cost = np.inf
        for i in range(start[conjunction], start[conjunction + 1]):
            atom = conjunction_atom[i]
            if table[atom, 1] & IF_ABSENT:
                continue
            cost = _cost_of_key(table, sizes, likely, atom)
            if cost < best_cost:
                best = atom
                best_cost = cost
        second = -1
        third = -1
        for i in range(start[conjunction], start[conjunction + 1]):
            atom = conjunction_atom[i]
            if atom == best:
                continue
            if second < 0 or likely[atom] < likely[second]:
                third = second
                second = atom
            elif third < 0 or likely[atom] < likely[third]:
                third = atom
        chosen[conjunction, 0] = best
        chosen[conjunction, 1] = second
        chosen[conjunction, 2] = third


@kernel
def _write_filing(out, filled, key, candidate, atom):
    """Write a filing if `out` has room at all; returns how many there are now."""
    if len(out):
        out[filled, 0] = key
        out[filled, 1] = candidate
        out[filled, 2] = atom
    return filled + 1


@kernel
def _write_filings(table, codes, keys, atoms, candidates, out):
    """File each candidate under the keys of its atom; returns how many filings there are."""
    filled = 0
    for k in range(len(atoms)):
        atom = atoms[k]
        attribute, test = table[atom, 0], table[atom, 1]
        low, high = table[atom, 2], table[atom, 3]
        size, tree = keys.sizes[attribute], keys.tree[attribute]
        if test & NEGATED:
            filled = _write_filing(out, filled, 1 + attribute, candidates[k], -1)
        elif test & 3 == TEXT:
            filled = _write_filing(out, filled, 1 + len(keys.sizes) + low, candidates[k], atom)
        elif test & 3 == SET:
            for i in range(low, high):
                filled = _write_filing(out, filled, tree + size + codes[i], candidates[k], atom)
        else:
            low += size
            high += size + 1
            while low < high:
                if low & 1:
                    filled = _write_filing(out, filled, tree + low, candidates[k], atom)
                    low += 1
                if high & 1:
                    high -= 1
                    filled = _write_filing(out, filled, tree + high, candidates[k], atom)
                low >>= 1
                high >>= 1
    return filled


def file_candidates(
    rules: EncodedRules, keys: Keys, atoms: NDArray[np.int32], candidates: NDArray[np.int32]
) -> Filings:
    """File candidates[i] under the keys of atoms[i], or under ALWAYS where that is -1."""
    unkeyed = candidates[atoms < 0]
    candidates, atoms = candidates[atoms >= 0], atoms[atoms >= 0]
    table, codes = rules.atoms
    out = np.empty((0, 3), np.int64)
    out = np.empty((_write_filings(table, codes, keys, atoms, candidates, out), 3), np.int64)
    _write_filings(table, codes, keys, atoms, candidates, out)
    always = np.stack([np.full_like(unkeyed, ALWAYS), unkeyed, np.full_like(unkeyed, -1)], axis=1)
    key, candidate, atom = np.concatenate((always.astype(np.int64), out)).T
    return Filings(key, candidate.astype(np.int32), atom.astype(np.int32))
