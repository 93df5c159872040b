"""The weights of plain rules: those of values of ``=`` and ``IN``.

Weights of other predicates, and weights that may be refused, are left to
:class:`~tamis.encode.rules.RuleEncoder`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, SET, ScoreArrays
from tamis.encode.dictionary import Dictionary
from tamis.encode.kernel import kernel
from tamis.encode.ragged import starts
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.errors import RuleError
from tamis.expr.model import value_of_literal

__all__ = ["BY_PREDICATE", "BY_VALUE", "UNCLEAR", "weigh_rules"]

BY_PREDICATE: Final = 0
BY_VALUE: Final = 1
UNCLEAR: Final = 2
"""How an atom is weighed: by its predicates, none of which is an ``=`` or an ``IN``; by its values;
or one or the other, since it is the same for ``x = 5`` and ``x BETWEEN 5 AND 5``."""


_MOST: Final = sys.float_info.max


def weigh_rules(
    rules: EncodedRules,
    weighed: NDArray[np.uint8],
    weights: Mapping[int, Mapping[Any, float]],
) -> tuple[EncodedRules, list[int]]:
    """Rules with weights.

    Parameters
    ----------
    rules
        Rules without weights.
    weighed
        How each atom is weighed.
    weights
        The weights of some rules, by number; see :class:`~tamis.expr.weights.RuleWeights`.

    Returns
    -------
    rules, left
        The rules with weights, and the numbers of those whose weights were left out.
    """
    if not weights:
        return rules, []
    numbers = np.array(sorted(weights), np.int64)
    attribute, code, weight, sizes, is_left = _flatten(
        [weights[number] for number in numbers.tolist()], rules.dictionary
    )
    scores = expand_scores(rules.forms, rules.scores)
    table = rules.atoms.table
    of_atom = np.where((table[:, 1] & 3) == SET, table[:, 3] - table[:, 2], 1)
    is_weighed = np.zeros(rules.size, np.bool_)
    is_weighed[numbers] = True
    is_positive = scores.code >= 0
    is_positive[is_positive] = (table[scores.code[is_positive], 1] & NEGATED) == 0
    is_positive &= np.repeat(is_weighed, np.diff(scores.start))
    first = starts(np.where(is_positive, of_atom[np.maximum(scores.code, 0)], 0))
    place = np.where(is_positive, first[:-1], -1).astype(np.int32)
    out = np.ones(int(first[-1]), np.float64)
    _fill(
        numbers,
        starts(sizes),
        attribute,
        code,
        weight,
        scores.start,
        scores.code,
        place,
        *rules.atoms,
        weighed,
        is_left,
        out,
    )
    weighed_scores = ScoreArrays(scores.start, scores.code, place, out, scores.depth)
    return rules._replace(scores=weighed_scores), numbers[is_left].tolist()


def _flatten(
    weights: list[Mapping[Any, float]], dictionary: Dictionary
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], list[int], NDArray[np.bool_]]:
    """The attribute, code and weight of each item, how many each rule has, and which are odd."""
    dictionary.load()
    attributes, axes = dictionary.attributes, dictionary.axes
    attribute: list[int] = []
    code: list[int] = []
    weight: list[float] = []
    sizes: list[int] = []
    is_odd = np.zeros(len(weights), np.bool_)
    for rule, items in enumerate(weights):
        before = len(code)
        for key, value in items.items():
            number = attributes.get(key[0]) if type(key) is tuple and len(key) == 2 else None
            if number is None or type(value) not in (int, float) or not 0 <= value <= _MOST:
                is_odd[rule] = True
                break
            try:
                named = axes[number].code(value_of_literal(key[1]))
            except RuleError:
                is_odd[rule] = True
                break
            attribute.append(number)
            code.append(named)
            weight.append(float(value))
        sizes.append(len(code) - before)
    dictionary.unload()
    return (
        np.array(attribute, np.int32),
        np.array(code, np.int32),
        np.array(weight, np.float64),
        sizes,
        is_odd,
    )


@kernel
def _fill(
    rules, item_start, attribute, code, weight, start, score, place, table, codes, weighed, odd, out
):
    """Write the weights of each rule, and mark the rules in which not every weight has a value."""
    for i in range(len(rules)):
        begin, end = start[rules[i]], start[rules[i] + 1]
        for at in range(begin, end):
            if score[at] >= 0 and weighed[score[at]] == UNCLEAR:
                odd[i] = True
        for item in range(item_start[i], item_start[i + 1]):
            is_named = False
            for at in range(begin, end):
                atom = score[at]
                if atom < 0 or weighed[atom] != BY_VALUE or table[atom, 0] != attribute[item]:
                    continue
                if table[atom, 1] & 3 == SET:
                    for j in range(table[atom, 2], table[atom, 3]):
                        if codes[j] == code[item]:
                            is_named = True
                            if place[at] >= 0:
                                out[place[at] + j - table[atom, 2]] = weight[item]
                elif table[atom, 2] == code[item]:
                    is_named = True
                    if place[at] >= 0:
                        out[place[at]] = weight[item]
            if not is_named:
                odd[i] = True
