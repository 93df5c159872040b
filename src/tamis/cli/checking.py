"""Commands that look after rules: lint, ratify and similar."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.app import app
from tamis.cli.arguments import (
    AsJson,
    OtherEngine,
    OtherLogic,
    RulesPlace,
    SkipBadRules,
    matcher_of,
    rule_id_of,
)
from tamis.cli.console import one_line, print_json, progress


@app.command("lint")
def lint_rules(
    rules: RulesPlace,
    single_valued: Annotated[
        bool, typer.Option("--single-valued", help="No attribute ever has several values.")
    ] = False,
    logic: OtherLogic = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find rules that never match, always match, repeat others or are part of them.

    Exit code 1 if there are any.
    """
    with progress(True) as show:
        matcher = matcher_of(rules, None, logic, skip_bad_rules, show)
        findings = matcher.lint(
            single_valued=single_valued,
            watch=lambda done, part: show("Looking at rules", done, part),
        )
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            typer.echo(one_line(f"{finding.kind:<9}  {finding}"))
        typer.echo(f"{len(findings):,} findings in {len(matcher):,} rules")
    if findings:
        raise typer.Exit(1)


@app.command("ratify")
def ratify_rules(
    rules: RulesPlace,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="How many rules to look at.")
    ] = 1_000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, metavar="S", help="For how long.")
    ] = 10.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The same seed draws the same rules.")
    ] = 0,
    engine: OtherEngine = None,
    logic: OtherLogic = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Compare what the index finds with rules evaluated one by one, on hard events.

    Exit code 1 if they differ.
    """
    with progress(True) as show:
        matcher = matcher_of(rules, engine, logic, skip_bad_rules, show)
        found = matcher.ratify(
            sample=sample,
            seconds=seconds,
            seed=seed,
            watch=lambda done, part: show("Comparing", done, part),
        )
    if as_json:
        differences = [difference.to_json() for difference in found.differences]
        print_json({**found._asdict(), "differences": differences})
    else:
        for difference in found.differences:
            typer.echo(one_line(str(difference)))
        typer.echo(
            f"{found.rules:,} rules, {found.events:,} events, {found.matches:,} matches: "
            f"{len(found.differences):,} differences"
        )
    if not found.agrees:
        raise typer.Exit(1)


@app.command("similar")
def similar_rules(
    rules: RulesPlace,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's id, or a rule.")],
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="How many at most.")] = 10,
    logic: OtherLogic = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find the rules that match much the same events as one does."""
    with progress(True) as show:
        matcher = matcher_of(rules, None, logic, skip_bad_rules, show)
    is_number = rule.removeprefix("-").isdecimal()
    found = matcher.similar(rule_id_of(matcher, rule) if is_number else rule, n)
    if as_json:
        print_json([one._asdict() for one in found])
        return
    for one in found:
        proved = " says the same" if one.implied and one.implies else ""
        proved = proved or (" wider" if one.implied else " narrower" if one.implies else "")
        typer.echo(one_line(f"{one.similarity:5.0%}  {one.id}{proved}"))
