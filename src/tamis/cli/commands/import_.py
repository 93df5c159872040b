"""``tamis import``: turn rules of other systems into rules of Tamis."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from tamis.cli.arguments import RulesOutput, reject_if, reject_overwriting
from tamis.cli.console import print_error, print_line
from tamis.errors import RuleError
from tamis.files import STDIN, write_rules
from tamis.files.atomic import write_atomically
from tamis.files.json_lines import read_objects
from tamis.files.source import open_source
from tamis.importers import (
    eventbridge,
    jsonlogic,
    mongo,
    mustang,
    paths_of,
    sigma,
    unleash,
    widened,
)
from tamis.importers.mongo import Dialect
from tamis.importers.result import Imported

__all__ = ["import_rules"]

_ENCODER = msgspec.json.Encoder()


class Kind(StrEnum):
    """The system that the rules come from."""

    EVENTBRIDGE = "eventbridge"
    GROWTHBOOK = "growthbook"
    JSONLOGIC = "jsonlogic"
    MONGODB = "mongodb"
    MUSTANG = "mustang"
    SIGMA = "sigma"
    UNLEASH = "unleash"


def import_rules(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"The system: {', '.join(Kind)}.")],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file of rules; for sigma, also a folder.")
    ],
    out: RulesOutput = STDIN,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail, and write nothing, if a rule cannot be imported."),
    ] = False,
    typed: Annotated[
        bool,
        typer.Option(
            "--typed",
            help="For growthbook, jsonlogic, mustang: events hold no number as text, no text as a "
            "list, and lists where rules name them.",
        ),
    ] = False,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            metavar="FILE",
            help="For sigma: a processing pipeline that maps log sources and fields.",
        ),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            "--time",
            metavar="NAME",
            help="For sigma: the attribute with the time of an event, for correlations.",
        ),
    ] = "@timestamp",
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
            help="Events to extend with what rules need beside their attributes.",
        ),
    ] = None,
    events_out: Annotated[
        str | None,
        typer.Option(
            "--events-output", metavar="FILE", help="Write the extended events to this file."
        ),
    ] = None,
) -> None:
    """Turn the rules of another system into rules of Tamis with the same meaning.

    Names every rule that it cannot import, with the reason.
    """
    reject_if(
        typed and kind not in (Kind.GROWTHBOOK, Kind.JSONLOGIC, Kind.MUSTANG),
        "--typed is for growthbook, jsonlogic and mustang only.",
    )
    reject_if(pipeline is not None and kind is not Kind.SIGMA, "--pipeline is for sigma only.")
    reject_if(time != "@timestamp" and kind is not Kind.SIGMA, "--time is for sigma only.")
    reject_if(zone != "UTC" and kind is not Kind.MUSTANG, "--zone is for mustang only.")
    reject_if((events is None) != (events_out is None), "Give --events and --events-output.")
    for output in (out, events_out):
        reject_overwriting(output, source, pipeline, events)
    imported = _read_rules(kind, source, typed, pipeline, zone, time)
    for note in imported.notes:
        print_error(f"note: {note}")
    for refused in imported.refused:
        print_error(f"not taken: {refused}")
    if strict and imported.refused:
        raise RuleError(f"{len(imported.refused):,} rules were not taken")
    written = write_rules(imported.rules, out)
    summary = f"{written:,} rules taken, {len(imported.refused):,} not"
    print_line(summary if out == STDIN else f"{summary}; in {out}", err=out == STDIN)
    _extend_events(paths_of(imported.rules), events, events_out)


def _read_rules(
    kind: Kind, source: str, typed: bool, pipeline: str | None, zone: str, time: str
) -> Imported:
    match kind:
        case Kind.EVENTBRIDGE:
            return eventbridge.read(source)
        case Kind.GROWTHBOOK | Kind.MONGODB:
            return mongo.read(source, dialect=Dialect(kind), typed=typed)
        case Kind.JSONLOGIC:
            return jsonlogic.read(source, typed=typed)
        case Kind.MUSTANG:
            return mustang.read(source, zone=zone, typed=typed)
        case Kind.SIGMA:
            return sigma.read(source, pipeline=pipeline, time=time)
        case Kind.UNLEASH:
            return unleash.read(source)


def _extend_events(paths: list[str], events: str | None, events_out: str | None) -> None:
    """Add the attributes `paths` to events, or warn that events need them."""
    if events is None or events_out is None:
        for path in paths:
            print_error(f"events need a value for {path!r}; add it with --events")
        return
    with open_source(events) as source, write_atomically(events_out) as file:
        for block in read_objects(source):
            file.write(_ENCODER.encode_lines([widened(event, paths) for event in block.objects]))
