"""A collection: rules, subscriptions and the log of published events, in one directory."""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Collection as Collection_
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Literal, Self

from tamis.errors import (
    EventError,
    GoneError,
    SchemaError,
    StorageError,
    SubscriptionError,
    UnknownRuleError,
)
from tamis.expr.event import Event, require_readable
from tamis.expr.model import is_unicode
from tamis.joins.retention import Retention
from tamis.limits import Limits
from tamis.matcher.matcher import Matcher
from tamis.matcher.open import open_stored
from tamis.matcher.publishing import Publishing
from tamis.matcher.rule import RuleId
from tamis.matcher.storage.atomic import storage_errors, sync_folder
from tamis.matcher.storage.document_file import read_documents
from tamis.matcher.validity import Clock
from tamis.pubsub.delivery import Delivery, Publication, make_delivery
from tamis.pubsub.log.columns import ColumnWriter
from tamis.pubsub.log.documents import encode_document
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.message_ids import MessageIds
from tamis.pubsub.log.retention import LogRetention
from tamis.pubsub.marks import ForeignMarkError, read_mark, read_position
from tamis.pubsub.publisher import Publisher, Request, load_documents
from tamis.pubsub.subscriptions.audience import read_audience
from tamis.pubsub.subscriptions.subscriptions import Subscriptions
from tamis.pubsub.waiters import Waiters
from tamis.pubsub.webhooks.dispatcher import Webhooks, WebhookSettings

__all__ = ["DEDUPLICATED_EVENTS", "PUBLISHED", "Collection"]

PUBLISHED: Final = "published"
"""The folder of the log and the subscriptions, in the directory of the rules."""

DEDUPLICATED_EVENTS: Final = 100_000
"""Of how many of the last events the message ids are known."""

_LONGEST_ID: Final = 1024
_ADVICE: Final = "documents of a collection come by its publish(), and stay as long as its log"


class Collection:
    """Rules, subscriptions and the log of published events. Open one with :meth:`open`.

    Any number of threads may use it at once, and coroutines by the methods whose names end in
    ``_async``.

    Attributes
    ----------
    matcher
        The rules: a durable :class:`tamis.Matcher`.
    subscriptions
        Who receives which events; see :class:`tamis.pubsub.subscriptions.Subscriptions`.
    log
        The published events.
    webhooks
        Sends messages to receivers, and has the dead letters; None where none are sent.

    Examples
    --------
    >>> import tempfile
    >>> from tamis.pubsub import Collection
    >>> with tempfile.TemporaryDirectory() as folder, Collection.open(f"{folder}/books") as c:
    ...     c.matcher.add("cheap", "price < 25", tags=["ann"])
    ...     _ = c.subscriptions.put("ann", tags=["ann"])
    ...     published = c.publish({"title": "Emma", "price": 12}, message_id="m1")
    ...     again = c.publish({"title": "Emma", "price": 12}, message_id="m1")
    ...     print(published.sequence, again.sequence, again.duplicate)
    ...     for delivery in c.read("ann"):
    ...         print(delivery.event["title"], delivery.rules)
    ...     c.acknowledge("ann", delivery.sequence)
    1 1 True
    Emma ('cheap',)
    1
    """

    def __init__(
        self,
        matcher: Matcher,
        folder: Path,
        *,
        read_only: bool,
        retention: LogRetention | None,
        sync: bool,
        deduplicated_events: int,
        segment_bytes: int | None,
        webhooks: WebhookSettings | None,
    ) -> None:
        self.matcher = matcher
        self.path = folder.parent
        self._read_only = read_only
        publishing = Publishing(matcher)
        publishing.refuse_documents(_ADVICE)
        self._publishing = publishing
        sizes = {} if segment_bytes is None else {"segment_bytes": segment_bytes}
        self.log = EventLog(folder, read_only=read_only, retention=retention, sync=sync, **sizes)
        publishing.draw_identity()
        self.log.identity = publishing.identity
        self._place = _identify(folder)
        self.subscriptions = Subscriptions(
            folder,
            read_only=read_only,
            sync=sync,
            latest=_latest_of(self.log),
            check_writable=publishing.check_writable,
        )
        self._waiters = Waiters()
        self.webhooks: Webhooks | None = None
        if webhooks is not None and not read_only:
            self.webhooks = Webhooks(self.log, self.subscriptions, webhooks)
        wake = _wake(self._waiters, self.webhooks)
        self.subscriptions.on_change = lambda name: wake([name])
        self.is_closed = False
        """Whether it was closed: no message comes any more."""
        self._closing: Callable[[], Any] = lambda: None
        self._publisher: Publisher | None = None
        if read_only:
            publishing.load_documents_later(_load_documents(publishing, self.log))
            return
        self._publisher = Publisher(
            publishing,
            self.log,
            self.subscriptions,
            MessageIds(self.log, deduplicated_events),
            lambda records: wake({m.subscription for r in records for m in r.matches}),
        )
        publishing.load_documents_later(self._publisher.load_documents)
        columns = ColumnWriter(self.log)
        self.log.on_end = columns.wake
        # The threads must not outlive a collection that goes out of use.
        self._closing = weakref.finalize(self, _close, self._publisher, self.webhooks, columns)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        retention: LogRetention | None = None,
        engine: str | None = None,
        logic: str | None = None,
        schema: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        sync: bool = True,
        verify: bool = True,
        documents: Retention | None = None,
        limits: Limits | None = None,
        deduplicated_events: int = DEDUPLICATED_EVENTS,
        segment_bytes: int | None = None,
        webhooks: WebhookSettings | Literal[False] | None = None,
    ) -> Collection:
        """Open a collection, or create its directory.

        Parameters
        ----------
        path
            The directory. One with stored rules becomes a collection with these rules.
        read_only
            Whether to leave the directory unchanged. Any number of processes may read while one
            writes; they see what :meth:`refresh` found last.
        retention
            How long published events are kept; a week by default.
        engine, logic, schema, clock, verify, limits
            As in :func:`tamis.open`.
        sync
            Whether a publish and other changes wait until they are on the disk. Otherwise they
            survive a crash of the process, but perhaps not one of the machine.
        documents
            Which of the published events the join predicates of rules see; by default all that
            are kept.
        deduplicated_events
            Of how many of the last events the message ids are known.
        segment_bytes
            How long a file of the log gets, about; 8 MiB by default.
        webhooks
            How webhooks are sent; ``False`` sends none.

        Raises
        ------
        LockedError
            Another process writes to the directory.
        CorruptFileError
            A file is damaged; nothing was changed.
        StorageError
            The directory cannot be read or written.
        """
        folder = Path(path).absolute()
        matcher = open_stored(
            folder,
            read_only=read_only,
            engine=engine,
            logic=logic,
            schema=schema,
            clock=clock,
            sync=sync,
            verify=verify,
            documents=documents,
            limits=limits,
            keeps_documents=False,
        )
        try:
            _check_documents(folder)
            published = folder / PUBLISHED
            if not read_only and not published.is_dir():
                with storage_errors(published):
                    published.mkdir(folder.stat().st_mode & 0o777)
                    sync_folder(folder)
            return cls(
                matcher,
                published,
                read_only=read_only,
                retention=retention,
                sync=sync,
                deduplicated_events=deduplicated_events,
                segment_bytes=segment_bytes,
                webhooks=None if webhooks is False else webhooks or WebhookSettings(),
            )
        except BaseException:
            matcher.close()
            raise

    @property
    def identity(self) -> str:
        """Drawn when the directory was created; empty if an older Tamis created it.

        Numbers of events and revisions belong to it: a collection that is removed and made again
        has the same numbers once more, and another identity.
        """
        return self.log.identity

    # --- Publish ---

    def publish(
        self,
        event: Event,
        *,
        message_id: str | None = None,
        audience: str | None = None,
        audience_logic: str = "strong",
        id: str | None = None,
    ) -> Publication:
        """Match an event, log it durably with the subscriptions that it reaches, and say which.

        Parameters
        ----------
        event
            Attributes and their values.
        message_id
            The publisher's id of the message. A message that is sent again with the same id is
            published once.
        audience
            A condition on the attributes of subscriptions, such as ``"country = 'FR'"``: the
            event reaches only those on which it holds.
        audience_logic
            The logic of the audience, ``"strong"`` or ``"weak"``.
        id
            The event's id among the documents that join predicates see, where it replaces a
            document of the same id; its sequence number by default.

        Raises
        ------
        EventError, SchemaError, SubscriptionError
            The event, its id or its audience is refused; nothing was published.
        StorageError
            It could not be written; nothing was published.
        """
        held = threading.Lock()
        held.acquire()
        request = self._request(
            event, message_id, audience, audience_logic, id, lambda _: held.release()
        )
        self._submit([request])
        held.acquire()
        return request.answer()

    async def publish_async(
        self,
        event: Event,
        *,
        message_id: str | None = None,
        audience: str | None = None,
        audience_logic: str = "strong",
        id: str | None = None,
    ) -> Publication:
        """As :meth:`publish`, for a coroutine."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        resolve = _resolver(loop, done)
        request = self._request(
            event, message_id, audience, audience_logic, id, lambda _: resolve()
        )
        self._submit([request])
        await done
        return request.answer()

    def publish_many(
        self,
        events: Iterable[Event],
        *,
        message_ids: Iterable[str | None] | None = None,
        audience: str | None = None,
        audience_logic: str = "strong",
        on_error: Literal["raise", "skip"] = "raise",
    ) -> list[Publication | None]:
        """Publish events in order, with few waits for the disk.

        Parameters
        ----------
        events, audience, audience_logic
            As in :meth:`publish`.
        message_ids
            The message id of each event.
        on_error
            ``"skip"`` leaves out the events that are refused: their results are None. Otherwise
            none is published if one is refused.

        Raises
        ------
        StorageError
            Some could not be written. Those before it may be published: publish again with the
            same message ids.
        """
        chosen = list(events)
        ids = [None] * len(chosen) if message_ids is None else list(message_ids)
        if len(ids) != len(chosen):
            raise EventError(f"there are {len(chosen)} events and {len(ids)} message ids")
        left = threading.Semaphore(0)
        requests: list[Request | None] = []
        for number, (event, message_id) in enumerate(zip(chosen, ids, strict=True)):
            try:
                request = self._request(
                    event, message_id, audience, audience_logic, None, lambda _: left.release()
                )
            except (EventError, SchemaError) as error:
                if on_error != "skip":
                    raise type(error)(f"event {number}: {error}") from error
                requests.append(None)
            else:
                requests.append(request)
        submitted = [request for request in requests if request is not None]
        self._submit(submitted)
        for _ in submitted:
            left.acquire()
        if on_error == "skip":
            skipped = (EventError, SchemaError)
            return [
                None if request is None or isinstance(request.error, skipped) else request.answer()
                for request in requests
            ]
        return [request.answer() for request in submitted]

    def check_event(
        self, event: Event, message_id: str | None, audience: str | None, audience_logic: str
    ) -> None:
        """Raise the error with which :meth:`publish` would refuse an event."""
        self._request(event, message_id, audience, audience_logic, None, lambda _: None)

    def _request(
        self,
        event: Event,
        message_id: Any,
        audience: Any,
        audience_logic: str,
        id: Any,
        done: Callable[[Request], None],
    ) -> Request:
        """Check what a publisher gives; all that can be refused is, before it is queued."""
        flat = require_readable(self._publishing.read(event))
        _check_message_id("message id", message_id)
        _check_message_id("document's id", id)
        condition = None if audience is None else read_audience(audience, audience_logic)
        return Request(event, flat, encode_document(event), message_id, id, condition, done)

    def _submit(self, requests: list[Request]) -> None:
        if self._publisher is None:
            self._publishing.check_writable()
        assert self._publisher is not None
        self._publisher.submit(requests)

    # --- Receive ---

    def read(
        self,
        subscription: str,
        after: int | str | None = None,
        *,
        limit: int = 100,
        wait: float = 0.0,
        payloads: bool = False,
    ) -> list[Delivery]:
        """Read the next messages of a subscription, in order.

        Parameters
        ----------
        subscription
            Its name.
        after
            A sequence number: messages with higher ones are read. By default the last one that
            was acknowledged. The ``cursor`` of a delivery has the same effect, and is refused if
            the collection is not the one of that delivery.
        limit
            How many messages to read at most. A subscription's window limits them, too: of the
            messages that are not acknowledged, only those are read.
        wait
            How many seconds to wait for a message if there is none.
        payloads
            Whether to attach the payloads of the matching rules, as they are now.

        Returns
        -------
        list of Delivery
            Empty if there is none.

        Raises
        ------
        UnknownSubscriptionError
            There is no such subscription.
        GoneError
            Messages after `after` were removed by the log's retention. To go on, acknowledge them:
            ``acknowledge(subscription, error.earliest - 1)``.
        """
        found = self._read_now(subscription, after, limit, payloads)
        if found or wait <= 0:
            return found
        woken = threading.Event()
        end = time.monotonic() + wait
        with self._waiters.waiting([subscription], woken.set):
            while not (found := self._read_now(subscription, after, limit, payloads)):
                left = end - time.monotonic()
                if left <= 0 or self.is_closed or not woken.wait(left):
                    break
                woken.clear()
        return found

    async def read_async(
        self,
        subscription: str,
        after: int | str | None = None,
        *,
        limit: int = 100,
        wait: float = 0.0,
        payloads: bool = False,
    ) -> list[Delivery]:
        """As :meth:`read`, for a coroutine."""
        await self.prepare_async([subscription])
        found = self._read_now(subscription, after, limit, payloads)
        if found or wait <= 0:
            return found
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            # The loop may be closed by now.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        end = loop.time() + wait
        with self._waiters.waiting([subscription], wake):
            while not (found := self._read_now(subscription, after, limit, payloads)):
                if self.is_closed:
                    break
                try:
                    await asyncio.wait_for(woken.wait(), end - loop.time())
                except TimeoutError:
                    break
                woken.clear()
        return found

    async def prepare_async(self, subscriptions: Iterable[str]) -> None:
        """Read the files of the log that have their next messages, beside the event loop.

        Afterwards they are in memory, and :meth:`read` and :meth:`read_any` take microseconds.

        Raises
        ------
        UnknownSubscriptionError
            There is no such subscription.
        """
        for name in subscriptions:
            subscription, state = self.subscriptions.get(name), self.subscriptions.state(name)
            floor = max(state.acknowledged, state.start)
            if self.log.needs_files(name, floor):
                find = self.log.find_deliveries
                await asyncio.to_thread(find, name, floor, subscription.window)

    def read_any(
        self,
        subscriptions: Mapping[str, int | str | None] | Mapping[str, int | None] | Iterable[str],
        *,
        limit: int = 100,
        payloads: bool = False,
    ) -> list[Delivery]:
        """Read the waiting messages of several subscriptions, the most useful first.

        Those of a higher priority go first, and of equal priorities those of a higher score. Those
        of one subscription stay in order.

        Parameters
        ----------
        subscriptions
            Their names; or a mapping of names to the number after which to read, as in
            :meth:`read`.
        limit, payloads
            As in :meth:`read`.
        """
        cursors = (
            subscriptions if isinstance(subscriptions, Mapping) else dict.fromkeys(subscriptions)
        )
        heads: list[tuple[int, float, int, str, list[Delivery]]] = []
        for name, after in cursors.items():
            waiting = self._read_now(name, after, limit, payloads)[::-1]
            self._push(heads, name, waiting)
        found: list[Delivery] = []
        while heads and len(found) < limit:
            *_, name, waiting = heapq.heappop(heads)
            found.append(waiting.pop())
            self._push(heads, name, waiting)
        return found

    def _push(
        self,
        heads: list[tuple[int, float, int, str, list[Delivery]]],
        name: str,
        waiting: list[Delivery],
    ) -> None:
        """Add the next message of a subscription to a heap, the most useful first."""
        if waiting:
            priority, head = self.subscriptions.get(name).priority, waiting[-1]
            heapq.heappush(heads, (-priority, -head.score, head.sequence, name, waiting))

    def acknowledge(self, subscription: str, sequence: int | str) -> int:
        """Acknowledge all messages of a subscription up to a sequence number.

        The ``cursor`` of a delivery has the same effect, and is refused if the collection is not
        the one of that delivery.

        Returns
        -------
        int
            Up to where messages are acknowledged by now, which may be further.

        Raises
        ------
        UnknownSubscriptionError
            There is no such subscription.
        SubscriptionError
            No event has that number yet.
        """
        return self.subscriptions.acknowledge(subscription, self.find_position(sequence))

    def _read_now(
        self, name: str, after: int | str | None, limit: int, payloads: bool
    ) -> list[Delivery]:
        _check_limit(limit)
        subscription, state = self.subscriptions.get(name), self.subscriptions.state(name)
        start = self._check_cursor(name, after)
        floor = max(state.acknowledged, state.start)
        in_window = self.log.find_deliveries(name, floor, subscription.window)
        sequences = in_window[bisect_right(in_window, start) :][:limit]
        if start < floor:
            # Messages that were acknowledged are read again.
            sequences = self.log.find_deliveries(name, start, limit)
            if len(in_window) == subscription.window:
                sequences = sequences[: bisect_right(sequences, in_window[-1])]
        return [
            make_delivery(
                record,
                match,
                self._find_payloads(match.rules) if payloads else None,
                self.identity,
            )
            for record in self.log.read_deliveries(sequences)
            if (match := record.find_match(name)) is not None
        ]

    def find_position(self, cursor: int | str) -> int:
        """The number that a cursor stands for, of an event in this collection.

        Raises
        ------
        GoneError
            The cursor belongs to another collection, perhaps an earlier one of the same name.
        SubscriptionError
            It is no cursor.
        """
        if not isinstance(cursor, str):
            return cursor
        try:
            return read_position(read_mark(self.identity, cursor)[0])
        except ForeignMarkError:
            raise GoneError(
                f"{cursor!r:.100} is a position in another collection, perhaps an earlier one of "
                "this name: read without it",
                earliest=self.log.earliest,
            ) from None
        except ValueError:
            raise SubscriptionError(f"{cursor!r:.100} is not a cursor") from None

    def _check_cursor(self, name: str, after: int | str | None) -> int:
        """The number after which to read; an error if messages after it were removed."""
        state = self.subscriptions.state(name)
        if isinstance(after, str):
            after = self.find_position(after)
        if after is None:
            after = state.acknowledged
        elif not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise SubscriptionError(f"after= takes a sequence number, not {after!r:.200}")
        elif after > self.log.latest:
            raise SubscriptionError(
                f"there is no event {after} yet: the last one is {self.log.latest}"
            )
        earliest = self.log.earliest
        is_history = state.start <= after < state.acknowledged
        if after < state.lost or (is_history and after < earliest - 1):
            raise GoneError(
                f"messages of {name!r} after {after} were removed; the earliest event is "
                f"{earliest}: acknowledge {earliest - 1} to go on",
                earliest=earliest,
            )
        return max(after, state.start)

    def _find_payloads(self, ids: Iterable[RuleId]) -> dict[RuleId, Any]:
        found = {}
        for id in ids:
            with suppress(UnknownRuleError):
                payload = self.matcher.rule(id).payload
                if payload is not None:
                    found[id] = payload
        return found

    # --- Upkeep ---

    def refresh(self) -> bool:
        """Load what a writer has changed since a directory was opened read-only.

        Returns
        -------
        bool
            Whether there was something new.
        """
        if not self._read_only:
            return False
        is_new = self.matcher.refresh()
        self.subscriptions.refresh()
        place, identity = _identify(self.log.folder), self._publishing.identity
        is_replaced = (place, identity) != (self._place, self.identity)
        self._place, self.log.identity = place, identity
        if self.log.refresh(from_scratch=is_replaced):
            is_new = True
            load = _load_documents(self._publishing, self.log)
            self._publishing.load_documents_later(load)
            self._waiters.wake_all()
        return is_new

    def stats(self) -> dict[str, Any]:
        """Figures about the rules, the subscriptions and the log."""
        return {
            **self.matcher.stats(),
            "subscriptions": len(self.subscriptions),
            "earliest": self.log.earliest,
            "latest": self.log.latest,
            "log_bytes": self.log.stored_bytes,
            "clock_jumps": self.log.clock.jumps,
            "clock_ahead": self.log.clock.ahead,
        }

    def close(self) -> None:
        """Publish what is queued, and release the directory for other writers."""
        self.is_closed = True
        with ExitStack() as stack:
            # Each is done whatever becomes of those below, which come first.
            stack.callback(self._waiters.wake_all)
            stack.callback(self.matcher.close)
            stack.callback(self.log.close)
            stack.callback(self.subscriptions.close)
            self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<tamis.Collection: {len(self.matcher):,} rules, {len(self.subscriptions):,} "
            f"subscriptions, {len(self.log):,} events, {str(self.path)!r}>"
        )


def _identify(folder: Path) -> tuple[int, int] | None:
    """Which folder has this name now."""
    with suppress(OSError):
        found = folder.stat()
        return found.st_dev, found.st_ino
    return None


def _latest_of(log: EventLog) -> Callable[[], int]:
    """A function that does not keep the collection alive: its thread calls it."""
    return lambda: log.latest


def _load_documents(publishing: Publishing, log: EventLog) -> Callable[[], Any]:
    return lambda: load_documents(publishing, log)


def _wake(waiters: Waiters, webhooks: Webhooks | None) -> Callable[[Collection_[str]], None]:
    """Wakes those that deliver the messages of subscriptions to which something happened."""

    def wake(names: Collection_[str]) -> None:
        if names:
            waiters.wake(names)
            if webhooks is not None:
                webhooks.wake(names)

    return wake


def _close(publisher: Publisher, webhooks: Webhooks | None, columns: ColumnWriter) -> None:
    publisher.close()
    columns.close()
    if webhooks is not None:
        webhooks.close()


def _resolver(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> Callable[[], None]:
    def resolve() -> None:
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(set_result)

    def set_result() -> None:
        if not done.done():
            done.set_result(None)

    return resolve


def _check_documents(folder: Path) -> None:
    """Refuse a directory whose documents are in a file of their own."""
    state = read_documents(folder)
    if state is not None and state.documents:
        raise StorageError(
            "the directory has documents of Matcher.publish; a collection keeps its own in the "
            f"log of events: remove {state.path.name}, or name another directory",
            path=str(folder),
        )


def _check_message_id(what: str, id: Any) -> None:
    if id is None:
        return
    if not isinstance(id, str) or not id or len(id) > _LONGEST_ID or not is_unicode(id):
        raise EventError(f"a {what} is a text of 1 to {_LONGEST_ID} characters, not {id!r:.200}")


def _check_limit(limit: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise SubscriptionError(f"limit must be at least 1, not {limit!r:.200}")
