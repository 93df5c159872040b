"""The working memory of the tiles engine for one event."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.bits import ALL_BITS
from tamis.engines.kernels.truth import SEVERAL
from tamis.engines.tiles.arrays import MOST_COLUMNS, WIDE, TileArrays

__all__ = ["AHEAD", "Workspace", "load_event", "new_workspace", "unload_event"]

AHEAD = 1
"""How many tiles ahead rows are prefetched; a power of two minus 1."""

_ENTRIES = 512
"""How many flat entries are listed before they are tested."""


class Workspace(NamedTuple):
    """One loaded event, and intermediate results. Belongs to one thread."""

    code: NDArray[np.int32]
    """The code of each attribute: 0 if it is absent, SEVERAL if it has several values."""
    span: NDArray[np.int64]
    """For each attribute, where its entries in `Events.code` begin and end; equal if absent."""
    text: NDArray[np.uint8]
    """1 for each text predicate that a value satisfies."""
    hits: NDArray[np.uint64]
    """The bits of the current tile's conjunctions that hold."""
    row: NDArray[np.uint64]
    union: NDArray[np.uint64]
    """Room to combine the rows of several values."""
    place: NDArray[np.int64]
    """The places of the rows of some tiles' columns."""
    tiles: NDArray[np.int32]
    """Tiles to test; ~tile if its conjunctions may be found more than once."""
    seen: NDArray[np.uint8]
    """1 for each rule that was found, where it might be found twice."""
    tried: NDArray[np.uint8]
    tried_list: NDArray[np.int32]
    """1 for each program that was evaluated, and the list of these programs."""
    groups: NDArray[np.int32]
    """The groups of the event's keys; ~group if its candidates may be found more than once."""
    visited: NDArray[np.uint8]
    """1 for each group that is listed as ~group."""
    entries: NDArray[np.int32]
    """Flat entries to test."""


def new_workspace(rules: EncodedRules, arrays: TileArrays) -> Workspace:
    """Allocate a workspace that holds no event."""
    attributes, programs = len(arrays.levels), len(rules.forms.program_rule)
    return Workspace(
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
def load_event(events, row, workspace, attribute_bit):
    """Load an event.

    Returns the bits of the attributes that it lacks, and whether an attribute has several values.
    """
    lacking = ALL_BITS
    several = False
    i = events.start[row]
    stop = events.start[row + 1]
    while i < stop:
        attribute = events.attribute[i]
        lacking &= ~attribute_bit[attribute]
        workspace.code[attribute] = events.code[i]
        workspace.span[attribute, 0] = i
        i += 1
        while i < stop and events.attribute[i] == attribute:
            workspace.code[attribute] = SEVERAL
            several = True
            i += 1
        workspace.span[attribute, 1] = i
    for i in range(events.text_start[row], events.text_start[row + 1]):
        workspace.text[events.text[i]] = 1
    return lacking, several


@part
def unload_event(events, row, workspace):
    """Clear what `load_event` wrote."""
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        workspace.code[attribute] = 0
        workspace.span[attribute, 0] = 0
        workspace.span[attribute, 1] = 0
    for i in range(events.text_start[row], events.text_start[row + 1]):
        workspace.text[events.text[i]] = 0
