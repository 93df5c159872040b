"""A whole job out of a file: rules in, a published index, matches out.

`tamis pipeline run` is this; `config` says what the file may hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType

from tamis.spark.index.build import build
from tamis.spark.index.versions import Version, current, forget
from tamis.spark.job.config import Config, EventsSource, RulesSource
from tamis.spark.match.tables import counts, match, top
from tamis.spark.report import report
from tamis.spark.runtime.session import local_session
from tamis.spark.stream.stream import batches, match_stream

__all__ = ["Outcome", "run_pipeline"]

Stage: TypeAlias = Callable[[str, SparkSession], AbstractContextManager[None]]
"""Shows a stage by its name while it runs."""

_Options: TypeAlias = dict[str, str | int | float | bool]

_CSV_RULES: Final[_Options] = {"header": True, "multiLine": True, "escape": '"'}
_CSV_EVENTS: Final[_Options] = {**_CSV_RULES, "inferSchema": True}


@dataclass
class Outcome:
    """What a pipeline did."""

    version: Version
    """The version of the index that was built, or used."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each stage took."""
    written: dict[str, str] = field(default_factory=dict)
    """Where each output is."""
    batches: int | None = None
    """How many batches of a stream are done; None for a pipeline that is no stream."""


def run_pipeline(
    config: Config,
    *,
    spark: SparkSession | None = None,
    stage: Stage = lambda name, spark: nullcontext(),
) -> Outcome:
    """Do what a file says.

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
        An input cannot be read, a rule is refused, a column is not there, …
    """
    job = _Job(config, spark or _session(config), stage)
    job.read()
    job.build()
    if config.pipeline.mode == "stream":
        job.match_stream()
    elif config.pipeline.events is not None:
        job.match_batch()
    return job.outcome


def _session(config: Config) -> SparkSession:
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

    def __init__(self, config: Config, spark: SparkSession, stage: Stage) -> None:
        self._config, self._spark, self._show = config, spark, stage
        self._index = config.place(config.pipeline.index.path)
        self._rules: tuple[DataFrame, dict[str, Any]] | None = None
        self._events: DataFrame | None = None

    def read(self) -> None:
        """Look at rules and events, so that a missing column is told before anything is built."""
        pipeline = self._config.pipeline
        if pipeline.rules is not None:
            self._rules = self._read_rules(pipeline.rules)
        if pipeline.events is not None:
            self._events = self._read_events(pipeline.events)
            keys = pipeline.events.keys or []
            for key in [keys] if isinstance(keys, str) else keys:
                self._check_column(self._events, "events.keys", key)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        with self._show(name, self._spark):
            yield
        self.outcome.seconds[name] = time.perf_counter() - started

    def build(self) -> None:
        """Publish a version of the rules, if there are any; else use the one in force."""
        source, place = self._config.pipeline.rules, self._config.pipeline.index
        if source is None or self._rules is None:
            self.outcome = Outcome(current(self._index))
            return
        frame, columns = self._rules
        started = time.perf_counter()
        with self._show("build", self._spark):
            version = build(
                frame,
                self._index,
                id=source.id,
                rule=source.rule,
                **columns,
                default_logic=source.default_logic,
                schema=source.schema or None,
                engine=place.engine,
                shards=place.shards,
                on_error=source.on_error,
            )
            if place.keep is not None:
                forget(self._index, place.keep)
        self.outcome = Outcome(version, {"build": time.perf_counter() - started})

    def match_batch(self) -> None:
        """Write all that is asked for."""
        output, frame = self._config.pipeline.output, self._events
        assert frame is not None
        options = {**self._options(), "version": self.outcome.version.number}
        if output.matches is not None:
            with self._stage("match"):
                self._write("matches", match(frame, self._index, **options), output.matches)
        if output.counts is not None:
            with self._stage("counts"):
                self._write("counts", counts(frame, self._index, **options), output.counts)
        if output.top is not None:
            with self._stage("top"):
                best = top(frame, self._index, output.top.n, **options)
                self._write("top", best, output.top.path)
        if output.report is not None:
            with self._stage("report"):
                self._report(frame, output.report, output.title)

    def match_stream(self) -> None:
        """Match until the stream ends, or for ever."""
        pipeline = self._config.pipeline
        assert self._events is not None
        assert pipeline.stream is not None
        assert pipeline.output.matches is not None
        output = self._config.place(pipeline.output.matches)
        with self._stage("match"):
            query = match_stream(
                self._events,
                self._index,
                output=output,
                checkpoint=self._config.place(pipeline.stream.checkpoint),
                trigger=pipeline.stream.trigger,
                **self._options(),
            )
            query.awaitTermination()
        self.outcome.written["matches"] = output
        self.outcome.batches = sum(batch.done for batch in batches(output))

    def _options(self) -> dict[str, Any]:
        source, place = self._config.pipeline.events, self._config.pipeline.index
        assert source is not None
        return {
            "keys": source.keys,
            "events": source.events,
            "plan": place.plan,
            "memory": place.memory,
            "ship": place.ship,
        }

    def _write(self, what: str, frame: DataFrame, path: str) -> None:
        place = self._config.place(path)
        frame.write.mode("overwrite").parquet(place)
        self.outcome.written[what] = place

    def _report(self, events: DataFrame, path: str, title: str) -> None:
        source, version = self._config.pipeline.rules, self.outcome.version
        place = Path(self._config.place(path))
        report(
            self._spark.read.parquet(self.outcome.written["matches"]),
            rules=None if self._rules is None else self._rules[0],
            events=events,
            path=place,
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
        self.outcome.written["report"] = str(place)

    def _read_rules(self, source: RulesSource) -> tuple[DataFrame, dict[str, Any]]:
        """The rules, and the columns that say more about them."""
        kind = self._config.format_of("rules", source)
        with self._reading("rules"):
            if kind == "json":
                frame = _json_rules(self._spark, self._config.place(source.path), source)
            else:
                options = {**(_CSV_RULES if kind == "csv" else {}), **source.options}
                reader = self._spark.read.format(kind).options(**options)
                frame = reader.load(self._config.place(source.path))
        columns = {
            name: given
            for name in ("logic", "weights", "payload", "tags")
            if (given := getattr(source, name) or (name if name in _known(kind, frame) else None))
        }
        for key, column in {"id": source.id, "rule": source.rule, **columns}.items():
            self._check_column(frame, f"rules.{key}", column)
        return frame, columns

    def _read_events(self, source: EventsSource) -> DataFrame:
        stream = self._config.pipeline.mode == "stream"
        kind = self._config.format_of("events", source)
        options = {**(_CSV_EVENTS if kind == "csv" else {}), **source.options}
        path = None if source.path is None else self._config.place(source.path)
        with self._reading("events"):
            reader = self._spark.read.format(kind).options(**options)
            if source.schema is not None:
                reader = reader.schema(source.schema)
            if not stream:
                return reader.load(path)
            streaming = self._spark.readStream.format(kind).options(**options)
            if source.schema is not None:
                streaming = streaming.schema(source.schema)
            elif self._config.is_of_files(source):
                # A stream of files has to know its columns: those of the files that are there.
                streaming = streaming.schema(reader.load(path).schema)
            return streaming.load(path)

    def _check_column(self, frame: DataFrame, key: str, column: str) -> None:
        if column not in frame.columns:
            there = ", ".join(frame.columns)
            raise self._config.error(key, f"there is no column {column!r}; the columns are {there}")

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """What Spark says of a source becomes an error about its key."""
        try:
            yield
        except (AnalysisException, ParseException) as error:
            reason = str(error).partition("\n")[0]
            raise self._config.error(key, f"Spark cannot read it: {reason}") from None


def _json_rules(spark: SparkSession, path: str, source: RulesSource) -> DataFrame:
    """Rules in JSON lines, as `tamis.files` has them: what is no text becomes JSON text."""
    seen = spark.read.options(**source.options).json(path).schema
    lines = spark.read.options(**source.options).option("singleVariantColumn", "line").json(path)

    def column(name: str, kind: DataType) -> Column:
        place = f"$['{name}']"
        if name == (source.payload or "payload"):
            return F.to_json(F.variant_get("line", place, "variant"))
        if name == (source.tags or "tags"):
            return F.variant_get("line", place, "array<string>")
        wanted = "long" if name == source.id and isinstance(kind, LongType) else "string"
        return F.variant_get("line", place, wanted)

    return lines.select(*(column(f.name, f.dataType).alias(f.name) for f in seen.fields))


def _known(kind: str, frame: DataFrame) -> set[str]:
    """The columns that are taken without being named, as `tamis.files` takes them."""
    taken = {"json": {"logic", "weights", "payload", "tags"}, "csv": {"logic"}}
    return taken.get(kind, {"logic", "tags"}) & set(frame.columns)
