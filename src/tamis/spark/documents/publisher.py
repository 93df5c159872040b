"""The work of executors: publish the events of a group one after the other.

Events come flattened and encoded, as documents are stored, so that they pass through shuffles and
state as bytes. A worker has one matcher for each shard; before it publishes the events of a group,
it puts the documents of that group into their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

import tamis
from tamis.encode.arrow_rows import read_rows
from tamis.errors import EventError, SchemaError
from tamis.expr.event import FlatEvent
from tamis.joins.document_store import StoredDocument, decode_flat, encode_flat
from tamis.joins.retention import Retention
from tamis.matcher.publishing import Publishing
from tamis.matcher.rule import RuleId
from tamis.spark.match.worker import AT, EVENT, MatchTask, open_shards, to_moments, to_texts

__all__ = ["FlattenTask", "PublishTask", "Publisher", "Retained", "open_publisher"]

_BATCH_SIZE = 8_192
"""How many answers to send to Spark at a time."""


class Retained(NamedTuple):
    """How long documents stay: a :class:`tamis.Retention` without its clock."""

    most: int | None = None
    """How many documents there are at most."""
    age: float | None = None
    by: str | None = None

    @property
    def by_arrival(self) -> bool:
        """Whether the age of a document counts from when it came."""
        return self.age is not None and self.by is None


@dataclass(frozen=True)
class FlattenTask:
    """Flattens and encodes events; the other columns of a batch are passed through."""

    task: MatchTask
    attributes: tuple[str, ...]
    """The attributes that rules mention, of events and of earlier ones."""
    skip: bool
    """Whether events that are refused are left out; by default the first one raises."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Flatten the events of all batches."""
        publishing = Publishing(open_shards(self.task.groups[0], self.task.shipped)[0])
        for batch in batches:
            column = pa.array(self._encode(publishing, batch.column(EVENT)), pa.binary())
            whole = batch.set_column(batch.num_columns - 1, EVENT, column)
            yield whole.filter(column.is_valid()) if self.skip else whole

    def _encode(self, publishing: Publishing, events: pa.Array) -> list[bytes | None]:
        """The events as documents are stored; None for those that are refused and left out."""
        try:
            return [encode_flat(publishing.read(event)) for event in self._read(events)]
        except (EventError, SchemaError):
            if not self.skip:
                raise
        if len(events) == 1:
            return [None]
        # Halves find the refused ones with few attempts.
        half = len(events) // 2
        first, second = events.slice(0, half), events.slice(half)
        return self._encode(publishing, first) + self._encode(publishing, second)

    def _read(self, events: pa.Array) -> Sequence[Mapping[str, Any]]:
        if self.task.shape == "json":
            return to_texts(events).events()
        return read_rows(pa.RecordBatch.from_arrays([events], [""]), self.attributes)


class Publisher:
    """Publishes events of one group after the other, as `Matcher.publish` does.

    Parameters
    ----------
    matchers
        The shards of an index, for this object alone.
    retained
        How long documents stay.
    """

    def __init__(self, matchers: Sequence[tamis.Matcher], retained: Retained) -> None:
        self._parts = [Publishing(matcher) for matcher in matchers]
        self.batch_time = 0.0
        """When the batch began, in seconds since 1970, if documents have an age since then."""
        self._retained = retained
        clock = (lambda: self.batch_time) if retained.by is None else None
        retention = Retention(retained.most, retained.age, retained.by, clock)
        for part in self._parts:
            part.documents.retention = retention
        self.holds: object = None
        """What the documents are those of, for the user of this object."""

    def load(
        self, documents: Sequence[StoredDocument], following: int, newest: float, *, watch: bool
    ) -> None:
        """Replace all documents.

        Parameters
        ----------
        documents, following, newest
            The documents by number, the number of the next one, and the newest time so far. Those
            that were removed earlier may be among the documents.
        watch
            Whether these documents stay for long, so that the pre-filter pays.
        """
        most = self._retained.most
        kept = documents if most is None else documents[max(0, len(documents) - most) :]
        for part in self._parts:
            part.restore_documents(kept, following, newest, watch=watch)

    def publish(
        self, encoded: bytes, only: Any, at: datetime
    ) -> tuple[list[RuleId], StoredDocument]:
        """Match an event, and remember it; returns the rules, and the document."""
        event: FlatEvent = decode_flat(encoded)
        store = self._parts[0].documents
        ids: list[RuleId] = []
        receivers: set[str] = set()
        for part in self._parts:
            part.documents.note_event(event)
            found, subscriptions = part.match(event, only, at)
            ids += found
            receivers |= subscriptions
        code = encode_flat(event, sorted(receivers)) if receivers else encoded
        came = self.batch_time if self._retained.by is None else store.newest
        document = StoredDocument(store.next, came, None, code)
        for part in self._parts:
            part.documents.append(document)
        return ids, document

    @property
    def following(self) -> int:
        """The number of the next document."""
        return self._parts[0].documents.next

    @property
    def newest(self) -> float:
        """The newest time so far."""
        return self._parts[0].documents.newest

    @property
    def clock_faults(self) -> int:
        """How many times a clock had gone back, or an event's own time was not believed."""
        return self._parts[0].documents.clock_faults

    @property
    def stored_bytes(self) -> int:
        """About how many bytes all documents take."""
        return self._parts[0].documents.stored_bytes

    def list_documents(self) -> list[StoredDocument]:
        """All documents, oldest first."""
        return self._parts[0].documents.stored_documents()


@lru_cache(maxsize=2)
def _open_publisher(shards: Any, shipped: bool, retained: Retained) -> Publisher:
    # The matchers of `open_shards` answer queries that know no documents.
    return Publisher(open_shards.__wrapped__(shards, shipped), retained)


def open_publisher(task: MatchTask, retained: Retained) -> Publisher:
    """The publisher of a query in this process; it may hold documents of any group."""
    return _open_publisher(task.groups[0], task.shipped, retained)


@dataclass(frozen=True)
class PublishTask:
    """Publishes the events of a table that is sorted by group, and by time within a group.

    A batch has the keys, maybe the times at which rules have to be valid, the columns of the
    group, and the event.
    """

    task: MatchTask
    retained: Retained
    groups: int
    """How many columns make a group; they stand right before the event."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the events of all batches."""
        publisher = open_publisher(self.task, self.retained)
        publisher.holds = None
        last: Any = None
        for whole in batches:
            for first in range(0, whole.num_rows, _BATCH_SIZE):
                batch = whole.slice(first, _BATCH_SIZE)
                rows: list[int] = []
                rules: list[RuleId] = []
                for row, (group, encoded, at) in enumerate(self._read(batch)):
                    if group != last:
                        publisher.load((), 0, -math.inf, watch=not self.groups)
                        last = group
                    found, _ = publisher.publish(encoded, self.task.only, at)
                    rows += [row] * len(found)
                    rules += found
                yield self._answer(batch, rows, rules)

    def _read(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, bytes, datetime]]:
        """The group, the encoded event and the time of each row."""
        names = batch.schema.names
        columns = [batch.column(name).to_pylist() for name in names[-1 - self.groups : -1]]
        groups = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        times = [self.task.at] * batch.num_rows
        if AT in names:
            times = to_moments(batch.column(AT), self.task.at)
        return zip(groups, batch.column(EVENT).to_pylist(), times, strict=True)

    def _answer(
        self, batch: pa.RecordBatch, rows: list[int], rules: list[RuleId]
    ) -> pa.RecordBatch:
        keys = batch.columns[: len(self.task.keys)]
        places = pa.array(rows, pa.int64())
        columns = [*(key.take(places) for key in keys), pa.array(rules, self.task.answers.types[0])]
        return pa.RecordBatch.from_arrays(columns, [*self.task.keys, *self.task.answers.names])
