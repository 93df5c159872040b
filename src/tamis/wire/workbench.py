"""The bodies of requests and answers that the page needs beside those of other clients."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from tamis.wire.messages import Answer, Body, Event, Id

__all__ = [
    "Activity",
    "ActivityRecord",
    "AttributeList",
    "AttributeRecord",
    "AttributeValues",
    "BoundaryQuestion",
    "BoundaryRecord",
    "CostFigures",
    "DescribeQuestion",
    "Described",
    "EditRecord",
    "ImportQuestion",
    "ImportedRule",
    "ImportedRules",
    "IndexFigures",
    "LatencyRecord",
    "LiveFigures",
    "LiveLetter",
    "LiveSubscription",
    "PossibleQuestion",
    "PossibleRules",
    "RefusedRule",
    "RepairRecord",
    "Repairs",
    "RepairsQuestion",
    "StretchRecord",
    "TestedRules",
    "Tried",
    "TriedRule",
    "TryQuestion",
]

# --- Try ---


class TryQuestion(Body):
    """An event, to see its rules."""

    event: Event
    n: Annotated[int, Meta(ge=1, le=1000)] = 100
    """How many rules to show at most."""
    at: datetime | None = None


class TriedRule(Answer):
    """A matching rule."""

    id: str | int
    score: float
    text: str
    """Its text, cut where it is very long."""
    tags: list[str]


class Tried(Answer):
    """The rules that an event satisfies."""

    count: int
    rules: list[TriedRule]
    """Those of the highest scores."""
    microseconds: float
    """How long the search took."""


class AttributeRecord(Answer):
    """How rules use an attribute."""

    attribute: str
    predicates: int
    conjunctions: int
    values: dict[str, int]
    """How many values rules mention, by kind."""
    is_computed: bool


class AttributeList(Answer):
    """The attributes that rules mention, the most used first."""

    attributes: list[AttributeRecord]


class AttributeValues(Answer):
    """Values of an attribute that rules mention."""

    attribute: str
    values: list[Any]
    count: int
    """How many there are; not all may be listed."""
    is_complete: bool


class BoundaryQuestion(Body):
    """An event and one of its attributes, to see where the matching rules change."""

    event: Event
    attribute: Annotated[str, Meta(min_length=1, max_length=1000)]
    limit: Annotated[int, Meta(ge=1, le=256)] = 64
    at: datetime | None = None


class StretchRecord(Answer):
    """Neighbouring values for which the same rules match."""

    low: Any
    high: Any
    is_point: bool
    """Whether it is one value that rules mention; otherwise both ends are outside."""
    value: Any
    matches: int
    gained: list[str | int]
    """Rules that match here and not before; at most 100."""
    lost: list[str | int]


class BoundaryRecord(Answer):
    """How the matching rules change along the values of an attribute."""

    attribute: str
    kind: Literal["boolean", "number", "string", "timestamp"]
    stretches: list[StretchRecord]
    current: int | None
    cuts_below: int
    cuts_above: int
    is_complete: bool


class RepairsQuestion(Body):
    """A rule and an event that does not satisfy it."""

    rule: Id
    event: Event
    at: datetime | None = None


class EditRecord(Answer):
    """A change of an event."""

    attribute: str
    value: Any
    remove: bool


class RepairRecord(Answer):
    """A predicate that has to change, and changes of the event that do it."""

    text: str
    edits: list[EditRecord]


class Repairs(Answer):
    """The fewest changes for which a rule matches."""

    changes: list[RepairRecord] | None
    is_fewest: bool
    invalid: str | None


class PossibleQuestion(Body):
    """An event of which some attributes are not known."""

    event: Event
    unknown: Annotated[list[str], Meta(min_length=1, max_length=100)]


class PossibleRules(Answer):
    """The rules that could match, whatever the unknown values are."""

    count: int
    rules: list[str | int]
    """At most 1,000."""


# --- Write ---


class DescribeQuestion(Body):
    """A draft rule."""

    rule: str | dict[str, Any] | bool
    logic: Literal["strong", "weak"] = "strong"


class Described(Answer):
    """A rule in words."""

    words: str
    text: str
    """The rule as Tamis would write it."""
    attributes: list[str]


class ImportQuestion(Body):
    """A rule of another system."""

    system: Literal["eventbridge", "growthbook", "jsonlogic", "mongodb", "mustang", "sigma"]
    text: Annotated[str, Meta(max_length=1_000_000)]
    """As the system writes it: YAML for sigma, JSON for the others."""


class ImportedRule(Answer):
    """A rule of another system as a rule of Tamis."""

    id: str | int
    rule: str
    logic: Literal["strong", "weak"]


class RefusedRule(Answer):
    """A rule that could not be imported."""

    id: str | int | None
    message: str


class ImportedRules(Answer):
    """The rules of a text of another system."""

    rules: list[ImportedRule]
    refused: list[RefusedRule]


# --- Rules and the index ---


class TestedRules(Answer):
    """The result of the tests that rules carry."""

    __test__ = False

    rules: int
    tests: int
    failures: list[dict[str, Any]]


class ActivityRecord(Answer):
    """How often a rule matched published events."""

    rule: str | int
    matches: int
    last: datetime


class Activity(Answer):
    """The rules that matched published events, of the last events of the log."""

    events: int
    """How many events were looked at."""
    rules: list[ActivityRecord]


class IndexFigures(Answer):
    """What the index is made of."""

    rules: int
    tail: int
    bytes: int
    segments: list[dict[str, Any]]
    attributes: list[AttributeRecord]
    parts: list[dict[str, Any]]
    conjunction_sizes: list[dict[str, int]]
    largest: list[dict[str, Any]]
    advice: list[str]


class CostFigures(Answer):
    """What searches cost, measured."""

    source: str
    """``log`` if the events are the last published ones, ``drawn`` if there are none."""
    events: int
    microseconds: float
    """The mean time for an event, of all rules together."""
    parts: list[dict[str, Any]]
    """The segments and the tail: ``name``, ``rules``, ``microseconds``."""
    merged: float | None
    """The same after `optimize`; null if it was not measured."""
    rules: int
    measured: int
    """How many of the rules were measured alone."""
    typical: float
    """The median of these."""
    slowest: list[dict[str, Any]]
    """Those that stand out: ``rule``, ``text``, ``microseconds``."""
    advice: list[str]


# --- Live ---


class LatencyRecord(Answer):
    """The requests of one kind in the last five minutes."""

    kind: str
    """``match``, ``batch``, ``publish``, ``publish-many``, or ``try`` for the page itself."""
    requests: int
    per_second: float
    """Of the last 10 seconds."""
    p50_ms: float
    p95_ms: float
    p99_ms: float


class LiveSubscription(Answer):
    """Where a subscription stands."""

    name: str
    owner: str | None
    priority: int
    webhook: str | None
    waiting: int
    """How many of its messages are not acknowledged; at most 1,000 are counted."""
    oldest: datetime | None
    """When the first of these was published."""
    retries: int
    dead: int


class LiveLetter(Answer):
    """A message that a webhook has not taken after all its attempts."""

    subscription: str
    sequence: int
    attempts: int
    reason: str
    time: datetime


class LiveFigures(Answer):
    """What happens in a collection now."""

    latest: int
    """The number of the last event."""
    latencies: list[LatencyRecord]
    subscriptions: int
    """How many there are."""
    lagging: list[LiveSubscription]
    """The first 100 of them, those furthest behind first."""
    dead: int
    """How many dead letters there are."""
    letters: list[LiveLetter]
    """The first 100 of them, the latest first."""
