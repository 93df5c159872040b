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
from tamis.engines.kernels.truth import LoadedEvent, program_holds
from tamis.engines.tiles.arrays import NARROW, WIDE, WORD
from tamis.engines.tiles.flat_entries import NOTHING_TO_TEST, packed_holds
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import locate_rows, multivalued_tile_holds, tile_holds
from tamis.engines.tiles.workspace import load_event, unload_event

__all__ = ["top_rows"]


@kernel
def _heaviest_weight(events, row):
    """The weight of the heaviest attribute of an event, summed over its values."""
    heaviest = 0.0
    weight = 0.0
    weighted = len(events.weight) > 0
    for i in range(events.start[row], events.start[row + 1]):
        if i == events.start[row] or events.attribute[i] != events.attribute[i - 1]:
            weight = 0.0
        weight += events.weight[i] if weighted else 1.0
        heaviest = max(heaviest, weight)
    return heaviest * ROUNDING


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


@kernel
def _best_tile(arrays, workspace, groups):
    """The tile with the highest bound, or -1."""
    best = -1
    for i in range(groups):
        group = workspace.groups[i] if workspace.groups[i] >= 0 else ~workspace.groups[i]
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            if best < 0 or arrays.tile_bound[tile] > arrays.tile_bound[best]:
                best = tile
    return best


@kernel
def _candidate_holds(rules, arrays, events, workspace, entry):
    """Whether the candidate of a flat entry holds."""
    (table, codes), forms, _ = rules
    candidate, at = arrays.flat[entry, 0], arrays.flat[entry, 1]
    program = candidate - (len(forms.conjunction_start) - 1)
    if program >= 0:
        start = forms.program_start[program]
        return program_holds(
            table, codes, events.code, workspace.span, workspace.text, forms.program, start
        )
    return at == NOTHING_TO_TEST or packed_holds(
        arrays.packed, at, table, codes, events.code, workspace.code, workspace.span, workspace.text
    )


@kernel
def _rank_tile(rules, arrays, events, workspace, loaded, row, several, heaviest, ranking, tile):
    """Score the rules of a tile that hold and could be among the best."""
    if _is_hopeless(ranking, arrays.tile_bound[tile], heaviest):
        return
    if several:
        holds = multivalued_tile_holds(arrays, events.code, workspace, tile)
    else:
        locate_rows(arrays, workspace.code, workspace, tile, 0)
        holds = tile_holds(arrays, workspace, tile, 0)
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
def _rank_tiles(rules, arrays, events, workspace, loaded, row, several, heaviest, ranking, groups):
    """Score the rules of the groups' tiles, beginning with the most promising tile."""
    best = _best_tile(arrays, workspace, groups)
    if best < 0:
        return
    _rank_tile(rules, arrays, events, workspace, loaded, row, several, heaviest, ranking, best)
    for i in range(groups):
        group = workspace.groups[i] if workspace.groups[i] >= 0 else ~workspace.groups[i]
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            if tile != best:
                _rank_tile(
                    rules, arrays, events, workspace, loaded, row, several, heaviest, ranking, tile
                )


@kernel
def _rank_flat(rules, arrays, events, workspace, loaded, row, lacking, heaviest, ranking, groups):
    """Score the rules of the groups' flat entries that hold and could be among the best."""
    for i in range(groups):
        group = workspace.groups[i] if workspace.groups[i] >= 0 else ~workspace.groups[i]
        for entry in range(arrays.group[group, 0], arrays.group[group + 1, 0]):
            candidate = np.int64(arrays.flat[entry, 0])
            if (
                arrays.signature[entry] & lacking == 0
                and not _is_hopeless(ranking, arrays.bound[candidate], heaviest)
                and _candidate_holds(rules, arrays, events, workspace, entry)
            ):
                _rank_candidate(rules, events, loaded, row, ranking, candidate)


@event_kernel
def top_rows(
    rules,
    arrays,
    events,
    row,
    last,
    mask,
    order,
    workspace,
    seen_list,
    count,
    stack,
    counts,
    best,
    scores,
):
    """See `Engine.top_kernel`; `rules` are their atoms, forms and scores."""
    loaded = LoadedEvent(workspace.span, workspace.text)
    for at in range(last - row):
        event = row + at
        ranking = Ranking(
            mask, order, best[at], scores[at], workspace.seen, seen_list, count, stack
        )
        count[:] = 0
        lacking, several = load_event(events, event, workspace, arrays.attribute_bit)
        groups = list_groups(
            arrays.levels, arrays.tree, arrays.slot, events, workspace, event, several
        )
        heaviest = _heaviest_weight(events, event)
        _rank_tiles(
            rules, arrays, events, workspace, loaded, event, several, heaviest, ranking, groups
        )
        _rank_flat(
            rules, arrays, events, workspace, loaded, event, lacking, heaviest, ranking, groups
        )
        if several:
            clear_visited(workspace, groups)
        for i in range(count[1]):
            workspace.seen[seen_list[i]] = 0
        unload_event(events, event, workspace)
        counts[at] = count[0]
