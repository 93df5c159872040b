"""The command that takes rules of other systems: import."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from tamis.cli.app import app
from tamis.cli.arguments import refuse_if
from tamis.cli.console import one_line
from tamis.errors import RuleError
from tamis.files import STDIN, write_rules
from tamis.files.jsonlines import object_blocks
from tamis.files.output import written_aside
from tamis.files.source import open_source
from tamis.importers import eventbridge, jsonlogic, mongo, mustang, sigma
from tamis.importers.mongo import Dialect
from tamis.importers.result import Imported

_ENCODER = msgspec.json.Encoder()


class Kind(StrEnum):
    """Whose rules they are."""

    EVENTBRIDGE = "eventbridge"
    GROWTHBOOK = "growthbook"
    JSONLOGIC = "jsonlogic"
    MONGODB = "mongodb"
    MUSTANG = "mustang"
    SIGMA = "sigma"


@app.command("import")
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
    zone: Annotated[
        str,
        typer.Option(
            "--zone", metavar="NAME", help="For mustang: the time zone of its machine's clock."
        ),
    ] = "UTC",
    events: Annotated[
        str | None,
        typer.Option(
            "--events",
            metavar="FILE",
            help="For mustang: events, to which what the rules' paths find is to be added.",
        ),
    ] = None,
    events_out: Annotated[
        str | None,
        typer.Option("--events-output", metavar="FILE", help="Write these events to this file."),
    ] = None,
) -> None:
    """Write the rules of another system as rules of Tamis, with the meaning that they have there.

    Every rule that cannot be taken is named, with the reason.
    """
    refuse_if(typed and kind is not Kind.JSONLOGIC, "--typed is for jsonlogic.")
    refuse_if(pipeline is not None and kind is not Kind.SIGMA, "--pipeline is for sigma.")
    refuse_if(zone != "UTC" and kind is not Kind.MUSTANG, "--zone is for mustang.")
    refuse_if(events is not None and kind is not Kind.MUSTANG, "--events is for mustang.")
    refuse_if((events is None) != (events_out is None), "--events needs --events-output.")
    imported = _read(kind, source, typed, pipeline, zone)
    for refused in imported.refused:
        typer.echo(f"tamis: not taken: {one_line(str(refused))}", err=True)
    if strict and imported.refused:
        raise RuleError(f"{len(imported.refused):,} rules were not taken")
    written = write_rules(imported.rules, out)
    summary = f"{written:,} rules taken, {len(imported.refused):,} not"
    typer.echo(summary if out == STDIN else f"{summary}; in {out}", err=out == STDIN)
    if kind is Kind.MUSTANG:
        _widen(mustang.paths_of(imported.rules), events, events_out)


def _read(kind: Kind, source: str, typed: bool, pipeline: str | None, zone: str) -> Imported:
    match kind:
        case Kind.EVENTBRIDGE:
            return eventbridge.read(source)
        case Kind.GROWTHBOOK | Kind.MONGODB:
            return mongo.read(source, dialect=Dialect(kind))
        case Kind.JSONLOGIC:
            return jsonlogic.read(source, typed=typed)
        case Kind.MUSTANG:
            return mustang.read(source, zone=zone)
        case Kind.SIGMA:
            return sigma.read(source, pipeline=pipeline)


def _widen(paths: list[str], events: str | None, events_out: str | None) -> None:
    """Add to events what `paths` find in them, or say that somebody has to."""
    if events is None or events_out is None:
        for path in paths:
            typer.echo(
                f"tamis: rules ask for {path!r}, which events need first; see --events", err=True
            )
        return
    with open_source(events) as source, written_aside(events_out) as file:
        for block in object_blocks(source):
            file.write(
                _ENCODER.encode_lines([mustang.widened(event, paths) for event in block.objects])
            )
