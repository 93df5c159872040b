"""What of a table's columns is an event, and what it is known by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tamis.errors import EventError
from tamis.spark.match.worker import Shape

__all__ = ["EventColumns", "Names", "choose"]

Names = str | Sequence[str] | None

_READABLE = (
    BooleanType,
    ByteType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
"""What a value of an event can be."""

_DEFAULT_KEYS = ("event_id", "id", "event")


class EventColumns(NamedTuple):
    """Columns of a table, by their places: names may have dots, or differ by case only."""

    keys: tuple[int, ...]
    shape: Shape
    event: int | None
    """The column that holds whole events; None where columns are attributes."""
    fields: tuple[tuple[int, StructField], ...]
    """The attributes: columns, or fields of the struct `event`. Others make no difference."""
    kind: DataType
    """The type of an event, without what makes no difference."""

    def column(self, columns: Sequence[Column]) -> Column:
        """The event, made of all columns of the table."""
        if self.event is not None and not isinstance(self.kind, StructType):
            return columns[self.event]
        if not self.fields:
            return F.struct(F.lit(None).cast("boolean").alias("nothing"))
        if self.event is None:
            parts = [columns[place].alias(field.name) for place, field in self.fields]
        else:
            whole = columns[self.event]
            parts = [whole.getField(field.name).alias(field.name) for _, field in self.fields]
        return F.struct(*parts)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """As `column`, of a batch of the whole table."""
        if self.event is not None:
            return batch.column(self.event)
        names = [field.name for _, field in self.fields]
        arrays = [batch.column(place) for place, _ in self.fields]
        if not names:
            arrays, names = [pa.nulls(batch.num_rows)], ["nothing"]
        return pa.StructArray.from_arrays(arrays, names)

    def blank(self) -> pa.Array:
        """One event without values, in the type in which Spark sends events."""
        try:
            return pa.nulls(1, to_arrow_type(self.kind, timezone="UTC"))
        except PySparkException as error:
            raise EventError(f"Spark cannot send such events to Python: {error}") from error


def choose(
    schema: StructType, keys: Names, events: Names, attributes: frozenset[str]
) -> EventColumns:
    """The columns that keys and events are made of.

    Parameters
    ----------
    schema
        Of the table.
    keys, events
        As users give them.
    attributes
        What rules mention.

    Raises
    ------
    EventError
        A column is not there, or is no event.
    """
    places = tuple(_place(schema, name) for name in _key_names(schema, keys))
    if isinstance(events, str):
        return _whole_events(schema, places, _place(schema, events), attributes)
    if events is None:
        chosen = list(enumerate(schema.fields))
    else:
        chosen = [(place, schema.fields[place]) for place in _places(schema, events)]
    fields = tuple((place, field) for place, field in chosen if _matters(field.name, attributes))
    for _, field in fields:
        _place(schema, field.name)
    kind = StructType([field for _, field in fields])
    _check_type("", kind, attributes)
    return EventColumns(places, "columns", None, fields, kind)


def _whole_events(
    schema: StructType, keys: tuple[int, ...], place: int, attributes: frozenset[str]
) -> EventColumns:
    """Events that are in one column."""
    name, kind = schema.fields[place].name, schema.fields[place].dataType
    match kind:
        case StringType():
            return EventColumns(keys, "json", place, (), kind)
        case MapType() if isinstance(kind.keyType, StringType):
            _check_value(name, kind.valueType)
            return EventColumns(keys, "columns", place, (), kind)
        case StructType():
            fields = [field for field in kind.fields if _matters(field.name, attributes)]
            _check_type("", StructType(fields), attributes)
            kept = tuple((number, field) for number, field in enumerate(fields))
            return EventColumns(keys, "columns", place, kept, StructType(fields))
    raise EventError(
        f"events={name!r} is of the type {kind.simpleString()}; a column of events holds structs, "
        f"maps from strings, or JSON texts; where columns are attributes, pass events=[{name!r}, …]"
    )


def _matters(name: str, attributes: frozenset[str]) -> bool:
    """Whether rules mention `name`, or something in it."""
    return name in attributes or any(known.startswith(f"{name}.") for known in attributes)


def _key_names(schema: StructType, keys: Names) -> list[str]:
    if isinstance(keys, str):
        return [keys]
    if keys is not None:
        return list(keys)
    for name in _DEFAULT_KEYS:
        found = [field for field in schema.fields if field.name == name]
        if found and not isinstance(found[0].dataType, StructType | MapType | ArrayType):
            return [name]
    raise EventError(
        "which columns tell one event from another? pass keys=; without it the column "
        f"{', '.join(_DEFAULT_KEYS[:-1])} or {_DEFAULT_KEYS[-1]} is taken, but the columns are "
        f"{', '.join(schema.names)}"
    )


def _places(schema: StructType, names: Sequence[str]) -> list[int]:
    return [_place(schema, name) for name in names]


def _place(schema: StructType, name: str) -> int:
    places = [place for place, other in enumerate(schema.names) if other == name]
    if len(places) == 1:
        return places[0]
    if places:
        raise EventError(f"{len(places)} columns are called {name!r}; rename or drop one")
    raise EventError(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")


def _check_type(path: str, kind: DataType, attributes: frozenset[str]) -> None:
    """Refuse what rules mention, but cannot compare."""
    if path and not _matters(path, attributes):
        return
    match kind:
        case StructType():
            for field in kind.fields:
                inner = f"{path}.{field.name}" if path else field.name
                _check_type(inner, field.dataType, attributes)
        case ArrayType():
            _check_type(path, kind.elementType, attributes)
        case MapType():
            _check_value(path, kind.valueType)
        case _:
            _check_value(path, kind)


def _check_value(path: str, kind: DataType) -> None:
    if not isinstance(kind, (*_READABLE, StructType, ArrayType, MapType)):
        raise EventError(
            f"column {path!r} has the type {kind.simpleString()}, which no rule can compare; "
            "cast it to a string, an integer, a double, a boolean or a timestamp"
        )
