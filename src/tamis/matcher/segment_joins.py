"""The join predicates in the rules of a segment: which of them an event needs, and their usage.

An event needs a join predicate only if one of its guards holds (:mod:`tamis.encode.guards`). The
pre-filter learns how the rules confine the attributes that a join predicate compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, SET, TEXT, Events
from tamis.encode.dictionary import Axis
from tamis.encode.guards import Guards
from tamis.encode.ragged import list_numbers
from tamis.encode.rules import EncodedRules
from tamis.expr.event import Kind
from tamis.expr.joins.predicate import Comparison, Every, Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Value
from tamis.expr.names import JOINED
from tamis.joins.prefilter import JoinUsage
from tamis.joins.value_sets import HIGHEST, LOWEST, Span, ValueSet, above, below
from tamis.matcher.profile_filter import ProfileFilter

__all__ = ["MOST_SPANS", "SegmentJoins"]

MOST_SPANS: Final = 32
"""How many spans of values are watched for a join predicate; more become one."""


class SegmentJoins:
    """The join predicates in the rules of a segment.

    Parameters
    ----------
    rules
        The rules; at least one has a join predicate.

    Attributes
    ----------
    has_texts
        Whether rules have text predicates. Those are guarded by join attributes, too, so then
        join predicates come first.
    usages
        How the rules use each join predicate, by its attribute.
    profiles
        The rules that no event can satisfy as the documents are now.
    replaced
        The join attributes that `profiles` replaces.
    """

    def __init__(self, rules: EncodedRules) -> None:
        self._rules = rules
        attributes = rules.dictionary.attributes
        self._numbers = {n: number for n, number in attributes.items() if n.startswith(JOINED)}
        self._names = {number: name for name, number in self._numbers.items()}
        self._guards = Guards(rules, self._names, texts=False)
        self._guards.prepare()
        self.has_texts = rules.texts.size > 0
        self.usages = {name: self._usage(name) for name in self._numbers}
        joins = {number: join_named(name) for name, number in self._numbers.items()}
        self.profiles = ProfileFilter(rules, joins)
        self.replaced = frozenset(self._names[number] for number in self.profiles.replaced)

    def find_needed(self, event: Events) -> Iterator[str]:
        """The join attributes that a single event, encoded without them, may need."""
        return map(self._names.__getitem__, self._guards.attributes_needed(event))

    def add_join_attributes(self, event: Events, found: Mapping[str, Sequence[Value]]) -> Events:
        """A single event with the values of join attributes."""
        numbers, axes = self._numbers, self._rules.dictionary.axes
        added = [
            (numbers[n], value) for n, values in found.items() if n in numbers for value in values
        ]
        if not added:
            return event
        attribute = np.array([number for number, _ in added], np.int32)
        code = np.array([axes[number].code(value) for number, value in added], np.int32)
        size = len(event.code) + len(added)
        return event._replace(
            start=np.array([0, size], np.int64),
            attribute=np.concatenate([event.attribute, attribute]),
            code=np.concatenate([event.code, code]),
        )

    def _usage(self, name: str) -> JoinUsage:
        table, number = self._rules.atoms.table, self._numbers[name]
        of_name = table[:, 0] == number
        is_positive = not (table[of_name, 1] & (NEGATED | IF_ABSENT)).any()
        return JoinUsage(
            name, is_positive, tuple(self._find_known_values(join_named(name), of_name))
        )

    def _find_known_values(
        self, join: Join, of_name: NDArray[np.bool_]
    ) -> Iterator[tuple[str, ValueSet]]:
        """The values that all rules with a join predicate confine each attribute it compares to."""
        forms, atoms = self._rules.forms, self._rules.atoms
        if len(forms.program) and of_name[forms.program[:, 0]].any():
            return
        conjunction = list_numbers(forms.conjunction_start)
        concerned = np.unique(conjunction[of_name[forms.conjunction_atom]])
        test = atoms.table[:, 1]
        decided = ((test & (NEGATED | IF_ABSENT)) == 0) & (test & 3 != TEXT)
        for name in sorted(_find_compared(join)):
            number = self._rules.dictionary.attributes.get(name)
            if number is None:
                continue
            says = decided & (atoms.table[:, 0] == number)
            entries = np.flatnonzero(says[forms.conjunction_atom])
            entries = entries[np.isin(conjunction[entries], concerned)]
            place = np.searchsorted(concerned, conjunction[entries])
            if len(np.unique(place)) < len(concerned):
                continue  # one of them does not confine it
            low, high = _code_bounds(self._rules, forms.conjunction_atom[entries])
            lows = np.zeros(len(concerned), np.int64)
            highs = np.full(len(concerned), self._rules.dictionary.axes[number].size, np.int64)
            np.maximum.at(lows, place, low)
            np.minimum.at(highs, place, high)
            yield name, _values_between(self._rules.dictionary.axes[number], lows, highs)


def _find_compared(join: Join) -> set[str]:
    """The attributes of the new document that a join predicate compares in any case."""
    where = join.where
    parts = where.children if isinstance(where, Every) else (where,)
    found = {part.new for part in parts if isinstance(part, Comparison)}
    return found if join.compared is None else found | {join.compared.new}


def _code_bounds(
    rules: EncodedRules, atoms: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The first and the last code that satisfies each of these atoms."""
    rows = rules.atoms.table[atoms]
    low, high = rows[:, 2].copy(), rows[:, 3].copy()
    is_set = rows[:, 1] & 3 == SET
    low[is_set] = rules.atoms.codes[rows[is_set, 2]]
    high[is_set] = rules.atoms.codes[rows[is_set, 3] - 1]
    return low, high


def _values_between(axis: Axis, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> ValueSet:
    """The values from the code lows[i] to the code highs[i], for any i."""
    pairs = np.unique(np.stack([lows, highs], axis=1)[lows <= highs], axis=0)
    if len(pairs) > MOST_SPANS * len(Kind):
        pairs = np.array([[pairs[:, 0].min(), pairs[:, 1].max()]])
    spans: list[tuple[Kind, Span]] = []
    for kind in Kind:
        first, last = axis.codes_of_kind(kind)
        values = axis.list_values(kind)
        for low, high in pairs.tolist():
            begin, end = max(low, first) - first, min(high, last) - first
            if begin > end:
                continue
            if kind is Kind.BOOLEAN:
                spans.append((kind, (below(values[begin]), above(values[end]))))
                continue
            # Codes alternate: a gap, a value, a gap, …
            at, is_value = divmod(begin, 2)
            low_cut = below(values[at]) if is_value else above(values[at - 1]) if at else LOWEST
            at, is_value = divmod(end, 2)
            is_last = at == len(values)
            high_cut = HIGHEST if is_last else above(values[at]) if is_value else below(values[at])
            spans.append((kind, (low_cut, high_cut)))
    return ValueSet.of(spans).at_most(MOST_SPANS)
