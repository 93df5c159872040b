"""The kernels that match one event after another."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import AtomArrays, Events, FormArrays
from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import ALL_BITS, ONE, count_bits, lowest_bit, prefetch
from tamis.engines.kernels.truth import program_holds
from tamis.engines.tiles.arrays import MOST_COLUMNS, NARROW, WIDE, WORD, TileArrays
from tamis.engines.tiles.flat_entries import NOTHING_TO_TEST, packed_holds
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import (
    locate_rows,
    multivalued_tile_holds,
    prefetch_columns,
    tile_holds,
)
from tamis.engines.tiles.workspace import AHEAD, Workspace, load_event, unload_event

__all__ = ["match_rows"]


@part
def _emit(forms, conjunction, twice, workspace, out, found):
    """Append the rules of a conjunction; `twice` says that it may be found more than once."""
    if len(forms.owner) == 0:
        if twice:
            if workspace.seen[conjunction]:
                return found
            workspace.seen[conjunction] = 1
        out[found] = conjunction
        return found + 1
    for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
        rule = forms.owner[i]
        if not workspace.seen[rule]:
            workspace.seen[rule] = 1
            out[found] = rule
            found += 1
    return found


@part
def _emit_run(word, first, out, found):
    """Append first + i for each bit i of a word."""
    if word == ALL_BITS:
        for i in range(WORD):
            out[found + i] = first + i
        return found + WORD
    while word:
        out[found] = first + np.int64(lowest_bit(word))
        found += 1
        word &= word - ONE
    return found


@part
def _emit_tile(arrays, forms, workspace, tile, twice, only_count, out, found):
    """Append the rules of the hits in a tile; returns how many rules are found now."""
    size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    words = WIDE if size > NARROW * WORD else NARROW
    plain = len(forms.owner) == 0 and not twice
    for word in range(words):
        hits = workspace.hits[word]
        if only_count:
            found += np.int64(count_bits(hits))
        elif plain and WORD * word + WORD <= homes:
            found = _emit_run(hits, first + WORD * word, out, found)
        else:
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                conjunction = first + bit if bit < homes else arrays.member[others + bit - homes]
                found = _emit(forms, conjunction, twice, workspace, out, found)
                hits &= hits - ONE
    return found


@kernel
def _list_tiles(arrays, workspace, groups):
    """List the tiles of the listed groups and prefetch them; returns how many there are."""
    tiles = 0
    for i in range(groups):
        group = workspace.groups[i]
        twice = group < 0
        if twice:
            group = ~group
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            workspace.tiles[tiles] = ~tile if twice else tile
            tiles += 1
            prefetch_columns(arrays, tile)
    return tiles


@kernel
def _match_tiles(arrays, forms, workspace, tiles, only_count, out, found):
    """Find the rules of the listed tiles; returns how many rules are found now."""
    for i in range(tiles + AHEAD):
        if i < tiles:
            locate_rows(
                arrays, workspace.code, workspace, workspace.tiles[i], MOST_COLUMNS * (i & AHEAD)
            )
        if i >= AHEAD:
            tile = workspace.tiles[i - AHEAD]
            if tile_holds(arrays, workspace, tile, MOST_COLUMNS * ((i - AHEAD) & AHEAD)):
                found = _emit_tile(arrays, forms, workspace, tile, False, only_count, out, found)
    return found


@kernel
def _match_several(arrays, forms, event_code, workspace, tiles, out, found):
    """Like `_match_tiles`, for an event with several values for an attribute."""
    for i in range(tiles):
        twice = workspace.tiles[i] < 0
        tile = ~workspace.tiles[i] if twice else workspace.tiles[i]
        if multivalued_tile_holds(arrays, event_code, workspace, tile):
            found = _emit_tile(arrays, forms, workspace, tile, twice, False, out, found)
    return found


@part
def _filter_flat(arrays, lacking, first, last, entries, count):
    """List and prefetch the flat entries whose attributes the event has."""
    for i in range(first, last):
        if arrays.signature[i] & lacking == 0:
            entries[count] = i
            count += 1
            prefetch(arrays.flat, 2 * i)
    return count


@part
def _try_program(atoms, forms, events, workspace, program, out, found, tried):
    """Evaluate a program once; returns how many rules are found and programs tried now."""
    if workspace.tried[program]:
        return found, tried
    workspace.tried[program] = 1
    workspace.tried_list[tried] = program
    table, codes = atoms
    start = forms.program_start[program]
    if program_holds(
        table, codes, events.code, workspace.span, workspace.text, forms.program, start
    ):
        out[found] = forms.program_rule[program]
        found += 1
    return found, tried + 1


@kernel
def _test_flat(
    atoms, arrays, forms, events, workspace, count, twice, only_count, out, found, tried
):
    """Test the listed entries; returns how many rules are found and programs tried now."""
    conjunctions = len(forms.conjunction_start) - 1
    table, codes = atoms
    for k in range(count):
        at = arrays.flat[workspace.entries[k], 1]
        if at != NOTHING_TO_TEST:
            prefetch(arrays.packed, at)
            prefetch(arrays.packed, at + 7)
    for k in range(count):
        candidate, at = arrays.flat[workspace.entries[k], 0], arrays.flat[workspace.entries[k], 1]
        if candidate >= conjunctions:
            found, tried = _try_program(
                atoms, forms, events, workspace, candidate - conjunctions, out, found, tried
            )
        elif at == NOTHING_TO_TEST or packed_holds(
            arrays.packed,
            at,
            table,
            codes,
            events.code,
            workspace.code,
            workspace.span,
            workspace.text,
        ):
            if only_count:
                found += 1
            else:
                found = _emit(forms, candidate, twice, workspace, out, found)
    return found, tried


@kernel
def _match_flat(
    atoms, arrays, forms, events, workspace, groups, lacking, several, only_count, out, found
):
    """Find the rules of the listed groups' flat entries; returns how many rules are found now."""
    entries = np.int64(0)
    tried = np.int64(0)
    for i in range(groups + 1):
        # Entries are tested whenever the list is full, and after the last group.
        begin = end = np.int64(0)
        if i < groups:
            group = workspace.groups[i] if workspace.groups[i] >= 0 else ~workspace.groups[i]
            begin = np.int64(arrays.group[group, 0])
            end = np.int64(arrays.group[group + 1, 0])
        while begin < end or i == groups:
            middle = min(begin + len(workspace.entries) - entries, end)
            entries = _filter_flat(arrays, lacking, begin, middle, workspace.entries, entries)
            begin = middle
            if entries == len(workspace.entries) or i == groups:
                found, tried = _test_flat(
                    atoms,
                    arrays,
                    forms,
                    events,
                    workspace,
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
        workspace.tried[workspace.tried_list[i]] = 0
    return found


@part
def _match_row(atoms, arrays, forms, events, workspace, row, keep, mask, out, found):
    """Append the rules of one event; returns how many rules are found now."""
    lacking, several = load_event(events, row, workspace, arrays.attribute_bit)
    only_count = not keep and not several and len(mask) == 0 and len(forms.owner) == 0
    begin = found
    groups = list_groups(arrays.levels, arrays.tree, arrays.slot, events, workspace, row, several)
    tiles = _list_tiles(arrays, workspace, groups)
    if several:
        found = _match_several(arrays, forms, events.code, workspace, tiles, out, found)
    else:
        found = _match_tiles(arrays, forms, workspace, tiles, only_count, out, found)
    found = _match_flat(
        atoms, arrays, forms, events, workspace, groups, lacking, several, only_count, out, found
    )
    if several:
        clear_visited(workspace, groups)
    if several or len(forms.owner):
        for i in range(begin, found):
            workspace.seen[out[i]] = 0
    unload_event(events, row, workspace)
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
_WORKSPACE_AT = _TILES_AT + len(TileArrays._fields)
_EVENTS_AT = _WORKSPACE_AT + len(Workspace._fields)


@event_kernel
def match_rows(row, last, keep, mask, out, counts, *parts):
    """See `Engine.run`. Takes arrays one by one, since unpacking NamedTuples takes longer."""
    atoms = AtomArrays(*parts[:_FORMS_AT])
    forms = FormArrays(*parts[_FORMS_AT:_TILES_AT])
    arrays = TileArrays(*parts[_TILES_AT:_WORKSPACE_AT])
    workspace = Workspace(*parts[_WORKSPACE_AT:_EVENTS_AT])
    events = Events(*parts[_EVENTS_AT:])
    found = np.int64(0)
    while row < last and len(out) - found >= len(workspace.seen):
        first = found
        found = _match_row(atoms, arrays, forms, events, workspace, row, keep, mask, out, found)
        counts[row] = found - first
        if not keep:
            found = np.int64(0)
        row += 1
    return row
