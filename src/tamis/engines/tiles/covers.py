"""Chooses the cover of each program: the atoms under which it is filed.

One atom of a cover holds whenever the program does. An AND is covered by any of its operands, an OR
by all of them together; so the best cover is the cheapest choice of operands, where an atom costs
what the rules' own statistics say about how often events satisfy it. Encoding chose a cover before
it knew these statistics, by the kinds of the predicates (`tamis.expr.normalize.cover`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import TEXT_SHARE
from tamis.engines.tiles.access_keys import Keys, cost_of_key

__all__ = ["choose_covers"]


def choose_covers(rules: EncodedRules, keys: Keys, likely: NDArray[np.float64]) -> EncodedRules:
    """`rules` with the cover of each program that events satisfy least often.

    A cover may have negated atoms; a program is filed under the presence of their attributes.

    Parameters
    ----------
    rules
        The rules.
    keys
        The numbering of keys.
    likely
        The share of events that satisfy each atom; see `estimate_likelihood`.
    """
    forms, scores = rules.forms, rules.scores
    if len(forms.program_rule) == 0:
        return rules
    trees = scores.start, scores.code, forms.program_rule
    longest = int(np.diff(scores.start).max())
    cost, begin = np.empty(longest), np.empty(longest, np.int64)
    stack = np.empty(longest, np.int64)
    sizes = np.zeros(len(forms.program_rule), np.int64)
    prices = np.empty(len(likely))
    _price_atoms(rules.atoms.table, keys.sizes, likely, prices)
    none = np.empty(0, np.int32)
    _write_covers(*trees, prices, cost, begin, stack, none, sizes)
    start = starts(sizes)
    atom = np.empty(start[-1], np.int32)
    _write_covers(*trees, prices, cost, begin, stack, atom, sizes)
    return rules._replace(forms=forms._replace(cover_start=start, cover_atom=atom))


@kernel
def _price_atoms(table, sizes, likely, prices):
    """The cost of a cover by each atom; infinite where an event may lack the attribute."""
    for atom in range(len(table)):
        test = table[atom, 1]
        if test & IF_ABSENT:
            prices[atom] = np.inf
        elif test & 3 == TEXT and not test & NEGATED:
            # Every event with the attribute has to be searched for the text.
            prices[atom] = likely[atom] / TEXT_SHARE
        else:
            prices[atom] = cost_of_key(table, sizes, likely, atom)


@kernel
def _price_trees(code, first, last, prices, cost, begin):
    """The cost of the best cover of each subtree, and where the subtree begins.

    A tree is a score code in postfix order: an operand ends right before the next one begins.
    """
    for at in range(last - first):
        item = code[first + at]
        begin[at] = at
        if item >= 0:
            cost[at] = prices[item]
            continue
        is_or = (-item - 1) & 1
        cost[at] = 0.0 if is_or else np.inf
        for _ in range((-item - 1) >> 1):
            operand = begin[at] - 1
            cost[at] = cost[at] + cost[operand] if is_or else min(cost[at], cost[operand])
            begin[at] = begin[operand]


@kernel
def _write_covers(start, code, rules, prices, cost, begin, stack, out, sizes):
    """Count the atoms in the best cover of each program, and write them if `out` has room.

    None are written where events may match without having any attribute.
    """
    filled = 0
    for program in range(len(rules)):
        first, last = start[rules[program]], start[rules[program] + 1]
        _price_trees(code, first, last, prices, cost, begin)
        before = filled
        height = 0
        if cost[last - first - 1] < np.inf:
            stack[0] = last - first - 1
            height = 1
        while height:
            height -= 1
            at = stack[height]
            item = code[first + at]
            if item >= 0:
                if len(out):
                    out[filled] = item
                filled += 1
                continue
            is_or = (-item - 1) & 1
            end = at
            best = -1
            for _ in range((-item - 1) >> 1):
                operand = end - 1
                end = begin[operand]
                if is_or:
                    stack[height] = operand
                    height += 1
                elif best < 0 or cost[operand] < cost[best]:
                    best = operand
            if best >= 0:
                stack[height] = best
                height += 1
        sizes[program] = filled - before
