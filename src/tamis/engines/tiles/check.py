"""Checks arrays of the tiles engine that were read from a file; see `tamis.encode.checks`.

Besides the bounds of each array this makes sure that a search ends, and that its lists of groups,
tiles and entries have room.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.checks import (
    check_lengths,
    check_lists,
    check_numbers,
    check_types,
    refuse,
)
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.bits import BYTE
from tamis.engines.tiles.access_keys import Keys
from tamis.engines.tiles.arrays import (
    BY_CUTS,
    BY_TEXT,
    EMPTY_SLOT,
    IS_WIDE,
    KINDS,
    MOST_COLUMNS,
    MOST_STEPS,
    NARROW,
    NO_CODE,
    PLACE_MASK,
    SPECIAL_APART,
    STEPS,
    WIDE,
    WORD,
    TileArrays,
)
from tamis.engines.tiles.columns import count_apart, positions_of
from tamis.engines.tiles.flat_groups import choose_widths, groups_fit
from tamis.engines.tiles.tile_and import HALF_BYTES, count_toggles

__all__ = ["check_tiles"]


def check_tiles(rules: EncodedRules, arrays: TileArrays) -> None:
    """Check the arrays of the tiles engine.

    Raises
    ------
    ArrayError
        A kernel could leave its arrays.
    """
    check_types(arrays, tree=2, tile=5, ideal=2, columns=8)
    attributes = len(rules.dictionary.axes)
    conjunctions = len(rules.forms.conjunction_start) - 1
    candidates = conjunctions + len(rules.forms.program_rule)
    check_lengths(
        attributes,
        attribute_bit=arrays.attribute_bit,
        levels=arrays.levels,
        tree=arrays.tree,
    )
    check_lengths(candidates, bound=arrays.bound)
    check_numbers("bound", arrays.bound, 0, len(arrays.bounds))
    check_numbers("member", arrays.member, 0, conjunctions)
    _check_tiles(arrays, conjunctions)
    _check_columns(rules, arrays)
    _check_groups(rules, arrays, conjunctions, candidates)


def _check_tiles(arrays: TileArrays, conjunctions: int) -> None:
    if not len(arrays.tile):
        refuse("tile", "is empty")
    column, size, first, homes, others = np.ascontiguousarray(arrays.tile.T, np.int64)
    check_lists("tile", column, len(arrays.columns))
    check_numbers("tile", np.diff(column), 0, MOST_COLUMNS + 1)
    size, first, homes, others = size[:-1], first[:-1], homes[:-1], others[:-1]
    check_numbers("tile", size, 1, WIDE * WORD + 1)
    check_numbers("tile", homes, 0, WIDE * WORD + 1)
    check_numbers("tile", size - homes, 0, WIDE * WORD + 1)
    check_numbers("tile", first, 0, conjunctions)
    check_numbers("tile", first + homes, 0, conjunctions + 1)
    check_numbers("tile", others, 0, len(arrays.member) + 1)
    check_numbers("tile", others + size - homes, 0, len(arrays.member) + 1)
    check_lengths(len(size), tile_bound=arrays.tile_bound)


def _check_columns(rules: EncodedRules, arrays: TileArrays) -> None:
    check_lengths(len(arrays.columns), ideal=arrays.ideal)
    check_numbers("ideal", arrays.ideal[:, 0], 0, len(rules.dictionary.axes))
    if not _columns_fit(arrays, rules.texts.size):
        refuse("columns", "has rows outside of its tile's")


def _check_groups(
    rules: EncodedRules, arrays: TileArrays, conjunctions: int, candidates: int
) -> None:
    keys, attributes = Keys.of(rules), len(rules.dictionary.axes)
    if not np.array_equal(arrays.tree, np.stack([keys.sizes, keys.tree], axis=1)):
        refuse("tree", "does not fit the attributes' codes")
    if not np.array_equal(arrays.width, choose_widths(attributes)):
        refuse("width", "does not fit the number of attributes")
    place = np.sort(arrays.slot[arrays.slot != EMPTY_SLOT] & PLACE_MASK).astype(np.int64)
    slots, groups = len(arrays.slot), len(place)
    # A search for a key ends at an empty slot.
    if slots & (slots - 1) or slots < 2 or 2 * groups > slots:
        refuse("slot", f"has {slots:,} slots for {groups:,} groups")
    if not (np.diff(place) > 0).all():
        refuse("slot", "has a group twice")
    is_listed = np.zeros(len(arrays.tile) - 1, np.uint8)
    sizes = attributes, len(rules.atoms.table), conjunctions, candidates
    if not groups_fit(arrays.flat, arrays.width, place, *sizes, is_listed):
        refuse("flat", "has a group that leads out of the arrays")


@kernel
def _columns_fit(arrays, texts):
    """Whether all rows of all columns, and what they name, are in the arrays."""
    bits, words_of_all = arrays.bits, len(arrays.bits)
    for tile in range(len(arrays.tile) - 1):
        words = WIDE if arrays.tile[tile, 1] > NARROW * WORD else NARROW
        for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0]):
            kind, place = arrays.columns[column, 0], arrays.columns[column, 1]
            low, span = arrays.columns[column, 3], arrays.columns[column, 4]
            lookup, cuts = np.int64(arrays.columns[column, 5]), np.int64(arrays.columns[column, 6])
            special, ideal = np.int64(arrays.columns[column, 2]), np.int64(arrays.ideal[column, 1])
            if kind < 0 or kind >= KINDS or (kind & IS_WIDE != 0) != (words == WIDE):
                return False
            # A special code without a row of its own must never be looked up.
            if special not in (NO_CODE, ideal) and not kind & SPECIAL_APART:
                return False
            if special == 0 or arrays.columns[column, 7] != count_apart(kind, words):
                return False
            if kind & BY_TEXT and (lookup < 0 or lookup >= texts):
                return False
            if place < 0 or low < 0 or span < 0:
                return False
            positions = np.int64(span)
            if kind & BY_CUTS:
                if kind & BY_TEXT or lookup < 0 or cuts < 2 or lookup + cuts > len(arrays.cut):
                    return False
                for i in range(lookup + 1, lookup + cuts):
                    if arrays.cut[i] <= arrays.cut[i - 1]:
                        return False
                if arrays.cut[lookup] != low or arrays.cut[lookup + cuts - 1] != low + span:
                    return False
                positions = cuts - 1
            steps = kind & STEPS
            if steps > MOST_STEPS:
                return False
            rows = (positions + positions_of(steps) - 1) // positions_of(steps)
            first = (np.int64(place) << 3) + count_apart(kind, words)
            if first + (2 * words if steps else words) * rows > words_of_all:
                return False
            for row in range(rows if steps else 0):
                at = first + 2 * words * row + words
                counts = bits[at]
                half_bytes = HALF_BYTES if steps == MOST_STEPS else 0
                toggles = count_toggles(counts, half_bytes)[2]
                for k in range(8 if steps < MOST_STEPS else 0):
                    if np.int64((counts >> np.uint64(8 * k)) & BYTE) > toggles:
                        return False
                if toggles > 8 * (words - 1):
                    spill = bits[at + words - 1]
                    needed = np.uint64((toggles + 7 - 8 * (words - 2)) >> 3)
                    if spill > np.uint64(words_of_all) or needed > np.uint64(words_of_all) - spill:
                        return False
    return True
