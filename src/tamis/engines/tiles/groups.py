"""Finds the groups of an event's keys."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import ONE, lowest_bit
from tamis.engines.tiles.arrays import ALWAYS, GROUP_BITS, PRESENT_LEVEL

__all__ = ["clear_visited", "find_group", "hash_of", "list_groups"]


@kernel
def hash_of(key):
    """The hash of a key, before it is reduced to the size of the table."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def find_group(slot, key):
    """The group of a key, or -1."""
    mask = np.uint64(len(slot) - 1)
    at = hash_of(key) & mask
    while slot[at] >= 0:
        if slot[at] >> GROUP_BITS == key:
            return slot[at] & ((1 << GROUP_BITS) - 1)
        at = (at + ONE) & mask
    return -1


@kernel
def _add_group(slot, key, twice, groups, visited, count):
    """Append the group of a key, if there is one; returns how many groups there are now."""
    mask = np.uint64(len(slot) - 1)
    at = hash_of(key) & mask
    while slot[at] >= 0:
        if slot[at] >> GROUP_BITS == key:
            group = slot[at] & ((1 << GROUP_BITS) - 1)
            if twice and visited[group]:
                return count
            visited[group] = twice
            groups[count] = ~group if twice else group
            return count + 1
        at = (at + ONE) & mask
    return count


@kernel
def _list_groups(levels, tree, slot, events, span, groups, visited, row, several):
    count = _add_group(slot, ALWAYS, False, groups, visited, 0)
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        rest = levels[attribute]
        begin, end = span[attribute, 0], span[attribute, 1]
        if rest >> np.uint64(PRESENT_LEVEL):
            rest &= ~(ONE << np.uint64(PRESENT_LEVEL))
            if begin == i:
                count = _add_group(slot, 1 + attribute, False, groups, visited, count)
        leaf = tree[attribute, 0] + events.code[i]
        while rest:
            key = tree[attribute, 1] + (leaf >> np.int64(lowest_bit(rest)))
            rest &= rest - ONE
            count = _add_group(slot, key, end - begin > 1, groups, visited, count)
    for i in range(events.text_start[row], events.text_start[row + 1]):
        # A predicate is listed twice if two values satisfy it.
        count = _add_group(slot, 1 + len(levels) + events.text[i], several, groups, visited, count)
    return count


@part
def list_groups(levels, tree, slot, events, workspace, row, several):
    """List the groups that the loaded event leads to; returns how many there are.

    A group is listed as ~group if its candidates may also be in another group of the event, because
    an attribute has several values.
    """
    return _list_groups(
        levels,
        tree,
        slot,
        events,
        workspace.span,
        workspace.groups,
        workspace.visited,
        row,
        several,
    )


@part
def clear_visited(workspace, groups):
    """Clear the marks that `list_groups` set."""
    for i in range(groups):
        if workspace.groups[i] < 0:
            workspace.visited[~workspace.groups[i]] = 0
