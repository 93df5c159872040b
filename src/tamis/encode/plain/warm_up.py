"""Whether the kernels that read plain rules are compiled.

As plain Python they take longer than the readers of :mod:`tamis.expr.text`, so there is no point in
calling them before.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.encode.merge import deduplicate
from tamis.encode.plain import atoms, cut, forms, piece_table, predicates, value_table, weights
from tamis.encode.plain.reader import PlainReader
from tamis.encode.values import pack_texts

__all__ = ["is_compiled", "is_loaded"]

_KERNELS: Final = (
    cut._cut_all,
    piece_table._number,
    piece_table._move_slots,
    predicates._read_all,
    value_table._number,
    value_table._fill_slots,
    atoms._fill,
    forms._leave,
    forms._count,
    forms._fill,
    weights._fill,
    deduplicate._number_atoms,
    deduplicate._number_conjunctions,
)

_TEXTS: Final = ["a = 1 AND b IN ('x', 'y')", "(a > 1.5 AND c <> 2) OR d IS NULL"]

_known = False


def is_compiled() -> bool:
    """Whether all kernels have machine code. If not, they are compiled in the background."""
    global _known
    if not _known:
        _call_kernels()
        # A kernel that runs as plain Python has no compiled version.
        _known = all(getattr(kernel, "overloads", None) for kernel in _KERNELS)
    return _known


def is_loaded() -> bool:
    """Whether `is_compiled` has found all kernels before, in this process."""
    return _known


def _call_kernels() -> None:
    """Call every kernel once, with the types of arguments that the reader has."""
    reader = PlainReader()
    reader.add(*pack_texts(_TEXTS), np.zeros(len(_TEXTS), np.uint8))
    plain = reader.finish()
    weights.weigh_rules(plain.encoded, plain.weighed, {0: {("a", 1): 2.0}})
    piece_table.PieceTable().enlarge()
    value_table.ValueTable().enlarge(np.empty(1, np.uint8))
