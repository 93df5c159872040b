"""Finds the conjunctions of a tile that hold: the AND of one row from each of its columns.

The rows of a tile are far apart in memory, so they are prefetched while the tile before is tested.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import ALL_BITS, BYTE, EIGHT, ONE, ZERO, prefetch
from tamis.engines.tiles.arrays import BY_CUTS, BY_TEXT, NARROW, NEGATIVE, STEPS, WIDE, WORD
from tamis.engines.tiles.columns import count_cuts

__all__ = [
    "first_bits",
    "locate_rows",
    "multivalued_tile_holds",
    "prefetch_columns",
    "tile_holds",
    "write_row",
]

_BIT = np.uint64(63)
_LAST_COUNT = np.uint64(56)
"""Where the highest count is in a word of counts."""


@part
def _place(arrays, column, words, code):
    """The place of the row of a code; the three lowest bits say which of its counts to use."""
    first = np.int64(arrays.column[column, 1])
    if code == arrays.column[column, 2]:
        return first << 6
    position = code - arrays.column[column, 3]
    if code == 0:
        return ((first << 3) + 2 * words) << 3
    if position < 0 or position >= arrays.column[column, 4]:
        return ((first << 3) + 4 * words) << 3
    kind = arrays.column[column, 0]
    if kind & BY_CUTS:
        position = (
            count_cuts(arrays.cut, arrays.lookup[column, 0], arrays.lookup[column, 1], code) - 1
        )
    steps = kind & STEPS
    row = (first << 3) + 2 * words * (3 + (position >> steps))
    return (row << 3) | (position & ((1 << steps) - 1))


@part
def prefetch_columns(arrays, tile):
    """Prefetch what `locate_rows` reads first of a tile's columns."""
    for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0], 8):
        prefetch(arrays.ideal, 2 * column)


@part
def locate_rows(arrays, code_of, workspace, tile, at):
    """Find and prefetch the rows of a tile's columns for the codes of an event's attributes.

    Columns whose ideal code the event has are left out. Returns how many rows there are.
    """
    words = WIDE if arrays.tile[tile, 1] > NARROW * WORD else NARROW
    rows = 0
    for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0]):
        code = code_of[arrays.ideal[column, 0]]
        if code == arrays.ideal[column, 1]:
            continue
        if arrays.column[column, 0] & BY_TEXT:
            code = 0 if code == 0 else 1 + workspace.text[arrays.lookup[column, 0]]
        place = _place(arrays, column, words, code)
        prefetch(arrays.bits, place >> 3)
        workspace.place[at + rows] = place
        rows += 1
    return rows


@part
def first_bits(size):
    """A word with its lowest bits set, up to all of them."""
    return ALL_BITS if size >= WORD else (ONE << np.uint64(max(size, 0))) - ONE


@part
def _narrow_holds(arrays, workspace, tile, at, rows):
    """Write into workspace.hits which conjunctions of a narrow tile hold; False if none does."""
    size = arrays.tile[tile, 1]
    a, b = first_bits(size), first_bits(size - WORD)
    bits = arrays.bits
    for i in range(rows):
        place = workspace.place[at + i]
        row = place >> 3
        c, d = bits[row], bits[row + 1]
        counts = bits[row + NARROW]
        toggles = np.int64((counts >> np.uint64(8 * (place & 7))) & BYTE)
        at_word = row + NARROW + 1
        if toggles and counts >> _LAST_COUNT > 8 * (NARROW - 1):
            at_word = np.int64(bits[at_word])
        named = ZERO
        for k in range(toggles):
            if k & 7 == 0:
                named = bits[at_word + (k >> 3)]
            mask = ONE << (named & _BIT)
            if named & np.uint64(64):
                d ^= mask
            else:
                c ^= mask
            named >>= EIGHT
        a &= c
        b &= d
        if a | b == 0:
            return False
    workspace.hits[0] = a
    workspace.hits[1] = b
    return True


@part
def _wide_holds(arrays, workspace, tile, at, rows):
    """Write into workspace.hits which conjunctions of a wide tile hold; False if none does."""
    size = arrays.tile[tile, 1]
    a, b, c, d = ALL_BITS, ALL_BITS, first_bits(size - 2 * WORD), first_bits(size - 3 * WORD)
    bits, line = arrays.bits, workspace.row
    for i in range(rows):
        place = workspace.place[at + i]
        row = place >> 3
        counts = bits[row + WIDE]
        toggles = np.int64((counts >> np.uint64(8 * (place & 7))) & BYTE)
        if toggles == 0:
            a &= bits[row]
            b &= bits[row + 1]
            c &= bits[row + 2]
            d &= bits[row + 3]
        else:
            line[0] = bits[row]
            line[1] = bits[row + 1]
            line[2] = bits[row + 2]
            line[3] = bits[row + 3]
            at_word = row + WIDE + 1
            if counts >> _LAST_COUNT > 8 * (WIDE - 1):
                at_word = np.int64(bits[at_word])
            named = ZERO
            for k in range(toggles):
                if k & 7 == 0:
                    named = bits[at_word + (k >> 3)]
                line[(named >> np.uint64(6)) & np.uint64(3)] ^= ONE << (named & _BIT)
                named >>= EIGHT
            a &= line[0]
            b &= line[1]
            c &= line[2]
            d &= line[3]
        if a | b | c | d == 0:
            return False
    workspace.hits[0] = a
    workspace.hits[1] = b
    workspace.hits[2] = c
    workspace.hits[3] = d
    return True


@part
def write_row(arrays, column, words, code, row):
    """Write the row of a code of a column."""
    place = _place(arrays, column, words, code)
    at = place >> 3
    for word in range(words):
        row[word] = arrays.bits[at + word]
    counts = arrays.bits[at + words]
    at_word = at + words + 1
    if counts >> _LAST_COUNT > np.uint64(8 * (words - 1)):
        at_word = np.int64(arrays.bits[at_word])
    for k in range(np.int64((counts >> np.uint64(8 * (place & 7))) & BYTE)):
        named = arrays.bits[at_word + (k >> 3)] >> np.uint64(8 * (k & 7))
        row[(named & BYTE) >> np.uint64(6)] ^= ONE << (named & _BIT)


@kernel
def multivalued_tile_holds(arrays, event_code, step, workspace, tile):
    """Like `tile_holds`, for an event with several values for an attribute.

    See `load_event` for `event_code` and `step`.
    """
    size = arrays.tile[tile, 1]
    words = WIDE if size > NARROW * WORD else NARROW
    for word in range(words):
        workspace.hits[word] = first_bits(size - WORD * word)
    for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0]):
        attribute = arrays.ideal[column, 0]
        kind = arrays.column[column, 0]
        code = workspace.code[attribute]
        if code == arrays.ideal[column, 1]:
            continue
        if kind & BY_TEXT or code >= 0:
            if kind & BY_TEXT:
                code = 0 if code == 0 else 1 + workspace.text[arrays.lookup[column, 0]]
            write_row(arrays, column, words, code, workspace.row)
            for word in range(words):
                workspace.hits[word] &= workspace.row[word]
            continue
        for word in range(words):
            workspace.union[word] = ALL_BITS if kind & NEGATIVE else ZERO
        for i in range(workspace.span[attribute, 0], workspace.span[attribute, 1]):
            write_row(arrays, column, words, event_code[step * i], workspace.row)
            for word in range(words):
                if kind & NEGATIVE:
                    workspace.union[word] &= workspace.row[word]
                else:
                    workspace.union[word] |= workspace.row[word]
        for word in range(words):
            workspace.hits[word] &= workspace.union[word]
    alive = ZERO
    for word in range(words):
        alive |= workspace.hits[word]
    return alive != 0


@part
def tile_holds(arrays, workspace, tile, at, rows):
    """Write into workspace.hits which conjunctions of a tile hold; False if none does.

    The places of `rows` rows are in workspace.place from `at` on; see `locate_rows`.
    """
    if arrays.tile[tile, 1] > NARROW * WORD:
        return _wide_holds(arrays, workspace, tile, at, rows)
    return _narrow_holds(arrays, workspace, tile, at, rows)
