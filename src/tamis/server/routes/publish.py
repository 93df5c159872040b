"""Publish events, and read the log of those that were published."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tamis.pubsub import Publication
from tamis.pubsub.log.records import to_time
from tamis.server.bulk import read_lines
from tamis.server.messages import Answer, Body, Limit
from tamis.server.operation import JSON_LINES, Call, Operation
from tamis.server.problems import ProblemError

__all__ = ["OPERATIONS"]

MessageId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]


class PublishBody(Body):
    """An event to publish."""

    event: dict[str, Any]
    message_id: MessageId | None = None
    """The publisher's id of the message: sent again with the same id, it is published once."""
    audience: Annotated[str, Meta(max_length=10_000)] | None = None
    """A condition on the attributes of subscriptions, such as ``country = 'FR'``."""
    audience_logic: Literal["strong", "weak"] = "strong"
    document_id: MessageId | None = None
    """The event's id among the documents that join predicates see."""


class Reached(Answer):
    """A subscription that an event reached."""

    subscription: str
    rules: list[str | int]
    score: float


class Published(Answer):
    """What became of an event. It is on the disk."""

    sequence: int
    time: datetime
    duplicate: bool
    """Whether an earlier message had the same id; then this is what became of that one."""
    deliveries: list[Reached]

    @classmethod
    def of(cls, publication: Publication) -> Published:
        """The answer for a publication."""
        reached = [Reached(m.subscription, list(m.rules), m.score) for m in publication.deliveries]
        return cls(publication.sequence, publication.time, publication.duplicate, reached)


class PublishedMany(Answer):
    """What became of many events."""

    published: int
    refused: int
    sequences: list[int | None]
    """The number of each event; null for one that was refused."""


class EventOfLog(Answer):
    """A published event."""

    sequence: int
    time: datetime
    event: dict[str, Any]
    message_id: str | None
    deliveries: list[Reached]


class LogPage(Answer):
    """Events of the log, in order."""

    events: list[EventOfLog]
    earliest: int
    """The number of the first event that is kept."""
    latest: int


async def publish(call: Call) -> Published:
    """Match an event, log it durably, and deliver it to the subscriptions that want it."""
    body: PublishBody = call.body
    seconds = call.server.limits.request
    try:
        async with asyncio.timeout(seconds):
            published = await call.collection.pubsub.publish_async(
                body.event,
                message_id=body.message_id,
                audience=body.audience,
                audience_logic=body.audience_logic,
                id=body.document_id,
            )
    except TimeoutError:
        raise ProblemError(
            504,
            "request-too-long",
            "the event may still be published; send it again with the same message id",
            limit=seconds,
        ) from None
    return Published.of(published)


class PublishManyQuery(msgspec.Struct, frozen=True):
    """How to publish many events."""

    audience: str | None = None
    audience_logic: Literal["strong", "weak"] = "strong"
    on_error: Literal["raise", "skip"] = "raise"


class EventLine(Body):
    """A line of many events to publish."""

    event: dict[str, Any]
    message_id: MessageId | None = None


def publish_many(call: Call) -> PublishedMany:
    """Publish events in order, a line each: ``{"event": {…}, "message_id": "…"}``."""
    query: PublishManyQuery = call.query or PublishManyQuery()
    if call.body.media != JSON_LINES:
        raise ProblemError(415, "unknown-media-type", f"the body is JSON lines ({JSON_LINES})")
    read = read_lines(call.body.file, call.server.limits.batch)
    lines = msgspec.convert(read, list[EventLine])
    found = call.collection.pubsub.publish_many(
        [line.event for line in lines],
        message_ids=[line.message_id for line in lines],
        audience=query.audience,
        audience_logic=query.audience_logic,
        on_error=query.on_error,
    )
    sequences = [None if one is None else one.sequence for one in found]
    refused = sequences.count(None)
    return PublishedMany(len(sequences) - refused, refused, sequences)


class LogQuery(msgspec.Struct, frozen=True):
    """Which events of the log to read."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """A sequence number: events after it; all that are kept by default."""
    limit: Limit = 100


def read_log(call: Call) -> LogPage:
    """Read published events."""
    query: LogQuery = call.query or LogQuery()
    log = call.collection.pubsub.log
    after = log.earliest - 1 if query.after is None else query.after
    if after > log.latest:
        raise ProblemError(422, "invalid-request", f"the last event is {log.latest}")
    events = [
        EventOfLog(
            record.sequence,
            to_time(record.time),
            record.event,
            record.message_id,
            [Reached(m.subscription, list(m.rules), m.score) for m in record.matches],
        )
        for record in log.read(after, query.limit)
    ]
    return LogPage(events, log.earliest, log.latest)


_ONE = "/v1/collections/{collection}"

OPERATIONS = (
    Operation(
        "POST",
        f"{_ONE}/publish",
        "Publish an event",
        publish,
        "publish",
        answer=Published,
        body=PublishBody,
        place="stream",
        writes=True,
        more_statuses={422: "The event or its audience is refused."},
    ),
    Operation(
        "POST",
        f"{_ONE}/publish-many",
        "Publish many events",
        publish_many,
        "publish",
        answer=PublishedMany,
        query=PublishManyQuery,
        bulk=True,
        writes=True,
    ),
    Operation(
        "GET",
        f"{_ONE}/log",
        "Read published events",
        read_log,
        "read",
        answer=LogPage,
        query=LogQuery,
        more_statuses={410: "These events are not kept any more."},
    ),
)
