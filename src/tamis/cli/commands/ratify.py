"""``tamis ratify``: compare the index with direct evaluation of its rules."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.arguments import (
    AsJson,
    EngineOverride,
    LogicOverride,
    RulesPaths,
    SkipBadRules,
    open_rules,
)
from tamis.cli.console import print_json, print_line, progress

__all__ = ["ratify_rules"]


def ratify_rules(
    rules: RulesPaths,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="How many rules to draw.")
    ] = 1_000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, metavar="S", help="How long to compare.")
    ] = 10.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The same seed draws the same rules.")
    ] = 0,
    engine: EngineOverride = None,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Compare the index with rules evaluated one by one, on difficult events.

    Exits with code 1 if they differ.
    """
    with progress() as show:
        matcher = open_rules(rules, engine, logic, skip_bad_rules, show)
        report = matcher.ratify(
            sample=sample,
            seconds=seconds,
            seed=seed,
            watch=lambda done, fraction: show("Comparing", done, fraction),
        )
    if as_json:
        differences = [difference.to_json() for difference in report.differences]
        print_json({**report._asdict(), "differences": differences})
    else:
        for difference in report.differences:
            print_line(str(difference))
        print_line(
            f"{report.rules:,} rules, {report.events:,} events, {report.matches:,} matches: "
            f"{len(report.differences):,} differences"
        )
    if not report.agrees:
        raise typer.Exit(1)
