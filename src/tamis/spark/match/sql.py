"""Match in SQL with a table function: ``SELECT * FROM tamis_match(TABLE(events))``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, cast, get_args

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import UserDefinedTableFunction

from tamis.errors import EventError
from tamis.matcher.inputs import holds_texts
from tamis.spark.index.layout import PathLike
from tamis.spark.match.arrow_types import to_arrow_schema
from tamis.spark.match.event_columns import no_event_message
from tamis.spark.match.explanations import RULE, ExplainTask, check_style
from tamis.spark.match.options import Ask, Explain, MatchOptions, Names, Only, Output, Style
from tamis.spark.match.query import attributes_of, check_names, choose_version, make_task
from tamis.spark.match.worker import EVENT, MatchTask, Shape, key_names
from tamis.spark.runtime.work import Work

__all__ = ["register"]


def register(
    spark: SparkSession,
    path: PathLike,
    name: str = "tamis_match",
    *,
    ask: Ask | Explain | Literal["match_expression"] = "match",
    n: int = 5,
    keys: str | StructType = "id STRING",
    events: Names = None,
    version: int | None = None,
    ship: bool = False,
    only: Only = None,
    at: datetime | None = None,
    style: Style = "text",
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
        ``"match"``, ``"counts"``, ``"first"``, ``"top"``, ``"match_expression"``, ``"explain"``,
        ``"why"`` or ``"why_not"``: the answers are those of the function of that name. To explain
        pairs, the table has a column ``rule`` beside the columns of the event.
    n
        How many rules ``"first"`` and ``"top"`` give at most.
    keys
        The columns that identify an event, with their types, which SQL has to know in advance:
        ``"id BIGINT, day DATE"``. Columns of other types are cast.
    events, version, ship, only
        As in :func:`match`.
    at
        When rules have to be valid; by default now.
    style
        As in :func:`explain`.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    """
    check_style(style)
    output: Output = "match" if ask == "match_expression" else ask
    if ask == "match_expression" and not isinstance(events, str):
        raise EventError("which column holds the expressions? pass events=")
    fields = cast(StructType, StructType.fromDDL(keys)) if isinstance(keys, str) else keys
    chosen, answers = choose_version(path, version, output, n)
    check_names(fields.fields, answers)
    options = MatchOptions(ship=ship, only=only, at=at)
    shape: Shape = "expressions" if ask == "match_expression" else "columns"
    task = make_task(spark, (chosen.shards,), options, output, n, shape, fields.names, answers)
    names = events if events is None or isinstance(events, str) else tuple(events)
    attributes = tuple(sorted(attributes_of(chosen)))
    table_task = _TableTask(task, to_arrow_schema(fields), names, attributes, style)

    class TamisMatch:
        def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            # As in `Work`: errors reach the driver as they are.
            yield from Work(lambda tables: table_task.run(next(tables)), name)(iter([table]))

    returned = StructType([*fields.fields, *answers])
    function = cast(UserDefinedTableFunction, arrow_udtf(TamisMatch, returnType=returned))
    spark.udtf.register(name, function)


@dataclass(frozen=True)
class _TableTask:
    """Answers each batch of a table, whose columns are not known earlier."""

    task: MatchTask
    keys: pa.Schema
    events: str | tuple[str, ...] | None
    attributes: tuple[str, ...]
    """The attributes that rules mention."""
    style: Style

    def run(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        keys = [_column(table, key.name).cast(key.type) for key in self.keys]
        given = {RULE: _column(table, RULE)} if self.task.ask in ("explain", "why_not") else {}
        if isinstance(self.events, str):
            event = _column(table, self.events)
        else:
            names = self.events or [name for name in table.schema.names if name not in given]
            event = pa.StructArray.from_arrays([_column(table, name) for name in names], names)
        task = self.task
        if task.shape == "columns" and isinstance(self.events, str):
            if holds_texts(event.type):
                task = replace(task, shape="json")
            elif not (pa.types.is_struct(event.type) or pa.types.is_map(event.type)):
                raise EventError(no_event_message(self.events, str(event.type)))
        rules = [rule.cast(self.task.answers.field(RULE).type) for rule in given.values()]
        names = [*key_names(len(keys)), *given, EVENT]
        batch = pa.RecordBatch.from_arrays([*keys, *rules, event], names)
        if task.ask in get_args(Explain):
            yield from ExplainTask(task, self.attributes, self.style, skip=False).answer(batch)
        else:
            yield from task.answer(batch)


def _column(table: pa.RecordBatch, name: str) -> pa.Array:
    place = table.schema.get_field_index(name)
    if place < 0:
        raise EventError(
            f"there is no column {name!r} in the table, or several; "
            f"the columns are {', '.join(table.schema.names)}"
        )
    return table.column(place)
