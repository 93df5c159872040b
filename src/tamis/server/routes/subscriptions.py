"""Subscriptions: who receives which events, and how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tamis.pubsub import Subscription
from tamis.server.deliveries import Cursors, describe_delivery, follow
from tamis.server.operation import Call, Operation, Reply
from tamis.server.problems import ProblemError
from tamis.server.streams import BEAT_SECONDS, format_event, send_events
from tamis.wire.media import EVENT_STREAM
from tamis.wire.messages import Limit
from tamis.wire.pubsub import (
    AckBody,
    Acknowledged,
    Cursor,
    DeadLetterRecord,
    DeadLetters,
    Deliveries,
    ReplayBody,
    Replayed,
    SubscriptionBody,
    SubscriptionList,
    SubscriptionRecord,
)

__all__ = ["OPERATIONS"]


def put_subscription(call: Call) -> Reply:
    """Create a subscription, or replace it; it goes on where it stands."""
    body: SubscriptionBody = call.body
    subscriptions, name = call.collection.pubsub.subscriptions, call.names[0]
    is_new = name not in subscriptions
    webhook = None if body.webhook is None else msgspec.to_builtins(body.webhook)
    made = subscriptions.put(
        name,
        owner=body.owner,
        priority=body.priority,
        rules=body.rules,
        tags=body.tags,
        attributes=body.attributes,
        webhook=webhook,
        window=body.window,
    )
    return Reply(_describe(call, made, shows_secret=True), 201 if is_new else 200)


def get_subscription(call: Call) -> SubscriptionRecord:
    """Get a subscription, and where it stands."""
    return _describe(call, call.collection.pubsub.subscriptions.get(call.names[0]))


def delete_subscription(call: Call) -> Reply:
    """Delete a subscription; its rules stay."""
    call.collection.pubsub.subscriptions.delete(call.names[0])
    return Reply(status=204)


class ListQuery(msgspec.Struct, frozen=True):
    """Which subscriptions to list."""

    owner: str | None = None


def list_subscriptions(call: Call) -> SubscriptionList:
    """List subscriptions by name."""
    query: ListQuery = call.query or ListQuery()
    found = call.collection.pubsub.subscriptions.list(query.owner)
    return SubscriptionList([_describe(call, one) for one in found])


def _describe(call: Call, one: Subscription, shows_secret: bool = False) -> SubscriptionRecord:
    state = call.collection.pubsub.subscriptions.state(one.name)
    return SubscriptionRecord(
        one.name,
        one.owner,
        one.priority,
        list(one.rules),
        list(one.tags),
        one.attributes,
        None if one.webhook is None else one.webhook.url,
        one.webhook.secret if shows_secret and one.webhook is not None else None,
        one.window,
        state.acknowledged,
    )


# --- Receive ---


class ReadQuery(msgspec.Struct, frozen=True):
    """Which messages to read."""

    after: Cursor | None = None
    """The cursor of a message, or a sequence number: messages after it; by default those after the
    last acknowledged one."""
    limit: Limit = 100
    wait: Annotated[float, Meta(ge=0, le=60)] = 0
    """How many seconds to wait for a message, if there is none."""
    payloads: bool = False
    """Whether to attach the payloads of the rules."""


async def read_deliveries(call: Call) -> Deliveries:
    """Read the next messages of a subscription; wait for one if there is none."""
    query: ReadQuery = call.query or ReadQuery()
    with call.server.streams.opened():
        found = await call.collection.pubsub.read_async(
            call.names[0],
            None if query.after is None else call.collection.read_position(query.after),
            limit=query.limit,
            wait=query.wait,
            payloads=query.payloads,
        )
    if call.collection.pubsub.is_closed:
        raise ProblemError(404, "collection-not-found", "the collection was removed meanwhile")
    return Deliveries([describe_delivery(delivery) for delivery in found])


class StreamQuery(msgspec.Struct, frozen=True):
    """Which subscriptions to follow."""

    subscription: list[str] = []
    """The name of a subscription; may be repeated."""
    payloads: bool = False


async def stream_deliveries(call: Call) -> None:
    """Receive messages as Server-Sent Events: one connection for any number of subscriptions."""
    query: StreamQuery = call.query or StreamQuery()
    if not query.subscription:
        raise ProblemError(422, "invalid-request", "name a subscription: ?subscription=…")
    cursors = Cursors(call.collection, query.subscription)
    last = call.header(b"last-event-id")
    if last:
        cursors.restore(last)
    # An error has to come before the stream begins.
    await call.collection.pubsub.prepare_async(cursors.after)
    call.collection.pubsub.read_any(cursors.after, limit=1)
    await send_events(call, _format_deliveries(cursors, query.payloads))


async def _format_deliveries(cursors: Cursors, payloads: bool) -> AsyncIterator[bytes]:
    async for delivery in follow(cursors, payloads, BEAT_SECONDS):
        if delivery is None:
            yield b""
        else:
            yield format_event(describe_delivery(delivery), str(cursors), "delivery")


def acknowledge(call: Call) -> Acknowledged:
    """Acknowledge all messages up to a sequence number."""
    body: AckBody = call.body
    return Acknowledged(call.collection.pubsub.acknowledge(call.names[0], body.sequence))


# --- Dead letters ---


def list_dead_letters(call: Call) -> DeadLetters:
    """List the messages that the webhook has not taken after all its attempts."""
    call.collection.pubsub.subscriptions.get(call.names[0])
    webhooks = call.collection.pubsub.webhooks
    found = [] if webhooks is None else webhooks.dead_letters(call.names[0])
    return DeadLetters(
        [
            DeadLetterRecord(
                one.sequence, one.attempts, one.reason, datetime.fromtimestamp(one.time, UTC)
            )
            for one in found
        ]
    )


def replay_dead_letters(call: Call) -> Replayed:
    """Send dead letters to the webhook again."""
    body: ReplayBody = call.body
    call.collection.pubsub.subscriptions.get(call.names[0])
    webhooks = call.collection.pubsub.webhooks
    if webhooks is None:
        raise ProblemError(422, "invalid-request", "this server sends no webhooks")
    return Replayed(webhooks.replay(call.names[0], body.sequences))


_ALL = "/v1/collections/{collection}/subscriptions"
_ONE = f"{_ALL}/{{name}}"
_GONE = {410: "Messages after that number were removed; `earliest` is the first event kept."}

OPERATIONS = (
    Operation(
        "GET",
        _ALL,
        "List subscriptions",
        list_subscriptions,
        "read",
        answer=SubscriptionList,
        query=ListQuery,
    ),
    Operation(
        "PUT",
        _ONE,
        "Create or replace a subscription",
        put_subscription,
        "write",
        answer=SubscriptionRecord,
        body=SubscriptionBody,
        writes=True,
        more_statuses={201: "The subscription is new.", 422: "The subscription is refused."},
    ),
    Operation(
        "GET", _ONE, "Get a subscription", get_subscription, "read", answer=SubscriptionRecord
    ),
    Operation(
        "DELETE",
        _ONE,
        "Delete a subscription",
        delete_subscription,
        "write",
        status=204,
        writes=True,
    ),
    Operation(
        "GET",
        f"{_ONE}/deliveries",
        "Read messages, or wait for the next one",
        read_deliveries,
        "read",
        answer=Deliveries,
        query=ReadQuery,
        place="stream",
        more_statuses=_GONE,
    ),
    Operation(
        "POST",
        f"{_ONE}/ack",
        "Acknowledge messages",
        acknowledge,
        "read",
        answer=Acknowledged,
        body=AckBody,
        writes=True,
    ),
    Operation(
        "GET",
        f"{_ONE}/dead-letters",
        "List messages that a webhook did not take",
        list_dead_letters,
        "read",
        answer=DeadLetters,
    ),
    Operation(
        "POST",
        f"{_ONE}/replay",
        "Send dead letters again",
        replay_dead_letters,
        "write",
        answer=Replayed,
        body=ReplayBody,
        writes=True,
    ),
    Operation(
        "GET",
        "/v1/collections/{collection}/stream",
        "Receive messages as Server-Sent Events",
        stream_deliveries,
        "read",
        query=StreamQuery,
        place="stream",
        media=(EVENT_STREAM,),
        headers={"Last-Event-ID": "The id of the last event received."},
        more_statuses=_GONE,
    ),
)
