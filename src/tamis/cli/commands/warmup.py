"""``tamis warmup``: compile and cache the kernels."""

from __future__ import annotations

from typing import Annotated

import typer

import tamis
from tamis.cli.console import progress
from tamis.encode.compiler.cache import write_folder

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
    """Compile and cache the kernels of an engine, where none came with the package."""
    from tamis.warmup import warmup

    compiled: list[str] = []
    with progress() as show:
        show("Loading kernels", 0, None)

        def report(name: str) -> None:
            compiled.append(name)
            # How many there are depends on what is on disk already.
            show(f"Compiling {name.lstrip('_')}", len(compiled), None)

        seconds = warmup(tamis.engines() if everything else engine or ["auto"], report)
    for name, taken in seconds.items():
        typer.echo(f"{name:<12} {taken:6.1f} s")
    typer.echo(f"{len(compiled)} compiled, the others were on disk, in {write_folder()}")
