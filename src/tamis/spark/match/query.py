"""Prepare a query on the driver, and check everything that can be known before a job starts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, cast, get_args

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import tamis
from tamis.errors import EventError
from tamis.expr.joins.predicate import Join
from tamis.expr.names import RECEIVED_BY
from tamis.matcher.publishing import Publishing
from tamis.matcher.selection import Tagged
from tamis.spark.index.layout import PathLike, Shard, Version
from tamis.spark.index.versions import current
from tamis.spark.index.versions import version as read_version
from tamis.spark.match.event_columns import EventColumns, choose_columns
from tamis.spark.match.options import Ask, At, Explain, MatchOptions, Output, check_ask
from tamis.spark.match.shipping import name_shipped, ship_shards
from tamis.spark.match.worker import (
    AT,
    EVENT,
    MatchTask,
    Probe,
    Shape,
    ShardName,
    key_names,
    open_shards,
)
from tamis.spark.runtime.work import Run, Work, count_work

__all__ = [
    "Query",
    "attributes_of",
    "check_names",
    "choose_version",
    "joins_of",
    "make_task",
    "prepare_query",
]

_TIMES = (DateType, TimestampNTZType, TimestampType)

_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"


class Query(NamedTuple):
    """A version of an index, the columns of a table, and what to compute from them."""

    version: Version
    columns: EventColumns
    keys: tuple[StructField, ...]
    ask: Output
    n: int
    """How many rules ``"first"`` and ``"top"`` give at most."""
    answers: tuple[StructField, ...]
    """The columns of the answers, without the keys."""
    options: MatchOptions
    at: int | datetime
    """When rules have to be valid: the place of a column of times, or a time."""
    probe: Probe | None
    """Finds the events to leave out, if they are to be left out."""

    @property
    def schema(self) -> StructType:
        """The schema of the table of answers."""
        return StructType([*self.keys, *self.answers])

    def select_input(self, table: DataFrame, *carried: Column) -> DataFrame:
        """Select the columns that go to Python: keys, `carried` ones, times, and the event.

        Columns are found by position: their names may have dots, or differ only by case.
        """
        names = [f"c{place}" for place in range(len(table.columns))]
        columns = [F.col(name) for name in names]
        keys = [
            columns[place].alias(name)
            for name, place in zip(key_names(len(self.keys)), self.columns.keys, strict=True)
        ]
        times = []
        if isinstance(self.at, int):
            times = [F.unix_micros(columns[self.at].cast("timestamp")).alias(AT)]
        event = self.columns.event_column(columns).alias(EVENT)
        return table.toDF(*names).select(*keys, *carried, *times, event)

    def make_work(
        self,
        spark: SparkSession,
        groups: Sequence[tuple[Shard, ...]] | None = None,
        carried: Sequence[StructField] = (),
    ) -> Work:
        """Make the function for ``mapInArrow`` that runs the task; see `make_task`."""
        return self.name_work(self.make_task(spark, groups, carried).run, spark)

    def name_work(self, run: Run, spark: SparkSession) -> Work:
        """Name a function for ``mapInArrow`` after this query."""
        version = self.version
        name = f"tamis_{self.ask}_in_{version.rules}_rules_of_version_{version.number}"
        return Work(run, name, count_work(spark))

    def make_task(
        self,
        spark: SparkSession,
        groups: Sequence[tuple[Shard, ...]] | None = None,
        carried: Sequence[StructField] = (),
    ) -> MatchTask:
        """Make the task that workers run.

        Parameters
        ----------
        spark
            The session of the workers.
        groups
            The groups of shards; by default one with all of them.
        carried
            Columns that stand after the keys and are carried along.
        """
        keys = [field.name for field in (*self.keys, *carried)]
        task = make_task(
            spark,
            groups or (self.version.shards,),
            self.options,
            self.ask,
            self.n,
            self.columns.shape,
            keys,
            self.answers,
            self.probe,
        )
        return replace(task, packing=self.columns.packing)

    def pack(self) -> Query:
        """The same query, with columns packed on their way to Python; see `Packing`."""
        return self._replace(columns=self.columns.pack())


def make_task(
    spark: SparkSession,
    groups: Sequence[tuple[Shard, ...]],
    options: MatchOptions,
    ask: Output,
    n: int,
    shape: Shape,
    keys: Sequence[str],
    answers: Sequence[StructField],
    probe: Probe | None = None,
) -> MatchTask:
    """Make the task that workers run, with the session's Arrow types; start shipping if asked."""
    text = pa.large_string() if spark.conf.get(_LARGE_TYPES, "false") == "true" else pa.string()
    types: dict[DataType, pa.DataType] = {
        BooleanType(): pa.bool_(),
        LongType(): pa.int64(),
        DoubleType(): pa.float64(),
        StringType(): text,
        ArrayType(LongType()): pa.list_(pa.int64()),
        ArrayType(StringType()): pa.list_(text),
    }
    schema = pa.schema([(field.name, types[field.dataType]) for field in answers])
    if options.ship:
        for group in groups:
            ship_shards(spark, group)
    only = options.only
    return MatchTask(
        groups=tuple(_name_shards(group, options.ship) for group in groups),
        shipped=options.ship,
        ask=ask,
        n=n,
        # Workers ask several times; a generator could be read once.
        only=only if only is None or isinstance(only, Tagged) else frozenset(only),
        at=choose_time(options.at),
        shape=shape,
        keys=tuple(keys),
        answers=schema,
        probe=probe,
    )


def choose_time(at: At) -> datetime:
    """When rules have to be valid where the events have no times: now, if the user does not say."""
    if not isinstance(at, datetime):
        return datetime.now(UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def prepare_query(
    schema: StructType,
    path: PathLike,
    ask: Output,
    options: MatchOptions,
    *,
    n: int = 0,
    blank: pa.RecordBatch | None = None,
    expressions: bool = False,
    also: Iterable[str] = (),
) -> Query:
    """Choose a version and columns for a query, and try it on an event without values.

    Parameters
    ----------
    schema
        The schema of the table.
    path
        A published index.
    ask, n
        What to compute.
    options
        All but plan and memory are used.
    blank
        A row without values, if the table is not one of Spark's; `schema` then has the Spark types
        of its columns.
    expressions
        Whether the column ``options.events`` holds event expressions.
    also
        Attributes that are needed besides those that rules mention.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is missing, or has a type that rules cannot compare.
    """
    version, answers = choose_version(path, options.version, ask, n)
    matchers = open_shards(_name_shards(version.shards))
    attributes = attributes_of(version).union(also)
    columns = choose_columns(schema, options.keys, options.events, attributes)
    if expressions:
        if columns.shape != "json":
            raise EventError(f"the column {options.events!r} has to hold expressions, as strings")
        columns = columns._replace(shape="expressions")
    if columns.shape == "columns":
        event = columns.blank_event() if blank is None else columns.event_array(blank)
        if ask != "refused":
            _try_event(matchers, event, ask, n)
    if isinstance(columns.data_type, StructType) and not columns.fields and attributes:
        warnings.warn(
            f"no rule mentions any of the columns {', '.join(schema.names)}; "
            "for a column that holds whole events pass events=",
            stacklevel=4,
        )
    keys = tuple(schema.fields[place] for place in columns.keys)
    check_names(keys, answers)
    probe = None
    if ask == "refused" or options.on_error == "skip":
        probe = Probe(tuple(sorted(attributes)), tuple(version.schema.items()))
    at: int | datetime
    if isinstance(options.at, str):
        at = _find_times(schema, options.at)
    else:
        at = moment = choose_time(options.at)
        # All tasks, and all groups of shards, use the same time.
        options = replace(options, at=moment)
    return Query(version, columns, keys, ask, n, answers, options, at, probe)


def _find_times(schema: StructType, name: str) -> int:
    """The place of the column of times."""
    for place, field in enumerate(schema.fields):
        if field.name == name and isinstance(field.dataType, _TIMES):
            return place
        if field.name == name:
            raise EventError(
                f"the column at={name!r} is of type {field.dataType.simpleString()}; "
                "it has to hold timestamps or dates"
            )
    raise EventError(
        f"there is no column {name!r} for at=; the columns are {', '.join(schema.names)}. "
        "For one time, pass a datetime"
    )


def attributes_of(version: Version) -> frozenset[str]:
    """The attributes that rules of a version mention, of events and of earlier ones."""
    matchers = open_shards(_name_shards(version.shards))
    names = {name for matcher in matchers for name in matcher.attributes()}
    olds = {name for join in joins_of(version) for name in join.olds}
    return frozenset((names | olds) - {RECEIVED_BY})


def joins_of(version: Version) -> frozenset[Join]:
    """The join predicates of the rules of a version."""
    matchers = open_shards(_name_shards(version.shards))
    return frozenset(join for matcher in matchers for join in Publishing(matcher).joins)


def choose_version(
    path: PathLike, number: int | None, ask: Output, n: int
) -> tuple[Version, tuple[StructField, ...]]:
    """Choose the version to query, and the columns of the answers.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    """
    if ask not in (*get_args(Explain), "lists", "refused"):
        check_ask(cast(Ask, ask), n)
    version = current(path) if number is None else read_version(path, number)
    return version, _answer_columns(ask, version)


def check_names(keys: Sequence[StructField], answers: Sequence[StructField]) -> None:
    """Refuse keys that have the name of another key or of an answer column.

    Raises
    ------
    EventError
        There is one.
    """
    seen = {field.name.lower() for field in answers}
    for key in keys:
        if key.name.lower() in seen:
            raise EventError(
                f"the answers already have a column {key.name!r}; rename the key: "
                f"events.withColumnRenamed({key.name!r}, …)"
            )
        seen.add(key.name.lower())


def _try_event(matchers: Sequence[tamis.Matcher], event: pa.Array, ask: Output, n: int) -> None:
    """Match an event without values.

    Types that contradict the schema of the rules raise here. Kernels that this machine has never
    run are compiled here, once, and not by all workers at the same time.
    """
    events = pa.RecordBatch.from_arrays([event], [""])
    for matcher in matchers:
        match ask:
            case "counts":
                matcher.count_many(events)
            case "first":
                matcher.first_many(events, n)
            case "top":
                matcher.top_many(events, n)
            case _:
                matcher.match_many(events)


def _name_shards(shards: Sequence[Shard], shipped: bool = False) -> tuple[ShardName, ...]:
    return tuple(
        ShardName(name_shipped(shard) if shipped else os.fspath(shard.path), shard.hash)
        for shard in shards
    )


def _answer_columns(ask: Output, version: Version) -> tuple[StructField, ...]:
    rule = StructField("rule", StringType() if version.id_type == "string" else LongType())
    match ask:
        case "match":
            return (rule,)
        case "lists":
            return (StructField("rules", ArrayType(rule.dataType)),)
        case "explain" | "why_not":
            holds = StructField("matches", BooleanType())
            return (rule, holds, StructField("explanation", StringType()))
        case "why":
            return (rule, StructField("explanation", StringType()))
        case "counts":
            return (StructField("matches", LongType()),)
        case "refused":
            return (StructField("error", StringType()),)
        case "first":
            return (StructField("rank", LongType()), rule, StructField("priority", LongType()))
        case "top":
            return (StructField("rank", LongType()), rule, StructField("score", DoubleType()))
