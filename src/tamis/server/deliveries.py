"""The messages of subscriptions, one after the other, for every kind of connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from tamis.errors import UnknownSubscriptionError
from tamis.pubsub import Collection, Delivery
from tamis.pubsub.marks import read_position
from tamis.server.catalog import OpenCollection
from tamis.server.problems import ProblemError
from tamis.wire.pubsub import DeliveryRecord

__all__ = ["Cursors", "describe_delivery", "follow"]

_AT_ONCE = 100
"""How many messages are read from the log before they are sent."""


def describe_delivery(delivery: Delivery) -> DeliveryRecord:
    """A delivery as clients see it."""
    return DeliveryRecord(
        delivery.id,
        delivery.subscription,
        delivery.sequence,
        delivery.time,
        delivery.event,
        list(delivery.rules),
        delivery.score,
        delivery.message_id,
        {str(id): payload for id, payload in delivery.payloads.items()},
        delivery.cursor,
    )


class Cursors:
    """How far a connection has read each of its subscriptions.

    As text it is the id of an event of a stream: ``12`` for one subscription, ``ann=12,bob=7`` for
    several, as a mark of the collection. A client that comes back sends it as ``Last-Event-ID``.

    Parameters
    ----------
    collection
        The collection.
    names
        The subscriptions. Each begins after its last acknowledged message.
    """

    def __init__(self, collection: OpenCollection, names: list[str]) -> None:
        self.collection = collection
        self.after: dict[str, int | None] = dict.fromkeys(names)

    def restore(self, text: str) -> None:
        """Continue after the messages that the client received last.

        Raises
        ------
        ProblemError
            `text` is not the id of an event of such a stream (422), or that of another collection
            (410).
        """
        text = self.collection.read_mark(text)
        try:
            if len(self.after) == 1 and "=" not in text:
                (name,) = self.after
                self.after[name] = read_position(text)
                return
            for part in text.split(","):
                name, _, number = part.partition("=")
                if name in self.after:
                    self.after[name] = read_position(number)
        except ValueError:
            raise ProblemError(
                422, "invalid-request", "Last-Event-ID is not the id of a message"
            ) from None

    def __str__(self) -> str:
        if len(self.after) == 1:
            return self.collection.mark(next(iter(self.after.values())))
        known = [f"{name}={after}" for name, after in self.after.items() if after is not None]
        return self.collection.mark(",".join(known))


async def follow(
    cursors: Cursors, payloads: bool, seconds: float
) -> AsyncIterator[Delivery | None]:
    """Yield the messages of subscriptions as they come, and None after `seconds` without one.

    Of messages that wait, those of a higher priority go first, then those of a higher score. The
    next ones are read only when these were taken, so a slow reader costs no memory. Ends when a
    subscription is deleted, or the collection closed: one of its name is another one from then on.
    """
    collection = cursors.collection.pubsub
    with suppress(UnknownSubscriptionError):
        while not collection.is_closed:
            await collection.prepare_async(cursors.after)
            found = collection.read_any(cursors.after, limit=_AT_ONCE, payloads=payloads)
            for delivery in found:
                cursors.after[delivery.subscription] = delivery.sequence
                yield delivery
            if not found and not await _wait(collection, cursors, seconds):
                yield None


async def _wait(collection: Collection, cursors: Cursors, seconds: float) -> bool:
    """Wait until one of the subscriptions has a message."""
    waiting = [
        asyncio.ensure_future(collection.read_async(name, after, limit=1, wait=seconds))
        for name, after in cursors.after.items()
    ]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return any(task.result() for task in done)
    finally:
        for task in waiting:
            task.cancel()
