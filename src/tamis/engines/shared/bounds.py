"""What the search for the best rules knows about scores before it tests a conjunction.

The *worth* of an atom that an event satisfies is the most that it adds to the score of any rule:
its highest weight in a rule, times the event's weight. The score of a rule is at most the sum over
the worths of a satisfied conjunction; a conjunction that simplification dropped counts, too, and
has a place in an index of its own. Where even that is not enough (`are_sums`), or a rule is a
program, its tree is evaluated over worths.

These arrays are computed for the first search for the best rules, and are not stored.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, SET
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import Column
from tamis.engines.kernels.truth import find_code
from tamis.engines.likelihood import estimate_likelihood
from tamis.engines.normal_forms import only_absorbed
from tamis.engines.score_bounds import bound_rules, round_up
from tamis.engines.shared.arrays import SharedArrays
from tamis.engines.shared.build import rank_atoms, sort_conjunctions

__all__ = [
    "RANKED_COLUMNS",
    "WEIGHT_COLUMNS",
    "RankedIndex",
    "Weights",
    "bound_weights",
    "index_absorbed",
    "index_own",
]


class Weights(NamedTuple):
    """The highest weights of atoms and rules."""

    atom: NDArray[np.float64]
    """The highest weight of each atom in any rule; 0 if it is negated. TRUE has one, too."""
    code: NDArray[np.float64]
    """The highest weight of each code of a SET atom, beside `AtomArrays.codes`; empty if no rule
    has weights."""
    change: NDArray[np.float32]
    """For each of `SharedArrays.change`, the highest weight of its atom for its code, rounded up; 0
    for a negated atom that begins to hold, minus infinity for one that ceases to."""
    rule: NDArray[np.float32]
    """The most that each rule scores on an event without weights above 1."""


WEIGHT_COLUMNS = {
    "atom": Column(np.float64),
    "code": Column(np.float64),
    "change": Column(np.float32),
    "rule": Column(np.float32),
}


class RankedIndex(NamedTuple):
    """Conjunctions by their first two atoms, as in `SharedArrays`, with what they may score."""

    group: NDArray[np.int32]
    run_atom: NDArray[np.int32]
    run_start: NDArray[np.int32]
    entry: NDArray[np.int32]
    more: NDArray[np.int32]
    conjunction_atom: NDArray[np.int32]
    owner: NDArray[np.int32]
    """See `SharedArrays` and `FormArrays`."""
    group_rest: NDArray[np.float32]
    """The most that the conjunctions of each first atom score without that atom."""
    run_rest: NDArray[np.float32]
    """The most that the conjunctions of each run score without their first two atoms."""
    entry_rest: NDArray[np.float32]
    """The most that each conjunction scores without its first four atoms; if it is loose, that one
    of its rules scores."""
    is_loose: NDArray[np.uint8]
    """Whether a rule of the conjunction may score more than the sum over its conjunctions."""


RANKED_COLUMNS = {
    "group": Column(np.int32),
    "run_atom": Column(np.int32),
    "run_start": Column(np.int32),
    "entry": Column(np.int32, 3),
    "more": Column(np.int32, 4),
    "conjunction_atom": Column(np.int32),
    "owner": Column(np.int32),
    "group_rest": Column(np.float32),
    "run_rest": Column(np.float32),
    "entry_rest": Column(np.float32),
    "is_loose": Column(np.uint8),
}


def bound_weights(rules: EncodedRules, arrays: SharedArrays) -> Weights:
    """The highest weights in `rules`."""
    flags, scores = rules.atoms.flags, rules.scores
    atom = np.append((flags & NEGATED) == 0, False).astype(np.float64)
    code = np.zeros(len(rules.atoms.codes) if len(scores.weight) else 0)
    if len(scores.weight):
        atom[:] = 0
        _raise_weights(rules.atoms, scores, atom, code)
    change = np.empty(len(arrays.change))
    _weigh_changes(rules.atoms, arrays, atom, code, change)
    return Weights(atom, code, round_up(change), round_up(bound_rules(rules)))


@kernel
def _weigh_changes(atoms, arrays, atom_weight, code_weight, change_weight):
    """Write the weight of each change of an atom by a code of its attribute."""
    table, codes = atoms
    for attribute in range(len(arrays.base) - 1):
        for place in range(arrays.base[attribute], arrays.base[attribute + 1]):
            code = place - arrays.base[attribute]
            for k in range(arrays.change_start[place], arrays.change_start[place + 1]):
                atom = arrays.change[k]
                test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
                weight = atom_weight[atom]
                if test & NEGATED:
                    weight = -np.inf if test & IF_ABSENT else 0.0
                elif test & 3 == SET and len(code_weight):
                    weight = code_weight[find_code(codes, low, high, code)]
                change_weight[k] = weight


@kernel
def _raise_weights(atoms, scores, atom_weight, code_weight):
    """Raise the weight of each atom and code to its highest in any rule."""
    table, _ = atoms
    for place in range(len(scores.code)):
        atom = scores.code[place]
        if atom < 0 or table[atom, 1] & NEGATED:
            continue
        own = scores.weights[place]
        low = table[atom, 2]
        size = table[atom, 3] - low if table[atom, 1] & 3 == SET else 1
        for i in range(size):
            weight = scores.weight[own + i] if own >= 0 else 1.0
            atom_weight[atom] = max(atom_weight[atom], weight)
            if table[atom, 1] & 3 == SET:
                code_weight[low + i] = max(code_weight[low + i], weight)


def index_own(
    rules: EncodedRules, arrays: SharedArrays, weights: Weights, sums: NDArray[np.bool_]
) -> RankedIndex:
    """The rules' own conjunctions, which the engine has sorted already."""
    index = arrays.group, arrays.run_atom, arrays.run_start, arrays.entry, arrays.more
    return _bound_index(rules, index, weights, sums)


def index_absorbed(rules: EncodedRules, weights: Weights) -> tuple[RankedIndex, NDArray[np.bool_]]:
    """The conjunctions that simplification dropped; and whether each rule is scored by sums."""
    dropped, sums = only_absorbed(rules)
    forms = dropped.forms
    if len(forms.owner) == 0:
        # No conjunction was dropped, or conjunction i is rule i.
        size = len(forms.conjunction_start) - 1
        own = np.arange(size + 1), np.arange(size, dtype=np.int32)
        dropped = dropped._replace(forms=forms._replace(owner_start=own[0], owner=own[1]))
    absent = (rules.atoms.flags & IF_ABSENT) != 0
    rank = rank_atoms(estimate_likelihood(rules, None), absent)
    dropped, index = sort_conjunctions(dropped, rank, absent)
    return _bound_index(dropped, tuple(index), weights, sums), sums


def _bound_index(
    rules: EncodedRules,
    index: tuple[NDArray[np.int32], ...],
    weights: Weights,
    sums: NDArray[np.bool_],
) -> RankedIndex:
    group, run_atom, run_start, entry, more = index
    forms = rules.forms
    size = len(entry)
    loose = np.zeros(size, np.uint8)
    entry_rest, run_rest = np.zeros(size), np.zeros(len(run_atom))
    group_rest = np.zeros(len(group) - 1)
    _bound_entries(
        forms, index, weights.atom, weights.rule, sums, loose, entry_rest, run_rest, group_rest
    )
    return RankedIndex(
        group,
        run_atom,
        run_start,
        entry,
        more,
        forms.conjunction_atom,
        forms.owner,
        round_up(group_rest),
        round_up(run_rest),
        round_up(entry_rest),
        loose,
    )


@kernel
def _bound_entries(
    forms, index, atom_weight, rule_bound, sums, loose, entry_rest, run_rest, group_rest
):
    """Write what conjunctions, runs and groups may score beyond the atoms that lead to them."""
    group, run_atom, run_start, entry, more = index
    for atom in range(len(group_rest)):
        for run in range(group[atom], group[atom + 1]):
            for k in range(run_start[run], run_start[run + 1]):
                row = ~entry[k, 2]
                rest = 0.0
                if row >= 0:
                    for i in range(more[row, 0], more[row, 1]):
                        rest += atom_weight[forms.conjunction_atom[i]]
                for i in range(forms.owner_start[k], forms.owner_start[k + 1]):
                    if not sums[forms.owner[i]]:
                        loose[k] = 1
                        rest = max(rest, np.float64(rule_bound[forms.owner[i]]))
                entry_rest[k] = rest
                rest += atom_weight[entry[k, 0]] + atom_weight[entry[k, 1]]
                run_rest[run] = max(run_rest[run], rest)
            rest = run_rest[run] + atom_weight[run_atom[run]]
            group_rest[atom] = max(group_rest[atom], rest)
