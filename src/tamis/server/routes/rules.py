"""Rules: one at a time, many at once, all of them, and their changes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tamis.files import rule_to_json
from tamis.matcher.matcher import AddReport, Matcher
from tamis.matcher.rule import Rule, RuleId, read_integer_id, read_weights
from tamis.matcher.selection import tagged
from tamis.server.bulk import BulkReader, choose_media, write_rules, write_rules_table
from tamis.server.catalog import OpenCollection
from tamis.server.conditions import check_conditions, check_revision, make_etag, tag_revision
from tamis.server.operation import Call, Operation, Reply
from tamis.server.problems import ProblemError
from tamis.server.routes.workbench import count_activity
from tamis.server.streams import BEAT_SECONDS, format_event, send_events
from tamis.wire.media import ARROW, EVENT_STREAM, JSON, JSON_LINES
from tamis.wire.messages import (
    BadRuleLine,
    BulkReport,
    ChangePage,
    ChangeRecord,
    Limit,
    Removed,
    RemoveRules,
    RuleBody,
    RulePage,
    RuleRecord,
)
from tamis.wire.pubsub import Cursor

__all__ = ["OPERATIONS", "find_id"]

_MOST_SCANNED: Final = 20_000
"""How many rules one page of a search looks at."""

_MOST_BAD: Final = 1_000
"""How many refused rules a report lists."""


# --- One rule ---


def put_rule(call: Call) -> Reply:
    """Add a rule, or replace the one of the same id."""
    body: RuleBody = call.body
    matcher, id = call.collection.matcher, _choose_id(call)
    with call.collection.writing([id]):
        current = _find(matcher, id)
        check_conditions(call, None if current is None else make_etag(rule_to_json(current)))
        matcher.add(
            id,
            body.rule,
            logic=body.logic,
            weights=read_weights(body.weights),
            payload=body.payload,
            tags=body.tags,
            priority=body.priority,
            valid_from=body.valid_from,
            valid_until=body.valid_until,
            subscription=body.subscription,
            replace=True,
        )
        return _reply(matcher.rule(id), 201 if current is None else 200)


def get_rule(call: Call) -> Reply:
    """Get a rule with everything that belongs to it."""
    matcher = call.collection.matcher
    reply = _reply(matcher.rule(_find_id(call)), 200)
    unwanted = call.header(b"if-none-match")
    if unwanted is not None and reply.headers["ETag"] in unwanted:
        return Reply(status=304, headers=reply.headers)
    return reply


def delete_rule(call: Call) -> Reply:
    """Remove a rule."""
    matcher = call.collection.matcher
    id = _find_id(call)
    with call.collection.writing([id]):
        current = _find(matcher, id)
        check_conditions(call, None if current is None else make_etag(rule_to_json(current)))
        matcher.remove(id)
    return Reply(status=204)


class IdQuery(msgspec.Struct, frozen=True):
    """What kind of an id the path has."""

    id_type: Literal["text", "integer"] | None = None
    """By default the id is that of the rule that there is, whatever its kind."""


def find_id(matcher: Matcher, text: str, kind: str | None = None) -> RuleId:
    """The id that a path or a query names: that text, or the integer that is written so.

    Raises
    ------
    ProblemError
        Rules have both (400), or it is no integer although it is said to be (400).
    """
    number = None if kind == "text" else read_integer_id(text)
    if kind == "integer":
        if number is None:
            raise ProblemError(400, "not-an-id", f"{text!r} is not how an integer id is written")
        return number
    if number is None or number not in matcher:
        return text
    if text in matcher:
        raise ProblemError(
            400,
            "ambiguous-id",
            f"there are rules with the text {text!r} and with the integer {number} as their id; "
            "say which is meant by id_type=text or id_type=integer",
        )
    return number


def _find_id(call: Call) -> RuleId:
    query: IdQuery = call.query or IdQuery()
    return find_id(call.collection.matcher, call.names[0], query.id_type)


def _choose_id(call: Call) -> RuleId:
    text = call.names[0]
    given: RuleId | None = call.body.id
    if given is None:
        return _find_id(call)
    if str(given) != text:
        raise ProblemError(
            422, "invalid-request", f"the path names the rule {text!r}, and the body {given!r}"
        )
    return given


def _find(matcher: Matcher, id: RuleId) -> Rule | None:
    return matcher.rule(id) if id in matcher else None


def _reply(rule: Rule, status: int) -> Reply:
    fields = rule_to_json(rule)
    return Reply(RuleRecord.of(rule, fields), status, {"ETag": make_etag(fields)})


# --- Some rules ---


class ListQuery(msgspec.Struct, frozen=True):
    """Which rules to list."""

    search: Annotated[str, Meta(max_length=1000)] = ""
    """A text that the id or the rule contains, in any case."""
    tag: list[str] = []
    """A tag that rules have; of several, at least one."""
    after: str | None = None
    """The ``next`` of the page before."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    order: Literal["added", "priority", "matches", "last"] = "added"
    """Pages follow one another only in the order in which rules were added. Other orders show the
    first rules: those of the highest priority, or those that published events matched most often or
    last."""


def list_rules(call: Call) -> RulePage:
    """List rules in the order in which they were added, a page at a time, or by another order."""
    query: ListQuery = call.query or ListQuery()
    if query.order != "added":
        return _list_first(call, query)
    matcher = call.collection.matcher
    revision, start = matcher.revision, _find_start(call.collection, query.after)
    found: list[RuleRecord] = []
    last: Rule | None = None
    scanned = 0
    for rule in islice(matcher.rules(start), _MOST_SCANNED):
        if len(found) == query.limit:
            break
        scanned, last = scanned + 1, rule
        if _fits(rule, query):
            found.append(RuleRecord.of(rule, rule_to_json(rule)))
    end = start + scanned
    more = last is not None and end < len(matcher)
    return RulePage(
        found, _write_cursor(call.collection, end, last.id) if more and last else None, revision
    )


def _list_first(call: Call, query: ListQuery) -> RulePage:
    matcher = call.collection.matcher
    revision = matcher.revision
    if query.after is not None:
        raise ProblemError(422, "invalid-request", "only the order 'added' has further pages")
    if query.order == "priority":
        rules = matcher.rules(order="priority")
    else:
        rules = _rank_active(call, query.order)
    fitting = (rule for rule in islice(rules, _MOST_SCANNED) if _fits(rule, query))
    found = [RuleRecord.of(rule, rule_to_json(rule)) for rule in islice(fitting, query.limit)]
    return RulePage(found, None, revision)


def _rank_active(call: Call, order: str) -> Iterator[Rule]:
    """The rules that published events matched, then all others."""
    active = count_activity(call).rules
    if order == "last":
        active.sort(key=lambda each: each.last, reverse=True)
    matcher = call.collection.matcher
    known = {each.rule for each in active}
    yield from (rule for each in active if (rule := _find(matcher, each.rule)) is not None)
    yield from (rule for rule in matcher.rules() if rule.id not in known)


def _fits(rule: Rule, query: ListQuery) -> bool:
    if query.tag and rule.tags.isdisjoint(query.tag):
        return False
    search = query.search.casefold()
    return not search or search in rule.text.casefold() or search in str(rule.id).casefold()


def _write_cursor(collection: OpenCollection, position: int, last: RuleId) -> str:
    cursor = [position, last, collection.pubsub.identity]
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def _find_start(collection: OpenCollection, cursor: str | None) -> int:
    """The position after the rule that a cursor names, wherever that rule is by now."""
    if cursor is None:
        return 0
    matcher = collection.matcher
    try:
        data = base64.b64decode(cursor, altchars=b"-_", validate=True)
        position, last, identity = msgspec.json.decode(data, type=tuple[int, str | int, str])
        if not 0 < position < 2**40:
            raise ValueError(position)
    except (ValueError, msgspec.MsgspecError):
        raise ProblemError(422, "invalid-request", "after= takes the `next` of a page") from None
    if identity == collection.pubsub.identity:
        at = next(matcher.rules(position - 1), None)
        if at is not None and at.id == last:
            return position
        for number, id in enumerate(matcher, 1):
            if id == last:
                return number
    raise ProblemError(
        410, "page-gone", "the last rule of that page was removed or replaced; list from the start"
    )


def remove_rules(call: Call) -> Removed:
    """Remove many rules: all of them, or none if one is unknown."""
    matcher = call.collection.matcher
    with call.collection.writing(call.body.ids):
        removed = matcher.remove_many(call.body.ids)
    return Removed(removed, matcher.revision)


# --- Many rules ---


class AddQuery(msgspec.Struct, frozen=True):
    """How to add many rules."""

    on_error: Literal["raise", "skip"] = "raise"
    """``skip`` leaves out refused rules and lists them; ``raise`` then adds none."""
    replace: bool = False
    """Whether to replace rules of the same ids."""


class ReplaceQuery(msgspec.Struct, frozen=True):
    """How to replace all rules."""

    on_error: Literal["raise", "skip"] = "raise"


def add_rules(call: Call) -> BulkReport:
    """Add many rules at once."""
    query: AddQuery = call.query or AddQuery()
    matcher = call.collection.matcher
    rules = BulkReader(call.body, call.server.limits).rules()
    with call.collection.writing(None):
        report = matcher.add_many(rules, on_error=query.on_error, replace=query.replace)
    return _report(call, report, matcher.revision)


def replace_rules(call: Call) -> Reply:
    """Replace all rules at once: no question sees a mixture of old and new ones."""
    query: ReplaceQuery = call.query or ReplaceQuery()
    matcher = call.collection.matcher
    rules = BulkReader(call.body, call.server.limits).rules()
    with call.collection.writing(None):
        check_revision(call, matcher.revision)
        report = matcher.replace_all(rules, on_error=query.on_error)
        revision = matcher.revision
    headers = {"ETag": tag_revision(call.collection, revision)}
    return Reply(_report(call, report, revision), headers=headers)


def _report(call: Call, report: AddReport, revision: int) -> BulkReport:
    bad = [BadRuleLine(one.id, one.position, one.message) for one in report.bad[:_MOST_BAD]]
    version = call.collection.mark(revision)
    return BulkReport(report.added, len(report.bad), bad, revision, version)


class ExportQuery(msgspec.Struct, frozen=True):
    """Which rules to export."""

    tag: list[str] = []
    """A tag that rules have; of several, at least one."""


def export_rules(call: Call) -> Reply:
    """Export rules with all their fields, as of one moment."""
    query: ExportQuery = call.query or ExportQuery()
    matcher = call.collection.matcher
    media = choose_media(call)
    revision, rules = matcher.revision, matcher.rules()
    if query.tag:
        only = tagged(*query.tag)
        rules = (rule for rule in rules if only.fits(rule.tags))
    headers = {
        "Tamis-Revision": str(revision),
        "ETag": tag_revision(call.collection, revision),
        "Tamis-Cursor": call.collection.mark(revision),
    }
    write = write_rules_table if media == ARROW else write_rules
    return Reply(pieces=write(rules), media=media, headers=headers)


# --- Changes ---


class ChangesQuery(msgspec.Struct, frozen=True):
    """Which changes to read."""

    after: Cursor | None = None
    """The ``cursor`` of a page, the ``version`` of a collection, or a revision: changes after it.
    By default, and for a stream without ``Last-Event-ID``, those to come."""
    limit: Limit = 1000
    wait: Annotated[float, Meta(ge=0, le=60)] = 0
    """How many seconds to wait for a change, if there is none."""


async def read_changes(call: Call) -> Any:
    """Read the changes of rules after a revision: as JSON, or as a stream that stays open."""
    query: ChangesQuery = call.query or ChangesQuery()
    changes, matcher = call.collection.changes, call.collection.matcher
    after = _choose_revision(call, query)
    changes.read(after, 1)  # An error has to come before the stream begins.
    if EVENT_STREAM in (call.header(b"accept") or ""):
        await send_events(call, _stream_changes(call, after))
        return None
    seen = changes.bell.rings
    found = changes.read(after, query.limit)
    if not found and query.wait:
        await changes.bell.wait(seen, query.wait)
        if changes.is_closed:
            raise ProblemError(404, "collection-not-found", "the collection was removed meanwhile")
        found = changes.read(after, query.limit)
    cursor = call.collection.mark(found[-1].revision if found else after)
    return ChangePage([ChangeRecord.of(change) for change in found], matcher.revision, cursor)


def _choose_revision(call: Call, query: ChangesQuery) -> int:
    last = call.header(b"last-event-id")
    if last:
        return call.collection.read_position(last)
    if query.after is not None:
        return call.collection.read_position(query.after)
    return call.collection.matcher.revision


async def _stream_changes(call: Call, after: int) -> AsyncIterator[bytes]:
    changes = call.collection.changes
    while not changes.is_closed:
        seen = changes.bell.rings
        found = changes.read(after, 1000)
        for change in found:
            after = change.revision
            yield format_event(ChangeRecord.of(change), call.collection.mark(after), "change")
        if not found and not await changes.bell.wait(seen, BEAT_SECONDS):
            yield b""


_RULES = "/v1/collections/{collection}/rules"
_RULE = f"{_RULES}/{{id}}"
_MATCH = {"If-Match": "The rule has this ETag, or * for any.", "If-None-Match": "* for no rule."}
_UNMET = {412: "A condition does not hold."}
_NOT_ONE = {400: "The path does not name one rule."}
_BULK = {
    400: "The body is malformed.",
    409: "An id is taken.",
    422: "A rule is refused; none was added.",
}

OPERATIONS = (
    Operation(
        "GET",
        _RULES,
        "List and search rules",
        list_rules,
        "read",
        answer=RulePage,
        query=ListQuery,
        more_statuses={410: "The page before is gone."},
    ),
    Operation(
        "POST",
        _RULES,
        "Add many rules",
        add_rules,
        "write",
        answer=BulkReport,
        query=AddQuery,
        bulk=True,
        writes=True,
        more_statuses=_BULK,
    ),
    Operation(
        "PUT",
        _RULES,
        "Replace all rules at once",
        replace_rules,
        "write",
        answer=BulkReport,
        query=ReplaceQuery,
        bulk=True,
        writes=True,
        more_statuses={**_BULK, **_UNMET},
        headers={"If-Match": "The collection has this revision as its ETag."},
        answer_headers=("ETag",),
    ),
    Operation(
        "GET",
        _RULE,
        "Get a rule",
        get_rule,
        "read",
        answer=RuleRecord,
        query=IdQuery,
        place="loop",
        headers={"If-None-Match": "The rule has another ETag than this one."},
        more_statuses={**_NOT_ONE, 304: "The rule has that ETag."},
        answer_headers=("ETag",),
    ),
    Operation(
        "PUT",
        _RULE,
        "Add or replace a rule",
        put_rule,
        "write",
        answer=RuleRecord,
        query=IdQuery,
        body=RuleBody,
        writes=True,
        headers=_MATCH,
        answer_headers=("ETag",),
        more_statuses={**_NOT_ONE, 201: "The rule is new.", 422: "The rule is refused.", **_UNMET},
    ),
    Operation(
        "DELETE",
        _RULE,
        "Remove a rule",
        delete_rule,
        "write",
        query=IdQuery,
        status=204,
        writes=True,
        headers={"If-Match": "The rule has this ETag."},
        more_statuses={**_NOT_ONE, **_UNMET},
    ),
    Operation(
        "POST",
        "/v1/collections/{collection}/remove",
        "Remove many rules",
        remove_rules,
        "write",
        answer=Removed,
        body=RemoveRules,
        writes=True,
    ),
    Operation(
        "GET",
        "/v1/collections/{collection}/export",
        "Export rules",
        export_rules,
        "read",
        query=ExportQuery,
        media=(JSON_LINES, ARROW),
        more_statuses={406: "The answer is JSON lines or Arrow.", 409: "Ids of two kinds."},
    ),
    Operation(
        "GET",
        "/v1/collections/{collection}/changes",
        "Read or follow the changes of rules",
        read_changes,
        "read",
        answer=ChangePage,
        query=ChangesQuery,
        place="stream",
        media=(JSON, EVENT_STREAM),
        more_statuses={410: "These changes are not kept any more."},
        headers={"Last-Event-ID": "For a stream: the last revision received."},
    ),
)
