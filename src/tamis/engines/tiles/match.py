"""The kernels that match one event after another.

An event is matched in four steps, each of which prefetches what the next one reads: its keys lead
to groups, the signatures of a group's entries to those worth testing, then tiles are tested, and
then entries. Rules that match are listed by their ages, either as they are found, or through a set
of marks (`tamis.engines.kernels.marks`), which lists them in order and each of them once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import (
    ALL_BITS,
    ONE,
    count_bits,
    count_zeros_below,
    lowest_bit,
    prefetch,
    without_lowest_bit,
)
from tamis.engines.kernels.marks import SLACK, count_marked, list_marked, mark
from tamis.engines.tiles.arrays import MOST_COLUMNS, NARROW, WIDE, WORD
from tamis.engines.tiles.flat_groups import (
    COUNT_MASK,
    HAS_MORE,
    HAS_TILES,
    HOMES_AT,
    KINDS_AT,
    MOST_ENTRIES,
    OFFSET_MASK,
    entry_holds,
    read_widths,
)
from tamis.engines.tiles.groups import clear_visited, list_groups, prefetch_heads
from tamis.engines.tiles.lanes import SIGNATURE_LANES, find_fitting
from tamis.engines.tiles.tile_and import (
    list_columns,
    locate_listed,
    multivalued_tile_holds,
    prefetch_columns,
    tile_holds,
)
from tamis.engines.tiles.workspace import (
    ENTRY_AT,
    KINDS_MASK,
    load_event,
    read_ages,
    read_atoms,
    read_forms,
    read_tiles,
    read_workspace,
    unload_event,
)

__all__ = [
    "COUNT",
    "IN_ORDER",
    "LIST",
    "mark_conjunction",
    "mark_rule",
    "match_event",
    "match_rows",
]

LIST, COUNT, IN_ORDER, _MARK = range(4)
"""What is wanted: the ages of rules in any order, rising, or only their number; or the rules are
only to be marked."""

_ENTRY_WORDS = 9
"""The second prefetch of an entry comes so many words after the first."""

_LINE = 16
"""The 32-bit numbers of a cache line."""

_BIT = np.uint64(WORD - 1)
_UNROLLED = 4
"""So many rules of a word of hits are listed at once."""


# --- Rules that match ---


@part
def mark_rule(age, workspace, mask, rule):
    """Mark a rule as found."""
    if len(mask) == 0 or mask[rule]:
        mark(workspace.marks, workspace.lines, np.uint64(age[rule]))


@part
def mark_conjunction(forms, age, workspace, mask, conjunction):
    """Mark the rules of a conjunction."""
    if len(forms.owner) == 0:
        mark_rule(age, workspace, mask, conjunction)
    else:
        for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
            mark_rule(age, workspace, mask, np.int64(forms.owner[i]))


@part
def _list_rule(age, mask, rule, out, found):
    """Append the age of a rule; returns how many there are now.

    There is always room, except in an index that someone has tampered with.
    """
    if (len(mask) and not mask[rule]) or found + SLACK >= len(out):
        return found
    out[found] = age[rule]
    return found + 1


@part
def _list_run(age, word, first, out, found):
    """Append the ages of the rules first + i for each bit i of a word.

    Up to SLACK items after these are overwritten.
    """
    # Unsigned, so that Numba does not check for negative indices, and copies whole vectors.
    at, begin = np.uint64(found), np.uint64(first)
    end = found + np.int64(count_bits(word))
    if word == ALL_BITS:
        for i in range(WORD):
            out[at + np.uint64(i)] = age[begin + np.uint64(i)]
        return end
    while word:
        for k in range(_UNROLLED):
            out[at + np.uint64(k)] = age[begin + (count_zeros_below(word) & _BIT)]
            word = without_lowest_bit(word)
        at += np.uint64(_UNROLLED)
    return end


@part
def _mark_run(age, workspace, word, first):
    """Mark the rules first + i for each bit i of a word."""
    begin = np.uint64(first)
    if word == ALL_BITS:
        for i in range(WORD):
            mark(workspace.marks, workspace.lines, np.uint64(age[begin + np.uint64(i)]))
        return
    while word:
        mark(workspace.marks, workspace.lines, np.uint64(age[begin + lowest_bit(word)]))
        word = without_lowest_bit(word)


@part
def _take_tile(arrays, forms, age, workspace, tile, use_marks, wanted, mask, out, found):
    """List, mark or count the rules of the hits in a tile; returns how many are listed now."""
    size, first = arrays.tile[tile, 1], np.int64(arrays.tile[tile, 2])
    homes, others = np.int64(arrays.tile[tile, 3]), np.int64(arrays.tile[tile, 4])
    # Each conjunction of the run is a rule, and all rules are considered.
    is_plain = len(mask) == 0 and len(forms.owner) == 0
    for word in range(WIDE if size > NARROW * WORD else NARROW):
        hits = workspace.hits[word]
        in_run = is_plain and WORD * word + WORD <= homes
        if use_marks and in_run:
            _mark_run(age, workspace, hits, first + WORD * word)
        elif use_marks:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                hits &= hits - ONE
                rule = first + bit
                if bit >= homes:
                    rule = np.int64(arrays.member[others + bit - homes])
                mark_conjunction(forms, age, workspace, mask, rule)
        elif wanted == COUNT and len(mask) == 0:
            found += np.int64(count_bits(hits))
        elif in_run and found + 2 * SLACK <= len(out):
            found = _list_run(age, hits, first + WORD * word, out, found)
        else:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                hits &= hits - ONE
                rule = first + bit
                if bit >= homes:
                    rule = np.int64(arrays.member[others + bit - homes])
                found = _list_rule(age, mask, rule, out, found)
    return found


# --- Tiles ---


@part
def _prefetch_ages(arrays, age, tile):
    """Prefetch the ages of a tile's rules."""
    first = np.int64(arrays.tile[tile, 2])
    for place in range(first, first + arrays.tile[tile, 3], _LINE):
        prefetch(age, np.int64(place))


@part
def _match_tiles(
    arrays, forms, age, workspace, event_code, step, several, tiles, use_marks, wanted, mask,
    out, found,
):  # fmt: skip
    """Find the rules of the listed tiles; returns how many are listed now.

    Some tiles at a time: first their columns, then the rows of these, then their conjunctions.
    """
    for i in range(tiles):
        prefetch_columns(arrays, workspace.tiles[i])
    if several:
        for i in range(tiles):
            tile = workspace.tiles[i]
            if multivalued_tile_holds(arrays, event_code, step, workspace, tile):
                found = _take_tile(
                    arrays, forms, age, workspace, tile, use_marks, wanted, mask, out, found
                )
        return found
    first = 0
    while first < tiles:
        columns = 0
        last = first
        while (
            last < tiles
            and last - first < len(workspace.row_end)
            and columns + MOST_COLUMNS <= len(workspace.columns)
        ):
            columns = list_columns(
                arrays, workspace.code, workspace, workspace.tiles[last], columns
            )
            workspace.row_end[last - first] = columns
            last += 1
        locate_listed(arrays, workspace.code, workspace, 0, columns)
        if wanted != COUNT:
            _prefetch_ages(arrays, age, workspace.tiles[first])
        at = np.int64(0)
        for i in range(first, last):
            tile = workspace.tiles[i]
            if wanted != COUNT and i + 1 < last:
                _prefetch_ages(arrays, age, workspace.tiles[i + 1])
            end = np.int64(workspace.row_end[i - first])
            if tile_holds(arrays, workspace, tile, at, end - at):
                found = _take_tile(
                    arrays, forms, age, workspace, tile, use_marks, wanted, mask, out, found
                )
            at = end
        first = last
    return found


# --- Flat entries ---


@part
def _sift_block(arrays, age, workspace, block, lacks, tiles, entries):
    """List the tiles of a block, and its entries whose attributes the event has.

    Returns how many tiles and entries are listed now, and the place of the next block, or -1.
    """
    flat = arrays.flat
    head = np.int64(flat[block])
    count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
    first = np.int64(flat[block + 1])
    at = block + 2
    if head & HAS_TILES:
        first_tile = np.int64(flat[at])
        for tile in range(first_tile, first_tile + np.int64(flat[at + 1])):
            workspace.tiles[tiles] = tile
            tiles += 1
            prefetch(arrays.tile, 5 * tile)
        at += 2
    following = np.int64(-1)
    if head & HAS_MORE:
        following = block + np.int64(flat[at])
        at += 1
    directory = at + count
    others = directory + count - homes
    for begin in range(0, count, SIGNATURE_LANES):
        fitting = find_fitting(flat, at + begin, count - begin, lacks)
        while fitting:
            i = begin + np.int64(lowest_bit(fitting))
            fitting = without_lowest_bit(fitting)
            word = np.int64(flat[directory + i])
            place = block + (word & OFFSET_MASK)
            prefetch(flat, place)
            prefetch(flat, place + _ENTRY_WORDS)
            workspace.entries[entries] = place << ENTRY_AT | word >> KINDS_AT
            candidate = first + i if i < homes else np.int64(flat[others + i])
            workspace.candidates[entries] = candidate
            entries += 1
            prefetch(age, candidate)
    return tiles, entries, following


@part
def _test_entries(
    atoms, arrays, forms, age, widths, workspace, event_code, step, several, entries, tried,
    use_marks, wanted, mask, out, found,
):  # fmt: skip
    """Test the listed entries; returns how many rules are listed and programs tried now."""
    conjunctions = len(forms.conjunction_start) - 1
    for k in range(entries):
        candidate = workspace.candidates[k]
        program = candidate - conjunctions
        if program >= 0:
            if workspace.tried[program]:
                continue
            workspace.tried[program] = 1
            workspace.tried_list[tried] = program
            tried += 1
        place, kinds = workspace.entries[k] >> ENTRY_AT, workspace.entries[k] & KINDS_MASK
        if not entry_holds(
            atoms, forms, arrays.flat, widths, workspace, event_code, step, several, place, kinds,
            candidate,
        ):  # fmt: skip
            continue
        if use_marks:
            if program >= 0:
                mark_rule(age, workspace, mask, np.int64(forms.program_rule[program]))
            else:
                mark_conjunction(forms, age, workspace, mask, candidate)
        elif wanted == COUNT and len(mask) == 0:
            found += 1
        else:
            rule = np.int64(forms.program_rule[program]) if program >= 0 else candidate
            found = _list_rule(age, mask, rule, out, found)
    return found, tried


# --- Events ---


@kernel
def _find_rules(block, attribute, code, step, first, last, wanted, mask):
    """Write the ages of the rules that an event matches to `Workspace.found`, or count them.

    See `load_event` for the event. Returns how many rules there are.
    """
    atoms, arrays, forms = read_atoms(block), read_tiles(block), read_forms(block)
    age, workspace = read_ages(block).age, read_workspace(block)
    out, found = workspace.found, np.int64(0)
    widths = read_widths(arrays.width)
    has, several = load_event(arrays, workspace, attribute, code, step, first, last)
    lacks = ~has
    # Where a rule may be found twice, marks keep it from being listed twice.
    use_marks = wanted >= IN_ORDER or several or len(forms.owner) > 0
    groups = list_groups(arrays, workspace, attribute, code, step, first, last, several)
    prefetch_heads(arrays, workspace, groups)
    tiles = entries = tried = 0
    at = 0
    place = np.int64(-1)
    while True:
        if place < 0 and at < groups:
            place = workspace.groups[at]
            at += 1
        if place >= 0:
            tiles, entries, place = _sift_block(
                arrays, age, workspace, place, lacks, tiles, entries
            )
        is_last = place < 0 and at == groups
        if is_last:
            found = _match_tiles(
                arrays, forms, age, workspace, code, step, several, tiles, use_marks, wanted,
                mask, out, found,
            )  # fmt: skip
        if is_last or entries + MOST_ENTRIES > len(workspace.entries):
            found, tried = _test_entries(
                atoms, arrays, forms, age, widths, workspace, code, step, several, entries, tried,
                use_marks, wanted, mask, out, found,
            )  # fmt: skip
            entries = 0
        if is_last:
            break
    for i in range(tried):
        workspace.tried[workspace.tried_list[i]] = 0
    if several:
        clear_visited(workspace, groups)
    unload_event(arrays, workspace, attribute, step, first, last)
    if use_marks and wanted != _MARK:
        if wanted == COUNT:
            return count_marked(workspace.marks, workspace.line_words)
        return list_marked(workspace.marks, workspace.line_words, 0, out)
    return found


@event_kernel
def match_event(block, event, mask, wanted):
    """Match one event, given as pairs of an attribute and a code; see `load_event`.

    Writes the ages of its rules to `Workspace.found`, and returns how many there are. Considers
    only rules whose mask is set; all rules if `mask` is empty.
    """
    return _find_rules(block, event, event[1:], 2, 0, len(event) >> 1, wanted, mask)


@event_kernel
def match_rows(block, start, attribute, code, mask, row, last, wanted, offset, out, counts):
    """Match the events from `row` up to, but not including, `last`.

    The entries of event i are start[i] to start[i + 1]; see `load_event`. Writes the number of each
    event's rules to `counts`, and unless only that is wanted, the ages of the rules plus `offset`
    to `out`, rising, event after event. Stops at an event for which `out` lacks room, which must be
    for SLACK more ages than the event has. Returns the first row that was not matched.
    """
    workspace = read_workspace(block)
    found = 0
    while row < last:
        first, end = start[row], start[row + 1]
        if wanted == COUNT:
            counts[row] = _find_rules(block, attribute, code, 1, first, end, COUNT, mask)
        else:
            _find_rules(block, attribute, code, 1, first, end, _MARK, mask)
            count = list_marked(workspace.marks, workspace.line_words, offset, out[found:])
            if count < 0:
                break
            counts[row] = count
            found += count
        row += 1
    return row
