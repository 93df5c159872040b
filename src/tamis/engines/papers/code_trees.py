"""Files items under the nodes of segment trees over codes, or under plain keys.

Each attribute has a tree over its codes. A run of codes is filed under the O(log n) highest nodes
within it, a list of codes under its leaves. An event's value visits the nodes above its own leaf,
and so finds each run and list that contains it exactly once.

The nodes of an attribute with n codes are numbered from 1 (the root) to 2n - 1; the leaf of code c
is n + c, and the parent of a node is half of it. The nodes of all attributes are numbered end to
end; `base` tells where those of each attribute begin.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, RANGE, SET, AtomArrays
from tamis.encode.dictionary import Dictionary
from tamis.encode.kernel import kernel
from tamis.encode.ragged import Lists

__all__ = ["Trees", "file_under_nodes", "group_by_key"]

_Numbers: TypeAlias = NDArray[np.integer[Any]]


class Trees(NamedTuple):
    """The trees of all attributes."""

    size: NDArray[np.int64]
    """The number of codes of each attribute."""
    base: NDArray[np.int64]
    """Where the nodes of each attribute begin, plus the number of all nodes."""

    @classmethod
    def of(cls, dictionary: Dictionary) -> Trees:
        """The trees over the codes of a dictionary."""
        return cls(np.diff(dictionary.base), 2 * dictionary.base)


@kernel
def _write_nodes(atoms, trees, keys, things, start, items, fill):
    """Count the items filed under each node, or with `fill` write them.

    With `fill`, `start` has where the list of each node begins, and is moved to where it ends.
    """
    table, codes = atoms
    sizes, bases = trees
    for k in range(len(keys)):
        atom = keys[k]
        size = sizes[table[atom, 0]]
        base = bases[table[atom, 0]]
        test = table[atom, 1] & 3
        if test == SET:
            for i in range(table[atom, 2], table[atom, 3]):
                _write_item(base + size + codes[i], things[k], start, items, fill)
        elif test == RANGE:
            low = size + table[atom, 2]
            high = size + table[atom, 3] + 1
            while low < high:
                if low & 1:
                    _write_item(base + low, things[k], start, items, fill)
                    low += 1
                if high & 1:
                    high -= 1
                    _write_item(base + high, things[k], start, items, fill)
                low >>= 1
                high >>= 1


@kernel
def _write_item(node, thing, start, items, fill):
    if fill:
        items[start[node]] = thing
    start[node] += 1


def file_under_nodes(
    atoms: AtomArrays,
    trees: Trees,
    keys: NDArray[np.integer[Any]],
    things: NDArray[np.integer[Any]],
) -> Lists:
    """File things[i] under the nodes of the positive form of the atom keys[i].

    Text predicates have no codes, so their atoms are skipped.
    """
    keys = np.ascontiguousarray(keys, np.int64)
    counts = np.zeros(trees.base[-1] + 1, np.int64)
    things = np.ascontiguousarray(things, np.int32)
    _write_nodes(atoms, trees, keys, things, counts, NO_INT32, False)
    start = np.concatenate(([0], np.cumsum(counts[:-1])))
    items = np.empty(start[-1], np.int32)
    _write_nodes(atoms, trees, keys, things, start.copy(), items, True)
    return start, items


def group_by_key(keys: _Numbers, things: _Numbers, size: int) -> Lists:
    """List the things of each of the keys 0 to size - 1, in the order given."""
    order = np.argsort(keys, kind="stable")
    start = np.searchsorted(keys[order], np.arange(size + 1)).astype(np.int64)
    return start, things[order].astype(np.int32)
