"""The rows of Arrow data as mappings, for what cannot be done column by column."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrow_layouts import plain
from tamis.encode.arrow_values import (
    EVENT,
    EVERYTHING,
    UnreadableValues,
    check_depth,
    columns_of,
    parts_of,
    readable,
    rows_of,
)

__all__ = ["UnreadableValue", "read_rows", "to_mappings"]


class UnreadableValue:
    """Stands for a value that no kind can hold."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __repr__(self) -> str:
        return f"<{self._reason}>"


def to_mappings(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch as mappings, with all attributes.

    Where `to_pylist` gives pairs for a map, or fails, this gives what rules mean by the row. Values
    that no kind can hold are there, too: they matter only to a rule that mentions them.
    """
    return _read(batch, _Wanted(EVERYTHING, EVERYTHING), 0)


def read_rows(
    batch: pa.RecordBatch, attributes: Collection[str], first: int = 0
) -> list[dict[str, Any]]:
    """The rows of a batch as mappings, with only these attributes.

    Values of columns with the same name become a list, and so do those of a repeated key of a map.

    Parameters
    ----------
    batch
        Each row is an event.
    attributes
        The attributes to read.
    first
        The number of the first event, for errors.

    Raises
    ------
    EventError
        One of these attributes has a value that no kind can hold.
    """
    return _read(batch, _Wanted(frozenset(attributes), columns_of(attributes)), first)


def _read(batch: pa.RecordBatch, wanted: _Wanted, first: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in wanted.columns:
            continue
        try:
            check_depth(name, column)
            values = _python_values(name, column, None, wanted)
        except UnreadableValues as unreadable:
            raise unreadable.error(first) from None
        for row, value in zip(rows, values, strict=True):
            if name == EVENT:
                _add_event(row, value)
            else:
                _add_item(row, name, value)
    return rows


class _Wanted(NamedTuple):
    """What to read of a batch."""

    attributes: frozenset[str]
    columns: frozenset[str]
    """The columns, structs and maps that may have these attributes."""


def _add_event(row: dict[str, Any], value: Any) -> None:
    """Add the attributes of a whole event, or of a list of such."""
    if isinstance(value, dict):
        for key, item in value.items():
            _add_item(row, key, item)
    elif isinstance(value, list):
        for part in value:
            _add_event(row, part)


def _add_item(row: dict[str, Any], key: str, item: Any) -> None:
    row[key] = [row[key], item] if key in row else item


def _python_values(
    path: str, values: pa.Array, rows: NDArray[np.int64] | None, wanted: _Wanted
) -> list[Any]:
    """The values of a column as Python's, without the attributes that are not wanted."""
    result: list[Any] = [None] * len(values)
    if path not in wanted.columns:
        return result
    values = plain(values)
    kind = values.type
    if not pa.types.is_nested(kind):
        if path in wanted.attributes:
            result = _leaf_values(path, values, rows, wanted.attributes is EVERYTHING)
        return result
    for name, inner, places, in_list in parts_of(path, values, rows, wanted.columns):
        at = rows if places is None else rows_of(values, rows)[places]
        items = _python_values(name, inner, at, wanted)
        key = None if name == path else name[len(path) + 1 :] if path else name
        owners = range(len(values)) if places is None else places.tolist()
        for owner, item in zip(owners, items, strict=True):
            if in_list:
                result[owner] = [] if result[owner] is None else result[owner]
                result[owner].append(item)
            elif key is None:
                result[owner] = item
            else:
                result[owner] = {} if result[owner] is None else result[owner]
                _add_item(result[owner], key, item)
    return result


def _leaf_values(
    path: str, values: pa.Array, rows: NDArray[np.int64] | None, with_unreadable: bool
) -> list[Any]:
    """Values that are not nested; those that cannot be read are an error, or stand for themselves.

    Raises
    ------
    UnreadableValues
        Some of them cannot be read.
    """
    try:
        found: list[Any] = readable(path, values, rows).to_pylist()
        return found
    except UnreadableValues as unreadable:
        if not with_unreadable:
            raise
        if len(values) == 1:
            return [UnreadableValue(str(unreadable))]
    return [
        item
        for place in range(len(values))
        for item in _leaf_values(path, values.slice(place, 1), None, True)
    ]
