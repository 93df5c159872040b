"""Builds the arrays of the shared engine from encoded rules."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_FALSE, GOTO_TRUE, IF_ABSENT, Events, FormArrays
from tamis.encode.kernel import kernel
from tamis.encode.ragged import list_numbers, narrow_starts, starts, take_lists
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Parts
from tamis.engines.covers import Covers, choose_pairs
from tamis.engines.likelihood import estimate_likelihood
from tamis.engines.shared.arrays import SharedArrays
from tamis.engines.shared.changes import list_changes

__all__ = ["build", "rank_atoms", "sort_conjunctions"]


def build(rules: EncodedRules, sample: Events | None) -> Parts:
    """Sort the atoms of each conjunction, rarest first, then the conjunctions by their atoms.

    Rules keep their order, so that marks are read in the order in which rules were added.
    """
    rules = _sort_programs(_name_owners(rules))
    likely = estimate_likelihood(rules, sample)
    absent = (rules.atoms.flags & IF_ABSENT) != 0
    rank = rank_atoms(likely, absent)
    rules, index = sort_conjunctions(rules, rank, absent)
    covers = choose_pairs(rules, np.where(absent, np.inf, likely))
    is_program = np.zeros(rules.size // 64 + 1, np.uint64)
    numbers = rules.forms.program_rule.astype(np.uint64)
    np.bitwise_or.at(is_program, numbers >> np.uint64(6), np.uint64(1) << (numbers & np.uint64(63)))
    before = np.searchsorted(rules.forms.program_rule, 64 * np.arange(len(is_program)))
    arrays = SharedArrays(
        np.append(absent, True).astype(np.uint8),
        rules.dictionary.base,
        *list_changes(rules),
        *index,
        *_file_programs(rules, covers, rank),
        is_program,
        before.astype(np.int32),
        *_list_clauses(rules, covers, likely, absent),
    )
    return Parts(rules, np.arange(rules.size, dtype=np.int32), arrays)


def _name_owners(rules: EncodedRules) -> EncodedRules:
    """`rules` with owners and score codes, also where conjunction i is rule i.

    Conjunctions and their atoms can then be sorted without changing a score.
    """
    forms, scores = rules.forms, rules.scores
    scores = expand_scores(forms, scores)
    if len(forms.owner) == 0:
        size = len(forms.conjunction_start) - 1
        forms = forms._replace(
            owner_start=np.arange(size + 1), owner=np.arange(size, dtype=np.int32)
        )
    return rules._replace(forms=forms, scores=scores)


def _sort_programs(rules: EncodedRules) -> EncodedRules:
    """`rules` with programs in the order of their rules."""
    forms = rules.forms
    order = np.argsort(forms.program_rule)
    program_start, program = take_lists(forms.program_start, forms.program, order)
    cover_start, cover_atom = take_lists(forms.cover_start, forms.cover_atom, order)
    return rules._replace(
        forms=forms._replace(
            program_start=program_start,
            program=program,
            program_rule=forms.program_rule[order],
            cover_start=cover_start,
            cover_atom=cover_atom,
        )
    )


def rank_atoms(likely: NDArray[np.float64], absent: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The place of each atom in the order of all atoms, rarest first.

    Those that hold on an absent attribute come last: no value of an event leads to them.
    """
    rank = np.empty(len(likely), np.int32)
    rank[np.lexsort((likely, absent))] = np.arange(len(likely), dtype=np.int32)
    return rank


class _Index(NamedTuple):
    """See the fields of the same names in `SharedArrays`."""

    group: NDArray[np.int32]
    run_atom: NDArray[np.int32]
    run_start: NDArray[np.int32]
    entry: NDArray[np.int32]
    more: NDArray[np.int32]


def sort_conjunctions(
    rules: EncodedRules, rank: NDArray[np.int32], absent: NDArray[np.bool_]
) -> tuple[EncodedRules, _Index]:
    """Sort conjunctions, which have owners, by their atoms, and list their runs."""
    forms = rules.forms
    atom = forms.conjunction_atom.copy()
    _sort_atoms(forms.conjunction_start, atom, rank)
    first, second, third, fourth, begin = _first_atoms(forms.conjunction_start, atom, absent)
    order = np.lexsort((third, second, first))
    start, atom = take_lists(forms.conjunction_start, atom, order)
    owner_start, owner = take_lists(forms.owner_start, forms.owner, order)
    group, run_atom, run_start = _list_runs(first[order], second[order], len(rank))
    forms = forms._replace(
        conjunction_start=narrow_starts(start),
        conjunction_atom=atom,
        owner_start=owner_start,
        owner=owner,
    )
    entry = np.stack([third[order], fourth[order], np.zeros(len(order), np.int64)], axis=1)
    own, end = np.diff(owner_start), start[1:]
    begin = np.minimum(start[:-1] + begin[order], end)
    needs_more = (begin < end) | (own != 1)
    entry[~needs_more, 2] = owner[owner_start[:-1][~needs_more]]
    entry[needs_more, 2] = ~np.arange(np.count_nonzero(needs_more))
    more = np.stack([begin, end, owner_start[:-1], owner_start[1:]], axis=1)[needs_more]
    index = _Index(group, run_atom, run_start, entry.astype(np.int32), more.astype(np.int32))
    return rules._replace(forms=forms), index


def _first_atoms(
    start: NDArray[np.int32], atom: NDArray[np.int32], absent: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], ...]:
    """The first four atoms of each conjunction, and how many of its atoms these are at most.

    TRUE stands where there are no more.
    A conjunction whose first atom holds on an absent attribute has no atom that an event's values
    lead to: it comes under TRUE, and its own atoms follow.
    """
    size, true = np.diff(start), len(absent)
    padded = np.append(atom, [0] * 4)

    def nth(place: int) -> NDArray[np.int64]:
        return np.where(size > place, padded[start[:-1] + place], true).astype(np.int64)

    atoms = [nth(place) for place in range(4)]
    is_led = ~np.append(absent, True)[atoms[0]]
    under_true = [np.full_like(atoms[0], true), *atoms]
    chosen = [np.where(is_led, led, other) for led, other in zip(atoms, under_true, strict=False)]
    return *chosen, np.where(is_led, 4, 3)


def _list_runs(
    first: NDArray[np.int64], second: NDArray[np.int64], atoms: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Where the runs of each first atom begin, the second atom of each, and where each begins.

    The pairs of a first and a second atom are sorted.
    """
    size = len(first)
    is_new = np.ones(size, np.bool_)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    run = np.flatnonzero(is_new)
    return (
        np.searchsorted(first[run], np.arange(atoms + 2)).astype(np.int32),
        second[run].astype(np.int32),
        np.append(run, size).astype(np.int32),
    )


def _file_programs(
    rules: EncodedRules, covers: Covers, rank: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The runs of programs, and their rules; a program is in the run of each pair of its cover."""
    forms: FormArrays = rules.forms
    true = len(rank)
    program = list_numbers(covers.start)
    atom, other = covers.atom.astype(np.int64), covers.required[program].astype(np.int64)
    rank = np.append(rank, true)
    swap = rank[other] < rank[atom]
    first, second = np.where(swap, other, atom), np.where(swap, atom, other)
    uncovered = np.flatnonzero(np.diff(covers.start) == 0)
    alone = np.full(len(uncovered), true)
    first, second = np.append(first, alone), np.append(second, alone)
    program = np.append(program, uncovered)
    order = np.lexsort((program, second, first))
    return *_list_runs(first[order], second[order], true), forms.program_rule[program[order]]


def _list_clauses(
    rules: EncodedRules,
    covers: Covers,
    likely: NDArray[np.float64],
    absent: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The clauses of the programs that are ANDs of ORs of atoms; see `SharedArrays`."""
    forms = rules.forms
    size = len(forms.program_rule)
    is_cnf = np.zeros(size, np.bool_)
    _find_cnf(forms.program_start, forms.program, is_cnf)
    chance = np.where(absent, 1.0, likely)
    room = np.empty(int(np.diff(forms.program_start).max(initial=0)))
    sizes = np.zeros(size, np.int64)
    given = forms.program_start, forms.program, is_cnf, covers, chance, room
    _write_clauses(*given, sizes, np.empty(0, np.int32))
    clause_start = starts(sizes)
    atom = np.empty(clause_start[-1], np.int32)
    _write_clauses(*given, sizes, atom)
    return clause_start.astype(np.int32), atom


@kernel
def _find_cnf(start, program, is_cnf):
    """Find the programs that are ANDs of ORs of atoms.

    There, an atom that fails leads to the next one, or ends the program if it is the last of its
    clause; one that holds leads to the next clause.
    """
    for number in range(len(start) - 1):
        first, size = start[number], start[number + 1] - start[number]
        following = GOTO_TRUE
        is_cnf[number] = True
        for at in range(size - 1, -1, -1):
            if program[first + at, 2] == GOTO_FALSE:
                following = GOTO_TRUE if at == size - 1 else at + 1
            elif program[first + at, 2] != at + 1:
                is_cnf[number] = False
            is_cnf[number] &= program[first + at, 1] == following


@kernel
def _is_decided(program, begin, end, covers, number):
    """Whether a clause holds wherever a pair of the program's atoms does."""
    if end - begin == 1 and program[begin, 0] == covers.required[number]:
        return True
    first, last = covers.start[number], covers.start[number + 1]
    if first == last:
        return False
    # All atoms of the cover are in the clause.
    for k in range(first, last):
        found = False
        for i in range(begin, end):
            found |= program[i, 0] == covers.atom[k]
        if not found:
            return False
    return True


@kernel
def _write_clauses(start, program, is_cnf, covers, chance, room, sizes, out):
    """Count the atoms of undecided clauses, and write them if `out` has room.

    `room` has the chance that each clause holds, at the place of its first atom; 2 once written.
    """
    filled = 0
    for number in range(len(start) - 1):
        first, last = start[number], start[number + 1]
        before = filled
        clauses = 0
        begin = first
        for i in range(first, last):
            room[i - first] = 2.0
            if is_cnf[number] and program[i, 2] == GOTO_FALSE:
                if not _is_decided(program, begin, i + 1, covers, number):
                    room[begin - first] = 0.0
                    for k in range(begin, i + 1):
                        room[begin - first] += chance[program[k, 0]]
                    room[begin - first] = min(room[begin - first], 1.0)
                    clauses += 1
                begin = i + 1
        for _ in range(clauses):
            begin = first
            for i in range(first, last):
                if room[i - first] < room[begin - first]:
                    begin = i
            room[begin - first] = 2.0
            i = begin
            while True:
                is_last = program[i, 2] == GOTO_FALSE
                if len(out):
                    out[filled] = ~program[i, 0] if is_last else program[i, 0]
                filled += 1
                if is_last:
                    break
                i += 1
        sizes[number] = filled - before


@kernel
def _sort_atoms(start, atom, rank):
    """Sort the atoms of each conjunction by their ranks."""
    for conjunction in range(len(start) - 1):
        for i in range(start[conjunction] + 1, start[conjunction + 1]):
            moved = atom[i]
            at = i
            while at > start[conjunction] and rank[atom[at - 1]] > rank[moved]:
                atom[at] = atom[at - 1]
                at -= 1
            atom[at] = moved
