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
from tamis.engines.kernels.truth import SEVERAL
from tamis.engines.tiles.arrays import COLUMNS, MOST_COLUMNS, WIDE, TileArrays
from tamis.engines.tiles.flat_groups import MOST_ENTRIES

__all__ = [
    "AHEAD",
    "MOST_LEVELS",
    "Forms",
    "Labels",
    "Workspace",
    "load_event",
    "new_block",
    "new_workspace",
    "read_atoms",
    "read_forms",
    "read_labels",
    "read_tiles",
    "read_workspace",
    "unload_event",
]

AHEAD = 1
"""How many tiles ahead rows are prefetched; a power of two minus 1."""

MOST_LEVELS = 64
"""The most keys of one value."""

_KEYS = 1024
"""How many keys are listed before their groups are looked up."""

_ENTRIES = 4096
"""How many flat entries are listed before they are tested."""


class Forms(NamedTuple):
    """The arrays of `FormArrays` that matching reads."""

    conjunction_start: NDArray[np.int64]
    conjunction_atom: NDArray[np.int32]
    owner_start: NDArray[np.int64]
    owner: NDArray[np.int32]
    program_start: NDArray[np.int64]
    program: NDArray[np.int32]
    program_rule: NDArray[np.int32]


class Labels(NamedTuple):
    """What is written for a rule that matches."""

    by_place: NDArray[np.int64]
    """The label of each rule; empty where a rule's label is its place."""
    age: NDArray[np.int32]
    """The age of each rule."""
    by_age: NDArray[np.int64]
    """The labels by age; empty where they are consecutive numbers."""
    first: NDArray[np.int64]
    """The label of the oldest rule, where labels are consecutive numbers."""


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
    place: NDArray[np.int64]
    """The places of the rows of some tiles' columns."""
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
    marks: NDArray[np.uint64]
    """A bit for each rule by age, set if it was found."""
    summary: NDArray[np.uint64]
    """A bit for each word of `marks` that is not 0."""
    found: NDArray[np.int64]
    """The labels of the rules of a single event."""


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
        np.zeros((AHEAD + 1) * MOST_COLUMNS, np.int64),
        np.zeros(len(arrays.tile), np.int32),
        np.zeros(programs, np.uint8),
        np.empty(programs, np.int32),
        np.empty(_KEYS + MOST_LEVELS, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.zeros(len(arrays.slot), np.uint8),
        np.empty(_ENTRIES + MOST_ENTRIES, np.int64),
        np.empty(_ENTRIES + MOST_ENTRIES, np.int64),
        np.zeros((rules.size >> 6) + 1, np.uint64),
        np.zeros((rules.size >> 12) + 1, np.uint64),
        np.empty(rules.size, np.int64),
    )


_ATOM_COLUMNS = {"table": Column(np.int32, 4), "codes": Column(np.int32)}
_FORM_COLUMNS = {
    "conjunction_start": Column(np.int64),
    "conjunction_atom": Column(np.int32),
    "owner_start": Column(np.int64),
    "owner": Column(np.int32),
    "program_start": Column(np.int64),
    "program": Column(np.int32, 3),
    "program_rule": Column(np.int32),
}
_LABEL_COLUMNS = {
    "by_place": Column(np.int64),
    "age": Column(np.int32),
    "by_age": Column(np.int64),
    "first": Column(np.int64),
}
_WORKSPACE_COLUMNS = {
    "code": Column(np.int32),
    "span": Column(np.int64, 2),
    "text": Column(np.uint8),
    "hits": Column(np.uint64),
    "row": Column(np.uint64),
    "union": Column(np.uint64),
    "place": Column(np.int64),
    "tiles": Column(np.int32),
    "tried": Column(np.uint8),
    "tried_list": Column(np.int32),
    "keys": Column(np.int64),
    "groups": Column(np.int64),
    "slots": Column(np.int64),
    "visited": Column(np.uint8),
    "entries": Column(np.int64),
    "candidates": Column(np.int64),
    "marks": Column(np.uint64),
    "summary": Column(np.uint64),
    "found": Column(np.int64),
}

_FORMS_AT = len(_ATOM_COLUMNS)
_TILES_AT = _FORMS_AT + len(_FORM_COLUMNS)
_LABELS_AT = _TILES_AT + len(COLUMNS)
_WORKSPACE_AT = _LABELS_AT + len(_LABEL_COLUMNS)

read_atoms = make_reader(AtomArrays, 0, _ATOM_COLUMNS)
read_forms = make_reader(Forms, _FORMS_AT, _FORM_COLUMNS)
read_tiles = make_reader(TileArrays, _TILES_AT, COLUMNS)
read_labels = make_reader(Labels, _LABELS_AT, _LABEL_COLUMNS)
read_workspace = make_reader(Workspace, _WORKSPACE_AT, _WORKSPACE_COLUMNS)


def new_block(
    rules: EncodedRules, arrays: TileArrays, labels: Labels, workspace: Workspace
) -> AddressBlock:
    """The addresses of everything that a kernel reads and writes besides events."""
    forms = Forms(*(getattr(rules.forms, name) for name in Forms._fields))
    return AddressBlock(
        (read_atoms, rules.atoms),
        (read_forms, forms),
        (read_tiles, arrays),
        (read_labels, labels),
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
