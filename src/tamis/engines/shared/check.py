"""Checks arrays of the shared engine that were read from a file; see `tamis.encode.checks`.

An event lists each atom that it changes once, in an array with room for all atoms. So a value may
change only atoms of its own attribute, and each of them once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import (
    check_lengths,
    check_lists,
    check_numbers,
    check_rising,
    check_types,
    refuse,
)
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.shared.arrays import SharedArrays

__all__ = ["check_shared"]


def check_shared(rules: EncodedRules, arrays: SharedArrays) -> None:
    """Check the arrays of the shared engine.

    Raises
    ------
    ArrayError
        A kernel could leave its arrays.
    """
    check_types(arrays, entry=3, more=4)
    _check_changes(rules, arrays)
    _check_conjunctions(rules, arrays)
    _check_programs(rules, arrays)


def _check_changes(rules: EncodedRules, arrays: SharedArrays) -> None:
    atoms, attributes = len(rules.atoms.table), len(rules.dictionary.axes)
    check_lengths(atoms + 1, absent=arrays.absent)
    check_numbers("absent", arrays.absent, 0, 2)
    if not np.array_equal(arrays.base, rules.dictionary.base):
        refuse("base", "does not fit the attributes' codes")
    changes = _check_lists_of("change", arrays.change_start, arrays.change, int(arrays.base[-1]))
    check_numbers("change", arrays.change, 0, atoms)
    check_rising("change", changes, arrays.change)
    if not _change_own_atoms(rules.atoms.table, arrays.base, changes, arrays.change):
        refuse("change", "has an atom of another attribute")
    _check_lists_of("wide", arrays.wide_start, arrays.wide, attributes)
    check_numbers("wide", arrays.wide, 0, atoms)
    _check_lists_of("text_atom", arrays.text_start, arrays.text_atom, rules.texts.size)
    check_numbers("text_atom", arrays.text_atom, 0, atoms)


def _check_conjunctions(rules: EncodedRules, arrays: SharedArrays) -> None:
    atoms, forms = len(rules.atoms.table), rules.forms
    _check_lists_of("group", arrays.group, arrays.run_atom, atoms + 1)
    check_numbers("run_atom", arrays.run_atom, 0, atoms + 1)
    _check_lists_of("run_start", arrays.run_start, arrays.entry, len(arrays.run_atom))
    check_numbers("entry", arrays.entry[:, :2], 0, atoms + 1)
    check_numbers("entry", arrays.entry[:, 2], -len(arrays.more), rules.size)
    check_numbers("more", arrays.more[:, :2], 0, len(forms.conjunction_atom) + 1)
    check_numbers("more", arrays.more[:, 2:], 0, len(forms.owner) + 1)


def _check_programs(rules: EncodedRules, arrays: SharedArrays) -> None:
    atoms, programs = len(rules.atoms.table), len(rules.forms.program_rule)
    runs = arrays.program_run_atom
    _check_lists_of("program_group", arrays.program_group, runs, atoms + 1)
    check_numbers("program_run_atom", runs, 0, atoms + 1)
    _check_lists_of("program_run_start", arrays.program_run_start, arrays.program_rule, len(runs))
    check_numbers("program_rule", arrays.program_rule, 0, rules.size)
    words = rules.size // 64 + 1
    check_lengths(words, is_program=arrays.is_program, programs_before=arrays.programs_before)
    counts = np.bitwise_count(arrays.is_program).astype(np.int64)
    before = np.concatenate(([0], np.cumsum(counts)))
    if before[-1] != programs or not np.array_equal(before[:-1], arrays.programs_before):
        refuse("is_program", "does not fit the programs")
    _check_lists_of("clause_atom", arrays.clause_start, arrays.clause_atom, programs)
    named = np.where(arrays.clause_atom < 0, ~arrays.clause_atom, arrays.clause_atom)
    check_numbers("clause_atom", named, 0, atoms)


def _check_lists_of(
    name: str, start: NDArray[np.int32], items: NDArray[np.int32], lists: int
) -> NDArray[np.int64]:
    """Check where lists begin; returns it as the other checks take it."""
    wide = start.astype(np.int64)
    check_lists(name, wide, len(items), lists)
    return wide


@kernel
def _change_own_atoms(table, base, start, change):
    """Whether each code changes atoms of its own attribute only."""
    for attribute in range(len(base) - 1):
        for i in range(start[base[attribute]], start[base[attribute + 1]]):
            if table[change[i], 0] != attribute:
                return False
    return True
