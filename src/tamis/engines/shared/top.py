"""The kernel that ranks matching rules, and skips those that cannot be among the best."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.kernels.scores import ROUNDING, keep_best, score_rule
from tamis.engines.kernels.truth import load_event, unload_event
from tamis.engines.score_bounds import heaviest_weight

__all__ = ["rank_bounded"]


@kernel
def rank_bounded(
    atoms, forms, scores, bound, events, loaded, row, rules, order, stack, best_rule, best_score
):
    """As `rank_rules`, for rules in the order of their ages, given the most that each can score.

    A rule that can at most equal the worst score kept loses to the older rule that has it.
    """
    most = heaviest_weight(events, row)
    if len(scores.weight) or len(events.weight):
        # Without weights all scores are whole numbers, and exact.
        most *= ROUNDING
    load_event(events, row, loaded)
    found = 0
    for rule in rules:
        if found == len(best_rule) and bound[rule] * most <= best_score[found - 1]:
            continue
        score = score_rule(atoms, forms, scores, events, loaded, row, rule, stack)
        found = keep_best(rule, score, order, best_rule, best_score, found)
    unload_event(events, row, loaded)
    return found
