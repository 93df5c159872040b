"""Publish events, and read the log of those that were published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from tamis.errors import EventError, SchemaError
from tamis.pubsub import Publication
from tamis.pubsub.log.records import Match, to_time
from tamis.server.bulk import BulkReader
from tamis.server.operation import Call, Operation
from tamis.server.problems import ProblemError
from tamis.wire.media import JSON_LINES
from tamis.wire.messages import Limit
from tamis.wire.pubsub import (
    Cursor,
    EventLine,
    EventOfLog,
    LogPage,
    PublishBody,
    Published,
    PublishedMany,
    Reached,
)

__all__ = ["OPERATIONS"]


async def publish(call: Call) -> Published:
    """Match an event, log it durably, and deliver it to the subscriptions that want it."""
    body: PublishBody = call.body
    published = await call.collection.pubsub.publish_async(
        body.event,
        message_id=body.message_id,
        audience=body.audience,
        audience_logic=body.audience_logic,
        id=body.document_id,
    )
    return _describe(published)


class PublishManyQuery(msgspec.Struct, frozen=True):
    """How to publish many events."""

    audience: str | None = None
    audience_logic: Literal["strong", "weak"] = "strong"
    on_error: Literal["raise", "skip"] = "raise"


def publish_many(call: Call) -> PublishedMany:
    """Publish events in order, a line each: ``{"event": {…}, "message_id": "…"}``."""
    query: PublishManyQuery = call.query or PublishManyQuery()
    if call.body.media != JSON_LINES:
        raise ProblemError(415, "unknown-media-type", f"the body is JSON lines ({JSON_LINES})")
    reader = BulkReader(call.body, call.server.limits)
    # A body that ends in a line that cannot be read publishes nothing.
    for number, line in enumerate(_read_lines(reader)):
        if query.on_error == "raise":
            _check_line(call, query, line, number)
    reader.rewind()
    sequences: list[int | None] = []
    for objects in reader.objects():
        lines = msgspec.convert(objects, list[EventLine])
        found = call.collection.pubsub.publish_many(
            [line.event for line in lines],
            message_ids=[line.message_id for line in lines],
            audience=query.audience,
            audience_logic=query.audience_logic,
            on_error=query.on_error,
        )
        sequences += [None if one is None else one.sequence for one in found]
    refused = sequences.count(None)
    return PublishedMany(len(sequences) - refused, refused, sequences)


def _read_lines(reader: BulkReader) -> Iterator[EventLine]:
    for objects in reader.objects():
        yield from msgspec.convert(objects, list[EventLine])


def _check_line(call: Call, query: PublishManyQuery, line: EventLine, number: int) -> None:
    try:
        call.collection.pubsub.check_event(
            line.event, line.message_id, query.audience, query.audience_logic
        )
    except (EventError, SchemaError) as error:
        raise type(error)(f"event {number}: {error}") from error


class LogQuery(msgspec.Struct, frozen=True):
    """Which events of the log to read."""

    after: Cursor | None = None
    """The ``cursor`` of a page, or a sequence number: events after it; all that are kept by
    default."""
    limit: Limit = 100


def read_log(call: Call) -> LogPage:
    """Read published events."""
    query: LogQuery = call.query or LogQuery()
    log = call.collection.pubsub.log
    after = None if query.after is None else call.collection.read_position(query.after)
    if after is not None and after > log.latest:
        raise ProblemError(422, "invalid-request", f"the last event is {log.latest}")
    found = log.read_kept() if after is None else log.read(after, query.limit)
    events = [
        EventOfLog(
            record.sequence,
            to_time(record.time),
            record.event,
            record.message_id,
            _list_reached(record.matches),
        )
        for record in islice(found, query.limit)
    ]
    last = events[-1].sequence if events else log.latest if after is None else after
    return LogPage(events, log.earliest, log.latest, call.collection.mark(last))


def _describe(publication: Publication) -> Published:
    return Published(
        publication.sequence,
        publication.time,
        publication.duplicate,
        _list_reached(publication.deliveries),
    )


def _list_reached(matches: Iterable[Match]) -> list[Reached]:
    return [Reached(match.subscription, list(match.rules), match.score) for match in matches]


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
