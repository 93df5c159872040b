"""What runs on the executors: Arrow batches of events in, Arrow batches of answers out.

A task is pickled with the names of shards, never with rules. Shards are opened by the worker and
mapped, so the pages of one are shared by all workers of a node, and stay open for the next task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tamis
from tamis.errors import EventError, StorageError
from tamis.spark.match.shipped_shards import received

__all__ = ["EVENT", "GROUP", "Ask", "Shape", "Task", "opened"]

Ask: TypeAlias = Literal["match", "counts", "top"]

Shape: TypeAlias = Literal["columns", "json"]
"""How an event comes: as a struct or a map, or as JSON text."""

EVENT = "event"
"""The column that holds events; the keys stand before it."""

GROUP = "group"
"""The column that says which shards an event is for, where that is not all."""

_ROWS = 65_536
"""How many events are gathered before they are matched: kernels are best at many."""

_DICTS = 8_192
"""How many events given as JSON are matched at once."""

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Task:
    """What every task of a query does."""

    groups: tuple[tuple[str, ...], ...]
    """The shards: one group of them for all events, or those of each group of a sharded plan."""
    shipped: bool
    """Whether the shards are names of what Spark brought, instead of paths."""
    ask: Ask
    n: int
    """How many rules ``"top"`` gives at most."""
    shape: Shape
    keys: tuple[str, ...]
    answers: pa.Schema
    """What was asked for, beside the keys."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers for some events. A batch holds the keys, the events, and maybe the group."""
        for batch in _gathered(batches):
            yield from self.answer(batch)

    def answer(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The answers for the events of one batch."""
        # Spark runs as many workers as there are cores.
        tamis.set_threads(1)
        if len(self.groups) == 1:
            yield from self._answers(batch, self.groups[0])
            return
        group = batch.column(GROUP)
        for number in pc.unique(group).to_pylist():
            part = batch.filter(pc.equal(group, number))
            yield from self._answers(part, self.groups[number])

    def _answers(self, batch: pa.RecordBatch, shards: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        column = batch.column(EVENT)
        matchers = opened(shards, self.shipped)
        keys = batch.columns[: len(self.keys)]
        for first, events in self._events(column):
            for answer in self._asked(matchers, events):
                rows = pc.add(answer.column("event"), first) if first else answer.column("event")
                yield self._shaped([key.take(rows) for key in keys], answer)

    def _events(self, column: pa.Array) -> Iterator[tuple[int, Any]]:
        """The events as `Matcher` takes them, and the row of the first."""
        if self.shape == "columns":
            # A column without a name holds the events themselves.
            yield 0, pa.RecordBatch.from_arrays([column], [""])
            return
        for first in range(0, len(column), _DICTS):
            yield first, _read_json(column.slice(first, _DICTS))

    def _asked(self, matchers: Sequence[tamis.Matcher], events: Any) -> Iterator[pa.RecordBatch]:
        match self.ask:
            case "match":
                for matcher in matchers:
                    yield from _bounded(matcher, events)
            case "counts":
                yield _all_counts(matchers, events)
            case "top":
                yield _best(matchers, events, self.n)

    def _shaped(self, keys: list[pa.Array], answer: pa.RecordBatch) -> pa.RecordBatch:
        """An answer with keys in the place of row numbers, in the types that Spark waits for."""
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(answer.columns[1:], self.answers.types, strict=True)
        ]
        names = [*self.keys, *self.answers.names]
        return pa.RecordBatch.from_arrays([*keys, *columns], names)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _ROWS:
            yield _joined(waiting)
            waiting = []
    if any(part.num_rows for part in waiting):
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _bounded(matcher: tamis.Matcher, events: Any) -> Iterator[pa.RecordBatch]:
    """What `events` match, in pieces that fit in memory."""
    if isinstance(events, list):
        yield from matcher.match_many(events).to_batches()
        return
    yield from matcher.match_many(pa.RecordBatchReader.from_batches(events.schema, [events]))


def _all_counts(matchers: Sequence[tamis.Matcher], events: Any) -> pa.RecordBatch:
    tables = [matcher.count_many(events) for matcher in matchers]
    total = sum(table["matches"].to_numpy() for table in tables)
    return pa.record_batch([np.arange(len(total)), total], ["event", "matches"])


def _best(matchers: Sequence[tamis.Matcher], events: Any, n: int) -> pa.RecordBatch:
    """The `n` best of the best of each shard: by score, then shard, then rank in the shard."""
    tables = [matcher.top_many(events, n) for matcher in matchers]
    if len(tables) == 1:
        return _one_batch(tables[0])
    shard = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    found = pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])
    event, rank, score = (found[name].to_numpy() for name in ("event", "rank", "score"))
    order = np.lexsort((rank, shard, -score, event))
    event = event[order]
    rank = np.arange(len(event)) - np.searchsorted(event, event) + 1
    kept = rank <= n
    order = order[kept]
    best = _one_batch(found.select(["rule", "score"]).take(order))
    return pa.record_batch(
        [event[kept], rank[kept], *best.columns], ["event", "rank", "rule", "score"]
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _read_json(column: pa.Array) -> list[dict[str, Any]]:
    events = []
    for text in column.to_pylist():
        try:
            event = {} if text is None else _decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            reason = str(error).removeprefix("JSON is malformed: ")
            raise EventError(f"an event is no JSON: {reason}: {_shown(text)}") from None
        if not isinstance(event, dict):
            raise EventError(f"an event is a JSON object, not {_shown(text)}")
        events.append(event)
    return events


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


@lru_cache(maxsize=2)
def opened(shards: tuple[str, ...], shipped: bool = False) -> list[tamis.Matcher]:
    """The matchers of some shards; those of the query before stay open, too."""
    return [_open(received(shard) if shipped else shard, shipped) for shard in shards]


def _open(path: str, shipped: bool) -> tamis.Matcher:
    try:
        return tamis.open(path, read_only=True, verify=False)
    except StorageError as error:
        raise StorageError(f"{error.message}; {_hint(error, shipped)}", path=error.path) from error


def _hint(error: StorageError, shipped: bool) -> str:
    if "cannot allocate memory" in error.message.lower():
        return "spark.executor.pyspark.memory limits what a worker may map: raise or unset it"
    if shipped:
        return "Spark brought it; does the node's disk have room?"
    return (
        "every node has to see the index under this path, or pass ship=True to have Spark bring it"
    )
