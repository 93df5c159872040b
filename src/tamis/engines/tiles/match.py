"""The kernels that match one event after another."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import AtomArrays, Events, FormArrays
from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import count_bits, lowest_bit, prefetch
from tamis.engines.kernels.truth import program_holds
from tamis.engines.tiles.arrays import MOST_COLUMNS, NARROW, WIDE, WORD, TileArrays
from tamis.engines.tiles.flat_entries import NOTHING_TO_TEST, packed_holds
from tamis.engines.tiles.groups import forget, gather
from tamis.engines.tiles.tile_and import any_holds, ask_for_columns, ask_for_rows, tile_holds
from tamis.engines.tiles.workspace import AHEAD, Desk, load, unload

__all__ = ["match_rows"]

_ALL, _ONE = ~np.uint64(0), np.uint64(1)


@part
def _emit(forms, conjunction, twice, desk, out, found):
    """Append the rules of a conjunction; `twice` says that it may be found again."""
    if len(forms.owner) == 0:
        if twice:
            if desk.seen[conjunction]:
                return found
            desk.seen[conjunction] = 1
        out[found] = conjunction
        return found + 1
    for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
        rule = forms.owner[i]
        if not desk.seen[rule]:
            desk.seen[rule] = 1
            out[found] = rule
            found += 1
    return found


@part
def _emit_run(word, first, out, found):
    """Append first + i for each bit i of a word."""
    if word == _ALL:
        for i in range(WORD):
            out[found + i] = first + i
        return found + WORD
    while word:
        out[found] = first + np.int64(lowest_bit(word))
        found += 1
        word &= word - _ONE
    return found


@part
def _emit_tile(arrays, forms, desk, tile, twice, only_count, out, found):
    """Append the rules of the hits in a tile; returns how many are found by now."""
    size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    words = WIDE if size > NARROW * WORD else NARROW
    plain = len(forms.owner) == 0 and not twice
    for word in range(words):
        hits = desk.hits[word]
        if only_count:
            found += np.int64(count_bits(hits))
        elif plain and WORD * word + WORD <= homes:
            found = _emit_run(hits, first + WORD * word, out, found)
        else:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                conjunction = first + bit if bit < homes else arrays.member[others + bit - homes]
                found = _emit(forms, conjunction, twice, desk, out, found)
                hits &= hits - _ONE
    return found


@kernel
def _list_tiles(arrays, desk, groups):
    """Write the tiles of the groups on the desk, and ask for them; returns how many."""
    tiles = 0
    for i in range(groups):
        group = desk.groups[i]
        twice = group < 0
        if twice:
            group = ~group
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            desk.tiles[tiles] = ~tile if twice else tile
            tiles += 1
            ask_for_columns(arrays, tile)
    return tiles


@kernel
def _match_tiles(arrays, forms, desk, tiles, only_count, out, found):
    """Find the rules of the tiles on the desk; returns how many are found by now."""
    for i in range(tiles + AHEAD):
        if i < tiles:
            ask_for_rows(arrays, desk.code, desk, desk.tiles[i], MOST_COLUMNS * (i & AHEAD))
        if i >= AHEAD:
            tile = desk.tiles[i - AHEAD]
            if tile_holds(arrays, desk, tile, MOST_COLUMNS * ((i - AHEAD) & AHEAD)):
                found = _emit_tile(arrays, forms, desk, tile, False, only_count, out, found)
    return found


@kernel
def _match_several(arrays, forms, event_code, desk, tiles, out, found):
    """As `_match_tiles`, for an event with several values for an attribute."""
    for i in range(tiles):
        twice = desk.tiles[i] < 0
        tile = ~desk.tiles[i] if twice else desk.tiles[i]
        if any_holds(arrays, event_code, desk, tile):
            found = _emit_tile(arrays, forms, desk, tile, twice, False, out, found)
    return found


@part
def _sift_flat(arrays, lacking, first, last, entries, count):
    """Note the flat entries that need no attribute the event lacks, and ask for them."""
    for i in range(first, last):
        if arrays.signature[i] & lacking == 0:
            entries[count] = i
            count += 1
            prefetch(arrays.flat, 2 * i)
    return count


@part
def _try_program(atoms, forms, events, desk, program, out, found, tried):
    """Evaluate a program once; returns how many rules are found and programs tried by now."""
    if desk.tried[program]:
        return found, tried
    desk.tried[program] = 1
    desk.tried_list[tried] = program
    table, codes = atoms
    start = forms.program_start[program]
    if program_holds(table, codes, events.code, desk.span, desk.text, forms.program, start):
        out[found] = forms.program_rule[program]
        found += 1
    return found, tried + 1


@kernel
def _test_flat(atoms, arrays, forms, events, desk, count, twice, only_count, out, found, tried):
    """Test the entries on the desk; returns how many rules are found and programs tried by now."""
    conjunctions = len(forms.conjunction_start) - 1
    table, codes = atoms
    for k in range(count):
        at = arrays.flat[desk.entries[k], 1]
        if at != NOTHING_TO_TEST:
            prefetch(arrays.packed, at)
            prefetch(arrays.packed, at + 7)
    for k in range(count):
        candidate, at = arrays.flat[desk.entries[k], 0], arrays.flat[desk.entries[k], 1]
        if candidate >= conjunctions:
            found, tried = _try_program(
                atoms, forms, events, desk, candidate - conjunctions, out, found, tried
            )
        elif at == NOTHING_TO_TEST or packed_holds(
            arrays.packed, at, table, codes, events.code, desk.code, desk.span, desk.text
        ):
            if only_count:
                found += 1
            else:
                found = _emit(forms, candidate, twice, desk, out, found)
    return found, tried


@kernel
def _match_flat(
    atoms, arrays, forms, events, desk, groups, lacking, several, only_count, out, found
):
    """Find the rules of the flat entries of the groups on the desk; returns how many are found."""
    entries = np.int64(0)
    tried = np.int64(0)
    for i in range(groups + 1):
        # After the last group, and whenever the desk is full, what is on it is tested.
        begin = end = np.int64(0)
        if i < groups:
            group = desk.groups[i] if desk.groups[i] >= 0 else ~desk.groups[i]
            begin = np.int64(arrays.group[group, 0])
            end = np.int64(arrays.group[group + 1, 0])
        while begin < end or i == groups:
            middle = min(begin + len(desk.entries) - entries, end)
            entries = _sift_flat(arrays, lacking, begin, middle, desk.entries, entries)
            begin = middle
            if entries == len(desk.entries) or i == groups:
                found, tried = _test_flat(
                    atoms,
                    arrays,
                    forms,
                    events,
                    desk,
                    entries,
                    several,
                    only_count,
                    out,
                    found,
                    tried,
                )
                entries = np.int64(0)
            if i == groups:
                break
    for i in range(tried):
        desk.tried[desk.tried_list[i]] = 0
    return found


@part
def _match_row(atoms, arrays, forms, events, desk, row, keep, mask, out, found):
    """Append the rules of one event; returns how many are found by now."""
    lacking, several = load(events, row, desk, arrays.attribute_bit)
    only_count = not keep and not several and len(mask) == 0 and len(forms.owner) == 0
    begin = found
    groups = gather(arrays.levels, arrays.tree, arrays.slot, events, desk, row, several)
    tiles = _list_tiles(arrays, desk, groups)
    if several:
        found = _match_several(arrays, forms, events.code, desk, tiles, out, found)
    else:
        found = _match_tiles(arrays, forms, desk, tiles, only_count, out, found)
    found = _match_flat(
        atoms, arrays, forms, events, desk, groups, lacking, several, only_count, out, found
    )
    if several:
        forget(desk, groups)
    if several or len(forms.owner):
        for i in range(begin, found):
            desk.seen[out[i]] = 0
    unload(events, row, desk)
    if len(mask):
        end = found
        found = begin
        for i in range(begin, end):
            rule = out[i]
            out[found] = rule
            found += 1 if mask[rule] else 0
    return found


_FORMS_AT = len(AtomArrays._fields)
_TILES_AT = _FORMS_AT + len(FormArrays._fields)
_DESK_AT = _TILES_AT + len(TileArrays._fields)
_EVENTS_AT = _DESK_AT + len(Desk._fields)


@kernel
def match_rows(row, last, keep, mask, out, counts, *parts):
    """As `Engine.run`; the arrays come one by one, since a NamedTuple takes longer to unpack."""
    atoms = AtomArrays(*parts[:_FORMS_AT])
    forms = FormArrays(*parts[_FORMS_AT:_TILES_AT])
    arrays = TileArrays(*parts[_TILES_AT:_DESK_AT])
    desk = Desk(*parts[_DESK_AT:_EVENTS_AT])
    events = Events(*parts[_EVENTS_AT:])
    found = np.int64(0)
    while row < last and len(out) - found >= len(desk.seen):
        first = found
        found = _match_row(atoms, arrays, forms, events, desk, row, keep, mask, out, found)
        counts[row] = found - first
        if not keep:
            found = np.int64(0)
        row += 1
    return row
