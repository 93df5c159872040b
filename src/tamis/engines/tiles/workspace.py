"""Where one event is laid out to be tested."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import part
from tamis.encode.rules import EncodedRules
from tamis.engines.tiles.arrays import MOST_COLUMNS, WIDE, TileArrays
from tamis.engines.tiles.flat_entries import SEVERAL

__all__ = ["AHEAD", "Desk", "load", "new_desk", "unload"]

AHEAD = 1
"""How many tiles ahead rows are asked for: one less than a power of two."""

_ENTRIES = 512
"""How many flat entries are tested together."""

_ALL = ~np.uint64(0)


class Desk(NamedTuple):
    """One event, ready to be tested, and what was found for it. Belongs to one thread."""

    code: NDArray[np.int32]
    """The code of each attribute: 0 where it is absent, SEVERAL where there are more."""
    span: NDArray[np.int64]
    """For each attribute where its entries begin and end in `Events.code`; equal if absent."""
    text: NDArray[np.uint8]
    """For each text predicate, 1 where some value satisfies it."""
    hits: NDArray[np.uint64]
    """The conjunctions of the tile at hand that hold."""
    row: NDArray[np.uint64]
    union: NDArray[np.uint64]
    """Rows of a tile under construction."""
    place: NDArray[np.int64]
    """Where the rows of some tiles' columns are."""
    tiles: NDArray[np.int32]
    """Tiles to test; ~tile where its conjunctions may be found again."""
    seen: NDArray[np.uint8]
    """A mark for each rule that was found, where it might be found twice."""
    tried: NDArray[np.uint8]
    """A mark for each program that was evaluated."""
    tried_list: NDArray[np.int32]
    groups: NDArray[np.int32]
    """The groups that the event leads to; ~group as for tiles."""
    visited: NDArray[np.uint8]
    """A mark for each group that is on that list and might be met again."""
    entries: NDArray[np.int32]
    """Flat entries to test."""


def new_desk(rules: EncodedRules, arrays: TileArrays) -> Desk:
    """A desk with no event on it."""
    attributes, programs = len(arrays.levels), len(rules.forms.program_rule)
    return Desk(
        np.zeros(attributes, np.int32),
        np.zeros((attributes, 2), np.int64),
        np.zeros(rules.texts.size, np.uint8),
        np.zeros(WIDE, np.uint64),
        np.zeros(WIDE, np.uint64),
        np.zeros(WIDE, np.uint64),
        np.zeros((AHEAD + 1) * MOST_COLUMNS, np.int64),
        np.zeros(len(arrays.tile), np.int32),
        np.zeros(rules.size, np.uint8),
        np.zeros(programs, np.uint8),
        np.empty(programs, np.int32),
        np.empty(len(arrays.group), np.int32),
        np.zeros(len(arrays.group), np.uint8),
        np.empty(_ENTRIES, np.int32),
    )


@part
def load(events, row, desk, attribute_bit):
    """Put an event on the desk.

    Returns the bits of the attributes that it lacks, and whether one has several values.
    """
    lacking = _ALL
    several = False
    i = events.start[row]
    stop = events.start[row + 1]
    while i < stop:
        attribute = events.attribute[i]
        lacking &= ~attribute_bit[attribute]
        desk.code[attribute] = events.code[i]
        desk.span[attribute, 0] = i
        i += 1
        while i < stop and events.attribute[i] == attribute:
            desk.code[attribute] = SEVERAL
            several = True
            i += 1
        desk.span[attribute, 1] = i
    for i in range(events.text_start[row], events.text_start[row + 1]):
        desk.text[events.text[i]] = 1
    return lacking, several


@part
def unload(events, row, desk):
    """Clear what `load` wrote."""
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        desk.code[attribute] = 0
        desk.span[attribute, 0] = 0
        desk.span[attribute, 1] = 0
    for i in range(events.text_start[row], events.text_start[row + 1]):
        desk.text[events.text[i]] = 0
