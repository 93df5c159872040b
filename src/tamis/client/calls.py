"""Every call of the API, described once: what to send, and how to read the answer.

`Client` and `AsyncClient` take their methods from here, and differ only in how they send.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa

from tamis.client.errors import RequestError
from tamis.expr.json import to_json
from tamis.expr.model import And, Atom, Expr, Not, Or, Predicate
from tamis.matcher.rule import Rule, RuleId, RuleSource, check_id, read_integer_id
from tamis.matcher.selection import Tagged
from tamis.wire.media import ARROW, JSON, JSON_LINES
from tamis.wire.messages import (
    BacktestReport,
    BulkReport,
    ChangePage,
    CollectionInfo,
    CollectionList,
    Count,
    Explained,
    FindingRecord,
    Findings,
    MatchedIds,
    Obstructed,
    RatifyReport,
    Removed,
    RulePage,
    RuleRecord,
    ScoredRules,
    SimilarRecord,
    SimilarRules,
    WhyAnswer,
)
from tamis.wire.pubsub import (
    Acknowledged,
    DeadLetterRecord,
    DeadLetters,
    Deliveries,
    DeliveryRecord,
    LogPage,
    Published,
    PublishedMany,
    Replayed,
    SubscriptionList,
    SubscriptionRecord,
)

__all__ = ["Call", "document", "make_path"]

T = TypeVar("T")
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])

_encoder: Final = msgspec.json.Encoder()
_MODELS: Final = (And, Or, Not, Predicate, Atom)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how to read its answer."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    media: str = JSON
    accept: str = JSON
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """Whether to send it twice has the effect of once, so that it may be tried again."""
    wait: float = 0.0
    """How many seconds the server may wait before it answers."""


def document(method: F, describe: Callable[..., Call[Any]]) -> F:
    """Give a method of a client the name, the docstring and the parameters of its description."""
    functools.update_wrapper(method, describe)
    signature = inspect.signature(describe)
    first, *rest = signature.parameters.values()
    parameters = [first.replace(name="self", annotation=first.empty), *rest]
    method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return method


def _reader(kind: type[U], take: Callable[[U], T]) -> Callable[[bytes], T]:
    decode = msgspec.json.Decoder(kind).decode
    return lambda body: take(decode(body))


def _whole(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _nothing(_: bytes) -> None:
    return None


def make_path(collection: str, *parts: str) -> str:
    """The path below a collection, where each part is one however it is spelt."""
    return "/".join(["/v1/collections", *map(_quote, (collection, *parts))])


def _quote(text: str) -> str:
    """A part of a path; a client of HTTP would walk up at ``..``, and leave out ``.``."""
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise RequestError(f"{text!r:.200} has an unpaired surrogate; no path does") from None


def _rule_path(collection: str, id: RuleId) -> tuple[str, dict[str, str]]:
    """The path of a rule, and the query that tells ``7`` from ``"7"``."""
    text = str(check_id(id))
    is_ambiguous = read_integer_id(text) is not None
    kind = "integer" if isinstance(id, int) else "text"
    return make_path(collection, "rules", text), {"id_type": kind} if is_ambiguous else {}


def _json(value: Mapping[str, Any]) -> bytes:
    """The fields that are given, as JSON; None stands for the default."""
    given = {name: one for name, one in value.items() if one is not None}
    return _encoder.encode(given)


def _given(**query: Any) -> dict[str, Any]:
    """The parameters of a query that are given."""
    return {name: value for name, value in query.items() if value is not None}


def _select(only: Tagged | Iterable[RuleId] | None) -> Any:
    if not isinstance(only, Tagged):
        return None if only is None else list(only)
    some = [] if only.some is None else sorted(only.some)
    return {"tags": some, "every": sorted(only.every), "without": sorted(only.without)}


def _source(rule: RuleSource) -> Any:
    """A rule as JSON: a text as it is, a model in the JSON form."""
    return to_json(rule) if isinstance(rule, _MODELS) else rule


def _weights(weights: Mapping[Any, float] | None) -> list[list[Any]] | None:
    if weights is None:
        return None
    return [
        [*key, weight] if isinstance(key, tuple) else [_predicate_text(key), weight]
        for key, weight in weights.items()
    ]


def _predicate_text(key: str | Expr) -> str:
    from tamis.expr.text.write import to_sql

    return key if isinstance(key, str) else to_sql(key)


# --- Collections ---


def list_collections() -> Call[list[CollectionInfo]]:
    """List the collections that the key may read."""
    return Call("GET", "/v1/collections", _reader(CollectionList, lambda a: a.collections))


def create(
    collection: str, *, logic: str | None = None, schema: Mapping[str, str] | None = None
) -> Call[CollectionInfo]:
    """Create the collection.

    Parameters
    ----------
    logic, schema
        As in :class:`tamis.Matcher`.
    """
    body = _json({"logic": logic, "schema": schema})
    return Call("PUT", make_path(collection), _whole(CollectionInfo), body, is_repeatable=False)


def drop(collection: str) -> Call[None]:
    """Remove the collection with everything in it."""
    return Call("DELETE", make_path(collection), _nothing, is_repeatable=False)


def info(collection: str) -> Call[CollectionInfo]:
    """Get the number of rules and the revision of the collection."""
    return Call("GET", make_path(collection), _whole(CollectionInfo))


def stats(collection: str) -> Call[dict[str, Any]]:
    """Get figures about the rules and the index."""
    return Call("GET", make_path(collection, "stats"), _reader(CollectionInfo, lambda a: a.stats))


# --- Rules ---


def add(
    collection: str,
    id: RuleId,
    rule: RuleSource,
    *,
    logic: str | None = None,
    weights: Mapping[Any, float] | None = None,
    payload: Any = None,
    tags: Iterable[str] = (),
    priority: int = 0,
    valid_from: datetime | str | None = None,
    valid_until: datetime | str | None = None,
    subscription: str | None = None,
    replace: bool = False,
) -> Call[RuleRecord]:
    """Add a rule; see :meth:`tamis.Matcher.add`."""
    path, query = _rule_path(collection, id)
    body = {
        "id": id if isinstance(id, int) else None,
        "rule": _source(rule),
        "logic": logic,
        "weights": _weights(weights),
        "payload": payload,
        "tags": list(tags),
        "priority": priority,
        "valid_from": valid_from,
        "valid_until": valid_until,
        "subscription": subscription,
    }
    return Call(
        "PUT",
        path,
        _whole(RuleRecord),
        _json(body),
        query=query,
        headers={} if replace else {"If-None-Match": "*"},
        is_repeatable=replace,
    )


def add_many(
    collection: str,
    rules: Any,
    *,
    on_error: Literal["raise", "skip"] = "raise",
    replace: bool = False,
) -> Call[BulkReport]:
    """Add many rules at once; see :meth:`tamis.Matcher.add_many`."""
    body, media = _encode_rules(rules)
    query = {"on_error": on_error, "replace": str(replace).lower()}
    return Call(
        "POST",
        make_path(collection, "rules"),
        _whole(BulkReport),
        body,
        media,
        query=query,
        is_repeatable=replace,
    )


def replace_all(
    collection: str,
    rules: Any,
    *,
    on_error: Literal["raise", "skip"] = "raise",
    revision: int | str | None = None,
) -> Call[BulkReport]:
    """Replace all rules at once; see :meth:`tamis.Matcher.replace_all`.

    Parameters
    ----------
    revision
        Only if the collection still has this revision: the ``version`` of :meth:`info` or of a
        report. A number alone is refused if the collection was made again under its name.
    """
    body, media = _encode_rules(rules)
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    return Call(
        "PUT",
        make_path(collection, "rules"),
        _whole(BulkReport),
        body,
        media,
        query={"on_error": on_error},
        headers=headers,
        is_repeatable=revision is None,
    )


def remove(collection: str, id: RuleId) -> Call[None]:
    """Remove a rule."""
    path, query = _rule_path(collection, id)
    return Call("DELETE", path, _nothing, query=query, is_repeatable=False)


def remove_many(collection: str, ids: Iterable[RuleId]) -> Call[int]:
    """Remove many rules at once: all of them, or none if an id is unknown."""
    return Call(
        "POST",
        make_path(collection, "remove"),
        _reader(Removed, lambda answer: answer.removed),
        _json({"ids": list(ids)}),
        is_repeatable=False,
    )


def rule(collection: str, id: RuleId) -> Call[RuleRecord]:
    """Get a rule."""
    path, query = _rule_path(collection, id)
    return Call("GET", path, _whole(RuleRecord), query=query)


def list_rules(
    collection: str,
    *,
    search: str = "",
    tags: Iterable[str] = (),
    after: str | None = None,
    limit: int = 100,
) -> Call[RulePage]:
    """List rules, a page at a time.

    Parameters
    ----------
    search
        A text that the id or the rule contains.
    tags
        A rule has at least one of these.
    after
        The ``next`` of the page before.
    limit
        How many rules a page has at most.
    """
    query = _given(search=search, tag=list(tags), after=after, limit=limit)
    return Call("GET", make_path(collection, "rules"), _whole(RulePage), query=query)


def export(collection: str, *, tags: Iterable[str] = ()) -> Call[pa.Table]:
    """Get all rules with all their fields, as an Arrow table that :meth:`add_many` takes."""
    query = {"tag": list(tags)}
    return Call("GET", make_path(collection, "export"), _read_table, accept=ARROW, query=query)


def changes(
    collection: str, after: int | str | None = None, *, limit: int = 1000, wait: float = 0.0
) -> Call[ChangePage]:
    """Read the changes of rules after a revision; wait for one if there is none."""
    query = _given(after=after, limit=limit, wait=wait)
    return Call("GET", make_path(collection, "changes"), _whole(ChangePage), query=query, wait=wait)


def _encode_rules(rules: Any) -> tuple[bytes, str]:
    if isinstance(rules, pa.Table | pa.RecordBatch):
        return _encode_table(rules), ARROW
    items = rules.items() if isinstance(rules, Mapping) else rules
    return _encoder.encode_lines([_rule_fields(item) for item in items]), JSON_LINES


def _rule_fields(item: Any) -> dict[str, Any]:
    if isinstance(item, Rule):
        fields: dict[str, Any] = {
            "id": item.id,
            "rule": item.text,
            "logic": item.logic,
            "weights": _weights(item.weights),
            "payload": item.payload,
            "tags": sorted(item.tags),
            "priority": item.priority,
            "valid_from": item.valid_from,
            "valid_until": item.valid_until,
            "subscription": item.subscription,
        }
        return fields
    if isinstance(item, Mapping):
        return {**item, "rule": _source(item["rule"])}
    id, source, *logic = item
    return {"id": id, "rule": _source(source), "logic": logic[0] if logic else None}


# --- Questions about one event ---


def _question(event: Any, only: Any, at: Any, **more: Any) -> bytes:
    return _json({"event": event, "only": _select(only), "at": at, **more})


def match(
    collection: str,
    event: Mapping[str, Any],
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    at: datetime | None = None,
) -> Call[list[RuleId]]:
    """Find the rules that an event satisfies; see :meth:`tamis.Matcher.match`."""
    body = _question(event, only, at)
    return Call(
        "POST", make_path(collection, "match"), _reader(MatchedIds, lambda a: a.rules), body
    )


def first(
    collection: str,
    event: Mapping[str, Any],
    n: int = 1,
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    at: datetime | None = None,
) -> Call[list[RuleId]]:
    """Find the `n` matching rules of the highest priorities."""
    body = _question(event, only, at, n=n)
    return Call(
        "POST", make_path(collection, "first"), _reader(MatchedIds, lambda a: a.rules), body
    )


def top(
    collection: str,
    event: Mapping[str, Any],
    n: int = 10,
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    weights: Mapping[tuple[str, Any], float] | None = None,
    at: datetime | None = None,
) -> Call[list[tuple[RuleId, float]]]:
    """Find the `n` matching rules of the highest scores."""
    body = _question(event, only, at, n=n, weights=_weights(weights))
    read = _reader(ScoredRules, lambda a: [(one.rule, one.score) for one in a.rules])
    return Call("POST", make_path(collection, "top"), read, body)


def count(
    collection: str,
    event: Mapping[str, Any],
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    at: datetime | None = None,
) -> Call[int]:
    """Count the rules that an event satisfies."""
    body = _question(event, only, at)
    return Call("POST", make_path(collection, "count"), _reader(Count, lambda a: a.count), body)


def match_expression(
    collection: str,
    event: RuleSource,
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    at: datetime | None = None,
) -> Call[list[RuleId]]:
    """Find the rules that a partially known event could satisfy."""
    body = _question(_source(event), only, at)
    read = _reader(MatchedIds, lambda a: a.rules)
    return Call("POST", make_path(collection, "match-expression"), read, body)


def explain(collection: str, id: RuleId, event: Mapping[str, Any]) -> Call[Explained]:
    """Explain why a rule matches an event, or does not."""
    body = _json({"rule": id, "event": event})
    return Call("POST", make_path(collection, "explain"), _whole(Explained), body)


def why(
    collection: str,
    event: Mapping[str, Any],
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    at: datetime | None = None,
) -> Call[dict[RuleId, Explained]]:
    """Explain each rule that an event satisfies."""
    read = _reader(WhyAnswer, lambda a: {one.rule: one for one in a.rules})
    return Call("POST", make_path(collection, "why"), read, _question(event, only, at))


def why_not(
    collection: str, id: RuleId, event: Mapping[str, Any], *, at: datetime | None = None
) -> Call[Obstructed]:
    """Find the fewest predicates that would have to change for a rule to match."""
    body = _json({"rule": id, "event": event, "at": at})
    return Call("POST", make_path(collection, "why-not"), _whole(Obstructed), body)


# --- Questions about many events ---


def match_many(
    collection: str,
    events: Any,
    *,
    only: Tagged | Sequence[RuleId] | None = None,
    at: datetime | None = None,
    form: Literal["pairs", "lists"] = "pairs",
    on_error: Literal["raise", "skip"] = "raise",
) -> Call[pa.Table]:
    """Find the rules that each of many events satisfies; see :meth:`tamis.Matcher.match_many`."""
    return _batch(collection, "match-many", events, only, at, form=form, on_error=on_error)


def count_many(
    collection: str,
    events: Any,
    *,
    only: Tagged | Sequence[RuleId] | None = None,
    at: datetime | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Call[pa.Table]:
    """Count the rules that each of many events satisfies."""
    return _batch(collection, "count-many", events, only, at, on_error=on_error)


def top_many(
    collection: str,
    events: Any,
    n: int = 10,
    *,
    only: Tagged | Sequence[RuleId] | None = None,
    at: datetime | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Call[pa.Table]:
    """Find the `n` matching rules of the highest scores for each of many events."""
    return _batch(collection, "top-many", events, only, at, n=n, on_error=on_error)


def _batch(
    collection: str, noun: str, events: Any, only: Any, at: datetime | None, **query: Any
) -> Call[pa.Table]:
    if isinstance(events, pa.Table | pa.RecordBatch):
        body, media = _encode_table(events), ARROW
    else:
        body, media = _encoder.encode_lines(list(events)), JSON_LINES
    if isinstance(only, Tagged):
        if only.some is None or only.every or only.without:
            raise ValueError("of tagged(…), batches over HTTP take tags, not every= and without=")
        query["tag"] = sorted(only.some)
    elif only is not None:
        query["only"] = [str(id) for id in only]
    if at is not None:
        query["at"] = at.isoformat()
    path = make_path(collection, noun)
    return Call("POST", path, _read_table, body, media, accept=ARROW, query=query)


def _encode_table(table: pa.Table | pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return bytes(sink.getvalue())


def _read_table(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(body) as stream:
        return stream.read_all()


# --- Publish and receive ---


def publish(
    collection: str,
    event: Mapping[str, Any],
    *,
    message_id: str | None = None,
    audience: str | None = None,
    audience_logic: Literal["strong", "weak"] = "strong",
    id: str | None = None,
) -> Call[Published]:
    """Publish an event; see :meth:`tamis.pubsub.Collection.publish`.

    Without a `message_id` the client draws one, so that it can send the event again if the
    connection breaks, and it is still published once.
    """
    body = {
        "event": event,
        "message_id": message_id or uuid.uuid4().hex,
        "audience": audience,
        "audience_logic": audience_logic,
        "document_id": id,
    }
    return Call("POST", make_path(collection, "publish"), _whole(Published), _json(body))


def publish_many(
    collection: str,
    events: Iterable[Mapping[str, Any]],
    *,
    message_ids: Iterable[str] | None = None,
    audience: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Call[PublishedMany]:
    """Publish events in order; message ids are drawn if there are none."""
    chosen = list(events)
    ids = [uuid.uuid4().hex for _ in chosen] if message_ids is None else list(message_ids)
    lines = [{"event": event, "message_id": id} for event, id in zip(chosen, ids, strict=True)]
    query = _given(audience=audience, on_error=on_error)
    path = make_path(collection, "publish-many")
    body = _encoder.encode_lines(lines)
    return Call("POST", path, _whole(PublishedMany), body, JSON_LINES, query=query)


def read_log(collection: str, after: int | str | None = None, *, limit: int = 100) -> Call[LogPage]:
    """Read published events."""
    query = _given(after=after, limit=limit)
    return Call("GET", make_path(collection, "log"), _whole(LogPage), query=query)


def put_subscription(
    collection: str,
    name: str,
    *,
    owner: str | None = None,
    priority: int = 0,
    rules: Iterable[RuleId] = (),
    tags: Iterable[str] = (),
    attributes: Mapping[str, Any] | None = None,
    webhook: str | Mapping[str, Any] | None = None,
    window: int = 1000,
) -> Call[SubscriptionRecord]:
    """Create or replace a subscription; see :meth:`tamis.pubsub.Collection.subscriptions`."""
    body = {
        "owner": owner,
        "priority": priority,
        "rules": list(rules),
        "tags": list(tags),
        "attributes": attributes,
        "webhook": {"url": webhook} if isinstance(webhook, str) else webhook,
        "window": window,
    }
    path = make_path(collection, "subscriptions", name)
    return Call("PUT", path, _whole(SubscriptionRecord), _json(body))


def subscription(collection: str, name: str) -> Call[SubscriptionRecord]:
    """Get a subscription, and where it stands."""
    path = make_path(collection, "subscriptions", name)
    return Call("GET", path, _whole(SubscriptionRecord))


def subscriptions(collection: str, *, owner: str | None = None) -> Call[list[SubscriptionRecord]]:
    """List subscriptions by name."""
    read = _reader(SubscriptionList, lambda a: a.subscriptions)
    return Call("GET", make_path(collection, "subscriptions"), read, query=_given(owner=owner))


def delete_subscription(collection: str, name: str) -> Call[None]:
    """Delete a subscription."""
    path = make_path(collection, "subscriptions", name)
    return Call("DELETE", path, _nothing, is_repeatable=False)


def read(
    collection: str,
    subscription: str,
    after: int | str | None = None,
    *,
    limit: int = 100,
    wait: float = 0.0,
    payloads: bool = False,
) -> Call[list[DeliveryRecord]]:
    """Read the next messages of a subscription; wait for one if there is none."""
    query = _given(after=after, limit=limit, wait=wait, payloads=str(payloads).lower())
    path = make_path(collection, "subscriptions", subscription, "deliveries")
    read_answer = _reader(Deliveries, lambda a: a.deliveries)
    return Call("GET", path, read_answer, query=query, wait=wait)


def acknowledge(collection: str, subscription: str, sequence: int | str) -> Call[int]:
    """Acknowledge all messages of a subscription up to a sequence number, or a cursor."""
    path = make_path(collection, "subscriptions", subscription, "ack")
    read_answer = _reader(Acknowledged, lambda a: a.acknowledged)
    return Call("POST", path, read_answer, _json({"sequence": sequence}))


def dead_letters(collection: str, subscription: str) -> Call[list[DeadLetterRecord]]:
    """List the messages that the webhook of a subscription did not take."""
    path = make_path(collection, "subscriptions", subscription, "dead-letters")
    return Call("GET", path, _reader(DeadLetters, lambda a: a.dead_letters))


def replay(collection: str, subscription: str, sequences: Iterable[int] | None = None) -> Call[int]:
    """Send dead letters to the webhook again; all of them by default."""
    path = make_path(collection, "subscriptions", subscription, "replay")
    body = _json({"sequences": None if sequences is None else list(sequences)})
    read_answer = _reader(Replayed, lambda a: a.replayed)
    return Call("POST", path, read_answer, body, is_repeatable=False)


# --- Care ---


def backtest(
    collection: str,
    rule: RuleSource,
    events: Iterable[Mapping[str, Any]] | None = None,
    *,
    id: RuleId = "draft",
    time: str | None = None,
    bins: int = 24,
    samples: int = 5,
) -> Call[BacktestReport]:
    """Run a draft rule over past events, by default those of the log."""
    body = {
        "rule": _source(rule),
        "events": None if events is None else list(events),
        "id": id,
        "time": time,
        "bins": bins,
        "samples": samples,
    }
    return Call("POST", make_path(collection, "backtest"), _whole(BacktestReport), _json(body))


def lint(collection: str, *, single_valued: bool = False) -> Call[list[FindingRecord]]:
    """Find rules that never match, always match, or are covered by another."""
    query = {"single_valued": str(single_valued).lower()}
    read_answer = _reader(Findings, lambda a: a.findings)
    return Call("POST", make_path(collection, "lint"), read_answer, query=query)


def similar(
    collection: str, rule: RuleSource | RuleId, n: int = 10, *, seed: int = 0
) -> Call[list[SimilarRecord]]:
    """Find the rules that match nearly the same events as `rule`."""
    source = rule if isinstance(rule, int) and not isinstance(rule, bool) else _source(rule)
    body = _json({"rule": source, "n": n, "seed": seed})
    return Call(
        "POST", make_path(collection, "similar"), _reader(SimilarRules, lambda a: a.rules), body
    )


def ratify(
    collection: str, *, sample: int = 200, seconds: float = 1.0, seed: int = 0
) -> Call[RatifyReport]:
    """Compare the index with the definition of the language, on difficult events."""
    body = _json({"sample": sample, "seconds": seconds, "seed": seed})
    return Call("POST", make_path(collection, "ratify"), _whole(RatifyReport), body)
