"""64-bit hashes of texts, the same in every process: FNV-1a with a final mix."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import event_kernel, kernel

__all__ = ["hash_text", "hash_texts", "read_only"]

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


def hash_texts(start: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The hash of each of the texts data[start[i]:start[i + 1]]."""
    out = np.empty(len(start) - 1, np.uint64)
    _hash(read_only(start), read_only(data), out)
    return out


def hash_text(text: str) -> int:
    """The hash of one text."""
    return int(_hash_one(np.frombuffer(text.encode(), np.uint8)))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: arrays from Arrow are read-only, and one compiled kernel serves all."""
    view = array.view()
    view.setflags(write=False)
    return view


@event_kernel
def _hash_one(data):
    state = _OFFSET
    for at in range(len(data)):
        state = (state ^ np.uint64(data[at])) * _PRIME
    state = (state ^ (state >> _HALF)) * _MIX
    return state ^ (state >> _HALF)


@kernel
def _hash(start, data, out):
    for i in range(len(out)):
        state = _OFFSET
        for at in range(start[i], start[i + 1]):
            state = (state ^ np.uint64(data[at])) * _PRIME
        # Without this the high bits, by which hashes are sorted, differ little between short texts.
        state = (state ^ (state >> _HALF)) * _MIX
        out[i] = state ^ (state >> _HALF)
