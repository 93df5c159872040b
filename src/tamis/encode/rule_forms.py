"""Compact forms for sets of rules that are single conjunctions.

Where every rule is one conjunction, its score is the sum over that conjunction's atoms, and no rule
has weights, conjunction i becomes rule i, with its atoms in the order of the rule's text. Then
neither owners nor score codes need to be stored. The few rules that repeat the atoms of another get
a conjunction of their own.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, NO_INT64, FormArrays, ScoreArrays
from tamis.encode.kernel import kernel
from tamis.encode.ragged import list_numbers, narrow_starts, starts

__all__ = ["and_code", "compact_forms", "expand_scores", "or_code", "owner_arrays"]

_IMPLIED = ScoreArrays(NO_INT64, NO_INT32, NO_INT32, NO_DOUBLES, depth=1)
_SHARED = 8
"""Conjunctions stay shared if more than one rule in this number shares one."""


def and_code(operands: int) -> int:
    """The score code of an AND."""
    return -(2 * operands + 1)


def or_code(operands: int) -> int:
    """The score code of an OR."""
    return -(2 * operands + 2)


def owner_arrays(
    conjunction: NDArray[np.int64], rule: NDArray[np.int64], conjunctions: int, rules: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """`owner_start` and `owner` of `FormArrays`, given pairs of a conjunction and a rule.

    The rules of the pairs must rise.
    """
    if conjunctions == rules == len(rule) and np.array_equal(conjunction, rule):
        return NO_INT64, NO_INT32
    order = np.argsort(conjunction, kind="stable")
    return starts(np.bincount(conjunction, minlength=conjunctions)), rule[order].astype(np.int32)


def compact_forms(
    forms: FormArrays,
    start: NDArray[np.int64],
    code: NDArray[np.int32],
    weights: NDArray[np.int32],
    weight: NDArray[np.float64],
) -> tuple[FormArrays, ScoreArrays]:
    """The forms and scores to store, given distinct conjunctions and the scores of all rules.

    `start` to `weight` are those of `ScoreArrays`, with nothing left out.
    """
    if len(weight) == 0:
        conjunction = _single_conjunctions(forms, len(start) - 1)
        if conjunction is not None and _are_sums(
            forms.conjunction_start, forms.conjunction_atom, conjunction, start, code
        ):
            return _give_each_its_own(forms, conjunction, start, code), _IMPLIED
        weights = NO_INT32
    depth = int(np.diff(start).max(initial=1))
    return forms, ScoreArrays(start, code, weights, weight, depth)


def expand_scores(forms: FormArrays, scores: ScoreArrays) -> ScoreArrays:
    """`scores` with codes for all rules, also where they are not stored."""
    if len(scores.start):
        return scores
    sizes = np.diff(forms.conjunction_start)
    start = starts(sizes + (sizes != 1))
    code = np.empty(start[-1], np.int32)
    _write_codes(forms.conjunction_start, forms.conjunction_atom, start, code)
    return ScoreArrays(start, code, scores.weights, scores.weight, int(sizes.max(initial=0)) + 1)


def _single_conjunctions(forms: FormArrays, size: int) -> NDArray[np.int64] | None:
    """The conjunction of each rule, if every rule is one and few are shared."""
    conjunctions = len(forms.conjunction_start) - 1
    if len(forms.owner) == 0:
        return np.arange(size) if conjunctions == size else None
    few_shared = (size - conjunctions) * _SHARED <= size
    if len(forms.owner) != size or not few_shared:
        return None
    conjunction = np.full(size, -1, np.int64)
    conjunction[forms.owner] = list_numbers(forms.owner_start)
    return None if (conjunction < 0).any() else conjunction


def _give_each_its_own(
    forms: FormArrays,
    conjunction: NDArray[np.int64],
    start: NDArray[np.int64],
    code: NDArray[np.int32],
) -> FormArrays:
    """`forms` with a conjunction for each rule, its atoms in the order of its score code."""
    own_start = starts(np.diff(forms.conjunction_start)[conjunction])
    own_atom = np.empty(own_start[-1], np.int32)
    _copy_atoms(start, code, own_start, own_atom)
    return forms._replace(
        conjunction_start=narrow_starts(own_start),
        conjunction_atom=own_atom,
        owner_start=NO_INT64,
        owner=NO_INT32,
    )


@kernel
def _are_sums(conjunction_start, conjunction_atom, conjunction, start, code):
    """Whether each rule's score code is its conjunction's atoms, in any order, and their AND."""
    for rule in range(len(start) - 1):
        first = conjunction_start[conjunction[rule]]
        size = conjunction_start[conjunction[rule] + 1] - first
        length = start[rule + 1] - start[rule]
        # One atom needs no operator.
        if length != size + 1 and not length == size == 1:
            return False
        if length > size and code[start[rule] + size] != -(2 * size + 1):
            return False
        for i in range(size):
            atom = conjunction_atom[first + i]
            if code[start[rule] + i] == atom:
                continue
            at = 0
            while at < size and code[start[rule] + at] != atom:
                at += 1
            if at == size:
                return False
    return True


@kernel
def _copy_atoms(start, code, own_start, own_atom):
    for rule in range(len(start) - 1):
        for i in range(own_start[rule + 1] - own_start[rule]):
            own_atom[own_start[rule] + i] = code[start[rule] + i]


@kernel
def _write_codes(conjunction_start, conjunction_atom, start, code):
    for rule in range(len(start) - 1):
        first, last = conjunction_start[rule], conjunction_start[rule + 1]
        at = start[rule]
        for i in range(first, last):
            code[at] = conjunction_atom[i]
            at += 1
        # One atom needs no operator.
        if last - first != 1:
            code[at] = -(2 * (last - first) + 1)
