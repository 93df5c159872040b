"""Searches one snapshot for the rules that each of many events satisfies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.encode.arrays import Events, rows_between
from tamis.encode.arrow_arrays import to_arrow
from tamis.engines.base import MatchChunks, Matches
from tamis.matcher.chunk_encoder import ChunkEncoder
from tamis.matcher.inputs import EventStream
from tamis.matcher.results import (
    MergedMatches,
    id_type,
    merge_firsts,
    merge_lists,
    merge_matches,
    merge_tops,
    take_lists,
    take_matches,
)
from tamis.matcher.selection import Selection
from tamis.matcher.snapshot import View

__all__ = ["BatchSearcher", "Form", "schema_of_matches"]

Form: TypeAlias = Literal["pairs", "lists"]
"""Whether the answers have a row per match, or a row per event with a list of rules."""

_FIRST_ROWS = 1024
"""How many events are matched before the number of matches per event is known."""

_MOST_ROWS = 65_536
"""How many events are matched at once at most."""

_MATCHES = 1 << 22
"""How many matches a batch of answers should have at most."""


class BatchSearcher:
    """Finds the rules that each of many events satisfies, and answers in Arrow.

    Events are encoded in chunks. Each search returns a table, or a reader if the events come from
    a reader; then the answers are computed while they are read.

    Parameters
    ----------
    views
        The rules, all of them in segments.
    encoder
        Encodes events for these segments.
    """

    def __init__(self, views: Sequence[View], encoder: ChunkEncoder) -> None:
        self._views = views
        self._segments = [view.segment for view in views]
        self._encoder = encoder

    def match(
        self, events: Any, selection: Selection, form: Form = "pairs"
    ) -> pa.Table | pa.RecordBatchReader:
        """Find the matching rules: one row (event, rule) per match, or (event, rules) per event."""
        schema = schema_of_matches(form, id_type(self._segments))

        def batches() -> Iterator[pa.RecordBatch]:
            rows, expected = _FIRST_ROWS, 0
            for chunk in self._encoder.encode(events):
                begin, size = 0, len(chunk.numbers)
                while begin < size:
                    check_time()
                    end = min(begin + rows, size)
                    events_of = [rows_between(part, begin, end) for part in chunk.parts]
                    numbers = chunk.numbers[begin:end]
                    if form == "pairs":
                        matches = self._match_pairs(events_of, selection, numbers, expected)
                        found = len(matches.rule)
                        yield from _split(list(matches), schema)
                    else:
                        lists = self._match_lists(events_of, selection, expected)
                        found = len(lists.values)
                        yield pa.record_batch([to_arrow(numbers), lists], schema=schema)
                    rows, expected = _affordable_rows(found, end - begin), found // (end - begin)
                    begin = end

        return _answer(events, schema, batches())

    def _match_pairs(
        self,
        events: Sequence[Events],
        selection: Selection,
        numbers: NDArray[np.int64],
        expected: int,
    ) -> MergedMatches:
        """The matches of events with these numbers, which are encoded for each segment."""
        chunks = self._match_integers(events, selection, numbers, expected)
        if chunks is not None:
            return take_matches(chunks)
        places = self._match_places(events, selection, expected)
        return merge_matches(self._segments, places, numbers)

    def _match_lists(
        self, events: Sequence[Events], selection: Selection, expected: int
    ) -> pa.LargeListArray:
        """A list of matching rules for each event."""
        chunks = self._match_integers(events, selection, None, expected)
        if chunks is not None:
            return take_lists(chunks)
        return merge_lists(self._segments, self._match_places(events, selection, expected))

    def _match_integers(
        self,
        events: Sequence[Events],
        selection: Selection,
        numbers: NDArray[np.int64] | None,
        expected: int,
    ) -> MatchChunks | None:
        """The ids that the only engine has written, if all ids are integers; else None."""
        if len(self._views) != 1:
            return None
        ids = self._segments[0].ids
        if ids.has_texts or not ids.has_numbers:
            return None
        mask = self._views[0].mask(selection)
        return self._segments[0].engine.match_chunks(events[0], mask, True, numbers, expected)

    def _match_places(
        self, events: Sequence[Events], selection: Selection, expected: int
    ) -> list[Matches]:
        """The matches in each segment; an event is likely to have `expected` in all of them."""
        each = expected // max(len(self._views), 1)
        return [
            view.segment.engine.match(part, view.mask(selection), each)
            for view, part in zip(self._views, events, strict=True)
        ]

    def count(self, events: Any, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Count the matching rules: one row (event, matches) per event."""
        schema = pa.schema([("event", pa.int64()), ("matches", pa.int64())])

        def batches() -> Iterator[pa.RecordBatch]:
            for numbers, parts in self._encoder.encode(events):
                counts = np.zeros(len(numbers), np.int64)
                for view, part in zip(self._views, parts, strict=True):
                    counts += view.segment.engine.count(part, view.mask(selection))
                yield pa.record_batch([to_arrow(numbers), to_arrow(counts)], schema=schema)

        return _answer(events, schema, batches())

    def top(self, events: Any, n: int, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Find the `n` rules of the highest scores: rows (event, rank, rule, score)."""
        types = [pa.int64(), pa.int64(), id_type(self._segments), pa.float64()]
        schema = pa.schema(zip(["event", "rank", "rule", "score"], types, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            for numbers, parts in self._encoder.encode(events):
                tops = [
                    view.segment.engine.top(part, n, view.mask(selection))
                    for view, part in zip(self._views, parts, strict=True)
                ]
                best = merge_tops(self._segments, tops, n)
                columns = [
                    to_arrow(numbers[best.event]),
                    to_arrow(best.rank),
                    best.rule,
                    to_arrow(best.score),
                ]
                yield from _split(columns, schema)

        return _answer(events, schema, batches())

    def first(self, events: Any, n: int, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Find the `n` rules of the highest priorities: rows (event, rank, rule, priority)."""
        types = [pa.int64(), pa.int64(), id_type(self._segments), pa.int64()]
        schema = pa.schema(zip(["event", "rank", "rule", "priority"], types, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            rows, expected = _FIRST_ROWS, 0
            for numbers, parts in self._encoder.encode(events):
                begin = 0
                while begin < len(numbers):
                    check_time()
                    end = min(begin + rows, len(numbers))
                    some = [rows_between(part, begin, end) for part in parts]
                    matches = self._match_places(some, selection, expected)
                    best = merge_firsts(self._segments, matches, n)
                    columns = [
                        to_arrow(numbers[begin + best.event]),
                        to_arrow(best.rank),
                        best.rule,
                        to_arrow(best.priority),
                    ]
                    yield from _split(columns, schema)
                    found = sum(len(part.rule) for part in matches)
                    rows, expected = _affordable_rows(found, end - begin), found // (end - begin)
                    begin = end

        return _answer(events, schema, batches())


def schema_of_matches(form: Form, ids: pa.DataType) -> pa.Schema:
    """The columns of the answers to `match`."""
    if form == "pairs":
        return pa.schema([("event", pa.int64()), ("rule", ids)])
    if pa.types.is_string(ids):
        # An id that matches many events is then stored once.
        ids = pa.dictionary(pa.int32(), pa.large_string())
    return pa.schema([("event", pa.int64()), ("rules", pa.large_list(ids))])


def _affordable_rows(matches: int, rows: int) -> int:
    """How many events to match next, after `rows` events had `matches` matches."""
    return max(1, min(_MOST_ROWS, rows * _MATCHES // max(matches, 1)))


def _split(
    columns: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema
) -> list[pa.RecordBatch]:
    """The batches of columns that may have several chunks; at least one, which may be empty."""
    table = pa.table(columns, schema=schema)
    # Arrow cannot combine the chunks of a union of which there are none.
    if not table.num_rows:
        return [pa.record_batch([column.chunk(0) for column in table.columns], schema=schema)]
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


def _answer(
    events: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> pa.Table | pa.RecordBatchReader:
    """Collect all batches in a table, or pass them on as a reader if `events` are a stream."""
    if isinstance(events, pa.RecordBatchReader | EventStream):
        return pa.RecordBatchReader.from_batches(schema, batches)
    return pa.Table.from_batches(batches, schema)
