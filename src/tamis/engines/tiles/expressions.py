"""The kernel that matches event expressions: as `match.py`, with ranges of codes for codes.

A range of codes leads to the groups of all tree nodes that it meets. In a tile, a column keeps the
conjunctions that some code of its attribute satisfies, if there are few such codes. Where a column
was left out, or where an attribute has several atoms and one value has to satisfy all of them, the
conjunction is tested atom by atom (`kernels/event_expressions.py`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_UINT8
from tamis.encode.kernel import event_kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.bits import ONE, ZERO, lowest_bit, prefetch
from tamis.engines.kernels.event_expressions import (
    MAYBE,
    NO,
    candidate_verdict,
    longest_program,
    program_verdict,
)
from tamis.engines.kernels.marks import list_marked
from tamis.engines.tiles.arrays import (
    ALWAYS,
    BY_TEXT,
    EMPTY_SLOT,
    NARROW,
    PLACE_MASK,
    PRESENT_LEVEL,
    WIDE,
    WORD,
)
from tamis.engines.tiles.flat_groups import COUNT_MASK, HAS_MORE, HAS_TILES, HOMES_AT
from tamis.engines.tiles.groups import clear_visited, look_up
from tamis.engines.tiles.match import mark_conjunction, mark_rule
from tamis.engines.tiles.tile_and import first_bits, write_row
from tamis.engines.tiles.workspace import (
    MOST_LEVELS,
    read_ages,
    read_atoms,
    read_forms,
    read_tiles,
    read_workspace,
)

__all__ = ["ExpressionRoom", "match_choices", "new_expression_room"]

_MOST_CODES = 64
"""A column is looked at only if its attribute may have no more codes than this."""


class ExpressionRoom(NamedTuple):
    """Working memory for event expressions. Belongs to one thread; `doubt` is zero between calls.

    `possible` is empty: few atoms are tested twice, and a verdict takes no longer than a look-up.
    """

    repeats: NDArray[np.uint8]
    """1 for each conjunction that has several atoms on one attribute."""
    possible: NDArray[np.uint8]
    path: NDArray[np.int32]
    """Room for the atoms on the path through a program."""
    doubt: NDArray[np.uint8]
    """1 for each rule that is listed in `undecided`."""
    undecided: NDArray[np.int32]
    """The rules that the kernel cannot decide; some may be found as well."""


def new_expression_room(rules: EncodedRules, repeats: NDArray[np.uint8]) -> ExpressionRoom:
    """Allocate working memory; `repeats` may be shared by all threads."""
    return ExpressionRoom(
        repeats,
        NO_UINT8,
        np.empty(longest_program(rules), np.int32),
        np.zeros(rules.size, np.uint8),
        np.empty(rules.size, np.int32),
    )


# --- Groups ---


@part
def _count_keys(arrays, choices, present):
    """How many tree nodes the event's codes lead to, at most."""
    keys = np.int64(0)
    for i in range(len(present)):
        attribute = present[i]
        rest = arrays.levels[attribute] & ~(ONE << np.uint64(PRESENT_LEVEL))
        while rest:
            level = np.int64(lowest_bit(rest))
            rest &= rest - ONE
            for entry in range(choices.span[attribute, 0], choices.span[attribute, 1]):
                keys += ((np.int64(choices.high[entry]) - choices.low[entry]) >> level) + 2
    return keys


@part
def _list_all_groups(arrays, workspace):
    """List every group; returns how many there are."""
    count = 0
    for at in range(len(arrays.slot)):
        if arrays.slot[at] != EMPTY_SLOT:
            workspace.groups[count] = np.int64(arrays.slot[at] & PLACE_MASK)
            count += 1
    return count


@part
def _list_groups(arrays, choices, workspace, present):
    """List the groups that the event's codes lead to, each once; returns how many there are."""
    attributes = len(arrays.levels)
    workspace.keys[0] = ALWAYS
    keys = 1
    count = 0
    for i in range(len(present)):
        attribute = np.int64(present[i])
        levels = arrays.levels[attribute]
        if levels >> np.uint64(PRESENT_LEVEL):
            levels &= ~(ONE << np.uint64(PRESENT_LEVEL))
            workspace.keys[keys] = 1 + attribute
            keys += 1
        codes, first_key = arrays.tree[attribute, 0], arrays.tree[attribute, 1]
        for entry in range(choices.span[attribute, 0], choices.span[attribute, 1]):
            for k in range(choices.text_start[entry], choices.text_start[entry + 1]):
                workspace.keys[keys] = 1 + attributes + choices.text[k]
                keys += 1
                if keys + MOST_LEVELS > len(workspace.keys):
                    count = look_up(arrays, workspace, keys, True, count)
                    keys = 0
            rest = levels
            while rest:
                level = np.int64(lowest_bit(rest))
                rest &= rest - ONE
                low = (codes + choices.low[entry]) >> level
                high = (codes + choices.high[entry]) >> level
                for node in range(low, high + 1):
                    workspace.keys[keys] = first_key + node
                    keys += 1
                    if keys + MOST_LEVELS > len(workspace.keys):
                        count = look_up(arrays, workspace, keys, True, count)
                        keys = 0
    return look_up(arrays, workspace, keys, True, count)


# --- Candidates ---


@part
def _test_conjunction(atoms, forms, age, workspace, choices, room, mask, conjunction, doubtful):
    """Mark the rules of a conjunction that is possible; returns how many are undecided now."""
    verdict = candidate_verdict(atoms, choices, room.possible, forms, room.repeats, conjunction)
    if verdict == MAYBE:
        if len(forms.owner) == 0:
            doubtful = _doubt(room, mask, conjunction, doubtful)
        else:
            for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
                doubtful = _doubt(room, mask, forms.owner[i], doubtful)
    elif verdict != NO:
        mark_conjunction(forms, age, workspace, mask, conjunction)
    return doubtful


@part
def _doubt(room, mask, rule, doubtful):
    """List a rule as undecided; returns how many there are now."""
    if not room.doubt[rule] and (len(mask) == 0 or mask[rule]):
        room.doubt[rule] = 1
        room.undecided[doubtful] = rule
        doubtful += 1
    return doubtful


@part
def _test_program(atoms, forms, age, workspace, choices, room, mask, program, doubtful):
    """Mark the rule of a program that is possible; returns how many are undecided now."""
    verdict = program_verdict(
        atoms, choices, room.possible, forms.program, forms.program_start[program], room.path
    )
    rule = np.int64(forms.program_rule[program])
    if verdict == MAYBE:
        doubtful = _doubt(room, mask, rule, doubtful)
    elif verdict != NO:
        mark_rule(age, workspace, mask, rule)
    return doubtful


@part
def _sift_block(
    atoms, arrays, forms, age, workspace, choices, room, mask, block, lacks, tiles, doubtful
):
    """Test the flat entries of a block, and list its tiles.

    Returns the place of the next block, or -1, and how many tiles are listed and rules undecided.
    """
    flat = arrays.flat
    conjunctions = len(forms.conjunction_start) - 1
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
    others = at + 2 * count - homes
    for i in range(count):
        if flat[at + i] & lacks:
            continue
        candidate = first + i if i < homes else np.int64(flat[others + i])
        if candidate < conjunctions:
            doubtful = _test_conjunction(
                atoms, forms, age, workspace, choices, room, mask, candidate, doubtful
            )
        else:
            doubtful = _test_program(
                atoms, forms, age, workspace, choices, room, mask, candidate - conjunctions,
                doubtful,
            )  # fmt: skip
    return following, tiles, doubtful


# --- Tiles ---


@part
def _has_code(choices, attribute, code):
    """Whether an attribute may have a code; 0 if it is absent."""
    begin, end = choices.span[attribute, 0], choices.span[attribute, 1]
    found = begin == end and code == 0
    for entry in range(begin, end):
        found |= choices.low[entry] <= code <= choices.high[entry]
    return found


@part
def _unite_rows(arrays, choices, workspace, words, column):
    """Write to workspace.union which conjunctions some code satisfies; False if codes are many."""
    attribute = arrays.ideal[column, 0]
    begin, end = choices.span[attribute, 0], choices.span[attribute, 1]
    if begin == end:
        write_row(arrays, column, words, 0, workspace.union)
        return True
    if arrays.columns[column, 0] & BY_TEXT:
        return False
    codes = np.int64(0)
    for entry in range(begin, end):
        codes += np.int64(choices.high[entry]) - choices.low[entry] + 1
    if codes > _MOST_CODES:
        return False
    for word in range(words):
        workspace.union[word] = ZERO
    for entry in range(begin, end):
        for code in range(choices.low[entry], choices.high[entry] + 1):
            write_row(arrays, column, words, code, workspace.row)
            for word in range(words):
                workspace.union[word] |= workspace.row[word]
    return True


@part
def _find_in_tile(arrays, choices, workspace, tile):
    """Write into workspace.hits which conjunctions of a tile may hold.

    Returns whether there are any, and whether all of them hold that have one atom for an attribute.
    """
    is_exact = len(choices.hollow) == 0
    size = arrays.tile[tile, 1]
    words = WIDE if size > NARROW * WORD else NARROW
    for word in range(words):
        workspace.hits[word] = first_bits(size - WORD * word)
    for column in range(arrays.tile[tile, 0], arrays.tile[tile + 1, 0]):
        if _has_code(choices, arrays.ideal[column, 0], arrays.ideal[column, 1]):
            continue
        if _unite_rows(arrays, choices, workspace, words, column):
            alive = ZERO
            for word in range(words):
                workspace.hits[word] &= workspace.union[word]
                alive |= workspace.hits[word]
            if alive == 0:
                return False, True
        else:
            is_exact = False
    return True, is_exact


@part
def _test_tile(atoms, arrays, forms, age, workspace, choices, room, mask, tile, is_exact, doubtful):
    """Mark the possible rules of a tile; returns how many are undecided now."""
    size, first = arrays.tile[tile, 1], np.int64(arrays.tile[tile, 2])
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    for word in range(WIDE if size > NARROW * WORD else NARROW):
        hits = workspace.hits[word]
        while hits:
            bit = WORD * word + np.int64(lowest_bit(hits))
            hits &= hits - ONE
            conjunction = first + bit
            if bit >= homes:
                conjunction = np.int64(arrays.member[others + bit - homes])
            if is_exact and not room.repeats[conjunction]:
                mark_conjunction(forms, age, workspace, mask, conjunction)
            else:
                doubtful = _test_conjunction(
                    atoms, forms, age, workspace, choices, room, mask, conjunction, doubtful
                )
    return doubtful


# --- Expressions ---


@event_kernel
def match_choices(block, choices, present, mask, room):
    """Find the rules that match an event expression without endless entries.

    `present` has the numbers of the event's attributes. Considers only rules whose mask is set; all
    rules if `mask` is empty. Writes the ages of matching rules to `Workspace.found`, rising,
    and the places of undecided ones to `room`; returns how many there are of each.
    """
    atoms, arrays, forms = read_atoms(block), read_tiles(block), read_forms(block)
    age, workspace = read_ages(block).age, read_workspace(block)
    has = np.uint32(0)
    for i in range(len(present)):
        has |= arrays.attribute_bit[present[i]]
    is_wide = _count_keys(arrays, choices, present) > len(arrays.slot)
    if is_wide:
        groups = _list_all_groups(arrays, workspace)
    else:
        groups = _list_groups(arrays, choices, workspace, present)
    tiles = 0
    doubtful = 0
    for i in range(groups):
        place = workspace.groups[i]
        while place >= 0:
            place, tiles, doubtful = _sift_block(
                atoms, arrays, forms, age, workspace, choices, room, mask, place, ~has, tiles,
                doubtful,
            )  # fmt: skip
    for i in range(tiles):
        tile = workspace.tiles[i]
        has_hits, is_exact = _find_in_tile(arrays, choices, workspace, tile)
        if has_hits:
            # A tile has no column for the atoms of its key, which need not hold in every group.
            doubtful = _test_tile(
                atoms, arrays, forms, age, workspace, choices, room, mask, tile,
                is_exact and not is_wide, doubtful,
            )  # fmt: skip
    if not is_wide:
        clear_visited(workspace, groups)
    for i in range(doubtful):
        room.doubt[room.undecided[i]] = 0
    return list_marked(workspace.marks, workspace.line_words, 0, workspace.found), doubtful
