"""The kernels that find the best rules without testing all candidates.

Filing a rule computes the most that it can score on an event whose attributes weigh at most 1: its
*bound*. The tile with the highest bound is tested first. From then on, a rule that scores less than
the worst one kept, the *floor*, cannot change the result. One that scores as much can, because the
older rule wins. The floor tells the least bound that a rule must have, given the event's weights:
a rule scores at most as if its weight were spent on the heaviest attributes of the event, on each
of them no more than any rule spends on one attribute. The conjunctions of a tile are sorted by
falling bounds, so those above the least bound are its first ones. Where an event weighs its values,
their weights in each conjunction (`bounds.py`) bound a whole tile before it is tested, and the hits
that may score most are scored first. Flat entries follow, those of the highest bounds first.

Where nothing has weights and conjunction i is rule i, bounds are scores. Else a rule whose bound
reaches the floor is scored by its tree, as in every engine; if that is an AND of atoms, these are
added up without testing them again.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import Events
from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.bits import ONE, count_bits, lowest_bit, prefetch
from tamis.engines.kernels.scores import ROUNDING, add_up_scores, compute_score, keep_best
from tamis.engines.kernels.truth import LoadedEvent
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
    MOST_ENTRIES,
    OFFSET_MASK,
    entry_holds,
    read_widths,
)
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import (
    first_bits,
    locate_rows,
    multivalued_tile_holds,
    tile_holds,
)
from tamis.engines.tiles.top_workspace import MOST_HEAVY, read_scores, read_top, read_weights
from tamis.engines.tiles.workspace import (
    ENTRY_AT,
    KINDS_MASK,
    load_event,
    read_atoms,
    read_forms,
    read_tiles,
    read_workspace,
    unload_event,
)

__all__ = ["top_event", "top_rows"]

_ANY = -1.0
"""A floor below all scores."""

_FEW = 4
"""Up to this number, hits of a tile are bounded one by one."""

_ROUNDS = 4
_FALL = 0.8
"""In how many rounds entries are tested, and how far the bar falls from one to the next."""

_LEAST_SUM = 1e-30
"""Sums below this may have lost their digits in single precision."""

_SLACK = np.float32(1.0001)
"""Above what rounding in single precision can change in a sum over a tile's rows."""


# --- Rules ---


@kernel
def _score_tree(block, ranks, events, row, rule):
    """The score of a rule by its tree."""
    top = read_top(ranks)
    loaded = LoadedEvent(top.span, top.text)
    return compute_score(
        read_atoms(block), read_forms(block), read_scores(ranks), events, loaded, row, rule,
        top.stack,
    )  # fmt: skip


@kernel
def _insert(ranks, rule, score, best, best_score):
    """Keep a rule if it is among the best, and raise the floor."""
    top = read_top(ranks)
    kept = keep_best(rule, score, top.order, best, best_score, top.tally[0])
    top.tally[0] = kept
    if kept == len(best):
        floor = best_score[kept - 1] / ROUNDING
        if floor != top.floor[0]:
            top.floor[0] = floor
            top.floor[1] = _find_least_bound(top, floor)


@part
def _keep(ranks, top, rule, score, best, best_score):
    """Keep a rule if it is among the best."""
    if top.tally[0] < len(best) or score >= best_score[len(best) - 1]:
        _insert(ranks, rule, score, best, best_score)


@part
def _find_least_bound(top, floor):
    """The least bound of a rule that may score as much as `floor`."""
    if floor <= 0:
        return 0.0
    least = 0.0
    count, capacity = np.int64(top.spread[0]), top.spread[1]
    for i in range(count):
        if top.heaviest[i] <= 0:
            break
        most = capacity * top.heaviest[i]
        if most >= floor or i + 1 == len(top.heaviest):
            return (least + floor / top.heaviest[i]) / ROUNDING
        floor -= most
        least += capacity
    return np.inf


@part
def _list_heaviest(top, weights, events, row):
    """List the weights of an event's attributes, for `_find_least_bound`."""
    count = np.int64(0)
    capacity = np.inf
    if len(weights.capacity):
        capacity = weights.capacity[0] * ROUNDING
        at = events.start[row]
        while at < events.start[row + 1]:
            attribute = events.attribute[at]
            weight = 0.0
            while at < events.start[row + 1] and events.attribute[at] == attribute:
                weight += events.weight[at]
                at += 1
            if count < MOST_HEAVY:
                top.heaviest[count] = 0.0
                count += 1
            place = count - 1
            if weight > top.heaviest[place]:
                while place > 0 and top.heaviest[place - 1] < weight:
                    top.heaviest[place] = top.heaviest[place - 1]
                    place -= 1
                top.heaviest[place] = weight
    else:
        top.heaviest[0] = heaviest_weight(events, row)
        count = np.int64(1)
    top.spread[0], top.spread[1] = count, capacity


@part
def _rank_candidate(
    block, ranks, forms, top, events, row, mask, several, is_exact, bound, candidate, best,
    best_score,
):  # fmt: skip
    """Rank the rules of a candidate that holds and has a bound above the floor."""
    program = candidate - (len(forms.conjunction_start) - 1)
    if is_exact and program < 0:
        # The bound of a whole number is the number, or the next one in single precision.
        score = np.floor(np.float64(bound))
        kept = top.tally[0]
        is_late = kept == len(best) and score == best_score[kept - 1]
        if is_late:
            is_late = top.order[candidate] > top.order[best[kept - 1]]
        # A rule that is its own conjunction may be filed in several places, too.
        is_chosen = len(mask) == 0 or mask[candidate]
        if not is_late and is_chosen and top.seen[candidate] == 0:
            _see(top, candidate)
            _keep(ranks, top, candidate, score, best, best_score)
        return
    first, last = np.int64(0), np.int64(1)
    if program < 0 and len(forms.owner):
        first, last = forms.owner_start[candidate], forms.owner_start[candidate + 1]
    atoms, scores = read_atoms(block), read_scores(ranks)
    for i in range(first, last):
        rule = np.int64(candidate)
        if program >= 0:
            rule = np.int64(forms.program_rule[program])
        elif len(forms.owner):
            rule = np.int64(forms.owner[i])
        if (len(mask) and not mask[rule]) or top.seen[rule]:
            continue
        _see(top, rule)
        score = -1.0
        if not several and len(top.text) == 0:
            score = add_up_scores(atoms, forms, scores, events, top.span, rule)
        if score < 0:
            score = _score_tree(block, ranks, events, row, rule)
        _keep(ranks, top, rule, score, best, best_score)


@part
def _see(top, rule):
    """Note that a rule is scored."""
    top.seen[rule] = 1
    top.seen_list[top.tally[1]] = rule
    top.tally[1] += 1


# --- Tiles ---


@part
def _first_tile(flat, block):
    """The first tile of a group, and how many it has."""
    if flat[block] & np.uint32(HAS_TILES):
        return np.int64(flat[block + 2]), np.int64(flat[block + 3])
    return np.int64(0), np.int64(0)


@part
def _list_tiles(arrays, workspace, groups):
    """List the tiles of the groups, the one with the highest bound first; returns their number."""
    count = 0
    best = 0
    for i in range(groups):
        first, tiles = _first_tile(arrays.flat, workspace.groups[i])
        for tile in range(first, first + tiles):
            workspace.tiles[count] = tile
            if arrays.tile_bound[tile] > arrays.tile_bound[workspace.tiles[best]]:
                best = count
            count += 1
    if count:
        promising = workspace.tiles[best]
        workspace.tiles[best] = workspace.tiles[0]
        workspace.tiles[0] = promising
    return count


@part
def _count_above(arrays, tile, least):
    """How many conjunctions of a tile's run have a bound of `least` or more: bounds fall."""
    first = arrays.tile[tile, 2]
    low, high = np.int64(0), np.int64(arrays.tile[tile, 3])
    while low < high:
        middle = (low + high) >> 1
        if arrays.bounds[arrays.bound[first + middle]] < least:
            high = middle
        else:
            low = middle + 1
    return low


@part
def _drop_below(arrays, workspace, tile, words, low):
    """Clear the hits of a tile's run but the first `low` conjunctions; returns how many are left.

    The bounds of the tile's other conjunctions are looked at later.
    """
    homes = arrays.tile[tile, 3]
    left = np.int64(0)
    for word in range(words):
        kept = first_bits(low - WORD * word) | ~first_bits(homes - WORD * word)
        workspace.hits[word] &= kept
        left += np.int64(count_bits(workspace.hits[word]))
    return left


@part
def _add_row(sums, weight, at, first, last, factor):
    """Add the weights of a row, which begins at `at`, to the sums from `first` up to `last`."""
    # Unsigned, so that Numba does not check for negative indices, and adds whole vectors.
    begin = np.uint64(at)
    for i in range(np.uint64(first), np.uint64(last)):
        sums[i] += factor * np.float32(weight[begin + i])


@kernel
def _add_rows(ranks, weight_of, tile, size, low, homes):
    """Write what the first `low` conjunctions of a tile, and those of no run, may score."""
    weights, top = read_weights(ranks), read_top(ranks)
    sums = top.sums
    sums[:low] = np.float32(0)
    sums[homes:size] = np.float32(0)
    at = weights.weight_start[tile]
    for row in range(weights.row_start[tile], weights.row_start[tile + 1]):
        begin = top.span[weights.attribute[row], 0]
        # What an absent attribute would add does not matter: no hit needs it.
        if begin < top.span[weights.attribute[row], 1]:
            factor = np.float32(weight_of[begin]) * weights.unit[tile] * _SLACK
            _add_row(sums, weights.weight, at, 0, low, factor)
            if homes < size:
                _add_row(sums, weights.weight, at, homes, size, factor)
        at += size


@kernel
def _highest_of(sums):
    """The highest of some sums, none of which is negative."""
    highest = np.float32(0)
    for i in range(len(sums)):
        highest = max(highest, sums[i])
    return highest


@part
def _may_reach(weights, top, tile, size, low, homes):
    """Whether a conjunction whose sum is written may score as much as the floor."""
    if top.floor[0] <= _LEAST_SUM:
        return True
    for word in range(WIDE):
        if weights.is_loose[WIDE * tile + word]:
            return True
    highest = max(_highest_of(top.sums[:low]), _highest_of(top.sums[homes:size]))
    return highest >= np.float32(top.floor[0])


@part
def _take_highest(weights, workspace, top, tile, words):
    """Take the hit of a tile that may score most, and drop those below the floor; -1 if none is.

    Leaves the hits that rows do not bound.
    """
    bar = np.float32(top.floor[0] if top.floor[0] > _LEAST_SUM else 0)
    place = np.int64(-1)
    highest = np.float32(-1)
    for word in range(words):
        rest = workspace.hits[word] & ~weights.is_loose[WIDE * tile + word]
        while rest:
            bit = lowest_bit(rest)
            rest &= rest - ONE
            own = top.sums[WORD * word + np.int64(bit)]
            if own < bar:
                workspace.hits[word] &= ~(ONE << bit)
            elif own > highest:
                highest = own
                place = WORD * word + np.int64(bit)
    if place >= 0:
        workspace.hits[place >> 6] &= ~(ONE << np.uint64(place & 63))
    return place


@part
def _rank_tile(
    block, ranks, arrays, workspace, forms, top, weights, code, events, row, mask, several,
    is_exact, tile, best, best_score,
):  # fmt: skip
    """Score the rules of a tile that hold and could be among the best."""
    size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    low = np.int64(homes)
    if top.floor[0] > 0:
        low = _count_above(arrays, tile, top.floor[1])
    has_sums = len(weights.unit) > 0 and not several and low + size - homes > _FEW
    if has_sums:
        _add_rows(ranks, events.weight, tile, size, low, homes)
        if not _may_reach(weights, top, tile, size, low, homes):
            return
    if several:
        holds = multivalued_tile_holds(arrays, code, 1, workspace, tile)
    else:
        rows = locate_rows(arrays, workspace.code, workspace, tile, 0)
        holds = tile_holds(arrays, workspace, tile, 0, rows)
    if not holds:
        return
    words = WIDE if size > NARROW * WORD else NARROW
    left = _drop_below(arrays, workspace, tile, words, low)
    if has_sums and left > _FEW:
        # The best come first: they raise the floor above most of the others.
        bit = _take_highest(weights, workspace, top, tile, words)
        while bit >= 0:
            place = np.int64(first + bit if bit < homes else arrays.member[others + bit - homes])
            bound = arrays.bounds[arrays.bound[place]]
            _rank_candidate(
                block, ranks, forms, top, events, row, mask, several, is_exact, bound, place, best,
                best_score,
            )  # fmt: skip
            bit = _take_highest(weights, workspace, top, tile, words)
    for word in range(words):
        hits = workspace.hits[word]
        while hits:
            bit = WORD * word + np.int64(lowest_bit(hits))
            hits &= hits - ONE
            place = np.int64(first + bit if bit < homes else arrays.member[others + bit - homes])
            bound = arrays.bounds[arrays.bound[place]]
            if bound >= top.floor[1]:
                _rank_candidate(
                    block, ranks, forms, top, events, row, mask, several, is_exact, bound, place,
                    best, best_score,
                )  # fmt: skip


@kernel
def _rank_tiles(block, ranks, code, events, row, mask, several, is_exact, groups, best, best_score):
    """Score the rules of tiles that hold and could be among the best."""
    arrays, workspace, forms = read_tiles(block), read_workspace(block), read_forms(block)
    top, weights = read_top(ranks), read_weights(ranks)
    for i in range(_list_tiles(arrays, workspace, groups)):
        tile = np.int64(workspace.tiles[i])
        if arrays.tile_bound[tile] >= top.floor[1]:
            _rank_tile(
                block, ranks, arrays, workspace, forms, top, weights, code, events, row, mask,
                several, is_exact, tile, best, best_score,
            )  # fmt: skip


# --- Flat entries ---


@part
def _sift_block(arrays, workspace, least, block, lacks, entries):
    """List the entries of a block whose attributes the event has and whose bounds are high enough.

    Returns how many are listed now, the highest of their bounds, and the place of the next block,
    or -1.
    """
    flat = arrays.flat
    head = np.int64(flat[block])
    count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
    first = np.int64(flat[block + 1])
    at = block + (4 if head & HAS_TILES else 2)
    following = np.int64(-1)
    if head & HAS_MORE:
        following = block + np.int64(flat[at])
        at += 1
    directory = at + count
    others = directory + count - homes
    highest = np.float32(0)
    for i in range(count):
        if flat[at + i] & lacks:
            continue
        candidate = first + i if i < homes else np.int64(flat[others + i])
        bound = arrays.bounds[arrays.bound[candidate]]
        if bound >= least:
            word = np.int64(flat[directory + i])
            place = block + (word & OFFSET_MASK)
            prefetch(flat, place)
            workspace.entries[entries] = place << ENTRY_AT | word >> KINDS_AT
            workspace.candidates[entries] = candidate
            entries += 1
            highest = max(highest, bound)
    return entries, highest, following


@part
def _rank_entries(
    block, ranks, arrays, workspace, forms, atoms, top, code, events, row, mask, several, is_exact,
    entries, highest, best, best_score,
):  # fmt: skip
    """Score the rules of the listed entries that hold and could be among the best.

    Those of the highest bounds come first, in a few rounds: they raise the floor above others.
    """
    widths = read_widths(arrays.width)
    bar = float(highest)
    for turn in range(_ROUNDS):
        bar = bar * _FALL if turn + 1 < _ROUNDS else _ANY
        left = 0
        for k in range(entries):
            entry, candidate = workspace.entries[k], workspace.candidates[k]
            bound = arrays.bounds[arrays.bound[candidate]]
            if bound < top.floor[1]:
                continue
            if bound < bar:
                workspace.entries[left] = entry
                workspace.candidates[left] = candidate
                left += 1
            elif entry_holds(
                atoms, forms, arrays.flat, widths, workspace, code, 1, several,
                entry >> ENTRY_AT, entry & KINDS_MASK, candidate,
            ):  # fmt: skip
                _rank_candidate(
                    block, ranks, forms, top, events, row, mask, several, is_exact, bound,
                    candidate, best, best_score,
                )  # fmt: skip
        entries = left
        if entries == 0:
            break


@kernel
def _rank_flat(
    block, ranks, code, events, row, mask, several, is_exact, lacks, groups, best, best_score,
):  # fmt: skip
    """Score the rules of flat entries that hold and could be among the best."""
    arrays, workspace, forms = read_tiles(block), read_workspace(block), read_forms(block)
    atoms, top = read_atoms(block), read_top(ranks)
    entries = at = 0
    highest = np.float32(0)
    place = np.int64(-1)
    while place >= 0 or at < groups or entries:
        if place < 0 and at < groups:
            place = workspace.groups[at]
            at += 1
        if place >= 0:
            entries, bound, place = _sift_block(
                arrays, workspace, top.floor[1], place, lacks, entries
            )
            highest = max(highest, bound)
        is_last = place < 0 and at == groups
        if is_last or entries + MOST_ENTRIES > len(workspace.entries):
            _rank_entries(
                block, ranks, arrays, workspace, forms, atoms, top, code, events, row, mask,
                several, is_exact, entries, highest, best, best_score,
            )  # fmt: skip
            entries = 0


# --- Events ---


@kernel
def _find_best(block, ranks, attribute, code, first, last, events, row, mask, best, best_score):
    """Write the best rules of an event; returns how many there are.

    Its entries, texts among them, are those from `first` up to, not including, `last`; `events` has
    it in the row `row`.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    top, scores = read_top(ranks), read_scores(ranks)
    loaded = LoadedEvent(top.span, top.text)
    top.tally[:] = 0
    top.floor[:] = _ANY
    has, several = load_event(arrays, workspace, attribute, code, 1, first, last)
    load_spans(events, row, loaded)
    groups = list_groups(arrays, workspace, attribute, code, 1, first, last, several)
    _list_heaviest(top, read_weights(ranks), events, row)
    is_exact = len(scores.start) == 0 and len(events.weight) == 0 and not several
    fixed = (block, ranks, code, events, row, mask, several, is_exact)
    _rank_tiles(*fixed, groups, best, best_score)
    _rank_flat(*fixed, ~has, groups, best, best_score)
    if several:
        clear_visited(workspace, groups)
    for i in range(top.tally[1]):
        top.seen[top.seen_list[i]] = 0
    unload_spans(events, row, loaded)
    unload_event(arrays, workspace, attribute, 1, first, last)
    return top.tally[0]


@event_kernel
def top_event(block, ranks, event, weight, mask, n):
    """Find the `n` best rules of one event, given as pairs; see `load_event`.

    Writes them to `TopWorkspace.best`, their ids to `best_id`, and returns how many there are.
    `weight` has the weight of each pair, or is empty. Each text predicate must hold for one value
    at most, and for none if there are weights.
    """
    top = read_top(ranks)
    attributes = len(top.span)
    size = texts = np.int64(0)
    pairs = len(event) >> 1
    for i in range(pairs):
        if event[2 * i] < attributes:
            top.attribute[size] = event[2 * i]
            top.code[size] = event[2 * i + 1]
            size += 1
    for i in range(pairs if len(top.text) else 0):
        if event[2 * i] >= attributes:
            top.attribute[size + texts] = event[2 * i]
            top.code[size + texts] = event[2 * i + 1]
            top.texts[texts] = event[2 * i] - attributes
            texts += 1
    top.start[1] = size
    top.text_start[1] = texts
    events = Events(
        top.start, top.attribute, top.code, top.text_start, top.texts, weight, top.weight
    )
    found = _find_best(
        block, ranks, top.attribute, top.code, 0, size + texts, events, 0, mask, top.best[:n],
        top.score[:n],
    )  # fmt: skip
    if len(top.ids):
        for i in range(found):
            top.best_id[i] = top.ids[top.best[i]]
    return found


@event_kernel
def top_rows(block, ranks, start, attribute, code, events, row, last, mask, counts, best, scores):
    """Write the best rules of the events from `row` up to, but not including, `last`.

    Parameters
    ----------
    block, ranks
        See `new_block` and `new_top_block`.
    start, attribute, code
        The events; see `match_rows`.
    events
        The same events as the encoder gave them, with their weights.
    mask
        1 for each rule that may be returned; empty where all may.
    counts, best, scores
        How many rules each event has, and a row of rules and scores for each event, best first.
    """
    for at in range(last - row):
        event = row + at
        counts[at] = _find_best(
            block, ranks, attribute, code, start[event], start[event + 1], events, event, mask,
            best[at], scores[at],
        )  # fmt: skip
