"""The kernel that matches event expressions: as `match.py`, with what is possible for the truth.

A program or a conjunction can only hold if the atoms that lead to it are possible. What is left is
tested with all of its atoms, as the event may have one value only
(`kernels/event_expressions.py`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.event_expressions import (
    NO,
    UNKNOWN,
    YES,
    atom_verdict,
    conjunction_verdict,
    longest_program,
    program_verdict,
)

__all__ = ["ExpressionRoom", "match_choices", "new_expression_room"]


class ExpressionRoom(NamedTuple):
    """Working memory for event expressions. Belongs to one thread."""

    number: NDArray[np.int32]
    """The numbers of all atoms."""
    possible: NDArray[np.uint8]
    """A verdict for each atom, and YES for TRUE."""
    path: NDArray[np.int32]
    """Room for the atoms on the path through a program."""
    verdict: NDArray[np.uint8]
    """A verdict for each rule; zero between calls."""
    found: NDArray[np.int32]
    """The rules that are not impossible, in any order."""


def new_expression_room(rules: EncodedRules) -> ExpressionRoom:
    """Allocate working memory."""
    size = len(rules.atoms.table)
    return ExpressionRoom(
        np.arange(size, dtype=np.int32),
        np.empty(size + 1, np.uint8),
        np.empty(longest_program(rules), np.int32),
        np.zeros(rules.size, np.uint8),
        np.empty(rules.size, np.int32),
    )


@kernel
def _record(room, mask, rule, verdict, found):
    """Raise the verdict on a rule; returns how many rules are found now."""
    if len(mask) and not mask[rule]:
        return found
    if room.verdict[rule] == NO:
        room.found[found] = rule
        found += 1
    room.verdict[rule] = max(room.verdict[rule], verdict)
    return found


@kernel
def _is_possible(forms, possible, conjunction):
    """Whether each atom of a conjunction is possible by itself."""
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        if possible[forms.conjunction_atom[i]] == NO:
            return False
    return True


@kernel
def _find_conjunctions(atoms, forms, arrays, choices, mask, room, found):
    """Record the conjunctions that are possible; returns how many rules are found now."""
    possible, start = room.possible, forms.conjunction_start
    for atom in range(len(possible)):
        if possible[atom] == NO:
            continue
        for run in range(arrays.group[atom], arrays.group[atom + 1]):
            if possible[arrays.run_atom[run]] == NO:
                continue
            for conjunction in range(arrays.run_start[run], arrays.run_start[run + 1]):
                if not _is_possible(forms, possible, conjunction):
                    continue
                verdict = conjunction_verdict(
                    atoms, choices, possible, forms.conjunction_atom, start[conjunction],
                    start[conjunction + 1],
                )  # fmt: skip
                if verdict != NO:
                    for i in range(
                        forms.owner_start[conjunction], forms.owner_start[conjunction + 1]
                    ):
                        found = _record(room, mask, forms.owner[i], verdict, found)
    return found


@kernel
def _find_programs(atoms, forms, arrays, choices, mask, room, found):
    """Record the programs that are possible; returns how many rules are found now."""
    possible = room.possible
    if len(arrays.program_rule) == 0:
        return found
    for atom in range(len(possible)):
        if possible[atom] == NO:
            continue
        for run in range(arrays.program_group[atom], arrays.program_group[atom + 1]):
            if possible[arrays.program_run_atom[run]] == NO:
                continue
            for k in range(arrays.program_run_start[run], arrays.program_run_start[run + 1]):
                rule = arrays.program_rule[k]
                if room.verdict[rule] != NO:
                    continue
                # Programs are sorted by their rules.
                program = np.searchsorted(forms.program_rule, rule)
                verdict = program_verdict(
                    atoms, choices, possible, forms.program, forms.program_start[program], room.path
                )
                if verdict != NO:
                    found = _record(room, mask, rule, verdict, found)
    return found


@kernel
def match_choices(atoms, forms, arrays, choices, mask, room, verdicts):
    """Write the rules that an event expression may match to `room`; returns how many there are.

    Writes the verdict on each of them to `verdicts`. Considers only rules whose mask is set; all
    rules if `mask` is empty.
    """
    possible = room.possible
    size = len(room.number)
    possible[:size] = UNKNOWN
    possible[size] = YES
    for atom in range(size):
        atom_verdict(atoms, choices, possible, room.number, atom)
    found = _find_conjunctions(atoms, forms, arrays, choices, mask, room, 0)
    found = _find_programs(atoms, forms, arrays, choices, mask, room, found)
    for i in range(found):
        verdicts[i] = room.verdict[room.found[i]]
        room.verdict[room.found[i]] = NO
    return found
