"""The work of executors: Arrow batches of events in, Arrow batches of answers out.

A task is pickled with the names of its shards, never with rules. Workers open and map the shards,
so all workers of a node share their pages, and shards stay open for the next task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import tamis
from tamis.encode.arrow_arrays import to_numpy
from tamis.encode.json.reader import find_suspects
from tamis.encode.json.texts import JsonTexts
from tamis.encode.json.warm_up import are_worth_it
from tamis.errors import EventError, SchemaError, StorageError
from tamis.expr.times import count_microseconds, to_timestamp
from tamis.matcher.published.address import is_address, resolve_place
from tamis.matcher.published.open import open_shard
from tamis.matcher.results import ScoredPart, select_best
from tamis.spark.match.options import Only, Output
from tamis.spark.match.packed_columns import Packing
from tamis.spark.match.shipping import find_shipped

__all__ = [
    "AT",
    "EVENT",
    "GROUP",
    "MatchTask",
    "Probe",
    "Shape",
    "ShardName",
    "key_names",
    "open_shards",
    "to_moments",
    "to_texts",
]

Shape: TypeAlias = Literal["columns", "json", "expressions"]
"""How an event arrives: as a struct or a map, as JSON text, or as an event expression."""

EVENT = "event"
"""The column of the events; the keys stand before it."""

AT = "at"
"""The column with the times of the events, in microseconds since 1970, if they have times."""

GROUP = "group"
"""The column that says which group of shards an event is for, if there are several groups."""

_BATCH_SIZE = 65_536
"""How many events to gather before matching: kernels work best on many."""

_JSON_BATCH_SIZE = 8_192
"""How many events given as JSON to match at once."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def key_names(count: int) -> list[str]:
    """The names of the key columns in batches that go to workers."""
    return [f"k{number}" for number in range(count)]


class ShardName(NamedTuple):
    """Where a shard is, and what it holds: an index may be built anew under the same path."""

    address: str
    """Its path, its address in a bucket, or the name under which it was shipped."""
    hash: str
    """The hash of its files."""


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

    groups: tuple[tuple[ShardName, ...], ...]
    """The shards: one group for all events, or a group for each value of the column `GROUP`."""
    shipped: bool
    """Whether the shards are names of shipped ones, instead of paths."""
    ask: Output
    n: int
    """How many rules ``"first"`` and ``"top"`` give at most."""
    only: Only
    """Which rules to consider."""
    at: datetime
    """When rules have to be valid, unless the events have times: see `AT`."""
    shape: Shape
    keys: tuple[str, ...]
    answers: pa.Schema
    """The columns of the answers, without the keys."""
    probe: Probe | None = None
    """Finds the events to leave out; without it, an event that is refused is an error."""
    packing: Packing | None = None
    """How the columns of events are packed in the batches that Spark sends, if they are."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer batches of events. A batch has the keys, maybe the group, and the events."""
        for batch in _gather(batches):
            yield from self.answer(batch if self.packing is None else self.packing.unpack(batch))

    def answer(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Answer the events of one batch."""
        # Spark runs as many workers as there are cores.
        tamis.set_threads(1)
        if self.probe is not None:
            bad = self._find_refused(batch, self.probe)
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

    def _find_refused(self, batch: pa.RecordBatch, probe: Probe) -> dict[int, str]:
        """The rows whose events are refused, and the reasons."""
        column = batch.column(EVENT)
        if self.shape == "expressions":
            return self._find_refused_expressions(column.to_pylist())
        if self.shape == "columns":
            places, bad = list(range(len(column))), dict[int, str]()
            events: Any = pa.RecordBatch.from_arrays([column], [""])
        else:
            texts = to_texts(column)
            bad = _find_malformed(texts)
            good = np.ones(texts.size, np.bool_)
            good[list(bad)] = False
            places, events = np.flatnonzero(good).tolist(), texts.keep(good)
        skipped: list[tamis.BadEvent] = []
        _open_probe(probe).count_many(events, on_error="skip", skipped=skipped)
        return bad | {places[event]: message for event, message in skipped}

    def _find_refused_expressions(self, texts: list[str | None]) -> dict[int, str]:
        """The rows whose expressions some shard refuses: that depends on its rules."""
        bad: dict[int, str] = {}
        for group in self.groups:
            for matcher in open_shards(group, self.shipped):
                skipped: list[tamis.BadEvent] = []
                matcher.match_expression_many(
                    _fill_missing(texts), only=self.only, on_error="skip", skipped=skipped
                )
                bad |= dict(skipped)
        return bad

    def _report(self, batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
        """The keys of refused events, and the reasons."""
        rows = pa.array(sorted(bad), pa.int64())
        errors = pa.array([bad[row] for row in sorted(bad)], pa.string())
        answer = pa.record_batch([rows, errors], ["event", "error"])
        keys = [key.take(rows) for key in batch.columns[: len(self.keys)]]
        return self._attach_keys(keys, answer)

    def _answer_group(
        self, batch: pa.RecordBatch, shards: tuple[ShardName, ...]
    ) -> Iterator[pa.RecordBatch]:
        matchers = open_shards(shards, self.shipped)
        if AT not in batch.schema.names:
            yield from self._answer_rows(matchers, batch, self.at)
            return
        for at, rows in _split_by_period(matchers, batch.column(AT), self.at):
            yield from self._answer_rows(matchers, batch.take(rows), at)

    def _answer_rows(
        self, matchers: Sequence[tamis.Matcher], batch: pa.RecordBatch, at: datetime
    ) -> Iterator[pa.RecordBatch]:
        """Answer events at a time at which rules have to be valid."""
        keys = batch.columns[: len(self.keys)]
        for first, events in self._read_events(batch.column(EVENT)):
            for answer in self._name_events(first, keys, self._query(matchers, events, at)):
                rows = pc.add(answer.column("event"), first) if first else answer.column("event")
                yield self._attach_keys([key.take(rows) for key in keys], answer)

    def _read_events(self, column: pa.Array) -> Iterator[tuple[int, Any]]:
        """Events in a form that `Matcher` takes, and the row of the first of them."""
        if self.shape == "columns":
            # For a matcher, a column without a name holds whole events.
            yield 0, pa.RecordBatch.from_arrays([column], [""])
            return
        if self.shape == "expressions":
            yield 0, _fill_missing(column.to_pylist())
            return
        for number, texts in enumerate(to_texts(column).chunks(_JSON_BATCH_SIZE)):
            yield number * _JSON_BATCH_SIZE, texts

    def _name_events(
        self, first: int, keys: list[pa.Array], answers: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The same answers; an error about an event names it by its keys, not by its number."""
        try:
            yield from answers
        except (EventError, SchemaError) as error:
            if not error.refused:
                raise
            number = min(error.refused)
            named = (
                f"{name}={key[first + number].as_py()!r}"
                for name, key in zip(self.keys, keys, strict=True)
            )
            count = f" (and {len(error.refused) - 1:,} more)" if len(error.refused) > 1 else ""
            raise type(error)(
                f"event {', '.join(named)}: {error.refused[number]}{count}; "
                "on_error='skip' leaves such events out"
            ) from None

    def _query(
        self, matchers: Sequence[tamis.Matcher], events: Any, at: datetime
    ) -> Iterator[pa.RecordBatch]:
        rules: dict[str, Any] = {"only": self.only, "at": at}
        match self.ask:
            case "match":
                find = _match_encoded if self._encodes_ids else _match
                for matcher in matchers:
                    yield from find(matcher, events, rules)
            case "lists":
                yield _merge_lists([_match_lists(matcher, events, rules) for matcher in matchers])
            case "counts":
                yield _add_counts([matcher.count_many(events, **rules) for matcher in matchers])
            case "first":
                tables = [matcher.first_many(events, self.n, **rules) for matcher in matchers]
                yield _merge_best(tables, "priority", self.n)
            case "top":
                tables = [matcher.top_many(events, self.n, **rules) for matcher in matchers]
                yield _merge_best(tables, "score", self.n)
            case _:
                raise ValueError(f"a matching task does not answer {self.ask!r}")

    @property
    def _encodes_ids(self) -> bool:
        """Whether rules are numbers in a dictionary of ids: cheaper to write than texts."""
        return any(map(pa.types.is_dictionary, self.answers.types))

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


def _split_by_period(
    matchers: Sequence[tamis.Matcher], times: pa.Array, default: datetime
) -> Iterator[tuple[datetime, pa.Array]]:
    """Group rows by the period of their times, in which the same rules are valid.

    A row without a time has the time `default`.
    """
    moments = _count_moments(times, default)
    changes = np.unique(np.concatenate([matcher.validity_times() for matcher in matchers]))
    periods = np.searchsorted(changes.view(np.int64), moments, side="right")
    for period in np.unique(periods):
        rows = np.flatnonzero(periods == period)
        yield to_timestamp(int(moments[rows[0]])), pa.array(rows)


def to_moments(times: pa.Array, default: datetime) -> list[datetime]:
    """The times of events; a row without a time has the time `default`."""
    return [to_timestamp(int(moment)) for moment in _count_moments(times, default)]


def _count_moments(times: pa.Array, default: datetime) -> NDArray[np.int64]:
    """The times of events in microseconds, within those that a datetime can hold.

    All rules with an end have ended after the last of these.
    """
    moments = to_numpy(pc.fill_null(times, count_microseconds(default)))
    clipped: NDArray[np.int64] = moments.clip(
        count_microseconds(_EARLIEST), count_microseconds(_LATEST)
    )
    return clipped


def _match(matcher: tamis.Matcher, events: Any, rules: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Match events; the answers come in batches that fit in memory."""
    if isinstance(events, list):
        yield from matcher.match_expression_many(events, **rules).to_batches()
        return
    if isinstance(events, JsonTexts):
        yield from matcher.match_many(events, **rules).to_batches()
        return
    reader = pa.RecordBatchReader.from_batches(events.schema, [events])
    yield from matcher.match_many(reader, **rules)


def _match_encoded(
    matcher: tamis.Matcher, events: Any, rules: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """As `_match`, with each id once in a dictionary."""
    if isinstance(events, JsonTexts):
        lists = matcher.match_many(events, form="lists", **rules).to_batches()
    else:
        reader = pa.RecordBatchReader.from_batches(events.schema, [events])
        lists = matcher.match_many(reader, form="lists", **rules)
    for batch in lists:
        found = batch.column(1)
        event = np.repeat(to_numpy(batch.column(0)), to_numpy(pc.list_value_length(found)))
        ids = found.flatten()
        # Without rules, the matcher does not know that ids are texts.
        encoded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
        yield pa.record_batch([event, encoded], ["event", "rule"])


def _match_lists(matcher: tamis.Matcher, events: Any, rules: dict[str, Any]) -> pa.Table:
    """Match events; one row an event."""
    if isinstance(events, list):
        return matcher.match_expression_many(events, form="lists", **rules)
    return matcher.match_many(events, form="lists", **rules)


def _merge_lists(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    """Join the lists of all shards; each table has a row for each event."""
    columns = [table.column(1).combine_chunks() for table in tables]
    sizes = [to_numpy(pc.list_value_length(column)) for column in columns]
    parts = [_decode_dictionary(column.flatten()) for column in columns]
    # A shard without matches may not know the type of ids.
    kind = next((part.type for part in parts if len(part)), parts[0].type)
    rules = pa.concat_arrays([part.cast(kind) for part in parts])
    if len(parts) > 1:
        of_event = [np.repeat(np.arange(len(size)), size) for size in sizes]
        rules = rules.take(np.argsort(np.concatenate(of_event), kind="stable"))
    starts = np.concatenate([[0], np.cumsum(np.sum(sizes, axis=0))])
    lists = pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), rules)
    return pa.record_batch([tables[0].column(0).combine_chunks(), lists], ["event", "rules"])


def _decode_dictionary(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _fill_missing(texts: list[str | None]) -> list[str]:
    """Expressions, with an empty one, which is refused, for each that is missing."""
    return ["" if text is None else text for text in texts]


def _add_counts(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    total = np.sum([to_numpy(table["matches"]) for table in tables], axis=0)
    return pa.record_batch([np.arange(len(total)), total], ["event", "matches"])


def _merge_best(tables: Sequence[pa.Table], by: str, n: int) -> pa.RecordBatch:
    """The `n` best rules of all shards: by score or priority, then shard, then rank in the shard.

    Parameters
    ----------
    tables
        The answers of each shard.
    by
        The column that decides: ``"score"`` or ``"priority"``.
    n
        How many rules to keep for each event.
    """
    if len(tables) == 1:
        return _one_batch(tables[0])
    parts = [
        ScoredPart(*(to_numpy(table[name]) for name in ("event", by, "rank"))) for table in tables
    ]
    event, rank, position = select_best(parts, n)
    found = pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])
    best = _one_batch(found.select(["rule", by]).take(position))
    return pa.record_batch([event, rank, *best.columns], ["event", "rank", "rule", by])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def to_texts(column: pa.Array) -> JsonTexts:
    """The texts of a column of strings."""
    texts = JsonTexts.of_arrow(column)
    assert texts is not None, "the driver has checked that the column has strings"
    return texts


def _find_malformed(texts: JsonTexts) -> dict[int, str]:
    """The rows that are not JSON objects, and the reasons."""
    bad: dict[int, str] = {}
    suspects = find_suspects(texts) if are_worth_it(texts.size) else range(texts.size)
    for row in map(int, suspects):
        try:
            texts.event(row)
        except EventError as error:
            bad[row] = str(error)
    return bad


@lru_cache(maxsize=2)
def open_shards(shards: tuple[ShardName, ...], shipped: bool = False) -> list[tamis.Matcher]:
    """Open shards; those of the previous query stay open, too."""
    paths = [find_shipped(shard.address) if shipped else shard.address for shard in shards]
    return [_open(path, shard.hash, shipped) for path, shard in zip(paths, shards, strict=True)]


def _open(path: str, digest: str, shipped: bool) -> tamis.Matcher:
    try:
        return open_shard(resolve_place(path), digest, partial(tamis.open, read_only=True))
    except StorageError as error:
        if is_address(path):
            raise
        raise StorageError(f"{error.message}; {_hint(error, shipped)}", path=error.path) from error


def _hint(error: StorageError, shipped: bool) -> str:
    if "cannot allocate memory" in error.message.lower():
        return "spark.executor.pyspark.memory limits what a worker may map: raise or unset it"
    if shipped:
        return "Spark shipped it; is the disk of the node full?"
    return (
        "every node has to see the index under this path; or pass ship=True to have Spark ship it"
    )
