"""Arrow arrays of values: what can be read of them, and where the values of nested ones belong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.errors import EventError, combine_errors
from tamis.expr.numbers import MAX_DIGITS, number_of_decimal

__all__ = [
    "EVENT",
    "UnreadableValues",
    "columns_of",
    "count_sizes",
    "is_list",
    "is_string",
    "list_lengths",
    "map_columns",
    "readable",
    "rows_of",
    "within",
    "without_views",
]

EVENT: Final = ""
"""The name of a column that holds whole events."""

_DAY: Final = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last day of year 9999, in days since 1970."""

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class UnreadableValues(Exception):
    """A column holds values that no kind can hold; the caller knows the numbers of the events."""

    def __init__(self, rows: list[int], message: str) -> None:
        super().__init__(message)
        self.rows = rows

    def error(self, first: int) -> Exception:
        """The error for users, where the first row is the event `first`."""
        return combine_errors({first + row: EventError(str(self)) for row in self.rows})


def columns_of(attributes: Iterable[str]) -> frozenset[str]:
    """Names of the columns that may have these attributes: also nested, or in whole events."""
    names = frozenset(attributes)
    prefixes = {name[:i] for name in names for i, char in enumerate(name) if char == "."}
    return names | prefixes | {EVENT}


def within(path: str, name: str) -> str:
    """The name of an attribute inside another; inside a whole event, its own."""
    return f"{path}.{name}" if path else name


def is_string(kind: pa.DataType) -> bool:
    """Whether values of a type are strings, or come from a dictionary of strings."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, other than maps."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def readable(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> pa.Array:
    """The values of an attribute, with times in UTC and microseconds.

    Raises
    ------
    UnreadableValues
        Some of them are values that no kind can hold.
    """
    kind = values.type
    if pa.types.is_null(kind) or values.null_count == len(values):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        try:
            distinct = readable(path, values.dictionary, None)
        except UnreadableValues:
            # It names a place in the dictionary, and perhaps no row has that value.
            return readable(path, values.dictionary_decode(), rows)
        if pa.types.is_null(distinct.type):
            return pa.nulls(len(values))
        return pa.DictionaryArray.from_arrays(values.indices, distinct)
    if is_string(kind):
        values = without_views(values)
        _check_unicode(path, values, rows)
    elif pa.types.is_timestamp(kind):
        values = _read_times(path, values, rows)
    elif pa.types.is_date(kind):
        _check_dates(path, values, rows)
    elif pa.types.is_decimal(kind):
        if kind.precision > MAX_DIGITS:
            _check_digits(path, values, rows)
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UnreadableValues(
            _rows_where(values.is_valid(), rows),
            f"column {path!r} has the type {kind}, which rules cannot compare; "
            "cast it to a string, an integer, a double, a decimal, a boolean or a timestamp",
        )
    return values


def _check_unicode(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        is_large = pa.types.is_large_string(values.type)
        raw = values.view(pa.large_binary() if is_large else pa.binary())
        broken = pa.array([not (item is None or _is_utf8(item)) for item in raw.to_pylist()])
        raise UnreadableValues(
            _rows_where(broken, rows), f"column {path!r} holds a string that is not valid UTF-8"
        ) from None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_times(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> pa.Array:
    """Timestamps as microseconds, in UTC if they have a zone."""
    kind = values.type
    if kind.tz is not None and not _is_zone(kind.tz):
        message = f"column {path!r} has the unknown time zone {kind.tz!r}; cast it to UTC"
        raise UnreadableValues(_rows_where(values.is_valid(), rows), message)
    counts = values.cast(pa.int64())
    per_second = _PER_SECOND[kind.unit]
    if kind.unit == "ns":  # which cannot leave these years
        floored = to_numpy(counts.fill_null(0)) // 1000
        counts = pa.array(floored, mask=to_numpy(values.is_null()))
    else:
        _check_days(path, counts, rows, _DAY * per_second)
        counts = pc.multiply(counts, 10**6 // per_second)
    return counts.cast(pa.timestamp("us", None if kind.tz is None else "UTC"))


def _check_dates(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    is_32 = pa.types.is_date32(values.type)
    counts = values.cast(pa.int32()).cast(pa.int64()) if is_32 else values.cast(pa.int64())
    _check_days(path, counts, rows, 1 if is_32 else _DAY * 1000)


def _check_days(path: str, counts: pa.Array, rows: NDArray[np.int64] | None, per_day: int) -> None:
    """Refuse times outside the years 1 to 9999."""
    least, most = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
    span = pc.min_max(counts)
    if span["min"].as_py() < least or span["max"].as_py() > most:
        outside = pc.or_(pc.less(counts, least), pc.greater(counts, most))
        message = f"column {path!r} holds a time that lies outside the years 1 to 9999"
        raise UnreadableValues(_rows_where(outside, rows), message)


@lru_cache(maxsize=256)
def _is_zone(name: str) -> bool:
    """Whether Python knows a time zone."""
    try:
        pa.lib.string_to_tzinfo(name)
    except Exception:  # of several types, some of packages that may be absent
        return False
    return True


def _check_digits(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    """Refuse decimals of too many digits."""
    encoded = pc.dictionary_encode(values)
    too_long = pa.array([_is_too_long(item) for item in encoded.dictionary.to_pylist()], pa.bool_())
    if pc.any(too_long).as_py():
        message = f"column {path!r} holds a decimal of more than {MAX_DIGITS} digits"
        raise UnreadableValues(_rows_where(too_long.take(encoded.indices), rows), message)


def _is_too_long(item: Decimal) -> bool:
    try:
        number_of_decimal(item)
    except ValueError:
        return True
    return False


def _rows_where(is_bad: pa.Array, rows: NDArray[np.int64] | None) -> list[int]:
    """The rows of the values that are bad, rising; there is one."""
    places = np.flatnonzero(to_numpy(is_bad.fill_null(False)))
    bad: list[int] = np.unique(places if rows is None else rows[places]).tolist()
    return bad


def without_views(values: pa.Array) -> pa.Array:
    """`values` with string views cast to strings, since few functions of Arrow accept views."""
    if pa.types.is_string_view(values.type):
        try:
            return values.cast(pa.large_string())
        except pa.ArrowNotImplementedError:  # PyArrow 17 casts no views.
            texts = values.view(pa.binary_view()).to_pylist()
            return pa.array(texts, pa.large_binary()).view(pa.large_string())
    if pa.types.is_dictionary(values.type) and pa.types.is_string_view(values.type.value_type):
        return pa.DictionaryArray.from_arrays(values.indices, without_views(values.dictionary))
    return values


def rows_of(values: pa.Array, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The row of each value, where None means that value i belongs to row i."""
    return np.arange(len(values)) if rows is None else rows


def list_lengths(values: pa.Array) -> NDArray[np.int64]:
    """How many items each list or map has."""
    if pa.types.is_map(values.type):
        values = as_list(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    result: NDArray[np.int64] = to_numpy(lengths).astype(np.int64)
    return result


def as_list(values: pa.MapArray) -> pa.Array:
    """A map array as a list array of its keys and items."""
    entry = pa.struct([("key", pa.string()), ("item", values.type.item_type)])
    return values.cast(pa.list_(entry))


def count_sizes(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many values each row has, nested ones included, and how many characters its strings."""
    values = np.zeros(batch.num_rows, np.int64)
    characters = np.zeros(batch.num_rows, np.int64)
    pending = [(column, np.arange(batch.num_rows)) for column in batch.columns]
    while pending:
        array, rows = pending.pop()
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
            kind = array.type
        if pa.types.is_struct(kind):
            pending += [(child, rows) for child in array.flatten()]
        elif pa.types.is_map(kind) or is_list(kind):
            inner = np.repeat(rows, list_lengths(array))
            items = as_list(array).flatten().field(1) if pa.types.is_map(kind) else array.flatten()
            pending.append((items, inner))
        else:
            valid = to_numpy(array.is_valid())
            np.add.at(values, rows[valid], 1)
            if is_string(kind):
                lengths = pc.utf8_length(without_views(array)).fill_null(0)
                np.add.at(characters, rows, to_numpy(lengths))
    return values, characters


def map_columns(
    path: str, values: pa.MapArray, rows: NDArray[np.int64], columns: Collection[str]
) -> Iterator[tuple[str, pa.Array, NDArray[np.int64]]]:
    """The items under each key of a map that is among `columns`: name, items and their places."""
    keys, items = as_list(values).flatten().flatten()
    items = without_views(items)
    keys = pc.dictionary_encode(readable(path, keys, rows))
    numbers = to_numpy(keys.indices)
    if len(keys.dictionary) < 1 << 16:
        numbers = numbers.astype(np.uint16)  # NumPy sorts these in linear time
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys.dictionary)))
    begin = 0
    for key, end in zip(keys.dictionary.to_pylist(), ends.tolist(), strict=True):
        here, begin, name = order[begin:end], end, within(path, key)
        if name in columns:
            yield name, items.take(to_arrow(here)), here
