"""Arrow's many layouts of the same values, reduced to those that the encoders read.

Values of one type come as arrays, dictionaries, runs, views or extensions; lists in six layouts.
Only a few functions of Arrow accept all of them, in some versions: here are those that do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.ragged import run_places, starts

__all__ = [
    "is_list",
    "is_string",
    "is_union",
    "nesting_depth",
    "plain",
    "split_list",
    "split_map",
    "split_struct",
    "split_union",
    "take",
]

_NOT_STORAGE: Final = "pandas."
"""Extensions whose storage is not their value: periods and intervals."""


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
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or _is_list_view(kind)
    )


def is_union(kind: pa.DataType) -> bool:
    """Whether each value of a type says of which of several types it is."""
    return bool(pa.types.is_union(kind))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def nesting_depth(kind: pa.DataType) -> int:
    """How many types lie within each other."""
    deepest, pending = 0, [(kind, 1)]
    while pending:
        one, depth = pending.pop()
        deepest = max(deepest, depth)
        if isinstance(one, pa.BaseExtensionType):
            pending.append((one.storage_type, depth))
        elif pa.types.is_dictionary(one) or pa.types.is_run_end_encoded(one):
            pending.append((one.value_type, depth))
        elif pa.types.is_map(one):
            pending.append((one.item_type, depth + 1))
        else:
            pending += [(one.field(i).type, depth + 1) for i in range(one.num_fields)]
    return deepest


def plain(values: pa.Array) -> pa.Array:
    """The same values without extension, runs, views, or a dictionary of other than strings.

    Numbers have types that all functions accept. What lies in lists and structs stays as it is.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name.startswith(_NOT_STORAGE):
            return values
        stored = plain(values.storage)
        is_bool = kind.extension_name == "arrow.bool8"
        return pc.not_equal(stored, pa.scalar(0, stored.type)) if is_bool else stored
    if pa.types.is_run_end_encoded(kind):
        return _decode_runs(values)
    if pa.types.is_dictionary(kind):
        return _decode_dictionary(values)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _without_views(values)
    if pa.types.is_float16(kind):
        return _with_data(values, pa.float32(), _data(values, np.float16).astype(np.float32))
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return _widen_decimals(values)
    return values


def _decode_runs(values: pa.RunEndEncodedArray) -> pa.Array:
    rows = np.arange(values.offset, values.offset + len(values))
    runs = np.searchsorted(to_numpy(values.run_ends), rows, side="right")
    first, last = (int(runs[0]), int(runs[-1]) + 1) if len(runs) else (0, 0)
    return _spread(plain(values.values.slice(first, last - first)), to_arrow(runs - first))


def _decode_dictionary(values: pa.DictionaryArray) -> pa.Array:
    distinct = plain(values.dictionary)
    if distinct is values.dictionary and is_string(distinct.type) and not distinct.null_count:
        return values
    return _spread(distinct, values.indices)


def _spread(distinct: pa.Array, places: pa.Array) -> pa.Array:
    """The values at these places; strings stay distinct."""
    kind = distinct.type
    if is_string(kind) and not pa.types.is_dictionary(kind) and not distinct.null_count:
        return pa.DictionaryArray.from_arrays(places, distinct)
    return take(distinct, places)


def _without_views(values: pa.Array) -> pa.Array:
    is_text = pa.types.is_string_view(values.type)
    kind = pa.large_string() if is_text else pa.large_binary()
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:  # before PyArrow 18
        raw = values.view(pa.binary_view()) if is_text else values
        return pa.array(raw.to_pylist(), pa.large_binary()).view(kind)


def _widen_decimals(values: pa.Array) -> pa.Array:
    """Decimals of 32 or 64 bits as those of 128: few functions accept the short ones."""
    kind = values.type
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = _data(values, np.int32 if kind.bit_width == 32 else np.int64)
    words[:, 1] = words[:, 0] >> 63
    return _with_data(values, pa.decimal128(kind.precision, kind.scale), words)


def _data(values: pa.Array, kind: Any, buffer: int = 1) -> NDArray[Any]:
    """What an array has in memory, any number in place of a null."""
    size, offset = len(values), values.offset * np.dtype(kind).itemsize
    return (
        np.frombuffer(values.buffers()[buffer], kind, size, offset) if size else np.empty(0, kind)
    )


def _with_data(values: pa.Array, kind: pa.DataType, data: NDArray[Any]) -> pa.Array:
    """Other data that has nulls where `values` has."""
    valid = np.packbits(to_numpy(values.is_valid()), bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def take(values: pa.Array, places: pa.Array) -> pa.Array:
    """The values at these places, null where a place is null."""
    if is_union(values.type):
        return _take_union(values, places)
    try:
        return values.take(places)
    except pa.ArrowNotImplementedError:
        return _deep(values).take(places)


def _take_union(values: pa.UnionArray, places: pa.Array) -> pa.UnionArray:
    """As `take`. A union has no nulls itself: its first type gets one more value, a null."""
    kind = values.type
    children = [values.field(number) for number in range(kind.num_fields)]
    codes, offsets = _codes_and_offsets(values)
    if places.null_count:
        last = len(children[0])
        children[0] = take(plain(children[0]), pa.array([*range(last), None], pa.int64()))
        codes = np.append(codes, np.int8(kind.type_codes[0]))
        offsets = np.append(offsets, np.int32(last))
    at = to_numpy(places.cast(pa.int64()).fill_null(len(values)))
    names = [kind.field(number).name for number in range(kind.num_fields)]
    some = to_arrow(codes[at]), to_arrow(offsets[at])
    return pa.UnionArray.from_dense(*some, children, names, kind.type_codes)


def _codes_and_offsets(values: pa.UnionArray) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """The type of each value of a union, and its place among those of that type."""
    # The properties of these names are those of the whole array even if it is a slice.
    codes = _data(values, np.int8)
    if values.type.mode == "dense":
        return codes, _data(values, np.int32, 2)
    return codes, np.arange(len(values), dtype=np.int32)


def _deep(values: pa.Array) -> pa.Array:
    """Plain values, and all that lies in them is plain, too."""
    values = plain(values)
    kind = values.type
    if is_union(kind):
        children = [_deep(values.field(number)) for number in range(kind.num_fields)]
        codes, offsets = _codes_and_offsets(values)
        return pa.UnionArray.from_dense(
            to_arrow(codes), to_arrow(offsets), children, None, kind.type_codes
        )
    null = values.is_null()
    if pa.types.is_struct(kind):
        fields = [_deep(values.field(number)) for number in range(kind.num_fields)]
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(fields, names, mask=null) if fields else values
    if pa.types.is_map(kind):
        sizes, keys, items = split_map(values)
        offsets = pa.array(starts(sizes), pa.int32(), mask=np.append(to_numpy(null), False))
        return pa.MapArray.from_arrays(offsets, _deep(keys), _deep(items))
    if is_list(kind):
        sizes, items = split_list(values)
        return pa.LargeListArray.from_arrays(to_arrow(starts(sizes)), _deep(items), mask=null)
    return values


def split_list(values: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """How many items each list has, and all items."""
    kind = values.type
    if pa.types.is_fixed_size_list(kind):
        begin = (values.offset + np.arange(len(values))) * kind.list_size
        sizes = np.full(len(values), kind.list_size)
    elif _is_list_view(kind):
        begin, sizes = to_numpy(values.offsets), to_numpy(values.sizes)
    else:
        offsets = to_numpy(values.offsets)
        begin, sizes = offsets[:-1], np.diff(offsets)
    sizes = np.where(to_numpy(values.is_valid()), sizes, 0).astype(np.int64)
    return sizes, _gather(values.values, begin.astype(np.int64), sizes)


def split_map(values: pa.MapArray) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """How many entries each map has, and all keys and items."""
    offsets = to_numpy(values.offsets).astype(np.int64)
    sizes = np.where(to_numpy(values.is_valid()), np.diff(offsets), 0)
    keys, items = (_gather(part, offsets[:-1], sizes) for part in (values.keys, values.items))
    return sizes, keys, items


def _gather(values: pa.Array, begin: NDArray[np.int64], sizes: NDArray[np.int64]) -> pa.Array:
    """The values of runs that begin at these places, laid end to end."""
    begin, sizes = begin[sizes > 0], sizes[sizes > 0]
    if not len(begin):
        return values.slice(0, 0)
    first, last = int(begin.min()), int((begin + sizes).max())
    within = values.slice(first, last - first)
    if (begin[1:] == (begin + sizes)[:-1]).all():
        return within
    return take(plain(within), to_arrow(run_places(begin - first, sizes)))


def split_struct(
    values: pa.StructArray,
) -> Iterator[tuple[str, pa.Array, NDArray[np.int64] | None]]:
    """Name and values of each field, and the structs that they belong to, None if value i to i."""
    kind = values.type
    for number in range(kind.num_fields):
        field = kind.field(number)
        if not values.null_count:
            yield field.name, values.field(number), None
        elif _may_be_null(field.type):
            yield field.name, pc.struct_field(values, [number]), None
        else:
            # The function above would end the process.
            places = np.flatnonzero(to_numpy(values.is_valid()))
            yield field.name, take(plain(values.field(number)), to_arrow(places)), places


def _may_be_null(kind: pa.DataType) -> bool:
    """Whether arrays of a type say themselves which of their values are null."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return not (is_union(kind) or pa.types.is_run_end_encoded(kind) or pa.types.is_null(kind))


def split_union(values: pa.UnionArray) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """The values of each type that has some, and their places."""
    kind = values.type
    codes, offsets = _codes_and_offsets(values)
    for number, code in enumerate(kind.type_codes):
        places = np.flatnonzero(codes == code)
        if len(places):
            yield take(plain(values.field(number)), to_arrow(offsets[places])), places
