"""Commands that run whole jobs on Spark: pipeline and demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.app import Commands, app
from tamis.cli.console import Show, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pipeline_app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Run whole jobs on Spark: rules in, a published index, matches out.",
)
app.add_typer(pipeline_app, name="pipeline")

ConfigFile = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A description of the job: .toml, .yaml or .yml.")
]


@pipeline_app.command("run")
def run_job(config: ConfigFile) -> None:
    """Build an index, match events with it, and write what CONFIG asks for."""
    from tamis.spark.job.config import read_config

    read = read_config(config)
    with progress(True) as show:
        show("Starting Spark", 0, None)
        from tamis.spark.job.pipeline import run_pipeline

        outcome = run_pipeline(read, stage=lambda name, spark: _stage(name, spark, show))
    version = outcome.version
    rows = {
        "index": f"version {version.number}: {version.rules:,} rules, {version.bad:,} refused",
        **{name: f"{seconds:,.1f} s" for name, seconds in outcome.seconds.items()},
        **({} if outcome.batches is None else {"batches": f"{outcome.batches:,}"}),
        **{f"{what} in": place for what, place in outcome.written.items()},
    }
    for name, value in rows.items():
        typer.echo(f"{name:<12} {value}")


@pipeline_app.command("check")
def check_job(config: ConfigFile) -> None:
    """Say what is wrong with CONFIG, or what it would do, without starting Spark."""
    from tamis.spark.job.config import read_config

    pipeline = read_config(config).pipeline
    steps = []
    if pipeline.rules is not None:
        steps.append(f"build {pipeline.index.path} from {pipeline.rules.path}")
    if pipeline.events is not None:
        source = pipeline.events.path or pipeline.events.format
        kind = "the stream" if pipeline.mode == "stream" else "the events"
        steps.append(f"match {kind} of {source} with {pipeline.index.path}")
    output = pipeline.output
    places = {
        "matches": output.matches,
        "counts": output.counts,
        "best rules": output.top and output.top.path,
        "report": output.report,
    }
    steps += [f"write {what} to {place}" for what, place in places.items() if place]
    for step in steps:
        typer.echo(step)


@contextmanager
def _stage(name: str, spark: SparkSession, show: Show) -> Iterator[None]:
    """A stage of a pipeline on the progress bar."""
    from tamis.spark.progress import watched

    title = name.capitalize()
    show(title, 0, None)
    with watched(spark, lambda done, tasks: show(title, done, done / tasks)):
        yield


@app.command("demo")
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
        typer.Option("-o", "--output", metavar="FOLDER", help="Where everything is written."),
    ] = "tamis-demo",
) -> None:
    """Match a year of flights out of New York against alert rules, on Spark."""
    from tamis import demo

    demo.run(rules, seed, flights=flights, folder=out)
