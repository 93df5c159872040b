"""Atoms → flat arrays, in terms of codes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, AtomArrays
from tamis.encode.dictionary import Axis, Dictionary, code_range
from tamis.encode.ragged import run_places, starts
from tamis.expr.model import Atom, Op, Predicate, Value
from tamis.expr.patterns import prefix_of
from tamis.expr.weights import RuleWeights

__all__ = ["encode_atoms", "encode_weights", "number_text_predicates", "take_atoms"]


def number_text_predicates(atoms: Iterable[Atom]) -> dict[Predicate, int]:
    """Give text ids to the distinct predicates that no order of strings decides."""
    ids: dict[Predicate, int] = {}
    for atom in atoms:
        if atom.predicate.op.is_text and prefix_of(atom.predicate) is None:
            ids.setdefault(atom.predicate, len(ids))
    return ids


def encode_atoms(
    atoms: Sequence[Atom], dictionary: Dictionary, texts: dict[Predicate, int]
) -> AtomArrays:
    """The arrays of `atoms`; `texts` has the ids of their text predicates."""
    table, codes = array("i"), array("i")
    for atom in atoms:
        predicate = atom.predicate
        attribute = dictionary.attributes[predicate.attribute]
        flags = NEGATED * atom.negated | IF_ABSENT * atom.if_absent
        if predicate.op is Op.IN:
            first = len(codes)
            codes.extend(_list_codes(predicate, dictionary.axes[attribute]))
            table.extend((attribute, SET | flags, first, len(codes)))
        elif predicate.op.is_text and predicate in texts:
            table.extend((attribute, TEXT | flags, texts[predicate], 0))
        else:
            low, high = code_range(predicate, dictionary.axes[attribute])
            table.extend((attribute, RANGE | flags, low, high))
    return AtomArrays(np.array(table, np.int32).reshape(-1, 4), np.array(codes, np.int32))


def _list_codes(predicate: Predicate, axis: Axis) -> list[int]:
    return sorted({axis.code(value) for value in predicate.values})


def take_atoms(atoms: AtomArrays, chosen: NDArray[np.int64]) -> AtomArrays:
    """The atoms `chosen`, in that order, with the codes of no others; nothing is shared."""
    table = atoms.table[chosen]
    is_set = (table[:, 1] & 3) == SET
    sizes = table[is_set, 3] - table[is_set, 2]
    codes = atoms.codes[run_places(table[is_set, 2], sizes)]
    start = starts(sizes)
    table[is_set, 2], table[is_set, 3] = start[:-1], start[1:]
    return AtomArrays(table, codes)


def encode_weights(
    predicate: Predicate, weights: RuleWeights, dictionary: Dictionary
) -> list[float]:
    """The weights of one predicate: one for each of a list's codes, else a single one."""
    if predicate.op is not Op.IN:
        # Unless the predicate is an equality, its weight does not depend on its values.
        value: Value = predicate.values[0] if predicate.values else True
        return [weights.get(predicate, value)]
    axis = dictionary.axes[dictionary.attributes[predicate.attribute]]
    by_code = {axis.code(value): weights.get(predicate, value) for value in predicate.values}
    return [by_code[code] for code in sorted(by_code)]
