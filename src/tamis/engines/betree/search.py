"""Matching (Algorithms 1 and 2): from the root down to all l-nodes that an event comes by.

An event goes from a c-node to the p-nodes of its own attributes, and from a bucket to the halves in
which it has a value. A p-directory that is short is read from end to end; in a long one the event's
attributes are looked up.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    DIRECTORY,
    EMPTY,
    HIGH,
    LEAF,
    LEFT,
    LOW,
    NOWHERE,
    RIGHT,
    ROOT,
    SLOTS,
    TOP,
    USED,
    Nodes,
)
from tamis.engines.betree.expressions import SEVERAL, tested_in_vain
from tamis.engines.betree.pools import find_partition
from tamis.engines.truth import Loaded, load, new_loaded, unload

__all__ = ["Desk", "leave", "new_desk", "search", "sit_down", "step_down"]


class Desk(NamedTuple):
    """One event, and room to match it. Belongs to one thread."""

    loaded: Loaded
    code_of: NDArray[np.int32]
    """For each attribute the event's code, 0 where it is absent, or SEVERAL."""
    present: NDArray[np.int32]
    """The event's attributes."""
    stack: NDArray[np.int32]
    """C-nodes to go to."""
    hits: NDArray[np.int32]
    """The expressions that were found."""


def new_desk(nodes: Nodes, attributes: int, texts: int, expressions: int) -> Desk:
    """A desk with no event on it."""
    return Desk(
        new_loaded(attributes, texts),
        np.zeros(attributes, np.int32),
        np.empty(attributes, np.int32),
        np.empty(len(nodes.cnode) + 1, np.int32),
        np.empty(expressions, np.int32),
    )


@kernel
def sit_down(events, row, desk):
    """Make the event `row` the one on the desk; returns how many attributes it has."""
    load(events, row, desk.loaded)
    span = desk.loaded.span
    size = 0
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        if span[attribute, 0] == i:
            desk.present[size] = attribute
            size += 1
            is_single = span[attribute, 1] == i + 1
            desk.code_of[attribute] = events.code[i] if is_single else SEVERAL
    return size


@kernel
def leave(events, row, desk):
    """Clear what `sit_down` wrote."""
    unload(events, row, desk.loaded)
    for i in range(events.start[row], events.start[row + 1]):
        desk.code_of[events.attribute[i]] = 0


@kernel
def _has_value_between(event_code, span, attribute, low, high):
    for i in range(span[attribute, 0], span[attribute, 1]):
        if low <= event_code[i] <= high:
            return True
    return False


@kernel
def _push_partitions(nodes, c, desk, present, height):
    cnode, pnode, slot = nodes.cnode, nodes.pnode, nodes.slot
    stack, code_of = desk.stack, desk.code_of
    slots = cnode[c, SLOTS]
    if slots <= 2 * present:
        first = cnode[c, DIRECTORY]
        for i in range(first, first + slots):
            attribute = slot[i, 0]
            if attribute != NOWHERE and code_of[attribute] != 0:
                stack[height] = pnode[slot[i, 1], TOP]
                height += 1
        return height
    for i in range(present):
        p = find_partition(cnode, slot, c, desk.present[i])
        if p != NOWHERE:
            stack[height] = pnode[p, TOP]
            height += 1
    return height


@kernel
def _push_halves(nodes, c, desk, event_code, height):
    cnode, stack = nodes.cnode, desk.stack
    left, right = cnode[c, LEFT], cnode[c, RIGHT]
    if left <= EMPTY and right <= EMPTY:
        return height
    attribute, low, high = cnode[c, ATTRIBUTE], cnode[c, LOW], cnode[c, HIGH]
    middle = (low + high) >> 1
    code = desk.code_of[attribute]
    goes_left, goes_right = code <= middle, code > middle
    if code == SEVERAL:
        span = desk.loaded.span
        goes_left = _has_value_between(event_code, span, attribute, low, middle)
        goes_right = _has_value_between(event_code, span, attribute, middle + 1, high)
    if goes_left and left > EMPTY:
        stack[height] = left
        height += 1
    if goes_right and right > EMPTY:
        stack[height] = right
        height += 1
    return height


@kernel
def step_down(nodes, c, desk, event_code, present, height):
    """Push the c-nodes that the event goes to from here; returns how many are on the stack."""
    height = _push_partitions(nodes, c, desk, present, height)
    return _push_halves(nodes, c, desk, event_code, height)


@kernel
def search(nodes, events, desk, present):
    """Write the expressions that the event on the desk matches; returns how many these are."""
    cnode, word, stack = nodes.cnode, nodes.word, desk.stack
    code_of, event_code, hits = desk.code_of, events.code, desk.hits
    span, text = desk.loaded
    found = 0
    stack[0] = ROOT
    height = 1
    while height > 0:
        height -= 1
        c = stack[height]
        at = cnode[c, LEAF]
        end = at + cnode[c, USED]
        while at < end:
            if tested_in_vain(word, at, code_of, event_code, span, text) == 0:
                hits[found] = word[at]
                found += 1
            at += word[at + 1]
        height = step_down(nodes, c, desk, event_code, present, height)
    return found
