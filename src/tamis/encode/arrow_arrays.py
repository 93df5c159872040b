"""NumPy arrays as Arrow arrays, without a copy.

`pyarrow.array` imports pandas, if it is installed, to find out whether it was given something of
pandas; that takes a quarter of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["to_arrow"]


def to_arrow(array: NDArray[Any]) -> pa.Array:
    """An array of numbers or booleans as an Arrow array that shares its memory if it can."""
    if array.dtype == np.bool_:
        values = np.packbits(array, bitorder="little")
    else:
        values = np.ascontiguousarray(array)
    kind = pa.from_numpy_dtype(array.dtype)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(values)])
