"""The kernels that find the best rules without looking at all.

What a rule scores at most is known when it is filed (`prepare.py`), for an event whose attributes
weigh 1 at most; on another event it is as many times as much as its heaviest attribute weighs. The
tile with the highest bound comes first. From then on, a tile or an entry whose bound is below the
worst score that was kept cannot change the result. One that equals it can: the older rule wins.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.kernel import kernel, part
from tamis.engines.bits import lowest_bit
from tamis.engines.scores import keep_best, rule_score
from tamis.engines.tiles.arrays import NARROW, WIDE, WORD
from tamis.engines.tiles.desk import load, unload
from tamis.engines.tiles.groups import forget, gather
from tamis.engines.tiles.holds import any_holds, ask_for_rows, tile_holds
from tamis.engines.tiles.packed import NOTHING_TO_TEST, packed_holds
from tamis.engines.truth import Loaded, program_holds

__all__ = ["top_rows"]

_ONE = np.uint64(1)
_ROUNDING = 1.0 + 1e-9
"""What additions in another order may add to a score, and more."""


@kernel
def _heaviest(events, row):
    """What the heaviest attribute of an event weighs, all its values together."""
    heaviest = 0.0
    weight = 0.0
    weighted = len(events.weight) > 0
    for i in range(events.start[row], events.start[row + 1]):
        if i == events.start[row] or events.attribute[i] != events.attribute[i - 1]:
            weight = 0.0
        weight += events.weight[i] if weighted else 1.0
        heaviest = max(heaviest, weight)
    return heaviest * _ROUNDING


@kernel
def _consider(
    atoms, forms, scores, events, loaded, row, rule, mask, marks, order, stack, best, found, noted
):
    """Score a rule that holds, once; returns how many are kept, and how many marks are set."""
    seen, seen_list = marks
    best_rule, best_score = best
    if (len(mask) and not mask[rule]) or seen[rule]:
        return found, noted
    seen[rule] = 1
    seen_list[noted] = rule
    score = rule_score(atoms, forms, scores, events, loaded, row, rule, stack)
    return keep_best(rule, score, order, best_rule, best_score, found), noted + 1


@kernel
def _consider_owners(
    atoms, forms, scores, events, loaded, row, place, mask, marks, order, stack, best, found, noted
):
    """Score the rules of a conjunction that holds."""
    if len(forms.owner) == 0:
        return _consider(
            atoms,
            forms,
            scores,
            events,
            loaded,
            row,
            place,
            mask,
            marks,
            order,
            stack,
            best,
            found,
            noted,
        )
    for i in range(forms.owner_start[place], forms.owner_start[place + 1]):
        found, noted = _consider(
            atoms,
            forms,
            scores,
            events,
            loaded,
            row,
            np.int64(forms.owner[i]),
            mask,
            marks,
            order,
            stack,
            best,
            found,
            noted,
        )
    return found, noted


@part
def _is_hopeless(bound, heaviest, best_score, found):
    """Whether what scores `bound` at most can be passed over."""
    return found == len(best_score) and bound * heaviest < best_score[found - 1]


@kernel
def _best_tile(arrays, desk, groups):
    """The tile with the highest bound, or -1."""
    best = -1
    for i in range(groups):
        group = desk.groups[i] if desk.groups[i] >= 0 else ~desk.groups[i]
        for tile in range(arrays.group[group, 1], arrays.group[group + 1, 1]):
            if best < 0 or arrays.tile_bound[tile] > arrays.tile_bound[best]:
                best = tile
    return best


@kernel
def _top_tile(
    atoms,
    forms,
    scores,
    arrays,
    events,
    desk,
    loaded,
    row,
    tile,
    several,
    heaviest,
    mask,
    marks,
    order,
    stack,
    best,
    found,
    noted,
):
    """Score the rules of a tile that hold and may be among the best."""
    if _is_hopeless(arrays.tile_bound[tile], heaviest, best[1], found):
        return found, noted
    if several:
        holds = any_holds(arrays, events.code, desk, tile)
    else:
        ask_for_rows(arrays, desk.code, desk, tile, 0)
        holds = tile_holds(arrays, desk, tile, 0)
    if holds:
        size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
        homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
        for word in range(WIDE if size > NARROW * WORD else NARROW):
            hits = desk.hits[word]
            while hits:
                bit = WORD * word + np.int64(lowest_bit(hits))
                hits &= hits - _ONE
                place = np.int64(
                    first + bit if bit < homes else arrays.member[others + bit - homes]
                )
                if not _is_hopeless(arrays.bound[place], heaviest, best[1], found):
                    found, noted = _consider_owners(
                        atoms,
                        forms,
                        scores,
                        events,
                        loaded,
                        row,
                        place,
                        mask,
                        marks,
                        order,
                        stack,
                        best,
                        found,
                        noted,
                    )
    return found, noted


@kernel
def _candidate_holds(atoms, forms, arrays, events, desk, entry):
    """Whether the candidate of a flat entry holds."""
    table, codes = atoms
    candidate, at = arrays.flat[entry, 0], arrays.flat[entry, 1]
    program = candidate - (len(forms.conjunction_start) - 1)
    if program >= 0:
        start = forms.program_start[program]
        return program_holds(table, codes, events.code, desk.span, desk.text, forms.program, start)
    return at == NOTHING_TO_TEST or packed_holds(
        arrays.packed, at, table, codes, events.code, desk.code, desk.span, desk.text
    )


@kernel
def top_rows(
    atoms,
    forms,
    scores,
    arrays,
    desk,
    events,
    row,
    last,
    mask,
    seen_list,
    order,
    stack,
    counts,
    best_rules,
    best_scores,
):
    """As `Engine.run_top`."""
    conjunctions = len(forms.conjunction_start) - 1
    loaded = Loaded(desk.span, desk.text)
    marks = desk.seen, seen_list
    for at in range(last - row):
        event = row + at
        best = best_rules[at], best_scores[at]
        lacking, several = load(events, event, desk, arrays.attribute_bit)
        heaviest = _heaviest(events, event)
        groups = gather(arrays.levels, arrays.tree, arrays.slot, events, desk, event, several)
        found = np.int64(0)
        noted = np.int64(0)
        first_tile = _best_tile(arrays, desk, groups)
        for i in range(-1, groups):
            group = 0 if i < 0 else desk.groups[i]
            group = ~group if group < 0 else group
            begin = first_tile if i < 0 else arrays.group[group, 1]
            end = first_tile + (first_tile >= 0) if i < 0 else arrays.group[group + 1, 1]
            for tile in range(begin, end):
                if i < 0 or tile != first_tile:
                    found, noted = _top_tile(
                        atoms,
                        forms,
                        scores,
                        arrays,
                        events,
                        desk,
                        loaded,
                        event,
                        tile,
                        several,
                        heaviest,
                        mask,
                        marks,
                        order,
                        stack,
                        best,
                        found,
                        noted,
                    )
        for i in range(groups):
            group = desk.groups[i]
            group = ~group if group < 0 else group
            for entry in range(arrays.group[group, 0], arrays.group[group + 1, 0]):
                if arrays.signature[entry] & lacking:
                    continue
                candidate = np.int64(arrays.flat[entry, 0])
                if _is_hopeless(arrays.bound[candidate], heaviest, best[1], found):
                    continue
                if not _candidate_holds(atoms, forms, arrays, events, desk, entry):
                    continue
                if candidate < conjunctions:
                    found, noted = _consider_owners(
                        atoms,
                        forms,
                        scores,
                        events,
                        loaded,
                        event,
                        candidate,
                        mask,
                        marks,
                        order,
                        stack,
                        best,
                        found,
                        noted,
                    )
                else:
                    found, noted = _consider(
                        atoms,
                        forms,
                        scores,
                        events,
                        loaded,
                        event,
                        np.int64(forms.program_rule[candidate - conjunctions]),
                        mask,
                        marks,
                        order,
                        stack,
                        best,
                        found,
                        noted,
                    )
        if several:
            forget(desk, groups)
        for i in range(noted):
            desk.seen[seen_list[i]] = 0
        unload(events, event, desk)
        counts[at] = found
