"""``tamis publish``: publish events on a server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tamis.cli.arguments import reject_if
from tamis.cli.console import print_json
from tamis.files import read_events

__all__ = ["publish_events"]

ServerUrl = Annotated[
    str,
    typer.Option(
        "--url", envvar="TAMIS_URL", metavar="URL", help="The server; TAMIS_KEY has its key."
    ),
]
CollectionName = Annotated[str, typer.Argument(metavar="COLLECTION", help="The collection.")]


def publish_events(
    collection: CollectionName,
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="A file of events; - is standard input.")
    ] = "-",
    url: ServerUrl = "http://127.0.0.1:8080",
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="NAME",
            help="The attribute that identifies an event: published again, it counts once.",
        ),
    ] = None,
    audience: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="A condition on the attributes of subscriptions."),
    ] = None,
) -> None:
    """Publish events on a server, in the order of the file.

    Prints a line of JSON for each: {"sequence": 1}.
    """
    from tamis.client import Client

    with Client(url, collection) as client:
        for batch in read_events(events):
            rows = _to_dicts(batch.events)
            ids = None
            if message_id is not None:
                missing = next((row for row in rows if message_id not in row), None)
                reject_if(missing is not None, f"an event has no {message_id!r}.")
                ids = [str(row[message_id]) for row in rows]
            report = client.publish_many(rows, message_ids=ids, audience=audience)
            for sequence in report.sequences:
                print_json({"sequence": sequence})


def _to_dicts(events: Any) -> list[dict[str, Any]]:
    return list(events.to_pylist() if hasattr(events, "to_pylist") else events)
