"""Commands that keep rules and tell of them: build, export and stats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import tamis
from tamis.cli.app import app
from tamis.cli.arguments import (
    AsJson,
    EngineName,
    Logic,
    LogicName,
    OnlyIds,
    OnlyTags,
    OtherEngine,
    OtherLogic,
    RulesFile,
    RulesPlace,
    SkipBadRules,
    chosen_of,
    is_stored,
    load,
    matcher_of,
    refuse_if,
)
from tamis.cli.console import Show, print_json, progress, table_of
from tamis.errors import StorageError
from tamis.expr.model import Op, Predicate, predicates
from tamis.expr.names import name_shown
from tamis.expr.text.shapes import Shapes
from tamis.files import STDIN, save_rules
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule

_SHOWN = 10
"""How many of the most used attributes are shown."""


@app.command("build")
def build_index(
    rules: RulesFile,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="INDEX", help="The directory to make."),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is stored there, at once.")
    ] = False,
    engine: EngineName = "auto",
    logic: LogicName = Logic.STRONG,
    skip_bad_rules: SkipBadRules = False,
) -> None:
    """Store rules in a directory, from where they are had again at once.

    Wherever a command takes a file of rules, it takes such a directory, too.
    """
    if not overwrite and Path(out).is_dir() and any(Path(out).iterdir()):
        raise StorageError("the directory is not empty; see --overwrite", path=out)
    matcher = Matcher(engine, logic)
    with progress(True) as show:
        load(matcher, rules, logic, skip_bad_rules, show)
        show("Writing", len(matcher), None)
        matcher.save(out, overwrite=overwrite)
    typer.echo(f"{len(matcher):,} rules in {out}")


@app.command("export")
def export_rules(
    rules: RulesPlace,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="A .jsonl file; - for the terminal."),
    ] = STDIN,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    logic: OtherLogic = None,
) -> None:
    """Write rules as JSON lines, with their weights, payloads and tags.

    Whatever takes a file of rules takes what it writes.
    """
    refuse_if(bool(only and tag), "--only and --tag exclude each other.")
    with progress(out != STDIN) as show:
        matcher = matcher_of(rules, None, logic, False, show)
        count = save_rules(
            matcher,
            out,
            only=chosen_of(matcher, only, tag),
            watch=lambda done, fraction: show("Writing rules", done, fraction),
        )
    if out != STDIN:
        typer.echo(f"{count:,} rules in {out}")


@app.command("stats")
def show_stats(
    rules: RulesPlace,
    engine: OtherEngine = None,
    logic: OtherLogic = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare all files of a directory with their checksums."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what rules come to, and what those of a file look at."""
    refuse_if(verify and not is_stored(rules), "--verify is for a directory that build made.")
    if is_stored(rules):
        with tamis.open(
            rules, read_only=True, engine=engine, logic=logic, verify=verify
        ) as matcher:
            _show_stored(matcher.stats(), as_json)
        return
    matcher = Matcher(engine or "auto", logic or Logic.STRONG)
    with progress(True) as show:
        loaded = load(matcher, rules, logic or Logic.STRONG, False, show)
        attributes, operators = _uses(loaded, show)
    stats = matcher.stats()
    if as_json:
        print_json({**stats, "attribute_uses": dict(attributes), "operator_uses": dict(operators)})
        return
    console = Console(highlight=False)
    console.print(
        table_of(
            ["", ""],
            [(name.replace("_", " "), value) for name, value in stats.items()],
            header=False,
        )
    )
    console.print()
    console.print(table_of(["attribute", "predicates"], attributes.most_common(_SHOWN)))
    console.print()
    console.print(table_of(["operator", "predicates"], operators.most_common()))


def _show_stored(stats: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(stats)
        return
    flat = {k: v for k, v in stats.items() if not isinstance(v, dict)}
    flat |= {f"{kind} bytes": size for kind, size in stats["stored_bytes"].items()}
    rows = [(name.replace("_", " "), value) for name, value in flat.items()]
    Console(highlight=False).print(table_of(["", ""], rows, header=False))


def _uses(rules: list[Rule], show: Show) -> tuple[Counter[str], Counter[str]]:
    """How many predicates there are on each attribute, and with each operator."""
    attributes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    shapes = Shapes()
    for i, rule in enumerate(rules):
        expr = shapes.parse(rule.source) if isinstance(rule.source, str) else rule.source
        for predicate in predicates(expr):
            attributes[name_shown(predicate.attribute)] += 1
            operators[_operator(predicate)] += 1
        if i % 10_000 == 0:
            show("Counting predicates", i, i / len(rules))
    return attributes, operators


def _operator(predicate: Predicate) -> str:
    if not predicate.negated:
        return predicate.op
    return {Op.EQ: "<>", Op.PRESENT: "IS NULL"}.get(predicate.op, f"NOT {predicate.op}")
