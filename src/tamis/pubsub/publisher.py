"""The publisher: one thread that matches events in order and commits them in groups.

Callers put requests into a queue. The thread takes all that wait, matches each event, sees to it
that the next one finds it among the documents seen, and appends all of them to the log as one
frame: many publishers share one wait for the disk. Then it answers them.

The log is the only record of an event: the documents that join predicates refer to are read from
it, and if a group cannot be written, what memory has of it is dropped and read again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from tamis.errors import GoneError, StorageError, TamisError
from tamis.expr.event import Event, FlatEvent
from tamis.joins.ages import UNKNOWN
from tamis.joins.document_store import DocumentStore, StoredDocument, encode_flat
from tamis.joins.retention import Retention
from tamis.matcher.publishing import Publishing
from tamis.pubsub.delivery import Publication
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.message_ids import MessageIds
from tamis.pubsub.log.records import EventRecord, Match, to_time
from tamis.pubsub.subscriptions.audience import Audience
from tamis.pubsub.subscriptions.subscription import Progress
from tamis.pubsub.subscriptions.subscriptions import Subscriptions

__all__ = ["Publisher", "Request", "load_documents"]

_LARGEST_GROUP: Final = 1024
_UPKEEP: Final = 1.0
"""Seconds between two rounds of upkeep: cursors to the disk, retention."""


class Request:
    """An event to publish, and what became of it."""

    __slots__ = (
        "audience",
        "document",
        "document_id",
        "done",
        "error",
        "event",
        "flat",
        "message_id",
        "result",
    )

    def __init__(
        self,
        event: Event,
        flat: FlatEvent,
        document: bytes,
        message_id: str | None,
        document_id: str | None,
        audience: Audience | None,
        done: Callable[[Request], None],
    ) -> None:
        self.event = event
        self.flat = flat
        self.document = document
        self.message_id = message_id
        self.document_id = document_id
        self.audience = audience
        self.done = done
        """Called by the publisher's thread once there is a result or an error."""
        self.result: Publication | None = None
        self.error: BaseException | None = None

    def answer(self) -> Publication:
        """The result, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class _Group:
    """Events that are matched and not written yet."""

    def __init__(self, following: int) -> None:
        self.following = following
        """The next sequence number."""
        self.records: list[EventRecord] = []
        self.requests: list[Request] = []
        """The request of each record."""
        self.repeats: list[tuple[Request, int, int]] = []
        """Requests whose message id an event of that sequence number and time has."""
        self.message_ids: dict[str, tuple[int, int]] = {}


class Publisher:
    """Publishes events, one after the other.

    Parameters
    ----------
    matcher
        Finds rules.
    log
        Keeps the events.
    subscriptions
        Own rules.
    message_ids
        The ids of recent messages.
    on_commit
        Called with the records of a group once they are on the disk.
    """

    def __init__(
        self,
        matcher: Publishing,
        log: EventLog,
        subscriptions: Subscriptions,
        message_ids: MessageIds,
        on_commit: Callable[[list[EventRecord]], None],
    ) -> None:
        self._matcher = matcher
        self._log = log
        self._subscriptions = subscriptions
        self._message_ids = message_ids
        self._on_commit = on_commit
        self._pid = os.getpid()
        self._queue: deque[Request] = deque()
        self._waiting = threading.Condition()
        self._is_closed = False
        self._next_upkeep = 0.0
        self._thread = threading.Thread(target=self._run, name="tamis-publisher", daemon=True)
        self._thread.start()

    def submit(self, requests: Iterable[Request]) -> None:
        """Queue requests, to be published in this order.

        Raises
        ------
        StorageError
            Nothing more is published.
        """
        if os.getpid() != self._pid:
            self._matcher.check_writable()
        with self._waiting:
            if self._is_closed:
                raise self._closed()
            self._queue.extend(requests)
            self._waiting.notify()

    def close(self) -> None:
        """Publish what is queued, then stop."""
        if os.getpid() != self._pid:
            return
        with self._waiting:
            self._is_closed = True
            self._waiting.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _closed(self) -> StorageError:
        return StorageError("nothing can be published: it was closed", path=str(self._log.folder))

    # --- The thread ---

    def _run(self) -> None:
        while True:
            with self._waiting:
                if not self._queue and not self._is_closed:
                    self._waiting.wait(_UPKEEP)
                if not self._queue and self._is_closed:
                    return
                count = min(len(self._queue), _LARGEST_GROUP)
                requests = [self._queue.popleft() for _ in range(count)]
            if requests:
                self._publish(requests)
            if time.monotonic() >= self._next_upkeep:
                with suppress(Exception):
                    # A full disk is reported to the next publisher; the rest can wait.
                    self._keep_up()
                self._next_upkeep = time.monotonic() + _UPKEEP

    def _publish(self, requests: list[Request]) -> None:
        try:
            self._publish_group(requests)
        except BaseException as error:
            self._forget_documents()
            for request in requests:
                if request.result is None and request.error is None:
                    request.error = _copy_error(error)
        for request in requests:
            # A callback that fails concerns its own caller only.
            with suppress(Exception):
                request.done(request)

    def _publish_group(self, requests: list[Request]) -> None:
        self._matcher.check_writable()
        group = _Group(self._log.latest + 1)
        for request in requests:
            try:
                self._match(request, group)
            except TamisError as error:
                request.error = error
        if group.records:
            self._log.append(group.records)
            self._message_ids.add(group.records)
            # In the meantime the directory may have been removed, and the events with it.
            self._matcher.check_writable()
        for request, record in zip(group.requests, group.records, strict=True):
            request.result = Publication(
                record.sequence, to_time(record.time), False, record.matches
            )
        self._catch_up(group)
        if group.records:
            self._on_commit(group.records)
        for request, sequence, moment in group.repeats:
            request.result = self._find_publication(sequence, moment)

    def _match(self, request: Request, group: _Group) -> None:
        """Match an event, and make it the next record of the group."""
        if request.message_id is not None:
            known = group.message_ids.get(request.message_id)
            known = self._message_ids.find(request.message_id) if known is None else known
            if known is not None:
                group.repeats.append((request, *known))
                return
        if self._matcher.has_joins:
            # Each event sees all before it, also those of its own group.
            self._catch_up(group, load=True)
            self._matcher.documents.note_event(request.flat)
        matches = self._find_deliveries(request)
        moment = self._log.clock.stamp()
        record = EventRecord(
            group.following,
            moment,
            msgspec.Raw(request.document),
            matches,
            request.message_id,
            request.document_id,
            None if request.audience is None else request.audience.text,
        )
        group.records.append(record)
        group.requests.append(request)
        group.following += 1
        if request.message_id is not None:
            group.message_ids[request.message_id] = record.sequence, moment

    def _find_deliveries(self, request: Request) -> tuple[Match, ...]:
        matches = self._matcher.find(request.flat)
        known, owners = self._subscriptions.known, self._subscriptions.owners
        owned = owners.find(matches)
        audience = request.audience
        if audience is not None:
            owned = {
                name: ids
                for name, ids in owned.items()
                if name in known and audience.admits(name, known[name][0].attributes, known)
            }
        if not owned:
            return ()
        if not matches.has_weights:
            return tuple([Match(name, tuple(ids)) for name, ids in owned.items()])
        scored = list({id for ids in owned.values() for id in ids})
        scores = self._matcher.score(request.event, scored)
        return tuple(
            Match(name, tuple(ids), max(scores.get(id, 0.0) for id in ids))
            for name, ids in owned.items()
        )

    def _catch_up(self, group: _Group, load: bool = False) -> None:
        """Have the documents seen include a group, if they are in memory or have to be."""
        documents = self._matcher.documents
        with documents.lock:
            if documents.is_loaded or load:
                documents.complete()
                for request, record in zip(group.requests, group.records, strict=True):
                    if record.sequence >= documents.next:
                        documents.append(_stored(record, request.flat, documents.retention))

    def _forget_documents(self) -> None:
        """Have the documents seen read from the log again."""
        self._matcher.load_documents_later(self.load_documents)

    def load_documents(self) -> tuple[list[StoredDocument], int]:
        """Read the documents seen, and the number of the next one, from the log."""
        return load_documents(self._matcher, self._log)

    def _find_publication(self, sequence: int, moment: int) -> Publication:
        """What became of an earlier message."""
        matches: tuple[Match, ...] = ()
        with suppress(GoneError):
            matches = self._log.find(sequence).matches
        return Publication(sequence, to_time(moment), True, matches)

    # --- Upkeep ---

    def _keep_up(self) -> None:
        self._subscriptions.sync()
        self._log.end_old_file()
        outdated = self._log.find_outdated()
        if outdated:
            self._matcher.check_writable()
            for file in outdated:
                self._note_lost(self._log.read_index(file).deliveries)
            self._log.remove(outdated)
            self._matcher.documents.forget_before(self._log.earliest)

    def _note_lost(self, deliveries: dict[str, Any]) -> None:
        """Note which subscriptions lose messages that they have not acknowledged."""
        known = self._subscriptions.known
        for name, sequences in deliveries.items():
            if name not in known or not len(sequences):
                continue
            state = known[name][1]
            waiting = [sequence for sequence in state.retries if sequence <= sequences[-1]]
            is_lost = sequences[-1] > max(state.acknowledged, state.start)
            if is_lost or waiting:
                lost = max(sequences[-1] if is_lost else 0, *waiting, 0)
                gone = dict.fromkeys(waiting)
                self._subscriptions.advance(
                    Progress(name, state.start, state.acknowledged, lost, gone)
                )


def load_documents(matcher: Publishing, log: EventLog) -> tuple[list[StoredDocument], int]:
    """The documents that join predicates see, and the number of the next one, from a log."""
    retention, latest, beginning = matcher.documents.retention, log.latest, log.earliest - 1
    count, after = retention.count, beginning
    if count is not None and retention.by is None:
        after = max(beginning, latest - count)
    while True:
        # Events pass through retention as when they were published.
        documents = DocumentStore(retention)
        for record in log.read_kept(after):
            documents.append(_stored(record, matcher.read(record.event), retention))
            latest = record.sequence
        if count is None or after == beginning or len(documents) >= count:
            return documents.stored_documents(), latest + 1
        # Some of the last events have replaced others.
        after = max(beginning, latest - 2 * (latest - after))


def _stored(record: EventRecord, flat: FlatEvent, retention: Retention) -> StoredDocument:
    """An event as a document; its number is its sequence number."""
    receivers = [match.subscription for match in record.matches]
    # The log's time is that of the clock.
    came = UNKNOWN if retention.by_events else record.time / 1e6
    return StoredDocument(record.sequence, came, record.document_id, encode_flat(flat, receivers))


def _copy_error(error: BaseException) -> BaseException:
    """Copy the error so that each waiting thread raises its own instance."""
    if type(error) is StorageError:
        copy = StorageError(error.message, path=error.path)
        copy.__cause__ = error.__cause__
        return copy
    return error
