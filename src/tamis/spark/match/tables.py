"""Events that are a Spark table: which rules of a published index each of them matches.

Everything that can be known is checked on the driver, before a job starts: the index, its version,
the columns and their types. A query sees one version, the one that was in force when it was made.
Only keys and what rules mention goes from Spark to Python: moving wide rows costs more than
matching them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypedDict, Unpack

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from tamis.errors import EventError
from tamis.spark.index.versions import PathLike, Shard
from tamis.spark.match.event_columns import Names
from tamis.spark.match.query import Query, prepare
from tamis.spark.match.shard_groups import Plan, grouped
from tamis.spark.match.worker import GROUP

__all__ = ["Options", "counts", "match", "matcher", "top"]

_ROW = "row"
_PLACED = (StructField(_ROW, LongType()), StructField(GROUP, IntegerType()))
"""What a sharded plan carries along to merge its answers."""


def match(
    events_df: DataFrame,
    path: PathLike,
    *,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    plan: Plan = "auto",
    memory: int | str | None = None,
    ship: bool = False,
) -> DataFrame:
    """The rules that each event matches.

    Parameters
    ----------
    events_df
        The events, a row each.
    path
        A published index; see :func:`tamis.spark.build`.
    keys
        The column or columns that an event is known by; they are carried along. Without it that is
        the column ``event_id``, else ``id``, else ``event``.
    events
        What an event is made of: the name of one column of structs, maps or JSON texts, or a list
        of columns that are attributes. Without it all columns are attributes, the keys too.
    version
        The version of the index; the one in force by default.
    plan
        ``"whole"``: every task has all rules. ``"sharded"``: a task has some of the shards, and
        events go to several tasks. ``"auto"`` goes by the size of the index and `memory`.
    memory
        How much of a node's memory rules may take: a number of bytes, or ``"8g"``. Without it half
        of this machine's.
    ship
        Whether Spark brings the index to its nodes. Without it every node has to see `path`.

    Returns
    -------
    DataFrame
        The keys and rule, a row for each match, in no particular order.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is not there, or has a type that rules cannot compare.
    """
    query = prepare(events_df.schema, path, "match", keys=keys, events=events, version=version)
    return _answered(query, events_df, grouped(query.version, plan, memory), ship)


def top(
    events_df: DataFrame,
    path: PathLike,
    n: int = 5,
    *,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    plan: Plan = "auto",
    memory: int | str | None = None,
    ship: bool = False,
) -> DataFrame:
    """The `n` matching rules with the highest scores of each event.

    Of equal scores that of the shard with the lower number comes first, and within a shard the
    rule that was added first.

    Parameters
    ----------
    n
        How many rules at most.
    events_df, path, keys, events, version, plan, memory, ship
        As in :func:`match`.

    Returns
    -------
    DataFrame
        The keys, rank (1 for the best), rule and score.
    """
    query = prepare(events_df.schema, path, "top", n=n, keys=keys, events=events, version=version)
    return _answered(query, events_df, grouped(query.version, plan, memory), ship)


def counts(
    events_df: DataFrame,
    path: PathLike,
    *,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    plan: Plan = "auto",
    memory: int | str | None = None,
    ship: bool = False,
) -> DataFrame:
    """How many rules each event matches, without making a list of them.

    Parameters
    ----------
    events_df, path, keys, events, version, plan, memory, ship
        As in :func:`match`.

    Returns
    -------
    DataFrame
        The keys and matches, a row for each event.
    """
    query = prepare(events_df.schema, path, "counts", keys=keys, events=events, version=version)
    return _answered(query, events_df, grouped(query.version, plan, memory), ship)


class Options(TypedDict, total=False):
    """What :func:`match` takes besides events and index."""

    keys: Names
    events: Names
    version: int | None
    plan: Plan
    memory: int | str | None
    ship: bool


Transformation: TypeAlias = Callable[[DataFrame], DataFrame]


def matcher(path: PathLike, **options: Unpack[Options]) -> Transformation:
    """`match` as a step of a chain: ``events.transform(ts.matcher(path, keys="id"))``.

    Parameters
    ----------
    path, **options
        As in :func:`match`.
    """

    def matched(events_df: DataFrame) -> DataFrame:
        return match(events_df, path, **options)

    return matched


def _answered(
    query: Query, table: DataFrame, groups: tuple[tuple[Shard, ...], ...], ship: bool
) -> DataFrame:
    spark = table.sparkSession
    if len(groups) == 1:
        task = query.task(spark, groups, ship)
        return query.sent(table).mapInArrow(task.run, query.schema)
    if table.isStreaming:
        raise EventError(
            "a stream cannot be matched in shards; match its batches in foreachBatch, "
            "or pass plan='whole'"
        )
    placed = _placed(query.sent(table, F.monotonically_increasing_id().alias(_ROW)), len(groups))
    if query.ask == "match":
        return placed.mapInArrow(query.task(spark, groups, ship).run, query.schema)
    task = query.task(spark, groups, ship, _PLACED)
    schema = StructType([*query.keys, *_PLACED, *query.answers])
    return _merged(query, placed.mapInArrow(task.run, schema))


def _placed(sent: DataFrame, groups: int) -> DataFrame:
    """Every event once for each group of shards, the events of a group in partitions of its own.

    These come one group after another, so that a node works on one or two groups at a time.
    """
    partitions = int(sent.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    each = max(1, -(-partitions // groups))
    group = F.explode(F.sequence(F.lit(0), F.lit(groups - 1))).alias(GROUP)
    *keys, event = sent.columns
    repeated = sent.select(*keys, group, event)
    place = F.col(GROUP) * each + F.pmod(F.col(_ROW), F.lit(each))
    return repeated.repartitionById(groups * each, place.cast("int"))


def _merged(query: Query, found: DataFrame) -> DataFrame:
    """What the groups of shards found, one answer for each event."""
    keys = [f"k{i}" for i in range(len(query.keys))]
    named = found.toDF(*keys, _ROW, GROUP, *(field.name for field in query.answers))
    if query.ask == "counts":
        firsts = [F.first(key).alias(key) for key in keys]
        merged = named.groupBy(_ROW).agg(*firsts, F.sum("matches").alias("matches"))
        return merged.drop(_ROW).toDF(*query.schema.names)
    best = Window.partitionBy(_ROW).orderBy(F.desc("score"), GROUP, "rank")
    ranked = named.withColumn("best", F.row_number().over(best)).where(F.col("best") <= query.n)
    rank = F.col("best").cast("long").alias("rank")
    return ranked.select(*keys, rank, "rule", "score").toDF(*query.schema.names)
