"""NumPy arrays as Arrow arrays and back, without a copy.

`pyarrow.array` and `to_numpy` of Arrow's arrays import pandas where it is installed, to find out
whether they were given something of pandas; that takes a quarter of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["new_integers", "to_arrow", "to_numpy"]


def to_arrow(array: NDArray[Any]) -> pa.Array:
    """An array of numbers or booleans as an Arrow array that shares its memory if it can."""
    if array.dtype == np.bool_:
        values = np.packbits(array, bitorder="little")
    else:
        values = np.ascontiguousarray(array)
    kind = pa.from_numpy_dtype(array.dtype)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(values)])


def new_integers(size: int) -> NDArray[np.int64]:
    """An array of integers with any contents, in memory of Arrow's pool.

    The pool keeps the memory of large arrays that were freed. NumPy gives it back to the system,
    which clears every page that it hands out again; that takes longer than to fill it.
    """
    return np.frombuffer(pa.allocate_buffer(8 * max(size, 1)), np.int64)[:size]


def to_numpy(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Numbers or booleans without nulls as a NumPy array that shares their memory if it can."""
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if values.null_count:
        raise ValueError("an array with nulls has no form in NumPy")
    kind, begin, size = np.dtype(values.type.to_pandas_dtype()), values.offset, len(values)
    if not size:
        return np.empty(0, kind)
    _, data = values.buffers()
    if kind == np.bool_:
        bits = np.frombuffer(data, np.uint8)[begin // 8 : -(-(begin + size) // 8)]
        return np.unpackbits(bits, bitorder="little")[begin % 8 :][:size].view(np.bool_)
    return np.frombuffer(data, kind, size, begin * kind.itemsize)
