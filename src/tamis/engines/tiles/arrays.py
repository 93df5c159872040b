"""The arrays of the tiles engine.

A *key* is something that an event may satisfy: a node of the trees over codes
(`tamis.engines.papers.code_trees`), the presence of an attribute, a text predicate, or nothing at
all. The conjunctions filed under one key are its *group*: some as *flat* entries, the others in
*tiles*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ALWAYS",
    "BY_CUTS",
    "BY_TEXT",
    "GROUP_BITS",
    "MOST_COLUMNS",
    "NARROW",
    "NEGATIVE",
    "NO_CODE",
    "PRESENT_LEVEL",
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
"""The bit of `levels` that says that something is filed under an attribute's presence."""

GROUP_BITS = 31
"""The bits of a slot that are a group's number."""

WORD = 64
"""Conjunctions to a word."""

NARROW, WIDE = 2, 4
"""The words of a row of a tile: tiles hold up to 128 or up to 256 conjunctions."""

MOST_COLUMNS = 48
"""How many columns a tile may have."""

TEXT_HOLDS = 2
"""In place of a code: a text predicate is satisfied. If not, it is 1, or ABSENT."""

NO_CODE = -2
"""In place of a column's special code where it has none."""

STEPS, NEGATIVE, BY_TEXT, BY_CUTS = 3, 4, 8, 16
"""The kind of a column: the bits that say how many positions a row serves (as a power of two), and
whether its atoms are negated, look at a text predicate, or have their positions by cuts."""


class ColumnArrays(NamedTuple):
    """The columns of all tiles.

    A column says for each code of an attribute which conjunctions of the tile it satisfies. Codes
    between two *cuts* satisfy the same ones; where cuts are many, each code is a *position* of its
    own. Neighbouring positions differ in a few bits, so one row of bits serves several positions:
    the words behind it say how many of the bits that they name are to be toggled for each. Three
    rows stand apart: that of the *special* code, which satisfies most conjunctions, that of ABSENT,
    and that of all codes beyond the lowest and the highest cut.
    """

    column: NDArray[np.int32]
    """For each column: its attribute; its kind; where its rows begin in `bits`, in steps of 8
    words; its special code, or NO_CODE; its lowest cut, and how far its highest one is from it."""
    lookup: NDArray[np.int32]
    """For each column: its text predicate, or where its cuts begin, and how many these are."""
    cut: NDArray[np.int32]
    """A code's position is the number of its column's cuts that are not above it, less one."""
    bits: NDArray[np.uint64]
    """The rows, first those that stand apart. Half of a row are bits, one for each conjunction of
    the tile, set where it is satisfied; then a word of counts of toggles, a byte for each position,
    of which the last is the highest; then the toggles, a byte each, or where these are if they do
    not fit."""


class TileArrays(NamedTuple):
    """Groups by key. A candidate is a conjunction, or behind those a program."""

    attribute_bit: NDArray[np.uint64]
    """The bit of a signature that stands for each attribute."""
    levels: NDArray[np.uint64]
    """For each attribute, bit k is set where something is filed under nodes k levels above the
    leaf of some code."""
    tree: NDArray[np.int64]
    """For each attribute the number of its codes, and the key of its node 0."""
    slot: NDArray[np.int64]
    """A hash table from keys to groups, probed linearly: a key, and in the lowest GROUP_BITS its
    group; -1 in an empty slot."""
    group: NDArray[np.int32]
    """A row for each group, and one more: where its flat entries and its tiles begin."""
    flat: NDArray[np.int32]
    """For each flat entry its candidate, and where its atoms are in `packed`."""
    signature: NDArray[np.uint64]
    """For each flat entry the bits of the attributes that it needs."""
    packed: NDArray[np.uint64]
    """The atoms of flat conjunctions; see `tamis.engines.tiles.flat_entries`."""
    tile: NDArray[np.int32]
    """A row for each tile, and one more: where its columns begin, how many conjunctions it holds,
    which they are: the first of a run of them, how many are in the run, and where in `member` the
    others are."""
    member: NDArray[np.int32]
    """The conjunctions of the tiles that do not hold a run of them."""
    column: NDArray[np.int32]
    lookup: NDArray[np.int32]
    cut: NDArray[np.int32]
    bits: NDArray[np.uint64]
    """The columns; see `ColumnArrays`."""
    bound: NDArray[np.float32]
    """For each candidate what it scores at most on an event that weighs nothing above 1."""
    tile_bound: NDArray[np.float32]
    """The highest bound in each tile."""
