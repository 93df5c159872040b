"""Keeping the best rules of an event, for engines that do not find all matching rules."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.engines.kernels.scores import keep_best, score_rule

__all__ = ["Ranking", "rank_rule"]


class Ranking(NamedTuple):
    """The best rules of one event so far."""

    mask: NDArray[np.uint8]
    """1 for each rule that may be returned; empty where all may."""
    order: NDArray[np.int32]
    """Among equal scores, the rule with the lowest value here wins."""
    rule: NDArray[np.int32]
    score: NDArray[np.float64]
    """The best rules and their scores, best first."""
    seen: NDArray[np.uint8]
    seen_list: NDArray[np.int32]
    """1 for each rule that was scored, and the list of these rules."""
    tally: NDArray[np.int64]
    """How many rules are kept, and how many were scored."""
    stack: NDArray[np.float64]
    """Room for the operands of the deepest rule, to score it."""


@kernel
def rank_rule(rules, events, loaded, row, ranking, rule):
    """Score a rule that holds, unless it is masked out or was scored before."""
    if (len(ranking.mask) and not ranking.mask[rule]) or ranking.seen[rule]:
        return
    ranking.seen[rule] = 1
    ranking.seen_list[ranking.tally[1]] = rule
    ranking.tally[1] += 1
    atoms, forms, scores = rules
    score = score_rule(atoms, forms, scores, events, loaded, row, rule, ranking.stack)
    ranking.tally[0] = keep_best(
        rule, score, ranking.order, ranking.rule, ranking.score, ranking.tally[0]
    )
