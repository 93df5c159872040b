"""``tamis warmup``: compile and cache the kernels."""

from __future__ import annotations

from typing import Annotated

import typer

import tamis
from tamis.cli.console import progress

__all__ = ["compile_kernels"]


def compile_kernels(
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An engine by name; may be repeated. tamis.engines() lists all names.",
            show_default="tiles",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compile all engines.")] = False,
) -> None:
    """Compile and cache the kernels of an engine, once after installing."""
    from tamis.warmup import warmup

    with progress() as show:
        show("Compiling kernels", 0, None)
        seconds = warmup(tamis.engines() if everything else engine or ["auto"])
    for name, taken in seconds.items():
        typer.echo(f"{name:<12} {taken:6.1f} s")
