"""The most that a rule can score: what a search for the best rules need not look at."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, SET
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.normal_forms import are_sums

__all__ = [
    "MOST_BOUNDS",
    "bound_conjunctions",
    "bound_rules",
    "heaviest_weight",
    "highest_weight",
    "rank_bounds",
    "round_up",
]

MOST_BOUNDS: Final = 256
"""The most bounds that a byte can number. Up to so many distinct ones are exact, and so are all of
conjunctions without weights: they have at most LONGEST atoms (`tamis.expr.normalize`)."""

_DENSER: Final = 1.05
"""Of many bounds, each gap between those that are kept is so much wider than the one above it."""


def bound_rules(rules: EncodedRules) -> NDArray[np.float64]:
    """The most that each rule scores on an event whose attributes weigh at most 1."""
    bound = np.empty(rules.size, np.float64)
    if len(rules.scores.start):
        stack = np.empty(rules.scores.depth, np.float64)
        _score_bounds(rules.atoms.table, rules.scores, stack, bound)
    else:
        positive = ((rules.atoms.flags & NEGATED) == 0)[rules.forms.conjunction_atom]
        total = np.concatenate(([0], np.cumsum(positive)))
        bound[:] = np.diff(total[rules.forms.conjunction_start])
    return bound


def bound_conjunctions(rules: EncodedRules, by_rule: NDArray[np.float32]) -> NDArray[np.float32]:
    """The most that a rule scores by each conjunction; `by_rule` has the bound of each rule.

    The score of most rules is the best sum over a conjunction that holds (`are_sums`), so the sum
    over a conjunction is enough of a bound. Of other rules it is the bound of the rule.
    """
    forms = rules.forms
    if len(forms.conjunction_start) == 1:
        return np.empty(0, np.float32)
    if len(forms.owner) == 0:
        return by_rule
    bound = np.empty(len(forms.conjunction_start) - 1)
    _conjunction_bounds(rules.atoms.table, forms, rules.scores, are_sums(rules), by_rule, bound)
    return round_up(bound)


def round_up(bound: NDArray[np.float64]) -> NDArray[np.float32]:
    """Bounds in single precision, none of them lower than before."""
    with np.errstate(over="ignore"):  # a bound beyond float32 is infinite, and still a bound
        rounded = bound.astype(np.float32)
    return np.where(rounded < bound, np.nextafter(rounded, np.float32(np.inf)), rounded)


def rank_bounds(
    bound: NDArray[np.float32],
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """The place of each bound among the distinct ones, and these, rising.

    Of more than MOST_BOUNDS only so many are kept, and the others are rounded up to them. The
    highest are closest together, since the floor of a search for the best is among them.
    """
    distinct = np.unique(bound)
    more = len(distinct) - MOST_BOUNDS
    if more > 0:
        number = np.arange(MOST_BOUNDS)
        share = (_DENSER**number - 1) / (_DENSER ** (MOST_BOUNDS - 1) - 1)
        below_highest = number + np.floor(more * share).astype(np.int64)
        distinct = distinct[::-1][below_highest][::-1].copy()
    return np.searchsorted(distinct, bound).astype(np.uint8), distinct


@kernel
def _score_bounds(table, scores, stack, bound):
    """Score each rule as if every atom contributed the most it can."""
    weighted = len(scores.weights) > 0
    for rule in range(len(bound)):
        height = 0
        for place in range(scores.start[rule], scores.start[rule + 1]):
            code = scores.code[place]
            if code < 0:
                operands = (-code - 1) >> 1
                is_or = (-code - 1) & 1
                result = 0.0
                for i in range(height - operands, height):
                    result = max(result, stack[i]) if is_or else result + stack[i]
                height -= operands
                stack[height] = result
            elif table[code, 1] & NEGATED:
                stack[height] = 0.0
            else:
                stack[height] = 1.0
                first = scores.weights[place] if weighted else -1
                if first >= 0:
                    size = table[code, 3] - table[code, 2] if table[code, 1] & 3 == SET else 1
                    stack[height] = 0.0
                    for i in range(first, first + size):
                        stack[height] = max(stack[height], scores.weight[i])
            height += 1
        bound[rule] = stack[0]


@kernel
def highest_weight(table, scores, atom, rule):
    """The highest weight of an atom in a rule."""
    if len(scores.weights) == 0:
        return 1.0
    highest = 0.0
    for place in range(scores.start[rule], scores.start[rule + 1]):
        if scores.code[place] != atom:
            continue
        own = scores.weights[place]
        if own < 0:
            highest = max(highest, 1.0)
            continue
        size = table[atom, 3] - table[atom, 2] if table[atom, 1] & 3 == SET else 1
        for i in range(own, own + size):
            highest = max(highest, scores.weight[i])
    return highest


@kernel
def _conjunction_bounds(table, forms, scores, sums, by_rule, bound):
    """Add up the highest weights of each conjunction, in the rule in which they are highest."""
    for conjunction in range(len(bound)):
        bound[conjunction] = 0.0
        for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
            rule = forms.owner[i]
            total = np.inf
            if sums[rule]:
                total = 0.0
                first, last = forms.conjunction_start[conjunction : conjunction + 2]
                for k in range(first, last):
                    atom = forms.conjunction_atom[k]
                    if table[atom, 1] & NEGATED == 0:
                        total += highest_weight(table, scores, atom, rule)
            bound[conjunction] = max(bound[conjunction], min(total, by_rule[rule]))


@kernel
def heaviest_weight(events, row):
    """The weight of the heaviest attribute of an event, summed over its values."""
    heaviest = 0.0
    weight = 0.0
    weighted = len(events.weight) > 0
    for i in range(events.start[row], events.start[row + 1]):
        if i == events.start[row] or events.attribute[i] != events.attribute[i - 1]:
            weight = 0.0
        weight += events.weight[i] if weighted else 1.0
        heaviest = max(heaviest, weight)
    return heaviest
