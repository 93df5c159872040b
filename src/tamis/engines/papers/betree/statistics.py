"""Chooses the attribute to partition each expression by at the root (the paper's BE-B).

The paper lets statistics guide the partitioning at the root, and does not say which. Here an
attribute is assumed to be as common in events as in expressions, so an expression under its rarest
attribute is reached least often. Below the root the tree works as usual.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, AtomArrays
from tamis.encode.ragged import list_numbers
from tamis.engines.betree.arrays import NOWHERE

__all__ = ["rarest_attributes"]


def rarest_attributes(
    atoms: AtomArrays, start: NDArray[np.int64], conjunction_atom: NDArray[np.int32], least: int
) -> NDArray[np.int32]:
    """For each conjunction, the attribute it needs that the fewest conjunctions have.

    NOWHERE if it needs none, or if fewer than `least` conjunctions would share the attribute.
    """
    owner = list_numbers(start)
    attribute = atoms.attribute[conjunction_atom]
    frequency = np.bincount(attribute)[attribute]
    needed = np.flatnonzero(atoms.flags[conjunction_atom] & IF_ABSENT == 0)
    order = needed[np.lexsort((frequency[needed], owner[needed]))]
    first = order[np.diff(owner[order], prepend=-1) > 0]
    rarest = np.full(len(start) - 1, NOWHERE, np.int32)
    rarest[owner[first]] = attribute[first]
    members = np.bincount(attribute[first], minlength=int(attribute.max(initial=0)) + 1)
    return np.where(members[rarest] >= least, rarest, NOWHERE).astype(np.int32)
