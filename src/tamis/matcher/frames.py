"""Reads data frames of pandas and polars: as Arrow, or row by row where a column mixes kinds.

Arrow gives a column one type. It makes numbers of booleans beside doubles, and dates of the times
beside dates; so a column of objects is converted only if all its values are of one kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tamis.errors import EventError

__all__ = ["Rows", "read_frame", "read_series"]

_REFUSALS: Final = (
    pa.ArrowException, ArithmeticError, NotImplementedError, TypeError, ValueError,
)  # fmt: skip
"""What Arrow raises about a column that it has no type for."""

_NUMBERS: Final = frozenset((int, float))


class Rows(Sequence[dict[str, Any]]):
    """The rows of columns as events; values of columns with one name become a list."""

    def __init__(self, columns: list[tuple[str, list[Any]]], size: int) -> None:
        self._columns = columns
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: Any) -> Any:
        event: dict[str, Any] = {}
        for name, values in self._columns:
            event[name] = [event[name], values[row]] if name in event else values[row]
        return event

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(self._size))


def read_frame(data: Any) -> pa.Table | Rows | None:
    """The rows of a frame of pandas, polars or another library; None for anything else.

    Raises
    ------
    EventError
        It is one of another library that Arrow cannot read.
    """
    # A frame can only be there if its library is.
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _read_pandas(data)
    if polars is not None and isinstance(data, polars.DataFrame):
        return _read_polars(data, polars)
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__")):
        return None
    try:
        return pa.table(data)
    except _REFUSALS as error:
        raise EventError(f"the frame cannot be converted to Arrow: {error}") from None


def read_series(data: Any) -> Any:
    """A series of pandas or polars as an Arrow column or a list of events; anything else as it is.

    Raises
    ------
    EventError
        Arrow has no type for all its values.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.Series):
        return data.to_arrow()
    if pandas is None or not isinstance(data, pandas.Series):
        return data
    items = _to_objects(data)
    if any(isinstance(item, Mapping) for item in items):
        return [{} if item is None else item for item in items]
    column = _to_array(data)
    if column is None:
        raise EventError("expected a series of mappings or of JSON texts, not of mixed kinds")
    return column


def _read_polars(frame: Any, polars: Any) -> pa.Table | Rows:
    try:
        if polars.Object not in frame.dtypes:  # the export of those ends some processes
            return pa.table(frame)
    except pa.ArrowInvalid:  # integers of 128 bits
        pass
    return Rows([(name, _lists(frame[name].to_list())) for name in frame.columns], frame.height)


def _read_pandas(frame: Any) -> pa.Table | Rows:
    columns = list(_index_columns(frame))
    columns += [(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    arrays = [_to_array(column) for _, column in columns]
    names = [name for name, _ in columns]
    if all(array is not None for array in arrays):
        if not arrays:
            return pa.table({"": pa.nulls(len(frame))})
        return pa.Table.from_arrays(arrays, names)
    lists = [_to_objects(column) for _, column in columns]
    return Rows(list(zip(names, lists, strict=True)), len(frame))


def _index_columns(frame: Any) -> Iterator[tuple[str, Any]]:
    """The levels of an index that has more than the numbers of the rows."""
    index = frame.index
    if type(index).__name__ == "RangeIndex":
        return
    for level in range(index.nlevels):
        values = index.get_level_values(level).to_series(index=range(len(index)))
        name = index.names[level]
        yield f"__index_level_{level}__" if name is None else str(name), values


def _to_array(column: Any) -> pa.Array | pa.ChunkedArray | None:
    """A column as Arrow has it; None if it has no type for all its values."""
    if hasattr(column, "sparse"):
        column = column.sparse.to_dense()
    objects = column.cat.categories if hasattr(column, "cat") else column
    if objects.dtype == object and not _has_one_kind(objects):
        return None
    try:
        return pa.array(column, from_pandas=True)
    except _REFUSALS:
        return None


def _has_one_kind(column: Any) -> bool:
    """Whether all objects of a column are of one kind; most columns have nothing but strings."""
    inferred = sys.modules["pandas"].api.types.infer_dtype(column, skipna=True)
    return inferred == "string" or _is_uniform(_to_objects(column))


def _to_objects(column: Any) -> list[Any]:
    """The values of a column as Python's, None for a missing one, and lists for arrays."""
    if hasattr(column, "sparse"):
        column = column.sparse.to_dense()
    items = column.astype(object)
    return _lists(items.where(items.notna(), None).tolist())


def _lists(items: list[Any]) -> list[Any]:
    """The same items, with lists for NumPy's arrays."""
    return [item.tolist() if isinstance(item, np.ndarray) else item for item in items]


def _is_uniform(items: list[Any]) -> bool:
    """Whether all values, nested ones too, are of one type, so that Arrow changes none of them."""
    items = [item for item in items if item is not None and not _is_nan(item)]
    kinds = set(map(type, items))
    if len(kinds) > 1:
        return kinds == _NUMBERS
    if kinds == {list}:
        return _is_uniform(list(chain.from_iterable(items)))
    if kinds == {dict}:
        names = {name for item in items for name in item}
        return all(_is_uniform([item.get(name) for item in items]) for name in names)
    return True


def _is_nan(item: Any) -> bool:
    return item.__class__ is float and item != item
