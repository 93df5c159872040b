"""``tamis generate``: write the rules or the events of a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.arguments import reject_if
from tamis.cli.console import ShowProgress, print_line, progress
from tamis.workloads.partitioned import PartitionedTable, write_parquet
from tamis.workloads.registry import WORKLOADS, make_workload

__all__ = ["generate_workload"]

_MOST_ROWS = 10**12


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
        int | None,
        typer.Option("--rules", min=0, max=_MOST_ROWS, metavar="N", help="Write this many rules."),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(
            "--events", min=0, max=_MOST_ROWS, metavar="N", help="Write this many events."
        ),
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
    """Write the rules or the events of a workload from the papers, as Parquet.

    Rules have the columns id and rule; events have event_id and a column for
    each attribute. With and without Spark the rows are the same.
    """
    reject_if((rules is None) == (events is None), "Give either --rules or --events.")
    reject_if(master is not None and not spark, "--master needs --spark.")
    pairs = dict(_parse_setting(text) for text in settings or [])
    if rules is not None:
        pairs["size"] = str(rules)
    try:
        generator = make_workload(workload, {**pairs, "seed": str(seed)})
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None
    table = PartitionedTable(generator, events)
    what = "rules" if events is None else "events"
    with progress() as show:
        if spark:
            rows = _generate_on_spark(table, out, master, f"Writing {what}", show)
        else:
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            rows = write_parquet(
                table, Path(out), watch=lambda done, part: show(f"Writing {what}", done, part)
            )
    print_line(f"{rows:,} {what} in {out}")


def _parse_setting(text: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    reject_if(not equals or not name, f"Write NAME=VALUE, not {text!r}.")
    return name, value


def _generate_on_spark(
    table: PartitionedTable, out: str, master: str | None, title: str, show: ShowProgress
) -> int:
    from tamis import spark as ts
    from tamis.spark.generate import generate
    from tamis.spark.progress import watch_tasks

    show("Starting Spark", 0, None)
    conf: dict[str, Any] = {} if master is None else {"spark.master": master}
    session = ts.local_session(**conf)
    with watch_tasks(session, lambda done, all_tasks: show(title, done, done / all_tasks)):
        return generate(session, table, out)
