"""Choose the columns of a table that are keys, and those that make up events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
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
from tamis.spark.match.arrow_types import to_arrow_type
from tamis.spark.match.options import Names
from tamis.spark.match.packed_columns import Packing
from tamis.spark.match.worker import Shape

__all__ = ["EventColumns", "choose_columns", "choose_keys", "no_event_message"]

_READABLE = (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
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
"""The types that values of an event can have, apart from nested ones."""

_PACKED = tuple(kind for kind in _READABLE if kind is not NullType)

_DEFAULT_KEYS = ("event_id", "id", "event")


class EventColumns(NamedTuple):
    """Columns of a table, by position: names may have dots, or differ only by case."""

    keys: tuple[int, ...]
    shape: Shape
    event: int | None
    """The column that holds whole events; None if columns are attributes."""
    fields: tuple[tuple[int, StructField], ...]
    """The attributes that rules mention: columns, or fields of the struct `event`."""
    data_type: DataType
    """The type of an event, reduced to what rules mention."""
    packing: Packing | None = None
    """How columns are packed on their way to Python, if they are; see `pack`."""

    def pack(self) -> EventColumns:
        """The same columns, packed if they are attributes, and many of them have one type."""
        if self.event is not None:
            return self
        fields = [field for _, field in self.fields]
        types = [field.dataType for field in fields]
        # Spark has no arrays of nothing, and other types than these are rarely repeated.
        kinds = [t if isinstance(t, _PACKED) else place for place, t in enumerate(types)]
        return self._replace(packing=Packing.of([field.name for field in fields], kinds))

    def event_column(self, columns: Sequence[Column]) -> Column:
        """The event, as an expression over all columns of the table."""
        if self.event is not None and not isinstance(self.data_type, StructType):
            return columns[self.event]
        if not self.fields:
            return F.struct(F.lit(None).cast("boolean").alias("nothing"))
        if self.event is None:
            parts = [columns[place].alias(field.name) for place, field in self.fields]
            if self.packing is not None:
                parts = _pack_columns(parts, self.packing)
        else:
            whole = columns[self.event]
            parts = [whole.getField(field.name).alias(field.name) for _, field in self.fields]
        return F.struct(*parts)

    def event_array(self, batch: pa.RecordBatch) -> pa.Array:
        """The events of a batch of the whole table."""
        if self.event is not None:
            return batch.column(self.event)
        names = [field.name for _, field in self.fields]
        arrays = [batch.column(place) for place, _ in self.fields]
        if not names:
            arrays, names = [pa.nulls(batch.num_rows)], ["nothing"]
        return pa.StructArray.from_arrays(arrays, names)

    def blank_event(self) -> pa.Array:
        """One event without values, in the type in which Spark sends events."""
        try:
            return pa.nulls(1, to_arrow_type(self.data_type))
        except PySparkException as error:
            raise EventError(f"Spark cannot send such events to Python: {error}") from error


def _pack_columns(parts: Sequence[Column], packing: Packing) -> list[Column]:
    """Arrays of columns, and the columns that are in no array, in the order of `Packing.unpack`."""
    arrays = [F.array(*(parts[place] for place in places)) for places in packing.arrays]
    together = [*arrays, *(parts[place] for place in packing.rest)]
    return [column.alias(f"p{number}") for number, column in enumerate(together)]


def choose_columns(
    schema: StructType, keys: Names, events: Names, attributes: frozenset[str]
) -> EventColumns:
    """Choose the columns of keys and events.

    Parameters
    ----------
    schema
        The schema of the table.
    keys, events
        As in :func:`tamis.spark.match`.
    attributes
        The attributes that rules mention.

    Raises
    ------
    EventError
        A column is missing, or cannot be an event.
    """
    key_places = tuple(_find_column(schema, name) for name in choose_keys(schema, keys))
    if isinstance(events, str):
        return _choose_whole(schema, key_places, _find_column(schema, events), attributes)
    if events is None:
        chosen = list(enumerate(schema.fields))
    else:
        places = [_find_column(schema, name) for name in events]
        chosen = [(place, schema.fields[place]) for place in places]
    fields = tuple((place, field) for place, field in chosen if _matters(field.name, attributes))
    for _, field in fields:
        _find_column(schema, field.name)
    data_type = StructType([field for _, field in fields])
    _check_type("", data_type, attributes)
    return EventColumns(key_places, "columns", None, fields, data_type)


def _choose_whole(
    schema: StructType, keys: tuple[int, ...], place: int, attributes: frozenset[str]
) -> EventColumns:
    """Choose events that are in one column."""
    name, data_type = schema.fields[place].name, schema.fields[place].dataType
    match data_type:
        case StringType() | BinaryType():
            return EventColumns(keys, "json", place, (), data_type)
        case MapType() if isinstance(data_type.keyType, StringType):
            _check_value(name, data_type.valueType)
            return EventColumns(keys, "columns", place, (), data_type)
        case StructType():
            fields = [field for field in data_type.fields if _matters(field.name, attributes)]
            _check_type("", StructType(fields), attributes)
            return EventColumns(
                keys, "columns", place, tuple(enumerate(fields)), StructType(fields)
            )
    raise EventError(no_event_message(name, data_type.simpleString()))


def no_event_message(name: str, kind: str) -> str:
    """What to say of a column that cannot hold events, because of its type."""
    return (
        f"events={name!r} has the type {kind}; a column of events holds structs, maps from "
        f"strings, or JSON texts; if columns are attributes, pass events=[{name!r}, …]"
    )


def _matters(name: str, attributes: frozenset[str]) -> bool:
    """Whether rules mention `name`, or a field inside it."""
    return name in attributes or any(known.startswith(f"{name}.") for known in attributes)


def choose_keys(schema: StructType, keys: Names) -> list[str]:
    """Choose the columns that identify an event: those the user names, else the usual one.

    Raises
    ------
    EventError
        The user names none, and there is no usual one.
    """
    if isinstance(keys, str):
        return [keys]
    if keys is not None:
        return list(keys)
    for name in _DEFAULT_KEYS:
        found = [field for field in schema.fields if field.name == name]
        if found and not isinstance(found[0].dataType, StructType | MapType | ArrayType):
            return [name]
    raise EventError(
        "which columns identify an event? pass keys=; the default is the column "
        f"{', '.join(_DEFAULT_KEYS[:-1])} or {_DEFAULT_KEYS[-1]}, but the columns are "
        f"{', '.join(schema.names)}"
    )


def _find_column(schema: StructType, name: str) -> int:
    places = [place for place, other in enumerate(schema.names) if other == name]
    if len(places) == 1:
        return places[0]
    if places:
        raise EventError(f"{len(places)} columns are called {name!r}; rename or drop one")
    raise EventError(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")


def _check_type(path: str, data_type: DataType, attributes: frozenset[str]) -> None:
    """Refuse types that rules mention but cannot compare."""
    if path and not _matters(path, attributes):
        return
    match data_type:
        case StructType():
            for field in data_type.fields:
                inner = f"{path}.{field.name}" if path else field.name
                _check_type(inner, field.dataType, attributes)
        case ArrayType():
            _check_type(path, data_type.elementType, attributes)
        case MapType():
            _check_value(path, data_type.valueType)
        case _:
            _check_value(path, data_type)


def _check_value(path: str, data_type: DataType) -> None:
    if not isinstance(data_type, (*_READABLE, StructType, ArrayType, MapType)):
        raise EventError(
            f"column {path!r} has the type {data_type.simpleString()}, which rules cannot compare; "
            "cast it to a string, a number, a boolean or a timestamp"
        )
