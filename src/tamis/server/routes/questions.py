"""Questions: which rules does an event satisfy, and why."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

import msgspec
import pyarrow as pa
from msgspec import Meta

from tamis.expr.analysis.explain import Explanation
from tamis.matcher.inputs import EventStream
from tamis.matcher.rule import RuleId
from tamis.matcher.selection import Tagged, tagged
from tamis.matcher.skipped_events import BadEvent
from tamis.server.bulk import BulkReader, choose_media, spool_answer
from tamis.server.operation import Call, Operation, Reply
from tamis.server.problems import ProblemError
from tamis.wire.media import ARROW, JSON_LINES
from tamis.wire.messages import (
    Count,
    EventQuestion,
    Explained,
    ExplainQuestion,
    ExpressionQuestion,
    MatchedIds,
    Obstructed,
    RankedQuestion,
    Scored,
    ScoredRules,
    WhyAnswer,
    WhyNotQuestion,
    select,
)

__all__ = ["OPERATIONS"]

_encode = msgspec.json.Encoder().encode


# --- One event ---


def match(call: Call) -> Reply:
    """Find the rules that an event satisfies."""
    body: EventQuestion = call.body
    matcher = call.collection.matcher
    if body.only is None and body.at is None:
        ids = matcher.match(body.event)
    else:
        ids = matcher.match(body.event, only=select(body.only), at=body.at)
    # Plain bytes, because this is the question that is asked most.
    return Reply(b'{"rules":' + _encode(ids) + b"}")


def first(call: Call) -> MatchedIds:
    """Find the matching rules of the highest priorities."""
    body: RankedQuestion = call.body
    matcher = call.collection.matcher
    return MatchedIds(matcher.first(body.event, body.n, only=select(body.only), at=body.at))


def top(call: Call) -> ScoredRules:
    """Find the matching rules of the highest scores."""
    body: RankedQuestion = call.body
    weights = {(name, value): weight for name, value, weight in body.weights} or None
    found = call.collection.matcher.top(
        body.event, body.n, only=select(body.only), at=body.at, weights=weights
    )
    return ScoredRules([Scored(id, score) for id, score in found])


def count(call: Call) -> Count:
    """Count the rules that an event satisfies."""
    body: EventQuestion = call.body
    found = call.collection.matcher.match_array(body.event, only=select(body.only), at=body.at)
    return Count(len(found))


def match_expression(call: Call) -> MatchedIds:
    """Find the rules that a partially known event could satisfy."""
    body: ExpressionQuestion = call.body
    matcher = call.collection.matcher
    return MatchedIds(matcher.match_expression(body.event, only=select(body.only), at=body.at))


def explain(call: Call) -> Explained:
    """Explain why a rule matches an event, or does not."""
    body: ExplainQuestion = call.body
    return _explained(body.rule, call.collection.matcher.explain(body.rule, body.event))


def why(call: Call) -> WhyAnswer:
    """Explain every rule that an event satisfies."""
    body: EventQuestion = call.body
    found = call.collection.matcher.why(body.event, only=select(body.only), at=body.at)
    return WhyAnswer([_explained(id, explanation) for id, explanation in found.items()])


def why_not(call: Call) -> Obstructed:
    """Find the fewest predicates that would have to change for a rule to match."""
    body: WhyNotQuestion = call.body
    found = call.collection.matcher.why_not(body.rule, body.event, at=body.at)
    return Obstructed(body.rule, **found.to_json(), text=str(found))


def _explained(id: RuleId, explanation: Explanation) -> Explained:
    return Explained(id, explanation.to_json(), str(explanation))


# --- Many events ---


class BatchQuery(msgspec.Struct, frozen=True):
    """Which rules to consider, and what to do with bad events."""

    only: list[str] = []
    """Ids of rules; may be repeated. Integers may be written as texts."""
    tag: list[str] = []
    """A tag that rules have; of several, at least one."""
    at: datetime | None = None
    on_error: Literal["raise", "skip"] = "raise"
    """``skip`` leaves out refused events; their number is in the header Tamis-Skipped."""


class MatchManyQuery(BatchQuery, frozen=True):
    """How to match many events."""

    form: Literal["pairs", "lists"] = "pairs"
    """``pairs`` for a row per match, ``lists`` for a row per event."""


class TopManyQuery(BatchQuery, frozen=True):
    """How to rank the rules of many events."""

    n: Annotated[int, Meta(ge=1, le=10_000)] = 10


def match_many(call: Call) -> Reply:
    """Find the rules that each of many events satisfies."""
    query: MatchManyQuery = call.query or MatchManyQuery()
    return _answer(call, query, partial(call.collection.matcher.match_many, form=query.form))


def count_many(call: Call) -> Reply:
    """Count the rules that each of many events satisfies."""
    query: BatchQuery = call.query or BatchQuery()
    return _answer(call, query, call.collection.matcher.count_many)


def top_many(call: Call) -> Reply:
    """Find the rules of the highest scores for each of many events."""
    query: TopManyQuery = call.query or TopManyQuery()
    return _answer(call, query, partial(call.collection.matcher.top_many, n=query.n))


def _answer(call: Call, query: BatchQuery, ask: Any) -> Reply:
    media = choose_media(call, call.body.media)
    limits = call.server.limits
    events = EventStream(BulkReader(call.body, limits).chunks())
    skipped = _Skipped()
    more = {"on_error": "skip", "skipped": skipped} if query.on_error == "skip" else {}
    found: pa.RecordBatchReader = ask(events, only=_select(call, query), at=query.at, **more)
    pieces = spool_answer(found, media, limits.answer)
    headers = {"Tamis-Skipped": str(skipped.size)} if more else {}
    if skipped.first is not None:
        headers["Tamis-First-Skipped"] = str(skipped.first)
    return Reply(pieces=pieces, media=media, headers=headers)


class _Skipped(list[BadEvent]):
    """Counts skipped events in place of keeping them."""

    size = 0
    first: int | None = None

    def __iadd__(self, bad: Iterable[BadEvent]) -> Self:  # type: ignore[override, misc]
        for event, _ in bad:
            self.size += 1
            self.first = event if self.first is None else self.first
        return self


def _select(call: Call, query: BatchQuery) -> Tagged | list[RuleId] | None:
    if query.only and query.tag:
        raise ProblemError(422, "invalid-request", "give either only= or tag=")
    if query.tag:
        return tagged(*query.tag)
    if not query.only:
        return None
    from tamis.server.routes.rules import find_id

    return [find_id(call.collection.matcher, text) for text in query.only]


_ONE = "/v1/collections/{collection}"
_BAD_EVENT = {422: "The event is refused.", 504: "The search took too long."}
_BATCH: dict[str, Any] = {
    "right": "read",
    "bulk": True,
    "media": (JSON_LINES, ARROW),
    "more_statuses": {400: "The body is malformed.", 406: "Neither JSON lines nor Arrow."},
}


def _question(
    path: str, summary: str, handler: Any, body: Any, answer: Any, place: Any
) -> Operation:
    return Operation(
        "POST",
        f"{_ONE}/{path}",
        summary,
        handler,
        "read",
        answer=answer,
        body=body,
        place=place,
        more_statuses=_BAD_EVENT,
    )


OPERATIONS = (
    _question(
        "match", "Find the rules that an event satisfies", match, EventQuestion, MatchedIds, "loop"
    ),
    _question(
        "top", "Find the rules of the highest scores", top, RankedQuestion, ScoredRules, "loop"
    ),
    _question(
        "first",
        "Find the rules of the highest priorities",
        first,
        RankedQuestion,
        MatchedIds,
        "loop",
    ),
    _question(
        "count", "Count the rules that an event satisfies", count, EventQuestion, Count, "loop"
    ),
    _question(
        "match-expression",
        "Find the rules that a partially known event could satisfy",
        match_expression,
        ExpressionQuestion,
        MatchedIds,
        "analysis",
    ),
    _question(
        "explain",
        "Explain why a rule matches or not",
        explain,
        ExplainQuestion,
        Explained,
        "analysis",
    ),
    _question("why", "Explain every matching rule", why, EventQuestion, WhyAnswer, "analysis"),
    _question(
        "why-not",
        "Find what keeps a rule from matching",
        why_not,
        WhyNotQuestion,
        Obstructed,
        "analysis",
    ),
    Operation(
        "POST",
        f"{_ONE}/match-many",
        "Find the rules that each of many events satisfies",
        match_many,
        query=MatchManyQuery,
        **_BATCH,
    ),
    Operation(
        "POST",
        f"{_ONE}/count-many",
        "Count the rules that each of many events satisfies",
        count_many,
        query=BatchQuery,
        **_BATCH,
    ),
    Operation(
        "POST",
        f"{_ONE}/top-many",
        "Find the best rules for each of many events",
        top_many,
        query=TopManyQuery,
        **_BATCH,
    ),
)
