"""``tamis demo``: the whole pipeline on real flights."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["run_demo"]


def run_demo(
    rules: Annotated[
        int, typer.Option("--rules", min=1, metavar="N", help="How many rules to generate.")
    ] = 100_000,
    flights: Annotated[
        int | None,
        typer.Option(
            "--flights", min=1, metavar="N", help="How many flights to match.", show_default="all"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The same seed gives the same rules.")
    ] = 1,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where to write everything."),
    ] = "tamis-demo",
) -> None:
    """Match a year of flights out of New York against alert rules, on Spark."""
    from tamis import demo

    demo.run(rules, seed, flights=flights, folder=out)
