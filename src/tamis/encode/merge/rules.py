"""Merges encoded rules of several sets into one set, without parsing their texts.

Atoms, values and attributes that only omitted rules mention are omitted, too. The result is what
encoding the rules together would give, except for the numbering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, SET, FormArrays, ScoreArrays
from tamis.encode.atoms import take_atoms
from tamis.encode.merge.deduplicate import number_atoms, number_conjunctions
from tamis.encode.merge.dictionaries import unite_atoms
from tamis.encode.ragged import (
    concatenate_lists,
    item_places,
    list_numbers,
    narrow_starts,
    run_places,
    starts,
    take_lists,
)
from tamis.encode.rule_forms import compact_forms, expand_scores, owner_arrays
from tamis.encode.rules import EncodedRules

__all__ = ["merge_rules"]


def merge_rules(parts: Sequence[tuple[EncodedRules, NDArray[np.integer[Any]]]]) -> EncodedRules:
    """Merge the chosen rules of each part, numbered end to end in the order of choice.

    Parameters
    ----------
    parts
        Sets of rules, and the numbers of those to take, each at most once.
    """
    sizes = [len(chosen) for _, chosen in parts]
    pieces = [
        _cut_piece(rules, np.asarray(chosen, np.int64), int(first))
        for (rules, chosen), first in zip(parts, starts(sizes), strict=False)
    ]
    if not pieces:
        raise ValueError("there is nothing to merge; pass at least one set of rules")
    atoms, dictionary, texts = unite_atoms(
        [piece.rules for piece in pieces], [p.atoms for p in pieces]
    )
    part = np.repeat(np.arange(len(pieces)), [len(piece.atoms) for piece in pieces])
    number, first = number_atoms(atoms, part)
    ends = np.cumsum([len(piece.atoms) for piece in pieces])[:-1]
    pieces = [
        piece.renumber(numbers)
        for piece, numbers in zip(pieces, np.split(number, ends), strict=True)
    ]
    forms, scores = compact_forms(_forms(pieces, sum(sizes)), *_scores(pieces))
    return EncodedRules(sum(sizes), take_atoms(atoms, first), forms, scores, dictionary, texts)


class _Piece(NamedTuple):
    """The chosen rules of one part."""

    rules: EncodedRules
    atoms: NDArray[np.int64]
    """The atoms in use, rising."""
    conjunction_start: NDArray[np.int64]
    conjunction_atom: NDArray[np.int32]
    """The conjunctions in use. Atoms have their number in the part, or once renumbered in the
    whole."""
    owned: NDArray[np.int64]
    owner: NDArray[np.int64]
    """Pairs of a conjunction, by its place here, and a rule, by its number in the whole. Rules
    rise."""
    program_start: NDArray[np.int64]
    program: NDArray[np.int32]
    program_rule: NDArray[np.int64]
    cover_start: NDArray[np.int64]
    cover_atom: NDArray[np.int32]
    scores: ScoreArrays
    """Expanded."""

    def renumber(self, numbers: NDArray[np.int32]) -> _Piece:
        """A copy in which the i-th of `atoms` has the number numbers[i]."""
        new = np.full(len(self.rules.atoms.table), -1, np.int32)
        new[self.atoms] = numbers
        program = self.program.copy()
        program[:, 0] = new[program[:, 0]]
        code = self.scores.code
        code = np.where(code < 0, code, new[np.maximum(code, 0)]) if len(new) else code
        return self._replace(
            conjunction_atom=new[self.conjunction_atom],
            program=program,
            cover_atom=new[self.cover_atom],
            scores=self.scores._replace(code=code),
        )


def _cut_piece(rules: EncodedRules, chosen: NDArray[np.int64], first: int) -> _Piece:
    """The rules `chosen`, to be numbered from `first` on."""
    forms = rules.forms
    rank = np.full(rules.size, -1, np.int64)
    rank[chosen] = np.arange(first, first + len(chosen))
    conjunctions, owned, owner = _find_conjunctions(forms, chosen, rank)
    start, atom = take_lists(forms.conjunction_start, forms.conjunction_atom, conjunctions)
    programs = np.flatnonzero(rank[forms.program_rule] >= 0)
    programs = programs[np.argsort(rank[forms.program_rule[programs]])]
    program = take_lists(forms.program_start, forms.program, programs)
    cover = take_lists(forms.cover_start, forms.cover_atom, programs)
    scores = _chosen_scores(rules, chosen, start, atom)
    used = np.zeros(len(rules.atoms.table), np.bool_)
    for numbers in (atom, program[1][:, 0], cover[1], scores.code[scores.code >= 0]):
        used[numbers] = True
    return _Piece(
        rules,
        np.flatnonzero(used),
        start,
        atom,
        owned,
        owner,
        *program,
        rank[forms.program_rule[programs]],
        *cover,
        scores,
    )


def _find_conjunctions(
    forms: FormArrays, chosen: NDArray[np.int64], rank: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The conjunctions of the chosen rules, and pairs of a place among them and a rule's rank."""
    size = len(forms.conjunction_start) - 1
    if len(forms.owner) == 0 and size:
        return chosen, np.arange(len(chosen)), rank[chosen]
    conjunction = list_numbers(forms.owner_start)
    owner = rank[forms.owner]
    kept = np.flatnonzero(owner >= 0)
    kept = kept[np.argsort(owner[kept], kind="stable")]
    conjunctions, place = np.unique(conjunction[kept], return_inverse=True)
    return conjunctions, place, owner[kept]


def _chosen_scores(
    rules: EncodedRules,
    chosen: NDArray[np.int64],
    conjunction_start: NDArray[np.int64],
    conjunction_atom: NDArray[np.int32],
) -> ScoreArrays:
    """The expanded scores of the chosen rules, whose conjunctions are given."""
    scores = rules.scores
    if len(scores.start) == 0:
        forms = rules.forms._replace(
            conjunction_start=narrow_starts(conjunction_start),
            conjunction_atom=conjunction_atom,
        )
        return expand_scores(forms, scores)
    start, places = item_places(scores.start, chosen)
    code = scores.code[places]
    if len(scores.weights) == 0:
        return scores._replace(start=start, code=code)
    weights = scores.weights[places]
    return ScoreArrays(start, code, *_chosen_weights(rules, code, weights), scores.depth)


def _chosen_weights(
    rules: EncodedRules, code: NDArray[np.int32], weights: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The weights of score codes, without those of other rules.

    A list has one weight for each code. They keep their order, since values do.
    """
    weighs = np.flatnonzero(weights >= 0)
    if len(weighs) == 0:
        return NO_INT32, NO_DOUBLES
    table = rules.atoms.table[code[weighs]]
    sizes = np.where((table[:, 1] & 3) == SET, table[:, 3] - table[:, 2], 1)
    weight = rules.scores.weight[run_places(weights[weighs], sizes)]
    chosen = np.full(len(weights), -1, np.int32)
    chosen[weighs] = starts(sizes)[:-1]
    return chosen, weight


def _forms(pieces: Sequence[_Piece], size: int) -> FormArrays:
    start, atom = concatenate_lists([(p.conjunction_start, p.conjunction_atom) for p in pieces])
    number, first = number_conjunctions(start, atom)
    bases = starts(len(piece.conjunction_start) - 1 for piece in pieces)
    owned = [number[base + piece.owned] for base, piece in zip(bases, pieces, strict=False)]
    owner = np.concatenate([piece.owner for piece in pieces])
    start, atom = take_lists(start, atom, first)
    return FormArrays(
        narrow_starts(start),
        atom,
        *owner_arrays(np.concatenate(owned).astype(np.int64), owner, len(first), size),
        *concatenate_lists([(piece.program_start, piece.program) for piece in pieces]),
        np.concatenate([piece.program_rule for piece in pieces]).astype(np.int32),
        *concatenate_lists([(piece.cover_start, piece.cover_atom) for piece in pieces]),
    )


def _scores(
    pieces: Sequence[_Piece],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """The scores of all pieces, as `compact_forms` takes them."""
    start, code = concatenate_lists([(piece.scores.start, piece.scores.code) for piece in pieces])
    weight = np.concatenate([piece.scores.weight for piece in pieces])
    if len(weight) == 0:
        return start, code, NO_INT32, weight
    weights, base = [], 0
    for piece in pieces:
        own = piece.scores.weights
        if len(own) == 0:
            own = np.full(len(piece.scores.code), -1, np.int32)
        weights.append(np.where(own < 0, own, own + np.int32(base)))
        base += len(piece.scores.weight)
    return start, code, np.concatenate(weights), weight
