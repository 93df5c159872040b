"""Which rules match an event expression; see `tamis.expr.analysis.event_expressions`.

Every rule is tested, as in `scan`. An atom is *possible* if its attribute may have a code that
satisfies it; this is decided once for each distinct atom. Most conjunctions have an atom that is
impossible. A conjunction with several atoms on one attribute also needs a code that satisfies all
of them together.

A program is followed as if every possible atom held. If this leads to TRUE through atoms that are
possible together, the rule matches. If they are not possible together, another path might still
lead to TRUE, so the rule is undecided.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_TRUE, IF_ABSENT, NEGATED, RANGE, TEXT, Choices
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import find_code, lower_bound
from tamis.expr.analysis.event_expressions import Verdict

__all__ = ["ExpressionMatches", "match_expression"]

_NO: Final = int(Verdict.NO)
_MAYBE: Final = int(Verdict.MAYBE)
_YES: Final = int(Verdict.YES)
_UNKNOWN: Final = 3
"""In place of a verdict that was not computed yet."""

_PAST_ALL: Final = 2**31 - 1
"""A number above all codes."""


class ExpressionMatches(NamedTuple):
    """The rules that an event expression matches, in no particular order."""

    matched: NDArray[np.int32]
    undecided: NDArray[np.int32]
    """The rules that the kernel cannot decide; disjoint from `matched`."""


def match_expression(rules: EncodedRules, choices: Choices) -> ExpressionMatches:
    """Find the rules that match some event that `choices` allows."""
    verdict = np.zeros(rules.size, np.uint8)
    possible = np.full(len(rules.atoms.table), _UNKNOWN, np.uint8)
    longest = int(np.diff(rules.forms.program_start).max(initial=0))
    path = np.empty(longest, np.int32)
    _write_verdicts(rules.atoms, rules.forms, choices, possible, path, verdict)
    return ExpressionMatches(
        np.flatnonzero(verdict == _YES).astype(np.int32),
        np.flatnonzero(verdict == _MAYBE).astype(np.int32),
    )


@kernel
def _next_code(table, codes, atom, code):
    """The least code from `code` on that satisfies a RANGE or SET atom; _PAST_ALL if none."""
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    if test & 3 == RANGE:
        if test & NEGATED:
            return high + 1 if low <= code <= high else code
        return max(code, low) if code <= high else _PAST_ALL
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
    verdict = _YES
    for i in range(first, last):
        atom = listed[i]
        if table[atom, 0] != attribute or table[atom, 1] & 3 != TEXT:
            continue
        if choices.is_endless[entry]:
            verdict = _MAYBE
            continue
        text_begin, text_end = choices.text_start[entry], choices.text_start[entry + 1]
        holds = find_code(choices.text, text_begin, text_end, table[atom, 2]) >= 0
        if holds == (table[atom, 1] & NEGATED != 0):
            return _NO
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
    return _NO


@kernel
def _verdict(atoms, choices, attribute, listed, first, last):
    """Whether one value of `attribute` can satisfy all of its atoms in listed[first:last]."""
    begin, end = choices.span[attribute, 0], choices.span[attribute, 1]
    if begin == end:
        for i in range(first, last):
            atom = listed[i]
            if atoms.table[atom, 0] == attribute and not atoms.table[atom, 1] & IF_ABSENT:
                return _NO
        return _YES
    best = _NO
    for entry in range(begin, end):
        found = _entry_verdict(atoms, choices, entry, attribute, listed, first, last)
        best = max(best, found)
        if best == _YES:
            break
    return best


@kernel
def _atom_verdict(atoms, choices, possible, listed, at):
    """Whether the atom listed[at] is possible by itself; caches the verdict in `possible`."""
    atom = listed[at]
    if possible[atom] == _UNKNOWN:
        possible[atom] = _verdict(atoms, choices, atoms.table[atom, 0], listed, at, at + 1)
    return possible[atom]


@kernel
def _conjunction_verdict(atoms, choices, possible, listed, first, last):
    verdict = _YES
    for i in range(first, last):
        verdict = min(verdict, _atom_verdict(atoms, choices, possible, listed, i))
        if verdict == _NO:
            return _NO
    for i in range(first, last):
        attribute = atoms.table[listed[i], 0]
        for k in range(i + 1, last):
            if atoms.table[listed[k], 0] == attribute:
                verdict = min(verdict, _verdict(atoms, choices, attribute, listed, i, last))
                break
        if verdict == _NO:
            return _NO
    return verdict


@kernel
def _program_verdict(atoms, choices, possible, instructions, start, path):
    """Whether a program holds if every possible atom does.

    YES if the atoms on its path are also possible together; `path` has room for them.
    """
    listed = instructions[:, 0]
    at = size = 0
    while at >= 0:
        is_possible = _atom_verdict(atoms, choices, possible, listed, start + at) != _NO
        if is_possible:
            path[size] = listed[start + at]
            size += 1
        at = instructions[start + at, 1 if is_possible else 2]
    if at != GOTO_TRUE:
        return _NO
    return max(_MAYBE, _conjunction_verdict(atoms, choices, possible, path, 0, size))


@kernel
def _write_verdicts(atoms, forms, choices, possible, path, verdict):
    """Write the verdict for each rule."""
    start, listed = forms.conjunction_start, forms.conjunction_atom
    owner_start, owner = forms.owner_start, forms.owner
    for conjunction in range(len(start) - 1):
        found = _conjunction_verdict(
            atoms, choices, possible, listed, start[conjunction], start[conjunction + 1]
        )
        if found == _NO:
            continue
        if len(owner) == 0:
            verdict[conjunction] = found
            continue
        for i in range(owner_start[conjunction], owner_start[conjunction + 1]):
            verdict[owner[i]] = max(verdict[owner[i]], found)
    for program in range(len(forms.program_rule)):
        verdict[forms.program_rule[program]] = _program_verdict(
            atoms, choices, possible, forms.program, forms.program_start[program], path
        )
