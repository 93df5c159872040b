"""The rows of Arrow data as mappings, for what cannot be done column by column."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrow_values import (
    EVENT,
    UnreadableValues,
    columns_of,
    is_list,
    list_lengths,
    map_columns,
    readable,
    rows_of,
    within,
)

__all__ = ["read_rows"]


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
    wanted = _Wanted(frozenset(attributes), columns_of(attributes))
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in wanted.columns:
            continue
        try:
            values = _python_values(name, column, None, wanted)
        except UnreadableValues as unreadable:
            raise unreadable.error(first) from None
        for row, value in zip(rows, values, strict=True):
            for key, item in (value or {}).items() if name == EVENT else [(name, value)]:
                _add_item(row, key, item)
    return rows


class _Wanted(NamedTuple):
    """What to read of a batch."""

    attributes: frozenset[str]
    columns: frozenset[str]
    """The columns, structs and maps that may have these attributes."""


def _add_item(row: dict[str, Any], key: str, item: Any) -> None:
    row[key] = [row[key], item] if key in row else item


def _python_values(
    path: str, values: pa.Array, rows: NDArray[np.int64] | None, wanted: _Wanted
) -> list[Any]:
    """The values of a column as Python's, without the attributes that are not wanted."""
    kind = values.type
    if pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type):
        values = values.dictionary_decode()
        kind = values.type
    result: list[Any] = [None] * len(values)
    if path not in wanted.columns:
        return result
    if pa.types.is_struct(kind):
        result = [{} for _ in result]
        for field, child in zip(kind, values.flatten(), strict=True):
            name = within(path, field.name)
            for row, item in zip(result, _python_values(name, child, rows, wanted), strict=True):
                _add_item(row, field.name, item)
    elif pa.types.is_map(kind):
        result = [{} for _ in result]
        lengths = list_lengths(values)
        owners = np.repeat(np.arange(len(values)), lengths)
        inner = np.repeat(rows_of(values, rows), lengths)
        for name, items, places in map_columns(path, values, inner, wanted.columns):
            key = name[len(path) + 1 :] if path else name
            found = _python_values(name, items, inner[places], wanted)
            for owner, item in zip(owners[places].tolist(), found, strict=True):
                _add_item(result[owner], key, item)
    elif is_list(kind):
        lengths = list_lengths(values)
        inner = np.repeat(rows_of(values, rows), lengths)
        items = iter(_python_values(path, values.flatten(), inner, wanted))
        result = [list(islice(items, length)) for length in lengths.tolist()]
    elif path in wanted.attributes:
        result = readable(path, values, rows).to_pylist()
    return result
