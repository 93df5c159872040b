"""Searches one snapshot for the rules that each of many events satisfies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tamis.deadline import limit_time
from tamis.encode.arrays import Events, rows_between
from tamis.expr.event import FlatEvent
from tamis.joins.document_store import DocumentStore
from tamis.matcher.event_limits import EventLimits
from tamis.matcher.inputs import split_events
from tamis.matcher.join_predicates import JoinPredicates, evaluate_batch_joins
from tamis.matcher.results import id_type, merge_matches, merge_tops
from tamis.matcher.schema import Schema
from tamis.matcher.selection import Selection
from tamis.matcher.snapshot import View

__all__ = ["BatchSearcher"]

_FIRST_ROWS = 1024
"""How many events are matched before the number of matches per event is known."""

_MOST_ROWS = 65_536
"""How many events are matched at once at most."""

_MATCHES = 1 << 22
"""How many matches a batch of answers should have at most."""


class _EncodedChunk(NamedTuple):
    first: int
    """The number of the first event."""
    size: int
    parts: list[Events]
    """The events, encoded for each segment."""


class BatchSearcher:
    """Finds the rules that each of many events satisfies, and answers in Arrow.

    Events are encoded in chunks. Each search returns a table, or a reader if the events come from
    a reader; then the answers are computed while they are read.

    Parameters
    ----------
    views
        The rules, all of them in segments.
    schema
        The declared types of attributes.
    documents
        The documents that join predicates refer to.
    limits
        The largest events to take.
    milliseconds
        How long an event may take, on average over those that are read at once.
    """

    def __init__(
        self,
        views: Sequence[View],
        schema: Schema,
        documents: DocumentStore,
        limits: EventLimits | None = None,
        milliseconds: float | None = None,
    ) -> None:
        self._views = views
        self._limits = limits
        self._milliseconds = milliseconds
        self._segments = [view.segment for view in views]
        self._schema = schema
        self._documents = documents

    def match(self, events: Any, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Find the matching rules: one row (event, rule) per match."""
        schema = pa.schema([("event", pa.int64()), ("rule", id_type(self._segments))])

        def batches() -> Iterator[pa.RecordBatch]:
            rows = _FIRST_ROWS
            for chunk in self._encode(events):
                begin = 0
                while begin < chunk.size:
                    end = min(begin + rows, chunk.size)
                    parts = [
                        view.segment.engine.match(
                            rows_between(part, begin, end), view.mask(selection)
                        )
                        for view, part in zip(self._views, chunk.parts, strict=True)
                    ]
                    matches = merge_matches(self._segments, parts, chunk.first + begin)
                    columns = [pa.array(matches.event), matches.rule]
                    yield from _split(columns, schema)
                    rows = _affordable_rows(len(matches.event), end - begin)
                    begin = end

        return _answer(events, schema, batches())

    def count(self, events: Any, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Count the matching rules: one row (event, matches) per event."""
        schema = pa.schema([("event", pa.int64()), ("matches", pa.int64())])

        def batches() -> Iterator[pa.RecordBatch]:
            for first, size, parts in self._encode(events):
                counts = np.zeros(size, np.int64)
                for view, part in zip(self._views, parts, strict=True):
                    counts += view.segment.engine.count(part, view.mask(selection))
                columns = [pa.array(np.arange(first, first + size)), pa.array(counts)]
                yield pa.record_batch(columns, schema=schema)

        return _answer(events, schema, batches())

    def top(self, events: Any, n: int, selection: Selection) -> pa.Table | pa.RecordBatchReader:
        """Find the `n` rules of the highest scores: rows (event, rank, rule, score)."""
        types = [pa.int64(), pa.int64(), id_type(self._segments), pa.float64()]
        schema = pa.schema(zip(["event", "rank", "rule", "score"], types, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            for first, _, parts in self._encode(events):
                tops = [
                    view.segment.engine.top(part, n, view.mask(selection))
                    for view, part in zip(self._views, parts, strict=True)
                ]
                best = merge_tops(self._segments, tops, n)
                columns = [
                    pa.array(best.event + first),
                    pa.array(best.rank),
                    best.rule,
                    pa.array(best.score),
                ]
                yield from _split(columns, schema)

        return _answer(events, schema, batches())

    def _encode(self, events: Any) -> Iterator[_EncodedChunk]:
        """Encode `events` chunk by chunk for each segment."""
        first = 0
        names = JoinPredicates(self._views, ()).usages
        for chunk in split_events(events):
            if self._limits is not None and isinstance(chunk, list):
                self._limits.check_many(chunk, first)
            joins: list[FlatEvent] = []
            with limit_time(self._milliseconds, len(chunk)):
                if names:
                    joins = evaluate_batch_joins(chunk, first, names, self._schema, self._documents)
                parts = [segment.encode_chunk(chunk, first, joins) for segment in self._segments]
            yield _EncodedChunk(first, len(chunk), parts)
            first += len(chunk)


def _affordable_rows(matches: int, rows: int) -> int:
    """How many events to match next, after `rows` events had so many matches."""
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
    """Collect all batches in a table, or pass them on as a reader if `events` is a reader."""
    if isinstance(events, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(schema, batches)
    return pa.Table.from_batches(batches, schema)
