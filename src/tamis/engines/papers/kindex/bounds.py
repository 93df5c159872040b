"""The most that a key adds to a score (section 5), and which rules are scored by such sums.

A rule's score is defined over its tree. So it is the best sum over a satisfied conjunction only if
the tree is a DNF and no predicate was dropped or merged.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, RANGE, SET, FormArrays, ScoreArrays
from tamis.encode.kernel import kernel
from tamis.encode.ragged import list_numbers, starts
from tamis.encode.rules import EncodedRules
from tamis.engines.papers.code_trees import Trees

__all__ = ["AND", "are_normal", "are_sums", "bound_keys"]

AND, _OR = 0, 1
"""The operators, as the lowest bit of a score code; see `ScoreArrays`."""


@kernel
def _raise_bounds(atoms, trees, code, weights, weight, bounds):
    """Raise the bound of each key to its highest weight in any rule."""
    table, codes = atoms
    sizes, bases = trees
    first_text = bases[len(bases) - 1]
    for place in range(len(code)):
        atom = code[place]
        if atom < 0 or table[atom, 1] & NEGATED:
            continue
        own = weights[place] if len(weights) else -1
        size, base = sizes[table[atom, 0]], bases[table[atom, 0]]
        test, low, high = table[atom, 1] & 3, table[atom, 2], table[atom, 3]
        if test == SET:
            for i in range(low, high):
                key = base + size + codes[i]
                bounds[key] = max(bounds[key], weight[own + i - low] if own >= 0 else 1.0)
            continue
        worth = weight[own] if own >= 0 else 1.0
        if test == RANGE:
            left, right = size + low, size + high + 1
            while left < right:
                if left & 1:
                    bounds[base + left] = max(bounds[base + left], worth)
                    left += 1
                if right & 1:
                    right -= 1
                    bounds[base + right] = max(bounds[base + right], worth)
                left >>= 1
                right >>= 1
        else:
            bounds[first_text + low] = max(bounds[first_text + low], worth)


def bound_keys(rules: EncodedRules, trees: Trees) -> NDArray[np.float64]:
    """UB of each key of `PostingArrays`: its highest weight in any rule; 0 for Z."""
    scores = rules.scores
    bounds = np.zeros(int(trees.base[-1]) + rules.texts.size + 1)
    code = scores.code if len(scores.start) else rules.forms.conjunction_atom
    _raise_bounds(rules.atoms, trees, code, scores.weights, scores.weight, bounds)
    return bounds


def are_sums(forms: FormArrays, scores: ScoreArrays, size: int) -> NDArray[np.bool_]:
    """Whether each rule's score is the best of the sums over its satisfied conjunctions.

    Its tree must be an OR of ANDs of atoms, and must have as many atoms as its conjunctions:
    simplification would have made them fewer.
    """
    if len(scores.start) == 0:
        return np.ones(size, np.bool_)
    rule = list_numbers(scores.start)
    atoms = np.bincount(rule[scores.code >= 0], minlength=size)
    sums: NDArray[np.bool_] = atoms == _count_atoms(forms, size)
    return sums & are_normal(scores.start, scores.code, outer=_OR)


def are_normal(start: NDArray[np.int64], code: NDArray[np.int32], outer: int) -> NDArray[np.bool_]:
    """Whether each tree is a DNF (`outer` is OR) or a CNF (AND), without empty operators inside.

    `start` and `code` are as in `ScoreArrays`.
    """
    size = len(start) - 1
    rule = list_numbers(start)
    place = np.arange(len(code))
    is_operator = code < 0
    operands = np.where(is_operator, (-code - 1) >> 1, 0)
    is_outer = is_operator & ((-code - 1) & 1 == outer)
    is_last = place == start[rule + 1] - 1
    has_outer = np.zeros(size, np.bool_)
    has_outer[rule[is_outer & is_last]] = True
    before = starts(is_operator)[:-1]
    over_atoms = (before == before[place - operands]) & (operands > 0)
    fits = np.where(is_outer, is_last, over_atoms & (is_last | has_outer[rule]))
    normal = np.ones(size, np.bool_)
    normal[rule[is_operator & ~fits]] = False
    return normal


def _count_atoms(forms: FormArrays, size: int) -> NDArray[np.int64]:
    """How many atoms the conjunctions of each rule have."""
    sizes = np.diff(forms.conjunction_start)
    if len(forms.owner) == 0:
        return sizes if len(sizes) == size else np.zeros(size, np.int64)
    atoms = np.bincount(forms.owner, np.repeat(sizes, np.diff(forms.owner_start)), minlength=size)
    return atoms.astype(np.int64)
