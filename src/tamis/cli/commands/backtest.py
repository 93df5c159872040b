"""``tamis backtest``: run draft rules over past events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.arguments import (
    AsJson,
    LogicOverride,
    RulesPath,
    SkipBadRules,
    find_rule_id,
    is_stored,
    open_rules,
    reject_if,
)
from tamis.cli.console import ShowProgress, print_json, print_text, progress
from tamis.errors import UnknownRuleError
from tamis.files import STDIN, EventFile, load_rules
from tamis.matcher.analysis.backtest import PastEvents
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import RuleId
from tamis.pubsub.collection import PUBLISHED
from tamis.pubsub.log.event_log import EventLog

__all__ = ["backtest_rules"]


def backtest_rules(
    rules: RulesPath,
    events: Annotated[
        str | None,
        typer.Argument(
            metavar="EVENTS",
            help="A file of events, or the directory of a collection, for its log; "
            "that of RULES by default.",
            show_default=False,
        ),
    ] = None,
    draft: Annotated[
        str | None, typer.Option("--rule", metavar="TEXT", help="The draft.", show_default=False)
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="The saved rule that --rule is to replace.",
            show_default=False,
        ),
    ] = None,
    drafts: Annotated[
        str | None,
        typer.Option(
            "--drafts",
            metavar="FILE",
            help="A file of drafts, in place of --rule.",
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="NAME",
            help="The attribute with the time of an event.",
            show_default="the time of a log",
        ),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", min=1, metavar="N", help="Divide the time into N at most.")
    ] = 24,
    samples: Annotated[
        int, typer.Option("--samples", min=0, metavar="N", help="Show N events of each kind.")
    ] = 5,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Run draft rules over past events.

    Says how many events match, when, and which are gained and lost against the saved rule.
    """
    reject_if((draft is None) == (drafts is None), "Give either --rule or --drafts.")
    reject_if(id is not None and draft is None, "--id needs --rule.")
    reject_if(events is None and not is_stored(rules), "Name a file of EVENTS.")
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)
        wanted: Any = draft
        if drafts is not None:
            wanted = _read_drafts(matcher, drafts)
        report = matcher.backtest(
            wanted,
            _open_events(rules if events is None else events),
            id=None if id is None else _find_id(matcher, id),
            time=time,
            bins=bins,
            samples=samples,
            watch=lambda done: _watch(show, done),
        )
    if as_json:
        print_json(report.to_json())
    else:
        print_text(str(report))


def _watch(show: ShowProgress, done: int) -> None:
    show("Matching events", done, None)


def _read_drafts(matcher: Matcher, path: str) -> list[Any]:
    fresh = Matcher(logic=matcher.stats()["logic"])
    load_rules(fresh, path, logic=matcher.stats()["logic"])
    return [fresh.rule(id) for id in fresh]


def _find_id(matcher: Matcher, text: str) -> RuleId:
    """The id of a saved rule; a text of no rule is the id of a new one."""
    try:
        return find_rule_id(matcher, text)
    except UnknownRuleError:
        return text


def _open_events(events: str) -> PastEvents:
    if events != STDIN and Path(events).is_dir():
        folder = Path(events) / PUBLISHED
        reject_if(not folder.is_dir(), f"{events!r} has no log of events; name a file of EVENTS.")
        return EventLog(folder, read_only=True)
    return EventFile(events)
