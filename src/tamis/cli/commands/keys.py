"""``tamis keys``: create, list and revoke the keys of a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tamis.cli.arguments import reject_if
from tamis.cli.console import print_error, print_line, print_table

__all__ = ["keys_app"]

keys_app = typer.Typer(
    no_args_is_help=True, help="Create, list and revoke the API keys of a served directory."
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that is served.")]


@keys_app.command("create")
def create_key(
    folder: Folder,
    right: Annotated[
        list[str],
        typer.Option(metavar="RIGHT", help="read, publish, write or admin; may be repeated."),
    ],
    collection: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A collection; may be repeated.", show_default="all"),
    ] = None,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    days: Annotated[
        float | None, typer.Option(help="Days until the key expires.", show_default="never")
    ] = None,
) -> None:
    """Create a key and print it: only its hash is stored, so it cannot be shown again."""
    from tamis.server.keys import ALL, RIGHTS, KeyFile

    for given in right:
        reject_if(given not in RIGHTS, f"{given!r} is not one of {', '.join(RIGHTS)}.")
    reject_if(days is not None and not days > 0, "--days is a positive number.")
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    chosen = [known for known in RIGHTS if known in right]
    key, token = KeyFile(folder).create(name, chosen, collection or [ALL], expires)
    print_error(f"key {key.id}; keep it now, it is not shown again")
    print_line(token)


@keys_app.command("list")
def list_keys(folder: Folder) -> None:
    """List the keys: ids, names, rights, collections and expiry, but no secrets."""
    from tamis.server.keys import KeyFile

    rows = []
    for key in KeyFile(folder).list():
        until = "for ever" if key.expires is None else f"until {key.expires:%Y-%m-%d %H:%M} UTC"
        expired = key.has_expired(datetime.now(UTC))
        scope = f"{', '.join(key.rights)} in {', '.join(key.collections)}"
        rows.append((f"{key.id} {key.name}", f"{scope}, {'expired' if expired else until}"))
    print_table(rows)


@keys_app.command("revoke")
def revoke_key(
    folder: Folder, id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key.")]
) -> None:
    """Revoke a key. A server that runs refuses it within a second."""
    from tamis.server.keys import KeyFile

    key = KeyFile(folder).revoke(id)
    print_line(f"revoked {key.id} {key.name}".rstrip())
