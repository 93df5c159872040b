"""How selective atoms are, and the best order to test those of a conjunction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, RANGE, SET, AtomArrays
from tamis.encode.ragged import list_numbers
from tamis.encode.rules import EncodedRules

__all__ = ["TEXT_SHARE", "estimate_selectivity", "order_atoms"]

TEXT_SHARE = 0.1
"""The share of events with the attribute that are assumed to satisfy a text predicate."""


def estimate_selectivity(rules: EncodedRules) -> NDArray[np.float64]:
    """Estimate for each atom the share of events with its attribute that satisfy it.

    Without knowledge of events, all codes of an attribute count as equally likely.
    """
    atoms: AtomArrays = rules.atoms
    sizes = np.diff(rules.dictionary.base).astype(np.float64)
    codes = (atoms.high - atoms.low).astype(np.float64)
    share = np.select(
        [atoms.test == RANGE, atoms.test == SET],
        [(codes + 1) / sizes[atoms.attribute], codes / sizes[atoms.attribute]],
        TEXT_SHARE,
    )
    return np.where(atoms.flags & NEGATED, 1.0 - share, share)


def order_atoms(rules: EncodedRules) -> NDArray[np.int32]:
    """`FormArrays.conjunction_atom` with each conjunction's atoms sorted, least likely first."""
    forms = rules.forms
    conjunction = list_numbers(forms.conjunction_start)
    order = np.lexsort((estimate_selectivity(rules)[forms.conjunction_atom], conjunction))
    return forms.conjunction_atom[order]
