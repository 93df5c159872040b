"""Renumbers the rules and conjunctions of a set."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import FormArrays, ScoreArrays
from tamis.encode.ragged import item_places, list_numbers, narrow_starts, take_lists
from tamis.encode.rules import EncodedRules

__all__ = ["reorder_rules"]

_Numbers: TypeAlias = NDArray[np.integer[Any]]


def reorder_rules(
    rules: EncodedRules, rule_order: _Numbers, conjunction_order: _Numbers
) -> EncodedRules:
    """`rules` renumbered: rule i is what rule_order[i] was, and likewise conjunctions.

    Where conjunction i is rule i, both orders must be the same, so that this stays true.
    """
    return rules._replace(
        forms=_forms(rules.forms, rule_order, conjunction_order),
        scores=_scores(rules.scores, rule_order),
    )


def _forms(forms: FormArrays, rule_order: _Numbers, conjunction_order: _Numbers) -> FormArrays:
    start, atom = take_lists(forms.conjunction_start, forms.conjunction_atom, conjunction_order)
    number = np.empty(len(rule_order), np.int32)
    number[rule_order] = np.arange(len(rule_order), dtype=np.int32)
    owner_start, owner = forms.owner_start, forms.owner
    if len(owner):
        owner_start, owner = take_lists(owner_start, number[owner], conjunction_order)
        conjunction = list_numbers(owner_start)
        owner = owner[np.lexsort((owner, conjunction))]
    return forms._replace(
        conjunction_start=narrow_starts(start),
        conjunction_atom=atom,
        owner_start=owner_start,
        owner=owner,
        program_rule=number[forms.program_rule],
    )


def _scores(scores: ScoreArrays, rule_order: _Numbers) -> ScoreArrays:
    if len(scores.start) == 0:
        return scores
    start, places = item_places(scores.start, rule_order)
    weights = scores.weights[places] if len(scores.weights) else scores.weights
    return scores._replace(start=start, code=scores.code[places], weights=weights)
