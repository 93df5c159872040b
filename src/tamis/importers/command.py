"""``tamis import``: rules of another system into a file of rules."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tamis.errors import RuleError
from tamis.files import STDIN, write_rules
from tamis.importers import eventbridge, jsonlogic, mongo, sigma
from tamis.importers.imported import Imported
from tamis.importers.mongo import Dialect

__all__ = ["import_rules"]


class Kind(StrEnum):
    """Whose rules they are."""

    EVENTBRIDGE = "eventbridge"
    GROWTHBOOK = "growthbook"
    JSONLOGIC = "jsonlogic"
    MONGODB = "mongodb"
    SIGMA = "sigma"


def import_rules(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"Whose: {', '.join(Kind)}.")],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file of rules; for sigma, also a folder.")
    ],
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="A .jsonl file; - for the terminal."),
    ] = STDIN,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing, and fail, if a rule is not taken.")
    ] = False,
    typed: Annotated[
        bool,
        typer.Option(
            "--typed", help="For jsonlogic: no event holds a number as a text, or a text as a list."
        ),
    ] = False,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            metavar="FILE",
            help="For sigma: a processing pipeline, which says what log sources and fields are.",
        ),
    ] = None,
) -> None:
    """Write the rules of another system as rules of Tamis, with the meaning that they have there.

    Every rule that cannot be taken is named, with the reason.
    """
    imported = _read(kind, source, typed, pipeline)
    for refused in imported.refused:
        typer.echo(f"tamis: not taken: {refused}", err=True)
    if strict and imported.refused:
        raise RuleError(f"{len(imported.refused):,} rules were not taken")
    written = write_rules(imported.rules, out)
    summary = f"{written:,} rules taken, {len(imported.refused):,} not"
    typer.echo(summary if out == STDIN else f"{summary}; in {out}", err=out == STDIN)


def _read(kind: Kind, source: str, typed: bool, pipeline: str | None) -> Imported:
    if typed and kind is not Kind.JSONLOGIC:
        raise typer.BadParameter("--typed is for jsonlogic.")
    if pipeline is not None and kind is not Kind.SIGMA:
        raise typer.BadParameter("--pipeline is for sigma.")
    match kind:
        case Kind.EVENTBRIDGE:
            return eventbridge.read(source)
        case Kind.GROWTHBOOK | Kind.MONGODB:
            return mongo.read(source, dialect=Dialect(kind))
        case Kind.JSONLOGIC:
            return jsonlogic.read(source, typed=typed)
        case Kind.SIGMA:
            return sigma.read(source, pipeline=pipeline)
