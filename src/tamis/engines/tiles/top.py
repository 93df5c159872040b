"""The kernels that find the best rules without testing all candidates.

Filing a rule computes the most that it can score on an event whose attributes weigh at most 1
(`prepare.py`); on other events this bound is multiplied by the weight of the heaviest attribute.
The tile with the highest bound is tested first. From then on, a tile or an entry whose bound is
below the worst score kept cannot change the result. One whose bound equals it can, because the
older rule wins.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import ONE, lowest_bit
from tamis.engines.kernels.ranking import Ranking, rank_rule
from tamis.engines.kernels.scores import ROUNDING
from tamis.engines.kernels.truth import load_event as load_spans
from tamis.engines.kernels.truth import unload_event as unload_spans
from tamis.engines.score_bounds import heaviest_weight
from tamis.engines.tiles.arrays import NARROW, WIDE, WORD
from tamis.engines.tiles.flat_groups import (
    COUNT_MASK,
    HAS_MORE,
    HAS_TILES,
    HOMES_AT,
    KINDS_AT,
    OFFSET_MASK,
    entry_holds,
)
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import locate_rows, multivalued_tile_holds, tile_holds
from tamis.engines.tiles.workspace import (
    load_event,
    read_tiles,
    read_workspace,
    unload_event,
)

__all__ = ["top_rows"]


@kernel
def _rank_candidate(rules, events, loaded, row, ranking, candidate):
    """Score the rules of a candidate that holds."""
    forms = rules[1]
    program = candidate - (len(forms.conjunction_start) - 1)
    if program >= 0:
        rule = np.int64(forms.program_rule[program])
        rank_rule(rules, events, loaded, row, ranking, rule)
    elif len(forms.owner) == 0:
        rank_rule(rules, events, loaded, row, ranking, candidate)
    else:
        for i in range(forms.owner_start[candidate], forms.owner_start[candidate + 1]):
            rank_rule(rules, events, loaded, row, ranking, np.int64(forms.owner[i]))


@part
def _is_hopeless(ranking, bound, heaviest):
    """Whether candidates that score at most `bound` can be skipped."""
    kept = ranking.tally[0]
    return kept == len(ranking.score) and bound * heaviest < ranking.score[kept - 1]


@part
def _first_tile(flat, block):
    """The first tile of a group, and how many it has."""
    if flat[block] & np.uint32(HAS_TILES):
        return np.int64(flat[block + 2]), np.int64(flat[block + 3])
    return np.int64(0), np.int64(0)


@kernel
def _best_tile(arrays, workspace, groups):
    """The tile with the highest bound, or -1."""
    best = np.int64(-1)
    for i in range(groups):
        first, tiles = _first_tile(arrays.flat, workspace.groups[i])
        for tile in range(first, first + tiles):
            if best < 0 or arrays.tile_bound[tile] > arrays.tile_bound[best]:
                best = np.int64(tile)
    return best


@kernel
def _rank_tile(
    rules, arrays, code, events, workspace, loaded, row, several, heaviest, ranking, tile
):
    """Score the rules of a tile that hold and could be among the best."""
    if _is_hopeless(ranking, arrays.tile_bound[tile], heaviest):
        return
    if several:
        holds = multivalued_tile_holds(arrays, code, 1, workspace, tile)
    else:
        rows = locate_rows(arrays, workspace.code, workspace, tile, 0)
        holds = tile_holds(arrays, workspace, tile, 0, rows)
    if not holds:
        return
    size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    for word in range(WIDE if size > NARROW * WORD else NARROW):
        hits = workspace.hits[word]
        while hits:
            bit = WORD * word + np.int64(lowest_bit(hits))
            hits &= hits - ONE
            place = np.int64(first + bit if bit < homes else arrays.member[others + bit - homes])
            if not _is_hopeless(ranking, arrays.bound[place], heaviest):
                _rank_candidate(rules, events, loaded, row, ranking, place)


@kernel
def _rank_tiles(
    rules, arrays, code, events, workspace, loaded, row, several, heaviest, ranking, groups
):
    """Score the rules of the groups' tiles, beginning with the most promising tile."""
    best = _best_tile(arrays, workspace, groups)
    if best < 0:
        return
    fixed = (rules, arrays, code, events, workspace, loaded, row, several, heaviest, ranking)
    _rank_tile(*fixed, best)
    for i in range(groups):
        first, tiles = _first_tile(arrays.flat, workspace.groups[i])
        for tile in range(first, first + tiles):
            if tile != best:
                _rank_tile(*fixed, tile)


@kernel
def _rank_block(
    rules, arrays, code, events, workspace, loaded, row, several, lacks, heaviest, ranking, block
):
    """Score the rules of a block's flat entries that hold and could be among the best.

    Returns the place of the next block, or -1.
    """
    flat = arrays.flat
    head = np.int64(flat[block])
    count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
    at = block + (4 if head & HAS_TILES else 2)
    following = np.int64(-1)
    if head & HAS_MORE:
        following = block + np.int64(flat[at])
        at += 1
    others = at + 2 * count - homes
    for entry in range(count):
        if flat[at + entry] & lacks:
            continue
        candidate = np.int64(flat[block + 1]) + entry
        if entry >= homes:
            candidate = np.int64(flat[others + entry])
        if _is_hopeless(ranking, arrays.bound[candidate], heaviest):
            continue
        word = np.int64(flat[at + count + entry])
        place = block + (word & OFFSET_MASK)
        if entry_holds(
            rules[0], rules[1], flat, arrays.width, workspace, code, 1, several, place,
            word >> KINDS_AT, candidate,
        ):  # fmt: skip
            _rank_candidate(rules, events, loaded, row, ranking, candidate)
    return following


@event_kernel
def top_rows(
    block,
    rules,
    start,
    attribute,
    code,
    events,
    row,
    last,
    mask,
    order,
    loaded,
    seen,
    seen_list,
    count,
    stack,
    counts,
    best,
    scores,
):
    """Write the best rules of the events from `row` up to, but not including, `last`.

    Parameters
    ----------
    block
        See `new_block`.
    rules
        The rules' atoms, forms and scores.
    start, attribute, code
        The events; see `match_rows`.
    events
        The same events as the encoder gave them, with their weights.
    mask, order, seen, seen_list, count, stack
        See `Ranking`.
    loaded
        Room to load an event for scoring.
    counts, best, scores
        How many rules each event has, and a row of rules and scores for each event, best first.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    for at in range(last - row):
        event = row + at
        first, end = start[event], start[event + 1]
        ranking = Ranking(mask, order, best[at], scores[at], seen, seen_list, count, stack)
        count[:] = 0
        has, several = load_event(arrays, workspace, attribute, code, 1, first, end)
        load_spans(events, event, loaded)
        groups = list_groups(arrays, workspace, attribute, code, 1, first, end, several)
        heaviest = heaviest_weight(events, event) * ROUNDING
        _rank_tiles(
            rules,
            arrays,
            code,
            events,
            workspace,
            loaded,
            event,
            several,
            heaviest,
            ranking,
            groups,
        )
        for i in range(groups):
            place = workspace.groups[i]
            while place >= 0:
                place = _rank_block(
                    rules,
                    arrays,
                    code,
                    events,
                    workspace,
                    loaded,
                    event,
                    several,
                    ~has,
                    heaviest,
                    ranking,
                    place,
                )
        if several:
            clear_visited(workspace, groups)
        for i in range(count[1]):
            seen[seen_list[i]] = 0
        unload_spans(events, event, loaded)
        unload_event(arrays, workspace, attribute, 1, first, end)
        counts[at] = count[0]
