"""Matching (Algorithms 1 and 2): from the root down to all l-nodes that an event reaches.

An event goes from a c-node to the p-nodes of its own attributes, and from a bucket to the halves in
which it has a value. A short p-directory is read from end to end; in a long one the event's
attributes are looked up.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import brief_kernel, kernel, part
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    DIRECTORY,
    EMPTY,
    HIGH,
    LEAF,
    LEFT,
    LENGTH,
    LOW,
    NOWHERE,
    RIGHT,
    ROOT,
    SLOTS,
    TOP,
    USED,
    Nodes,
)
from tamis.engines.betree.expressions import count_tests_to_failure, holds_on_single_values
from tamis.engines.betree.pools import find_partition
from tamis.engines.kernels.bits import prefetch
from tamis.engines.kernels.truth import (
    SEVERAL,
    LoadedEvent,
    load_event,
    new_loaded_event,
    unload_event,
)

__all__ = [
    "SearchState",
    "begin_search",
    "end_search",
    "find_matches",
    "new_search_state",
    "search",
    "visit_nodes",
]

_AHEAD = 2
_LINES, _WORDS_TO_A_LINE = 6, 16
"""How many l-nodes ahead, and how much of each, is prefetched."""


class SearchState(NamedTuple):
    """One event, and room to match it. Belongs to one thread."""

    loaded: LoadedEvent
    code_of: NDArray[np.int32]
    """The event's code for each attribute: 0 if it is absent, or SEVERAL."""
    present: NDArray[np.int32]
    """The event's attributes."""
    several: NDArray[np.uint8]
    """A single flag: whether an attribute of the event has several values."""
    stack: NDArray[np.int32]
    """C-nodes to visit."""
    visited: NDArray[np.int32]
    """C-nodes that were visited."""
    hits: NDArray[np.int32]
    """The expressions that were found."""


def new_search_state(nodes: Nodes, attributes: int, texts: int, expressions: int) -> SearchState:
    """Allocate a state that holds no event."""
    return SearchState(
        new_loaded_event(attributes, texts),
        np.zeros(attributes, np.int32),
        np.empty(attributes, np.int32),
        np.zeros(1, np.uint8),
        np.empty(len(nodes.cnode) + 1, np.int32),
        np.empty(len(nodes.cnode), np.int32),
        np.empty(expressions, np.int32),
    )


@brief_kernel
def begin_search(events, row, state):
    """Load the event `row`; returns how many attributes it has."""
    load_event(events, row, state.loaded)
    span = state.loaded.span
    size = 0
    state.several[0] = 0
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        if span[attribute, 0] == i:
            state.present[size] = attribute
            size += 1
            is_single = span[attribute, 1] == i + 1
            state.code_of[attribute] = events.code[i] if is_single else SEVERAL
            state.several[0] |= not is_single
    return size


@brief_kernel
def end_search(events, row, state):
    """Clear what `begin_search` wrote."""
    unload_event(events, row, state.loaded)
    for i in range(events.start[row], events.start[row + 1]):
        state.code_of[events.attribute[i]] = 0


@kernel
def _has_value_between(event_code, span, attribute, low, high):
    found = False
    for i in range(span[attribute, 0], span[attribute, 1]):
        found |= low <= event_code[i] <= high
    return found


@part
def _push_bucket(nodes, c, code, stack, height):
    """Push a bucket unless its boundary excludes the only code; returns the height of the stack."""
    stack[height] = c
    inside = (nodes.bound[c, 0] <= code) & (code <= nodes.bound[c, 1])
    return height + (1 if inside or code == SEVERAL else 0)


@kernel
def _push_partitions(nodes, c, state, present, height):
    cnode, pnode, slot = nodes.cnode, nodes.pnode, nodes.slot
    stack, code_of = state.stack, state.code_of
    slots = cnode[c, SLOTS]
    if slots <= 2 * present:
        first = cnode[c, DIRECTORY]
        for i in range(first, first + slots):
            attribute = slot[i, 0]
            if attribute != NOWHERE and code_of[attribute] != 0:
                height = _push_bucket(
                    nodes, pnode[slot[i, 1], TOP], code_of[attribute], stack, height
                )
        return height
    for i in range(present):
        attribute = state.present[i]
        p = find_partition(cnode, slot, c, attribute)
        if p != NOWHERE:
            height = _push_bucket(nodes, pnode[p, TOP], code_of[attribute], stack, height)
    return height


@kernel
def _push_halves(nodes, c, state, event_code, height):
    cnode, stack = nodes.cnode, state.stack
    left, right = cnode[c, LEFT], cnode[c, RIGHT]
    if left <= EMPTY and right <= EMPTY:
        return height
    attribute, low, high = cnode[c, ATTRIBUTE], cnode[c, LOW], cnode[c, HIGH]
    middle = (low + high) >> 1
    code = state.code_of[attribute]
    goes_left, goes_right = code <= middle, code > middle
    if code == SEVERAL:
        span = state.loaded.span
        goes_left = _has_value_between(event_code, span, attribute, low, middle)
        goes_right = _has_value_between(event_code, span, attribute, middle + 1, high)
    if goes_left and left > EMPTY:
        height = _push_bucket(nodes, left, code, stack, height)
    if goes_right and right > EMPTY:
        height = _push_bucket(nodes, right, code, stack, height)
    return height


@kernel
def visit_nodes(nodes, events, state, present):
    """List the c-nodes that the event reaches, parents first; returns how many there are."""
    stack, visited = state.stack, state.visited
    visits = 0
    stack[0] = ROOT
    height = 1
    while height > 0:
        height -= 1
        c = stack[height]
        visited[visits] = c
        visits += 1
        height = _push_partitions(nodes, c, state, present, height)
        height = _push_halves(nodes, c, state, events.code, height)
    return visits


@part
def _prefetch_leaf(nodes, c):
    """Prefetch the first expressions of an l-node."""
    at = nodes.cnode[c, LEAF]
    for line in range(_LINES):
        prefetch(nodes.word, np.int64(at + _WORDS_TO_A_LINE * line))


@part
def _scan(nodes, c, events, state, found):
    """Append the expressions of an l-node that hold; returns how many are found now."""
    cnode, word, hits = nodes.cnode, nodes.word, state.hits
    code_of, event_code = state.code_of, events.code
    span, text = state.loaded
    at = cnode[c, LEAF]
    end = at + cnode[c, USED]
    while at < end:
        if holds_on_single_values(word, at, code_of, event_code, span, text):
            hits[found] = word[at]
            found += 1
        at += word[at + LENGTH]
    return found


@kernel
def _scan_several(nodes, c, events, state, found):
    """Like `_scan`, for an event with several values for an attribute."""
    cnode, word, hits = nodes.cnode, nodes.word, state.hits
    span, text = state.loaded
    at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
    while at < end:
        if count_tests_to_failure(word, at, state.code_of, events.code, span, text) == 0:
            hits[found] = word[at]
            found += 1
        at += word[at + LENGTH]
    return found


@kernel
def search(nodes, events, state, present):
    """Write the expressions that the loaded event matches; returns how many there are."""
    visited, visits = state.visited, visit_nodes(nodes, events, state, present)
    found = 0
    for i in range(visits):
        if i + _AHEAD < visits:
            _prefetch_leaf(nodes, visited[i + _AHEAD])
        if state.several[0]:
            found = _scan_several(nodes, visited[i], events, state, found)
        else:
            found = _scan(nodes, visited[i], events, state, found)
    return found


@brief_kernel
def find_matches(nodes, events, row, state):
    """Load the event `row`, `search`, and unload it."""
    found = search(nodes, events, state, begin_search(events, row, state))
    end_search(events, row, state)
    return found
