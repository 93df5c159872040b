"""Sends the messages of all subscriptions that have a webhook.

One thread runs an event loop. Each subscription has a *lane*: it sends one message at a time, so
that first attempts are in order. A message that is not taken waits for its next attempt, and later
ones go on. So at most one connection belongs to a subscription, and one that is slow slows no
other. When there are more lanes than connections may be open, lanes of a higher priority go first,
then those whose next message has a higher score.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import os
import random
import ssl
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from tamis.errors import GoneError, StorageError, SubscriptionError, TamisError
from tamis.pubsub.delivery import Delivery, make_delivery
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.subscriptions.subscription import DeadLetter, Progress, Retry, Subscription
from tamis.pubsub.subscriptions.subscriptions import Subscriptions
from tamis.pubsub.webhooks.addresses import AddressPolicy
from tamis.pubsub.webhooks.sender import NotTakenError, Sender
from tamis.pubsub.webhooks.signature import sign_request

__all__ = ["RETRY_DELAYS", "WebhookSettings", "Webhooks", "encode_message"]

_logger = logging.getLogger("tamis")

RETRY_DELAYS: Final = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)
"""Seconds before each further attempt, as Standard Webhooks proposes; about three days in all."""

_LONGEST_PAUSE: Final = 30.0
_MOST_DEAD: Final = 10_000
"""How many dead letters of a subscription are kept."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How webhooks are sent.

    Attributes
    ----------
    seconds
        How long a receiver has to answer.
    delays
        Seconds before each further attempt; after the last one a message becomes a dead letter.
    connections
        How many connections may be open at once.
    allowed_networks
        Networks to which webhooks may connect although they are not public.
    tls
        The certificates to trust; those of the system by default.
    """

    seconds: float = 15.0
    delays: tuple[float, ...] = RETRY_DELAYS
    connections: int = 64
    allowed_networks: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None


class _Lane:
    """What is under way for one subscription."""

    def __init__(self) -> None:
        self.is_sending = False
        self.failures = 0
        """How many attempts in a row have failed."""
        self.pause_ends = 0.0
        """When the next attempt may be made, in seconds since 1970."""


class Webhooks:
    """The webhooks of a collection.

    Parameters
    ----------
    log, subscriptions
        What is sent, and where to.
    settings
        How.
    """

    def __init__(
        self, log: EventLog, subscriptions: Subscriptions, settings: WebhookSettings
    ) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._settings = settings
        self._sender = Sender(
            AddressPolicy(settings.allowed_networks), settings.seconds, settings.tls
        )
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._woken: set[str] = set()
        """Subscriptions to which something happened; with the lock."""
        # The rest belongs to the thread.
        self._lanes: dict[str, _Lane] = {}
        self._waiting: set[str] = set()
        """Subscriptions that may have a message to send."""
        self._sending = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.wake(subscriptions)

    # --- What others call ---

    def wake(self, names: Iterable[str]) -> None:
        """Something happened to these subscriptions: there may be messages to send."""
        known = self._subscriptions.known
        with_webhook = {name for name in names if name in known and known[name][0].webhook}
        if not with_webhook or os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_closed:
                return
            is_known = bool(self._woken)
            self._woken |= with_webhook
            if self._thread is None:
                self._start()
            elif not is_known:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._take_woken)

    def dead_letters(self, subscription: str) -> list[DeadLetter]:
        """The messages that a receiver has not taken after all attempts, oldest first."""
        dead = dict(self._subscriptions.state(subscription).dead)
        return [dead[sequence] for sequence in sorted(dead)]

    def replay(self, subscription: str, sequences: Iterable[int] | None = None) -> int:
        """Send dead letters again; all of them by default. Returns how many.

        Raises
        ------
        SubscriptionError
            One of these numbers is not that of a dead letter; nothing was changed.
        """
        state = self._subscriptions.state(subscription)
        dead = dict(state.dead)
        chosen = sorted(dead) if sequences is None else sorted(set(sequences))
        unknown = [sequence for sequence in chosen if sequence not in dead]
        if unknown:
            raise SubscriptionError(f"{unknown[0]!r} is not the number of a dead letter")
        kept = [sequence for sequence in chosen if sequence >= self._log.earliest]
        now = time.time()
        retries: dict[int, Retry | None] = {
            sequence: Retry(0, now, dead[sequence].reason) for sequence in kept
        }
        self._subscriptions.advance(
            Progress(
                subscription,
                state.start,
                state.acknowledged,
                retries=retries,
                dead=dict.fromkeys(kept),
            )
        )
        return len(kept)

    def close(self) -> None:
        """Send no more. A message that is under way counts as not sent."""
        with self._lock:
            self._is_closed = True
            thread, loop = self._thread, self._loop
        if thread is not None and loop is not None and os.getpid() == self._pid:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join()

    # --- The thread ---

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tamis-webhooks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        # Looking up names takes a thread each; one that hangs must not delay others.
        names = ThreadPoolExecutor(self._settings.connections, "tamis-names")
        loop.set_default_executor(names)
        loop.call_soon(self._take_woken)
        try:
            loop.run_forever()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        finally:
            names.shutdown(wait=False, cancel_futures=True)
            loop.close()

    def _take_woken(self) -> None:
        with self._lock:
            woken, self._woken = self._woken, set()
        self._waiting |= woken
        self._begin()

    def _begin(self) -> None:
        """Begin to send as many messages as connections allow, the most useful first."""
        now = time.time()
        heads: list[tuple[int, float, int, str, int]] = []
        due: list[float] = []
        for name in list(self._waiting):
            lane = self._lanes.setdefault(name, _Lane())
            if lane.is_sending:
                continue
            if lane.pause_ends > now:
                due.append(lane.pause_ends)
                continue
            try:
                head = self._find_next(name, now, due)
            except TamisError as error:
                self._report(name, error)
                lane.pause_ends = now + 1.0
                due.append(lane.pause_ends)
                continue
            if head is None:
                if not self._has_retries(name):
                    self._waiting.discard(name)
                continue
            subscription, delivery, attempts = head
            key = (-subscription.priority, -delivery.score, delivery.sequence, name, attempts)
            heads.append(key)
        heapq.heapify(heads)
        while heads and self._sending < self._settings.connections:
            _, _, sequence, name, attempts = heapq.heappop(heads)
            # Receivers that fail get at most half of the connections.
            lane = self._lanes[name]
            if lane.failures and self._sending >= max(1, self._settings.connections // 2):
                continue
            self._send(name, lane, sequence, attempts)
        self._set_timer(due, now)

    def _find_next(
        self, name: str, now: float, due: list[float]
    ) -> tuple[Subscription, Delivery, int] | None:
        """The next message of a subscription that is due, and how often it was tried."""
        entry = self._subscriptions.known.get(name)
        if entry is None or entry[0].webhook is None:
            return None
        subscription, state = entry
        retries = dict(state.retries)
        ready = [sequence for sequence, retry in retries.items() if retry.due <= now]
        due += [retry.due for retry in retries.values() if retry.due > now]
        if ready:
            sequence = min(ready)
            return subscription, self._read(name, sequence), retries[sequence].attempts
        if len(retries) >= subscription.window:
            return None
        after = max(state.acknowledged, state.start)
        found = self._log.find_deliveries(name, after, 1)
        return (subscription, self._read(name, found[0]), 0) if found else None

    def _has_retries(self, name: str) -> bool:
        entry = self._subscriptions.known.get(name)
        return entry is not None and bool(entry[1].retries)

    def _read(self, name: str, sequence: int) -> Delivery:
        record = self._log.find(sequence)
        match = record.find_match(name)
        if match is None:
            raise GoneError(f"event {sequence} did not reach {name!r}", earliest=self._log.earliest)
        return make_delivery(record, match, identity=self._log.identity)

    def _set_timer(self, due: Sequence[float], now: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due:
            self._timer = self._loop.call_later(max(0.0, min(due) - now), self._begin)

    def _send(self, name: str, lane: _Lane, sequence: int, attempts: int) -> None:
        assert self._loop is not None
        lane.is_sending = True
        self._sending += 1
        task = self._loop.create_task(self._attempt(name, lane, sequence, attempts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, name: str, lane: _Lane, sequence: int, attempts: int) -> None:
        """Send a message once, and note what became of it."""
        try:
            reason = await self._try(name, sequence)
            if reason is None:
                lane.failures = 0
            else:
                lane.failures += 1
                pause = min(0.05 * 2.0**lane.failures, _LONGEST_PAUSE)
                lane.pause_ends = time.time() + pause * random.uniform(0.8, 1.2)
            self._note(name, sequence, attempts + 1, reason)
        except TamisError as error:
            # It will be sent again: nothing says that it was.
            self._report(name, error)
            lane.pause_ends = time.time() + 1.0
        finally:
            lane.is_sending = False
            self._sending -= 1
            self._waiting.add(name)
            assert self._loop is not None
            if self._loop.is_running():
                self._loop.call_soon(self._begin)

    async def _try(self, name: str, sequence: int) -> str | None:
        """Send a message; None if it was taken, else the reason why not."""
        subscription = self._subscriptions.get(name)
        if subscription.webhook is None:
            return "the webhook was removed"
        delivery = self._read(name, sequence)
        body = encode_message(delivery)
        headers = sign_request(subscription.webhook.secret, delivery.id, int(time.time()), body)
        try:
            await self._sender.send(subscription.webhook.url, headers, body)
        except NotTakenError as error:
            return str(error)
        return None

    def _note(self, name: str, sequence: int, attempts: int, reason: str | None) -> None:
        """Record that a message was taken, waits for another attempt, or is dead."""
        state = self._subscriptions.state(name)
        acknowledged = max(state.acknowledged, sequence)
        retry: Retry | None = None
        dead: dict[int, DeadLetter | None] = {}
        if reason is not None and attempts > len(self._settings.delays):
            dead[sequence] = DeadLetter(sequence, attempts, reason, time.time())
            if len(state.dead) >= _MOST_DEAD:
                dead[min(state.dead)] = None
        elif reason is not None:
            delay = self._settings.delays[attempts - 1] * random.uniform(0.8, 1.2)
            retry = Retry(attempts, time.time() + delay, reason)
        self._subscriptions.advance(
            Progress(name, state.start, acknowledged, 0, {sequence: retry}, dead)
        )

    def _report(self, name: str, error: TamisError) -> None:
        if not isinstance(error, StorageError | GoneError) and name not in self._subscriptions:
            return
        _logger.warning("webhook of %s: %s", name, error)


def encode_message(delivery: Delivery) -> bytes:
    """The body of a message, as JSON."""
    return msgspec.json.encode(
        {
            "type": "event.matched",
            "timestamp": delivery.time,
            "data": {
                "subscription": delivery.subscription,
                "sequence": delivery.sequence,
                "message_id": delivery.message_id,
                "rules": delivery.rules,
                "score": delivery.score,
                "event": delivery.event,
            },
        }
    )
