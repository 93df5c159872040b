"""Questions about many events at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.encode.arrays import Events, rows_between
from tamis.expr.event import FlatEvent
from tamis.matcher.inputs import event_chunks
from tamis.matcher.join_predicates import JoinPredicates, evaluate_batch_joins
from tamis.matcher.results import id_type, joined_matches, joined_tops
from tamis.matcher.rule import RuleId, Tagged
from tamis.matcher.searcher import Asking, check_n
from tamis.matcher.snapshot import View

__all__ = ["Batching"]


class Batching(Asking):
    """Finds the rules that each of many events satisfies."""

    def match_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """The rules that each of many events satisfies.

        Parameters
        ----------
        events
            A list of mappings, an Arrow table, batch or reader, a pandas or a polars frame.
            Arrow columns are read as they are, without a loop over rows.
        only, at
            As in :meth:`match`.

        Returns
        -------
        pyarrow.Table
            event (the row's number) and rule (its id), a row for each match, by event and then
            in the order in which the rules were added. For a reader a reader, whose batches are
            made as they are asked for, each of a bounded size.
        """
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        segments = [view.segment for view in views]
        schema = pa.schema([("event", pa.int64()), ("rule", id_type(segments))])

        def batches() -> Iterator[pa.RecordBatch]:
            rows = _FIRST_ROWS
            for first, size, encoded in self._encoded(views, events):
                begin = 0
                while begin < size:
                    end = min(begin + rows, size)
                    parts = [
                        view.segment.engine.match(rows_between(part, begin, end), mask)
                        for view, part in zip(views, encoded, strict=True)
                        for mask in [view.mask(chosen)]
                    ]
                    found = joined_matches(segments, parts, first + begin)
                    yield pa.record_batch([pa.array(found.event), found.rule], schema=schema)
                    rows = _affordable_rows(len(found.event), end - begin)
                    begin = end

        return _answer(events, schema, batches())

    def count_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """How many rules each of many events satisfies, without making a list of them.

        Returns
        -------
        pyarrow.Table
            event (the row's number) and matches, a row for each event; for a reader a reader.
        """
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        schema = pa.schema([("event", pa.int64()), ("matches", pa.int64())])

        def batches() -> Iterator[pa.RecordBatch]:
            for first, size, encoded in self._encoded(views, events):
                counts = np.zeros(size, np.int64)
                for view, part in zip(views, encoded, strict=True):
                    counts += view.segment.engine.count(part, view.mask(chosen))
                columns = [pa.array(np.arange(first, first + size)), pa.array(counts)]
                yield pa.record_batch(columns, schema=schema)

        return _answer(events, schema, batches())

    def top_many(
        self,
        events: Any,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """The best rules of each of many events.

        Returns
        -------
        pyarrow.Table
            event (the row's number), rank (1 for the best), rule and score; for a reader a
            reader.
        """
        check_n(n)
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        segments = [view.segment for view in views]
        types = [pa.int64(), pa.int64(), id_type(segments), pa.float64()]
        schema = pa.schema(zip(["event", "rank", "rule", "score"], types, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            for first, _, encoded in self._encoded(views, events):
                parts = [
                    view.segment.engine.top(part, n, view.mask(chosen))
                    for view, part in zip(views, encoded, strict=True)
                ]
                best = joined_tops(segments, parts, n)
                columns = [
                    pa.array(best.event + first),
                    pa.array(best.rank),
                    best.rule,
                    pa.array(best.score),
                ]
                yield pa.record_batch(columns, schema=schema)

        return _answer(events, schema, batches())

    def _encoded(
        self, views: tuple[View, ...], events: Any
    ) -> Iterator[tuple[int, int, list[Events]]]:
        """`events` in chunks: the first one's number, how many, and encoded for each view."""
        first = 0
        names = JoinPredicates(views, ()).usages
        for chunk in event_chunks(events):
            joined: list[FlatEvent] = []
            if names:
                joined = evaluate_batch_joins(
                    chunk, first, names, self._schema, self._document_store
                )
            encoded = [view.segment.encode_chunk(chunk, first, joined) for view in views]
            yield first, len(chunk), encoded
            first += len(chunk)


_FEW = 64
"""How many rules of the tail are made a segment of in a moment."""


_FIRST_ROWS = 1024
_PAIRS = 1 << 22
"""How many events are matched at first, and how many matches a batch is to have at most."""


def _affordable_rows(pairs: int, rows: int) -> int:
    """How many events to match next, when `rows` events had so many matches."""
    return max(1, min(65_536, rows * _PAIRS // max(pairs, 1)))


def _answer(
    events: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> pa.Table | pa.RecordBatchReader:
    """What callers get: all at once, or for a reader a reader."""
    if isinstance(events, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(schema, batches)
    return pa.Table.from_batches(batches, schema)
