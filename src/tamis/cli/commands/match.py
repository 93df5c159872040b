"""``tamis match``: find the rules that events satisfy."""

from __future__ import annotations

import shlex
from typing import Annotated

import pyarrow.compute as pc
import typer

from tamis.cli.arguments import (
    AtTime,
    EngineOverride,
    LimitTexts,
    LogicOverride,
    OnlyIds,
    OnlyTags,
    RulesPath,
    SkipBadRules,
    open_rules,
    read_limits,
    reject_if,
    reject_overwriting,
    select_rules,
)
from tamis.cli.console import is_on_terminal, print_error, progress
from tamis.files import (
    STDIN,
    MatchBatch,
    Query,
    match_expression,
    match_file,
    open_match_writer,
)

__all__ = ["match_events"]


def match_events(
    rules: RulesPath,
    events: Annotated[
        str | None, typer.Argument(metavar="EVENTS", help="A file of events.", show_default=False)
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--expression",
            metavar="TEXT",
            help="Match a partly known event, such as 'price > 9 AND kind = 2', "
            "in place of EVENTS.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the matches to this file: .jsonl, .ndjson, .csv or .parquet.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help="Find the N best rules and their scores."),
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count the matching rules, without naming them.")
    ] = False,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Remember each event after matching it, for rules with join predicates.",
        ),
    ] = False,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    at: AtTime = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--event-id",
            metavar="NAME",
            help="The attribute that identifies an event, in place of its number in the file.",
        ),
    ] = None,
    engine: EngineOverride = None,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    skip_bad_events: Annotated[
        bool,
        typer.Option("--skip-bad-events", help="Leave out invalid events, and name each of them."),
    ] = False,
    limit: LimitTexts = None,
) -> None:
    """Find the rules that each event satisfies.

    Prints a line of JSON for each event: {"event": 0, "rules": ["r1", "r7"]}.
    Events are numbered from 0, in the order of the file.
    """
    reject_if((events is None) == (expression is None), "Give either EVENTS or --expression.")
    reject_if(
        events is None and (top is not None or count or event_id is not None),
        "--top, --count and --event-id need EVENTS; drop them, or --expression.",
    )
    reject_if(top is not None and count, "Give either --top or --count.")
    reject_if(
        publish and (events is None or top is not None or count),
        "--publish needs EVENTS, and no --top or --count.",
    )
    reject_if(bool(only and tag), "Give either --only or --tag.")
    reject_if(rules == events == STDIN, "Only one of RULES and EVENTS can be -; name a file.")
    reject_overwriting(out, rules, events)
    limits = read_limits(limit)
    with (
        open_match_writer(out) as writer,
        progress(results_on_stdout=out is None) as show,
    ):
        matcher = open_rules(
            rules, engine, logic, skip_bad_rules, show, writable=publish, limits=limits
        )
        query = Query(
            kind="publish" if publish else "count" if count else "match" if top is None else "top",
            n=top or 0,
            only=select_rules(matcher, only, tag),
            at=at,
            event_id=event_id,
            skip_bad=skip_bad_events,
        )
        if expression is not None:
            writer.write(match_expression(matcher, expression, query))
            return
        assert events is not None
        done = found = skipped = 0
        show("Matching events", done, None)
        for matches in match_file(matcher, events, query):
            writer.write(matches)
            done += len(matches.keys)
            found += _count_matches(matches)
            skipped += len(matches.skipped)
            for error in matches.skipped:
                print_error(f"skipped: {error}")
            show("Matching events", done, matches.fraction)
        if publish:
            matcher.close()
    if skipped:
        print_error(f"{skipped:,} events were skipped")
    if done and not found and is_on_terminal():
        # A misspelt attribute and kinds that do not compare give no rows, and no error either.
        print_error(
            f"no rule matches any event ({done:,} in all); "
            f"tamis check {shlex.join([rules, events])} looks for the reason"
        )


def _count_matches(matches: MatchBatch) -> int:
    if "matches" in matches.table.column_names:
        return int(pc.sum(matches.table["matches"]).as_py() or 0)
    return int(matches.table.num_rows)
