"""Arrays go from NumPy to Arrow and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tamis.encode.arrow_arrays import to_arrow, to_numpy

ARRAYS = [
    np.arange(-3, 20),
    np.arange(23, dtype=np.int32),
    np.arange(23, dtype=np.uint64),
    np.linspace(-1, 1, 23),
    np.arange(23) % 3 == 0,
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.dtype.name)
def test_there_and_back(array: np.ndarray) -> None:
    there = to_arrow(array)
    assert there.to_pylist() == array.tolist()
    for begin in range(10):
        for size in (0, 1, 8, 13):
            back = to_numpy(there.slice(begin, size))
            assert back.dtype == array.dtype
            assert back.tolist() == array[begin : begin + size].tolist()


@pytest.mark.parametrize("sizes", [[], [5], [3, 0, 4]])
def test_chunks_become_one_array(sizes: list[int]) -> None:
    chunks = [to_arrow(np.arange(size)) for size in sizes]
    together = pa.chunked_array(chunks, pa.int64())
    assert to_numpy(together).tolist() == together.to_pylist()


def test_numbers_share_their_memory() -> None:
    array = np.arange(5)
    assert np.shares_memory(to_numpy(to_arrow(array)), array)


def test_nulls_are_refused() -> None:
    with pytest.raises(ValueError, match="nulls"):
        to_numpy(pa.array([1, None]))
