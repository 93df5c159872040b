"""The work of executors: Arrow batches of events in, Arrow batches of answers out.

A task is pickled with the names of its shards, never with rules. Workers open and map the shards,
so all workers of a node share their pages, and shards stay open for the next task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tamis
from tamis.errors import EventError, StorageError
from tamis.matcher.results import ScoredPart, select_best
from tamis.spark.match.options import Output
from tamis.spark.match.shipping import find_shipped

__all__ = ["EVENT", "GROUP", "MatchTask", "Probe", "Shape", "key_names", "open_shards"]

Shape: TypeAlias = Literal["columns", "json"]
"""How an event arrives: as a struct or a map, or as JSON text."""

EVENT = "event"
"""The column of the events; the keys stand before it."""

GROUP = "group"
"""The column that says which group of shards an event is for, if there are several groups."""

_BATCH_SIZE = 65_536
"""How many events to gather before matching: kernels work best on many."""

_JSON_BATCH_SIZE = 8_192
"""How many events given as JSON to match at once."""

_decode = msgspec.json.Decoder().decode


def key_names(count: int) -> list[str]:
    """The names of the key columns in batches that go to workers."""
    return [f"k{number}" for number in range(count)]


class Probe(NamedTuple):
    """What decides whether an event is refused, by whichever shard."""

    attributes: tuple[str, ...]
    """The attributes that rules of the index mention."""
    schema: tuple[tuple[str, str], ...]
    """The declared types of attributes."""


@lru_cache(maxsize=2)
def _open_probe(probe: Probe) -> tamis.Matcher:
    """A matcher that refuses the events that some shard refuses."""
    matcher = tamis.Matcher(schema=dict(probe.schema))
    names = enumerate(probe.attributes)
    matcher.add_many((n, tamis.Predicate(name, tamis.Op.PRESENT)) for n, name in names)
    return matcher


@dataclass(frozen=True)
class MatchTask:
    """The work of every task of a query."""

    groups: tuple[tuple[str, ...], ...]
    """The shards: one group for all events, or a group for each value of the column `GROUP`."""
    shipped: bool
    """Whether the shards are names of shipped ones, instead of paths."""
    ask: Output
    n: int
    """How many rules ``"top"`` gives at most."""
    shape: Shape
    keys: tuple[str, ...]
    answers: pa.Schema
    """The columns of the answers, without the keys."""
    probe: Probe | None = None
    """Finds the events to leave out; without it, an event that is refused is an error."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer batches of events. A batch has the keys, maybe the group, and the events."""
        for batch in _gather(batches):
            yield from self.answer(batch)

    def answer(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Answer the events of one batch."""
        # Spark runs as many workers as there are cores.
        tamis.set_threads(1)
        if self.probe is not None:
            bad = self._find_refused(batch.column(EVENT), self.probe)
            if self.ask == "refused":
                yield self._report(batch, bad)
                return
            if bad:
                good = np.ones(batch.num_rows, np.bool_)
                good[list(bad)] = False
                batch = batch.filter(pa.array(good))
        if len(self.groups) == 1:
            yield from self._answer_group(batch, self.groups[0])
            return
        group = batch.column(GROUP)
        for number in pc.unique(group).to_pylist():
            part = batch.filter(pc.equal(group, number))
            yield from self._answer_group(part, self.groups[number])

    def _find_refused(self, column: pa.Array, probe: Probe) -> dict[int, str]:
        """The rows whose events are refused, and the reasons."""
        if self.shape == "columns":
            places, bad = list(range(len(column))), dict[int, str]()
            events: Any = pa.RecordBatch.from_arrays([column], [""])
        else:
            read, bad = _read_each_json(column)
            places, events = list(read), list(read.values())
        skipped: list[tamis.BadEvent] = []
        _open_probe(probe).count_many(events, on_error="skip", skipped=skipped)
        return bad | {places[event]: message for event, message in skipped}

    def _report(self, batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
        """The keys of refused events, and the reasons."""
        rows = pa.array(sorted(bad), pa.int64())
        errors = pa.array([bad[row] for row in sorted(bad)], pa.string())
        answer = pa.record_batch([rows, errors], ["event", "error"])
        keys = [key.take(rows) for key in batch.columns[: len(self.keys)]]
        return self._attach_keys(keys, answer)

    def _answer_group(
        self, batch: pa.RecordBatch, shards: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        matchers = open_shards(shards, self.shipped)
        keys = batch.columns[: len(self.keys)]
        for first, events in self._read_events(batch.column(EVENT)):
            for answer in self._query(matchers, events):
                rows = pc.add(answer.column("event"), first) if first else answer.column("event")
                yield self._attach_keys([key.take(rows) for key in keys], answer)

    def _read_events(self, column: pa.Array) -> Iterator[tuple[int, Any]]:
        """Events in a form that `Matcher` takes, and the row of the first of them."""
        if self.shape == "columns":
            # For a matcher, a column without a name holds whole events.
            yield 0, pa.RecordBatch.from_arrays([column], [""])
            return
        for first in range(0, len(column), _JSON_BATCH_SIZE):
            yield first, _read_json(column.slice(first, _JSON_BATCH_SIZE))

    def _query(self, matchers: Sequence[tamis.Matcher], events: Any) -> Iterator[pa.RecordBatch]:
        match self.ask:
            case "match":
                for matcher in matchers:
                    yield from _match(matcher, events)
            case "counts":
                yield _add_counts(matchers, events)
            case "top":
                yield _merge_tops(matchers, events, self.n)
            case "refused":
                raise ValueError("a task that finds refused events has a probe")

    def _attach_keys(self, keys: list[pa.Array], answer: pa.RecordBatch) -> pa.RecordBatch:
        """Put keys in the place of row numbers, and cast to the types that Spark expects."""
        columns = [
            column if column.type == wanted else column.cast(wanted)
            for column, wanted in zip(answer.columns[1:], self.answers.types, strict=True)
        ]
        names = [*self.keys, *self.answers.names]
        return pa.RecordBatch.from_arrays([*keys, *columns], names)


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _BATCH_SIZE:
            yield _concat(waiting)
            waiting = []
    if any(part.num_rows for part in waiting):
        yield _concat(waiting)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _match(matcher: tamis.Matcher, events: Any) -> Iterator[pa.RecordBatch]:
    """Match events; the answers come in batches that fit in memory."""
    if isinstance(events, list):
        yield from matcher.match_many(events).to_batches()
        return
    yield from matcher.match_many(pa.RecordBatchReader.from_batches(events.schema, [events]))


def _add_counts(matchers: Sequence[tamis.Matcher], events: Any) -> pa.RecordBatch:
    tables = [matcher.count_many(events) for matcher in matchers]
    total = sum(table["matches"].to_numpy() for table in tables)
    return pa.record_batch([np.arange(len(total)), total], ["event", "matches"])


def _merge_tops(matchers: Sequence[tamis.Matcher], events: Any, n: int) -> pa.RecordBatch:
    """The `n` best rules of all shards: by score, then shard, then rank in the shard."""
    tables = [matcher.top_many(events, n) for matcher in matchers]
    if len(tables) == 1:
        return _one_batch(tables[0])
    parts = [
        ScoredPart(*(table[name].to_numpy() for name in ("event", "score", "rank")))
        for table in tables
    ]
    event, rank, position = select_best(parts, n)
    found = pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])
    best = _one_batch(found.select(["rule", "score"]).take(position))
    return pa.record_batch([event, rank, *best.columns], ["event", "rank", "rule", "score"])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _read_json(column: pa.Array) -> list[dict[str, Any]]:
    return [_parse_json(text) for text in column.to_pylist()]


def _read_each_json(column: pa.Array) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """The events by row, and the reasons why other rows have none."""
    events: dict[int, dict[str, Any]] = {}
    bad: dict[int, str] = {}
    for row, text in enumerate(column.to_pylist()):
        try:
            events[row] = _parse_json(text)
        except EventError as error:
            bad[row] = str(error)
    return events, bad


def _parse_json(text: str | None) -> dict[str, Any]:
    try:
        event = {} if text is None else _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise EventError(f"an event is not JSON: {reason}: {_shorten(text or '')}") from None
    if not isinstance(event, dict):
        raise EventError(f"an event is a JSON object, not {_shorten(text or '')}")
    return event


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


@lru_cache(maxsize=2)
def open_shards(shards: tuple[str, ...], shipped: bool = False) -> list[tamis.Matcher]:
    """Open shards; those of the previous query stay open, too."""
    return [_open(find_shipped(shard) if shipped else shard, shipped) for shard in shards]


def _open(path: str, shipped: bool) -> tamis.Matcher:
    try:
        return tamis.open(path, read_only=True)
    except StorageError as error:
        raise StorageError(f"{error.message}; {_hint(error, shipped)}", path=error.path) from error


def _hint(error: StorageError, shipped: bool) -> str:
    if "cannot allocate memory" in error.message.lower():
        return "spark.executor.pyspark.memory limits what a worker may map: raise or unset it"
    if shipped:
        return "Spark shipped it; is the disk of the node full?"
    return (
        "every node has to see the index under this path; or pass ship=True to have Spark ship it"
    )
