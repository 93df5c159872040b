"""Match the events of a Spark table: matches, counts, first and best rules.

Everything that can be known is checked on the driver before a job starts: the index, its version,
the columns and their types. A query uses one version, the current one when the query is created.
Only keys and attributes that rules mention go from Spark to Python, because moving wide rows costs
more than matching them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, Unpack, get_args

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from tamis.errors import EventError
from tamis.spark.index.layout import PathLike
from tamis.spark.match.options import (
    At,
    Form,
    MatchKeywords,
    MatchOptions,
    Names,
    OnError,
    Only,
    Output,
    Plan,
    list_keywords,
)
from tamis.spark.match.query import Query, prepare_query
from tamis.spark.match.shard_groups import group_shards
from tamis.spark.match.worker import GROUP, key_names

__all__ = [
    "ROW_AND_GROUP",
    "check_form",
    "counts",
    "first",
    "match",
    "match_expression",
    "matcher",
    "merge_groups",
    "refused",
    "top",
]

Transformation: TypeAlias = Callable[[DataFrame], DataFrame]

_ROW = "row"
ROW_AND_GROUP = (StructField(_ROW, LongType()), StructField(GROUP, IntegerType()))
"""The columns by which the answers of several groups of shards are merged."""


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
    on_error: OnError = "raise",
    only: Only = None,
    at: At = None,
    form: Form = "pairs",
) -> DataFrame:
    """Find the rules that each event matches.

    Parameters
    ----------
    events_df
        The events, one per row.
    path
        A published index; see :func:`tamis.spark.build`.
    keys
        The column or columns that identify an event; the answers have them, too. By default
        ``event_id``, else ``id``, else ``event``.
    events
        What an event consists of: the name of one column of structs, maps or JSON texts, or a list
        of columns that are attributes. By default all columns are attributes, also the keys.
    version
        The version of the index; by default the current one.
    plan
        ``"whole"``: every task has all rules. ``"sharded"``: a task has some of the shards, and
        events go to several tasks. ``"auto"`` decides by the size of the index and `memory`.
    memory
        How much memory of a node rules may take: a number of bytes, or a text such as ``"8g"``. By
        default half of this machine's.
    ship
        Whether Spark ships the index to its nodes. Otherwise every node has to see `path`.
    on_error
        ``"skip"`` leaves out events with values that no rule can compare, and texts that are not
        JSON; :func:`refused` returns them. By default such an event ends the query.
    only
        Consider only these rules: a list of ids, or ``tamis.tagged("gold")``.
    at
        When rules have to be valid: a time, or the name of a column with the time of each event.
        By default, and where the column is null, the time at which this function is called.
    form
        ``"lists"`` gives one row per event, with a list of rules, also where it is empty.

    Returns
    -------
    DataFrame
        The keys and rule: one row per match, in no particular order. With ``form="lists"`` the
        keys and rules.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is missing, or has a type that rules cannot compare.
    """
    options = MatchOptions(keys, events, version, plan, memory, ship, on_error, only, at)
    return _answer(events_df, path, check_form(form), 0, options)


def check_form(form: Form) -> Output:
    """Check the argument `form` of functions that have it, and return what to compute.

    Raises
    ------
    ValueError
        It is not one of those listed.
    """
    if form not in get_args(Form):
        raise ValueError(f"form is 'pairs' or 'lists', not {form!r}")
    return "match" if form == "pairs" else "lists"


@list_keywords(MatchKeywords)
def match_expression(
    events_df: DataFrame,
    path: PathLike,
    expressions: str = "expression",
    **options: Unpack[MatchKeywords],
) -> DataFrame:
    """Find the rules that each partially known event could satisfy.

    Parameters
    ----------
    events_df
        The events, one per row.
    path
        A published index.
    expressions
        The column of event expressions; :meth:`tamis.Matcher.match_expression` says what they mean.
    **options
        As in :func:`match`, which also says what it raises; without ``events``.

    Returns
    -------
    DataFrame
        The keys and rule: one row for each rule that some such event satisfies.
    """
    return _answer(events_df, path, "match", 0, _to_options(expressions, options), True)


@list_keywords(MatchKeywords)
def top(
    events_df: DataFrame, path: PathLike, n: int = 5, **options: Unpack[MatchKeywords]
) -> DataFrame:
    """Find the `n` matching rules with the highest scores for each event.

    Of equal scores, the shard with the lower number comes first, and within a shard the rule that
    was added first.

    Parameters
    ----------
    n
        How many rules at most.
    events_df, path, **options
        As in :func:`match`, which also says what it raises.

    Returns
    -------
    DataFrame
        The keys, rank (1 for the best), rule and score.
    """
    return _answer(events_df, path, "top", n, MatchOptions(**options))


@list_keywords(MatchKeywords)
def first(
    events_df: DataFrame, path: PathLike, n: int = 1, **options: Unpack[MatchKeywords]
) -> DataFrame:
    """Find the `n` matching rules with the highest priorities for each event.

    Of equal priorities, the shard with the lower number comes first, and within a shard the rule
    that was added first.

    Parameters
    ----------
    n
        How many rules at most.
    events_df, path, **options
        As in :func:`match`, which also says what it raises.

    Returns
    -------
    DataFrame
        The keys, rank (1 for the first), rule and priority.
    """
    return _answer(events_df, path, "first", n, MatchOptions(**options))


@list_keywords(MatchKeywords)
def counts(events_df: DataFrame, path: PathLike, **options: Unpack[MatchKeywords]) -> DataFrame:
    """Count the rules that each event matches.

    Parameters
    ----------
    events_df, path, **options
        As in :func:`match`, which also says what it raises.

    Returns
    -------
    DataFrame
        The keys and matches: one row per event.
    """
    return _answer(events_df, path, "counts", 0, MatchOptions(**options))


@list_keywords(MatchKeywords)
def refused(
    events_df: DataFrame,
    path: PathLike,
    *,
    expressions: str | None = None,
    **options: Unpack[MatchKeywords],
) -> DataFrame:
    """Find the events that ``on_error="skip"`` leaves out, and the reasons.

    Parameters
    ----------
    expressions
        The column of event expressions, if the events are given as in :func:`match_expression`.
    events_df, path, **options
        As in :func:`match`, which also says what it raises.

    Returns
    -------
    DataFrame
        The keys and error: one row per refused event.
    """
    chosen = MatchOptions(**options) if expressions is None else _to_options(expressions, options)
    query = prepare_query(
        events_df.schema, path, "refused", chosen, expressions=expressions is not None
    ).pack()
    work = query.make_work(events_df.sparkSession)
    return query.select_input(events_df).mapInArrow(work, query.schema)


@list_keywords(MatchKeywords)
def matcher(path: PathLike, **options: Unpack[MatchKeywords]) -> Transformation:
    """`match` as a step of a chain: ``events.transform(ts.matcher(path, keys="id"))``.

    Parameters
    ----------
    path, **options
        As in :func:`match`.
    """

    def transform(events_df: DataFrame) -> DataFrame:
        return match(events_df, path, **options)

    return transform


def _to_options(expressions: str, options: MatchKeywords) -> MatchOptions:
    """The options of a query whose events are the expressions of a column."""
    if "events" in options:
        raise TypeError("expressions= names the column of events; leave out events=")
    return replace(MatchOptions(**options), events=expressions)


def _answer(
    table: DataFrame,
    path: PathLike,
    ask: Output,
    n: int,
    options: MatchOptions,
    expressions: bool = False,
) -> DataFrame:
    query = prepare_query(table.schema, path, ask, options, n=n, expressions=expressions).pack()
    groups = group_shards(query.version, options)
    if expressions and options.on_error == "skip":
        # Another group may refuse the expression, and then no group may answer it.
        groups = (query.version.shards,)
    spark = table.sparkSession
    if len(groups) == 1:
        work = query.make_work(spark, groups)
        return query.select_input(table).mapInArrow(work, query.schema)
    if table.isStreaming:
        raise EventError(
            "a stream cannot be matched in shards; match its batches in foreachBatch, "
            "or pass plan='whole'"
        )
    row = F.monotonically_increasing_id().alias(_ROW)
    repeated = _repeat_for_groups(query.select_input(table, row), len(groups))
    if ask == "match":
        return repeated.mapInArrow(query.make_work(spark, groups), query.schema)
    work = query.make_work(spark, groups, ROW_AND_GROUP)
    schema = StructType([*query.keys, *ROW_AND_GROUP, *query.answers])
    return merge_groups(query, repeated.mapInArrow(work, schema))


def _repeat_for_groups(table: DataFrame, groups: int) -> DataFrame:
    """Repeat every event for each group of shards, in partitions of its own for each group.

    The partitions of a group are neighbours, so that a node works on one or two groups at a time.
    """
    partitions = int(table.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    per_group = max(1, -(-partitions // groups))
    group = F.explode(F.sequence(F.lit(0), F.lit(groups - 1))).alias(GROUP)
    *others, event = table.columns
    repeated = table.select(*others, group, event)
    partition = F.col(GROUP) * per_group + F.pmod(F.col(_ROW), F.lit(per_group))
    return repeated.repartitionById(groups * per_group, partition.cast("int"))


def merge_groups(query: Query, found: DataFrame) -> DataFrame:
    """Merge the answers of all groups of shards into one for each event."""
    keys = key_names(len(query.keys))
    named = found.toDF(*keys, _ROW, GROUP, *(field.name for field in query.answers))
    if query.ask in ("counts", "lists"):
        firsts = [F.first(key).alias(key) for key in keys]
        merged = (
            F.sum("matches").alias("matches")
            if query.ask == "counts"
            else F.flatten(F.collect_list("rules")).alias("rules")
        )
        return named.groupBy(_ROW).agg(*firsts, merged).drop(_ROW).toDF(*query.schema.names)
    by = "score" if query.ask == "top" else "priority"
    order = Window.partitionBy(_ROW).orderBy(F.desc(by), GROUP, "rank")
    ranked = named.withColumn("best", F.row_number().over(order)).where(F.col("best") <= query.n)
    rank = F.col("best").cast("long").alias("rank")
    return ranked.select(*keys, rank, "rule", by).toDF(*query.schema.names)
