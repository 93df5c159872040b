"""Events → flat arrays: dicts one by one, Arrow data column by column."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.dictionary import Dictionary
from tamis.encode.texts import TextIndex
from tamis.errors import EventError
from tamis.expr.event import Event, FlatEvent, flatten
from tamis.expr.model import Value, is_unicode
from tamis.expr.weights import EventWeights

__all__ = ["EventEncoder", "EventRows"]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NO_WEIGHTS = np.empty(0, np.float64)


class EventRows:
    """Encoded events under construction, row by row."""

    __slots__ = ("attribute", "code", "start", "text", "text_start", "text_weight", "weight")

    def __init__(self) -> None:
        self.start = array("q", [0])
        self.attribute = array("i")
        self.code = array("i")
        self.text_start = array("q", [0])
        self.text = array("i")
        self.weight = array("d")
        self.text_weight = array("d")

    def end_row(self) -> None:
        """Close the event that was being written."""
        self.start.append(len(self.code))
        self.text_start.append(len(self.text))

    def arrays(self) -> Events:
        """The arrays; they share memory with this object, which must not grow any more."""
        return Events(
            _starts(self.start),
            np.frombuffer(self.attribute, np.int32) if self.attribute else _NO_INTS,
            np.frombuffer(self.code, np.int32) if self.code else _NO_INTS,
            _starts(self.text_start),
            np.frombuffer(self.text, np.int32) if self.text else _NO_INTS,
            np.frombuffer(self.weight, np.float64) if self.weight else _NO_WEIGHTS,
            np.frombuffer(self.text_weight, np.float64) if self.text_weight else _NO_WEIGHTS,
        )


def _starts(starts: array[int]) -> NDArray[np.int64]:
    """Where rows begin; for one row, which is what callers wait for, arrays are at hand."""
    if len(starts) == 2 and starts[1] < len(_ONE_ROW):
        return _ONE_ROW[starts[1]]
    return np.frombuffer(starts, np.int64)


_NO_INTS = np.empty(0, np.int32)
_ONE_ROW = [np.array([0, size], np.int64) for size in range(64)]


class EventEncoder:
    """Encodes events for one set of rules. Safe to use from several threads."""

    def __init__(self, dictionary: Dictionary, texts: TextIndex) -> None:
        self._axes = {
            name: (number, dictionary.axes[number])
            for name, number in dictionary.attributes.items()
        }
        self._texts = texts

    def encode(self, event: Event) -> Events:
        """One event, given as a mapping."""
        rows = EventRows()
        self._add(event, rows)
        return rows.arrays()

    def encode_many(self, events: Iterable[Event], first: int = 0) -> Events:
        """Events given as mappings; an error names the culprit, counted from `first`."""
        rows = EventRows()
        for number, event in enumerate(events, first):
            try:
                self._add(event, rows)
            except EventError as error:
                raise EventError(f"event {number}: {error}") from None
        return rows.arrays()

    def encode_flat(self, events: Iterable[FlatEvent]) -> Events:
        """Events that were flattened before."""
        rows = EventRows()
        for event in events:
            self._add_flat(event, rows)
        return rows.arrays()

    def encode_weighted(self, event: FlatEvent, weights: EventWeights) -> Events:
        """One event that weighs its values."""
        rows = EventRows()
        for name, values in event.items():
            if name not in self._axes:
                continue
            number, axis = self._axes[name]
            for value in values:
                weight = weights.get(name, value)
                rows.attribute.append(number)
                rows.code.append(axis.code(value))
                rows.weight.append(weight)
                held = self._held(number, value)
                rows.text.extend(held)
                rows.text_weight.extend([weight] * len(held))
        rows.end_row()
        return rows.arrays()

    def _add(self, event: Event, rows: EventRows) -> None:
        """Write one event: in one pass where all its values are plain, else flattened first."""
        mark = len(rows.code), len(rows.text)
        is_mapping = event.__class__ is dict or isinstance(event, Mapping)
        if is_mapping and self._add_plain(event, rows):
            rows.end_row()
            return
        del rows.attribute[mark[0] :], rows.code[mark[0] :], rows.text[mark[1] :]
        self._add_flat(flatten(event), rows)

    def _add_plain(self, event: Event, rows: EventRows) -> bool:
        """Write an event of plain strings, numbers and booleans; False on anything else."""
        axes, texts = self._axes, self._texts.attributes
        add_attribute, add_code = rows.attribute.append, rows.code.append
        for name, value in event.items():
            kind = value.__class__
            if kind is str:
                if not (value.isascii() or is_unicode(value)):
                    return False
            elif kind is int:
                if not _INT64_MIN <= value <= _INT64_MAX:
                    return False
            elif kind is float:
                if value != value:
                    continue
            elif value is None:
                continue
            elif kind is not bool:
                return False
            found = axes.get(name)
            if found is None:
                if name.__class__ is not str:
                    return False
                continue
            number, axis = found
            code = axis.code(value) if kind is bool else axis.exact.get(value)
            add_attribute(number)
            add_code(axis.find(value) if code is None else code)
            if kind is str and number in texts:
                rows.text.extend(self._texts.held(number, value))
        return True

    def _add_flat(self, event: FlatEvent, rows: EventRows) -> None:
        for name, values in event.items():
            found = self._axes.get(name)
            if found is None:
                continue
            number, axis = found
            for value in values:
                rows.attribute.append(number)
                rows.code.append(axis.code(value))
                rows.text.extend(self._held(number, value))
        rows.end_row()

    def _held(self, attribute: int, value: Value) -> tuple[int, ...]:
        if isinstance(value, str) and attribute in self._texts.attributes:
            return self._texts.held(attribute, value)
        return ()
