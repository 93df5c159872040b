"""Signatures: 64 bits for the attributes that a candidate needs.

A candidate whose signature has a bit that no attribute of the event has cannot hold, so it is
dropped without testing its atoms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT
from tamis.encode.rules import EncodedRules

__all__ = ["assign_attribute_bits", "build_signatures"]


def assign_attribute_bits(rules: EncodedRules) -> NDArray[np.uint64]:
    """Assign a bit to each attribute, so that the 64 most mentioned attributes all differ."""
    mentioned = rules.atoms.attribute[rules.forms.conjunction_atom]
    popularity = np.bincount(mentioned, minlength=len(rules.dictionary.axes))
    rank = np.empty(len(popularity), np.uint64)
    rank[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity), dtype=np.uint64)
    return np.uint64(1) << (rank % np.uint64(64))


def build_signatures(rules: EncodedRules, bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits of the attributes that each conjunction needs, followed by those of programs.

    No attribute is required of a program, so its signature is 0.
    """
    atoms, forms = rules.atoms, rules.forms
    needs = (atoms.flags & IF_ABSENT) == 0
    bit = np.where(needs, bits[atoms.attribute], np.uint64(0))[forms.conjunction_atom]
    sizes = np.diff(forms.conjunction_start)
    signature = np.zeros(len(sizes) + len(forms.program_rule), np.uint64)
    filled = np.flatnonzero(sizes)
    if len(filled):
        signature[filled] = np.bitwise_or.reduceat(bit, forms.conjunction_start[filled])
    return signature
