"""Choose the attributes by which events fall into groups that never see each other's documents.

If every join predicate of an index has ``d.user = user`` among the conjuncts of its condition, an
event only ever counts documents of the same user. So each user's events can be matched apart, on
whichever worker. Other conditions, and comparisons with ANY and ALL, do not help: a document
without the attribute makes those unknown, and so belongs to every group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from tamis.errors import EventError
from tamis.expr.joins.predicate import Comparison, Condition, Every, Join
from tamis.expr.model import Op
from tamis.spark.match.event_columns import EventColumns
from tamis.spark.match.options import Names

__all__ = ["SORTABLE", "choose_groups", "find_equated"]

SORTABLE = (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
"""Types whose values are equal, and in the same order, in Spark, in Python and for rules."""

_BINARY = "UTF8_BINARY"
"""The collation in which texts are equal if their bytes are."""


def find_equated(joins: Iterable[Join]) -> frozenset[str]:
    """The attributes that every join predicate equates: no event sees documents with others."""
    sets = [frozenset(_equated_by(join.where)) for join in joins]
    return frozenset.intersection(*sets) if sets else frozenset()


def _equated_by(condition: Condition) -> Iterator[str]:
    match condition:
        case Every():
            for child in condition.children:
                yield from _equated_by(child)
        case Comparison(op=Op.EQ, negated=False, shift=None) if condition.old == condition.new:
            yield condition.new


def choose_groups(
    by: Names,
    joins: Iterable[Join],
    columns: EventColumns,
    schema: Mapping[str, Any],
    *,
    together: str | None,
) -> tuple[str, ...]:
    """Choose the attributes by which events are grouped; none if all events are one group.

    Parameters
    ----------
    by
        The user's choice; by default all that are possible.
    joins
        The join predicates of the index.
    columns
        The columns of events.
    schema
        The declared types of attributes.
    together
        Why all events have to be one group, if they have to.

    Raises
    ------
    EventError
        The user's choice would change answers.
    """
    equated = find_equated(joins)
    if by is None:
        if together is not None:
            return ()
        return tuple(name for name in sorted(equated) if _is_groupable(name, columns, schema))
    chosen = (by,) if isinstance(by, str) else tuple(by)
    for name in chosen:
        if together is not None:
            raise EventError(f"by={name!r} would change answers: {together}")
        if name not in equated:
            raise EventError(
                f"by={name!r} would change answers: a rule refers to earlier events without "
                f"d.{name} = {name} in its condition"
            )
        if not _is_groupable(name, columns, schema):
            raise EventError(
                f"events cannot be grouped by {name!r}: that takes a column, a field of a struct "
                "or a key of a map, of a type with one value (not a double, not JSON)"
            )
    return chosen


def _is_groupable(name: str, columns: EventColumns, schema: Mapping[str, Any]) -> bool:
    kind = _type_of(name, columns)
    if not isinstance(kind, SORTABLE):
        return False
    declared = schema.get(name)
    if not isinstance(kind, StringType):
        return declared is None or isinstance(declared, str)
    # Different texts may be the same number or time.
    return declared in (None, "string") and getattr(kind, "collation", _BINARY) == _BINARY


def _type_of(name: str, columns: EventColumns) -> DataType | None:
    """The type of an attribute; None where it cannot be read in Spark."""
    if isinstance(columns.data_type, MapType):
        return columns.data_type.valueType
    found: list[StructField] = [field for _, field in columns.fields if field.name == name]
    return found[0].dataType if len(found) == 1 and columns.shape == "columns" else None
