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
from tamis.engines.tiles.arrays import NARROW, PLACE_MASK, WIDE, WORD, TileArrays
from tamis.engines.tiles.flat_groups import (
    COUNT_MASK,
    HAS_MORE,
    HAS_TILES,
    HOMES_AT,
    KINDS_AT,
    OFFSET_MASK,
    entry_holds,
    read_widths,
)
from tamis.engines.tiles.groups import list_groups
from tamis.engines.tiles.tile_and import locate_rows, tile_holds
from tamis.engines.tiles.workspace import (
    load_event,
    read_atoms,
    read_forms,
    read_tiles,
    read_workspace,
    unload_event,
)

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
    lacks: NDArray[np.uint32]
    """The bits of the attributes that each event lacks."""
    pair: NDArray[np.int32]
    """Pairs of the slot of a group and an event."""
    event: NDArray[np.int32]
    """The events of all pairs, sorted by slot."""
    slot_end: NDArray[np.int32]
    """Where the events of each slot end in `event`."""


class CodesOnly(NamedTuple):
    """What a test reads of an event of a batch: its codes, and nothing of several values."""

    code: NDArray[np.int32]
    span: NDArray[np.int64]
    text: NDArray[np.uint8]


def new_batch(arrays: TileArrays) -> Batch:
    """Allocate room for the events of one pass."""
    attributes = max(len(arrays.levels), 1)
    rows = max(1, min(_ROWS, _CODES // attributes))
    return Batch(
        np.zeros((rows, attributes), np.int32),
        np.empty(rows, np.uint32),
        np.empty((_PAIRS, 2), np.int32),
        np.empty(_PAIRS, np.int32),
        np.empty(len(arrays.slot) + 1, np.int32),
    )


@part
def _pair_up(arrays, workspace, batch, start, attribute, code, row, last):
    """Pair events with their groups, up to the first event that has several values somewhere.

    Returns how many events were taken, and how many pairs there are.
    """
    pairs = 0
    taken = 0
    while row + taken < last and taken < len(batch.code):
        first, end = start[row + taken], start[row + taken + 1]
        has, several = load_event(arrays, workspace, attribute, code, 1, first, end)
        groups = 0
        if not several:
            groups = list_groups(arrays, workspace, attribute, code, 1, first, end, False)
        unload_event(arrays, workspace, attribute, 1, first, end)
        if several or pairs + groups > len(batch.pair):
            break
        for i in range(groups):
            batch.pair[pairs, 0], batch.pair[pairs, 1] = workspace.slots[i], taken
            pairs += 1
        batch.lacks[taken] = ~has
        for i in range(first, end):
            batch.code[taken, attribute[i]] = code[i]
        taken += 1
    return taken, pairs


@kernel
def _sort_pairs(pair, pairs, event, slot_end):
    """Sort the events of all pairs by slot."""
    slot_end[:] = 0
    for i in range(pairs):
        slot_end[pair[i, 0] + 1] += 1
    for slot in range(len(slot_end) - 1):
        slot_end[slot + 1] += slot_end[slot]
    for i in range(pairs):
        slot = pair[i, 0]
        event[slot_end[slot]] = pair[i, 1]
        slot_end[slot] += 1


@part
def _count_tile(arrays, workspace, batch, tile, begin, end, counts):
    """Test a tile against the events of its group."""
    words = WIDE if arrays.tile[tile, 1] > NARROW * WORD else NARROW
    for i in range(begin, end):
        event = batch.event[i]
        rows = locate_rows(arrays, batch.code[event], workspace, tile, 0)
        if tile_holds(arrays, workspace, tile, 0, rows):
            for word in range(words):
                counts[event] += np.int64(count_bits(workspace.hits[word]))


@part
def _count_block(atoms, arrays, forms, workspace, batch, block, begin, end, counts):
    """Test a block against the events of its group; returns the place of the next block, or -1."""
    flat = arrays.flat
    head = np.int64(flat[block])
    count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
    at = block + 2
    if head & HAS_TILES:
        first = np.int64(flat[at])
        for tile in range(first, first + np.int64(flat[at + 1])):
            _count_tile(arrays, workspace, batch, tile, begin, end, counts)
        at += 2
    following = np.int64(-1)
    if head & HAS_MORE:
        following = block + np.int64(flat[at])
        at += 1
    others = at + 2 * count - homes
    for entry in range(count):
        signature, word = flat[at + entry], np.int64(flat[at + count + entry])
        candidate = np.int64(flat[block + 1]) + entry
        if entry >= homes:
            candidate = np.int64(flat[others + entry])
        for i in range(begin, end):
            event = batch.event[i]
            loaded = CodesOnly(batch.code[event], workspace.span, workspace.text)
            if signature & batch.lacks[event] == 0 and entry_holds(
                atoms, forms, flat, read_widths(arrays.width), loaded, workspace.code, 1, False,
                block + (word & OFFSET_MASK), word >> KINDS_AT, candidate,
            ):  # fmt: skip
                counts[event] += 1
    return following


@kernel
def _count_groups(block, batch, counts):
    """Test all groups against their events."""
    atoms, arrays, forms = read_atoms(block), read_tiles(block), read_forms(block)
    workspace = read_workspace(block)
    begin = 0
    for slot in range(len(arrays.slot)):
        end = batch.slot_end[slot]
        if begin < end:
            place = np.int64(arrays.slot[slot] & PLACE_MASK)
            while place >= 0:
                place = _count_block(
                    atoms, arrays, forms, workspace, batch, place, begin, end, counts
                )
        begin = end


@event_kernel
def count_rows(block, batch, start, attribute, code, row, last, counts):
    """Count the matches of events, where conjunction i is rule i and there are no text predicates.

    See `match_rows` for the events. Returns the first row that was not counted. Stops at an event
    with several values for an attribute.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    taken, pairs = _pair_up(arrays, workspace, batch, start, attribute, code, row, last)
    own_counts = counts[row : row + taken]
    own_counts[:] = 0
    _sort_pairs(batch.pair, pairs, batch.event, batch.slot_end)
    _count_groups(block, batch, own_counts)
    for event in range(taken):
        for i in range(start[row + event], start[row + event + 1]):
            batch.code[event, attribute[i]] = 0
    return row + taken
