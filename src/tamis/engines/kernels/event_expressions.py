"""Which rules match an event expression; see `tamis.expr.analysis.event_expressions`.

An atom is *possible* if its attribute may have a code that satisfies it. A conjunction with several
atoms on one attribute also needs a code that satisfies all of them together.

A program is followed as if every possible atom held. If this leads to TRUE through atoms that are
possible together, the rule matches. If they are not possible together, another path might still
lead to TRUE, so the rule is undecided.

`match_expression` tests every rule, as in `scan`, and decides each distinct atom once. The engines
of the product test only the candidates that the codes lead to.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_TRUE, IF_ABSENT, NEGATED, RANGE, TEXT, Choices
from tamis.encode.kernel import kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import find_code, lower_bound
from tamis.expr.analysis.event_expressions import Verdict

__all__ = [
    "MAYBE",
    "NO",
    "UNKNOWN",
    "YES",
    "ExpressionMatches",
    "atom_verdict",
    "candidate_verdict",
    "conjunction_verdict",
    "find_repeats",
    "longest_program",
    "match_expression",
    "program_verdict",
]

NO: Final = int(Verdict.NO)
MAYBE: Final = int(Verdict.MAYBE)
YES: Final = int(Verdict.YES)
UNKNOWN: Final = 3
"""In place of a verdict that was not computed yet."""

_PAST_ALL: Final = 2**31 - 1
"""A number above all codes."""


class ExpressionMatches(NamedTuple):
    """The rules that an event expression matches."""

    matched: NDArray[np.int32]
    """The oldest first, where an engine returns them."""
    undecided: NDArray[np.int32]
    """The rules that the kernel cannot decide, in any order; disjoint from `matched`."""


def match_expression(rules: EncodedRules, choices: Choices) -> ExpressionMatches:
    """Find the rules that match some event that `choices` allows."""
    verdict = np.zeros(rules.size, np.uint8)
    possible = np.full(len(rules.atoms.table), UNKNOWN, np.uint8)
    path = np.empty(longest_program(rules), np.int32)
    _write_verdicts(rules.atoms, rules.forms, choices, possible, path, verdict)
    return ExpressionMatches(
        np.flatnonzero(verdict == YES).astype(np.int32),
        np.flatnonzero(verdict == MAYBE).astype(np.int32),
    )


def longest_program(rules: EncodedRules) -> int:
    """How many atoms the path through a program may have."""
    return int(np.diff(rules.forms.program_start).max(initial=0))


@part
def _overlap(low, high, first, last):
    """Whether two ranges of codes have one in common; one that ends before it begins is empty."""
    return max(low, first) <= min(high, last)


@kernel
def _next_code(table, codes, atom, code):
    """The least code from `code` on that satisfies a RANGE or SET atom; _PAST_ALL if none."""
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    if test & 3 == RANGE:
        if test & NEGATED:
            return high + 1 if low <= code <= high else code
        reached = max(code, low)
        return reached if reached <= high else _PAST_ALL
    if test & NEGATED:
        while find_code(codes, low, high, code) >= 0:
            code += 1
        return code
    at = lower_bound(codes, low, high, code)
    return codes[at] if at < high else _PAST_ALL


@kernel
def _entry_verdict(atoms, choices, entry, attribute, listed, first, last):
    """Whether the atoms of listed[first:last] on `attribute` can hold together within an entry."""
    table, codes = atoms
    begin, end = choices.hollow_span[attribute, 0], choices.hollow_span[attribute, 1]
    verdict = YES
    for i in range(first, last):
        atom = listed[i]
        if table[atom, 0] != attribute or table[atom, 1] & 3 != TEXT:
            continue
        if choices.is_endless[entry]:
            verdict = MAYBE
            continue
        text_begin, text_end = choices.text_start[entry], choices.text_start[entry + 1]
        holds = find_code(choices.text, text_begin, text_end, table[atom, 2]) >= 0
        if holds == (table[atom, 1] & NEGATED != 0):
            return NO
    code = np.int64(choices.low[entry])
    while code <= choices.high[entry]:
        reached = code
        while find_code(choices.hollow, begin, end, reached) >= 0:
            reached += 1
        for i in range(first, last):
            atom = listed[i]
            if table[atom, 0] == attribute and table[atom, 1] & 3 != TEXT:
                reached = max(reached, np.int64(_next_code(table, codes, atom, reached)))
        if reached == code:
            return verdict
        code = reached
    return NO


@kernel
def _is_possible(atoms, choices, atom, entry):
    """Whether a RANGE or SET atom holds on a code of an entry, where every code has a value."""
    table, codes = atoms
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    first, last = choices.low[entry], choices.high[entry]
    if test & 3 == RANGE:
        if test & NEGATED:
            return first < low or last > high
        return _overlap(low, high, first, last)
    return _next_code(table, codes, atom, first) <= last


@kernel
def _verdict(atoms, choices, attribute, listed, first, last):
    """Whether one value of `attribute` can satisfy all of its atoms in listed[first:last]."""
    begin, end = choices.span[attribute, 0], choices.span[attribute, 1]
    if begin == end:
        for i in range(first, last):
            atom = listed[i]
            if atoms.table[atom, 0] == attribute and not atoms.table[atom, 1] & IF_ABSENT:
                return NO
        return YES
    best = NO
    has_hollow = choices.hollow_span[attribute, 0] < choices.hollow_span[attribute, 1]
    for entry in range(begin, end):
        if last == first + 1 and not has_hollow and atoms.table[listed[first], 1] & 3 != TEXT:
            if _is_possible(atoms, choices, listed[first], entry):
                return YES
            continue
        found = _entry_verdict(atoms, choices, entry, attribute, listed, first, last)
        best = max(best, found)
        if best == YES:
            break
    return best


@kernel
def atom_verdict(atoms, choices, possible, listed, at):
    """Whether the atom listed[at] is possible by itself.

    Caches the verdict in `possible`, if that has room.
    """
    atom = listed[at]
    if len(possible) == 0:
        return _verdict(atoms, choices, atoms.table[atom, 0], listed, at, at + 1)
    if possible[atom] == UNKNOWN:
        possible[atom] = _verdict(atoms, choices, atoms.table[atom, 0], listed, at, at + 1)
    return possible[atom]


@kernel
def conjunction_verdict(atoms, choices, possible, listed, first, last):
    """Whether one event can satisfy all atoms of listed[first:last]."""
    verdict = YES
    for i in range(first, last):
        verdict = min(verdict, atom_verdict(atoms, choices, possible, listed, i))
        if verdict == NO:
            return NO
    for i in range(first, last):
        attribute = atoms.table[listed[i], 0]
        for k in range(i + 1, last):
            if atoms.table[listed[k], 0] == attribute:
                verdict = min(verdict, _verdict(atoms, choices, attribute, listed, i, last))
                break
        if verdict == NO:
            return NO
    return verdict


def find_repeats(rules: EncodedRules) -> NDArray[np.uint8]:
    """1 for each conjunction that has several atoms on one attribute."""
    forms = rules.forms
    repeats = np.zeros(len(forms.conjunction_start) - 1, np.uint8)
    _write_repeats(rules.atoms.table, forms.conjunction_start, forms.conjunction_atom, repeats)
    return repeats


@kernel
def _write_repeats(table, start, listed, repeats):
    for conjunction in range(len(repeats)):
        for i in range(start[conjunction], start[conjunction + 1]):
            for k in range(i + 1, start[conjunction + 1]):
                if table[listed[i], 0] == table[listed[k], 0]:
                    repeats[conjunction] = 1


@part
def candidate_verdict(atoms, choices, possible, forms, repeats, conjunction):
    """The verdict on a conjunction that is probably possible.

    A plain range on an attribute with one entry is tested here, without a call.
    """
    listed = forms.conjunction_atom
    first, last = forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]
    if repeats[conjunction]:
        return conjunction_verdict(atoms, choices, possible, listed, first, last)
    verdict = YES
    for i in range(first, last):
        atom = listed[i]
        attribute = atoms.table[atom, 0]
        begin, end = choices.span[attribute, 0], choices.span[attribute, 1]
        is_plain = atoms.table[atom, 1] == RANGE and end - begin <= 1
        if is_plain and choices.hollow_span[attribute, 0] == choices.hollow_span[attribute, 1]:
            low, high = atoms.table[atom, 2], atoms.table[atom, 3]
            if begin == end or not _overlap(low, high, choices.low[begin], choices.high[begin]):
                return NO
        else:
            verdict = min(verdict, _verdict(atoms, choices, attribute, listed, i, i + 1))
            if verdict == NO:
                return NO
    return verdict


@kernel
def program_verdict(atoms, choices, possible, instructions, start, path):
    """Whether a program holds if every possible atom does.

    YES if the atoms on its path are also possible together; `path` has room for them.
    """
    listed = instructions[:, 0]
    at = size = 0
    while at >= 0:
        is_possible = atom_verdict(atoms, choices, possible, listed, start + at) != NO
        if is_possible:
            path[size] = listed[start + at]
            size += 1
        at = instructions[start + at, 1 if is_possible else 2]
    if at != GOTO_TRUE:
        return NO
    return max(MAYBE, conjunction_verdict(atoms, choices, possible, path, 0, size))


@kernel
def _write_verdicts(atoms, forms, choices, possible, path, verdict):
    """Write the verdict for each rule."""
    start, listed = forms.conjunction_start, forms.conjunction_atom
    owner_start, owner = forms.owner_start, forms.owner
    for conjunction in range(len(start) - 1):
        found = conjunction_verdict(
            atoms, choices, possible, listed, start[conjunction], start[conjunction + 1]
        )
        if found == NO:
            continue
        if len(owner) == 0:
            verdict[conjunction] = found
            continue
        for i in range(owner_start[conjunction], owner_start[conjunction + 1]):
            verdict[owner[i]] = max(verdict[owner[i]], found)
    for program in range(len(forms.program_rule)):
        verdict[forms.program_rule[program]] = program_verdict(
            atoms, choices, possible, forms.program, forms.program_start[program], path
        )
