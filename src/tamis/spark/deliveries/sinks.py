"""Send the messages of a stream: to webhooks, and to a server of Tamis.

Both are functions for ``foreachBatch``. If a job fails in the middle of a batch, Spark starts the
batch again; so a message may be sent twice, always with the same id, by which webhooks can drop it
and the server of Tamis does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tamis.encode.json.texts import JsonTexts
from tamis.errors import EventError, TamisError
from tamis.pubsub.subscriptions.subscription import Webhook
from tamis.pubsub.webhooks.addresses import AddressPolicy
from tamis.pubsub.webhooks.sender import NotTakenError, Sender
from tamis.pubsub.webhooks.signature import sign_request
from tamis.spark.deliveries.tables import SUBSCRIPTION
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.match.options import Names
from tamis.spark.runtime.work import Work

__all__ = ["send_to_server", "send_to_webhooks"]

Sink: TypeAlias = Callable[[DataFrame, int], None]
"""A function for ``foreachBatch``: it takes a batch and its number."""

_CHUNK = 500
"""How many events to send to a server at a time."""


def send_to_webhooks(
    webhooks: Mapping[str, Webhook],
    *,
    keys: Names = None,
    event: str | None = None,
    delays: Sequence[float] = (1.0, 5.0, 15.0),
    seconds: float = 15.0,
    allowed_networks: Sequence[str] = (),
    dead_letters: PathLike | None = None,
) -> Sink:
    """Make a sink that sends deliveries to webhooks, signed as the server of Tamis signs them.

    Parameters
    ----------
    webhooks
        Where the messages of each subscription go; those of others are not sent.
    keys
        The columns that identify an event; by default all that :func:`deliveries` does not add.
    event
        A column to send as the event: a struct, a map or a JSON text. By default the keys.
    delays
        Seconds before each further attempt.
    seconds
        How long a receiver has to answer.
    allowed_networks
        Networks to which to connect although they are not public: ``["10.1.0.0/16"]``.
    dead_letters
        A folder for the messages that were not taken, with reasons, as Parquet by batch. Without
        it such a message fails the batch with a `TamisError`, and Spark can start it again.

    Examples
    --------
    >>> sink = ts.send_to_webhooks({"ann": Webhook(url, secret)})      # doctest: +SKIP
    >>> def send(batch, number):                                       # doctest: +SKIP
    ...     sink(ts.deliveries(ts.match(batch, path), subscriptions), number)
    >>> stream.writeStream.foreachBatch(send).start()                  # doctest: +SKIP
    """
    folder = None if dead_letters is None else resolve_folder(dead_letters)

    def send(batch: DataFrame, number: int) -> None:
        task = _WebhookTask(
            dict(webhooks), tuple(delays), seconds, tuple(allowed_networks), folder is None
        )
        messages = _to_messages(batch, keys, event, ("rules", "score"))
        work = Work(task.run, "tamis_send_to_webhooks")
        sent = messages.mapInArrow(work, "subscription string, message string, reason string")
        if folder is None:
            sent.write.format("noop").mode("overwrite").save()
            return
        # As part of a URI, the sign = would be escaped.
        sent.write.mode("overwrite").parquet(f"{folder.as_uri()}/batch_id={number}")

    return send


def send_to_server(
    url: str,
    collection: str,
    *,
    keys: Names = None,
    event: str | None = None,
    key: str | None = None,
) -> Sink:
    """Make a sink that publishes events on a server of Tamis, each once.

    The server matches them with the rules of its collection and delivers them to its subscriptions.
    So Spark can choose, with millions of rules, which events of a stream are worth publishing. Rows
    with the same keys are one event.

    Parameters
    ----------
    url, collection
        The server, and the name of the collection.
    keys, event
        As in :func:`send_to_webhooks`.
    key
        The API key; by default that of the environment variable ``TAMIS_KEY`` of the workers.
    """

    def send(batch: DataFrame, _: int) -> None:
        messages = _to_messages(batch, keys, event, ()).dropDuplicates(["id"])
        task = _ServerTask(url, collection, key)
        sent = messages.mapInArrow(Work(task.run, "tamis_send_to_server"), "published long")
        sent.write.format("noop").mode("overwrite").save()

    return send


def _to_messages(
    batch: DataFrame, keys: Names, event: str | None, others: Sequence[str]
) -> DataFrame:
    """A row for each message: subscription, id, event as JSON, and `others` as JSON."""
    added = {SUBSCRIPTION, "rules", "rule", "score", "priority", "rank", event}
    if keys is None:
        names = [name for name in batch.columns if name not in added]
    else:
        names = [keys] if isinstance(keys, str) else list(keys)
    wanted = [*names, *others, *([SUBSCRIPTION] if others else []), *([event] if event else [])]
    for name in wanted:
        if name not in batch.columns:
            raise EventError(
                f"the deliveries have no column {name!r}; the columns are "
                f"{', '.join(batch.columns)}"
            )
    if not names:
        raise EventError("which columns identify an event? pass keys=")
    identity = F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)))
    whole = identity if event is None else F.col(f"`{event}`")
    if event is not None and not _is_text(batch.schema, event):
        whole = F.to_json(whole)
    about = F.to_json(F.struct(*others)) if others else F.lit("{}")
    subscription = F.col(SUBSCRIPTION) if others else F.lit("")
    return batch.select(
        subscription.alias(SUBSCRIPTION),
        identity.alias("id"),
        whole.alias("event"),
        about.alias("about"),
    )


def _is_text(schema: StructType, name: str) -> bool:
    return schema[name].dataType.typeName() == "string"


def _name_message(subscription: str, identity: str) -> str:
    """An id that this message always has, and no other."""
    digest = blake2b(digest_size=16)
    digest.update(msgspec.json.encode([subscription, identity]))
    return digest.hexdigest()


def _read_event(column: pa.Array, row: int) -> dict[str, Any]:
    texts = JsonTexts.of_arrow(column)
    assert texts is not None, "the events are texts"
    return texts.event(row)


@dataclass(frozen=True)
class _WebhookTask:
    """Sends messages to webhooks; its answers are those that were not taken."""

    webhooks: dict[str, Webhook]
    delays: tuple[float, ...]
    seconds: float
    allowed_networks: tuple[str, ...]
    raises: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            failed = asyncio.run(self._send_all(batch))
            columns = list(zip(*failed, strict=True)) if failed else [(), (), ()]
            names = [SUBSCRIPTION, "message", "reason"]
            yield pa.record_batch([pa.array(column, pa.string()) for column in columns], names)

    async def _send_all(self, batch: pa.RecordBatch) -> list[tuple[str, str, str]]:
        """Send the messages of each subscription one after the other, and return the failed."""
        sender = Sender(AddressPolicy(self.allowed_networks), self.seconds)
        lanes: dict[str, list[int]] = {}
        for row, name in enumerate(batch.column(SUBSCRIPTION).to_pylist()):
            if name in self.webhooks:
                lanes.setdefault(name, []).append(row)
        sent = [self._send_lane(sender, batch, name, rows) for name, rows in lanes.items()]
        return [failure for failures in await asyncio.gather(*sent) for failure in failures]

    async def _send_lane(
        self, sender: Sender, batch: pa.RecordBatch, name: str, rows: list[int]
    ) -> list[tuple[str, str, str]]:
        failed = []
        for row in rows:
            identity = batch.column("id")[row].as_py()
            about = msgspec.json.decode(batch.column("about")[row].as_py())
            body = _encode(name, identity, about, _read_event(batch.column("event"), row))
            reason = await self._send(sender, self.webhooks[name], name, identity, body)
            if reason is None:
                continue
            if self.raises:
                raise TamisError(f"a message of {name!r} was not taken: {reason}")
            failed.append((name, body.decode(), reason))
        return failed

    async def _send(
        self, sender: Sender, webhook: Webhook, name: str, identity: str, body: bytes
    ) -> str | None:
        """Send a message; None if it was taken, else the reason of the last attempt."""
        reason: str | None = None
        for delay in (0.0, *self.delays):
            await asyncio.sleep(delay)
            id = _name_message(name, identity)
            headers = sign_request(webhook.secret, id, int(time.time()), body)
            try:
                await sender.send(webhook.url, headers, body)
            except NotTakenError as error:
                reason = str(error)
                continue
            return None
        return reason


def _encode(name: str, identity: str, about: dict[str, Any], event: dict[str, Any]) -> bytes:
    """The body of a message, like that of the server, whose events have numbers."""
    data = {SUBSCRIPTION: name, "message_id": identity, **about, "event": event}
    message = {"type": "event.matched", "timestamp": datetime.now(UTC), "data": data}
    return msgspec.json.encode(message)


@dataclass(frozen=True)
class _ServerTask:
    """Publishes events on a server."""

    url: str
    collection: str
    key: str | None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tamis.client import Client

        with Client(self.url, self.collection, key=self.key) as client:
            for batch in batches:
                published = 0
                for first in range(0, batch.num_rows, _CHUNK):
                    part = batch.slice(first, _CHUNK)
                    rows = range(part.num_rows)
                    events = [_read_event(part.column("event"), row) for row in rows]
                    ids = [_name_message("", id) for id in part.column("id").to_pylist()]
                    published += client.publish_many(events, message_ids=ids).published
                yield pa.record_batch([pa.array([published], pa.int64())], ["published"])
