"""Encodes JSON texts for one set of rules: most by kernels, the unusual ones as mappings.

Python reads three things: texts that the kernels leave, as a whole; values under names that need
more than codes (what functions are computed from, and what a schema declares); and single values
such as a double of many digits. What it reads is encoded by the encoder of mappings and merged.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, Events
from tamis.encode.arrow_arrays import to_numpy
from tamis.encode.event_rows import merge_rows
from tamis.encode.events import EventEncoder, StringAt
from tamis.encode.json.read import DOUBLE, OTHER, STRING, JsonEntries
from tamis.encode.json.reader import ReadTexts, read_texts
from tamis.encode.json.tables import JsonTables, build_tables, first_segment
from tamis.encode.json.texts import JsonTexts
from tamis.encode.ragged import run_places, starts
from tamis.encode.rules import EncodedRules
from tamis.errors import EventError, SchemaError, combine_errors

__all__ = ["JsonEncoder"]

_decode = msgspec.json.Decoder().decode


class JsonEncoder:
    """Encodes JSON texts for one set of rules. Safe to use from several threads.

    Parameters
    ----------
    rules
        The rules.
    events
        Encodes events of the same rules that Python has read.
    special
        Attributes whose values Python has to read.
    """

    def __init__(
        self,
        rules: EncodedRules,
        events: EventEncoder,
        special: Collection[str],
    ) -> None:
        self._dictionary = rules.dictionary
        self._axes = rules.dictionary.axes
        self._texts = rules.texts.attributes
        self._events = events
        self._captured = frozenset(map(first_segment, special))
        self._tables: JsonTables | None = None
        self._has_blank: bool | None = None

    def encode(self, texts: JsonTexts, first: int = 0) -> Events:
        """Encode texts; an error names the event by its number, counted from `first`.

        Raises
        ------
        EventError, SchemaError
            A text is not a JSON object, or a value is refused.
        """
        tables = self._tables
        if tables is None:
            # Two threads may both build them; either result is right.
            tables = self._tables = build_tables(self._dictionary, self._captured)
        read = read_texts(tables, texts)
        events, strings = self._entries(texts, read)
        rows, rest = self._read_rest(texts, read, first)
        if rows:
            try:
                others, more = self._events.encode_entries(rest)
            except (EventError, SchemaError) as error:
                raise combine_errors(
                    {first + rows[at]: reason for at, reason in error.refused.items()}  # type: ignore[misc]  # as `combine_errors` got them
                ) from None
            events = merge_rows(events, others, np.array(rows))
            strings += [string._replace(row=rows[string.row]) for string in more]
            strings.sort(key=itemgetter(0))
        # Last, as any entry may guard a text predicate, whoever has read it.
        return self._events.add_texts(events, strings)

    def _read_rest(
        self, texts: JsonTexts, read: ReadTexts, first: int
    ) -> tuple[list[int], list[dict[str, Any]]]:
        """What Python has to read of texts: their rows, and objects with some of their keys."""
        has_rest = read.is_left | (np.diff(read.captured_start) > 0)
        if self._captured and self._says_more_than_nothing():
            has_rest[:] = True
        rows: list[int] = np.flatnonzero(has_rest).tolist()
        rest: list[dict[str, Any]] = []
        errors: dict[int, EventError | SchemaError] = {}
        spans = read.entries.captured.reshape(-1, 4)
        for row in rows:
            try:
                if read.is_left[row]:
                    rest.append(texts.event(row))
                else:
                    some = spans[read.captured_start[row] : read.captured_start[row + 1]]
                    rest.append(_decode_captured(texts, row, some.tolist()))
            except EventError as error:
                errors[first + row] = error
        if errors:
            raise combine_errors(errors)
        return rows, rest

    def _says_more_than_nothing(self) -> bool:
        """Whether an event without values has entries: those of functions of absent attributes."""
        if self._has_blank is None:
            self._has_blank = len(self._events.encode_many([{}]).attribute) > 0
        return self._has_blank

    def _entries(self, texts: JsonTexts, read: ReadTexts) -> tuple[Events, list[StringAt]]:
        """What kernels have read, and the strings among it that may satisfy text predicates."""
        entries = read.entries
        doubles = np.flatnonzero(entries.kind == DOUBLE)
        if len(doubles):
            self._encode_doubles(texts.data, entries, doubles)
        others = {
            int(place): _decode(
                texts.data[entries.begin[place] : entries.end[place]].tobytes(),
            )
            for place in np.flatnonzero(entries.kind == OTHER)
        }
        for place, value in others.items():
            entries.code[place] = self._axes[entries.attribute[place]].code(value)
        no_texts = np.zeros_like(read.start), NO_INT32
        events = Events(
            read.start, entries.attribute, entries.code, *no_texts, NO_DOUBLES, NO_DOUBLES
        )
        return events, self._list_strings(texts, read, others) if self._texts else []

    def _encode_doubles(
        self, data: NDArray[np.uint8], entries: JsonEntries, places: NDArray[np.int64]
    ) -> None:
        """Give doubles of many digits their codes; Arrow reads them exactly."""
        begin, sizes = entries.begin[places], (entries.end - entries.begin)[places]
        bounds, digits = starts(sizes), data[run_places(begin, sizes)]
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(digits)]
        numbers = pa.Array.from_buffers(pa.large_string(), len(places), buffers)
        values = to_numpy(numbers.cast(pa.float64()))
        attributes = entries.attribute[places]
        for attribute in np.unique(attributes).tolist():
            here = attributes == attribute
            entries.code[places[here]] = self._axes[attribute].codes_of_doubles(values[here])

    def _list_strings(
        self, texts: JsonTexts, read: ReadTexts, others: dict[int, Any]
    ) -> list[StringAt]:
        """The strings of attributes with text predicates."""
        entries = read.entries
        has_texts = np.zeros(len(self._axes), np.bool_)
        has_texts[list(self._texts)] = True
        strings = (entries.kind == STRING) | (entries.kind == OTHER)
        places = np.flatnonzero(strings & has_texts[entries.attribute])
        rows = np.searchsorted(read.start, places, "right") - 1
        found: list[StringAt] = []
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            value = others.get(place)
            if value is None:
                value = texts.data[entries.begin[place] : entries.end[place]].tobytes().decode()
            if isinstance(value, str):
                found.append(StringAt(row, int(entries.attribute[place]), value))
        return found


def _decode_captured(texts: JsonTexts, row: int, spans: list[list[int]]) -> dict[str, Any]:
    data = texts.data
    try:
        return {
            data[key:key_end].tobytes().decode(): _decode(data[begin:end].tobytes())
            for key, key_end, begin, end in spans
        }
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return texts.event(row)  # It knows what is wrong.
