"""The join predicates in the rules of a segment: which of them an event needs.

Each conjunction with a join predicate has a *guard*, one of its other atoms. A join predicate is
needed only if a guard of it holds, as it is with texts (`tamis.encode.guards`). Besides, what all
rules with a join predicate say of the attributes that it compares is known to the pre-filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, Events
from tamis.encode.dictionary import Axis
from tamis.encode.rules import EncodedRules
from tamis.expr.event import Kind
from tamis.expr.joins.predicate import Comparison, Every, Join
from tamis.expr.names import JOINED
from tamis.expr.text.sql import join_of
from tamis.joins.prefilter import JoinUsage
from tamis.joins.value_sets import HIGHEST, LOWEST, Span, Spans, above, below

__all__ = ["MOST_SPANS", "SegmentJoins"]

_BITS: Final = 64
"""How many join predicates a segment tells apart; with more, some share a bit."""

_MOST_CODES: Final = 64
"""How many codes a guard may stand for; one of more is satisfied by any value."""

MOST_SPANS: Final = 32
"""How many spans of values are watched for a join predicate; more become one."""

_NO_GUARD: Final = np.int64(2**62)


class SegmentJoins:
    """The join predicates in the rules of a segment.

    Parameters
    ----------
    rules
        The rules; at least one holds a join predicate.
    """

    def __init__(self, rules: EncodedRules) -> None:
        self._rules = rules
        attributes = rules.dictionary.attributes
        self.attributes = {n: number for n, number in attributes.items() if n.startswith(JOINED)}
        """The attributes that join predicates become, and their numbers."""
        self.has_texts = rules.texts.size > 0
        """Whether what is looked for in texts depends on all other attributes."""
        self._guards = _guards(rules, list(self.attributes.values()))
        by_bit: list[list[str]] = [[] for _ in range(_BITS)]
        for place, name in enumerate(self.attributes):
            by_bit[place % _BITS].append(name)
        self._by_bit = by_bit
        self.usages = {name: self._usage(name) for name in self.attributes}

    def find_needed(self, event: Events) -> Iterator[str]:
        """The join predicates that one event without them may need."""
        guards = self._guards
        woken = guards.always
        by_presence, base, by_code = guards.by_presence, guards.base, guards.by_code
        for attribute, code in zip(event.attribute.tolist(), event.code.tolist(), strict=True):
            woken |= by_presence[attribute] | by_code.item(base[attribute] + code)
        while woken:
            lowest = woken & -woken
            yield from self._by_bit[lowest.bit_length() - 1]
            woken ^= lowest

    def add_join_attributes(self, event: Events, truths: Mapping[str, bool]) -> Events:
        """One event with the attributes of join predicates."""
        added = [(self.attributes[n], t) for n, t in truths.items() if n in self.attributes]
        if not added:
            return event
        attribute = np.array([number for number, _ in added], np.int32)
        code = Axis.codes_of_booleans(np.array([truth for _, truth in added], np.bool_))
        size = len(event.code) + len(added)
        return event._replace(
            start=np.array([0, size], np.int64),
            attribute=np.concatenate([event.attribute, attribute]),
            code=np.concatenate([event.code, code]),
        )

    def _usage(self, name: str) -> JoinUsage:
        table, number = self._rules.atoms.table, self.attributes[name]
        of_name = table[:, 0] == number
        is_positive = not (table[of_name, 1] & (NEGATED | IF_ABSENT)).any()
        return JoinUsage(name, is_positive, tuple(self._known(join_of(name), of_name)))

    def _known(self, join: Join, of_name: NDArray[np.bool_]) -> Iterator[tuple[str, Spans]]:
        """What the rules with a join predicate say besides about what it compares."""
        forms, atoms = self._rules.forms, self._rules.atoms
        if len(forms.program) and of_name[forms.program[:, 0]].any():
            return
        conjunction = np.repeat(
            np.arange(len(forms.conjunction_start) - 1), np.diff(forms.conjunction_start)
        )
        concerned = np.unique(conjunction[of_name[forms.conjunction_atom]])
        test = atoms.table[:, 1]
        decided = ((test & (NEGATED | IF_ABSENT)) == 0) & (test & 3 != TEXT)
        for name in sorted(_compared(join)):
            number = self._rules.dictionary.attributes.get(name)
            if number is None:
                continue
            says = decided & (atoms.table[:, 0] == number)
            entries = np.flatnonzero(says[forms.conjunction_atom])
            entries = entries[np.isin(conjunction[entries], concerned)]
            place = np.searchsorted(concerned, conjunction[entries])
            if len(np.unique(place)) < len(concerned):
                continue  # one of them says nothing of it
            low, high = _code_bounds(self._rules, forms.conjunction_atom[entries])
            lows = np.zeros(len(concerned), np.int64)
            highs = np.full(len(concerned), self._rules.dictionary.axes[number].size, np.int64)
            np.maximum.at(lows, place, low)
            np.minimum.at(highs, place, high)
            yield name, _spans(self._rules.dictionary.axes[number], lows, highs)


class _Guards(NamedTuple):
    """What wakes join predicates, each of which has a bit."""

    always: int
    by_presence: list[int]
    """For each attribute what its presence wakes."""
    by_code: NDArray[np.uint64]
    """What each code of each attribute wakes, attributes end to end."""
    base: list[int]
    """Where the codes of each attribute begin."""


def _guards(rules: EncodedRules, joined: Sequence[int]) -> _Guards:
    """Choose a guard for each conjunction with a join predicate, and note what it wakes."""
    table, forms, dictionary = rules.atoms.table, rules.forms, rules.dictionary
    bit = np.zeros(len(dictionary.axes), np.uint64)
    bit[list(joined)] = np.uint64(1) << (np.arange(len(joined), dtype=np.uint64) % np.uint64(_BITS))
    bits_of_atom = bit[table[:, 0]]
    always = np.bitwise_or.reduce(bits_of_atom[forms.program[:, 0]], initial=np.uint64(0))
    count = len(forms.conjunction_start) - 1
    conjunction = np.repeat(np.arange(count), np.diff(forms.conjunction_start))
    asked = np.zeros(count, np.uint64)
    np.bitwise_or.at(asked, conjunction, bits_of_atom[forms.conjunction_atom])
    entries = np.flatnonzero(asked[conjunction])
    width = _widths(table)
    width[bits_of_atom != 0] = _NO_GUARD
    order = entries[np.lexsort((width[forms.conjunction_atom[entries]], conjunction[entries]))]
    _, first = np.unique(conjunction[order], return_index=True)
    chosen = order[first]
    atom, bits = forms.conjunction_atom[chosen], asked[conjunction[chosen]]
    unguarded = width[atom] == _NO_GUARD
    always = always | np.bitwise_or.reduce(bits[unguarded], initial=np.uint64(0))
    by_presence = np.zeros(len(dictionary.axes), np.uint64)
    wide = (width[atom] > _MOST_CODES) & ~unguarded
    np.bitwise_or.at(by_presence, table[atom[wide], 0], bits[wide])
    by_code = np.zeros(dictionary.base[-1], np.uint64)
    for test in (RANGE, SET):
        some = ~wide & ~unguarded & (table[atom, 1] & 3 == test)
        rows, lengths = table[atom[some]], width[atom[some]]
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        codes = np.repeat(rows[:, 2], lengths) + steps
        if test == SET:
            codes = rules.atoms.codes[codes]
        at = np.repeat(dictionary.base[rows[:, 0]], lengths) + codes
        np.bitwise_or.at(by_code, at, np.repeat(bits[some], lengths))
    return _Guards(int(always), by_presence.tolist(), by_code, dictionary.base.tolist())


def _widths(table: NDArray[np.int32]) -> NDArray[np.int64]:
    """How many codes satisfy each atom; _NO_GUARD where codes do not decide it."""
    test, low, high = table[:, 1], table[:, 2].astype(np.int64), table[:, 3]
    width = np.where(test & 3 == RANGE, high - low + 1, high - low)
    width[(test & (IF_ABSENT | NEGATED) != 0) | (test & 3 == TEXT)] = _NO_GUARD
    return np.maximum(width, 0)


def _compared(join: Join) -> set[str]:
    """The attributes of the new document that every document is compared with."""
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


def _spans(axis: Axis, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> Spans:
    """The values between codes, of all pairs together."""
    pairs = np.unique(np.stack([lows, highs], axis=1)[lows <= highs], axis=0)
    if len(pairs) > MOST_SPANS * len(Kind):
        pairs = np.array([[pairs[:, 0].min(), pairs[:, 1].max()]])
    spans: list[tuple[Kind, Span]] = []
    for kind in Kind:
        first, last = axis.codes_of_kind(kind)
        values = axis.mentioned(kind)
        for low, high in pairs.tolist():
            begin, end = max(low, first) - first, min(high, last) - first
            if begin > end:
                continue
            if kind is Kind.BOOLEAN:
                spans.append((kind, (below(values[begin]), above(values[end]))))
                continue
            # A code is a gap and a value by turns.
            at, is_value = divmod(begin, 2)
            low_cut = below(values[at]) if is_value else above(values[at - 1]) if at else LOWEST
            at, is_value = divmod(end, 2)
            is_last = at == len(values)
            high_cut = HIGHEST if is_last else above(values[at]) if is_value else below(values[at])
            spans.append((kind, (low_cut, high_cut)))
    return Spans.of(spans).at_most(MOST_SPANS)
