"""Columns of plain numbers, most of them null: all rows of a column are encoded in one pass.

A table of events often has hundreds of columns of which a row uses a few. Arrow's functions would
drop the nulls of each column and NumPy would look its values up, in a dozen calls a column. Here
two kernels read the column as it lies in memory: one counts the values of each row, the other
writes their codes where they belong.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.dictionary import FIRST, Axis
from tamis.encode.kernel import kernel, part

__all__ = ["NumberColumn"]

_DTYPES: Final[dict[pa.DataType, np.dtype[Any]]] = {
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.float64(): np.dtype(np.float64),
}
"""The types of values that kernels take."""

_ALL_VALID = np.empty(0, np.uint8)
_ALL_VALID.flags.writeable = False


class NumberColumn(NamedTuple):
    """A column of integers or doubles, and the codes of its attribute."""

    attribute: int
    values: NDArray[Any]
    valid: NDArray[np.uint8]
    """A bit for each value, from `offset` on: whether it is not null. Empty if none is null."""
    offset: int
    points: NDArray[Any]
    """The least number of the column's type that is not below each mentioned value, rising."""
    equals: NDArray[np.bool_]
    """Whether the point is the mentioned value."""

    @classmethod
    def of(cls, attribute: int, values: pa.Array, axis: Axis) -> NumberColumn | None:
        """The column of an Arrow array; None unless it has plain numbers."""
        wanted = _wanted_type(values.type)
        if wanted is None or len(values) == 0:
            return None
        if values.type != wanted:
            values = values.cast(wanted)
        validity, data = values.buffers()
        dtype = _DTYPES[wanted]
        numbers = np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize)
        if not numbers.flags.aligned:
            return None
        # Some buffers are writable. Kernels are compiled once, for those that are not.
        numbers.flags.writeable = False
        valid = _ALL_VALID
        if validity is not None and values.null_count:
            valid = np.frombuffer(validity, np.uint8)
            valid.flags.writeable = False
        is_double = dtype == np.float64
        points = axis.points_of_doubles() if is_double else axis.points_of_ints()
        return cls(attribute, numbers, valid, values.offset, *points)

    def count_rows(self, start: NDArray[np.int64]) -> None:
        """Add the number of values in row i to ``start[i + 1]``."""
        _count_numbers(self.values, self.valid, self.offset, start)

    def fill_rows(
        self,
        cursor: NDArray[np.int64],
        attribute: NDArray[np.int32],
        code: NDArray[np.int32],
    ) -> None:
        """Write the attribute and the code of the value in row i at ``cursor[i]``, and advance."""
        _fill_numbers(*self[1:], np.int32(self.attribute), cursor, attribute, code)


def _wanted_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that kernels take for a type of numbers; None if it is no plain one."""
    if kind in _DTYPES:
        return kind
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) else None


@part
def _find_valid(valid, offset, row, size):
    """The first row from `row` on that is not null; `size` or more if there is none."""
    if len(valid) == 0:
        return row
    while row < size:
        place = offset + row
        if place & 7 == 0 and valid[place >> 3] == 0:
            row += 8
        elif (valid[place >> 3] >> (place & 7)) & 1:
            break
        else:
            row += 1
    return row


@kernel
def _count_numbers(values, valid, offset, start):
    row = _find_valid(valid, offset, np.int64(0), len(values))
    while row < len(values):
        if values[row] == values[row]:  # not NaN
            start[row + 1] += 1
        row = _find_valid(valid, offset, row + 1, len(values))


@kernel
def _fill_numbers(values, valid, offset, points, equals, number, cursor, attribute, code):
    row = _find_valid(valid, offset, np.int64(0), len(values))
    while row < len(values):
        value = values[row]
        if value == value:
            # How many points are not above the value, by bisection.
            low, high = np.int64(0), np.int64(len(points))
            while low < high:
                middle = (low + high) >> 1
                if points[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            found = FIRST + 2 * low
            if low > 0 and points[low - 1] == value and equals[low - 1]:
                found -= 1
            at = cursor[row]
            attribute[at] = number
            code[at] = found
            cursor[row] = at + 1
        row = _find_valid(valid, offset, row + 1, len(values))
