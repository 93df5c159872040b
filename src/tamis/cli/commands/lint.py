"""``tamis lint``: find rules that never match, always match, or are redundant."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.arguments import AsJson, LogicOverride, RulesPath, SkipBadRules, open_rules
from tamis.cli.console import escape_unprintable, print_json, progress

__all__ = ["lint_rules"]


def lint_rules(
    rules: RulesPath,
    single_valued: Annotated[
        bool,
        typer.Option("--single-valued", help="Assume that no attribute has several values."),
    ] = False,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find rules that never match, always match, repeat others or are part of them.

    Exits with code 1 if there are any.
    """
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)
        findings = matcher.lint(
            single_valued=single_valued,
            watch=lambda done, fraction: show("Checking rules", done, fraction),
        )
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            typer.echo(escape_unprintable(f"{finding.kind:<9}  {finding}"))
        typer.echo(f"{len(findings):,} findings in {len(matcher):,} rules")
    if findings:
        raise typer.Exit(1)
