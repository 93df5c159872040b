"""Copies the nodes of a finished tree without spare room, in the order of a search."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    CNODES,
    DIRECTORY,
    EMPTY,
    LEAF,
    LEFT,
    NOWHERE,
    OWNER,
    P_ATTRIBUTE,
    PARENT,
    PARTITIONS,
    PNODES,
    RIGHT,
    ROOM,
    ROOT,
    SLOTS,
    TOP,
    USED,
    Books,
    Nodes,
)

__all__ = ["compact_nodes"]


def compact_nodes(nodes: Nodes, books: Books) -> Nodes:
    """Copy `nodes` without spare room, with every node before the nodes below it."""
    cnodes, pnodes = int(books.state[CNODES]), int(books.state[PNODES])
    order, stack = np.empty(cnodes, np.int32), np.empty(cnodes + 1, np.int32)
    place = np.zeros(cnodes, np.int32)
    size = _order_nodes(nodes, stack, order, place)
    order = order[:size]
    chosen = nodes.cnode[order]
    partitions = np.full(pnodes, NOWHERE, np.int32)
    copy = Nodes(
        chosen.copy(),
        np.empty((int(chosen[:, PARTITIONS].sum()), 3), np.int32),
        np.empty((int(chosen[:, SLOTS].sum()), 2), np.int32),
        nodes.bound[order],
        np.empty(int(chosen[:, USED].sum()), np.int32),
    )
    _copy_nodes(nodes, order, place, partitions, copy)
    return copy


@kernel
def _order_nodes(nodes, stack, order, place):
    """Write all c-nodes in the order of a walk, and their places; returns how many there are."""
    cnode, pnode, slot = nodes.cnode, nodes.pnode, nodes.slot
    stack[0] = ROOT
    height, size = 1, 0
    while height > 0:
        height -= 1
        c = stack[height]
        order[size], place[c] = c, size
        size += 1
        first = cnode[c, DIRECTORY]
        for i in range(first, first + cnode[c, SLOTS]):
            if slot[i, 0] != NOWHERE:
                stack[height] = pnode[slot[i, 1], TOP]
                height += 1
        for half in (cnode[c, RIGHT], cnode[c, LEFT]):
            if half > EMPTY:
                stack[height] = half
                height += 1
    return size


@kernel
def _copy_nodes(nodes, order, place, partitions, copy):
    cnode, word, slot = nodes.cnode, nodes.word, nodes.slot
    words = slots = found = 0
    for i in range(len(order)):
        c, own = order[i], copy.cnode[i]
        for column in (LEFT, RIGHT):
            if own[column] > EMPTY:
                own[column] = place[own[column]]
        own[LEAF], own[ROOM], own[DIRECTORY] = words, own[USED], slots
        for k in range(own[USED]):
            copy.word[words + k] = word[cnode[c, LEAF] + k]
        words += own[USED]
        for k in range(own[SLOTS]):
            attribute, p = slot[cnode[c, DIRECTORY] + k, 0], slot[cnode[c, DIRECTORY] + k, 1]
            copy.slot[slots, 0], copy.slot[slots, 1] = attribute, NOWHERE
            if attribute != NOWHERE:
                copy.slot[slots, 1] = found
                copy.pnode[found, P_ATTRIBUTE] = attribute
                copy.pnode[found, OWNER] = i
                copy.pnode[found, TOP] = place[nodes.pnode[p, TOP]]
                partitions[p] = found
                found += 1
            slots += 1
        # A parent comes before its children, so its new place is known here.
        if c != ROOT:
            above = cnode[c, PARENT]
            own[PARENT] = place[above] if above >= 0 else ~partitions[~above]
