"""The kernels that find the best rules without testing all candidates.

Filing a rule computes the most that it can score on an event whose attributes weigh at most 1; on
other events this bound is multiplied by the weight of the heaviest attribute. The tile with the
highest bound is tested first. From then on, a tile or an entry whose bound is below the worst score
kept, the *floor*, cannot change the result. One whose bound equals it can, because the older rule
wins. The conjunctions of a tile are sorted by falling bounds, so those above the floor are its
first ones. Where an event weighs its values, their weights in each conjunction (`bounds.py`) bound
all hits of a tile at once.

Where nothing has weights and conjunction i is rule i, bounds are scores. Else a rule whose bound
reaches the floor is scored by its tree, as in every engine.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.kernel import event_kernel, kernel, part
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader
from tamis.engines.kernels.bits import ALL_BITS, ONE, count_bits, lowest_bit
from tamis.engines.kernels.scores import ROUNDING, keep_best, score_rule
from tamis.engines.kernels.truth import LoadedEvent
from tamis.engines.kernels.truth import load_event as load_spans
from tamis.engines.kernels.truth import unload_event as unload_spans
from tamis.engines.score_bounds import heaviest_weight
from tamis.engines.tiles.arrays import NARROW, WIDE, WORD
from tamis.engines.tiles.bounds import BOUND_COLUMNS, TileWeights
from tamis.engines.tiles.flat_groups import (
    COUNT_MASK,
    HAS_MORE,
    HAS_TILES,
    HOMES_AT,
    KINDS_AT,
    OFFSET_MASK,
    entry_holds,
    read_widths,
)
from tamis.engines.tiles.groups import clear_visited, list_groups
from tamis.engines.tiles.tile_and import locate_rows, multivalued_tile_holds, tile_holds
from tamis.engines.tiles.workspace import (
    load_event,
    read_atoms,
    read_forms,
    read_tiles,
    read_workspace,
    unload_event,
)

__all__ = ["TopWorkspace", "new_top_block", "new_top_workspace", "top_event", "top_rows"]

_ANY = -1.0
"""A floor below all scores."""

_FEW = 4
"""So many hits of a tile are bounded one by one."""

_SLACK = np.float32(1.0001)
"""Above what rounding in single precision can change in a sum over a tile's rows."""


class TopWorkspace(NamedTuple):
    """Intermediate results of a search for the best rules. Belongs to one thread."""

    order: NDArray[np.int32]
    """Among equal scores, the rule with the lowest value here wins."""
    seen: NDArray[np.uint8]
    seen_list: NDArray[np.int32]
    """1 for each rule that was scored, and the list of these rules."""
    tally: NDArray[np.int64]
    """How many rules are kept, and how many were scored."""
    floor: NDArray[np.float64]
    """The score that a rule must reach to be among the best, less what rounding may add."""
    stack: NDArray[np.float64]
    """Room for the operands of the deepest rule, to score it."""
    sums: NDArray[np.float32]
    """What each conjunction of a tile may score."""
    span: NDArray[np.int64]
    text: NDArray[np.uint8]
    """See `LoadedEvent`."""
    start: NDArray[np.int64]
    text_start: NDArray[np.int64]
    attribute: NDArray[np.int32]
    code: NDArray[np.int32]
    texts: NDArray[np.int32]
    weight: NDArray[np.float64]
    """A single event, as `Events` has it; it has no weights. Its texts follow its attributes."""
    best: NDArray[np.int32]
    score: NDArray[np.float64]
    """The best rules of a single event, and their scores."""


def new_top_workspace(
    rules: EncodedRules, order: NDArray[np.int32], most: int, values: int
) -> TopWorkspace:
    """Allocate a workspace for the `most` best rules of an event of up to so many `values`."""
    return TopWorkspace(
        np.ascontiguousarray(order, np.int32),
        np.zeros(rules.size, np.uint8),
        np.empty(rules.size, np.int32),
        np.zeros(2, np.int64),
        np.zeros(1, np.float64),
        np.empty(rules.scores.depth, np.float64),
        np.empty(WIDE * WORD, np.float32),
        np.zeros((len(rules.dictionary.axes), 2), np.int64),
        np.zeros(rules.texts.size, np.uint8),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.empty(values, np.int32),
        np.empty(values, np.int32),
        np.empty(values, np.int32),
        np.empty(0, np.float64),
        np.empty(most, np.int32),
        np.empty(most, np.float64),
    )


class _TreeScores(NamedTuple):
    """The arrays of `ScoreArrays`."""

    start: NDArray[np.int64]
    code: NDArray[np.int32]
    weights: NDArray[np.int32]
    weight: NDArray[np.float64]


_SCORE_COLUMNS = {
    "start": Column(np.int64),
    "code": Column(np.int32),
    "weights": Column(np.int32),
    "weight": Column(np.float64),
}
_WORKSPACE_COLUMNS = {
    "order": Column(np.int32),
    "seen": Column(np.uint8),
    "seen_list": Column(np.int32),
    "tally": Column(np.int64),
    "floor": Column(np.float64),
    "stack": Column(np.float64),
    "sums": Column(np.float32),
    "span": Column(np.int64, 2),
    "text": Column(np.uint8),
    "start": Column(np.int64),
    "text_start": Column(np.int64),
    "attribute": Column(np.int32),
    "code": Column(np.int32),
    "texts": Column(np.int32),
    "weight": Column(np.float64),
    "best": Column(np.int32),
    "score": Column(np.float64),
}

_read_scores = make_reader(_TreeScores, 0, _SCORE_COLUMNS, "read_tree_scores")
_read_weights = make_reader(TileWeights, len(_SCORE_COLUMNS), BOUND_COLUMNS)
_read_top = make_reader(
    TopWorkspace,
    len(_SCORE_COLUMNS) + len(BOUND_COLUMNS),
    _WORKSPACE_COLUMNS,
    "read_tiles_top_workspace",
)


def new_top_block(
    rules: EncodedRules, weights: TileWeights, workspace: TopWorkspace
) -> AddressBlock:
    """The addresses of what kernels need for ranking, besides what matching needs."""
    return AddressBlock(
        (_read_scores, _TreeScores(*rules.scores[:4])),
        (_read_weights, weights),
        (_read_top, workspace),
    )


# --- Rules ---


@kernel
def _rank_rule(block, ranks, events, row, mask, rule, best, best_score):
    """Score a rule that holds, unless it is masked out or was scored before."""
    top = _read_top(ranks)
    if (len(mask) and not mask[rule]) or top.seen[rule]:
        return
    top.seen[rule] = 1
    top.seen_list[top.tally[1]] = rule
    top.tally[1] += 1
    loaded = LoadedEvent(top.span, top.text)
    score = score_rule(
        read_atoms(block), read_forms(block), _read_scores(ranks), events, loaded, row, rule,
        top.stack,
    )  # fmt: skip
    _keep(top, rule, score, best, best_score)


@part
def _keep(top, rule, score, best, best_score):
    """Keep a rule if it is among the best."""
    kept = keep_best(rule, score, top.order, best, best_score, top.tally[0])
    top.tally[0] = kept
    if kept == len(best):
        top.floor[0] = best_score[kept - 1] / ROUNDING


@part
def _rank_candidate(
    block, ranks, forms, top, events, row, mask, is_exact, bound, candidate, best, best_score
):
    """Rank the rules of a candidate that holds and has a bound above the floor."""
    program = candidate - (len(forms.conjunction_start) - 1)
    if is_exact and program < 0:
        # The bound of a whole number is the number, or the next one in single precision.
        score = np.floor(np.float64(bound))
        kept = top.tally[0]
        is_late = kept == len(best) and score == best_score[kept - 1]
        if is_late:
            is_late = top.order[candidate] > top.order[best[kept - 1]]
        if not is_late and (len(mask) == 0 or mask[candidate]):
            _keep_once(top, candidate, score, best, best_score)
        return
    first, last = np.int64(0), np.int64(1)
    if program < 0 and len(forms.owner):
        first, last = forms.owner_start[candidate], forms.owner_start[candidate + 1]
    for i in range(first, last):
        rule = np.int64(candidate)
        if program >= 0:
            rule = np.int64(forms.program_rule[program])
        elif len(forms.owner):
            rule = np.int64(forms.owner[i])
        _rank_rule(block, ranks, events, row, mask, rule, best, best_score)


@part
def _keep_once(top, rule, score, best, best_score):
    """Keep a rule that is its own conjunction, unless it was filed elsewhere, too."""
    if top.seen[rule] == 0:
        top.seen[rule] = 1
        top.seen_list[top.tally[1]] = rule
        top.tally[1] += 1
        _keep(top, rule, score, best, best_score)


# --- Tiles ---


@part
def _first_tile(flat, block):
    """The first tile of a group, and how many it has."""
    if flat[block] & np.uint32(HAS_TILES):
        return np.int64(flat[block + 2]), np.int64(flat[block + 3])
    return np.int64(0), np.int64(0)


@part
def _best_tile(arrays, workspace, groups):
    """The tile with the highest bound, or -1."""
    best = np.int64(-1)
    for i in range(groups):
        first, tiles = _first_tile(arrays.flat, workspace.groups[i])
        for tile in range(first, first + tiles):
            if best < 0 or arrays.tile_bound[tile] > arrays.tile_bound[best]:
                best = np.int64(tile)
    return best


@part
def _first_bits(size):
    """A word with its lowest bits set, up to all of them."""
    return ALL_BITS if size >= WORD else (ONE << np.uint64(max(size, 0))) - ONE


@part
def _drop_below(arrays, workspace, tile, words, heaviest, floor):
    """Clear the hits whose bounds are below the floor; returns how many are left.

    Bounds fall along a tile's run; those of its other conjunctions are looked at later.
    """
    first, homes = arrays.tile[tile, 2], arrays.tile[tile, 3]
    low, high = np.int64(0), np.int64(homes)
    while low < high:
        middle = (low + high) >> 1
        if arrays.bound[first + middle] * heaviest < floor:
            high = middle
        else:
            low = middle + 1
    left = np.int64(0)
    for word in range(words):
        kept = _first_bits(low - WORD * word) | ~_first_bits(homes - WORD * word)
        workspace.hits[word] &= kept
        left += np.int64(count_bits(workspace.hits[word]))
    return left


@part
def _drop_by_weights(weights, workspace, top, events, tile, size, words, floor):
    """Clear the hits whose sums over the tile's rows are below the floor."""
    sums = top.sums
    sums[:size] = np.float32(0)
    at = weights.weight_start[tile]
    for row in range(weights.row_start[tile], weights.row_start[tile + 1]):
        begin = top.span[weights.attribute[row], 0]
        # What an absent attribute would add does not matter: no hit needs it.
        if begin < top.span[weights.attribute[row], 1]:
            factor = np.float32(events.weight[begin]) * weights.unit[tile]
            for i in range(size):
                sums[i] += factor * np.float32(weights.weight[at + i])
        at += size
    bar = np.float64(floor)
    for word in range(words):
        rest = workspace.hits[word] & ~weights.is_loose[WIDE * tile + word]
        while rest:
            bit = lowest_bit(rest)
            rest &= rest - ONE
            if np.float64(sums[WORD * word + np.int64(bit)] * _SLACK) < bar:
                workspace.hits[word] &= ~(ONE << bit)


@kernel
def _rank_tile(
    block, ranks, code, events, row, mask, several, is_exact, heaviest, tile, best, best_score
):
    """Score the rules of a tile that hold and could be among the best."""
    arrays, workspace, forms = read_tiles(block), read_workspace(block), read_forms(block)
    top, weights = _read_top(ranks), _read_weights(ranks)
    if several:
        holds = multivalued_tile_holds(arrays, code, 1, workspace, tile)
    else:
        rows = locate_rows(arrays, workspace.code, workspace, tile, 0)
        holds = tile_holds(arrays, workspace, tile, 0, rows)
    if not holds:
        return
    size, first = arrays.tile[tile, 1], arrays.tile[tile, 2]
    homes, others = arrays.tile[tile, 3], arrays.tile[tile, 4]
    words = WIDE if size > NARROW * WORD else NARROW
    if top.floor[0] > 0:
        left = _drop_below(arrays, workspace, tile, words, heaviest, top.floor[0])
        if left > _FEW and len(weights.unit) and not several:
            _drop_by_weights(weights, workspace, top, events, tile, size, words, top.floor[0])
    for word in range(words):
        hits = workspace.hits[word]
        while hits:
            bit = WORD * word + np.int64(lowest_bit(hits))
            hits &= hits - ONE
            place = np.int64(first + bit if bit < homes else arrays.member[others + bit - homes])
            bound = arrays.bound[place]
            if bound * heaviest >= top.floor[0]:
                _rank_candidate(
                    block, ranks, forms, top, events, row, mask, is_exact, bound, place, best,
                    best_score,
                )  # fmt: skip


# --- Flat entries ---


@kernel
def _rank_block(
    block, ranks, code, events, row, mask, several, is_exact, lacks, heaviest, place, best,
    best_score,
):  # fmt: skip
    """Score the rules of a group's flat entries that hold and could be among the best."""
    arrays, workspace, forms = read_tiles(block), read_workspace(block), read_forms(block)
    atoms, top = read_atoms(block), _read_top(ranks)
    flat = arrays.flat
    while place >= 0:
        head = np.int64(flat[place])
        count, homes = head & COUNT_MASK, head >> HOMES_AT & COUNT_MASK
        at = place + (4 if head & HAS_TILES else 2)
        following = np.int64(-1)
        if head & HAS_MORE:
            following = place + np.int64(flat[at])
            at += 1
        others = at + 2 * count - homes
        for entry in range(count):
            if flat[at + entry] & lacks:
                continue
            candidate = np.int64(flat[place + 1]) + entry
            if entry >= homes:
                candidate = np.int64(flat[others + entry])
            bound = arrays.bound[candidate]
            if bound * heaviest < top.floor[0]:
                continue
            word = np.int64(flat[at + count + entry])
            if entry_holds(
                atoms, forms, flat, read_widths(arrays.width), workspace, code, 1, several,
                place + (word & OFFSET_MASK), word >> KINDS_AT, candidate,
            ):  # fmt: skip
                _rank_candidate(
                    block, ranks, forms, top, events, row, mask, is_exact, bound, candidate, best,
                    best_score,
                )  # fmt: skip
        place = following


# --- Events ---


@kernel
def _find_best(block, ranks, attribute, code, first, last, events, row, mask, best, best_score):
    """Write the best rules of an event; returns how many there are.

    Its entries, texts among them, are those from `first` up to, not including, `last`; `events` has
    it in the row `row`.
    """
    arrays, workspace = read_tiles(block), read_workspace(block)
    top, scores = _read_top(ranks), _read_scores(ranks)
    loaded = LoadedEvent(top.span, top.text)
    top.tally[:] = 0
    top.floor[0] = _ANY
    has, several = load_event(arrays, workspace, attribute, code, 1, first, last)
    load_spans(events, row, loaded)
    groups = list_groups(arrays, workspace, attribute, code, 1, first, last, several)
    heaviest = heaviest_weight(events, row)
    is_exact = len(scores.start) == 0 and len(events.weight) == 0 and not several
    if not is_exact:
        heaviest *= ROUNDING
    fixed = (block, ranks, code, events, row, mask, several, is_exact)
    promising = _best_tile(arrays, workspace, groups)
    if promising >= 0:
        _rank_tile(*fixed, heaviest, promising, best, best_score)
    for i in range(groups):
        begin, tiles = _first_tile(arrays.flat, workspace.groups[i])
        for tile in range(begin, begin + tiles):
            if tile != promising and arrays.tile_bound[tile] * heaviest >= top.floor[0]:
                _rank_tile(*fixed, heaviest, tile, best, best_score)
    for i in range(groups):
        _rank_block(*fixed, ~has, heaviest, workspace.groups[i], best, best_score)
    if several:
        clear_visited(workspace, groups)
    for i in range(top.tally[1]):
        top.seen[top.seen_list[i]] = 0
    unload_spans(events, row, loaded)
    unload_event(arrays, workspace, attribute, 1, first, last)
    return top.tally[0]


@event_kernel
def top_event(block, ranks, event, mask, n):
    """Find the `n` best rules of one event without weights, given as pairs; see `load_event`.

    Writes them to `TopWorkspace.best`, and returns how many there are. Each text predicate must
    hold for one value at most.
    """
    top = _read_top(ranks)
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
        top.start, top.attribute, top.code, top.text_start, top.texts, top.weight, top.weight
    )
    return _find_best(
        block, ranks, top.attribute, top.code, 0, size + texts, events, 0, mask, top.best[:n],
        top.score[:n],
    )  # fmt: skip


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
