"""``tamis subscribe``: receive the messages of subscriptions from a server."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tamis.cli.commands.publish import CollectionName, ServerUrl
from tamis.cli.console import print_json

__all__ = ["receive_messages"]


def receive_messages(
    collection: CollectionName,
    subscription: Annotated[
        list[str], typer.Argument(metavar="SUBSCRIPTION", help="A subscription; name several.")
    ],
    url: ServerUrl = "http://127.0.0.1:8080",
    acknowledge: Annotated[
        bool,
        typer.Option(
            "--ack/--no-ack", help="Acknowledge each message once it is printed, or leave it."
        ),
    ] = True,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N messages.")
    ] = None,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Attach the payloads of the rules.")
    ] = False,
) -> None:
    """Receive messages as they come, a line of JSON each.

    A connection that breaks is opened again, and goes on after the last message.
    """
    from tamis.client import Client

    with Client(url, collection) as client:
        for number, delivery in enumerate(client.subscribe(*subscription, payloads=payloads), 1):
            print_json(delivery)
            sys.stdout.flush()
            if acknowledge:
                client.acknowledge(delivery.subscription, delivery.cursor or delivery.sequence)
            if number == count:
                return
