"""``tamis check``: find out why rules match nothing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any

import pyarrow as pa
import typer

from tamis.cli.arguments import (
    AsJson,
    LogicOverride,
    MoreRules,
    RulesPath,
    SkipBadRules,
    list_inputs,
    open_rules,
    reject_if,
)
from tamis.cli.console import print_json, print_line, progress
from tamis.encode.arrow_rows import to_mappings
from tamis.files import STDIN, read_events
from tamis.files.source import find_files

__all__ = ["check_rules"]


def check_rules(
    rules: RulesPath,
    events: Annotated[
        list[str],
        typer.Argument(metavar="EVENTS...", help="Files of events, or folders of such files."),
    ],
    more_rules: MoreRules = None,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find attributes that no event has, and comparisons that never hold.

    Exits with code 1 if there are any.
    """
    all_rules = [rules, *(more_rules or ())]
    inputs = list_inputs([*all_rules, *events])
    reject_if(inputs.count(STDIN) > 1, "Only one of RULES and EVENTS can be -; name a file.")
    with progress() as show:
        matcher = open_rules(all_rules, None, logic, skip_bad_rules, show)

        def watch(done: int, fraction: float | None) -> None:
            show("Reading events" if fraction is None else "Checking rules", done, fraction)

        report = matcher.check(_stream_events(events), watch=watch)
    if as_json:
        findings = [finding._asdict() for finding in report.findings]
        print_json({**report._asdict(), "findings": findings})
    else:
        for line in str(report).splitlines():
            print_line(line)
    if report.findings:
        raise typer.Exit(1)


def _stream_events(paths: list[str]) -> Any:
    """The events of files, read as they are needed; one table stays a table."""
    batches = (batch.events for batch in read_events(paths))
    first = next(batches, [])
    if isinstance(first, pa.RecordBatch) and len(find_files(paths)) == 1:
        return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    return chain.from_iterable(map(_to_objects, chain([first], batches)))


def _to_objects(events: list[Mapping[str, Any]] | pa.RecordBatch) -> list[Mapping[str, Any]]:
    return events if isinstance(events, list) else list(to_mappings(events))
