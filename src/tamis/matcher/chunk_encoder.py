"""Encodes many events chunk by chunk, and leaves out those that are refused if the caller asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.deadline import limit_time
from tamis.encode.arrays import Events
from tamis.encode.arrow_arrays import to_arrow
from tamis.encode.arrow_layouts import take
from tamis.encode.arrow_rows import read_rows
from tamis.encode.json.texts import JsonTexts
from tamis.encode.json.warm_up import are_worth_it
from tamis.errors import EventError, SchemaError
from tamis.expr.event import FlatEvent
from tamis.joins.document_store import DocumentStore
from tamis.matcher.event_limits import EventLimits
from tamis.matcher.inputs import EventChunk, split_chunks
from tamis.matcher.join_predicates import JoinPredicates, evaluate_batch_joins, news_of
from tamis.matcher.schema import Schema
from tamis.matcher.skipped_events import SkippedEvents
from tamis.matcher.snapshot import View

__all__ = ["ChunkEncoder", "EncodedChunk"]


class EncodedChunk(NamedTuple):
    """Consecutive events without those that were skipped."""

    numbers: NDArray[np.int64]
    """The number of each event, rising."""
    parts: list[Events]
    """The events, encoded for each segment."""


class ChunkEncoder:
    """Encodes events for each segment of a snapshot.

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
    skipped
        Where refused events are reported; without it the first one is an error.
    """

    def __init__(
        self,
        views: Sequence[View],
        schema: Schema,
        documents: DocumentStore,
        limits: EventLimits | None,
        milliseconds: float | None,
        skipped: SkippedEvents | None,
    ) -> None:
        self._segments = [view.segment for view in views]
        self._schema = schema
        self._documents = documents
        self._limits = limits
        self._milliseconds = milliseconds
        self._skipped = skipped
        self._joins: Collection[str] = JoinPredicates(views, ()).usages

    def encode(self, events: Any) -> Iterator[EncodedChunk]:
        """Encode `events` chunk by chunk.

        Raises
        ------
        EventError, SchemaError
            An event is refused and not skipped; the message has its number.
        """
        first = 0
        for chunk in split_chunks(events):
            size = chunk.size if isinstance(chunk, JsonTexts) else len(chunk)
            numbers = np.arange(first, first + size)
            if self._skipped is None:
                yield EncodedChunk(numbers, self._encode(chunk, first))
            else:
                yield self._encode_good(chunk, numbers, self._skipped)
            first += size
        if self._skipped is not None:
            self._skipped.warn()

    def _encode(self, chunk: EventChunk | JsonTexts, first: int) -> list[Events]:
        if isinstance(chunk, JsonTexts):
            if self._limits is None and not self._joins and are_worth_it(chunk.size):
                with limit_time(self._milliseconds, chunk.size):
                    return [segment.encode_texts(chunk, first) for segment in self._segments]
            chunk = chunk.events(first)
        if self._limits is not None:
            self._limits.check_many(chunk, first)
        schema, documents = self._schema, self._documents
        joins: list[FlatEvent] = []
        with limit_time(self._milliseconds, len(chunk)):
            if self._joins:
                joins = evaluate_batch_joins(chunk, first, self._joins, schema, documents)
            return [segment.encode_chunk(chunk, first, joins) for segment in self._segments]

    def _encode_good(
        self, chunk: EventChunk | JsonTexts, numbers: NDArray[np.int64], skipped: SkippedEvents
    ) -> EncodedChunk:
        """Encode the events that are not refused, however many attempts that takes.

        An error knows all events that are refused for one reason, so there are few attempts.
        """
        while True:
            try:
                return EncodedChunk(numbers, self._encode(chunk, 0))
            except (EventError, SchemaError) as error:
                bad = error.refused
                if not bad and isinstance(chunk, list | JsonTexts):
                    raise
            if not bad:
                # A whole column contradicts the schema; its rows may not all do.
                try:
                    chunk = read_rows(chunk, self._attributes())
                    continue
                except EventError as error:
                    bad = error.refused
            skipped.add({int(numbers[row]): reason for row, reason in bad.items()})
            good = np.ones(len(numbers), np.bool_)
            good[list(bad)] = False
            numbers = numbers[good]
            chunk = _keep(chunk, good)

    def _attributes(self) -> frozenset[str]:
        """The attributes that matter to a rule."""
        return news_of(self._joins).union(*(segment.attributes for segment in self._segments))


def _keep(chunk: EventChunk | JsonTexts, good: NDArray[np.bool_]) -> EventChunk | JsonTexts:
    """The events of a chunk that are good."""
    if isinstance(chunk, JsonTexts):
        return chunk.keep(good)
    if isinstance(chunk, list):
        return [chunk[row] for row in np.flatnonzero(good).tolist()]
    places = to_arrow(np.flatnonzero(good))
    columns = [take(column, places) for column in chunk.columns]
    return pa.RecordBatch.from_arrays(columns, chunk.schema.names)
