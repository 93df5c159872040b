"""The bodies of requests and answers. Their fields are the schemas of the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tamis.matcher.matcher import RuleChange
from tamis.matcher.rule import Rule
from tamis.matcher.selection import Tagged, tagged

__all__ = [
    "BacktestQuestion",
    "BacktestReport",
    "BadRuleLine",
    "BulkReport",
    "ChangePage",
    "ChangeRecord",
    "CollectionInfo",
    "CollectionList",
    "CollectionSettings",
    "Count",
    "EventQuestion",
    "ExplainQuestion",
    "Explained",
    "ExpressionQuestion",
    "FindingRecord",
    "Findings",
    "Health",
    "Id",
    "MatchedIds",
    "Names",
    "Obstructed",
    "Only",
    "RankedQuestion",
    "RatifyQuestion",
    "RatifyReport",
    "RemoveRules",
    "Removed",
    "Revision",
    "RuleBody",
    "RulePage",
    "RuleRecord",
    "Scored",
    "ScoredRules",
    "SimilarQuestion",
    "SimilarRecord",
    "SimilarRules",
    "WhyAnswer",
    "WhyNotQuestion",
    "select",
]

Id: TypeAlias = (
    Annotated[str, Meta(max_length=1000)] | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
)
"""The id of a rule."""

Event: TypeAlias = dict[str, Any]
"""Attributes and their values."""

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends: a misspelt field is an error."""


class Answer(msgspec.Struct):
    """What the server sends: clients ignore fields that they do not know."""


# --- Rules ---


class RuleBody(Body):
    """A rule as a client sends it."""

    rule: str | dict[str, Any] | bool
    """The rule as text or in the JSON form."""
    id: Id | None = None
    """Only needed if the id is an integer; otherwise it is that of the path."""
    logic: Literal["strong", "weak"] | None = None
    """That of the collection by default."""
    weights: list[Any] | None = None
    """``["author", "Smith", 2.0]`` for a value of = or IN, ``["price > 10", 0.5]`` for others."""
    payload: Any = None
    tags: list[str] = []
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    subscription: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """The subscription that the rule belongs to."""


class RuleRecord(Answer):
    """A rule as the server has it."""

    id: str | int
    rule: str | dict[str, Any] | bool
    logic: Literal["strong", "weak"]
    weights: list[Any]
    payload: Any
    tags: list[str]
    priority: int
    valid_from: datetime | None
    valid_until: datetime | None
    subscription: str | None

    @classmethod
    def of(cls, rule: Rule, fields: dict[str, Any]) -> RuleRecord:
        """The record of a rule, whose fields are those of JSON lines."""
        return cls(
            rule.id,
            fields["rule"],
            rule.logic,
            fields.get("weights", []),
            rule.payload,
            sorted(rule.tags),
            rule.priority,
            rule.valid_from,
            rule.valid_until,
            rule.subscription,
        )


class RulePage(Answer):
    """Some rules, in the order in which they were added."""

    rules: list[RuleRecord]
    next: str | None
    """Pass it as ``after`` to get the next page; null at the end. A page may be short or empty
    although more follow: a search looks at a limited number of rules at a time."""
    revision: int


class RemoveRules(Body):
    """Rules to remove."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=100_000)]


class Removed(Answer):
    """How many rules were removed."""

    removed: int
    revision: int


class BadRuleLine(Answer):
    """A rule that was refused."""

    id: Any
    position: int | None
    message: str


class BulkReport(Answer):
    """What became of many rules."""

    added: int
    refused: int
    bad: list[BadRuleLine]
    """The first refused rules, at most 1,000."""
    revision: int
    version: str = ""
    """As that of a collection."""


class ChangeRecord(Answer):
    """A change of rules."""

    revision: int
    kind: Literal["put", "remove", "replace_all"]
    ids: list[str | int] | None
    """Null if they are too many to list."""

    @classmethod
    def of(cls, change: RuleChange) -> ChangeRecord:
        """The record of a change."""
        ids = None if change.ids is None else list(change.ids)
        return cls(change.revision, change.kind, ids)


class ChangePage(Answer):
    """Changes after a revision."""

    changes: list[ChangeRecord]
    revision: int
    """The revision of the collection now."""
    cursor: str = ""
    """Pass it as ``after`` to go on after these changes."""


# --- Questions ---


class Only(Body):
    """Rules by their tags."""

    tags: list[str] = []
    """A rule has at least one of these."""
    every: list[str] = []
    """A rule has all of these."""
    without: list[str] = []
    """A rule has none of these."""


def select(only: list[Id] | Only | None) -> Tagged | list[Id] | None:
    """The `only` argument of a search."""
    if isinstance(only, Only):
        return tagged(*only.tags, every=only.every, without=only.without)
    return only


class EventQuestion(Body):
    """An event, to find the rules that it satisfies."""

    event: Event
    only: Only | list[Id] | None = None
    """Consider only rules with these ids or tags."""
    at: datetime | None = None
    """The time at which rules have to be valid; now by default."""


class RankedQuestion(Body):
    """An event, to find the rules that fit it best."""

    event: Event
    n: Limit = 10
    only: Only | list[Id] | None = None
    at: datetime | None = None
    weights: list[tuple[str, str | int | float | bool, Annotated[float, Meta(ge=0)]]] = []
    """The weights of the event's values: ``["author", "Smith", 0.8]``. Only ``top`` uses them."""


class ExpressionQuestion(Body):
    """A partially known event, to find the rules that it could satisfy."""

    event: str | dict[str, Any] | bool
    """Predicates, in the form of a rule."""
    only: Only | list[Id] | None = None
    at: datetime | None = None


class ExplainQuestion(Body):
    """A rule and an event, to see why the rule matches or not."""

    rule: Id
    event: Event


class WhyNotQuestion(Body):
    """A rule and an event, to see what would have to change for a match."""

    rule: Id
    event: Event
    at: datetime | None = None


class MatchedIds(Answer):
    """The ids of matching rules."""

    rules: list[str | int]


class Scored(Answer):
    """A matching rule and its score."""

    rule: str | int
    score: float


class ScoredRules(Answer):
    """Matching rules, the best first."""

    rules: list[Scored]


class Count(Answer):
    """How many rules match."""

    count: int


class Explained(Answer):
    """A rule's tree, marked with what holds."""

    rule: str | int
    explanation: dict[str, Any]
    text: str
    """The same for people."""


class WhyAnswer(Answer):
    """The matching rules, each explained."""

    rules: list[Explained]


class Obstructed(Answer):
    """The fewest predicates that would have to change for a rule to match."""

    rule: str | int
    changes: list[dict[str, Any]] | None
    """Empty if the rule matches; null if no change would do."""
    is_fewest: bool
    invalid: str | None
    """When the rule is valid, if it is not valid now."""
    text: str


# --- Care ---


class FindingRecord(Answer):
    """A rule without an effect of its own."""

    kind: Literal["never", "always", "duplicate", "subsumed"]
    rule: str | int
    other: str | int | None
    message: str


class Findings(Answer):
    """What lint has found."""

    findings: list[FindingRecord]


class SimilarQuestion(Body):
    """A rule, to find those that match nearly the same events."""

    rule: str | int | dict[str, Any] | bool
    """The id of a rule, or a rule."""
    n: Annotated[int, Meta(ge=1, le=100)] = 10
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class SimilarRecord(Answer):
    """A similar rule."""

    rule: str | int
    similarity: float
    share: float
    share_back: float
    implied: bool
    implies: bool


class SimilarRules(Answer):
    """Similar rules, the most similar first."""

    rules: list[SimilarRecord]


class RatifyQuestion(Body):
    """How long to compare the index with the definition of the language, and how much of it."""

    sample: Annotated[int, Meta(ge=1, le=100_000)] = 200
    seconds: Annotated[float, Meta(gt=0, le=30)] = 1.0
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class RatifyReport(Answer):
    """The result of a comparison of the index with the definition of the language."""

    rules: int
    events: int
    matches: int
    differences: list[dict[str, Any]]


class BacktestQuestion(Body):
    """A draft rule, to run over past events."""

    rule: str | dict[str, Any] | bool
    id: Id = "draft"
    """The id of the saved rule to compare with."""
    events: Annotated[list[Event], Meta(max_length=100_000)] | None = None
    """Past events; those of the log by default."""
    time: str | None = None
    """The attribute with the time of an event; by default the time at which the log got it."""
    bins: Annotated[int, Meta(ge=1, le=1000)] = 24
    samples: Annotated[int, Meta(ge=0, le=100)] = 5


class BacktestReport(Answer):
    """What a draft rule would have matched."""

    events: int
    first: datetime | None
    last: datetime | None
    step_seconds: float | None
    rules: list[dict[str, Any]]
    text: str
    """The same for people."""


# --- Collections and the server ---


class CollectionSettings(Body):
    """How to create a collection."""

    logic: Literal["strong", "weak"] = "strong"
    types: dict[str, str] = msgspec.field(default_factory=dict, name="schema")
    """The types of attributes, such as ``{"price": "double", "tags": "string[]"}``."""


class CollectionInfo(Answer):
    """A collection."""

    name: str
    rules: int
    revision: int
    stats: dict[str, Any] = {}
    version: str = ""
    """The revision as a text that no other collection of this name has had: for ``If-Match``, and
    for ``after`` where changes are read."""


class CollectionList(Answer):
    """The collections that the key may read."""

    collections: list[CollectionInfo]


class Revision(Answer):
    """The revision of a collection."""

    revision: int


class Health(Answer):
    """Whether the server can answer."""

    status: Literal["ok", "starting"]
    version: str
    read_only: bool


class Names(Answer):
    """Some names."""

    names: list[str]
