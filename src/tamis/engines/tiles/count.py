"""The kernel that counts the matches of many events in one pass over the groups.

The keys of all events lead to pairs of a group and an event. The pairs are sorted by group, and
each group is tested against all of its events while it is in the cache. This pays for counts only:
matching rules would have to be sorted by event again, which costs more (docs/decisions/0007).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import count_bits
from tamis.engines.tiles.arrays import NARROW, WIDE, WORD, TileArrays
from tamis.engines.tiles.flat_entries import NOTHING_TO_TEST, packed_holds
from tamis.engines.tiles.groups import list_groups
from tamis.engines.tiles.tile_and import locate_rows, tile_holds
from tamis.engines.tiles.workspace import load_event, unload_event

__all__ = ["Batch", "count_rows", "new_batch"]

_ROWS = 8192
_CODES = 1 << 22
"""The most events of one pass, and the most codes of all of them."""

_PAIRS = 1 << 20
"""The most pairs of a group and an event in one pass. An event with more pairs is not counted
here."""


class Batch(NamedTuple):
    """Working memory for many events. Belongs to one thread; `code` is zero between calls."""

    code: NDArray[np.int32]
    """The code of each attribute, for each event."""
    lacking: NDArray[np.uint64]
    """The bits of the attributes that each event lacks."""
    pair: NDArray[np.int32]
    """Pairs of a group and an event."""
    event: NDArray[np.int32]
    """The events of all pairs, sorted by group."""
    group_end: NDArray[np.int32]
    """Where the events of each group end in `event`."""


def new_batch(arrays: TileArrays) -> Batch:
    """Allocate room for the events of one pass."""
    attributes = max(len(arrays.levels), 1)
    rows = max(1, min(_ROWS, _CODES // attributes))
    return Batch(
        np.zeros((rows, attributes), np.int32),
        np.empty(rows, np.uint64),
        np.empty((_PAIRS, 2), np.int32),
        np.empty(_PAIRS, np.int32),
        np.empty(len(arrays.group) + 1, np.int32),
    )


@part
def _pair_up(arrays, events, workspace, batch, row, last):
    """Pair events with their groups, up to the first event that has several values somewhere.

    Returns how many events were taken, and how many pairs there are.
    """
    pairs = 0
    taken = 0
    while row + taken < last and taken < len(batch.code):
        event = row + taken
        lacking, several = load_event(events, event, workspace, arrays.attribute_bit)
        groups = 0
        if not several:
            groups = list_groups(
                arrays.levels, arrays.tree, arrays.slot, events, workspace, event, False
            )
        unload_event(events, event, workspace)
        if several or pairs + groups > len(batch.pair):
            break
        for i in range(groups):
            batch.pair[pairs, 0], batch.pair[pairs, 1] = workspace.groups[i], taken
            pairs += 1
        batch.lacking[taken] = lacking
        for i in range(events.start[event], events.start[event + 1]):
            batch.code[taken, events.attribute[i]] = events.code[i]
        taken += 1
    return taken, pairs


@kernel
def _sort_pairs(pair, pairs, event, group_end):
    """Sort the events of all pairs by group."""
    group_end[:] = 0
    for i in range(pairs):
        group_end[pair[i, 0] + 1] += 1
    for group in range(len(group_end) - 1):
        group_end[group + 1] += group_end[group]
    for i in range(pairs):
        group = pair[i, 0]
        event[group_end[group]] = pair[i, 1]
        group_end[group] += 1


@part
def _count_tile(arrays, workspace, batch, tile, begin, end, counts):
    """Test a tile against the events of its group."""
    words = WIDE if arrays.tile[tile, 1] > NARROW * WORD else NARROW
    for i in range(begin, end):
        event = batch.event[i]
        locate_rows(arrays, batch.code[event], workspace, tile, 0)
        if tile_holds(arrays, workspace, tile, 0):
            for word in range(words):
                counts[event] += np.int64(count_bits(workspace.hits[word]))


@part
def _count_entry(atoms, arrays, events, workspace, batch, entry, begin, end, counts):
    """Test a flat entry against the events of its group."""
    table, codes = atoms
    signature, at = arrays.signature[entry], arrays.flat[entry, 1]
    for i in range(begin, end):
        event = batch.event[i]
        if signature & batch.lacking[event] == 0 and (
            at == NOTHING_TO_TEST
            or packed_holds(
                arrays.packed,
                at,
                table,
                codes,
                events.code,
                batch.code[event],
                workspace.span,
                workspace.text,
            )
        ):
            counts[event] += 1


@kernel
def _count_tiles(arrays, workspace, batch, counts):
    """Test the tiles of all groups against their events."""
    begin = 0
    for group in range(len(arrays.group) - 1):
        end = batch.group_end[group]
        if begin < end:
            for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
                _count_tile(arrays, workspace, batch, tile, begin, end, counts)
        begin = end


@kernel
def _count_flat(atoms, arrays, events, workspace, batch, counts):
    """Test the flat entries of all groups against their events."""
    begin = 0
    for group in range(len(arrays.group) - 1):
        end = batch.group_end[group]
        if begin < end:
            for entry in range(arrays.group[group, 0], arrays.group[group + 1, 0]):
                _count_entry(atoms, arrays, events, workspace, batch, entry, begin, end, counts)
        begin = end


@event_kernel
def count_rows(atoms, arrays, workspace, batch, events, row, last, counts):
    """Count the matches of events, where conjunction i is rule i and there are no text predicates.

    Returns the first row that was not counted. Stops at an event with several values for an
    attribute.
    """
    taken, pairs = _pair_up(arrays, events, workspace, batch, row, last)
    own_counts = counts[row : row + taken]
    own_counts[:] = 0
    _sort_pairs(batch.pair, pairs, batch.event, batch.group_end)
    _count_tiles(arrays, workspace, batch, own_counts)
    _count_flat(atoms, arrays, events, workspace, batch, own_counts)
    for event in range(taken):
        for i in range(events.start[row + event], events.start[row + event + 1]):
            batch.code[event, events.attribute[i]] = 0
    return row + taken
