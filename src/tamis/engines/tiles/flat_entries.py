"""Flat entries: the atoms of a conjunction packed end to end, so that a test reads one place.

An atom is a word: its test and flags, LAST_ATOM on the last atom of the conjunction, 18 bits for
its attribute, 21 for its lowest code, and 20 for the distance to its highest code. A list of codes
has its length in place of the lowest code, and the codes follow, three to a word. An atom that does
not fit is FAR: it has its number in place of attribute and codes.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT
from tamis.encode.kernel import kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import SEVERAL, atom_holds, find_code

__all__ = ["NOTHING_TO_TEST", "mark_packed", "pack_atoms", "packed_holds"]

NOTHING_TO_TEST = -1
"""In place of the place of a conjunction that has no atoms to test."""

_FAR = 3
_LAST_ATOM = 16
_ATTRIBUTE_AT, _ATTRIBUTE_BITS = 5, 18
_LOW_AT, _CODE_BITS = 23, 21
_WIDTH_AT, _WIDTH_BITS = 44, 20
_CODES_TO_A_WORD = 3
_MOST_CODES = 24
"""The longest list that is packed."""

_ATTRIBUTE_MASK = (1 << _ATTRIBUTE_BITS) - 1
_CODE_MASK = (1 << _CODE_BITS) - 1


@kernel
def _fits(table, codes, atom):
    """Whether an atom can be packed."""
    test = table[atom, 1] & 3
    low, high = table[atom, 2], table[atom, 3]
    if table[atom, 0] > _ATTRIBUTE_MASK:
        return False
    if test == RANGE:
        return low <= high and low <= _CODE_MASK and high - low < 1 << _WIDTH_BITS
    if test == SET:
        return low < high <= low + _MOST_CODES and codes[high - 1] <= _CODE_MASK
    return True


@kernel
def _pack(table, codes, start, conjunction_atom, key_atom, wanted, place, out):
    """Write the wanted conjunctions; without room in `out`, only count their words."""
    room = len(out) > 0
    at = 0
    for conjunction in range(len(wanted)):
        place[conjunction] = NOTHING_TO_TEST
        if not wanted[conjunction]:
            continue
        last = -1
        first = at
        for i in range(start[conjunction], start[conjunction + 1]):
            atom = conjunction_atom[i]
            if atom == key_atom[conjunction]:
                continue
            last = at
            test = np.uint64(table[atom, 1])
            low, high = table[atom, 2], table[atom, 3]
            word = test | np.uint64(table[atom, 0]) << np.uint64(_ATTRIBUTE_AT)
            if not _fits(table, codes, atom):
                word = np.uint64(_FAR) | np.uint64(atom) << np.uint64(_LOW_AT)
            elif test & np.uint64(3) == SET:
                word |= np.uint64(high - low) << np.uint64(_LOW_AT)
                for k in range(low, high):
                    place_in = (k - low) % _CODES_TO_A_WORD
                    at += place_in == 0
                    if room:
                        if place_in == 0:
                            out[at] = 0
                        out[at] |= np.uint64(codes[k]) << np.uint64(_CODE_BITS * place_in)
            else:
                word |= np.uint64(low) << np.uint64(_LOW_AT)
                if test & np.uint64(3) == RANGE:
                    word |= np.uint64(high - low) << np.uint64(_WIDTH_AT)
            if room:
                out[last] = word
            at += 1
        if last >= 0:
            place[conjunction] = first
            if room:
                out[last] |= np.uint64(_LAST_ATOM)
    return at


def pack_atoms(
    rules: EncodedRules, key_atom: NDArray[np.int32], wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Pack the atoms of the wanted conjunctions except those of keys; also where each begins."""
    forms = rules.forms
    place = np.empty(len(wanted), np.int32)
    out = np.empty(0, np.uint64)
    lists = forms.conjunction_start, forms.conjunction_atom, key_atom, wanted
    out = np.empty(_pack(*rules.atoms, *lists, place, out), np.uint64)
    _pack(*rules.atoms, *lists, place, out)
    return out, place


@kernel
def mark_packed(packed, attributes, texts, atoms, begins):
    """Mark where packed conjunctions begin; False if an atom has what is not there, or no end."""
    at = np.int64(0)
    is_first = True
    while at < len(packed):
        word = np.int64(packed[at])
        begins[at] = is_first
        is_first = word & _LAST_ATOM != 0
        at += 1
        test = word & 3
        if (word >> _ATTRIBUTE_AT) & _ATTRIBUTE_MASK >= attributes:
            return False
        number = word >> _LOW_AT
        if test == _FAR and (number < 0 or number >= atoms):
            return False
        if test == TEXT and (number < 0 or number >= texts):
            return False
        if test == SET:
            count = (word >> _LOW_AT) & _CODE_MASK
            at += (count + _CODES_TO_A_WORD - 1) // _CODES_TO_A_WORD
    return is_first and at == len(packed)


@part
def _in_list(packed, at, count, code):
    """Whether a code is in the list that follows an atom."""
    for k in range(count):
        word = packed[at + k // _CODES_TO_A_WORD]
        if (word >> np.uint64(_CODE_BITS * (k % _CODES_TO_A_WORD))) & np.uint64(
            _CODE_MASK
        ) == np.uint64(code):
            return True
    return False


@kernel
def _far_holds(table, codes, event_code, code_of, span, text, atom):
    """Whether an atom that did not fit holds."""
    test, code = table[atom, 1], code_of[table[atom, 0]]
    if code == SEVERAL or (code and test & 3 == TEXT):
        return atom_holds(table, codes, event_code, span, text, atom)
    low, high = table[atom, 2], table[atom, 3]
    if code == 0:
        return test & IF_ABSENT != 0
    if test & 3 == SET:
        return (find_code(codes, low, high, code) >= 0) != (test & NEGATED != 0)
    return (low <= code <= high) != (test & NEGATED != 0)


@part
def packed_holds(packed, at, table, codes, event_code, code_of, span, text):
    """Whether the conjunction packed at a place holds on the loaded event."""
    while True:
        word = np.int64(packed[at])
        at += 1
        test = word & 3
        low = (word >> _LOW_AT) & _CODE_MASK
        attribute = (word >> _ATTRIBUTE_AT) & _ATTRIBUTE_MASK
        code = code_of[attribute]
        count = low if test == SET else 0
        satisfied = False
        if test == _FAR:
            if not _far_holds(table, codes, event_code, code_of, span, text, word >> _LOW_AT):
                return False
        else:
            if code == 0:
                satisfied = word & IF_ABSENT != 0
            else:
                begin, end = span[attribute, 0], span[attribute, 1]
                if test == TEXT:
                    satisfied = text[word >> _LOW_AT] != 0
                elif test == RANGE:
                    width = (word >> _WIDTH_AT) & ((1 << _WIDTH_BITS) - 1)
                    if code != SEVERAL:
                        satisfied = low <= code <= low + width
                    else:
                        for i in range(begin, end):
                            satisfied |= low <= event_code[i] <= low + width
                elif code != SEVERAL:
                    satisfied = _in_list(packed, at, count, code)
                else:
                    for i in range(begin, end):
                        satisfied |= _in_list(packed, at, count, event_code[i])
                satisfied = satisfied != (word & NEGATED != 0)
            if not satisfied:
                return False
        if word & _LAST_ATOM:
            return True
        at += (count + _CODES_TO_A_WORD - 1) // _CODES_TO_A_WORD
