"""Finds the groups of an event's keys."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import ONE, lowest_bit, prefetch
from tamis.engines.kernels.truth import SEVERAL
from tamis.engines.tiles.arrays import ALWAYS, EMPTY_SLOT, PLACE_BITS, PLACE_MASK, PRESENT_LEVEL
from tamis.engines.tiles.flat_groups import COUNT_MASK
from tamis.engines.tiles.workspace import MOST_LEVELS

__all__ = ["clear_visited", "hash_of", "list_groups", "look_up", "prefetch_heads"]

_LINE = 16
"""The words of a cache line."""


@kernel
def hash_of(key):
    """The hash of a key, before it is reduced to the size of the table."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@part
def look_up(arrays, workspace, keys, several, count):
    """Append the groups of the listed keys and prefetch them; returns how many groups there are.

    All slots are prefetched before the first is read, so that the loads overlap.
    """
    slot = arrays.slot
    mask = np.uint64(len(slot) - 1)
    for i in range(keys):
        prefetch(slot, np.int64(hash_of(workspace.keys[i]) & mask))
    for i in range(keys):
        key = np.uint64(workspace.keys[i])
        at = hash_of(key) & mask
        while slot[at] != EMPTY_SLOT:
            if slot[at] >> PLACE_BITS == key:
                if not (several and workspace.visited[at]):
                    workspace.visited[at] = several
                    place = np.int64(slot[at] & PLACE_MASK)
                    workspace.groups[count] = place
                    workspace.slots[count] = np.int64(at)
                    count += 1
                    prefetch(arrays.flat, place)
                    prefetch(arrays.flat, place + _LINE)
                break
            at = (at + ONE) & mask
    return count


@part
def list_groups(arrays, workspace, attribute, code, step, first, last, several):
    """List the groups that the loaded event leads to; returns how many there are.

    See `load_event` for the event. A group is listed once, even if several values lead to it.
    """
    attributes = len(arrays.levels)
    workspace.keys[0] = ALWAYS
    keys = 1
    count = 0
    for i in range(first, last):
        number = np.int64(attribute[step * i])
        if number >= attributes:
            workspace.keys[keys] = 1 + number
            keys += 1
        else:
            rest = arrays.levels[number]
            if rest >> np.uint64(PRESENT_LEVEL):
                rest &= ~(ONE << np.uint64(PRESENT_LEVEL))
                if workspace.code[number] != SEVERAL or workspace.span[number, 0] == i:
                    workspace.keys[keys] = 1 + number
                    keys += 1
            leaf = arrays.tree[number, 0] + code[step * i]
            while rest:
                workspace.keys[keys] = arrays.tree[number, 1] + (leaf >> np.int64(lowest_bit(rest)))
                rest &= rest - ONE
                keys += 1
        if keys + MOST_LEVELS > len(workspace.keys):
            count = look_up(arrays, workspace, keys, several, count)
            keys = 0
    return look_up(arrays, workspace, keys, several, count)


@part
def prefetch_heads(arrays, workspace, groups):
    """Prefetch the signatures and the directories of the listed groups that are long.

    `look_up` has prefetched two cache lines of each group; most have no more.
    """
    flat = arrays.flat
    for i in range(groups):
        place = workspace.groups[i]
        end = place + 2 * (np.int64(flat[place]) & COUNT_MASK)
        at = place + 2 * _LINE
        while at < end:
            prefetch(flat, at)
            at += _LINE


@part
def clear_visited(workspace, groups):
    """Clear the marks that `list_groups` set for an event with several values."""
    for i in range(groups):
        workspace.visited[workspace.slots[i]] = 0
