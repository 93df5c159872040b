"""Checks arrays of the tiles engine that were read from a file; see `tamis.encode.checks`.

Besides the bounds of each array this makes sure that a search ends, and that it finds no more rules
than there are: a search writes them into an array that has room for each rule once. So each
conjunction may be filed under one attribute only, and no event may reach more entries of an
attribute's groups than conjunctions are filed there.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    GROUP_BITS,
    MOST_COLUMNS,
    NARROW,
    NEGATIVE,
    STEPS,
    WIDE,
    WORD,
    TileArrays,
)
from tamis.engines.tiles.columns import APART
from tamis.engines.tiles.flat_entries import NOTHING_TO_TEST, mark_packed
from tamis.engines.tiles.groups import find_group

__all__ = ["check_tiles"]

_GROUP_MASK = (1 << GROUP_BITS) - 1


def check_tiles(rules: EncodedRules, arrays: TileArrays) -> None:
    """Check the arrays of the tiles engine.

    Raises
    ------
    ArrayError
        A kernel could leave its arrays.
    """
    check_types(arrays, tree=2, group=2, flat=2, tile=5, column=6, lookup=2)
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
    check_numbers("flat", arrays.flat[:, 0], 0, candidates)
    check_numbers("member", arrays.member, 0, conjunctions)
    _check_flat_entries(rules, arrays, conjunctions)
    _check_tiles(arrays, conjunctions)
    _check_columns(rules, arrays)
    _check_groups(rules, arrays, conjunctions)


def _check_flat_entries(rules: EncodedRules, arrays: TileArrays, conjunctions: int) -> None:
    check_lengths(len(arrays.flat), signature=arrays.signature)
    begins = np.zeros(len(arrays.packed), np.uint8)
    attributes, texts = len(rules.dictionary.axes), rules.texts.size
    sizes = attributes, texts, len(rules.atoms.table)
    if not mark_packed(arrays.packed, *sizes, begins):
        refuse("packed", "has an atom that does not exist, or no end")
    at = arrays.flat[arrays.flat[:, 0] < conjunctions, 1]
    at = at[at != NOTHING_TO_TEST]
    check_numbers("flat", at, 0, len(arrays.packed))
    if not begins[at].all():
        refuse("flat", "has an entry that begins within another")


def _check_tiles(arrays: TileArrays, conjunctions: int) -> None:
    if not len(arrays.tile):
        refuse("tile", "is empty")
    column, size, first, homes, others = np.ascontiguousarray(arrays.tile.T, np.int64)
    check_lists("tile", column, len(arrays.column))
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
    check_lengths(len(arrays.column), lookup=arrays.lookup)
    check_numbers("column", arrays.column[:, 0], 0, len(rules.dictionary.axes))
    if not _columns_fit(arrays, rules.texts.size):
        refuse("column", "has rows outside of its tile's")


def _check_groups(rules: EncodedRules, arrays: TileArrays, conjunctions: int) -> None:
    keys = Keys.of(rules)
    if not np.array_equal(arrays.tree, np.stack([keys.sizes, keys.tree], axis=1)):
        refuse("tree", "does not fit the attributes' codes")
    if not len(arrays.group):
        refuse("group", "is empty")
    flat, tile = np.ascontiguousarray(arrays.group.T, np.int64)
    check_lists("group", flat, len(arrays.flat))
    check_lists("group", tile, len(arrays.tile) - 1)
    slots, groups = len(arrays.slot), len(flat) - 1
    # A search for a key ends at an empty slot.
    if slots & (slots - 1) or slots <= groups:
        refuse("slot", f"has {slots:,} slots")
    key = np.full(groups, -1, np.int64)
    if not _list_keys(arrays.slot, key):
        refuse("slot", "does not have each group once")
    home, homes = _find_homes(keys, key, rules.texts.size)
    check_numbers("slot", home, 0, homes)
    filed = np.zeros(homes, np.int64)
    if not _each_has_one_home(arrays, home, np.full(conjunctions, -1, np.int64), filed):
        refuse("group", "has a conjunction under two attributes")
    sizes = np.empty(groups, np.int64)
    if not _fits_each_home(arrays, conjunctions, keys.tree, key, home, filed, sizes):
        refuse("group", "has a conjunction twice")


def _find_homes(keys: Keys, key: NDArray[np.int64], texts: int) -> tuple[NDArray[np.int64], int]:
    """The home of each key, -1 if there is no such key; and how many homes there are.

    All nodes of an attribute's tree have the attribute as their home. Each other key is a home of
    its own.
    """
    attributes = len(keys.sizes)
    first_node = 1 + attributes + texts
    home = attributes + key
    in_tree = key >= first_node
    attribute = np.searchsorted(keys.tree, key[in_tree], side="right") - 1
    node = key[in_tree] - keys.tree[attribute]
    attribute[(node < 1) | (node >= 2 * keys.sizes[attribute])] = -1
    home[in_tree] = attribute
    return home, attributes + first_node


@kernel
def _columns_fit(arrays, texts):
    """Whether all rows of all columns, and what they name, are in the arrays."""
    bits, words_of_all = arrays.bits, len(arrays.bits)
    for tile in range(len(arrays.tile) - 1):
        words = WIDE if arrays.tile[tile, 1] > NARROW * WORD else NARROW
        for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0]):
            kind, place = arrays.column[column, 1], arrays.column[column, 2]
            low, span = arrays.column[column, 4], arrays.column[column, 5]
            lookup, cuts = np.int64(arrays.lookup[column, 0]), np.int64(arrays.lookup[column, 1])
            if kind < 0 or kind > STEPS + NEGATIVE + BY_TEXT + BY_CUTS:
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
            rows = APART + ((positions + (1 << steps) - 1) >> steps)
            first = np.int64(place) << 3
            if first + 2 * words * rows > words_of_all:
                return False
            for row in range(rows):
                at = first + 2 * words * row + words
                counts = bits[at]
                last = counts >> np.uint64(56)
                if last == 0:
                    if counts:
                        return False
                    continue
                for k in range(7):
                    if (counts >> np.uint64(8 * k)) & BYTE > last:
                        return False
                if last > np.uint64(8 * (words - 1)):
                    spill = bits[at + 1]
                    needed = (last + np.uint64(7)) >> np.uint64(3)
                    if spill > np.uint64(words_of_all) or needed > np.uint64(words_of_all) - spill:
                        return False
    return True


@kernel
def _list_keys(slot, key):
    """Write the key of each group; False unless each group has one."""
    found = 0
    for filled in slot:
        if filled >= 0:
            group = filled & _GROUP_MASK
            if group >= len(key) or key[group] >= 0:
                return False
            key[group] = filled >> GROUP_BITS
            found += 1
    return found == len(key)


@kernel
def _is_at_home(home, home_of, filed, conjunction):
    """Note the home of a conjunction, and count it there; False if it has another one."""
    if home_of[conjunction] < 0:
        home_of[conjunction] = home
        filed[home] += 1
    return home_of[conjunction] == home


@kernel
def _each_has_one_home(arrays, home, home_of, filed):
    """Count the conjunctions of each home; False if one is filed in two."""
    for group in range(len(home)):
        for entry in range(arrays.group[group, 0], arrays.group[group + 1, 0]):
            candidate = arrays.flat[entry, 0]
            if candidate < len(home_of) and not _is_at_home(home[group], home_of, filed, candidate):
                return False
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
            homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
            for bit in range(size):
                conjunction = first + bit if bit < homes else arrays.member[others + bit - homes]
                if not _is_at_home(home[group], home_of, filed, conjunction):
                    return False
    return True


@kernel
def _count_entries(arrays, conjunctions, group):
    """How many conjunctions a group has, counting each as often as it is there."""
    count = 0
    for entry in range(arrays.group[group, 0], arrays.group[group + 1, 0]):
        count += arrays.flat[entry, 0] < conjunctions
    for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
        count += arrays.tile[tile, 1]
    return count


@kernel
def _fits_each_home(arrays, conjunctions, tree, key, home, filed, sizes):
    """Whether no event reaches more entries of a home than conjunctions are filed there."""
    for group in range(len(key)):
        sizes[group] = _count_entries(arrays, conjunctions, group)
    for group in range(len(key)):
        reached = sizes[group]
        if home[group] < len(tree):
            # An event that reaches a node reaches those above it, too.
            base = tree[home[group]]
            node = (key[group] - base) >> 1
            while node:
                above = find_group(arrays.slot, base + node)
                if above >= 0:
                    reached += sizes[above]
                node >>= 1
        if reached > filed[home[group]]:
            return False
    return True
