"""Bodies of requests and answers about publishing and receiving."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tamis.wire.messages import Answer, Body, Id

__all__ = [
    "AckBody",
    "Acknowledged",
    "Cursor",
    "DeadLetterRecord",
    "DeadLetters",
    "Deliveries",
    "DeliveryRecord",
    "EventLine",
    "EventOfLog",
    "LogPage",
    "MessageId",
    "PublishBody",
    "Published",
    "PublishedMany",
    "Reached",
    "ReplayBody",
    "Replayed",
    "Sequence",
    "SubscriptionBody",
    "SubscriptionList",
    "SubscriptionRecord",
    "WebhookBody",
]

MessageId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]
Sequence: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Cursor: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
"""A position: a number, or what the API gives as ``cursor``."""


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
    cursor: str = ""
    """Pass it as ``after`` to go on after these events."""


class EventLine(Body):
    """A line of many events to publish."""

    event: dict[str, Any]
    message_id: MessageId | None = None


class WebhookBody(Body):
    """Where to send messages."""

    url: Annotated[str, Meta(max_length=2048)]
    secret: Annotated[str, Meta(max_length=200)] = ""
    """``whsec_`` and 24 to 64 bytes in base64; one is drawn if it is empty."""


class SubscriptionBody(Body):
    """A subscription as a client sends it."""

    owner: str | None = None
    """Whose it is; any text."""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    """When deliveries wait, those of a higher priority go first."""
    rules: list[Id] = msgspec.field(default_factory=list)
    """It owns the rules with these ids,"""
    tags: list[str] = msgspec.field(default_factory=list)
    """and those with one of these tags."""
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)
    """Its own attributes, to which the audience of an event refers."""
    webhook: WebhookBody | None = None
    window: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """How many messages may be sent that are not acknowledged yet."""


class SubscriptionRecord(Answer):
    """A subscription as the server has it."""

    name: str
    owner: str | None
    priority: int
    rules: list[str | int]
    tags: list[str]
    attributes: dict[str, Any]
    webhook: str | None
    """The address of its webhook."""
    secret: str | None
    """The secret of its webhook, only in the answer to PUT."""
    window: int
    acknowledged: int
    """All its messages up to this number are acknowledged."""


class SubscriptionList(Answer):
    """Subscriptions, by name."""

    subscriptions: list[SubscriptionRecord]


class DeliveryRecord(Answer):
    """A message to a subscription: one event, with the rules that it satisfied."""

    id: str
    """The same whenever this message is delivered; no other message has it."""
    subscription: str
    sequence: int
    """Acknowledge the message, and all before it, by this number."""
    time: datetime
    event: dict[str, Any]
    rules: list[str | int]
    score: float
    message_id: str | None
    payloads: dict[str, Any]
    """The payloads of the rules that have one, by their ids."""
    cursor: str = ""
    """Read on after this message by it, or acknowledge by it in place of `sequence`: no other
    collection of this name takes it for its own."""


class Deliveries(Answer):
    """Messages of a subscription, in order."""

    deliveries: list[DeliveryRecord]


class AckBody(Body):
    """Up to where messages are done with."""

    sequence: Sequence | Cursor
    """The number of a message, or its cursor."""


class Acknowledged(Answer):
    """Up to where messages are acknowledged by now."""

    acknowledged: int


class DeadLetterRecord(Answer):
    """A message that a webhook has not taken after all its attempts."""

    sequence: int
    attempts: int
    reason: str
    time: datetime
    """When it was given up."""


class DeadLetters(Answer):
    """The dead letters of a subscription, by number."""

    dead_letters: list[DeadLetterRecord]


class ReplayBody(Body):
    """Which dead letters to send again."""

    sequences: list[Sequence] | None = None
    """Their numbers; all by default."""


class Replayed(Answer):
    """How many dead letters are sent again."""

    replayed: int
