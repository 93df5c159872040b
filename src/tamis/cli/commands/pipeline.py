"""``tamis pipeline``: run a whole job on Spark, as a configuration file describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.console import ShowProgress, print_error, print_line, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline_app"]

pipeline_app = typer.Typer(
    no_args_is_help=True,
    help="Run whole jobs on Spark: rules in, a published index, matches out.",
)

ConfigFile = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A description of the job: .toml, .yaml or .yml.")
]


@pipeline_app.command("run")
def run_job(
    config: ConfigFile,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the sizes and the plan; build, match and write nothing."
        ),
    ] = False,
) -> None:
    """Build an index, match events with it, and write the outputs that CONFIG names."""
    from tamis.spark.job.config import read_config

    job = read_config(config)
    if dry_run:
        from tamis.spark.job.dry_run import describe_run

        for name, value in describe_run(job):
            print_line(f"{name:<12} {value}")
        return
    with progress() as show:
        show("Starting Spark", 0, None)
        from tamis.spark.job.pipeline import run_pipeline

        outcome = run_pipeline(job, stage=lambda name, spark: _show_stage(name, spark, show))
    version = outcome.version
    rows = {
        "index": f"version {version.number}: {version.rules:,} rules, {version.bad:,} refused",
        **{name: f"{seconds:,.1f} s" for name, seconds in outcome.seconds.items()},
        **({"events": f"{outcome.metrics.events:,}"} if outcome.metrics.events else {}),
        **({} if outcome.batches is None else {"batches": f"{outcome.batches:,}"}),
        **{f"{what} in": place for what, place in outcome.written.items()},
    }
    for name, value in rows.items():
        print_line(f"{name:<12} {value}")


@pipeline_app.command("check")
def check_job(config: ConfigFile) -> None:
    """Check CONFIG and list the steps it describes, without starting Spark."""
    from tamis.spark.job.config import read_config
    from tamis.spark.job.settings import describe_place, describe_source

    pipeline = read_config(config).pipeline
    steps = []
    if pipeline.rules is not None:
        steps.append(f"build {pipeline.index.path} from {describe_source(pipeline.rules)}")
    if pipeline.events is not None:
        source = describe_source(pipeline.events)
        kind = "the stream" if pipeline.mode == "stream" else "the events"
        steps.append(f"match {kind} of {source} with {pipeline.index.path}")
    output = pipeline.output
    places = {
        "matches": output.matches,
        "counts": output.counts,
        "best rules": output.top,
        "dead letters": output.dead_letters,
        "report": output.report,
    }
    steps += [f"write {what} to {describe_place(place)}" for what, place in places.items() if place]
    for step in steps:
        print_line(step)


@contextmanager
def _show_stage(name: str, spark: SparkSession, show: ShowProgress) -> Iterator[None]:
    """Show a stage of the pipeline on the progress bar."""
    from tamis.spark.progress import watch_tasks

    title = name.capitalize()
    show(title, 0, None)
    with watch_tasks(spark, lambda done, tasks: show(title, done, done / tasks), print_error):
        yield
