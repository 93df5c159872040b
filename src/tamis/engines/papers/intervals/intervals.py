"""The intervals of rules, and the elementary intervals that they cut the codes into.

The paper's profile is a conjunction here, with one interval for each attribute. An atom that is a
run of codes is an interval; an IN is one for each of its values. Of several atoms on one attribute
the most selective is taken, since different values of the event may satisfy them. Other atoms have
no interval: text predicates, negated atoms, and atoms that hold where the attribute is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, SET, TEXT
from tamis.encode.ragged import Lists, list_numbers, run_places
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import estimate_selectivity
from tamis.engines.papers.code_trees import group_by_key

__all__ = ["Elementary", "Intervals", "Mentions", "cut_elementary", "intervals_by_attribute"]


class Intervals(NamedTuple):
    """Intervals of one attribute."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    """The first and the last code of each interval."""
    conjunction: NDArray[np.int64]
    """The conjunction of each interval."""

    @property
    def size(self) -> int:
        """The number of intervals."""
        return len(self.low)

    @property
    def endpoints(self) -> NDArray[np.int64]:
        """The distinct first and last codes, rising."""
        return np.unique(np.concatenate((self.low, self.high)))

    def at(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Intervals:
        """The chosen intervals."""
        return Intervals(self.low[chosen], self.high[chosen], self.conjunction[chosen])


class Elementary(NamedTuple):
    """Elementary intervals, from left to right."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def find_covered(self, intervals: Intervals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the first and the last elementary interval within each interval."""
        return (
            np.searchsorted(self.first, intervals.low),
            np.searchsorted(self.last, intervals.high),
        )


def cut_elementary(intervals: Intervals, codes: int) -> Elementary:
    """Cut `codes` codes into elementary intervals.

    Each endpoint is one, and so is each gap between two endpoints, before the first and after the
    last.
    """
    points = intervals.endpoints
    cuts = np.unique(np.concatenate(([0], points, points + 1)))
    cuts = cuts[cuts < codes]
    return Elementary(cuts, np.append(cuts[1:], codes) - 1)


class Mentions(NamedTuple):
    """The atoms that are in trees."""

    is_filed: NDArray[np.bool_]
    """Whether each of `FormArrays.conjunction_atom` is in a tree."""
    by_attribute: Lists
    """The conjunctions with an interval on each attribute."""

    @classmethod
    def of(cls, rules: EncodedRules) -> Mentions:
        """One atom for each conjunction and attribute with intervals."""
        atoms, forms = rules.atoms, rules.forms
        has_interval = (atoms.flags == 0) & (atoms.test != TEXT)
        places = np.flatnonzero(has_interval[forms.conjunction_atom])
        atom = forms.conjunction_atom[places]
        conjunction = list_numbers(forms.conjunction_start)[places]
        attribute = atoms.attribute[atom]
        order = np.lexsort((estimate_selectivity(rules)[atom], attribute, conjunction))
        chosen = np.ones(len(order), np.bool_)
        chosen[1:] = (np.diff(conjunction[order]) != 0) | (np.diff(attribute[order]) != 0)
        kept = order[chosen]
        is_filed = np.zeros(len(forms.conjunction_atom), np.bool_)
        is_filed[places[kept]] = True
        by_attribute = group_by_key(attribute[kept], conjunction[kept], len(rules.dictionary.axes))
        return cls(is_filed, by_attribute)

    @classmethod
    def none(cls, rules: EncodedRules) -> Mentions:
        """No atoms, for engines without trees."""
        is_filed = np.zeros(len(rules.forms.conjunction_atom), np.bool_)
        return cls(is_filed, group_by_key(NO_INT32, NO_INT32, len(rules.dictionary.axes)))


def intervals_by_attribute(
    rules: EncodedRules, mentions: Mentions
) -> Iterator[tuple[int, Intervals]]:
    """Yield each attribute with a tree, and its intervals.

    A comparison that no value satisfies is mentioned but has no interval, so no value finds it.
    """
    atoms = rules.atoms
    atom = rules.forms.conjunction_atom[mentions.is_filed]
    low, high = atoms.low[atom], atoms.high[atom]
    is_set = atoms.test[atom] == SET
    counts = np.where(is_set, high - low, high >= low)
    # A run of codes has no list; it reads a code that is then discarded.
    codes = np.append(atoms.codes, 0)[run_places(np.where(is_set, low, 0), counts)]
    is_set, low, high = (np.repeat(each, counts) for each in (is_set, low, high))
    intervals = Intervals(
        np.where(is_set, codes, low).astype(np.int64),
        np.where(is_set, codes, high).astype(np.int64),
        np.repeat(list_numbers(rules.forms.conjunction_start)[mentions.is_filed], counts),
    )
    attributes = len(rules.dictionary.axes)
    attribute = np.repeat(atoms.attribute[atom], counts)
    start, order = group_by_key(attribute, np.arange(intervals.size), attributes)
    for number in np.flatnonzero(np.diff(start)).tolist():
        yield number, intervals.at(order[start[number] : start[number + 1]].astype(np.int64))
