"""A question to a published index, with everything checked that can be known on the driver."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

import tamis
from tamis.errors import EventError
from tamis.spark.index import versions
from tamis.spark.index.versions import PathLike, Shard, Version
from tamis.spark.match import shipped_shards
from tamis.spark.match.event_columns import EventColumns, Names, choose
from tamis.spark.match.worker import EVENT, Ask, Shape, Task, opened

__all__ = ["Query", "asked", "check_names", "make_task", "prepare"]

_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"


class Query(NamedTuple):
    """What to ask of which version about which columns."""

    version: Version
    columns: EventColumns
    keys: tuple[StructField, ...]
    ask: Ask
    n: int
    """How many rules ``"top"`` gives at most."""
    answers: tuple[StructField, ...]
    """What there is for each event, beside the keys."""

    @property
    def schema(self) -> StructType:
        """The schema of the table of answers."""
        return StructType([*self.keys, *self.answers])

    def sent(self, table: DataFrame, *carried: Column) -> DataFrame:
        """What goes to Python: the keys, what is carried along, and the event.

        Columns are known by their places: their names may have dots, or differ by case only.
        """
        names = [f"c{place}" for place in range(len(table.columns))]
        columns = [F.col(name) for name in names]
        keys = [columns[place].alias(f"k{i}") for i, place in enumerate(self.columns.keys)]
        event = self.columns.column(columns).alias(EVENT)
        return table.toDF(*names).select(*keys, *carried, event)

    def task(
        self,
        spark: SparkSession,
        groups: Sequence[tuple[Shard, ...]],
        ship: bool,
        carried: Sequence[StructField] = (),
    ) -> Task:
        """What workers do.

        Parameters
        ----------
        spark
            The session whose workers they are.
        groups
            The shards, as :func:`tamis.spark.match.shard_groups.grouped` puts them together.
        ship
            Whether Spark brings the shards to its nodes.
        carried
            Columns that are carried along behind the keys.
        """
        keys = [field.name for field in (*self.keys, *carried)]
        return make_task(
            spark, groups, ship, self.ask, self.n, self.columns.shape, keys, self.answers
        )


def make_task(
    spark: SparkSession,
    groups: Sequence[tuple[Shard, ...]],
    ship: bool,
    ask: Ask,
    n: int,
    shape: Shape,
    keys: Sequence[str],
    answers: Sequence[StructField],
) -> Task:
    """What workers do, in the session's types; the shards are on their way if Spark brings them."""
    text = pa.large_string() if spark.conf.get(_LARGE_TYPES, "false") == "true" else pa.string()
    kinds: dict[DataType, pa.DataType] = {
        LongType(): pa.int64(),
        DoubleType(): pa.float64(),
        StringType(): text,
    }
    schema = pa.schema([(field.name, kinds[field.dataType]) for field in answers])
    shards = [shipped_shards.ship(spark, group) if ship else _paths(group) for group in groups]
    return Task(tuple(shards), ship, ask, n, shape, tuple(keys), schema)


def prepare(
    schema: StructType,
    path: PathLike,
    ask: Ask,
    *,
    n: int = 0,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    blank: pa.RecordBatch | None = None,
) -> Query:
    """A question about events of a table.

    Parameters
    ----------
    schema
        Of the table.
    path, keys, events, version
        As in :func:`tamis.spark.match`.
    ask, n
        What is asked.
    blank
        A row without values, if the table is not one of Spark's; `schema` says what Spark would
        call its columns.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is not there, or has a type that rules cannot compare.
    """
    pinned, answers = asked(path, version, ask, n)
    matchers = opened(_paths(pinned.shards))
    attributes = frozenset(name for matcher in matchers for name in matcher.attributes())
    columns = choose(schema, keys, events, attributes)
    if columns.shape == "columns":
        _try(matchers, columns.blank() if blank is None else columns.array(blank), ask, n)
    if isinstance(columns.kind, StructType) and not columns.fields and attributes:
        warnings.warn(
            f"no rule mentions any of the columns {', '.join(schema.names)}; "
            "for a column that holds whole events pass events=",
            stacklevel=4,
        )
    fields = tuple(schema.fields[place] for place in columns.keys)
    check_names(fields, answers)
    return Query(pinned, columns, fields, ask, n, answers)


def asked(
    path: PathLike, version: int | None, ask: Ask, n: int
) -> tuple[Version, tuple[StructField, ...]]:
    """The version to ask, and the columns of its answers.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    """
    if ask not in ("match", "counts", "top"):
        raise ValueError(f"ask is 'match', 'counts' or 'top', not {ask!r}")
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n is a whole number, not {n!r}")
    pinned = versions.current(path) if version is None else versions.version(path, version)
    return pinned, _answers(ask, pinned)


def _try(matchers: Sequence[tamis.Matcher], blank: pa.Array, ask: Ask, n: int) -> None:
    """Ask about an event without values.

    Types that contradict the schema of the rules show here, and kernels that nobody has called on
    this machine are compiled once, and not by all workers at the same time.
    """
    events = pa.RecordBatch.from_arrays([blank], [""])
    for matcher in matchers:
        match ask:
            case "match":
                matcher.match_many(events)
            case "counts":
                matcher.count_many(events)
            case "top":
                matcher.top_many(events, n)


def _paths(shards: Sequence[Shard]) -> tuple[str, ...]:
    return tuple(str(shard.path) for shard in shards)


def _answers(ask: Ask, version: Version) -> tuple[StructField, ...]:
    rule = StructField("rule", StringType() if version.id_type == "string" else LongType())
    match ask:
        case "match":
            return (rule,)
        case "counts":
            return (StructField("matches", LongType()),)
        case "top":
            return (StructField("rank", LongType()), rule, StructField("score", DoubleType()))


def check_names(keys: Sequence[StructField], answers: Sequence[StructField]) -> None:
    """Refuse keys that are called like each other or like an answer.

    Raises
    ------
    EventError
        There is one.
    """
    seen = {field.name.lower() for field in answers}
    for key in keys:
        if key.name.lower() in seen:
            raise EventError(
                f"the answers have a column {key.name!r} already; rename that key: "
                f"events.withColumnRenamed({key.name!r}, …)"
            )
        seen.add(key.name.lower())
