"""Columns of plain numbers, most of them null: all columns of a table are encoded in one pass.

A table of events often has hundreds of columns of which a row uses a few. Arrow's functions would
drop the nulls of each column and NumPy would look its values up, in a dozen calls a column. Here
one kernel takes the addresses of all columns, as they lie in memory, and counts the values of each
row; another writes their codes where they belong.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.addresses import doubles_at, int32s_at, int64s_at, uint8s_at
from tamis.encode.arrays import NO_INT32
from tamis.encode.bits import lowest_bit
from tamis.encode.dictionary import FIRST, Axis
from tamis.encode.kernel import kernel, part

__all__ = ["NumberColumn", "NumberEncoder", "count_numbers", "fill_numbers"]

_INT32, _INT64, _DOUBLE = range(3)
_KINDS: Final[dict[int, tuple[int, int]]] = {
    pa.int32().id: (_INT32, 4),
    pa.int64().id: (_INT64, 8),
    pa.float64().id: (_DOUBLE, 8),
}
"""The types of values that kernels take, by their ids, and the bytes of a value."""

_VALUES, _VALID, _OFFSET, _ATTRIBUTE, _KIND, _POINTS, _EQUALS, _CODES, _BELOW = (
    0, 2, 4, 5, 6, 7, 9, 11, 13,
)  # fmt: skip
_NUMBERS = 14
"""Where the parts of a column stand in a row of numbers, and how many numbers there are. Arrays
take two numbers: the address and the length."""

_MOST_CODES, _FAR = 2048, 1 << 62
"""The most integers whose codes are listed, and how far they may be from 0."""

_ROWS = 1024
"""How many rows are written at once, column by column, so that they stay in the cache."""

_WORD = 64
_ALL_BITS = ~np.uint64(0)


class NumberColumn(NamedTuple):
    """A column of integers or doubles."""

    attribute: int
    values: pa.Array
    """Keeps alive what `numbers` has the addresses of."""
    numbers: tuple[int, ...]
    """What kernels take, up to _POINTS."""

    @classmethod
    def of(cls, attribute: int, values: pa.Array) -> NumberColumn | None:
        """The column of an Arrow array; None unless it has plain numbers that kernels can read."""
        found = _KINDS.get(values.type.id)
        if found is None:
            wanted = _wanted_type(values.type)
            if wanted is None:
                return None
            values, found = values.cast(wanted), _KINDS[wanted.id]
        kind, size = found
        offset, valid, valid_size = values.offset, 0, 0
        validity, data = values.buffers()
        if data is None or data.address % size or data.size < size * (offset + len(values)):
            return None
        if validity is not None and values.null_count:
            valid, valid_size = validity.address, validity.size
        first = data.address + size * offset
        return cls(
            attribute, values, (first, len(values), valid, valid_size, offset, attribute, kind)
        )


def _wanted_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that kernels take for another type of numbers; None if it is no plain one."""
    if pa.types.is_float32(kind):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) else None


class NumberEncoder:
    """Encodes columns of numbers for one dictionary.

    Parameters
    ----------
    axes
        The axis of each attribute.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._axes = axes
        self._known: dict[tuple[int, int], _Points] = {}
        """What was looked up before, by attribute and kind of values."""

    def describe(self, columns: Sequence[NumberColumn]) -> NDArray[np.int64]:
        """A row of numbers for each column, for the kernels; valid as long as the columns are."""
        found = np.empty((len(columns), _NUMBERS), np.int64)
        if columns:
            found[:, :_POINTS] = [column.numbers for column in columns]
            found[:, _POINTS:] = [self._points(*column.numbers[_ATTRIBUTE:]) for column in columns]
        return found.reshape(-1)

    def _points(self, attribute: int, kind: int) -> NDArray[np.int64]:
        points = self._known.get((attribute, kind))
        if points is None:
            points = self._known[attribute, kind] = _Points(self._axes[attribute], kind == _DOUBLE)
        return points.numbers


class _Points:
    """The mentioned numbers of an attribute, as kernels look them up.

    Parameters
    ----------
    axis
        The axis of the attribute.
    is_double
        Whether doubles are looked up, and not integers.
    """

    def __init__(self, axis: Axis, is_double: bool) -> None:
        points, equals = axis.points_of_doubles() if is_double else axis.points_of_ints()
        codes, below = NO_INT32, 0
        if not is_double and len(points):
            least, most = int(points[0]), int(points[-1])
            # Not next to the ends of 64 bits, so that there is one below and one above.
            if most - least < _MOST_CODES and max(-least, most) < _FAR:
                codes, below = axis.codes_of_ints(np.arange(least - 1, most + 2)), least - 1
        arrays = np.ascontiguousarray(points), np.ascontiguousarray(equals), codes
        addresses = [number for each in arrays for number in (each.ctypes.data, len(each))]
        self._arrays = arrays
        """Keeps the arrays alive; there are only addresses in `numbers`."""
        self.numbers = np.array([*addresses, below], np.int64)
        """The points, see `Axis.points_of_ints`, whether each is the mentioned value, and the codes
        of consecutive integers, if there are any: from one below all points to one above."""


# --- Kernels ---


@part
def _read_valid(valid, offset, row, last):
    """A bit for each row from `row` on, up to 64 and below `last`: whether it has a value."""
    wanted = _ALL_BITS >> np.uint64(_WORD - min(last - row, _WORD))
    if len(valid) == 0:
        return wanted
    at, shift = (offset + row) >> 3, np.uint64((offset + row) & 7)
    bits = np.uint64(0)
    if at + 8 < len(valid):
        for k in range(8):
            bits |= np.uint64(valid[at + k]) << np.uint64(8 * k)
        # In two shifts, since one by 64 bits is none.
        above = np.uint64(valid[at + 8]) << np.uint64(1) << (np.uint64(63) - shift)
        return (bits >> shift | above) & wanted
    for k in range(len(valid) - at):
        bits |= np.uint64(valid[at + k]) << np.uint64(8 * k)
    return bits >> shift & wanted


@kernel
def _count_column(values, valid, offset, start):
    """Add 1 to start[i + 1] for each row i that has a value."""
    for first in range(0, len(values), _WORD):
        rest = _read_valid(valid, offset, first, len(values))
        while rest:
            row = first + np.int64(lowest_bit(rest))
            rest &= rest - np.uint64(1)
            if values[row] == values[row]:  # not NaN
                start[row + 1] += 1


@kernel
def count_numbers(columns, start):
    """Add the number of values in row i of all columns to ``start[i + 1]``."""
    for at in range(0, len(columns), _NUMBERS):
        valid, offset, kind = (
            uint8s_at(columns, at + _VALID),
            columns[at + _OFFSET],
            columns[at + _KIND],
        )
        if kind == _INT32:
            _count_column(int32s_at(columns, at + _VALUES), valid, offset, start)
        elif kind == _INT64:
            _count_column(int64s_at(columns, at + _VALUES), valid, offset, start)
        else:
            _count_column(doubles_at(columns, at + _VALUES), valid, offset, start)


@part
def _count_not_above(points, value):
    """How many points are not above a value, by bisection."""
    low, high = np.int64(0), np.int64(len(points))
    while low < high:
        middle = (low + high) >> 1
        if points[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _fill_column(
    values, valid, offset, number, points, equals, codes, below, first, last, cursor, attribute,
    code,
):  # fmt: skip
    """Write the values of the rows from `first` up to, not including, `last`."""
    for begin in range(first, last, _WORD):
        rest = _read_valid(valid, offset, begin, last)
        while rest:
            row = begin + np.int64(lowest_bit(rest))
            rest &= rest - np.uint64(1)
            value = values[row]
            if value != value:
                continue
            if len(codes):
                place = min(max(np.int64(value), below), below + len(codes) - 1) - below
                found = np.int64(codes[place])
            else:
                low = _count_not_above(points, value)
                found = FIRST + 2 * low
                if low > 0 and points[low - 1] == value and equals[low - 1]:
                    found -= 1
            at = cursor[row]
            attribute[at] = number
            code[at] = found
            cursor[row] = at + 1


@kernel
def fill_numbers(columns, cursor, attribute, code):
    """Write the attribute and the code of each value in row i from ``cursor[i]`` on, and advance.

    As the columns are those of `NumberEncoder.describe`, all have as many rows as `cursor`.
    """
    for first in range(0, len(cursor), _ROWS):
        last = min(first + _ROWS, len(cursor))
        for at in range(0, len(columns), _NUMBERS):
            valid, kind = uint8s_at(columns, at + _VALID), columns[at + _KIND]
            offset, number, below = (
                columns[at + _OFFSET],
                columns[at + _ATTRIBUTE],
                columns[at + _BELOW],
            )
            equals, codes = uint8s_at(columns, at + _EQUALS), int32s_at(columns, at + _CODES)
            if kind == _INT32:
                _fill_column(
                    int32s_at(columns, at + _VALUES), valid, offset, number,
                    int64s_at(columns, at + _POINTS), equals, codes, below,
                    first, last, cursor, attribute, code,
                )  # fmt: skip
            elif kind == _INT64:
                _fill_column(
                    int64s_at(columns, at + _VALUES), valid, offset, number,
                    int64s_at(columns, at + _POINTS), equals, codes, below,
                    first, last, cursor, attribute, code,
                )  # fmt: skip
            else:
                _fill_column(
                    doubles_at(columns, at + _VALUES), valid, offset, number,
                    doubles_at(columns, at + _POINTS), equals, codes, below,
                    first, last, cursor, attribute, code,
                )  # fmt: skip
