"""What is known when all expressions are (the paper's BE-B): by which attribute each is best kept.

The paper has statistics guide the partitioning at the root, and leaves open which. An attribute is
taken to be as common in events as it is in expressions, so an expression kept under its rarest
attribute is come by least often. Below the root the tree goes on as always.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, AtomArrays
from tamis.engines.betree.arrays import NOWHERE

__all__ = ["rarest_attributes"]


def rarest_attributes(
    atoms: AtomArrays, start: NDArray[np.int64], conjunction_atom: NDArray[np.int32], least: int
) -> NDArray[np.int32]:
    """For each conjunction the attribute, of those it needs, that the fewest conjunctions have.

    NOWHERE where it needs none, and where fewer than `least` would be under that attribute.
    """
    sizes = np.diff(start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    attribute = atoms.attribute[conjunction_atom]
    frequency = np.bincount(attribute)[attribute]
    needed = np.flatnonzero(atoms.flags[conjunction_atom] & IF_ABSENT == 0)
    order = needed[np.lexsort((frequency[needed], owner[needed]))]
    first = order[np.diff(owner[order], prepend=-1) > 0]
    rarest = np.full(len(sizes), NOWHERE, np.int32)
    rarest[owner[first]] = attribute[first]
    held = np.bincount(attribute[first], minlength=int(attribute.max(initial=0)) + 1)
    return np.where(held[rarest] >= least, rarest, NOWHERE).astype(np.int32)
