"""Prepares rules for filing: the order of atoms, and the storage of their lists of codes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import SET, AtomArrays
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules

__all__ = ["sort_atoms"]


def sort_atoms(rules: EncodedRules) -> EncodedRules:
    """Sort the table of atoms by attribute, and store equal lists of codes once.

    An event's attributes then lead to few parts of the table. Codes are small numbers, so many
    attributes have the same lists: with 400 attributes of 48 values each, nine lists in ten.
    """
    atoms, forms, scores = rules.atoms, rules.forms, rules.scores
    order = np.lexsort((atoms.low, atoms.attribute))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    program = forms.program.copy()
    program[:, 0] = number[program[:, 0]]
    code = scores.code.copy()
    code[code >= 0] = number[code[code >= 0]]
    return rules._replace(
        atoms=_share_lists(
            atoms._replace(table=np.ascontiguousarray(atoms.table[order])),
        ),
        forms=forms._replace(
            conjunction_atom=number[forms.conjunction_atom],
            program=program,
            cover_atom=number[forms.cover_atom],
        ),
        scores=scores._replace(code=code),
    )


def _share_lists(atoms: AtomArrays) -> AtomArrays:
    """`atoms` with each distinct list of codes stored once. Changes the table in place."""
    lists = int(np.count_nonzero(atoms.test == SET))
    slot = np.full((1 << (2 * lists + 1).bit_length(), 2), -1, np.int32)
    codes = np.empty_like(atoms.codes)
    return atoms._replace(codes=codes[: _write_lists(*atoms, slot, codes)].copy())


@kernel
def _write_lists(table, codes, slot, out):
    """Write the distinct lists of atoms to `out`, and where they are to the table.

    `slot` is a hash table of where lists begin and end in `out`, with -1 for an empty slot. Returns
    how many codes were written.
    """
    mask = np.uint64(len(slot) - 1)
    written = 0
    for atom in range(len(table)):
        if table[atom, 1] & 3 != SET:
            continue
        first, size = table[atom, 2], table[atom, 3] - table[atom, 2]
        mixed = np.uint64(size)
        for i in range(first, first + size):
            mixed = (mixed ^ np.uint64(codes[i])) * np.uint64(0x100000001B3)
        at = (mixed ^ mixed >> np.uint64(32)) & mask
        while slot[at, 0] >= 0:
            begin = slot[at, 0]
            same = slot[at, 1] - begin == size
            for i in range(size if same else 0):
                same &= out[begin + i] == codes[first + i]
            if same:
                break
            at = (at + np.uint64(1)) & mask
        if slot[at, 0] < 0:
            slot[at, 0], slot[at, 1] = written, written + size
            for i in range(size):
                out[written + i] = codes[first + i]
            written += size
        table[atom, 2], table[atom, 3] = slot[at, 0], slot[at, 1]
    return written
