"""``tamis serve``: an HTTP server over the collections of a directory."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.arguments import reject_if
from tamis.errors import MissingExtraError

__all__ = ["serve_collections"]


def serve_collections(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory with the collections.")
    ] = Path("tamis-data"),
    host: Annotated[
        str, typer.Option(help="The address to bind; other than loopback, keys are required.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")] = 8080,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Follow what another server writes to DIR.")
    ] = False,
    keys: Annotated[
        bool | None,
        typer.Option(
            "--keys/--no-keys",
            help="Whether requests need a key; see tamis keys.",
            show_default="unless HOST is a loopback address",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="How many threads match and write.")] = 4,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log each request.")
    ] = True,
    retain_days: Annotated[
        float | None,
        typer.Option(help="How long published events are kept.", show_default="7"),
    ] = None,
    retain_bytes: Annotated[
        int | None,
        typer.Option(help="How many bytes the log may have.", show_default="any number"),
    ] = None,
    webhooks_to: Annotated[
        list[str] | None,
        typer.Option(
            "--webhooks-to",
            metavar="NETWORK",
            help="A network to which webhooks may connect although it is not public, such as "
            "10.1.0.0/16; may be repeated.",
        ),
    ] = None,
    sync: Annotated[
        bool,
        typer.Option("--sync/--no-sync", help="Whether a write waits until it is on the disk."),
    ] = True,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=N",
            help="Change a limit, such as body=1000000; may be repeated.",
        ),
    ] = None,
) -> None:
    """Serve the collections of DIR over HTTP.

    GET /api shows the API, once it runs.
    """
    try:
        from tamis.server.run import run
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"tamis serve needs {error.name}; install it with: pip install 'tamis[server]'"
        ) from None
    from tamis.server.settings import ServerSettings

    settings = ServerSettings(
        folder=folder,
        host=host,
        port=port,
        read_only=read_only,
        keys=keys,
        threads=threads,
        access_log=access_log,
        sync=sync,
        retention=_read_retention(retain_days, retain_bytes),
        webhooks=_read_networks(webhooks_to),
        limits=_read_limits(limit),
    )
    run(settings)


def _read_networks(networks: list[str] | None) -> Any:
    from ipaddress import ip_network

    from tamis.pubsub import WebhookSettings

    for network in networks or ():
        try:
            ip_network(network)
        except ValueError as error:
            raise typer.BadParameter(f"{error}.") from None
    return WebhookSettings(allowed_networks=tuple(networks or ()))


def _read_retention(days: float | None, size: int | None) -> Any:
    from tamis.pubsub import LogRetention

    reject_if(days is not None and not days > 0, "--retain-days is a positive number.")
    reject_if(size is not None and not size > 0, "--retain-bytes is a positive number.")
    return LogRetention(bytes=size) if days is None else LogRetention(days * 86_400, size)


def _read_limits(texts: list[str] | None) -> Any:
    from tamis.server.settings import ServerLimits

    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(ServerLimits)}
    given: dict[str, Any] = {}
    for text in texts or ():
        name, _, number = text.partition("=")
        reject_if(name not in kinds, f"there is no limit {name!r}; give one of {', '.join(kinds)}.")
        try:
            given[name] = kinds[name](number)
        except ValueError:
            raise typer.BadParameter(f"the limit {name} is a number, not {number!r}") from None
        reject_if(given[name] <= 0, f"the limit {name} is a positive number.")
    return ServerLimits(**given)
