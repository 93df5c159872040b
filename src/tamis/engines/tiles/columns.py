"""How the columns of tiles are made; see `ColumnArrays`.

A conjunction's atom on an attribute is a bit of a column, a negated one of another column: on a
multi-valued attribute the rows of several codes are united in the first and intersected in the
second. The position of the code ABSENT carries the meaning of absence.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import find_code
from tamis.engines.tiles.arrays import (
    BY_CUTS,
    BY_TEXT,
    NEGATIVE,
    NO_CODE,
    TEXT_HOLDS,
    WIDE,
    WORD,
    ColumnArrays,
)

__all__ = [
    "ColumnWorkspace",
    "add_columns",
    "build_columns",
    "clear_columns",
    "count_cuts",
    "mark_tileable",
    "new_column_workspace",
]

_MOST_ATOMS = 32
_MOST_CODES = 48
"""A conjunction of more atoms than the first, or with a list longer than the second, is flat."""

_ITEMS = WIDE * WORD * _MOST_ATOMS
_CHANGES = 2 * WIDE * WORD * _MOST_CODES + WIDE * WORD

_CODES_PER_CUT = 3
"""Up to how many codes to a cut are cheaper as positions than cuts are."""

_APART = 3
_SPECIAL_ROW, _ABSENT_ROW, _OTHER_ROW = range(_APART)
"""The rows of the special code, of ABSENT, and of codes at which nothing changes."""

_STEPS = 3
_MOST_TOGGLES = 255
"""A row serves up to 2 ** _STEPS positions: their counts, a byte each, are one word."""


class ColumnWorkspace(NamedTuple):
    """Where columns are worked out.

    A *selector* names what a column looks at: an attribute or a text predicate, and whether its
    atoms are negated.
    """

    column_of: NDArray[np.int32]
    """The column of each selector in the tile at hand; -1 where it has none."""
    selector: NDArray[np.int32]
    """The selector of each column."""
    end: NDArray[np.int32]
    """Where the items of each column end."""
    item: NDArray[np.int32]
    """Column, atom and bit of each atom of the tile."""
    order: NDArray[np.int32]
    """The items by column."""
    cut: NDArray[np.int32]
    change: NDArray[np.int32]
    """Position and bit of each change along a column."""
    by_position: NDArray[np.int32]
    """The bits that change, by position."""
    position_end: NDArray[np.int32]
    """Where the changes of each position end."""
    cover: NDArray[np.int32]
    """By how much each position is covered more than the one before it."""
    row: NDArray[np.uint64]
    """The rows that stand apart."""
    odd: NDArray[np.uint64]
    """The bits that change an odd number of times."""


def new_column_workspace(rules: EncodedRules) -> ColumnWorkspace:
    """An empty workspace."""
    selectors = 2 * (len(rules.dictionary.axes) + rules.texts.size)
    return ColumnWorkspace(
        np.full(selectors, -1, np.int32),
        np.empty(_ITEMS, np.int32),
        np.empty(_ITEMS + 1, np.int32),
        np.empty((_ITEMS, 3), np.int32),
        np.empty(_ITEMS, np.int32),
        np.empty(_CHANGES + 1, np.int32),
        np.empty((_CHANGES, 2), np.int32),
        np.empty(_CHANGES, np.int32),
        np.empty(_CODES_PER_CUT * _CHANGES + 3, np.int32),
        np.empty(_CODES_PER_CUT * _CHANGES + 3, np.int32),
        np.empty((_APART, WIDE), np.uint64),
        np.empty(WIDE, np.uint64),
    )


@kernel
def _selector(table, attributes, atom):
    test = table[atom, 1]
    subject = attributes + table[atom, 2] if test & 3 == TEXT else table[atom, 0]
    return 2 * subject + (1 if test & NEGATED else 0)


@kernel
def mark_tileable(table, attributes, start, conjunction_atom, result):
    """Mark the conjunctions that may stand in a tile: those with one atom a column at most.

    On a multi-valued attribute each of two positive atoms may look at another value.
    """
    for conjunction in range(len(start) - 1):
        begin, end = start[conjunction], start[conjunction + 1]
        fits = end - begin <= _MOST_ATOMS
        for i in range(begin, end if fits else begin):
            atom = conjunction_atom[i]
            if table[atom, 1] & 3 == SET and table[atom, 3] - table[atom, 2] > _MOST_CODES:
                fits = False
            selector = _selector(table, attributes, atom)
            for j in range(begin, i):
                if selector == _selector(table, attributes, conjunction_atom[j]):
                    fits = False
        result[conjunction] = fits


@kernel
def add_columns(
    table, attributes, start, conjunction_atom, conjunction, key_atom, workspace, columns
):
    """Give the atoms of a conjunction columns; returns how many there are by now."""
    for i in range(start[conjunction], start[conjunction + 1]):
        atom = conjunction_atom[i]
        if atom != key_atom:
            selector = _selector(table, attributes, atom)
            if workspace.column_of[selector] < 0:
                workspace.column_of[selector] = columns
                workspace.selector[columns] = selector
                columns += 1
    return columns


@kernel
def clear_columns(workspace, columns):
    """Take the columns off the workspace."""
    for column in range(columns):
        workspace.column_of[workspace.selector[column]] = -1


@kernel
def _list_items(table, attributes, start, conjunction_atom, candidates, key_atoms, workspace):
    """Put the items of a tile on the workspace, by column; returns how many columns there are."""
    columns = 0
    items = 0
    for bit in range(len(candidates)):
        conjunction = candidates[bit]
        columns = add_columns(
            table,
            attributes,
            start,
            conjunction_atom,
            conjunction,
            key_atoms[bit],
            workspace,
            columns,
        )
        for i in range(start[conjunction], start[conjunction + 1]):
            atom = conjunction_atom[i]
            if atom != key_atoms[bit]:
                workspace.item[items, 0] = workspace.column_of[_selector(table, attributes, atom)]
                workspace.item[items, 1] = atom
                workspace.item[items, 2] = bit
                items += 1
    for column in range(columns + 1):
        workspace.end[column] = 0
    for i in range(items):
        workspace.end[workspace.item[i, 0] + 1] += 1
    for column in range(columns):
        workspace.end[column + 1] += workspace.end[column]
    for i in range(items):
        column = workspace.item[i, 0]
        workspace.order[workspace.end[column]] = i
        workspace.end[column] += 1
    clear_columns(workspace, columns)
    return columns


@kernel
def _sort(items, size):
    """Sort the first items in place and drop repetitions; returns how many are left."""
    step = size // 2
    while step > 0:
        for i in range(step, size):
            item = items[i]
            at = i
            while at >= step and items[at - step] > item:
                items[at] = items[at - step]
                at -= step
            items[at] = item
        step = 1 if step == 2 else (5 * step) // 11
    kept = 0
    for i in range(size):
        if kept == 0 or items[i] != items[kept - 1]:
            items[kept] = items[i]
            kept += 1
    return kept


@kernel
def _is_presence(table, sizes, atom):
    """Whether every code but ABSENT satisfies the positive form of an atom."""
    return (
        table[atom, 1] & 3 == RANGE
        and table[atom, 2] == 1
        and table[atom, 3] == sizes[table[atom, 0]] - 1
    )


@kernel
def _find_cuts(table, codes, sizes, workspace, begin, end):
    """Write the codes where a column changes, rising; returns how many."""
    cuts = 0
    for i in range(begin, end):
        atom = workspace.item[workspace.order[i], 1]
        low, high = table[atom, 2], table[atom, 3]
        if table[atom, 1] & 3 == SET:
            for k in range(low, high):
                workspace.cut[cuts] = codes[k]
                workspace.cut[cuts + 1] = codes[k] + 1
                cuts += 2
        elif low <= high and not _is_presence(table, sizes, atom):
            workspace.cut[cuts] = low
            workspace.cut[cuts + 1] = high + 1
            cuts += 2
    return _sort(workspace.cut, cuts)


@kernel
def count_cuts(cut, begin, count, code):
    """The position of `code` in a column with cuts."""
    low, high = begin, begin + count
    while low < high:
        middle = (low + high) >> 1
        if cut[middle] <= code:
            low = middle + 1
        else:
            high = middle
    return low - begin


@kernel
def _position(workspace, cuts, low, code):
    """The position of a code from the column's lowest cut on."""
    return code - low if cuts < 0 else count_cuts(workspace.cut, 0, cuts, code) - 1


@kernel
def _note_run(workspace, changes, cuts, first, low, high, bit):
    """Note that a bit changes at the codes `low` and `high` + 1; returns how many changes."""
    workspace.change[changes, 0] = _position(workspace, cuts, first, low)
    workspace.change[changes + 1, 0] = _position(workspace, cuts, first, high + 1)
    workspace.change[changes, 1] = bit
    workspace.change[changes + 1, 1] = bit
    return changes + 2


@kernel
def _find_special(table, codes, sizes, workspace, begin, end, cuts, low, positions):
    """The code that satisfies most atoms of a column; NO_CODE where none stands by itself."""
    for position in range(positions + 1):
        workspace.cover[position] = 0
    for i in range(begin, end):
        atom = workspace.item[workspace.order[i], 1]
        first, last = table[atom, 2], table[atom, 3]
        if table[atom, 1] & 3 == SET:
            for k in range(first, last):
                workspace.cover[_position(workspace, cuts, low, codes[k])] += 1
                workspace.cover[_position(workspace, cuts, low, codes[k] + 1)] -= 1
        elif first <= last and not _is_presence(table, sizes, atom):
            workspace.cover[_position(workspace, cuts, low, first)] += 1
            workspace.cover[_position(workspace, cuts, low, last + 1)] -= 1
    special = NO_CODE
    covered = 0
    most = 0
    for position in range(positions):
        covered += workspace.cover[position]
        code = low + position if cuts < 0 else workspace.cut[position]
        if covered > most and (cuts < 0 or workspace.cut[position + 1] == code + 1):
            most = covered
            special = code
    return special


@kernel
def _find_changes(table, codes, sizes, workspace, begin, end, cuts, low, special):
    """Write the rows that stand apart, and all changes along the positions; returns how many."""
    for word in range(WIDE):
        for row in range(_APART):
            workspace.row[row, word] = ~np.uint64(0)
    changes = 0
    for i in range(begin, end):
        atom, bit = workspace.item[workspace.order[i], 1], workspace.item[workspace.order[i], 2]
        test = table[atom, 1]
        first, last = table[atom, 2], table[atom, 3]
        mask = ~(np.uint64(1) << np.uint64(bit & 63))
        presence = _is_presence(table, sizes, atom)
        if test & IF_ABSENT == 0:
            workspace.row[_ABSENT_ROW, bit >> 6] &= mask
        if (test & NEGATED != 0) == presence:
            workspace.row[_OTHER_ROW, bit >> 6] &= mask
        if special != NO_CODE and not _code_satisfies(table, codes, atom, special):
            workspace.row[_SPECIAL_ROW, bit >> 6] &= mask
        if test & 3 == TEXT:
            changes = _note_run(workspace, changes, cuts, low, TEXT_HOLDS, TEXT_HOLDS, bit)
        elif test & 3 == SET:
            for k in range(first, last):
                changes = _note_run(workspace, changes, cuts, low, codes[k], codes[k], bit)
        elif first <= last and not presence:
            changes = _note_run(workspace, changes, cuts, low, first, last, bit)
    return changes


@kernel
def _skip_special(workspace, changes, place):
    """Let what changes at the special code's position change after it: its row stands apart.

    What changes there and back again does not change at all. Returns how many changes are left.
    """
    for word in range(WIDE):
        workspace.odd[word] = np.uint64(0)
    kept = 0
    for i in range(changes):
        position, bit = workspace.change[i, 0], workspace.change[i, 1]
        if position == place or position == place + 1:
            workspace.odd[bit >> 6] ^= np.uint64(1) << np.uint64(bit & 63)
        else:
            workspace.change[kept, 0], workspace.change[kept, 1] = position, bit
            kept += 1
    for bit in range(WIDE * WORD):
        if workspace.odd[bit >> 6] >> np.uint64(bit & 63) & np.uint64(1):
            workspace.change[kept, 0], workspace.change[kept, 1] = place + 1, bit
            kept += 1
    return kept


@kernel
def _code_satisfies(table, codes, atom, code):
    """Whether a code that is not ABSENT satisfies an atom that is no text predicate."""
    test = table[atom, 1]
    low, high = table[atom, 2], table[atom, 3]
    if test & 3 == SET:
        return (find_code(codes, low, high, code) >= 0) != (test & NEGATED != 0)
    return (low <= code <= high) != (test & NEGATED != 0)


@kernel
def _order_changes(workspace, changes, positions):
    """Sort the changes by position; those behind the last position are dropped."""
    for position in range(positions + 1):
        workspace.position_end[position] = 0
    for i in range(changes):
        if workspace.change[i, 0] < positions:
            workspace.position_end[workspace.change[i, 0] + 1] += 1
    for position in range(positions):
        workspace.position_end[position + 1] += workspace.position_end[position]
    for i in range(changes):
        position = workspace.change[i, 0]
        if position < positions:
            workspace.by_position[workspace.position_end[position]] = workspace.change[i, 1]
            workspace.position_end[position] += 1


@kernel
def _plan_rows(workspace, positions, words):
    """How many positions a row serves, as a power of two, and how many words the rows take.

    Toggles that do not fit behind a row stand behind all rows.
    """
    for steps in range(_STEPS, -1, -1):
        size = 1 << steps
        rows = _APART
        spill = 0
        most = 0
        for first in range(0, positions, size):
            toggles = _count_toggles(workspace, positions, first, size)
            rows += 1
            most = max(most, toggles)
            if toggles > 8 * (words - 1):
                spill += (toggles + 7) >> 3
        if most <= _MOST_TOGGLES:
            return steps, 2 * words * rows + spill
    return 0, 0


@kernel
def _count_toggles(workspace, positions, first, size):
    """How many bits change at the positions of a row after its first."""
    last = min(first + size, positions) - 1
    return workspace.position_end[last] - workspace.position_end[first]


@kernel
def _write_rows(workspace, positions, steps, words, out, begin, end):
    """Write a column's rows: those that stand apart, and one for each 2 ** steps positions."""
    stride = 2 * words
    out[begin:end] = np.uint64(0)
    for row in range(_APART):
        for word in range(words):
            out[begin + stride * row + word] = workspace.row[row, word]
    at = begin + stride * _APART
    spill = at + stride * ((positions + (1 << steps) - 1) >> steps)
    change = 0
    for first in range(0, positions, 1 << steps):
        toggles = _count_toggles(workspace, positions, first, 1 << steps)
        named_at = at + words + 1
        if toggles > 8 * (words - 1):
            out[named_at] = np.uint64(spill)
            named_at = spill
            spill += (toggles + 7) >> 3
        named = 0
        for step in range(8):
            position = min(first + step, positions - 1)
            while change < workspace.position_end[position] and step < (1 << steps):
                bit = workspace.by_position[change]
                workspace.row[_OTHER_ROW, bit >> 6] ^= np.uint64(1) << np.uint64(bit & 63)
                if step:
                    out[named_at + (named >> 3)] |= np.uint64(bit) << np.uint64(8 * (named & 7))
                    named += 1
                change += 1
            if step == 0:
                for word in range(words):
                    out[at + word] = workspace.row[_OTHER_ROW, word]
            out[at + words] |= np.uint64(named) << np.uint64(8 * step)
        at += stride


@kernel
def _build(
    table, codes, attributes, sizes, start, conjunction_atom, tiles, filed, workspace, at, out
):
    """Write the columns of all tiles, or count what they take where there is no room."""
    candidates, key_atoms = filed
    room = len(out.bits) > 0
    written = 0
    for tile in range(len(tiles) - 1):
        first, size, words = tiles[tile, 0], tiles[tile, 1], tiles[tile, 2]
        columns = _list_items(
            table,
            attributes,
            start,
            conjunction_atom,
            candidates[first : first + size],
            key_atoms[first : first + size],
            workspace,
        )
        tiles[tile, 3] = written
        begin = 0
        for column in range(columns):
            end = workspace.end[column]
            subject = workspace.selector[column] >> 1
            is_text = subject >= attributes
            attribute = table[workspace.item[workspace.order[begin], 1], 0]
            cuts = -1
            low = TEXT_HOLDS
            span = 1
            if not is_text:
                cuts = _find_cuts(table, codes, sizes, workspace, begin, end)
                low = workspace.cut[0] if cuts else 1
                span = workspace.cut[cuts - 1] - low if cuts else 0
            positions = max(cuts - 1, 0)
            if span <= _CODES_PER_CUT * positions or is_text:
                cuts = -1
                positions = span
            special = NO_CODE
            if not is_text:
                special = _find_special(
                    table, codes, sizes, workspace, begin, end, cuts, low, positions
                )
            changes = _find_changes(table, codes, sizes, workspace, begin, end, cuts, low, special)
            if special != NO_CODE:
                changes = _skip_special(
                    workspace, changes, _position(workspace, cuts, low, special)
                )
            _order_changes(workspace, changes, positions)
            steps, size = _plan_rows(workspace, positions, words)
            if room:
                kind = steps | (NEGATIVE if workspace.selector[column] & 1 else 0)
                if is_text:
                    kind |= BY_TEXT
                if cuts >= 0:
                    kind |= BY_CUTS
                row = out.column[written]
                row[0], row[1], row[2] = attribute, kind, at[1] // 8
                row[3], row[4], row[5] = special, low, span
                row = out.lookup[written]
                row[0], row[1] = at[0], cuts
                if is_text:
                    row[0] = subject - attributes
                for i in range(cuts):
                    out.cut[at[0] + i] = workspace.cut[i]
                _write_rows(workspace, positions, steps, words, out.bits, at[1], at[1] + size)
            at[0] += max(cuts, 0)
            at[1] += -(-size // 8) * 8
            written += 1
            begin = end
    tiles[len(tiles) - 1, 3] = written
    return written


def build_columns(
    rules: EncodedRules,
    tiles: NDArray[np.int64],
    candidates: NDArray[np.int32],
    key_atoms: NDArray[np.int32],
) -> ColumnArrays:
    """The columns of tiles.

    `tiles` has a row for each tile, and one more: where its candidates begin, how many they are,
    how many words its rows have, and a place for where its columns begin.
    """
    sizes = np.diff(rules.dictionary.base)
    forms = rules.forms
    at = np.zeros(2, np.int64)
    columns = 0
    out = _allocate(0, at)
    for _ in ("count", "write"):
        out = _allocate(columns, at)
        at[:] = 0
        columns = _build(
            *rules.atoms,
            len(sizes),
            sizes,
            forms.conjunction_start,
            forms.conjunction_atom,
            tiles,
            (candidates, key_atoms),
            new_column_workspace(rules),
            at,
            out,
        )
    return out


def _allocate(columns: int, at: NDArray[np.int64]) -> ColumnArrays:
    cuts, words = at.tolist()
    return ColumnArrays(
        np.empty((columns, 6), np.int32),
        np.empty((columns, 2), np.int32),
        np.empty(cuts, np.int32),
        _aligned_words(words),
    )


def _aligned_words(size: int) -> NDArray[np.uint64]:
    """Room for words that begins where a line of memory does."""
    room = np.empty(size + 7, np.uint64)
    first = -room.ctypes.data // 8 % 8
    return room[first : first + size]
