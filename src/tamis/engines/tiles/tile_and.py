"""Finds the conjunctions of a tile that hold: the AND of one row from each of its columns.

The rows of a tile are far apart in memory, so they are prefetched while the tile before is tested.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import ALL_BITS, BYTE, EIGHT, ONE, ZERO, prefetch
from tamis.engines.tiles.arrays import (
    ABSENT_APART,
    BY_CUTS,
    BY_TEXT,
    IS_WIDE,
    MOST_POSITIONS,
    MOST_STEPS,
    NARROW,
    NEGATIVE,
    SPECIAL_APART,
    STEPS,
    WIDE,
    WORD,
)
from tamis.engines.tiles.columns import count_cuts

__all__ = [
    "HALF_BYTES",
    "count_toggles",
    "first_bits",
    "list_columns",
    "locate_listed",
    "locate_rows",
    "multivalued_tile_holds",
    "prefetch_columns",
    "tile_holds",
    "write_row",
]

_BIT = np.uint64(63)

_ROW_AT = 7
_POSITION = 31
_APART, HALF_BYTES = 32, 64
"""The parts of a place: a row; whether it stands apart; else which of its counts to use, and
whether these have four bits."""

_TWO, _THREE, _FOUR, _TOP_BYTE = np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(56)
_LOW_HALVES, _LOW_WORD = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0xFFFFFFFF)
_ONES = np.uint64(0x0101010101010101)
"""A product with this has the sum of all bytes in its top byte."""

_AHEAD = 8
"""How many columns ahead of time their cuts are prefetched."""

_LINE = 16
"""The 32-bit numbers of a cache line."""


@part
def _place(arrays, column, code):
    """The place of the row of a code that is not the ideal one."""
    kind = arrays.columns[column, 0]
    words = WIDE if kind & IS_WIDE else NARROW
    first = np.int64(arrays.columns[column, 1]) << 3
    if code == arrays.columns[column, 2]:
        return (first + words) << _ROW_AT | _APART
    if code == 0:
        before = words if kind & ABSENT_APART else 0
        before += words if kind & ABSENT_APART and kind & SPECIAL_APART else 0
        return (first + before) << _ROW_AT | _APART
    position = np.int64(code) - arrays.columns[column, 3]
    if position < 0 or position >= arrays.columns[column, 4]:
        return first << _ROW_AT | _APART
    if kind & BY_CUTS:
        position = np.int64(
            count_cuts(arrays.cut, arrays.columns[column, 5], arrays.columns[column, 6], code) - 1
        )
    first += arrays.columns[column, 7]
    steps = kind & STEPS
    if steps == 0:
        return (first + words * position) << _ROW_AT | _APART
    if steps == MOST_STEPS:
        # Unsigned, so that it is a multiplication.
        row = np.int64(np.uint64(position) // np.uint64(MOST_POSITIONS))
        within = position - MOST_POSITIONS * row
        return (first + 2 * words * row) << _ROW_AT | HALF_BYTES | within
    row = first + 2 * words * (position >> steps)
    return row << _ROW_AT | position & ((1 << steps) - 1)


@part
def count_toggles(counts, place):
    """Between which toggles a position lies: those before it, those before the middle, and all."""
    position = np.uint64(place & _POSITION)
    if place & HALF_BYTES:
        # In two shifts, since one by 64 bits is none.
        below = counts & ((ONE << _TWO * position << _TWO * position) - ONE)
        here = ((below & _LOW_HALVES) + (below >> _FOUR & _LOW_HALVES)) * _ONES
        pairs = (counts & _LOW_HALVES) + (counts >> _FOUR & _LOW_HALVES)
        # Half of the counts come before the middle.
        middle = (pairs & _LOW_WORD) * _ONES
        return (
            np.int64(here >> _TOP_BYTE),
            np.int64(middle >> _TOP_BYTE),
            np.int64(pairs * _ONES >> _TOP_BYTE),
        )
    here = counts >> (EIGHT * position) & BYTE
    return np.int64(here), np.int64(counts >> np.uint64(32) & BYTE), np.int64(counts >> _TOP_BYTE)


@part
def prefetch_columns(arrays, tile):
    """Prefetch what `list_columns` reads of a tile's columns."""
    for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0], 8):
        prefetch(arrays.ideal, np.int64(2 * column))


@part
def list_columns(arrays, code_of, workspace, tile, listed):
    """List the columns of a tile whose ideal codes the event does not have, and prefetch them.

    Returns how many columns are listed now.
    """
    # Without branches: no processor guesses which columns these are. Unsigned, so that Numba does
    # not check for negative indices.
    at = np.uint64(listed)
    for column in range(np.uint64(arrays.tile[tile, 0]), np.uint64(arrays.tile[tile + 1, 0])):
        workspace.columns[at] = column
        code = code_of[np.uint64(arrays.ideal[column, 0])]
        at += np.uint64(code != arrays.ideal[column, 1])
    for i in range(np.uint64(listed), at):
        prefetch(arrays.columns, 8 * np.int64(workspace.columns[i]))
    return np.int64(at)


@part
def _prefetch_cuts(arrays, column):
    """Prefetch the cuts of a column, if it has any."""
    if arrays.columns[column, 0] & BY_CUTS:
        first = np.int64(arrays.columns[column, 5])
        for at in range(first, first + arrays.columns[column, 6], _LINE):
            prefetch(arrays.cut, np.int64(at))


@part
def locate_listed(arrays, code_of, workspace, first, last):
    """Find and prefetch the rows of listed columns for the codes of an event's attributes.

    Indices are unsigned, so that Numba does not check for negative ones.
    """
    for i in range(first, min(first + _AHEAD, last)):
        _prefetch_cuts(arrays, workspace.columns[i])
    for i in range(np.uint64(first), np.uint64(last)):
        if i + np.uint64(_AHEAD) < np.uint64(last):
            _prefetch_cuts(arrays, np.uint64(workspace.columns[i + np.uint64(_AHEAD)]))
        column = np.uint64(workspace.columns[i])
        code = code_of[np.uint64(arrays.ideal[column, 0])]
        if arrays.columns[column, 0] & BY_TEXT:
            code = 0 if code == 0 else 1 + workspace.text[arrays.columns[column, 5]]
        place = _place(arrays, column, code)
        prefetch(arrays.bits, place >> _ROW_AT)
        workspace.place[i] = place


@part
def locate_rows(arrays, code_of, workspace, tile, at):
    """Find and prefetch the rows of one tile's columns; returns how many there are.

    Their places are in workspace.place from `at` on.
    """
    last = list_columns(arrays, code_of, workspace, tile, at)
    locate_listed(arrays, code_of, workspace, at, last)
    return last - at


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
        place = workspace.place[np.uint64(at + i)]
        row = np.uint64(place >> _ROW_AT)
        c, d = bits[row], bits[row + ONE]
        here = middle = toggles = np.int64(0)
        if place & _APART == 0:
            here, middle, toggles = count_toggles(bits[row + np.uint64(NARROW)], place)
        at_word = np.int64(row) + NARROW + 1
        if toggles > 8 * (NARROW - 1):
            at_word = np.int64(bits[at_word])
        first, last = min(here, middle), max(here, middle)
        named = ZERO
        for k in range(first, last):
            if k == first:
                named = bits[at_word + (k >> 3)] >> np.uint64(8 * (k & 7))
            elif k & 7 == 0:
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
def _toggle_word(bits, at, inside, word):
    """A word of toggles; those from `inside` on are elsewhere, where the word there says."""
    return bits[at + word] if word < inside else bits[np.int64(bits[at + inside]) + word - inside]


@part
def _wide_holds(arrays, workspace, tile, at, rows):
    """Write into workspace.hits which conjunctions of a wide tile hold; False if none does."""
    size = arrays.tile[tile, 1]
    a, b, c, d = ALL_BITS, ALL_BITS, first_bits(size - 2 * WORD), first_bits(size - 3 * WORD)
    bits, line = arrays.bits, workspace.row
    for i in range(rows):
        place = workspace.place[np.uint64(at + i)]
        row = np.uint64(place >> _ROW_AT)
        here = middle = toggles = np.int64(0)
        if place & _APART == 0:
            here, middle, toggles = count_toggles(bits[row + np.uint64(WIDE)], place)
        if here == middle:
            a &= bits[row]
            b &= bits[row + ONE]
            c &= bits[row + _TWO]
            d &= bits[row + _THREE]
        else:
            line[0] = bits[row]
            line[1] = bits[row + ONE]
            line[2] = bits[row + _TWO]
            line[3] = bits[row + _THREE]
            first, last = min(here, middle), max(here, middle)
            inside = WIDE - 2 if toggles > 8 * (WIDE - 1) else WIDE
            named = _toggle_word(bits, np.int64(row) + WIDE + 1, inside, first >> 3)
            named >>= np.uint64(8 * (first & 7))
            for k in range(first, last):
                if k & 7 == 0:
                    named = _toggle_word(bits, np.int64(row) + WIDE + 1, inside, k >> 3)
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
    if code == arrays.ideal[column, 1]:
        for word in range(words):
            row[word] = ALL_BITS
        return
    place = _place(arrays, column, code)
    at = place >> _ROW_AT
    for word in range(words):
        row[word] = arrays.bits[at + word]
    if place & _APART:
        return
    here, middle, toggles = count_toggles(arrays.bits[at + words], place)
    inside = words - 2 if toggles > 8 * (words - 1) else words
    for k in range(min(here, middle), max(here, middle)):
        named = _toggle_word(arrays.bits, at + words + 1, inside, k >> 3) >> np.uint64(8 * (k & 7))
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
        kind = arrays.columns[column, 0]
        code = workspace.code[attribute]
        if code == arrays.ideal[column, 1]:
            continue
        if kind & BY_TEXT or code >= 0:
            if kind & BY_TEXT:
                code = 0 if code == 0 else 1 + workspace.text[arrays.columns[column, 5]]
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
