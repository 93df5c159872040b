"""The working memory of a search for the best rules, and its addresses for kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader
from tamis.engines.tiles.arrays import WIDE, WORD
from tamis.engines.tiles.bounds import BOUND_COLUMNS, TileWeights

__all__ = [
    "MOST_HEAVY",
    "TopWorkspace",
    "new_top_block",
    "new_top_workspace",
    "read_scores",
    "read_top",
    "read_weights",
]

MOST_HEAVY = 32
"""How many weights of an event are considered; the others count as the last of these."""


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
    """The score that a rule must reach to be among the best, less what rounding may add; and the
    bound that it must have for that."""
    heaviest: NDArray[np.float64]
    """The weights of the event's heaviest attributes, falling."""
    spread: NDArray[np.float64]
    """How many of them there are, and how much of a bound each of them may have at most."""
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
    """A single event, as `Events` has it; its texts, which follow its attributes, have no
    weights."""
    best: NDArray[np.int32]
    score: NDArray[np.float64]
    """The best rules of a single event, and their scores."""
    ids: NDArray[np.int64]
    best_id: NDArray[np.int64]
    """The ids of all rules, if they are integers, and those of the best."""


def new_top_workspace(
    rules: EncodedRules,
    order: NDArray[np.int32],
    ids: NDArray[np.int64],
    most: int,
    values: int,
) -> TopWorkspace:
    """Allocate a workspace for the `most` best rules of an event of up to so many `values`."""
    return TopWorkspace(
        np.ascontiguousarray(order, np.int32),
        np.zeros(rules.size, np.uint8),
        np.empty(rules.size, np.int32),
        np.zeros(2, np.int64),
        np.zeros(2, np.float64),
        np.zeros(MOST_HEAVY, np.float64),
        np.zeros(2, np.float64),
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
        np.ascontiguousarray(ids, np.int64),
        np.empty(most, np.int64),
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
    "heaviest": Column(np.float64),
    "spread": Column(np.float64),
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
    "ids": Column(np.int64),
    "best_id": Column(np.int64),
}

read_scores = make_reader(_TreeScores, 0, _SCORE_COLUMNS, "read_tree_scores")
read_weights = make_reader(TileWeights, len(_SCORE_COLUMNS), BOUND_COLUMNS)
read_top = make_reader(
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
        (read_scores, _TreeScores(*rules.scores[:4])),
        (read_weights, weights),
        (read_top, workspace),
    )
