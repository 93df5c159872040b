"""``tamis warmup``: compile and cache the kernels."""

from __future__ import annotations

from typing import Annotated

import typer

import tamis
from tamis.cli.console import is_on_terminal, print_error, print_line, progress
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
    from tamis.warmup import WarmupProgress, warmup

    last: list[WarmupProgress] = []
    is_terminal = is_on_terminal()
    with progress() as show:

        def report(now: WarmupProgress) -> None:
            last[:] = [now]
            title = now.step if now.kernel is None else f"{now.step}: {now.kernel}"
            show(f"Compiling for {title}", now.compiled, (now.number - 1) / now.steps)
            if now.kernel is None and not is_terminal:
                # In the log of a build, a line for each step shows that it goes on.
                print_line(f"{now.number:>2} of {now.steps}  {now.step}")

        seconds = warmup(tamis.engines() if everything else engine or ["auto"], report)
    for name, taken in seconds.items():
        print_line(f"{name:<12} {taken:6.1f} s")
    compiled = last[0].compiled if last else 0
    folder = write_folder()
    if folder is None:
        print_error(f"{compiled} compiled, and lost: no folder for them can be written to")
        raise typer.Exit(1)
    print_line(f"{compiled} compiled, the others were on disk, in {folder}")
