"""The working memory of the tiles engine, and the block of addresses that its kernels take."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import AtomArrays
from tamis.encode.kernel import part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader
from tamis.engines.kernels.marks import SLACK, new_marks
from tamis.engines.kernels.truth import SEVERAL
from tamis.engines.tiles.arrays import COLUMNS, MOST_COLUMNS, WIDE, TileArrays
from tamis.engines.tiles.flat_groups import MOST_ENTRIES

__all__ = [
    "ENTRY_AT",
    "KINDS_MASK",
    "MOST_LEVELS",
    "Ages",
    "Forms",
    "Workspace",
    "load_event",
    "new_block",
    "new_workspace",
    "read_ages",
    "read_atoms",
    "read_forms",
    "read_tiles",
    "read_workspace",
    "unload_event",
]

ENTRY_AT = 16
KINDS_MASK = (1 << ENTRY_AT) - 1
"""The parts of an item of `Workspace.entries`."""

MOST_LEVELS = 64
"""The most keys of one value."""

_KEYS = 1024
"""How many keys are listed before their groups are looked up."""

_ENTRIES = 4096
"""How many flat entries are listed before they are tested."""

_TILES, _COLUMNS = 256, 2048
"""How many tiles, and columns of them, are listed before the tiles are tested."""


class Forms(NamedTuple):
    """The arrays of `FormArrays` that matching reads."""

    conjunction_start: NDArray[np.int32]
    conjunction_atom: NDArray[np.int32]
    owner_start: NDArray[np.int64]
    owner: NDArray[np.int32]
    program_start: NDArray[np.int64]
    program: NDArray[np.int32]
    program_rule: NDArray[np.int32]


class Ages(NamedTuple):
    """What is written for rules that match."""

    age: NDArray[np.int32]
    """The age of each rule."""


class Workspace(NamedTuple):
    """One loaded event, and intermediate results. Belongs to one thread."""

    code: NDArray[np.int32]
    """The code of each attribute: 0 if it is absent, SEVERAL if it has several values."""
    span: NDArray[np.int64]
    """For each attribute with several values, where its entries in the event begin and end."""
    text: NDArray[np.uint8]
    """1 for each text predicate that a value satisfies."""
    hits: NDArray[np.uint64]
    """The bits of the current tile's conjunctions that hold."""
    row: NDArray[np.uint64]
    union: NDArray[np.uint64]
    """Room to combine the rows of several values."""
    columns: NDArray[np.int32]
    """Columns of some tiles."""
    place: NDArray[np.int64]
    """The places of their rows."""
    row_end: NDArray[np.int32]
    """Where the columns of each of these tiles end."""
    tiles: NDArray[np.int32]
    """Tiles to test."""
    tried: NDArray[np.uint8]
    tried_list: NDArray[np.int32]
    """1 for each program that was evaluated, and the list of these programs."""
    keys: NDArray[np.int64]
    """Keys of the event."""
    groups: NDArray[np.int64]
    """The places of the groups of the event's keys."""
    slots: NDArray[np.int64]
    """The slots of these groups."""
    visited: NDArray[np.uint8]
    """1 for each slot whose group is listed, if the event has several values for an attribute."""
    entries: NDArray[np.int64]
    """Flat entries to test: the place of the atoms, and their numbers in the lowest 16 bits."""
    candidates: NDArray[np.int64]
    """The candidates of these entries."""
    held: NDArray[np.int64]
    """Those of the candidates that hold."""
    marks: NDArray[np.uint64]
    """A bit for each rule by age, set if it was found."""
    lines: NDArray[np.uint8]
    line_words: NDArray[np.uint64]
    """The lines of `marks` that are not 0, as bytes and as words; see `new_marks`."""
    found: NDArray[np.int32]
    """The ages of the rules of a single event, and SLACK."""


def new_workspace(rules: EncodedRules, arrays: TileArrays) -> Workspace:
    """Allocate a workspace that holds no event."""
    attributes, programs = len(arrays.levels), len(rules.forms.program_rule)
    # At most half of the slots are in use.
    groups = len(arrays.slot) // 2 + 1
    return Workspace(
        np.zeros(attributes, np.int32),
        np.zeros((attributes, 2), np.int64),
        np.zeros(rules.texts.size, np.uint8),
        np.zeros(WIDE, np.uint64),
        np.zeros(WIDE, np.uint64),
        np.zeros(WIDE, np.uint64),
        np.zeros(_COLUMNS + MOST_COLUMNS, np.int32),
        np.zeros(_COLUMNS + MOST_COLUMNS, np.int64),
        np.zeros(_TILES, np.int32),
        np.zeros(len(arrays.tile), np.int32),
        np.zeros(programs, np.uint8),
        np.empty(programs, np.int32),
        np.empty(_KEYS + MOST_LEVELS, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.zeros(len(arrays.slot), np.uint8),
        np.empty(_ENTRIES + MOST_ENTRIES, np.int64),
        np.empty(_ENTRIES + MOST_ENTRIES, np.int64),
        np.empty(_ENTRIES + MOST_ENTRIES, np.int64),
        *new_marks(rules.size),
        np.empty(rules.size + 2 * SLACK, np.int32),
    )


_ATOM_COLUMNS = {"table": Column(np.int32, 4), "codes": Column(np.int32)}
_FORM_COLUMNS = {
    "conjunction_start": Column(np.int32),
    "conjunction_atom": Column(np.int32),
    "owner_start": Column(np.int64),
    "owner": Column(np.int32),
    "program_start": Column(np.int64),
    "program": Column(np.int32, 3),
    "program_rule": Column(np.int32),
}
_AGE_COLUMNS = {"age": Column(np.int32)}
_WORKSPACE_COLUMNS = {
    "code": Column(np.int32),
    "span": Column(np.int64, 2),
    "text": Column(np.uint8),
    "hits": Column(np.uint64),
    "row": Column(np.uint64),
    "union": Column(np.uint64),
    "columns": Column(np.int32),
    "place": Column(np.int64),
    "row_end": Column(np.int32),
    "tiles": Column(np.int32),
    "tried": Column(np.uint8),
    "tried_list": Column(np.int32),
    "keys": Column(np.int64),
    "groups": Column(np.int64),
    "slots": Column(np.int64),
    "visited": Column(np.uint8),
    "entries": Column(np.int64),
    "candidates": Column(np.int64),
    "held": Column(np.int64),
    "marks": Column(np.uint64),
    "lines": Column(np.uint8),
    "line_words": Column(np.uint64),
    "found": Column(np.int32),
}

_FORMS_AT = len(_ATOM_COLUMNS)
_TILES_AT = _FORMS_AT + len(_FORM_COLUMNS)
_AGES_AT = _TILES_AT + len(COLUMNS)
_WORKSPACE_AT = _AGES_AT + len(_AGE_COLUMNS)

read_atoms = make_reader(AtomArrays, 0, _ATOM_COLUMNS)
read_forms = make_reader(Forms, _FORMS_AT, _FORM_COLUMNS)
read_tiles = make_reader(TileArrays, _TILES_AT, COLUMNS)
read_ages = make_reader(Ages, _AGES_AT, _AGE_COLUMNS)
read_workspace = make_reader(Workspace, _WORKSPACE_AT, _WORKSPACE_COLUMNS)


def new_block(
    rules: EncodedRules, arrays: TileArrays, ages: Ages, workspace: Workspace
) -> AddressBlock:
    """The addresses of everything that a kernel reads and writes besides events."""
    forms = Forms(*(getattr(rules.forms, name) for name in Forms._fields))
    return AddressBlock(
        (read_atoms, rules.atoms),
        (read_forms, forms),
        (read_tiles, arrays),
        (read_ages, ages),
        (read_workspace, workspace),
    )


@part
def load_event(arrays, workspace, attribute, code, step, first, last):
    """Load the entries of an event from `first` up to, not including, `last`.

    Entry i has attribute[step * i] and code[step * i]. From the number of attributes on, an
    attribute stands for a text predicate that the event satisfies.

    Returns the bits of the attributes that it has, and whether an attribute has several values.
    """
    attributes = len(arrays.levels)
    has = np.uint32(0)
    several = False
    before = np.int64(-1)
    for i in range(first, last):
        number = np.int64(attribute[step * i])
        if number >= attributes:
            workspace.text[number - attributes] = 1
            continue
        if number == before:
            if workspace.code[number] != SEVERAL:
                workspace.span[number, 0] = i - 1
            workspace.code[number] = SEVERAL
            workspace.span[number, 1] = i + 1
            several = True
        else:
            has |= arrays.attribute_bit[number]
            workspace.code[number] = code[step * i]
        before = number
    return has, several


@part
def unload_event(arrays, workspace, attribute, step, first, last):
    """Clear what `load_event` wrote."""
    attributes = len(arrays.levels)
    for i in range(first, last):
        number = np.int64(attribute[step * i])
        if number >= attributes:
            workspace.text[number - attributes] = 0
        else:
            workspace.code[number] = 0
