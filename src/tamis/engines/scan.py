"""SCAN: tests every rule, and drops it at the first atom that fails.

The baseline of all papers in the field. It needs no index, so any other engine must beat it to be
worth its code. The atoms of a conjunction are tested in order, the least likely to hold first.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import check_lengths, check_numbers, check_types
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import order_atoms
from tamis.engines.base import Engine
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.kernels.truth import atom_holds, load_event, unload_event

__all__ = ["Scan"]


class ScanArrays(NamedTuple):
    """The order in which atoms are tested."""

    conjunction_atom: NDArray[np.int32]
    """As in `FormArrays`, but with the least likely atoms of each conjunction first."""


def _check(rules: EncodedRules, arrays: ScanArrays) -> None:
    check_types(arrays)
    check_lengths(len(rules.forms.conjunction_atom), conjunction_atom=arrays.conjunction_atom)
    check_numbers("conjunction_atom", arrays.conjunction_atom, 0, len(rules.atoms.table))


@kernel
def _scan(atoms, forms, index, events, row, last, mask, loaded, seen, out, counts):
    table, codes = atoms
    span, text = loaded
    event_code = events.code
    start, conjunction_atom = forms.conjunction_start, index.conjunction_atom
    owner_start, owner = forms.owner_start, forms.owner
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        for conjunction in range(len(start) - 1):
            holds = True
            for i in range(start[conjunction], start[conjunction + 1]):
                if not atom_holds(table, codes, event_code, span, text, conjunction_atom[i]):
                    holds = False
                    break
            if holds:
                found = emit_owners(owner_start, owner, conjunction, mask, seen, out, found)
        for program in range(len(forms.program_rule)):
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        counts[row] = found - first
        row += 1
    return row


class Scan(Engine):
    """Tests every rule on every event."""

    name: ClassVar[str] = "scan"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = ScanArrays
    check_arrays: ClassVar[Any] = staticmethod(_check)
    kernel: ClassVar[Any] = staticmethod(_scan)

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> ScanArrays:
        """Order the atoms of each conjunction."""
        return ScanArrays(order_atoms(rules))
