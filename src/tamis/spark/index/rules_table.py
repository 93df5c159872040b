"""Check the user's table of rules or changes, and select its columns under fixed names."""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from tamis.errors import RuleError
from tamis.expr.model import LOGICS
from tamis.spark.index.rows import DELETED, ID, LOGIC, PRIORITY, RULE, TAGS, VALID_FROM, VALID_UNTIL

__all__ = ["ColumnName", "Columns", "encode_sample", "find_columns", "select_columns"]

ColumnName: TypeAlias = str | EllipsisType | None
"""A column, None for no column, or ``...`` for the one with the usual name, if there is one."""

Columns: TypeAlias = Mapping[str, str | None]
"""The name of each column in the user's table, by its name on executors; None if it has none."""

_SAMPLE_SIZE: Final = 10_000
"""How many events of a sample are used at most."""

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (TimestampType, TimestampNTZType, DateType)


def find_columns(table: DataFrame, columns: Mapping[str, ColumnName]) -> Columns:
    """Replace ``...`` by the usual name of a column, or by None if the table has no such column."""
    names = set(table.columns)
    usual = {role: role if role in names else None for role in columns}
    return {role: usual[role] if name is ... else name for role, name in columns.items()}


def select_columns(table: DataFrame, columns: Columns, what: str) -> tuple[DataFrame, str]:
    """Select the named columns under their names on executors; also return the type of the ids.

    Parameters
    ----------
    table
        The user's table.
    columns
        The columns to select.
    what
        What the rows are, for error messages: ``"rules"`` or ``"changes"``.

    Raises
    ------
    RuleError
        A column is missing, or has the wrong type.
    """
    types = {field.name: field.dataType for field in table.schema.fields}
    named = {role: name for role, name in columns.items() if name is not None}
    for role, name in named.items():
        if name not in types:
            raise RuleError(_explain_missing(role, name, list(types), what))
    for role, name in named.items():
        _check_type(role, name, types[name], what)
    id_type = "string" if isinstance(types[named[ID]], StringType) else "long"
    selected = [
        _convert(role, name, id_type, types[name]).alias(role) for role, name in named.items()
    ]
    if DELETED in columns and DELETED not in named:
        selected.append(F.lit(False).alias(DELETED))
    return table.select(*selected), id_type


def encode_sample(sample: DataFrame | None) -> bytes:
    """Collect some events as an Arrow stream; empty without a sample."""
    if sample is None:
        return b""
    events = sample.limit(_SAMPLE_SIZE).toArrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_table(events)
    return bytes(sink.getvalue())


def _explain_missing(role: str, name: str, known: list[str], what: str) -> str:
    message = f"the table of {what} has no column {name!r}; it has {', '.join(known) or 'none'}"
    if role == LOGIC and name in LOGICS:
        return f"{message}. For a logic that all rules have, pass default_logic={name!r}"
    if role == DELETED:
        return f"{message}. If no rule is deleted, pass delete=None"
    return f"{message}; name it with {role}="


def _check_type(role: str, name: str, found: DataType, what: str) -> None:
    if role == ID:
        fits, wanted = isinstance(found, (StringType, *_INTEGERS)), "a string or an integer"
    elif role == TAGS:
        inner = found.elementType if isinstance(found, ArrayType) else None
        fits, wanted = isinstance(inner, StringType), "an array of strings"
    elif role == DELETED:
        fits, wanted = isinstance(found, BooleanType), "a boolean"
    elif role == PRIORITY:
        fits, wanted = isinstance(found, (*_INTEGERS, StringType)), "an integer"
    elif role in (VALID_FROM, VALID_UNTIL):
        fits = isinstance(found, (*_TIMES, StringType))
        wanted = "a timestamp, a date, or a text in ISO form"
    else:
        fits = isinstance(found, StringType)
        wanted = "a string; to_json() makes one of a struct, a map or a variant"
    if not fits:
        raise RuleError(
            f"the column {name!r} of the table of {what} is of type {found.simpleString()}; "
            f"{role} has to be {wanted}{_say_unused(role)}"
        )


def _say_unused(role: str) -> str:
    """How to leave out a column that is not meant."""
    return "" if role in (ID, RULE) else f"; pass {role}=None if the column means something else"


def _convert(role: str, name: str, id_type: str, data_type: DataType) -> Column:
    # In backticks a dot is a part of the name.
    column = F.col("`" + name.replace("`", "``") + "`")
    if role == ID:
        return column.cast(id_type)
    if role in (VALID_FROM, VALID_UNTIL) and isinstance(data_type, DateType):
        # A date begins at midnight UTC, whatever the time zone of the session.
        return column.cast("timestamp_ntz")
    return F.coalesce(column, F.lit(False)) if role == DELETED else column
