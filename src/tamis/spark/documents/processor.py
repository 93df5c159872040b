"""Publishes the events of a stream, with documents in Spark's state.

Each group has two variables. ``documents`` is a list of chunks, each with the documents of one
batch. ``head`` has the number of the next document, the newest time, the size of all chunks, and a
token that is new after each batch. Reading all documents of a group for every batch would cost more
than matching; so a worker remembers the token of what it has in memory, and reads nothing if the
state has the same. After a failure the state is that of an earlier batch, and so is its token.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tamis.expr.times import to_timestamp
from tamis.joins.document_store import StoredDocument
from tamis.spark.documents.publisher import Publisher, Retained, open_publisher
from tamis.spark.match.worker import AT, EVENT, MatchTask

__all__ = ["BATCH_TIME", "PublishProcessor"]

BATCH_TIME = "now"
"""The column with the time of the batch in microseconds, where documents have an age since then.

Spark records this time before a batch begins: the batch has the same one if it is repeated.
"""

_SPARE_BYTES = 1 << 16
"""Chunks are written anew when they take twice as much as their documents, and this."""


class _Head(NamedTuple):
    """What the state says about a group besides its documents."""

    following: int = 0
    newest: float = -math.inf
    bytes: int = 0
    token: str = ""


class PublishProcessor(StatefulProcessor):
    """Publishes the events of each group in order.

    Parameters
    ----------
    task
        The shards and what to look for.
    retained
        How long documents stay.
    at
        When rules have to be valid, where the events have no times; by default when a batch runs.
    order
        How many columns of order a row has: ``o0``, ``o1``, …
    groups
        Whether there are several groups.
    expires
        Whether Spark drops the state of groups without new events, where documents have an age
        that counts from their batch.
    """

    def __init__(
        self,
        task: MatchTask,
        retained: Retained,
        at: datetime | None,
        order: int,
        groups: bool,
        expires: bool = False,
    ) -> None:
        self._task = task
        self._retained = retained
        self._at = at
        self._order = [f"o{place}" for place in range(order)]
        self._groups = groups
        self._expires = expires

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state; Spark calls this first."""
        age = self._retained.age if self._expires else None
        # Spark forgets what is older; `Retention` decides to the microsecond what counts.
        ttl = None if age is None else ceil(age * 1000) + 1
        self._head = handle.getValueState(
            "head", "following BIGINT, now DOUBLE, bytes BIGINT, token STRING", ttl
        )
        self._documents = handle.getListState("documents", "chunk BINARY", ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002
        """Publish the events of a group in this batch."""
        publisher = open_publisher(self._task, self._retained)
        head = _Head(*(self._head.get() or ()))
        self._load(publisher, key, head)
        publisher.holds = None
        faults = publisher.clock_faults
        added: list[StoredDocument] = []
        answer = Row(*self._task.keys, *self._task.answers.names)
        default = self._at or datetime.now(UTC)
        for row in sorted(rows, key=self._sort_key):
            if self._retained.by_arrival:
                publisher.batch_time = row[BATCH_TIME] / 1e6
            keys = row[: len(self._task.keys)]
            at = default
            if AT in row and row[AT] is not None:
                at = to_timestamp(row[AT])
            found, document = publisher.publish(bytes(row[EVENT]), self._task.only, at)
            added.append(document)
            for rule in found:
                yield answer(*keys, rule)
        has_changed = publisher.clock_faults > faults
        token = self._save(publisher, head, added, has_changed)
        publisher.holds = key, token

    def close(self) -> None:
        """Nothing is open; Spark calls this last."""

    def _sort_key(self, row: Row) -> tuple[Any, ...]:
        """Spark's order: nulls first."""
        values = [row[name] for name in self._order]
        return (*((value is not None, value) for value in values), row[EVENT])

    def _load(self, publisher: Publisher, key: Any, head: _Head) -> None:
        """Make the documents those of the group."""
        if head.token and publisher.holds == (key, head.token):
            return
        chunks = [msgspec.msgpack.decode(bytes(chunk)) for (chunk,) in self._documents.get()]
        found = sorted(StoredDocument(*document) for chunk in chunks for document in chunk)
        publisher.load(found, head.following, head.newest, watch=not self._groups)

    def _save(
        self, publisher: Publisher, head: _Head, added: list[StoredDocument], has_changed: bool
    ) -> str:
        """Put the documents of the batch into the state, and return the new token.

        Earlier documents have changed where the clock had gone back.
        """
        retained = self._retained
        chunk = msgspec.msgpack.encode([tuple(document) for document in added])
        size = head.bytes + len(chunk)
        # Only the documents themselves tell what both limits together have removed.
        has_both = retained.most is not None and retained.age is not None
        if has_both or has_changed or size > 2 * publisher.stored_bytes + _SPARE_BYTES:
            chunk = msgspec.msgpack.encode([tuple(each) for each in publisher.list_documents()])
            size = len(chunk)
            self._documents.put([(chunk,)])
        else:
            self._documents.appendValue((chunk,))
        token = uuid4().hex
        self._head.update((publisher.following, publisher.newest, size, token))
        return token
