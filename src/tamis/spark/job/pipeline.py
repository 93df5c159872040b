"""Run a whole job that a file describes: rules in, a published index, matches out.

This is ``tamis pipeline run``; `tamis.spark.job.config` says what the file may contain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from tamis.spark.index.build import build
from tamis.spark.index.layout import Version
from tamis.spark.index.publish import forget
from tamis.spark.index.versions import current
from tamis.spark.job.config import Config
from tamis.spark.job.sources import RulesTable, read_events, read_rules
from tamis.spark.match.options import MatchKeywords, StreamKeywords
from tamis.spark.match.tables import counts, match, top
from tamis.spark.report import report
from tamis.spark.runtime.session import local_session
from tamis.spark.runtime.work import Metrics, describe_jobs, metrics
from tamis.spark.stream.output import batches
from tamis.spark.stream.stream import match_stream

__all__ = ["Outcome", "run_pipeline", "start_session"]

ShowStage: TypeAlias = Callable[[str, SparkSession], AbstractContextManager[None]]
"""Shows a stage by its name while it runs."""


@dataclass
class Outcome:
    """What a pipeline did."""

    version: Version
    """The version of the index that was built or used."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The time of each stage."""
    written: dict[str, str] = field(default_factory=dict)
    """The path of each output."""
    batches: int | None = None
    """How many batches of a stream are complete; None if the pipeline is not a stream."""
    metrics: Metrics = field(default_factory=Metrics)
    """What the executors did."""


def run_pipeline(
    config: Config,
    *,
    spark: SparkSession | None = None,
    stage: ShowStage = lambda name, spark: nullcontext(),
) -> Outcome:
    """Run a pipeline.

    Parameters
    ----------
    config
        The file; see :func:`tamis.spark.job.config.read_config`.
    spark
        The session; by default the one that the file describes.
    stage
        Shows a stage while it runs.

    Raises
    ------
    TamisError
        An input cannot be read, a rule is refused, a column is missing, …
    """
    session = spark or start_session(config)
    job, before = _Job(config, session, stage), metrics(session)
    job.read()
    job.build()
    if config.pipeline.mode == "stream":
        job.match_stream()
    elif config.pipeline.events is not None:
        job.match_batch()
    job.outcome.metrics = metrics(session) - before
    return job.outcome


def start_session(config: Config) -> SparkSession:
    """Start the session that a file describes."""
    settings = config.pipeline.spark
    if settings.remote is not None:
        builder = SparkSession.builder.remote(settings.remote)
        for name, value in settings.conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    conf: dict[str, Any] = dict(settings.conf)
    if settings.master is not None:
        conf["spark.master"] = settings.master
    return local_session(settings.cores, memory=settings.memory, app_name="tamis pipeline", **conf)


class _Job:
    """The stages of a pipeline, in the order of its methods."""

    outcome: Outcome

    def __init__(self, config: Config, spark: SparkSession, show_stage: ShowStage) -> None:
        self._config, self._spark, self._show_stage = config, spark, show_stage
        self._index = config.resolve_path(config.pipeline.index.path)
        self._rules: RulesTable | None = None
        self._events: DataFrame | None = None

    def read(self) -> None:
        """Open rules and events, so that a missing column is found before anything is built."""
        pipeline = self._config.pipeline
        if pipeline.rules is not None:
            self._rules = read_rules(self._spark, self._config, pipeline.rules)
        if pipeline.events is not None:
            self._events = read_events(self._spark, self._config, pipeline.events)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        with describe_jobs(self._spark, f"tamis {name}"), self._show_stage(name, self._spark):
            yield
        self.outcome.seconds[name] = time.perf_counter() - started

    def build(self) -> None:
        """Publish a version if there are rules; else use the current one."""
        source, index = self._config.pipeline.rules, self._config.pipeline.index
        if source is None or self._rules is None:
            self.outcome = Outcome(current(self._index))
            return
        started = time.perf_counter()
        with self._show_stage("build", self._spark):
            version = build(
                self._rules.frame,
                self._index,
                id=source.id,
                rule=source.rule,
                **self._rules.columns,
                default_logic=source.default_logic,
                schema=source.schema or None,
                engine=index.engine,
                shards=index.shards,
                on_error=source.on_error,
                max_bad=source.max_bad,
            )
            if index.keep is not None:
                forget(self._index, index.keep)
        self.outcome = Outcome(version, {"build": time.perf_counter() - started})

    def match_batch(self) -> None:
        """Match a table of events, and write all outputs that the file names."""
        output, events = self._config.pipeline.output, self._events
        assert events is not None
        options: MatchKeywords = {
            **self._match_options(),
            "version": self.outcome.version.number,
        }
        if output.matches is not None:
            with self._stage("match"):
                self._write("matches", match(events, self._index, **options), output.matches)
        if output.counts is not None:
            with self._stage("counts"):
                self._write("counts", counts(events, self._index, **options), output.counts)
        if output.top is not None:
            with self._stage("top"):
                best = top(events, self._index, output.top.n, **options)
                self._write("top", best, output.top.path)
        if output.report is not None:
            with self._stage("report"):
                self._report(events, output.report, output.title)

    def match_stream(self) -> None:
        """Match a stream until it ends, or for ever."""
        pipeline = self._config.pipeline
        assert self._events is not None
        assert pipeline.stream is not None
        assert pipeline.output.matches is not None
        output = self._config.resolve_path(pipeline.output.matches)
        with self._stage("match"):
            query = match_stream(
                self._events,
                self._index,
                output=output,
                checkpoint=self._config.resolve_path(pipeline.stream.checkpoint),
                trigger=pipeline.stream.trigger,
                **self._match_options(),
            )
            query.awaitTermination()
        self.outcome.written["matches"] = output
        self.outcome.batches = sum(batch.done for batch in batches(output))

    def _match_options(self) -> StreamKeywords:
        source, index = self._config.pipeline.events, self._config.pipeline.index
        assert source is not None
        return {
            "keys": source.keys,
            "events": source.events,
            "plan": index.plan,
            "memory": index.memory,
            "ship": index.ship,
        }

    def _write(self, what: str, frame: DataFrame, path: str) -> None:
        folder = self._config.resolve_path(path)
        frame.write.mode("overwrite").parquet(folder)
        self.outcome.written[what] = folder

    def _report(self, events: DataFrame, path: str, title: str) -> None:
        source, version = self._config.pipeline.rules, self.outcome.version
        file = Path(self._config.resolve_path(path))
        report(
            self._spark.read.parquet(self.outcome.written["matches"]),
            rules=None if self._rules is None else self._rules.frame,
            events=events,
            path=file,
            title=title,
            id="id" if source is None else source.id,
            text="rule" if source is None else source.rule,
            seconds=self.outcome.seconds,
            facts={
                "pipeline": self._config.file,
                "index": f"{self._index}, version {version.number}, {version.rules:,} rules",
                "refused rules": f"{version.bad:,}",
                "Spark": self._spark.version,
            },
        )
        self.outcome.written["report"] = str(file)
