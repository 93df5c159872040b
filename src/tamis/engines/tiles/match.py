"""The kernels that match one event after another.

An event is matched in four steps, each of which prefetches what the next one reads: its keys lead
to groups, the signatures of a group's entries to those worth testing, then tiles are tested, and
then entries. Rules that match are listed by their ages as they are found; a set of marks
(`tamis.engines.kernels.marks`) brings them into order. Where a rule may be found twice, it is
marked at once.

Each step is a kernel of its own, which takes the block of addresses. In one large kernel there were
far more arrays than registers, and the loops kept their counters in memory (docs/decisions/0062).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import (
    ONE,
    ZERO,
    count_bits,
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
    MOST_NARROW,
    OFFSET_MASK,
    entry_holds,
    read_widths,
)
from tamis.engines.tiles.groups import clear_visited, list_groups, prefetch_heads
from tamis.engines.tiles.lanes import (
    ATOM_LANES,
    SIGNATURE_LANES,
    copy_chosen,
    find_failing,
    find_fitting,
)
from tamis.engines.tiles.tile_and import (
    first_bits,
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
"""How many words after the first prefetch of an entry the second one is."""

_LINE = 16
"""The 32-bit numbers of a cache line."""


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
def _list_members(age, member, word, first, out, found):
    """Append the ages of the rules member[first + i] for each bit i of a word."""
    # Unsigned, so that Numba does not check for negative indices.
    at, begin = np.uint64(found), np.uint64(first)
    while word:
        out[at] = age[np.uint64(member[begin + lowest_bit(word)])]
        word = without_lowest_bit(word)
        at += ONE
    return np.int64(at)


@part
def _mark_run(age, workspace, word, first):
    """Mark the rules first + i for each bit i of a word."""
    begin = np.uint64(first)
    while word:
        mark(workspace.marks, workspace.lines, np.uint64(age[begin + lowest_bit(word)]))
        word = without_lowest_bit(word)


@kernel
def _take_tile(block, tile, use_marks, wanted, mask, found):
    """List, mark or count the rules of the hits in a tile; returns how many are listed now."""
    arrays, forms = read_tiles(block), read_forms(block)
    age, workspace = read_ages(block).age, read_workspace(block)
    out = workspace.found
    size, first = arrays.tile[tile, 1], np.int64(arrays.tile[tile, 2])
    homes, others = np.int64(arrays.tile[tile, 3]), np.int64(arrays.tile[tile, 4])
    # Each conjunction of the run is a rule, and all rules are considered.
    is_plain = len(mask) == 0 and len(forms.owner) == 0
    for word in range(WIDE if size > NARROW * WORD else NARROW):
        hits = workspace.hits[np.uint64(word)]
        if wanted == COUNT and not use_marks and len(mask) == 0:
            found += np.int64(count_bits(hits))
            continue
        begin, rest = first + WORD * word, homes - WORD * word
        own = hits & first_bits(rest)
        if is_plain and use_marks:
            _mark_run(age, workspace, own, begin)
            hits ^= own
        elif is_plain and begin + WORD <= len(age) and found + 2 * SLACK <= len(out):
            found = np.int64(copy_chosen(age, np.uint64(begin), own, out, np.uint64(found)))
            found = _list_members(age, arrays.member, hits ^ own, others - rest, out, found)
            hits = ZERO
        while hits:
            bit = np.int64(lowest_bit(hits))
            hits = without_lowest_bit(hits)
            rule = begin + bit
            if bit >= rest:
                rule = np.int64(arrays.member[others + bit - rest])
            if use_marks:
                mark_conjunction(forms, age, workspace, mask, rule)
            else:
                found = _list_rule(age, mask, rule, out, found)
    return found


@kernel
def _take_held(block, held, use_marks, wanted, mask, found):
    """List, mark or count the rules of the candidates that hold; returns how many are listed."""
    forms, age, workspace = read_forms(block), read_ages(block).age, read_workspace(block)
    out = workspace.found
    is_plain = len(mask) == 0 and len(forms.program_rule) == 0 and not use_marks
    if wanted == COUNT and len(mask) == 0 and not use_marks:
        return found + held
    if is_plain and found + held <= len(out):
        # Nothing else is done here, so the processor waits for many ages at once.
        at = np.uint64(found)
        for k in range(np.uint64(held)):
            out[at + k] = age[np.uint64(workspace.held[k])]
        return found + held
    conjunctions = len(forms.conjunction_start) - 1
    for k in range(held):
        candidate = workspace.held[k]
        rule = candidate
        if candidate >= conjunctions:
            rule = np.int64(forms.program_rule[candidate - conjunctions])
        if not use_marks:
            found = _list_rule(age, mask, rule, out, found)
        elif candidate >= conjunctions:
            mark_rule(age, workspace, mask, rule)
        else:
            mark_conjunction(forms, age, workspace, mask, candidate)
    return found


@kernel
def _mark_listed(block, found):
    """Mark the rules that are listed."""
    workspace = read_workspace(block)
    for i in range(np.uint64(found)):
        mark(workspace.marks, workspace.lines, np.uint64(workspace.found[i]))


@kernel
def _take_marked(block, wanted):
    """List the rules that are marked, in order, or count them; returns how many there are."""
    workspace = read_workspace(block)
    if wanted == COUNT:
        return count_marked(workspace.marks, workspace.line_words)
    return list_marked(workspace.marks, workspace.line_words, 0, workspace.found)


# --- Tiles ---


@part
def _prefetch_ages(arrays, age, tile):
    """Prefetch the ages of a tile's rules."""
    first = np.int64(arrays.tile[tile, 2])
    for place in range(first, first + arrays.tile[tile, 3], _LINE):
        prefetch(age, np.int64(place))


@kernel
def _list_columns(block, first, tiles):
    """List the columns of some tiles from `first` on, and where those of each tile end.

    Returns the first tile after them, and how many columns there are.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    columns = np.int64(0)
    last = first
    while (
        last < tiles
        and last - first < len(workspace.row_end)
        and columns + MOST_COLUMNS <= len(workspace.columns)
    ):
        columns = list_columns(arrays, workspace.code, workspace, workspace.tiles[last], columns)
        workspace.row_end[last - first] = columns
        last += 1
    return last, columns


@kernel
def _locate_rows(block, columns):
    """Find and prefetch the rows of the listed columns."""
    arrays, workspace = read_tiles(block), read_workspace(block)
    locate_listed(arrays, workspace.code, workspace, 0, columns)


@kernel
def _tile_holds(block, tile, at, rows):
    """See `tile_holds`."""
    return tile_holds(read_tiles(block), read_workspace(block), tile, at, rows)


@kernel
def _match_tiles(block, event_code, step, several, tiles, use_marks, wanted, mask, found):
    """Find the rules of the listed tiles; returns how many are listed now.

    Some tiles at a time: first their columns, then the rows of these, then their conjunctions.
    """
    arrays, workspace, age = read_tiles(block), read_workspace(block), read_ages(block).age
    for i in range(tiles):
        prefetch_columns(arrays, workspace.tiles[i])
    if several:
        for i in range(tiles):
            tile = np.int64(workspace.tiles[i])
            if multivalued_tile_holds(arrays, event_code, step, workspace, tile):
                found = _take_tile(block, tile, use_marks, wanted, mask, found)
        return found
    first = np.int64(0)
    while first < tiles:
        last, columns = _list_columns(block, first, tiles)
        _locate_rows(block, columns)
        if wanted != COUNT:
            _prefetch_ages(arrays, age, workspace.tiles[first])
        at = np.int64(0)
        for i in range(first, last):
            tile = np.int64(workspace.tiles[i])
            if wanted != COUNT and i + 1 < last:
                _prefetch_ages(arrays, age, workspace.tiles[i + 1])
            end = np.int64(workspace.row_end[i - first])
            if _tile_holds(block, tile, at, end - at):
                found = _take_tile(block, tile, use_marks, wanted, mask, found)
            at = end
        first = last
    return found


# --- Flat entries ---


@kernel
def _sift(block, groups, at, place, lacks, tiles):
    """List the tiles of groups, and their entries whose attributes the event has.

    Begins with the flat block at `place`, or if that is -1 with the group at `at`, and goes on
    until all groups are done or there might be too many entries. Returns how many entries and tiles
    are listed now, and where to go on.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    flat = arrays.flat
    most = len(workspace.entries) - MOST_ENTRIES
    entries = np.int64(0)
    while entries <= most and (place >= 0 or at < groups):
        if place < 0:
            place = workspace.groups[at]
            at += 1
        head = np.int64(flat[place])
        count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
        first = np.int64(flat[place + 1])
        signature = place + 2
        if head & HAS_TILES:
            first_tile = np.int64(flat[signature])
            for tile in range(first_tile, first_tile + np.int64(flat[signature + 1])):
                workspace.tiles[tiles] = tile
                tiles += 1
                prefetch(arrays.tile, 5 * tile)
            signature += 2
        following = np.int64(-1)
        if head & HAS_MORE:
            following = place + np.int64(flat[signature])
            signature += 1
        directory = signature + count
        others = directory + count - homes
        for begin in range(0, count, SIGNATURE_LANES):
            fitting = find_fitting(flat, signature + begin, count - begin, lacks)
            while fitting:
                i = begin + np.int64(lowest_bit(fitting))
                fitting = without_lowest_bit(fitting)
                word = np.int64(flat[np.uint64(directory + i)])
                atoms_at = place + (word & OFFSET_MASK)
                prefetch(flat, atoms_at)
                prefetch(flat, atoms_at + _ENTRY_WORDS)
                workspace.entries[np.uint64(entries)] = atoms_at << ENTRY_AT | word >> KINDS_AT
                candidate = first + i if i < homes else np.int64(flat[np.uint64(others + i)])
                workspace.candidates[np.uint64(entries)] = candidate
                entries += 1
        place = following
    return entries, tiles, at, place


@kernel
def _test_narrow(block, entries):
    """Test the narrow atoms of the listed entries, up to ATOM_LANES of each.

    Writes the candidates that hold to `Workspace.held`. Entries that might hold, but have more
    atoms, stay listed. Returns how many there are of both. Without branches, since no processor
    guesses which entries hold and which have more atoms.
    """
    arrays, age, workspace = read_tiles(block), read_ages(block).age, read_workspace(block)
    attribute_mask, low_at, high_at, low_mask, _, _ = read_widths(arrays.width)
    held = rest = ZERO
    for k in range(np.uint64(entries)):
        entry, candidate = workspace.entries[k], workspace.candidates[k]
        prefetch(age, candidate)
        place, kinds = entry >> ENTRY_AT, entry & KINDS_MASK
        failing = find_failing(
            arrays.flat, place, kinds & MOST_NARROW, workspace.code, attribute_mask, low_at,
            high_at, low_mask,
        )  # fmt: skip
        has_more = kinds > ATOM_LANES
        workspace.held[held] = candidate
        held += np.uint64((failing == ZERO) & (not has_more))
        workspace.entries[rest], workspace.candidates[rest] = entry, candidate
        rest += np.uint64((failing == ZERO) & has_more)
    return np.int64(held), np.int64(rest)


@kernel
def _test_entries(block, event_code, step, several, entries, held, tried):
    """Test the listed entries; adds the candidates that hold to the `held` ones.

    Returns how many candidates hold, and how many programs were tried.
    """
    atoms, arrays, forms = read_atoms(block), read_tiles(block), read_forms(block)
    widths, workspace = read_widths(arrays.width), read_workspace(block)
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
        if entry_holds(
            atoms, forms, arrays.flat, widths, workspace, event_code, step, several, place, kinds,
            candidate,
        ):  # fmt: skip
            workspace.held[held] = candidate
            held += 1
    return held, tried


# --- Events ---


@kernel
def _find_rules(block, attribute, code, step, first, last, wanted, mask):
    """Write the ages of the rules that an event matches to `Workspace.found`, or count them.

    See `load_event` for the event. Returns how many rules there are.
    """
    arrays, forms, workspace = read_tiles(block), read_forms(block), read_workspace(block)
    has, several = load_event(arrays, workspace, attribute, code, step, first, last)
    # Where a rule may be found twice, marks keep it from being listed twice.
    use_marks = several or len(forms.owner) > 0
    groups = list_groups(arrays, workspace, attribute, code, step, first, last, several)
    prefetch_heads(arrays, workspace, groups)
    found = tiles = tried = at = np.int64(0)
    place = np.int64(-1)
    is_last = False
    while not is_last:
        entries, tiles, at, place = _sift(block, groups, at, place, ~has, tiles)
        is_last = place < 0 and at == groups
        if is_last:
            found = _match_tiles(block, code, step, several, tiles, use_marks, wanted, mask, found)
        held = np.int64(0)
        if not several:
            held, entries = _test_narrow(block, entries)
        held, tried = _test_entries(block, code, step, several, entries, held, tried)
        found = _take_held(block, held, use_marks, wanted, mask, found)
    for i in range(tried):
        workspace.tried[workspace.tried_list[i]] = 0
    if several:
        clear_visited(workspace, groups)
    unload_event(arrays, workspace, attribute, step, first, last)
    if wanted >= IN_ORDER and not use_marks:
        _mark_listed(block, found)
    if wanted == IN_ORDER or (use_marks and wanted != _MARK):
        return _take_marked(block, wanted)
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
