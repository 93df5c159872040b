"""The arrays of the shared engine, and the working memory of a thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SharedArrays", "Workspace", "new_workspace"]

_LISTED = 2048
"""How many runs or conjunctions are listed before they are tested."""


class SharedArrays(NamedTuple):
    """What an event's values change, and conjunctions sorted by their atoms.

    One more atom than there are stands for TRUE. It is the first atom of what has no atom that
    could come first, and the second atom of what has only one.
    """

    absent: NDArray[np.uint8]
    """1 for each atom that holds on an event without attributes, and for TRUE."""
    base: NDArray[np.int64]
    """Where the codes of each attribute begin in `change_start`."""
    change_start: NDArray[np.int32]
    change: NDArray[np.int32]
    """For each code of each attribute, the atoms that hold on it and not on an absent attribute, or
    the other way round."""
    wide_start: NDArray[np.int32]
    wide: NDArray[np.int32]
    """For each attribute, the atoms that too many codes would list; they are tested instead."""
    text_start: NDArray[np.int32]
    text_atom: NDArray[np.int32]
    """For each text predicate, its atoms."""
    group: NDArray[np.int32]
    """Where the runs of each first atom begin. A run is all conjunctions that also have the same
    second atom."""
    run_atom: NDArray[np.int32]
    """The second atom of each run."""
    run_start: NDArray[np.int32]
    """Where the conjunctions of each run begin."""
    entry: NDArray[np.int32]
    """A row for each conjunction: its third and fourth atom, and its rule. If it has more atoms or
    several rules, ~row in `more`. All that most conjunctions need is in one place."""
    more: NDArray[np.int32]
    """Where the other atoms of a conjunction begin and end in `FormArrays.conjunction_atom`, and
    its rules in `FormArrays.owner`."""
    program_group: NDArray[np.int32]
    program_run_atom: NDArray[np.int32]
    program_run_start: NDArray[np.int32]
    """Likewise the runs of programs: a program holds only if a pair of such atoms does."""
    program_rule: NDArray[np.int32]
    """The rules of the programs in each run."""
    is_program: NDArray[np.uint64]
    """A bit for each rule, set if it is a program."""
    programs_before: NDArray[np.int32]
    """For each word of `is_program`, how many programs the words before it have."""
    clause_start: NDArray[np.int32]
    clause_atom: NDArray[np.int32]
    """For each program that is an AND of ORs of atoms, the atoms of each OR that its pairs do not
    decide, the least likely OR first; ~atom for the last of each OR. None for other programs."""


class Workspace(NamedTuple):
    """One event, and intermediate results. Belongs to one thread."""

    truth: NDArray[np.uint8]
    """1 for each atom that holds; equal to `absent` between events."""
    changed: NDArray[np.int32]
    """The atoms whose truth the event changed."""
    runs: NDArray[np.int32]
    conjunctions: NDArray[np.int32]
    """Runs and conjunctions to test."""
    marks: NDArray[np.uint64]
    """A bit for each rule that was found; zero between events."""


def new_workspace(arrays: SharedArrays) -> Workspace:
    """Allocate a workspace that holds no event."""
    return Workspace(
        arrays.absent.copy(),
        np.empty(len(arrays.absent) + 1, np.int32),
        np.empty(_LISTED, np.int32),
        np.empty(_LISTED, np.int32),
        np.zeros(len(arrays.is_program), np.uint64),
    )
