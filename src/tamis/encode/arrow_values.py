"""Arrow arrays of values: what can be read of them, and where the values of nested ones belong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.arrow_layouts import (
    is_list,
    is_string,
    is_union,
    nesting_depth,
    plain,
    split_list,
    split_map,
    split_struct,
    split_union,
    take,
)
from tamis.errors import EventError, combine_errors
from tamis.expr.event import MAX_DEPTH
from tamis.expr.names import is_computed
from tamis.expr.numbers import MAX_DIGITS, number_of_decimal

__all__ = [
    "EVENT",
    "EVERYTHING",
    "Part",
    "UnreadableValues",
    "check_depth",
    "columns_of",
    "count_sizes",
    "parts_of",
    "readable",
    "rows_of",
    "within",
]

EVENT: Final = ""
"""The name of a column that holds whole events."""

_DAY: Final = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last day of year 9999, in days since 1970."""

_TOO_HIGH: Final = 10**MAX_DIGITS >> 64
"""From here on, the upper half of a decimal may mean too many digits."""

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class _Everything(frozenset[str]):
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING: Final = _Everything()
"""In place of the names to read: all of them."""


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
    """The name of an attribute inside another; inside a whole event, its own.

    Raises
    ------
    EventError
        An event may have no attribute of that name.
    """
    if path:
        return f"{path}.{name}"
    if is_computed(name):
        raise EventError(f"the attribute {name!r} begins with a control character")
    return name


def readable(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> pa.Array:
    """The plain values of an attribute, with times in UTC and microseconds.

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
            _check_unicode(path, values.dictionary, None)
        except UnreadableValues:
            # It names a place in the dictionary, and perhaps no row has that value.
            return readable(path, values.dictionary_decode(), rows)
    elif is_string(kind):
        _check_unicode(path, values, rows)
    elif pa.types.is_timestamp(kind):
        values = _read_times(path, values, rows)
    elif pa.types.is_date(kind):
        _check_dates(path, values, rows)
    elif pa.types.is_decimal(kind):
        if _may_be_too_long(values):
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


def _may_be_too_long(values: pa.Array) -> bool:
    """Whether decimals may have too many digits: of 128 bits, DuckDB's do against their type."""
    if values.type.precision < MAX_DIGITS or pa.types.is_decimal256(values.type):
        return bool(values.type.precision > MAX_DIGITS)
    words = np.frombuffer(values.buffers()[1], np.int64)[1::2]
    high = words[values.offset : values.offset + len(values)]
    return bool((high >= _TOO_HIGH).any() or (high < -_TOO_HIGH).any())


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


def check_depth(path: str, values: pa.Array) -> None:
    """Refuse a column whose type is nested deeper than events may be.

    Raises
    ------
    UnreadableValues
        It is.
    """
    if nesting_depth(values.type) > MAX_DEPTH:
        message = f"column {path!r} is nested more than {MAX_DEPTH} levels deep"
        raise UnreadableValues(list(range(len(values))), message)


def rows_of(values: pa.Array, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The row of each value, where None means that value i belongs to row i."""
    return np.arange(len(values)) if rows is None else rows


class Part(NamedTuple):
    """Values that lie in others."""

    name: str
    values: pa.Array
    places: NDArray[np.int64] | None
    """The value that each of them lies in, rising; None if value i lies in i."""
    in_list: bool = False


def parts_of(
    path: str, values: pa.Array, rows: NDArray[np.int64] | None, columns: Collection[str]
) -> Iterator[Part]:
    """What lies in the values of a nested type, by name; only what is among `columns`.

    Raises
    ------
    UnreadableValues
        The keys of a map are no names.
    EventError
        A field of a whole event has a name that events may not use.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        for name, child, places in split_struct(values):
            inner = within(path, name)
            if inner in columns:
                yield Part(inner, child, places)
    elif pa.types.is_map(kind):
        yield from _map_parts(path, values, rows, columns)
    elif is_union(kind):
        for child, places in split_union(values):
            yield Part(path, child, places)
    else:
        lengths, items = split_list(values)
        yield Part(path, items, np.repeat(np.arange(len(values)), lengths), True)


def _map_parts(
    path: str, values: pa.MapArray, rows: NDArray[np.int64] | None, columns: Collection[str]
) -> Iterator[Part]:
    """The items under each key of a map."""
    lengths, keys, items = split_map(values)
    if not len(keys):
        return
    owners = np.repeat(np.arange(len(values)), lengths)
    distinct = _read_keys(path, plain(keys), rows_of(values, rows)[owners])
    items = plain(items)
    numbers = to_numpy(distinct.indices)
    if len(distinct.dictionary) < 1 << 16:
        numbers = numbers.astype(np.uint16)  # NumPy sorts these in linear time
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(distinct.dictionary)))
    begin = 0
    for key, end in zip(distinct.dictionary.to_pylist(), ends.tolist(), strict=True):
        here, begin, name = order[begin:end], end, within(path, key)
        if name in columns:
            yield Part(name, take(items, to_arrow(here)), owners[here])


def _read_keys(path: str, keys: pa.Array, rows: NDArray[np.int64]) -> pa.DictionaryArray:
    """The keys of maps, distinct; integers become texts.

    Raises
    ------
    UnreadableValues
        They are neither strings nor integers.
    """
    kind = keys.type
    if pa.types.is_integer(kind):
        keys = keys.cast(pa.string())
    elif not is_string(kind):
        message = (
            f"column {path!r} has maps with keys of the type {kind}, and names of attributes are "
            "strings; cast the keys to strings"
        )
        raise UnreadableValues(np.unique(rows).tolist(), message)
    read = readable(path, keys, rows)
    if pa.types.is_dictionary(read.type):
        read = read.dictionary_decode()
    return pc.dictionary_encode(read)


def count_sizes(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many values each row has, nested ones included, and how many characters its strings."""
    values = np.zeros(batch.num_rows, np.int64)
    characters = np.zeros(batch.num_rows, np.int64)
    pending = [(column, np.arange(batch.num_rows)) for column in batch.columns]
    while pending:
        array, rows = pending.pop()
        array = plain(array)
        kind = array.type
        if pa.types.is_struct(kind):
            parts = [(child, places) for _, child, places in split_struct(array)]
            pending += [(part, rows if at is None else rows[at]) for part, at in parts]
        elif is_union(kind):
            pending += [(child, rows[places]) for child, places in split_union(array)]
        elif pa.types.is_map(kind):
            lengths, _, items = split_map(array)
            pending.append((items, np.repeat(rows, lengths)))
        elif is_list(kind):
            lengths, items = split_list(array)
            pending.append((items, np.repeat(rows, lengths)))
        else:
            valid = to_numpy(array.is_valid())
            np.add.at(values, rows[valid], 1)
            if is_string(kind):
                np.add.at(characters, rows, _text_lengths(array))
    return values, characters


def _text_lengths(values: pa.Array) -> NDArray[np.int64]:
    """How many characters each string has."""
    if pa.types.is_dictionary(values.type):
        lengths = pc.utf8_length(values.dictionary).take(values.indices)
    else:
        lengths = pc.utf8_length(values)
    return to_numpy(lengths.fill_null(0)).astype(np.int64)
