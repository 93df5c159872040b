"""Match in SQL with a table function: ``SELECT * FROM tamis_match(TABLE(events))``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import UserDefinedTableFunction

from tamis.errors import EventError
from tamis.spark.index.layout import PathLike
from tamis.spark.match.arrow_types import to_arrow_schema
from tamis.spark.match.options import Ask, MatchOptions, Names, Only
from tamis.spark.match.query import check_names, choose_version, make_task
from tamis.spark.match.worker import EVENT, MatchTask, key_names

__all__ = ["register"]


def register(
    spark: SparkSession,
    path: PathLike,
    name: str = "tamis_match",
    *,
    ask: Ask = "match",
    n: int = 5,
    keys: str | StructType = "id STRING",
    events: Names = None,
    version: int | None = None,
    ship: bool = False,
    only: Only = None,
    at: datetime | None = None,
) -> None:
    """Register an SQL function that matches the rows of a table.

    All columns of the table go to Python; ``TABLE(SELECT id, price FROM events)`` leaves out those
    that rules do not mention.

    Parameters
    ----------
    spark
        The session.
    path
        A published index. The function keeps the version that is current now; register it again
        to use a newer one.
    name
        The name of the function in SQL.
    ask
        ``"match"``, ``"counts"``, ``"first"`` or ``"top"``: the answers are those of the function
        of that name.
    n
        How many rules ``"first"`` and ``"top"`` give at most.
    keys
        The columns that identify an event, with their types, which SQL has to know in advance:
        ``"id BIGINT, day DATE"``. Columns of other types are cast.
    events, version, ship, only
        As in :func:`match`.
    at
        When rules have to be valid; by default now.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    """
    fields = cast(StructType, StructType.fromDDL(keys)) if isinstance(keys, str) else keys
    chosen, answers = choose_version(path, version, ask, n)
    check_names(fields.fields, answers)
    options = MatchOptions(ship=ship, only=only, at=at)
    task = make_task(spark, (chosen.shards,), options, ask, n, "columns", fields.names, answers)
    names = events if events is None or isinstance(events, str) else tuple(events)
    table_task = _TableTask(task, to_arrow_schema(fields), names)

    class TamisMatch:
        def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            yield from table_task.run(table)

    returned = StructType([*fields.fields, *answers])
    function = cast(UserDefinedTableFunction, arrow_udtf(TamisMatch, returnType=returned))
    spark.udtf.register(name, function)


@dataclass(frozen=True)
class _TableTask:
    """Answers each batch of a table, whose columns are not known earlier."""

    task: MatchTask
    keys: pa.Schema
    events: str | tuple[str, ...] | None

    def run(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        keys = [_column(table, key.name).cast(key.type) for key in self.keys]
        if isinstance(self.events, str):
            event = _column(table, self.events)
        else:
            names = self.events or table.schema.names
            event = pa.StructArray.from_arrays([_column(table, name) for name in names], names)
        is_text = pa.types.is_string(event.type) or pa.types.is_large_string(event.type)
        task = replace(self.task, shape="json") if is_text else self.task
        names = [*key_names(len(keys)), EVENT]
        yield from task.answer(pa.RecordBatch.from_arrays([*keys, event], names))


def _column(table: pa.RecordBatch, name: str) -> pa.Array:
    place = table.schema.get_field_index(name)
    if place < 0:
        raise EventError(
            f"there is no column {name!r} in the table, or several; "
            f"the columns are {', '.join(table.schema.names)}"
        )
    return table.column(place)
