"""Care for rules: lint, similar rules, and a comparison of the index with the language."""

from __future__ import annotations

import msgspec

from tamis.server.operation import Call, Operation
from tamis.wire.messages import (
    BacktestQuestion,
    BacktestReport,
    FindingRecord,
    Findings,
    RatifyQuestion,
    RatifyReport,
    SimilarQuestion,
    SimilarRecord,
    SimilarRules,
)

__all__ = ["OPERATIONS"]


class LintQuery(msgspec.Struct, frozen=True):
    """What is known about events."""

    single_valued: bool = False
    """Whether no attribute ever has several values."""


def lint_rules(call: Call) -> Findings:
    """Find rules that never match, always match, or are covered by another."""
    query: LintQuery = call.query or LintQuery()
    found = call.collection.matcher.lint(single_valued=query.single_valued)
    return Findings([FindingRecord(*finding) for finding in found])


def find_similar_rules(call: Call) -> SimilarRules:
    """Find rules that match nearly the same events as a given one."""
    body: SimilarQuestion = call.body
    found = call.collection.matcher.similar(body.rule, body.n, seed=body.seed)
    return SimilarRules([SimilarRecord(*similar) for similar in found])


def ratify_rules(call: Call) -> RatifyReport:
    """Compare the index with the definition of the language, on difficult events."""
    body: RatifyQuestion = call.body
    report = call.collection.matcher.ratify(
        sample=body.sample, seconds=body.seconds, seed=body.seed, processes=1
    )
    differences = [difference.to_json() for difference in report.differences]
    return RatifyReport(report.rules, report.events, report.matches, differences)


def backtest_rule(call: Call) -> BacktestReport:
    """Run a draft rule over past events: how many match, when, and what changes."""
    body: BacktestQuestion = call.body
    events = call.collection.pubsub.log if body.events is None else body.events
    found = call.collection.matcher.backtest(
        body.rule, events, id=body.id, time=body.time, bins=body.bins, samples=body.samples
    )
    return msgspec.convert({**found.to_json(), "text": str(found)}, BacktestReport)


_ONE = "/v1/collections/{collection}"

OPERATIONS = (
    Operation(
        "POST",
        f"{_ONE}/backtest",
        "Run a draft rule over past events",
        backtest_rule,
        "read",
        answer=BacktestReport,
        body=BacktestQuestion,
        place="analysis",
        more_statuses={422: "The draft or an event is refused."},
    ),
    Operation(
        "POST",
        f"{_ONE}/lint",
        "Find rules without an effect of their own",
        lint_rules,
        "read",
        answer=Findings,
        query=LintQuery,
        place="analysis",
    ),
    Operation(
        "POST",
        f"{_ONE}/similar",
        "Find rules that match nearly the same events",
        find_similar_rules,
        "read",
        answer=SimilarRules,
        body=SimilarQuestion,
        place="analysis",
        more_statuses={422: "The rule is refused."},
    ),
    Operation(
        "POST",
        f"{_ONE}/ratify",
        "Compare the index with the definition of the language",
        ratify_rules,
        "admin",
        answer=RatifyReport,
        body=RatifyQuestion,
        place="analysis",
    ),
)
