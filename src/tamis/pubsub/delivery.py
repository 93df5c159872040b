"""What publishers and subscribers get."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from tamis.matcher.rule import RuleId
from tamis.pubsub.log.records import EventRecord, Match, to_time
from tamis.pubsub.marks import make_mark

__all__ = ["Delivery", "Publication", "make_delivery"]


class Publication(NamedTuple):
    """What became of a published event. It is on the disk."""

    sequence: int
    """The event's number in the collection."""
    time: datetime
    """When it was published."""
    duplicate: bool
    """Whether an earlier message had the same id; then this is what became of that one."""
    deliveries: tuple[Match, ...]
    """The subscriptions that it reached, each with its matching rules and their best score."""


class Delivery(NamedTuple):
    """A message to a subscription: one event, with the rules that it satisfied."""

    subscription: str
    sequence: int
    """The event's number in the collection; a subscriber acknowledges by it."""
    time: datetime
    event: dict[str, Any]
    rules: tuple[RuleId, ...]
    """The subscription's rules that the event satisfied when it was published."""
    score: float
    """The best score of these rules."""
    message_id: str | None = None
    """The publisher's id of the message."""
    payloads: Mapping[RuleId, Any] = MappingProxyType({})
    """The payloads of the rules, as they are now, of those that have one."""
    identity: str = ""
    """That of the collection."""

    @property
    def id(self) -> str:
        """The same whenever this message is delivered, and no other message has it."""
        name = f"{self.subscription}.{self.sequence}"
        return f"{name}.{self.identity}" if self.identity else name

    @property
    def cursor(self) -> str:
        """Where to go on reading after this message: a number that fits this collection only."""
        return make_mark(self.identity, self.sequence)


def make_delivery(
    record: EventRecord,
    match: Match,
    payloads: Mapping[RuleId, Any] | None = None,
    identity: str = "",
) -> Delivery:
    """The message to the subscription of `match`."""
    return Delivery(
        match.subscription,
        record.sequence,
        to_time(record.time),
        record.event,
        match.rules,
        match.score,
        record.message_id,
        payloads or MappingProxyType({}),
        identity,
    )
