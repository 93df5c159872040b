"""The kernels that match one event after another.

An event is matched in four steps, each of which prefetches what the next one reads: its keys lead
to groups, the signatures of a group's entries to those worth testing, then tiles are tested, and
then entries. Rules that match are either listed as they are found, or marked by age in a set of
bits, which lists them in the order of their ages without sorting, and each of them once.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import ALL_BITS, ONE, ZERO, count_bits, lowest_bit, prefetch
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
)
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import (
    locate_rows,
    multivalued_tile_holds,
    prefetch_columns,
    tile_holds,
)
from tamis.engines.tiles.workspace import (
    AHEAD,
    load_event,
    read_atoms,
    read_forms,
    read_labels,
    read_tiles,
    read_workspace,
    unload_event,
)

__all__ = [
    "COUNT",
    "IN_ORDER",
    "LIST",
    "list_marked",
    "mark_conjunction",
    "mark_rule",
    "match_event",
    "match_rows",
]

LIST, IN_ORDER, COUNT = range(3)
"""What is wanted: the labels in any order, in the order of ages, or only their number."""

_ENTRY_AT = 16
_KINDS_MASK = (1 << _ENTRY_AT) - 1
"""The parts of an item of `Workspace.entries`."""

_ENTRY_WORDS = 9
"""The second prefetch of an entry comes so many words after the first."""


# --- Rules that match ---


@part
def mark_rule(labels, workspace, mask, rule):
    """Mark a rule as found."""
    if len(mask) == 0 or mask[rule]:
        age = labels.age[rule]
        word = age >> 6
        workspace.marks[word] |= ONE << np.uint64(age & 63)
        workspace.summary[word >> 6] |= ONE << np.uint64(word & 63)


@part
def mark_conjunction(forms, labels, workspace, mask, conjunction):
    """Mark the rules of a conjunction."""
    if len(forms.owner) == 0:
        mark_rule(labels, workspace, mask, conjunction)
    else:
        for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
            mark_rule(labels, workspace, mask, forms.owner[i])


@part
def _list_rule(labels, mask, rule, out, found):
    """Append the label of a rule; returns how many there are now.

    There is always room, except in an index that someone has tampered with.
    """
    if (len(mask) and not mask[rule]) or found == len(out):
        return found
    out[found] = labels.by_place[rule] if len(labels.by_place) else rule
    return found + 1


@part
def _list_run(labels, word, first, out, found):
    """Append the labels of the rules first + i for each bit i of a word."""
    by_place = labels.by_place
    if word == ALL_BITS and len(by_place):
        for i in range(WORD):
            out[found + i] = by_place[first + i]
        return found + WORD
    while word:
        rule = first + np.int64(lowest_bit(word))
        out[found] = by_place[rule] if len(by_place) else rule
        found += 1
        word &= word - ONE
    return found


@part
def _take_tile(arrays, forms, labels, workspace, tile, use_marks, wanted, mask, out, found):
    """List, mark or count the rules of the hits in a tile; returns how many are listed now."""
    size, first = arrays.tile[tile, 1], np.int64(arrays.tile[tile, 2])
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    for word in range(WIDE if size > NARROW * WORD else NARROW):
        hits = workspace.hits[word]
        if use_marks:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                hits &= hits - ONE
                rule = first + bit
                if bit >= homes:
                    rule = np.int64(arrays.member[others + bit - homes])
                mark_conjunction(forms, labels, workspace, mask, rule)
        elif wanted == COUNT and len(mask) == 0:
            found += np.int64(count_bits(hits))
        elif len(mask) == 0 and WORD * word + WORD <= homes and found + WORD <= len(out):
            found = _list_run(labels, hits, first + WORD * word, out, found)
        else:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                hits &= hits - ONE
                rule = first + bit
                if bit >= homes:
                    rule = np.int64(arrays.member[others + bit - homes])
                found = _list_rule(labels, mask, rule, out, found)
    return found


@part
def list_marked(labels, workspace, out, found):
    """Append the labels of all marked rules, the oldest first, and clear the marks."""
    by_age = labels.by_age
    for at in range(len(workspace.summary)):
        words = workspace.summary[at]
        workspace.summary[at] = ZERO
        while words:
            word = WORD * at + np.int64(lowest_bit(words))
            words &= words - ONE
            marks = workspace.marks[word]
            workspace.marks[word] = ZERO
            while marks:
                age = WORD * word + np.int64(lowest_bit(marks))
                marks &= marks - ONE
                out[found] = by_age[age] if len(by_age) else labels.first[0] + age
                found += 1
    return found


@part
def _count_marked(workspace):
    """How many rules are marked; clears the marks."""
    found = np.int64(0)
    for at in range(len(workspace.summary)):
        words = workspace.summary[at]
        workspace.summary[at] = ZERO
        while words:
            word = WORD * at + np.int64(lowest_bit(words))
            words &= words - ONE
            found += np.int64(count_bits(workspace.marks[word]))
            workspace.marks[word] = ZERO
    return found


# --- Tiles ---


@part
def _match_tiles(
    arrays, forms, labels, workspace, event_code, step, several, tiles, use_marks, wanted, mask,
    out, found,
):  # fmt: skip
    """Find the rules of the listed tiles; returns how many are listed now."""
    for i in range(tiles):
        prefetch_columns(arrays, workspace.tiles[i])
    if several:
        for i in range(tiles):
            tile = workspace.tiles[i]
            if multivalued_tile_holds(arrays, event_code, step, workspace, tile):
                found = _take_tile(
                    arrays, forms, labels, workspace, tile, use_marks, wanted, mask, out, found
                )
        return found
    rows = rows_before = 0
    for i in range(tiles + AHEAD):
        rows_before = rows
        if i < tiles:
            tile = workspace.tiles[i]
            rows = locate_rows(arrays, workspace.code, workspace, tile, MOST_COLUMNS * (i & AHEAD))
        if i >= AHEAD:
            tile = workspace.tiles[i - AHEAD]
            at = MOST_COLUMNS * ((i - AHEAD) & AHEAD)
            if tile_holds(arrays, workspace, tile, at, rows_before):
                found = _take_tile(
                    arrays, forms, labels, workspace, tile, use_marks, wanted, mask, out, found
                )
    return found


# --- Flat entries ---


@part
def _sift_block(arrays, workspace, block, lacks, tiles, entries):
    """List the tiles of a block, and its entries whose attributes the event has.

    Returns how many tiles and entries are listed now, and the place of the next block, or -1.
    """
    flat = arrays.flat
    head = np.int64(flat[block])
    count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
    first = np.int64(flat[block + 1])
    at = block + 2
    if head & HAS_TILES:
        begin = np.int64(flat[at])
        for tile in range(begin, begin + np.int64(flat[at + 1])):
            workspace.tiles[tiles] = tile
            tiles += 1
            prefetch(arrays.tile, 5 * tile)
        at += 2
    following = np.int64(-1)
    if head & HAS_MORE:
        following = block + np.int64(flat[at])
        at += 1
    kept = entries
    for i in range(count):
        workspace.entries[kept] = i
        kept += 1 if flat[at + i] & lacks == 0 else 0
    directory = at + count
    others = directory + count - homes
    for k in range(entries, kept):
        i = workspace.entries[k]
        word = np.int64(flat[directory + i])
        place = block + (word & OFFSET_MASK)
        prefetch(flat, place)
        prefetch(flat, place + _ENTRY_WORDS)
        workspace.entries[k] = place << _ENTRY_AT | word >> KINDS_AT
        workspace.candidates[k] = first + i if i < homes else np.int64(flat[others + i])
    return tiles, kept, following


@part
def _test_entries(
    atoms, arrays, forms, labels, workspace, event_code, step, several, entries, tried, use_marks,
    wanted, mask, out, found,
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
        place, kinds = workspace.entries[k] >> _ENTRY_AT, workspace.entries[k] & _KINDS_MASK
        if not entry_holds(
            atoms, forms, arrays.flat, arrays.width, workspace, event_code, step, several, place,
            kinds, candidate,
        ):  # fmt: skip
            continue
        if use_marks:
            if program >= 0:
                mark_rule(labels, workspace, mask, forms.program_rule[program])
            else:
                mark_conjunction(forms, labels, workspace, mask, candidate)
        elif wanted == COUNT and len(mask) == 0:
            found += 1
        else:
            rule = np.int64(forms.program_rule[program]) if program >= 0 else candidate
            found = _list_rule(labels, mask, rule, out, found)
    return found, tried


# --- Events ---


@kernel
def _find_rules(block, attribute, code, step, first, last, wanted, mask, out, found):
    """Append the labels of the rules that an event matches, or count them.

    See `load_event` for the event. Returns how many rules are listed or counted now.
    """
    atoms, arrays, forms = read_atoms(block), read_tiles(block), read_forms(block)
    labels, workspace = read_labels(block), read_workspace(block)
    has, several = load_event(arrays, workspace, attribute, code, step, first, last)
    lacks = ~has
    # Where a rule may be found twice, marks keep it from being listed twice.
    use_marks = wanted == IN_ORDER or several or len(forms.owner) > 0
    groups = list_groups(arrays, workspace, attribute, code, step, first, last, several)
    tiles = entries = tried = 0
    at = 0
    place = np.int64(-1)
    while True:
        if place < 0 and at < groups:
            place = workspace.groups[at]
            at += 1
        if place >= 0:
            tiles, entries, place = _sift_block(arrays, workspace, place, lacks, tiles, entries)
        is_last = place < 0 and at == groups
        if is_last:
            found = _match_tiles(
                arrays, forms, labels, workspace, code, step, several, tiles, use_marks, wanted,
                mask, out, found,
            )  # fmt: skip
        if is_last or entries + MOST_ENTRIES > len(workspace.entries):
            found, tried = _test_entries(
                atoms, arrays, forms, labels, workspace, code, step, several, entries, tried,
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
    if use_marks:
        if wanted == COUNT:
            found += _count_marked(workspace)
        else:
            found = list_marked(labels, workspace, out, found)
    return found


@event_kernel
def match_event(block, event, mask, wanted):
    """Match one event, given as pairs of an attribute and a code; see `load_event`.

    Writes the labels of its rules to `Workspace.found`, and returns how many there are. Considers
    only rules whose mask is set; all rules if `mask` is empty.
    """
    workspace = read_workspace(block)
    return _find_rules(
        block, event, event[1:], 2, 0, len(event) >> 1, wanted, mask, workspace.found, 0
    )


@event_kernel
def match_rows(block, start, attribute, code, mask, row, last, wanted, out, counts):
    """Match the events from `row` up to, but not including, `last`.

    The entries of event i are start[i] to start[i + 1]; see `load_event`. Writes the labels of
    their rules to `out`, event after event, and the number of each event's rules to `counts`.
    Stops before an event for which `out` might lack room. Returns the first row that was not
    matched.
    """
    workspace = read_workspace(block)
    found = 0
    while row < last and len(out) - found >= len(workspace.found):
        before = found
        found = _find_rules(
            block, attribute, code, 1, start[row], start[row + 1], wanted, mask, out, found
        )
        counts[row] = found - before
        if wanted == COUNT:
            found = 0
        row += 1
    return row
