"""``tamis match``: find the rules that events satisfy."""

from __future__ import annotations

import shlex
from time import monotonic
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from tamis.cli.arguments import (
    AtTime,
    EngineOverride,
    LimitTexts,
    LogicOverride,
    MoreRules,
    OnlyIds,
    OnlyTags,
    RulesPath,
    SkipBadRules,
    list_inputs,
    open_rules,
    read_limits,
    reject_if,
    reject_overwriting,
    select_rules,
)
from tamis.cli.console import is_on_terminal, print_error, progress
from tamis.files import (
    STDIN,
    Details,
    MatchBatch,
    Query,
    match_expression,
    match_file,
    open_match_writer,
)
from tamis.matcher.rule import RuleId

__all__ = ["match_events"]


def match_events(
    rules: RulesPath,
    events: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EVENTS...",
            help="Files of events, or folders of such files.",
            show_default=False,
        ),
    ] = None,
    more_rules: MoreRules = None,
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
    hits_only: Annotated[
        bool, typer.Option("--hits-only", help="Leave out events that match no rule.")
    ] = False,
    beside: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="NAMES",
            help="Print these beside the ids, separated by commas: text, tags, priority, payload, "
            "or keys of payloads, such as title,level.",
        ),
    ] = None,
    summary: Annotated[
        bool | None,
        typer.Option(
            "--summary/--no-summary",
            help="End with a line of totals on standard error.",
            show_default="on a terminal",
        ),
    ] = None,
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
    Events are numbered from 0, in the order of the files.
    """
    events = events or None
    reject_if((events is None) == (expression is None), "Give either EVENTS or --expression.")
    reject_if(
        events is None and (top is not None or count or event_id is not None),
        "--top, --count and --event-id need EVENTS; drop them, or --expression.",
    )
    reject_if(beside is not None and count, "--with shows rules, which --count does not name.")
    reject_if(top is not None and count, "Give either --top or --count.")
    reject_if(
        publish and (events is None or top is not None or count),
        "--publish needs EVENTS, and no --top or --count.",
    )
    reject_if(bool(only and tag), "Give either --only or --tag.")
    all_rules = [rules, *(more_rules or ())]
    inputs = list_inputs([*all_rules, *(events or ())])
    reject_if(inputs.count(STDIN) > 1, "Only one of RULES and EVENTS can be -; name a file.")
    reject_overwriting(out, *inputs)
    limits = read_limits(limit)
    started = monotonic()
    totals = _Totals()
    with (
        open_match_writer(out) as writer,
        progress(results_on_stdout=out is None) as show,
    ):
        matcher = open_rules(
            all_rules, engine, logic, skip_bad_rules, show, writable=publish, limits=limits
        )
        query = Query(
            kind="publish" if publish else "count" if count else "match" if top is None else "top",
            n=top or 0,
            only=select_rules(matcher, only, tag),
            at=at,
            event_id=event_id,
            skip_bad=skip_bad_events,
        )
        details = None if beside is None else Details(matcher, beside.split(","))
        if expression is not None:
            writer.write(match_expression(matcher, expression, query)._replace(details=details))
            return
        assert events is not None
        show("Matching events", 0, None)
        for matches in match_file(matcher, events, query):
            totals.add(matches)
            shown = matches.drop_misses() if hits_only else matches
            writer.write(shown._replace(details=details))
            for error in matches.skipped:
                print_error(f"skipped: {error}")
            show("Matching events", totals.events, matches.fraction)
        if publish:
            matcher.close()
    if totals.skipped:
        print_error(f"{totals.skipped:,} events were skipped")
    if summary or (summary is None and is_on_terminal()):
        print_error(totals.tell(len(matcher), monotonic() - started))
    if totals.events and not totals.matches and is_on_terminal():
        # A misspelt attribute and kinds that do not compare give no rows, and no error either.
        print_error(
            f"no rule matches any event ({totals.events:,} in all); find out why: "
            f"tamis check {shlex.join([rules, *events])}"
        )


class _Totals:
    """Counts events and matches for the summary."""

    def __init__(self) -> None:
        self.events = self.hits = self.matches = self.skipped = 0
        self._rules: set[RuleId] | None = set()

    def add(self, batch: MatchBatch) -> None:
        """Count a batch."""
        self.events += len(batch.keys)
        self.skipped += len(batch.skipped)
        if "matches" in batch.table.column_names:
            self._rules = None
            self.matches += int(pc.sum(batch.table["matches"]).as_py() or 0)
            self.hits += int(pc.sum(pc.greater(batch.table["matches"], 0)).as_py() or 0)
            return
        self.matches += batch.table.num_rows
        self.hits += len(pc.unique(batch.table["event"]))
        if self._rules is not None:
            ids = batch.table["rule"]
            is_mixed = pa.types.is_union(ids.type)
            self._rules.update((ids if is_mixed else pc.unique(ids)).to_pylist())

    def tell(self, rules: int, seconds: float) -> str:
        """The line of totals."""
        of = (
            f"{rules:,} rules"
            if self._rules is None
            else f"{len(self._rules):,} of {rules:,} rules"
        )
        return (
            f"{self.events:,} events, {self.hits:,} with matches; "
            f"{self.matches:,} matches by {of}; {seconds:.1f} s"
        )
