"""What the page needs beside the operations of other clients: trying, writing, looking inside."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

import tamis
from tamis.errors import EventError, RuleError
from tamis.expr.analysis.describe import describe
from tamis.expr.analysis.explain import values_to_json
from tamis.expr.analysis.repairs import suggest_edits
from tamis.expr.event import flatten
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, Op, Predicate, Value, all_of, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.write import to_sql
from tamis.matcher.rule import to_expr
from tamis.pubsub.log.records import to_time
from tamis.server.operation import Call, Operation
from tamis.wire.workbench import (
    Activity,
    ActivityRecord,
    AttributeList,
    AttributeRecord,
    AttributeValues,
    BoundaryQuestion,
    BoundaryRecord,
    CostFigures,
    Described,
    DescribeQuestion,
    EditRecord,
    ImportedRule,
    ImportedRules,
    ImportQuestion,
    IndexFigures,
    PossibleQuestion,
    PossibleRules,
    RefusedRule,
    RepairRecord,
    Repairs,
    RepairsQuestion,
    StretchRecord,
    TestedRules,
    Tried,
    TriedRule,
    TryQuestion,
)

__all__ = ["OPERATIONS"]

_LONGEST_TEXT: Final = 2_000
_MOST_VALUES: Final = 500
_MOST_RULES: Final = 100
_MOST_POSSIBLE: Final = 1_000
_COST_EVENTS: Final = 200
_ACTIVE_EVENTS: Final = 20_000
"""Of how many of the last events the activity of rules is counted."""


# --- Try ---


def try_event(call: Call) -> Tried:
    """Find the rules that an event satisfies, with their texts and scores."""
    body: TryQuestion = call.body
    matcher = call.collection.matcher
    started = time.perf_counter_ns()
    count = len(matcher.match_array(body.event, at=body.at))
    microseconds = (time.perf_counter_ns() - started) / 1000
    best = matcher.top(body.event, body.n, at=body.at)
    rules = []
    for id, score in best:
        try:
            rule = matcher.rule(id)
        except tamis.UnknownRuleError:  # removed since
            continue
        rules.append(TriedRule(id, score, rule.text[:_LONGEST_TEXT], sorted(rule.tags)))
    return Tried(count, rules, microseconds)


def list_attributes(call: Call) -> AttributeList:
    """List the attributes that rules mention, and how they use them."""
    return AttributeList([AttributeRecord(*use) for use in call.collection.matcher.uses()])


def list_values(call: Call) -> AttributeValues:
    """List the values of an attribute that rules mention."""
    found = call.collection.matcher.mentioned(call.names[0])
    values = [value for some in found.values.values() for value in some]
    # Every attribute has the two booleans, whether or not a rule mentions them.
    named = [value for value in values if not isinstance(value, bool)] or values
    shown = values_to_json(named[:_MOST_VALUES])
    return AttributeValues(call.names[0], shown, len(named), found.is_complete)


def find_boundaries(call: Call) -> BoundaryRecord:
    """Find how the matching rules change while one attribute of an event changes."""
    body: BoundaryQuestion = call.body
    found = call.collection.matcher.boundaries(
        body.event, body.attribute, limit=body.limit, at=body.at
    )
    stretches = [
        StretchRecord(
            _plain(stretch.low),
            _plain(stretch.high),
            stretch.low is not None and stretch.low == stretch.high,
            _plain(stretch.value),
            stretch.matches,
            list(stretch.gained[:_MOST_RULES]),
            list(stretch.lost[:_MOST_RULES]),
        )
        for stretch in found.stretches
    ]
    return msgspec.convert({**found._asdict(), "stretches": stretches}, BoundaryRecord)


def find_repairs(call: Call) -> Repairs:
    """Find the fewest changes for which a rule matches, as changes of the event."""
    body: RepairsQuestion = call.body
    matcher = call.collection.matcher
    found = matcher.why_not(body.rule, body.event, at=body.at)
    logic = matcher.rule(body.rule).logic
    changes = None
    if found.changes is not None:
        changes = [
            RepairRecord(
                change.text,
                [
                    EditRecord(edit.attribute, _plain(edit.value), edit.value is None)
                    for edit in suggest_edits(tamis.parse(change.text), logic)
                ],
            )
            for change in found.changes
        ]
    return Repairs(changes, found.is_fewest, found.invalid)


def find_possible(call: Call) -> PossibleRules:
    """Find the rules that could match, whatever the values of some attributes are."""
    body: PossibleQuestion = call.body
    known = [
        _equals(name, values)
        for name, values in flatten(body.event).items()
        if name not in body.unknown
    ]
    unknown = [Predicate(name, Op.PRESENT) for name in body.unknown]
    found = call.collection.matcher.match_expression(all_of(*known, *unknown))
    return PossibleRules(len(found), found[:_MOST_POSSIBLE])


def _equals(name: str, values: list[Value]) -> Expr:
    if len(values) > 1:
        raise EventError(f"{name!r} has several values; an event with unknown ones has one each")
    return Predicate(name, Op.EQ, (values[0],))


def _plain(value: Value | None) -> Any:
    return None if value is None else values_to_json([value])[0]


# --- Write ---


def describe_rule(call: Call) -> Described:
    """Say in plain words what a rule means."""
    body: DescribeQuestion = call.body
    expr = to_expr(body.rule)
    names = {predicate.attribute for predicate in predicates(expr)}
    bases = {base for name in names if not name.startswith(JOINED) for base in bases_of(name)}
    return Described(describe(expr, body.logic), to_sql(expr), sorted(bases))


def import_text(call: Call) -> ImportedRules:
    """Turn a rule of another system into a rule of Tamis."""
    body: ImportQuestion = call.body
    imported = _read(body)
    rules = [ImportedRule(rule.id, rule.text, rule.logic) for rule in imported.rules]
    return ImportedRules(rules, [RefusedRule(each.id, each.reason) for each in imported.refused])


def _read(body: ImportQuestion) -> Any:
    from tamis.importers import eventbridge, jsonlogic, mongo, mustang, sigma
    from tamis.importers.mongo import Dialect

    if body.system == "sigma":
        with TemporaryDirectory() as folder:
            file = Path(folder, "pasted.yml")
            file.write_text(body.text, "utf-8")
            return sigma.read(file)
    try:
        rule = msgspec.json.decode(body.text)
    except msgspec.MsgspecError as error:
        raise RuleError(f"this is not JSON: {error}") from None
    # A source of one rule, under a name that people replace. Events of the page are JSON, so a
    # number in one is never a text.
    one = {"pasted": rule}
    match body.system:
        case "eventbridge":
            return eventbridge.read(one)
        case "jsonlogic":
            return jsonlogic.read(one, typed=True)
        case "mustang":
            return mustang.read(rule if isinstance(rule, list) else [rule], typed=True)
        case _:
            return mongo.read(one, dialect=Dialect(body.system), typed=True)


# --- Rules and the index ---


def test_rules(call: Call) -> TestedRules:
    """Run the tests that rules carry."""
    return msgspec.convert(call.collection.matcher.test().to_json(), TestedRules)


def count_activity(call: Call) -> Activity:
    """Count how often rules matched the last published events."""
    log = call.collection.pubsub.log
    matches: Counter[str | int] = Counter()
    last: dict[str | int, datetime] = {}
    events = 0
    for record in log.read_kept(log.latest - _ACTIVE_EVENTS):
        events += 1
        for rule in {rule for match in record.matches for rule in match.rules}:
            matches[rule] += 1
            last[rule] = to_time(record.time)
    found = [ActivityRecord(rule, count, last[rule]) for rule, count in matches.most_common()]
    return Activity(events, found)


def examine_index(call: Call) -> IndexFigures:
    """Show what the index is made of."""
    found = call.collection.matcher.anatomy()
    return IndexFigures(
        found.rules,
        found.tail,
        found.bytes,
        [segment._asdict() for segment in found.segments],
        [AttributeRecord(*use) for use in found.attributes],
        [{"name": name, "bytes": size} for name, size in found.parts],
        [{"size": size, "count": count} for size, count in found.conjunction_sizes],
        [large._asdict() for large in found.largest],
        found.advice,
    )


def measure_costs(call: Call) -> CostFigures:
    """Measure what searches cost, over the last published events."""
    log = call.collection.pubsub.log
    events = [record.event for record in log.read_kept(log.latest - _COST_EVENTS)]
    found = call.collection.matcher.costs(events or None)
    return CostFigures(
        "log" if events else "drawn",
        found.events,
        found.microseconds,
        [part._asdict() for part in found.parts],
        found.merged,
        found.rules,
        found.measured,
        found.typical,
        [{**cost._asdict(), "text": cost.text[:_LONGEST_TEXT]} for cost in found.slowest],
        found.advice,
    )


_ONE = "/v1/collections/{collection}"
_BAD_EVENT = {422: "The event is refused.", 504: "The search took too long."}
_BAD_RULE = {422: "The rule is refused."}


def _ask(path: str, summary: str, handler: Any, body: Any, answer: Any, statuses: Any) -> Operation:
    return Operation(
        "POST",
        f"{_ONE}/{path}",
        summary,
        handler,
        "read",
        answer=answer,
        body=body,
        place="analysis",
        more_statuses=statuses,
    )


def _show(path: str, summary: str, handler: Any, answer: Any) -> Operation:
    return Operation(
        "GET", f"{_ONE}/{path}", summary, handler, "read", answer=answer, place="analysis"
    )


OPERATIONS = (
    _ask("try", "Find rules with texts and scores", try_event, TryQuestion, Tried, _BAD_EVENT),
    _ask(
        "boundaries",
        "Find where the matching rules change along an attribute",
        find_boundaries,
        BoundaryQuestion,
        BoundaryRecord,
        _BAD_EVENT,
    ),
    _ask(
        "repairs",
        "Find changes of an event for which a rule matches",
        find_repairs,
        RepairsQuestion,
        Repairs,
        _BAD_EVENT,
    ),
    _ask(
        "possible",
        "Find the rules that could match if some values are not known",
        find_possible,
        PossibleQuestion,
        PossibleRules,
        _BAD_EVENT,
    ),
    _ask(
        "describe",
        "Say a rule in plain words",
        describe_rule,
        DescribeQuestion,
        Described,
        _BAD_RULE,
    ),
    Operation(
        "POST",
        f"{_ONE}/test",
        "Run the tests that rules carry",
        test_rules,
        "read",
        answer=TestedRules,
        place="analysis",
    ),
    _show("attributes", "List the attributes that rules mention", list_attributes, AttributeList),
    _show("attributes/{name}", "List the values that rules mention", list_values, AttributeValues),
    _show("activity", "Count how often rules matched", count_activity, Activity),
    Operation(
        "POST",
        f"{_ONE}/costs",
        "Measure what searches cost",
        measure_costs,
        "read",
        answer=CostFigures,
        place="analysis",
    ),
    _show("index", "Show what the index is made of", examine_index, IndexFigures),
    Operation(
        "POST",
        "/v1/import",
        "Turn a rule of another system into a rule of Tamis",
        import_text,
        "read",
        answer=ImportedRules,
        body=ImportQuestion,
        place="analysis",
        more_statuses=_BAD_RULE,
    ),
)
