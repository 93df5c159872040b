"""The messages that matches lead to: one for each subscription and event, the most useful first."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from tamis.errors import EventError
from tamis.spark.match.options import Names

__all__ = ["SUBSCRIPTION", "deliveries"]

SUBSCRIPTION = "subscription"
_OURS = (SUBSCRIPTION, "rules", "score", "priority", "rank")
"""The columns of the answer besides the keys."""

_UNORDERED = (ArrayType, MapType, StructType, VariantType)
"""Types of keys by which rows are not ordered."""


def deliveries(
    matches: DataFrame,
    subscriptions: DataFrame,
    *,
    keys: Names = None,
    subscriber: str | None = None,
) -> DataFrame:
    """Make one row for each subscription and event from a table of matches.

    Within a subscriber, messages of subscriptions of higher priority come first, then those with
    the higher score; what exceeds the subscriber's capacity is left out.

    Parameters
    ----------
    matches
        The keys of events and ``rule``, as :func:`match` gives them; with ``score``, as :func:`top`
        gives them, messages have scores. In a stream, pass the batches of ``foreachBatch``.
    subscriptions
        Which rules a subscription owns: ``subscription`` and ``rule``, a row for each rule, or
        ``rules``, a list. Optional: ``priority`` of the subscription (0 by default), and
        ``capacity``, how many messages its subscriber takes at most (by default any number).
    keys
        The columns that identify an event; by default all others of `matches`.
    subscriber
        The column of `subscriptions` that says whose it is, if capacities are those of subscribers
        with several subscriptions. The lowest capacity given counts.

    Returns
    -------
    DataFrame
        ``subscription``, the keys, ``rules`` (those of the subscription that matched, in order),
        ``score`` (the best of them), ``priority`` and ``rank`` (1 for the subscriber's most useful
        message); the most useful messages come first.

    Raises
    ------
    EventError
        A column is missing, or a key has the name of one of the answer.
    """
    names = _choose_keys(matches, keys)
    owned = _list_owned(subscriptions, subscriber)
    score = F.coalesce(F.col("score").cast("double"), F.lit(0.0))
    scored = matches.select(
        *(F.col(f"`{name}`") for name in names),
        F.col("rule"),
        (score if "score" in matches.columns else F.lit(0.0)).alias("score"),
    )
    grouped = (
        scored.join(owned, "rule")
        .groupBy(SUBSCRIPTION, *(F.col(f"`{name}`") for name in names))
        .agg(
            F.array_sort(F.collect_set("rule")).alias("rules"),
            F.max("score").alias("score"),
            F.first("priority").alias("priority"),
            F.first("subscriber").alias("subscriber"),
            F.first("capacity").alias("capacity"),
        )
    )
    order = [F.desc("priority"), F.desc("score"), *_sortable(matches, names), F.col(SUBSCRIPTION)]
    rank = F.row_number().over(Window.partitionBy("subscriber").orderBy(*order)).cast("long")
    kept = grouped.withColumn("rank", rank).where("capacity IS NULL OR rank <= capacity")
    columns = [F.col(SUBSCRIPTION), *(F.col(f"`{name}`") for name in names)]
    return kept.orderBy(*order).select(*columns, *_OURS[1:])


def _choose_keys(matches: DataFrame, keys: Names) -> list[str]:
    _require(matches, ["rule"], "matches")
    if keys is None:
        chosen = [name for name in matches.columns if name not in ("rule", "score", "rank")]
    else:
        chosen = [keys] if isinstance(keys, str) else list(keys)
    _require(matches, chosen, "matches")
    for name in chosen:
        if name.lower() in _OURS:
            raise EventError(
                f"the answers already have a column {name!r}; rename the key: "
                f"matches.withColumnRenamed({name!r}, …)"
            )
    return chosen


def _list_owned(subscriptions: DataFrame, subscriber: str | None) -> DataFrame:
    """A row for each rule that a subscription owns."""
    has_lists = "rules" in subscriptions.columns and "rule" not in subscriptions.columns
    wanted = [SUBSCRIPTION, "rules" if has_lists else "rule"]
    _require(subscriptions, [*wanted, *([subscriber] if subscriber else [])], "subscriptions")
    capacity, priority = (
        F.col(name).cast("long") if name in subscriptions.columns else F.lit(None).cast("long")
        for name in ("capacity", "priority")
    )
    owner = F.col(f"`{subscriber}`") if subscriber else F.col(SUBSCRIPTION)
    listed = subscriptions.select(
        SUBSCRIPTION,
        (F.explode("rules") if has_lists else F.col("rule")).alias("rule"),
        owner.alias("subscriber"),
        capacity.alias("capacity"),
        F.coalesce(priority, F.lit(0)).cast("long").alias("priority"),
    ).distinct()
    by_owner = Window.partitionBy("subscriber")
    by_name = Window.partitionBy(SUBSCRIPTION)
    return listed.withColumn("capacity", F.min("capacity").over(by_owner)).withColumn(
        "priority", F.max("priority").over(by_name)
    )


def _sortable(matches: DataFrame, names: Iterable[str]) -> list[Column]:
    types = {field.name: field.dataType for field in matches.schema.fields}
    return [F.col(f"`{name}`") for name in names if not isinstance(types[name], _UNORDERED)]


def _require(table: DataFrame, names: Iterable[str], what: str) -> None:
    for name in names:
        if name not in table.columns:
            raise EventError(
                f"the table of {what} has no column {name!r}; the columns are "
                f"{', '.join(table.columns)}"
            )
