"""Estimates how often events satisfy each atom, from the rules themselves or a sample of events."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, RANGE, SET, Events
from tamis.encode.kernel import kernel
from tamis.encode.ragged import list_numbers
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import TEXT_SHARE

__all__ = ["estimate_likelihood"]

_PRIOR = 2.0
"""How many sampled events the estimate from the rules weighs as much as."""


def estimate_likelihood(rules: EncodedRules, sample: Events | None = None) -> NDArray[np.float64]:
    """Estimate for each atom the share of events that satisfy its positive form.

    Without a sample, attributes and values are assumed to be as common in events as they are in
    conjunctions and programs; a sample outweighs this as it grows. A negated atom counts by the
    presence of its attribute alone, since it can be a key only by that.
    """
    atoms, forms, dictionary = rules.atoms, rules.forms, rules.dictionary
    attributes = len(dictionary.axes)
    used = np.concatenate((forms.conjunction_atom, forms.program[:, 0]))
    uses = np.bincount(used, minlength=len(atoms.table)).astype(np.float64)
    mentioned = np.bincount(atoms.attribute, weights=uses, minlength=attributes)
    presence: NDArray[np.float64] = mentioned / max(mentioned.max(initial=0), 1)
    mentions = np.zeros(dictionary.base[-1])
    _count_mentions(atoms.table, atoms.codes, uses, dictionary.base, mentions)
    # No code gets likelihood 0: all codes of an attribute share a tenth of its mentions.
    sizes = np.diff(dictionary.base)
    filled = np.add.reduceat(mentions, dictionary.base[:-1]) if attributes else np.zeros(0)
    share = (mentions + np.repeat((0.1 * filled + 1) / sizes, sizes)) / np.repeat(
        1.1 * filled + 1, sizes
    )
    if sample is not None:
        presence, share = _blend_sample(sample, dictionary.base, presence, share)
    total = np.concatenate(([0.0], np.cumsum(share)))
    result = np.empty(len(atoms.table))
    _write_shares(atoms.table, atoms.codes, dictionary.base, total, share, result)
    result *= presence[atoms.attribute]
    return result


def _blend_sample(
    sample: Events,
    base: NDArray[np.int64],
    presence: NDArray[np.float64],
    share: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Presence and shares in a sample, with the estimate from the rules as a prior."""
    size = len(sample.start) - 1
    event = list_numbers(sample.start)
    first = np.ones(len(event), np.bool_)
    first[1:] = (event[1:] != event[:-1]) | (sample.attribute[1:] != sample.attribute[:-1])
    present = np.bincount(sample.attribute[first], minlength=len(presence))
    codes = np.bincount(base[sample.attribute] + sample.code, minlength=len(share))
    sizes = np.diff(base)
    return (
        (present + _PRIOR * presence) / (size + _PRIOR),
        (codes + _PRIOR * share) / np.repeat(present + _PRIOR, sizes),
    )


@kernel
def _count_mentions(table, codes, uses, base, mentions):
    """Count the uses of each code by equality or in a list."""
    for atom in range(len(table)):
        first = base[table[atom, 0]]
        test = table[atom, 1] & 3
        low, high = table[atom, 2], table[atom, 3]
        if test == RANGE and low == high:
            mentions[first + low] += uses[atom]
        elif test == SET and high > low:
            for i in range(low, high):
                mentions[first + codes[i]] += uses[atom] / (high - low)


@kernel
def _write_shares(table, codes, base, total, share, result):
    """Write the share of an attribute's values that satisfy each atom."""
    for atom in range(len(table)):
        first = base[table[atom, 0]]
        test = table[atom, 1]
        low, high = table[atom, 2], table[atom, 3]
        if test & NEGATED:
            result[atom] = 1.0
        elif test & 3 == RANGE:
            result[atom] = total[first + high + 1] - total[first + low] if low <= high else 0.0
        elif test & 3 == SET:
            result[atom] = 0.0
            for i in range(low, high):
                result[atom] += share[first + codes[i]]
        else:
            result[atom] = TEXT_SHARE
