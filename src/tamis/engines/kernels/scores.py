"""Kernels that score matching rules and keep the best.

They add in the order of `tamis.expr.evaluate.score_flat`, so their scores equal its scores to the
last bit.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import NEGATED, SET, TEXT
from tamis.encode.kernel import event_kernel, kernel, part
from tamis.engines.kernels.truth import atom_holds, find_code, load_event, unload_event

__all__ = [
    "ROUNDING",
    "add_up_scores",
    "compute_score",
    "keep_best",
    "rank_rules",
    "score_rule",
]

ROUNDING = 1.0 + 1e-9
"""A factor above what adding up the same scores in another order can change."""

_FAILED = -1.0
"""The score of what does not hold; real scores are not negative."""


@part
def _score_atom(atoms, weight, events, loaded, row, atom, weights):
    """The score of an atom whose weights begin at `weights`, or -1 if it does not hold."""
    table, codes = atoms
    span, text = loaded
    code = events.code
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    if test & NEGATED:
        return 0.0 if atom_holds(table, codes, code, span, text, atom) else _FAILED
    own = weight[weights] if weights >= 0 else 1.0
    total = 0.0
    satisfied = False
    if test & 3 == TEXT:
        if not text[low]:
            return _FAILED
        for i in range(events.text_start[row], events.text_start[row + 1]):
            if events.text[i] == low:
                total += own * (events.text_weight[i] if len(events.text_weight) else 1.0)
        return total
    for i in range(span[table[atom, 0], 0], span[table[atom, 0], 1]):
        if test & 3 == SET:
            at = find_code(codes, low, high, code[i])
            if at < 0:
                continue
            own = weight[weights + at - low] if weights >= 0 else 1.0
        elif not low <= code[i] <= high:
            continue
        satisfied = True
        total += own * (events.weight[i] if len(events.weight) else 1.0)
    return total if satisfied else _FAILED


@part
def _score_conjunction(atoms, forms, weight, events, loaded, row, conjunction):
    """The sum of the scores of a conjunction's atoms, or -1 if one does not hold."""
    total = 0.0
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        score = _score_atom(atoms, weight, events, loaded, row, forms.conjunction_atom[i], -1)
        if score < 0:
            return _FAILED
        total += score
    return total


@kernel
def _end_of_and(code, place, last):
    """The place of the AND over the atom at `place` if only atoms are between, else -1."""
    end = place + 1
    while end < last and code[end] >= 0:
        end += 1
    if end == last:
        return -1
    operands, is_or = (-code[end] - 1) >> 1, (-code[end] - 1) & 1
    return end if not is_or and end - place <= operands else -1


@part
def compute_score(atoms, forms, scores, events, loaded, row, rule, stack):
    """As `score_rule`, inlined: its many arrays would take longer to pass than to use."""
    if len(scores.start) == 0:
        return _score_conjunction(atoms, forms, scores.weight, events, loaded, row, rule)
    height = 0
    place, last = scores.start[rule], scores.start[rule + 1]
    while place < last:
        code = scores.code[place]
        if code >= 0:
            weights = scores.weights[place] if len(scores.weights) else -1
            score = _score_atom(atoms, scores.weight, events, loaded, row, code, weights)
            end = _end_of_and(scores.code, place, last) if score < 0 else -1
            if end >= 0:
                # The AND fails whatever the other operands are, so they are skipped.
                height += end - place - ((-scores.code[end] - 1) >> 1)
                place = end
            stack[height] = score
            height += 1
            place += 1
            continue
        operands = (-code - 1) >> 1
        is_or = (-code - 1) & 1
        result = _FAILED if is_or else 0.0
        for i in range(height - operands, height):
            if is_or:
                result = max(result, stack[i])
            elif result >= 0:
                result = result + stack[i] if stack[i] >= 0 else _FAILED
        height -= operands
        stack[height] = result
        height += 1
        place += 1
    return stack[0]


@part
def _add_up_conjunction(atoms, forms, events, span, conjunction):
    """The score of a rule that is a conjunction, has no weights, and holds."""
    total = 0.0
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        atom = forms.conjunction_atom[i]
        if atoms.table[atom, 1] & NEGATED == 0:
            weight = 1.0
            if len(events.weight):
                weight = events.weight[span[atoms.table[atom, 0], 0]]
            total += weight
    return total


@part
def add_up_scores(atoms, forms, scores, events, span, rule):
    """The score of a rule that is an AND of atoms and holds, without testing it; -1 for others.

    No attribute of the event may have several values, and no rule may have text predicates.
    """
    if len(scores.start) == 0:
        return _add_up_conjunction(atoms, forms, events, span, rule)
    table, codes = atoms
    first, last = scores.start[rule], scores.start[rule + 1]
    if last - first > 1:
        last -= 1
        if scores.code[last] != -(2 * (last - first) + 1):
            return _FAILED
    total = 0.0
    for place in range(first, last):
        atom = scores.code[place]
        if atom < 0:
            return _FAILED
        if table[atom, 1] & NEGATED:
            continue
        entry = span[table[atom, 0], 0]
        own = 1.0
        if len(scores.weights) and scores.weights[place] >= 0:
            at = np.int64(scores.weights[place])
            if table[atom, 1] & 3 == SET:
                low = table[atom, 2]
                at += find_code(codes, low, table[atom, 3], events.code[entry]) - low
            own = scores.weight[at]
        total += own * (events.weight[entry] if len(events.weight) else 1.0)
    return total


@kernel
def score_rule(atoms, forms, scores, events, loaded, row, rule, stack):
    """The score of a rule on the loaded event, or -1 if it does not hold."""
    return compute_score(atoms, forms, scores, events, loaded, row, rule, stack)


@kernel
def _is_better(score, order, other_score, other_order):
    return score > other_score or (score == other_score and order < other_order)


@kernel
def keep_best(rule, score, order, best_rule, best_score, found):
    """Insert a rule among the best if it belongs there; returns how many are kept now."""
    if found == len(best_rule):
        if not _is_better(score, order[rule], best_score[-1], order[best_rule[-1]]):
            return found
    else:
        found += 1
    at = found - 1
    while at > 0 and _is_better(score, order[rule], best_score[at - 1], order[best_rule[at - 1]]):
        best_score[at] = best_score[at - 1]
        best_rule[at] = best_rule[at - 1]
        at -= 1
    best_score[at] = score
    best_rule[at] = rule
    return found


@event_kernel
def rank_rules(
    atoms, forms, scores, events, loaded, row, rules, order, stack, best_rule, best_score
):
    """Write the best of `rules`, all of which the event matches; returns how many were written.

    Best first; among equal scores, the rule whose `order` is lowest. `stack` has room for the
    operands of the deepest rule.
    """
    if len(best_rule) == 0:
        return 0
    load_event(events, row, loaded)
    found = 0
    for rule in rules:
        score = score_rule(atoms, forms, scores, events, loaded, row, rule, stack)
        found = keep_best(rule, score, order, best_rule, best_score, found)
    unload_event(events, row, loaded)
    return found
