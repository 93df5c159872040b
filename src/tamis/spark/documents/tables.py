"""Match events in order, each with those before it: `Matcher.publish` for tables and streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tamis.errors import EventError
from tamis.joins.retention import Retention
from tamis.spark.documents.grouping import SORTABLE, choose_groups
from tamis.spark.documents.processor import BATCH_TIME, PublishProcessor
from tamis.spark.documents.publisher import FlattenTask, PublishTask, Retained
from tamis.spark.index.layout import PathLike
from tamis.spark.match.options import At, MatchOptions, Names, OnError, Only
from tamis.spark.match.query import Query, attributes_of, joins_of, prepare_query
from tamis.spark.match.worker import AT, EVENT, key_names
from tamis.spark.runtime.work import Work

__all__ = ["publish"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def publish(
    events_df: DataFrame,
    path: PathLike,
    *,
    order: str | Sequence[str],
    retention: Retention | None = None,
    by: Names = None,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    ship: bool = False,
    on_error: OnError = "raise",
    only: Only = None,
    at: At = None,
) -> DataFrame:
    """Match events in order, with rules that refer to earlier events.

    The answers are those of :meth:`tamis.Matcher.publish`, event by event. Events that never see
    each other are matched in parallel: if all rules that refer to earlier events have
    ``d.user = user`` in their conditions, those of different users.

    Parameters
    ----------
    events_df
        The events: a table, or a stream. A stream keeps documents in Spark's state, which takes
        the RocksDB state store.
    path
        A published index. A stream keeps the version that is current now until it is started again.
    order
        The column or columns that tell which event came first. A stream takes events batch by
        batch, and sorts within a batch. Of equal events, that with the lower key comes first.
    retention
        How long events are remembered; by default for ever. Without ``by``, the age of a document
        counts from the batch in which it came. With ``by``, time is that of the events: a document
        is forgotten when any event is so much later. So all events are one group then, except in a
        table whose `order` begins with the column of these times.
    by
        The attribute or attributes by which events are grouped; by default all that every rule
        about earlier events equates. ``()`` makes one group of all events.
    keys, events, version, ship, on_error, only
        As in :func:`match`.
    at
        As in :func:`match`; in a stream the default is the time at which a batch is matched.

    Returns
    -------
    DataFrame
        The keys and rule: one row per match. For a stream it is a stream, to be written in the mode
        ``"append"``.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is missing, or has a type that rules cannot compare; or `by` would change answers.
    """
    options = MatchOptions(keys, events, version, ship=ship, on_error=on_error, only=only, at=at)
    retained = _to_retained(retention)
    also = [] if retained.by is None else [retained.by]
    query = prepare_query(events_df.schema, path, "match", options, also=also)
    places = _find_order(events_df.schema, order)
    groups = choose_groups(
        by,
        joins_of(query.version),
        query.columns,
        query.version.schema,
        together=_find_reason(events_df, query, retained, places[0]),
    )
    prepared = _Prepared(events_df, query, groups, places, also)
    if not events_df.isStreaming:
        if retained.by_arrival:
            raise EventError(
                "all events of a table come at once: pass Retention(age=…, by=…) with the "
                "attribute that has their time"
            )
        return prepared.publish_table(retained)
    return prepared.publish_stream(retained, at)


class _Prepared:
    """A query, and the columns by which its events are grouped and ordered."""

    def __init__(
        self,
        table: DataFrame,
        query: Query,
        groups: tuple[str, ...],
        order: list[int],
        also: list[str],
    ) -> None:
        self._query = query
        self._spark: SparkSession = table.sparkSession
        self._task = query.make_task(self._spark)
        key_types = [field.dataType for field in query.keys]
        by_key = [
            place
            for place, kind in zip(query.columns.keys, key_types, strict=True)
            if isinstance(kind, SORTABLE)
        ]
        # Columns have these names in `Query.select_input`.
        order_columns = [(F.col(f"c{place}"), table.schema[place].dataType) for place in order]
        order_columns += [(F.col(f"c{place}"), table.schema[place].dataType) for place in by_key]
        group_columns = [_find_attribute(query, name) for name in groups]
        self.groups = [f"g{number}" for number in range(len(groups))]
        self.order = [f"o{number}" for number in range(len(order_columns))]
        carried = [
            (_to_plain(column, kind).alias(name), StructField(name, _plain_type(kind)))
            for name, (column, kind) in zip(
                [*self.groups, *self.order], [*group_columns, *order_columns], strict=True
            )
        ]
        selected = query.select_input(table, *(column for column, _ in carried))
        fields = [
            *(StructField(name, kind) for name, kind in zip(self._keys, key_types, strict=True)),
            *(field for _, field in carried),
            *([StructField(AT, LongType())] if AT in selected.columns else []),
            StructField(EVENT, BinaryType()),
        ]
        flatten = FlattenTask(
            self._task,
            tuple(sorted(attributes_of(query.version).union(also))),
            query.options.on_error == "skip",
        )
        work = Work(flatten.run, "tamis_flatten")
        self._flat = selected.mapInArrow(work, StructType(fields))
        self._times = [AT] if AT in selected.columns else []

    @property
    def _keys(self) -> list[str]:
        return key_names(len(self._query.keys))

    def publish_table(self, retained: Retained) -> DataFrame:
        """Publish the events of a table: sorted, one group after the other."""
        parts = self._flat.repartition(*self.groups) if self.groups else self._flat.repartition(1)
        in_order = parts.sortWithinPartitions(*self.groups, *self.order, EVENT)
        ready = in_order.select(*self._keys, *self._times, *self.groups, EVENT)
        task = PublishTask(self._task, retained, len(self.groups))
        work = self._query.name_work(task.run, self._spark)
        return ready.mapInArrow(work, self._query.schema)

    def publish_stream(self, retained: Retained, at: At) -> DataFrame:
        """Publish the events of a stream, with documents in its state."""
        if self._spark.conf.get(_PROVIDER, "") != _ROCKSDB:
            raise EventError(
                "a stream that remembers events needs the RocksDB state store: "
                f"spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
            )
        for key in self._query.keys:
            if not isinstance(key.dataType, SORTABLE):
                raise EventError(
                    f"the key {key.name!r} of a stream is of type {key.dataType.simpleString()}; "
                    "cast it to a string"
                )
        types = [_plain_type(field.dataType) for field in self._query.keys]
        plain = [
            _to_plain(F.col(name), field.dataType).alias(name)
            for name, field in zip(self._keys, self._query.keys, strict=True)
        ]
        others = [*self.groups, *self.order, *self._times, EVENT]
        # Spark groups by columns only, not by constants.
        one_group = [] if self.groups else [F.lit(0).alias("g")]
        now = [F.unix_micros(F.current_timestamp()).alias(BATCH_TIME)]
        flat = self._flat.select(*plain, *others, *(now if retained.by_arrival else []), *one_group)
        grouped = flat.groupBy(*(self.groups or ["g"]))
        task = replace(self._task, keys=tuple(self._keys))
        # State that expires by itself would make Spark run one empty batch after the other.
        expires = retained.by_arrival and self._spark.conf.get(_NO_DATA_BATCHES) == "false"
        processor = PublishProcessor(
            task,
            retained,
            None if at is None or isinstance(at, str) else self._task.at,
            len(self.order),
            bool(self.groups),
            expires,
        )
        fields = [StructField(name, kind) for name, kind in zip(self._keys, types, strict=True)]
        answered = grouped.transformWithState(
            processor,
            StructType([*fields, *self._query.answers]),
            "Append",
            "ProcessingTime" if expires else "None",
        )
        names = [field.name for field in self._query.answers]
        keys = [
            _from_plain(F.col(name), field.dataType).alias(name)
            for name, field in zip(self._keys, self._query.keys, strict=True)
        ]
        return answered.select(*keys, *names).toDF(*self._query.schema.names)


def _to_retained(retention: Retention | None) -> Retained:
    if retention is None:
        return Retained()
    if retention.clock is not None:
        raise EventError(
            "a clock cannot go to workers, so leave out clock=: a stream has the times of its "
            "batches, and Retention(age=…, by=…) takes the times of the events"
        )
    return Retained(retention.count, retention.age, retention.by)


def _find_reason(events_df: DataFrame, query: Query, retained: Retained, first: int) -> str | None:
    """Why the events of one group have to see those of others; None if they do not.

    `first` is the place of the first column of order.
    """
    if retained.most is not None:
        return "a limit on the number of all documents counts those of all groups; limit their age"
    if retained.by is None:
        return None
    # In the order of their times, no event of another group is newer than the last of its own.
    field = events_df.schema[first]
    is_time = isinstance(field.dataType, TimestampType | TimestampNTZType | DateType)
    is_read = (first, retained.by) in {(place, f.name) for place, f in query.columns.fields}
    has_type = query.version.schema.get(retained.by, "timestamp") == "timestamp"
    is_flat = query.columns.shape == "columns" and query.columns.event is None
    if is_time and is_read and is_flat and has_type and not events_df.isStreaming:
        return None
    return (
        f"Retention(by={retained.by!r}) forgets documents by the newest time of all events; "
        "groups need a table with that column, of timestamps or dates, as the first of order="
    )


def _find_order(schema: StructType, order: str | Sequence[str]) -> list[int]:
    """The places of the columns of order."""
    names = [order] if isinstance(order, str) else list(order)
    if not names:
        raise EventError("which event came first? pass order=, a column or several")
    places = []
    for name in names:
        if schema.names.count(name) != 1:
            raise EventError(
                f"there is no column {name!r} for order=, or several; the columns are "
                f"{', '.join(schema.names)}"
            )
        place = schema.names.index(name)
        if not isinstance(schema[place].dataType, SORTABLE):
            raise EventError(
                f"order={name!r} is of type {schema[place].dataType.simpleString()}; it has to be "
                "a whole number, a decimal, a string, a date or a timestamp"
            )
        places.append(place)
    return places


def _find_attribute(query: Query, name: str) -> tuple[Column, DataType]:
    """An attribute of the event as a column, by the names of `Query.select_input`."""
    columns = query.columns
    if columns.event is None:
        place, field = next(found for found in columns.fields if found[1].name == name)
        return F.col(f"c{place}"), field.dataType
    whole = F.col(f"c{columns.event}")
    if isinstance(columns.data_type, StructType):
        return whole.getField(name), columns.data_type[name].dataType
    value_type: Any = columns.data_type
    return whole.getItem(name), value_type.valueType


def _to_plain(column: Column, kind: DataType) -> Column:
    """A time as a number: rows of Python have no time zone."""
    return F.unix_micros(column) if isinstance(kind, TimestampType) else column


def _from_plain(column: Column, kind: DataType) -> Column:
    return F.timestamp_micros(column) if isinstance(kind, TimestampType) else column


def _plain_type(kind: DataType) -> DataType:
    return LongType() if isinstance(kind, TimestampType) else kind
