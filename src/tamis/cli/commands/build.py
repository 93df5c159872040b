"""``tamis build``: store rules in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tamis.cli.arguments import (
    EngineName,
    LimitTexts,
    Logic,
    LogicName,
    RulesFiles,
    SkipBadRules,
    add_rules,
    read_limits,
)
from tamis.cli.console import print_line, progress
from tamis.errors import StorageError
from tamis.matcher.matcher import Matcher

__all__ = ["build_index"]


def build_index(
    rules: RulesFiles,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="INDEX", help="The directory to create."),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the index stored there, atomically.")
    ] = False,
    engine: EngineName = "auto",
    logic: LogicName = Logic.STRONG,
    skip_bad_rules: SkipBadRules = False,
    limit: LimitTexts = None,
) -> None:
    """Store rules in a directory that opens without parsing.

    Every command that takes a file of rules also takes such a directory.
    """
    if not overwrite and Path(out).is_dir() and any(Path(out).iterdir()):
        raise StorageError("the directory is not empty; replace it with --overwrite", path=out)
    matcher = Matcher(engine, logic, limits=read_limits(limit))
    with progress() as show:
        add_rules(matcher, rules, logic, skip_bad_rules, show)
        show("Writing", len(matcher), None)
        matcher.save(out, overwrite=overwrite)
    print_line(f"{len(matcher):,} rules in {out}")
