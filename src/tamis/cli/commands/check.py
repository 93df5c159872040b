"""``tamis check``: find out why rules match nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

import pyarrow as pa
import typer

from tamis.cli.arguments import (
    AsJson,
    LogicOverride,
    RulesPath,
    SkipBadRules,
    open_rules,
    reject_if,
)
from tamis.cli.console import escape_unprintable, print_json, progress
from tamis.files import STDIN, read_events

__all__ = ["check_rules"]


def check_rules(
    rules: RulesPath,
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A file of events.")],
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find attributes that no event has, and comparisons that never hold.

    Exits with code 1 if there are any.
    """
    reject_if(rules == events == STDIN, "Only one of RULES and EVENTS can be -; name a file.")
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)

        def watch(done: int, fraction: float | None) -> None:
            show("Reading events" if fraction is None else "Checking rules", done, fraction)

        report = matcher.check(_stream_events(events), watch=watch)
    if as_json:
        findings = [finding._asdict() for finding in report.findings]
        print_json({**report._asdict(), "findings": findings})
    else:
        for line in str(report).splitlines():
            typer.echo(escape_unprintable(line))
    if report.findings:
        raise typer.Exit(1)


def _stream_events(path: str) -> pa.RecordBatchReader | Iterator[dict[str, Any]]:
    """The events of a file, read as they are needed."""
    batches = (batch.events for batch in read_events(path))
    first = next(batches, [])
    if isinstance(first, list):
        return chain.from_iterable(chain([first], batches))
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
