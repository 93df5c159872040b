"""Commands that make workloads, and the kernels ready: generate and warmup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tamis
from tamis.cli.app import app
from tamis.cli.arguments import refuse_if
from tamis.cli.console import Show, progress
from tamis.workloads.registry import WORKLOADS, make_workload
from tamis.workloads.tables import PartedTable, write_parquet


@app.command("warmup")
def compile_kernels(
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An engine; may be repeated. The default one without."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All engines.")] = False,
) -> None:
    """Compile and cache the kernels of the engine, once after installing."""
    from tamis.warmup import warmup

    with progress(True) as show:
        show("Compiling kernels", 0, None)
        seconds = warmup(tamis.engines() if everything else engine or ["auto"])
    for name, taken in seconds.items():
        typer.echo(f"{name:<12} {taken:6.1f} s")


@app.command("generate")
def generate_workload(
    workload: Annotated[
        str,
        typer.Argument(metavar="WORKLOAD", help=f"What to generate: {', '.join(WORKLOADS)}."),
    ],
    out: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PATH", help="The Parquet file; with --spark, the folder."
        ),
    ],
    rules: Annotated[
        int | None, typer.Option("--rules", min=0, metavar="N", help="Write this many rules.")
    ] = None,
    events: Annotated[
        int | None, typer.Option("--events", min=0, metavar="N", help="Write this many events.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same rows.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter of the workload; may be repeated."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Write with Spark, on all cores or a cluster.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="The Spark cluster.", show_default="this machine"
        ),
    ] = None,
) -> None:
    """Write the rules or the events of a workload that papers measure on, as Parquet.

    Rules have the columns id and rule; events have event_id and a column for
    each attribute. With and without Spark the rows are the same.
    """
    refuse_if((rules is None) == (events is None), "Give one of --rules and --events.")
    refuse_if(master is not None and not spark, "--master is for --spark.")
    pairs = dict(_setting(text) for text in settings or [])
    if rules is not None:
        pairs["size"] = str(rules)
    try:
        made = make_workload(workload, {**pairs, "seed": str(seed)})
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None
    table = PartedTable(made, events)
    what = "rules" if events is None else "events"
    with progress(True) as show:
        if spark:
            rows = _generate_on_spark(table, out, master, f"Writing {what}", show)
        else:
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            rows = write_parquet(
                table, Path(out), watch=lambda done, part: show(f"Writing {what}", done, part)
            )
    typer.echo(f"{rows:,} {what} in {out}")


def _setting(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair."""
    name, equals, value = text.partition("=")
    refuse_if(not equals or not name, f"{text!r} is not of the form NAME=VALUE.")
    return name, value


def _generate_on_spark(
    table: PartedTable, out: str, master: str | None, title: str, show: Show
) -> int:
    from tamis import spark as ts
    from tamis.spark.generate import generate
    from tamis.spark.progress import watched

    show("Starting Spark", 0, None)
    conf: dict[str, Any] = {} if master is None else {"spark.master": master}
    session = ts.local_session(**conf)
    with watched(session, lambda done, all_tasks: show(title, done, done / all_tasks)):
        return generate(session, table, out)
