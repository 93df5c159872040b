"""The arrays of the tiles engine.

A *key* is a condition on events: a node of the tree over an attribute's codes, the presence of an
attribute, a text predicate, or no condition at all. The conjunctions filed under one key are its
*group*: some as *flat* entries (`flat_groups.py`), the others in *tiles*.

The tree of an attribute with n codes has the nodes 1 (the root) to 2n - 1; the leaf of code c is
n + c, and the parent of a node is half of it. A run of codes is filed under the O(log n) highest
nodes within it, a list of codes under its leaves. A value visits the nodes above its own leaf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.engines.kernels.address_block import Column

__all__ = [
    "ABSENT_APART",
    "ALWAYS",
    "BY_CUTS",
    "BY_TEXT",
    "COLUMNS",
    "EMPTY_SLOT",
    "IS_WIDE",
    "KINDS",
    "MOST_COLUMNS",
    "MOST_POSITIONS",
    "MOST_STEPS",
    "NARROW",
    "NEGATIVE",
    "NO_CODE",
    "PLACE_BITS",
    "PLACE_MASK",
    "PRESENT_LEVEL",
    "SPECIAL_APART",
    "STEPS",
    "TEXT_HOLDS",
    "WIDE",
    "WORD",
    "ColumnArrays",
    "TileArrays",
]

ALWAYS = 0
"""The key that every event satisfies."""

PRESENT_LEVEL = 63
"""The bit of `levels` that is set where something is filed under an attribute's presence."""

PLACE_BITS = np.uint64(32)
"""How many of the lowest bits of a slot are the place of its group in `flat`."""

PLACE_MASK = np.uint64(0xFFFFFFFF)

EMPTY_SLOT = ~np.uint64(0)

WORD = 64
"""How many conjunctions a word has bits for."""

NARROW, WIDE = 2, 4
"""The words in a row of a tile: a tile has up to 128 or up to 256 conjunctions."""

MOST_COLUMNS = 48
"""The most columns of a tile."""

TEXT_HOLDS = 2
"""In place of a code: a text predicate holds. If it does not, the code is 1, or 0 if absent."""

NO_CODE = -2
"""In place of the special or the ideal code of a column without one."""

STEPS, NEGATIVE, BY_TEXT, BY_CUTS = 7, 8, 16, 32
IS_WIDE, SPECIAL_APART, ABSENT_APART = 64, 128, 256
KINDS = 512
"""The kind of a column, below KINDS. STEPS are the bits for how many positions a row serves
(`positions_of`). The flags say that its atoms are negated, test a text predicate, or find positions
by cuts; that its tile is wide; that the special code, or absence, has a row that stands apart."""


MOST_STEPS, MOST_POSITIONS = 4, 17
"""With MOST_STEPS, a row serves MOST_POSITIONS: between them are sixteen counts of four bits."""


class ColumnArrays(NamedTuple):
    """The columns of all tiles.

    A column tells for each code of an attribute which conjunctions of the tile it satisfies. Codes
    between two *cuts* satisfy the same ones and share a *position*; where cuts are dense, each code
    has its own position. Neighbouring positions differ in few bits, so one row of bits serves
    several positions: the words that follow it name bits, and say how many of them to toggle for
    each position. Up to three rows stand apart: that of all codes outside of the cuts, that of the
    *special* code, which satisfies the most conjunctions, and that of an absent attribute. The last
    two are left out where they are all ones, and the last where it equals the first.
    """

    ideal: NDArray[np.int32]
    """For each column: its attribute, and a code that satisfies all conjunctions, or NO_CODE. An
    event with this code need not look at the column."""
    columns: NDArray[np.int32]
    """For each column, eight numbers, half of a cache line: its kind; where its rows begin in
    `bits`, in units of 8 words; its special code, or NO_CODE; its lowest cut, and the distance to
    its highest cut; its text predicate, or where its cuts begin; the number of its cuts; how many
    words stand apart, before the rows of positions."""
    cut: NDArray[np.int32]
    """The position of a code is the number of its column's cuts that are not above it, minus 1."""
    bits: NDArray[np.uint64]
    """The rows. A row that stands apart has a bit for each conjunction of the tile, set if it is
    satisfied, and so has a row of one position. A row of several positions has the bits of the one
    in its middle, and as many words again: one with counts of toggles, then the toggles, a byte
    each, from the first position to the last. If they do not fit, the last word is the place of the
    rest. Up to eight positions have a byte for each, the number of toggles up to it; more have four
    bits between each two, the number of toggles there."""


class TileArrays(NamedTuple):
    """Groups by key. A candidate is a conjunction, or after all conjunctions a program."""

    attribute_bit: NDArray[np.uint32]
    """The bit of a signature that stands for each attribute."""
    levels: NDArray[np.uint64]
    """For each attribute, bit k is set if something is filed under a node k levels above the leaf
    of some code."""
    tree: NDArray[np.int64]
    """For each attribute, the number of its codes and the key of its node 0."""
    slot: NDArray[np.uint64]
    """A hash table from keys to groups with linear probing: a key, and in the lowest PLACE_BITS
    the place of its group in `flat`; EMPTY_SLOT in an empty slot."""
    flat: NDArray[np.uint32]
    """The groups; see `tamis.engines.tiles.flat_groups`."""
    width: NDArray[np.int64]
    """How many bits attributes and codes have in `flat`."""
    tile: NDArray[np.int32]
    """A row for each tile, plus one: where its columns begin, and how many conjunctions it has;
    then which they are: the first of a run, the length of the run, and where the others are in
    `member`."""
    member: NDArray[np.int32]
    """The conjunctions of tiles that are not in the tile's run."""
    ideal: NDArray[np.int32]
    columns: NDArray[np.int32]
    cut: NDArray[np.int32]
    bits: NDArray[np.uint64]
    """The columns; see `ColumnArrays`."""
    bound: NDArray[np.uint8]
    """Where `bounds` has the most that each candidate scores on an event without weights above 1;
    see `rank_bounds`."""
    bounds: NDArray[np.float32]
    """The bounds of candidates, rising."""
    tile_bound: NDArray[np.float32]
    """The highest bound in each tile."""


COLUMNS = {
    "attribute_bit": Column(np.uint32),
    "levels": Column(np.uint64),
    "tree": Column(np.int64, 2),
    "slot": Column(np.uint64),
    "flat": Column(np.uint32),
    "width": Column(np.int64),
    "tile": Column(np.int32, 5),
    "member": Column(np.int32),
    "ideal": Column(np.int32, 2),
    "columns": Column(np.int32, 8),
    "cut": Column(np.int32),
    "bits": Column(np.uint64),
    "bound": Column(np.uint8),
    "bounds": Column(np.float32),
    "tile_bound": Column(np.float32),
}
"""The types of the arrays of `TileArrays`."""
