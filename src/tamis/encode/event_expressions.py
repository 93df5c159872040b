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

from tamis.encode.arrays import Choices
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


class ChoiceEncoder:
    """Encodes event expressions for one set of rules. Safe to use from several threads."""

    def __init__(self, rules: EncodedRules) -> None:
        self._dictionary = rules.dictionary
        self._texts = rules.texts
        self._hollow: dict[tuple[int, tuple[Line, ...]], NDArray[np.int32]] = {}

    def encode(self, alternative: Alternative) -> Choices:
        """Encode one alternative of an event expression."""
        known = self._dictionary.attributes
        span, hollow_span = np.zeros((2, len(known), 2), np.int64)
        entries: list[_Entry] = []
        hollow = [_int32(())]
        hollow_size = 0
        for name, choice in alternative.items():
            attribute = known.get(name)
            if attribute is None:
                continue
            new = self._entries(attribute, choice)
            span[attribute] = len(entries), len(entries) + len(new)
            entries += new
            codes = self._hollow_codes(attribute, choice.lines)
            hollow_span[attribute] = hollow_size, hollow_size + len(codes)
            hollow.append(codes)
            hollow_size += len(codes)
        return Choices(
            span,
            _int32(entry.low for entry in entries),
            _int32(entry.high for entry in entries),
            np.array([entry.is_endless for entry in entries], np.uint8),
            starts(len(entry.texts) for entry in entries),
            _int32(text for entry in entries for text in entry.texts),
            hollow_span,
            np.concatenate(hollow),
        )

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
