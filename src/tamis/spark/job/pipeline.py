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

from tamis.spark.change_feed import follow
from tamis.spark.index.build import build
from tamis.spark.index.layout import PathLike, Version
from tamis.spark.index.publish import forget
from tamis.spark.index.versions import current
from tamis.spark.job.settings import Config, Place
from tamis.spark.job.sources import RulesTable, read_events, read_rules
from tamis.spark.match.options import StreamKeywords
from tamis.spark.match.tables import counts, top
from tamis.spark.report import report
from tamis.spark.runtime.session import local_session
from tamis.spark.runtime.work import Metrics, describe_jobs, metrics
from tamis.spark.stream.kafka import Topic, to_dead_letters, to_match_records, write_records
from tamis.spark.stream.output import batches
from tamis.spark.stream.question import Question, prepare_question
from tamis.spark.stream.sinks import Destination
from tamis.spark.stream.stream import match_stream
from tamis.spark.stream.tables import Table, replace_table

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
    """The path of each output, or the name of its table or topic."""
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
        options: dict[str, Any] = {
            "id": source.id,
            "rule": source.rule,
            **self._rules.columns,
            "default_logic": source.default_logic,
            "schema": source.schema or None,
            "engine": index.engine,
            "shards": index.shards,
            "on_error": source.on_error,
            "max_bad": source.max_bad,
        }
        with self._show_stage("build", self._spark):
            if self._rules.frame is None:
                table = source.table or self._config.resolve_path(source.path or "")
                version = follow(self._spark, table, self._index, **options)
            else:
                version = build(self._rules.frame, self._index, **options)
            if index.keep is not None:
                forget(self._index, index.keep)
        self.outcome = Outcome(version, {"build": time.perf_counter() - started})

    def match_batch(self) -> None:
        """Match a table of events, and write all outputs that the file names."""
        output, question = self._config.pipeline.output, self._prepare_question()
        assert self._events is not None
        version = self.outcome.version.number
        events, options = question.keep_events(self._events), question.match_options(version)
        if output.matches is not None:
            with self._stage("match"):
                found = question.find_matches(events, version)
                self._write("matches", found, output.matches, question)
        if output.counts is not None:
            with self._stage("counts"):
                self._write("counts", counts(events, self._index, **options), output.counts)
        if output.top is not None:
            with self._stage("top"):
                best = top(events, self._index, output.top.n, **options)
                self._write("top", best, output.top)
        if output.dead_letters is not None:
            with self._stage("dead letters"):
                letters = question.find_dead_letters(self._events, version)
                self._write("dead letters", letters, output.dead_letters, question)
        if output.report is not None:
            with self._stage("report"):
                self._report(events, output.report, output.title)

    def match_stream(self) -> None:
        """Match a stream until it ends, or for ever."""
        pipeline, letters = self._config.pipeline, self._config.pipeline.output.dead_letters
        assert self._events is not None
        assert pipeline.events is not None
        assert pipeline.stream is not None
        assert pipeline.output.matches is not None
        output = self._resolve("matches", pipeline.output.matches)
        checkpoint = self._config.resolve_path(pipeline.stream.checkpoint)
        with self._stage("match"):
            query = match_stream(
                self._events,
                self._index,
                output=output,
                checkpoint=checkpoint,
                dead_letters=None if letters is None else self._resolve("dead_letters", letters),
                carry=pipeline.events.carry,
                trigger=pipeline.stream.trigger,
                **self._match_options(),
            )
            query.awaitTermination()
        self._note("matches", output)
        log: PathLike = checkpoint if isinstance(output, Topic | Table) else output
        self.outcome.batches = sum(batch.done for batch in batches(log))

    def _prepare_question(self) -> Question:
        source = self._config.pipeline.events
        assert source is not None
        assert self._events is not None
        options = self._match_options()
        if self._config.pipeline.output.dead_letters is not None:
            options["on_error"] = "skip"
        return prepare_question(self._events.schema, self._index, source.carry, options)

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

    def _resolve(self, key: str, place: str | Place) -> Destination:
        """The folder, table or topic that the file names."""
        if isinstance(place, str):
            return self._config.resolve_path(place)
        options = self._config.resolve_options(f"output.{key}", place.options)
        if place.table is not None:
            return Table(place.table, place.format, options)
        if place.topic is not None:
            return Topic(place.topic, place.servers or "", place.key, options)
        return self._config.resolve_path(place.path or "")

    def _write(
        self, what: str, frame: DataFrame, place: str | Place, question: Question | None = None
    ) -> None:
        destination = self._resolve(what.replace(" ", "_"), place)
        if isinstance(destination, Table):
            replace_table(frame, destination)
        elif not isinstance(destination, Topic):
            frame.write.mode("overwrite").parquet(str(destination))
        elif question is not None:
            if what == "matches":
                records = to_match_records(frame, question.keys, destination)
            else:
                records = to_dead_letters(frame, question.keys)
            write_records(records, destination)
        self._note(what, destination)

    def _note(self, what: str, destination: Destination) -> None:
        if isinstance(destination, Table | Topic):
            destination = destination.name
        self.outcome.written[what] = str(destination)

    def _report(self, events: DataFrame, path: str, title: str) -> None:
        source, version = self._config.pipeline.rules, self.outcome.version
        file = Path(self._config.resolve_path(path))
        matches, written = self._config.pipeline.output.matches, self.outcome.written["matches"]
        is_table = isinstance(matches, Place) and matches.table is not None
        report(
            self._spark.table(written) if is_table else self._spark.read.parquet(written),
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
