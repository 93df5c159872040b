"""Chooses the cover of each program: the atoms under which it is filed.

One atom of a cover holds whenever the program does. An AND is covered by any of its operands, an OR
by all of them together; so the best cover is the cheapest choice of operands, where an atom costs
what the rules' own statistics say about how often events satisfy it. Encoding chose a cover before
it knew these statistics, by the kinds of the predicates (`tamis.expr.normalize.cover`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules

__all__ = ["Covers", "choose_covers", "choose_pairs"]


class Covers(NamedTuple):
    """The covers of all programs."""

    start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each program's cover, of which one holds whenever the program does. None where
    events may match without having any attribute."""
    required: NDArray[np.int32]
    """One more atom that holds whenever the program does; as many as there are atoms if none is
    known."""


def choose_covers(rules: EncodedRules, price: NDArray[np.float64]) -> Covers:
    """Choose the cheapest cover of each program.

    A cover may have negated atoms, which hold only where their attribute is present.

    Parameters
    ----------
    rules
        The rules.
    price
        The cost of each atom, mostly how often events satisfy it. It is infinite for atoms that
        hold on an absent attribute.
    """
    return _choose(rules, price, False)


def choose_pairs(rules: EncodedRules, price: NDArray[np.float64]) -> Covers:
    """As `choose_covers`, for an engine that looks for pairs of a cover's atom and a required one.

    Where a program is an AND of atoms and of ORs, the rarest of those atoms is required, and the
    cheapest OR is its cover.
    """
    return _choose(rules, price, True)


def _choose(rules: EncodedRules, price: NDArray[np.float64], pairs: bool) -> Covers:
    forms, scores = rules.forms, rules.scores
    size = len(forms.program_rule)
    required = np.full(size, len(price), np.int32)
    if size == 0:
        return Covers(np.zeros(1, np.int64), np.empty(0, np.int32), required)
    trees = scores.start, scores.code, forms.program_rule, price
    longest = int(np.diff(scores.start).max())
    room = np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64)
    sizes = np.zeros(size, np.int64)
    _write_covers(*trees, pairs, *room, np.empty(0, np.int32), sizes, required)
    start = starts(sizes)
    atom = np.empty(start[-1], np.int32)
    _write_covers(*trees, pairs, *room, atom, sizes, required)
    return Covers(start, atom, required)


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
def _find_required(code, first, root, cost, begin):
    """The places of the cheapest atom and of the cheapest OR below an AND; -1 if it has none."""
    atom = tree = -1
    item = code[first + root]
    if item >= 0 or (-item - 1) & 1:
        return atom, tree
    end = root
    for _ in range((-item - 1) >> 1):
        operand = end - 1
        end = begin[operand]
        if cost[operand] == np.inf:
            continue
        if code[first + operand] >= 0:
            if atom < 0 or cost[operand] < cost[atom]:
                atom = operand
        elif tree < 0 or cost[operand] < cost[tree]:
            tree = operand
    return atom, tree


@kernel
def _write_covers(start, code, rules, prices, pairs, cost, begin, stack, out, sizes, required):
    """Count the atoms in the best cover of each program, and write them if `out` has room."""
    filled = 0
    for program in range(len(rules)):
        first, last = start[rules[program]], start[rules[program] + 1]
        _price_trees(code, first, last, prices, cost, begin)
        root = last - first - 1
        if pairs:
            atom, tree = _find_required(code, first, root, cost, begin)
            if atom >= 0 and tree >= 0:
                required[program] = code[first + atom]
                root = tree
        before = filled
        height = 0
        if cost[root] < np.inf:
            stack[0] = root
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
