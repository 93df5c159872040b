"""The codes of all values of an Arrow array at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.arrow_layouts import is_string
from tamis.encode.dictionary import Axis
from tamis.expr.numbers import MAX_DIGITS, number_of_decimal

__all__ = ["codes_of_array", "codes_of_list"]

_INT64_MAX: Final = 2**63 - 1

_EXACT_POWER: Final = 22
"""Up to here every power of ten is a double."""
_SHORTEST: Final = 10**15
"""A decimal of fewer digits is the shortest spelling of a double."""


def codes_of_array(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    """The codes of an array without nulls."""
    kind = values.type
    if is_string(kind):
        return _encode_strings(axis, values)
    if pa.types.is_boolean(kind):
        return axis.codes_of_booleans(to_numpy(values))
    if pa.types.is_floating(kind):
        return axis.codes_of_doubles(to_numpy(values.cast(pa.float64())))
    if pa.types.is_uint64(kind):
        return _encode_unsigned(axis, values)
    if pa.types.is_integer(kind):
        return axis.codes_of_ints(to_numpy(values.cast(pa.int64())))
    if pa.types.is_decimal(kind):
        return _encode_decimals(axis, values)
    return axis.codes_of_times(_as_microseconds(values))


def codes_of_list(axis: Any, values: list[Any]) -> list[int]:
    """The codes of many values; those of one type are looked up all at once."""
    kinds = set(map(type, values)) if isinstance(axis, Axis) else set()
    found: NDArray[np.int32]
    if kinds == {str}:
        found = _encode_strings(axis, pa.array(values, pa.large_string()))
    elif kinds == {float}:
        found = axis.codes_of_doubles(np.array(values))
    elif kinds == {int} and max(values) <= _INT64_MAX:
        found = axis.codes_of_ints(np.array(values))
    else:
        return [axis.code(value) for value in values]
    codes: list[int] = found.tolist()
    return codes


def _encode_unsigned(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    numbers = to_numpy(values)
    codes = axis.codes_of_ints(numbers.view(np.int64))
    is_large = numbers > _INT64_MAX
    if is_large.any():
        distinct, places = np.unique(numbers[is_large], return_inverse=True)
        codes[is_large] = axis.codes_of_numbers(distinct.tolist())[places]
    return codes


def _encode_decimals(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    """The codes of decimals; most are integers, or the shortest spellings of doubles."""
    kind = values.type
    codes = np.empty(len(values), np.int32)
    is_done = np.zeros(len(values), np.bool_)
    if kind.precision <= MAX_DIGITS and 0 <= kind.scale <= _EXACT_POWER:
        wide = values.cast(pa.decimal128(MAX_DIGITS, kind.scale))
        words = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
        low, high = words[wide.offset : wide.offset + len(wide)].T
        # Those that have 64 bits. The quotient of two exact doubles is the nearest double.
        is_done = high == low >> 63
        if kind.scale:
            is_done &= np.abs(low) < _SHORTEST
            codes[is_done] = axis.codes_of_doubles(low[is_done] / 10.0**kind.scale)
        else:
            codes[is_done] = axis.codes_of_ints(low[is_done])
    if not is_done.all():
        rest = pc.dictionary_encode(values.filter(to_arrow(~is_done)))
        numbers = [number_of_decimal(item) or 0 for item in rest.dictionary.to_pylist()]
        codes[~is_done] = axis.codes_of_numbers(numbers)[to_numpy(rest.indices)]
    return codes


def _as_microseconds(values: pa.Array) -> NDArray[np.int64]:
    stamps = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)))
    result: NDArray[np.int64] = to_numpy(stamps.cast(pa.int64()))
    return result


def _encode_strings(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    mentioned = axis.string_array().cast(values.type)
    places = pc.index_in(values, value_set=mentioned)
    codes: NDArray[np.int32] = to_numpy(places.fill_null(0)).astype(np.int32)
    codes = axis.strings_at + 2 * codes + 1
    if places.null_count:
        missing = to_numpy(places.is_null())
        codes[missing] = _gap_codes(axis, values.filter(to_arrow(missing)))
    return codes


def _gap_codes(axis: Axis, values: pa.Array) -> NDArray[np.int32] | int:
    """The codes of strings that no rule mentions; any gap does if no rule orders strings."""
    if not axis.orders_strings:
        return axis.strings_at
    encoded = pc.dictionary_encode(values)
    gaps = np.array([axis.code(text) for text in encoded.dictionary.to_pylist()], np.int32)
    result: NDArray[np.int32] = gaps[to_numpy(encoded.indices)]
    return result
