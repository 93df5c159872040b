"""Event expressions → flat arrays: the codes that each attribute may have.

An event expression leaves each attribute some stretches of values
(:mod:`tamis.expr.analysis.event_expressions`), and a set of rules divides the same values into
codes. A kernel needs to know which codes have a value in a stretch. They are a range of codes, but
a gap within it may be *hollow*: no value lies between 3 and 4 if the attribute is an integer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, Choices
from tamis.encode.dictionary import Axis, CodeRange
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules
from tamis.expr.analysis.event_expressions import Alternative, Choice
from tamis.expr.event import Kind
from tamis.expr.value_order import Line, Stretch

__all__ = ["ChoiceEncoder"]


class _Entry(NamedTuple):
    """An entry of `Choices`."""

    low: int
    high: int
    is_endless: bool = False
    texts: tuple[int, ...] = ()


class _EncodedChoice(NamedTuple):
    """What an event expression says of one attribute."""

    attribute: int
    entries: list[_Entry]
    hollow: NDArray[np.int32]
    point: list[int] | None
    """Pairs for the attribute's only code and the text predicates that hold on it (see
    `tamis.encode.event_pairs`); None if several codes are possible."""
    range: tuple[int, int, int] | None
    """The attribute, and its first and last code; None if that is not all there is to say."""


_MOST_KNOWN = 65_536
"""How many choices are remembered."""


class ChoiceEncoder:
    """Encodes event expressions for one set of rules. Safe to use from several threads."""

    def __init__(self, rules: EncodedRules) -> None:
        self._dictionary = rules.dictionary
        self._texts = rules.texts
        self._hollow: dict[tuple[int, tuple[Line, ...]], NDArray[np.int32]] = {}
        self._known: dict[Choice, _EncodedChoice] = {}

    def encode(self, alternative: Alternative) -> NDArray[np.int32] | Choices:
        """Encode one alternative of an event expression.

        One that leaves each attribute a single code is an event like any other, and is encoded as
        pairs; see `tamis.encode.event_pairs`.
        """
        choices = self._encode_choices(alternative)
        pairs: list[int] = []
        for choice in choices:
            if choice.point is None:
                return self._join_choices(choices)
            pairs += choice.point
        return np.array(pairs, np.int32)

    def encode_choices(self, alternative: Alternative) -> Choices:
        """As `encode`, but never as pairs."""
        return self._join_choices(self._encode_choices(alternative))

    def _join_choices(self, choices: list[_EncodedChoice]) -> Choices:
        ranges = [choice.range for choice in choices if choice.range is not None]
        return self._join_ranges(ranges) if len(ranges) == len(choices) else self._join_all(choices)

    def _join_ranges(self, ranges: list[tuple[int, int, int]]) -> Choices:
        """Join choices that are ranges of codes and nothing else."""
        size = len(ranges)
        span, hollow_span = np.zeros((2, len(self._dictionary.axes), 2), np.int64)
        present, low, high = np.array(ranges, np.int32).reshape(size, 3).T.copy()
        begin = np.arange(size)
        span[present, 0] = begin
        span[present, 1] = begin + 1
        is_endless, text_start = np.zeros(size, np.uint8), np.zeros(size + 1, np.int64)
        return Choices(
            span, low, high, is_endless, text_start, NO_INT32, hollow_span, NO_INT32, present
        )

    def _join_all(self, choices: list[_EncodedChoice]) -> Choices:
        span, hollow_span = np.zeros((2, len(self._dictionary.axes), 2), np.int64)
        present = np.array([choice.attribute for choice in choices], np.int32)
        span[present] = _bounds([len(choice.entries) for choice in choices])
        hollow = [choice.hollow for choice in choices if len(choice.hollow)]
        if hollow:
            hollow_span[present] = _bounds([len(choice.hollow) for choice in choices])
        entries = [entry for choice in choices for entry in choice.entries]
        return Choices(
            span,
            np.array([entry.low for entry in entries], np.int32),
            np.array([entry.high for entry in entries], np.int32),
            np.array([entry.is_endless for entry in entries], np.uint8),
            starts([len(entry.texts) for entry in entries]),
            np.array([text for entry in entries for text in entry.texts], np.int32),
            hollow_span,
            np.concatenate(hollow) if hollow else NO_INT32,
            present,
        )

    def _encode_choices(self, alternative: Alternative) -> list[_EncodedChoice]:
        """The choices on attributes that rules mention."""
        numbers, known = self._dictionary.attributes, self._known
        encoded = []
        for name, choice in alternative.items():
            attribute = numbers.get(name)
            if attribute is not None:
                found = known.get(choice)
                if found is None:
                    found = self._encode_choice(attribute, choice)
                    if len(known) >= _MOST_KNOWN:
                        known.clear()
                    known[choice] = found
                encoded.append(found)
        return encoded

    def _encode_choice(self, attribute: int, choice: Choice) -> _EncodedChoice:
        entries = self._entries(attribute, choice)
        hollow = self._hollow_codes(attribute, choice.lines)
        point = codes = None
        first = entries[0]
        if len(entries) == 1 and not first.is_endless:
            if first.low == first.high:
                point = [attribute, first.low]
                for text in first.texts:
                    point += len(self._dictionary.axes) + text, 0
            if not first.texts and not len(hollow):
                codes = attribute, first.low, first.high
        return _EncodedChoice(attribute, entries, hollow, point, codes)

    def _entries(self, attribute: int, choice: Choice) -> list[_Entry]:
        axis = self._dictionary.axes[attribute]
        if attribute in self._texts.attributes:
            return [self._entry(attribute, stretch) for stretch in choice.stretches()]
        return _merge_ranges([_codes(stretch, axis) for stretch in choice.stretches()])

    def _entry(self, attribute: int, stretch: Stretch) -> _Entry:
        """A stretch of an attribute with text predicates."""
        codes = _codes(stretch, self._dictionary.axes[attribute])
        if not isinstance(stretch.first, str):
            return _Entry(*codes)
        if not stretch.is_single:
            return _Entry(*codes, is_endless=True)
        return _Entry(*codes, texts=self._texts.match(attribute, stretch.first))

    def _hollow_codes(self, attribute: int, lines: tuple[Line, ...]) -> NDArray[np.int32]:
        key = attribute, lines
        if key not in self._hollow:
            axis = self._dictionary.axes[attribute]
            self._hollow[key] = _int32(code for line in lines for code in _hollow_codes(line, axis))
        return self._hollow[key]


def _bounds(sizes: list[int]) -> NDArray[np.int64]:
    """Where lists of these sizes begin and end."""
    start = starts(sizes)
    return np.stack((start[:-1], start[1:]), axis=1)


def _int32(numbers: Any) -> NDArray[np.int32]:
    return np.fromiter(numbers, np.int32)


def _codes(stretch: Stretch, axis: Axis) -> CodeRange:
    """The codes from that of the first value of a stretch to that of its last."""
    line, first, end = stretch
    low, whole = axis.code(first), axis.codes_of_kind(line.kind)
    if end is None:
        return CodeRange(low, whole.high)
    high = axis.code(end)
    if high > low and _begins_with(high, end, line, axis):
        high -= 1
    return CodeRange(low, high)


def _begins_with(code: int, value: Any, line: Line, axis: Axis) -> bool:
    """Whether `value` is the least with its code; the code is not the lowest of its kind."""
    is_gap = (code - axis.codes_of_kind(line.kind).low) % 2 == 0
    if line.kind is Kind.BOOLEAN or not is_gap:
        return True
    return bool(line.after(axis.value_below(line.kind, code)) == value)


def _merge_ranges(ranges: list[CodeRange]) -> list[_Entry]:
    """The union of ranges of codes, as disjoint ranges with gaps between them."""
    entries: list[_Entry] = []
    for low, high in sorted(ranges):
        if entries and low <= entries[-1].high + 1:
            entries[-1] = _Entry(entries[-1].low, max(entries[-1].high, high))
        else:
            entries.append(_Entry(low, high))
    return entries


def _hollow_codes(line: Line, axis: Axis) -> list[int]:
    """The codes of a line's kind that none of its values has."""
    if line.kind is Kind.BOOLEAN:
        return []
    hollow: list[int] = []
    code = axis.codes_of_kind(line.kind).low
    for below, above in pairwise([None, *axis.list_values(line.kind), None]):
        first: Any = line.least if below is None else line.after(below)
        if first is None or (above is not None and first >= above):
            hollow.append(code)
        if above is not None and not line.holds(above):
            hollow.append(code + 1)
        code += 2
    return hollow
