"""Builds the columns of tiles; see `ColumnArrays`.

The positive atoms of a tile on one attribute share a column, and its negated atoms share another:
where an event has several values, the rows of their codes are united in the first and intersected
in the second. A row of its own tells what holds where the attribute is absent.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT
from tamis.encode.kernel import kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import find_code
from tamis.engines.tiles.arrays import (
    ABSENT_APART,
    BY_CUTS,
    BY_TEXT,
    IS_WIDE,
    MOST_POSITIONS,
    MOST_STEPS,
    NEGATIVE,
    NO_CODE,
    SPECIAL_APART,
    STEPS,
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
    "count_apart",
    "count_cuts",
    "mark_tileable",
    "new_column_workspace",
    "positions_of",
]

_MOST_ATOMS = 32
_MOST_CODES = 48
"""A conjunction with more atoms, or with a longer list of codes, stays flat."""

_ITEMS = WIDE * WORD * _MOST_ATOMS
_CHANGES = 2 * WIDE * WORD * _MOST_CODES + WIDE * WORD

_CODES_PER_CUT = 3
"""With up to this many codes for each cut, each code gets its own position."""

_APART = 3
_OTHER_ROW, _SPECIAL_ROW, _ABSENT_ROW = range(_APART)
"""The rows of codes outside of the cuts, of the special code, and of absence."""

_LEAST_WORDS: Final = 1 << 14
"""The least room for columns, in words."""

_MOST_TOGGLES = 255
_MOST_AT_ONCE = 15
"""The most toggles of a row, and between two positions of a row that serves the most positions."""


class ColumnWorkspace(NamedTuple):
    """Working memory to build columns.

    A *selector* names what a column tests: an attribute or a text predicate, and whether its atoms
    are negated.
    """

    column_of: NDArray[np.int32]
    """The column of each selector in the current tile, or -1."""
    selector: NDArray[np.int32]
    """The selector of each column."""
    end: NDArray[np.int32]
    """Where the items of each column end in `order`."""
    item: NDArray[np.int32]
    """The column, atom and bit of each atom of the tile."""
    order: NDArray[np.int32]
    """The items by column."""
    cut: NDArray[np.int32]
    change: NDArray[np.int32]
    """The position and bit of each change along a column."""
    by_position: NDArray[np.int32]
    """The bits that change, sorted by position."""
    position_end: NDArray[np.int32]
    """Where the changes of each position end in `by_position`."""
    cover: NDArray[np.int32]
    """How many more atoms cover each position than the one before it."""
    row: NDArray[np.uint64]
    """The rows that stand apart."""
    odd: NDArray[np.uint64]
    """The bits that change an odd number of times."""


def new_column_workspace(rules: EncodedRules) -> ColumnWorkspace:
    """Allocate an empty workspace."""
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
    """Mark the conjunctions that may stand in a tile: those with at most one atom for each column.

    On a multi-valued attribute, two positive atoms may be satisfied by different values.
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
    """Assign columns to the atoms of a conjunction; returns how many columns there are now."""
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
    """Forget the columns of the current tile."""
    for column in range(columns):
        workspace.column_of[workspace.selector[column]] = -1


@kernel
def _list_items(table, attributes, start, conjunction_atom, candidates, key_atoms, workspace):
    """List the items of a tile by column; returns how many columns there are."""
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
    """Sort the first `size` items in place without duplicates; returns how many are left."""
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
    """Whether every code of a value satisfies the positive form of an atom."""
    return (
        table[atom, 1] & 3 == RANGE
        and table[atom, 2] == 1
        and table[atom, 3] == sizes[table[atom, 0]] - 1
    )


@kernel
def _find_cuts(table, codes, sizes, workspace, begin, end):
    """Write the codes where a column changes, in rising order; returns how many there are."""
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
    """How many of the rising cut[begin:begin + count] are not above `code`."""
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
    """The position of a code that is not below the column's lowest cut."""
    return code - low if cuts < 0 else count_cuts(workspace.cut, 0, cuts, code) - 1


@kernel
def _note_run(workspace, changes, cuts, first, low, high, bit):
    """Record that a bit changes at the codes `low` and `high` + 1; returns the count of changes."""
    workspace.change[changes, 0] = _position(workspace, cuts, first, low)
    workspace.change[changes + 1, 0] = _position(workspace, cuts, first, high + 1)
    workspace.change[changes, 1] = bit
    workspace.change[changes + 1, 1] = bit
    return changes + 2


@kernel
def _find_special(table, codes, sizes, workspace, begin, end, cuts, low, positions):
    """The code that satisfies most atoms of a column; NO_CODE if no code has its own position."""
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
    """Write the rows that stand apart and all changes; returns how many changes there are."""
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
def _find_ideal(workspace, special):
    """The special code if it satisfies all conjunctions, else 0 if absence does, else NO_CODE."""
    of_special = ~np.uint64(0)
    of_absence = ~np.uint64(0)
    for word in range(WIDE):
        of_special &= workspace.row[_SPECIAL_ROW, word]
        of_absence &= workspace.row[_ABSENT_ROW, word]
    if special != NO_CODE and of_special == ~np.uint64(0):
        return special
    return 0 if of_absence == ~np.uint64(0) else NO_CODE


@kernel
def _find_apart(workspace, special, ideal):
    """The flags of a column for its rows that stand apart."""
    kind = SPECIAL_APART if special not in (NO_CODE, ideal) else 0
    differs = False
    for word in range(WIDE):
        differs |= workspace.row[_ABSENT_ROW, word] != workspace.row[_OTHER_ROW, word]
    return kind | (ABSENT_APART if differs and ideal != 0 else 0)


@part
def count_apart(kind, words):
    """How many words stand apart in a column; a multiple of the words in a row of positions."""
    rows = _rows_apart(kind)
    return 2 * words * ((rows + 1) >> 1) if kind & STEPS else words * rows


@part
def positions_of(steps):
    """How many positions a row serves: a power of two, or one more than a word has counts."""
    return MOST_POSITIONS if steps == MOST_STEPS else 1 << steps


@part
def _rows_apart(kind):
    """How many rows of a column stand apart."""
    return 1 + (1 if kind & SPECIAL_APART else 0) + (1 if kind & ABSENT_APART else 0)


@kernel
def _skip_special(workspace, changes, place):
    """Move the changes at the special code's position to the next one, since its row stands apart.

    A bit that changes there and back does not change at all. Returns how many changes are left.
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
    """Whether the code of a value satisfies an atom that is not a text predicate."""
    test = table[atom, 1]
    low, high = table[atom, 2], table[atom, 3]
    if test & 3 == SET:
        return (find_code(codes, low, high, code) >= 0) != (test & NEGATED != 0)
    return (low <= code <= high) != (test & NEGATED != 0)


@kernel
def _order_changes(workspace, changes, positions):
    """Sort the changes by position, and drop those past the last position."""
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
def _plan_rows(workspace, positions, words, free):
    """Which of the rows that `positions_of` describes take the fewest words, and how many words.

    Toggles that do not fit into their row are stored after all rows, unless the `free` words before
    them are enough.
    """
    most_at_once = 0
    for position in range(1, positions):
        most_at_once = max(most_at_once, _count_toggles(workspace, positions, position - 1, 2))
    # Rows that serve one position have no toggles, and half as many words.
    best_steps, least = 0, words * positions - free
    for steps in range(MOST_STEPS if most_at_once <= _MOST_AT_ONCE else MOST_STEPS - 1, 0, -1):
        size = positions_of(steps)
        total = 0
        left = free
        most = 0
        for first in range(0, positions, size):
            toggles = _count_toggles(workspace, positions, first, size)
            most = max(most, toggles)
            spill = _count_spilled(toggles, words)
            is_before = spill <= left
            left -= spill if is_before else 0
            total += 2 * words + (0 if is_before else spill)
        if most <= _MOST_TOGGLES and total < least:
            best_steps, least = steps, total
    return best_steps, least


@part
def _count_spilled(toggles, words):
    """How many words of toggles do not fit into a row."""
    return (toggles + 7 - 8 * (words - 2)) >> 3 if toggles > 8 * (words - 1) else 0


@kernel
def _count_toggles(workspace, positions, first, size):
    """How many bits change within a row, after its first position."""
    last = min(first + size, positions) - 1
    return workspace.position_end[last] - workspace.position_end[first]


@kernel
def _write_rows(workspace, positions, kind, words, out, begin, end):
    """Write the rows of a column: those that stand apart, then those of positions."""
    steps = kind & STEPS
    size = positions_of(steps)
    # Counts of four bits are those between two positions, bytes those up to a position.
    bits = np.int64(4 if steps == MOST_STEPS else 8)
    middle = 32 // bits
    stride = 2 * words if steps else words
    out[begin:end] = np.uint64(0)
    at = begin
    for row in range(_APART):
        is_stored = row == _OTHER_ROW
        is_stored |= row == _SPECIAL_ROW and kind & SPECIAL_APART != 0
        is_stored |= row == _ABSENT_ROW and kind & ABSENT_APART != 0
        if is_stored:
            for word in range(words):
                out[at + word] = workspace.row[row, word]
            at += words
    free, at = at, begin + count_apart(kind, words)
    left = at - free
    spill = at + stride * ((positions + size - 1) // size)
    change = 0
    for first in range(0, positions, size):
        needed = _count_spilled(_count_toggles(workspace, positions, first, size), words)
        rest = spill
        if needed <= left:
            rest = free
            free += needed
            left -= needed
        else:
            spill += needed
        inside = words - 1
        if needed:
            inside -= 1
            out[at + words + 1 + inside] = np.uint64(rest)
        named = 0
        for step in range(max(8, size)):
            position = min(first + step, positions - 1)
            before = named
            while change < workspace.position_end[position] and step < size:
                bit = workspace.by_position[change]
                workspace.row[_OTHER_ROW, bit >> 6] ^= np.uint64(1) << np.uint64(bit & 63)
                if step:
                    word = named >> 3
                    to = at + words + 1 + word if word < inside else rest + word - inside
                    out[to] |= np.uint64(bit) << np.uint64(8 * (named & 7))
                    named += 1
                change += 1
            if step == middle:
                for word in range(words):
                    out[at + word] = workspace.row[_OTHER_ROW, word]
            if steps == MOST_STEPS and step:
                out[at + words] |= np.uint64(named - before) << np.uint64(bits * (step - 1))
            elif 0 < steps < MOST_STEPS:
                out[at + words] |= np.uint64(named) << np.uint64(bits * step)
        at += stride


@kernel
def _build(
    table, codes, attributes, sizes, start, conjunction_atom, tiles, tile, filed, workspace, at, out
):
    """Write the columns of the tiles from `tile` on, after the at[0] columns that are there.

    Stops at a tile whose columns, cuts or rows do not fit into `out`, and returns its number; `at`
    then has how many columns, cuts and words are there. For every tile, that of one more returns.
    """
    candidates, key_atoms = filed
    while tile < len(tiles) - 1:
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
        written, cuts_before, words_before = at[0], at[1], at[2]
        tiles[tile, 3] = written
        fits = written + columns <= len(out.columns)
        begin = 0
        for column in range(columns if fits else 0):
            end = workspace.end[column]
            fits = _write_column(
                table, codes, attributes, sizes, workspace, column, begin, end, words, at, out
            )
            if not fits:
                break
            begin = end
        if not fits:
            at[0], at[1], at[2] = written, cuts_before, words_before
            return tile
        tile += 1
    tiles[tile, 3] = at[0]
    return tile


@kernel
def _write_column(table, codes, attributes, sizes, workspace, column, begin, end, words, at, out):
    """Write a column, whose items are those from `begin` to `end`; returns whether it fits."""
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
        special = _find_special(table, codes, sizes, workspace, begin, end, cuts, low, positions)
    changes = _find_changes(table, codes, sizes, workspace, begin, end, cuts, low, special)
    if special != NO_CODE:
        changes = _skip_special(workspace, changes, _position(workspace, cuts, low, special))
    _order_changes(workspace, changes, positions)
    ideal = NO_CODE if is_text else _find_ideal(workspace, special)
    kind = _find_apart(workspace, special, ideal)
    free = words * (_rows_apart(kind) & 1)
    steps, size = _plan_rows(workspace, positions, words, free)
    kind |= steps
    kind |= NEGATIVE if workspace.selector[column] & 1 else 0
    kind |= BY_TEXT if is_text else 0
    kind |= BY_CUTS if cuts >= 0 else 0
    kind |= IS_WIDE if words == WIDE else 0
    # Rows without toggles need no words that are free.
    size += words * _rows_apart(kind) + free
    cut_end, word_end = at[1] + max(cuts, 0), at[2] + -(-size // 8) * 8
    if cut_end > len(out.cut) or word_end > len(out.bits):
        return False
    row = out.ideal[at[0]]
    row[0], row[1] = attribute, ideal
    row = out.columns[at[0]]
    row[0], row[1] = kind, at[2] // 8
    row[2], row[3], row[4] = special, low, span
    row[5], row[6] = subject - attributes if is_text else at[1], cuts
    row[7] = count_apart(kind, words)
    for i in range(cuts):
        out.cut[at[1] + i] = workspace.cut[i]
    _write_rows(workspace, positions, kind, words, out.bits, at[2], at[2] + size)
    out.bits[at[2] + size : word_end] = np.uint64(0)
    at[0] += 1
    at[1], at[2] = cut_end, word_end
    return True


def build_columns(
    rules: EncodedRules,
    tiles: NDArray[np.int64],
    candidates: NDArray[np.int32],
    key_atoms: NDArray[np.int32],
) -> ColumnArrays:
    """Build the columns of tiles.

    `tiles` has a row for each tile, plus one: where its candidates begin, how many there are, how
    many words its rows have, and where its columns begin, which is written here.
    """
    sizes = np.diff(rules.dictionary.base)
    forms = rules.forms
    at = np.zeros(3, np.int64)
    workspace = new_column_workspace(rules)
    # What is never written to takes no memory, so there may be more room than columns need.
    out = _allocate(*_room_for(8 * len(candidates)))
    tile = 0
    while True:
        tile = _build(
            *rules.atoms,
            len(sizes),
            sizes,
            forms.conjunction_start,
            forms.conjunction_atom,
            tiles,
            tile,
            (candidates, key_atoms),
            workspace,
            at,
            out,
        )
        if tile >= len(tiles) - 1:
            return _copy(out, at, *at.tolist())
        out = _copy(out, at, *_room_for(2 * len(out.bits)))


def _room_for(words: int) -> tuple[int, int, int]:
    """As many columns, cuts and words as there is room for."""
    words = max(words, _LEAST_WORDS)
    return words // 8, words // 4, words


def _copy(
    out: ColumnArrays, at: NDArray[np.int64], columns: int, cuts: int, words: int
) -> ColumnArrays:
    """A copy of the columns that were written, with this much room."""
    copied = _allocate(columns, cuts, words)
    sizes = at[[0, 0, 1, 2]].tolist()
    for field, size in zip(ColumnArrays._fields, sizes, strict=True):
        getattr(copied, field)[:size] = getattr(out, field)[:size]
    return copied


def _allocate(columns: int, cuts: int, words: int) -> ColumnArrays:
    return ColumnArrays(
        np.empty((columns, 2), np.int32),
        np.empty((columns, 8), np.int32),
        np.empty(cuts, np.int32),
        _allocate_words(words),
    )


def _allocate_words(size: int) -> NDArray[np.uint64]:
    """Allocate words that begin at a cache line."""
    room = np.empty(size + 7, np.uint64)
    first = -room.ctypes.data // 8 % 8
    return room[first : first + size]
