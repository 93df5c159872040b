"""Checks of arrays that were read from a file.

Kernels trust their arrays. So arrays that come from outside are checked first: whatever they
contain, no kernel may then read or write outside of its arrays, or run for ever. A check cannot
know whether the arrays say what the rules say; checksums are for that.

Every NamedTuple of stored arrays has a function that checks it, made of the ones below. They raise
`ArrayError`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import functools
from typing import Any, NoReturn, get_args, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.kernel import kernel

__all__ = [
    "ArrayError",
    "NamedArrays",
    "check_lengths",
    "check_lists",
    "check_numbers",
    "check_order",
    "check_rising",
    "check_texts",
    "check_type",
    "check_types",
    "read_hints",
    "refuse",
    "scalar_of",
]


_FIRST_NOT_ASCII = 128


class ArrayError(ValueError):
    """Arrays contradict each other; the message names one of them."""


def refuse(name: str, reason: str) -> NoReturn:
    """Raise the error about the array `name`."""
    raise ArrayError(f"{name!r} {reason}")


class NamedArrays(dict[str, NDArray[Any]]):
    """The arrays of a file by name; to look up one that is missing raises `ArrayError`."""

    def __missing__(self, name: str) -> NoReturn:
        refuse(name, "is missing")


def check_types(arrays: tuple[Any, ...], **widths: int) -> None:
    """Check that the arrays of a NamedTuple have the types that it declares.

    Each has one dimension, except for those of `widths`, which have two and so many columns. A
    NamedTuple within has a check of its own.
    """
    for name, hint in read_hints(type(arrays)).items():
        value = getattr(arrays, name)
        if hint is int:
            if type(value) is not int:
                refuse(name, "is not a number")
        elif not (isinstance(hint, type) and issubclass(hint, tuple)):
            check_type(name, value, scalar_of(hint), widths.get(name))


@functools.cache
def read_hints(kind: type) -> dict[str, Any]:
    """The types that a NamedTuple declares; they take longer to read than a small array."""
    return get_type_hints(kind)


@functools.cache
def scalar_of(hint: Any) -> type[np.generic]:
    """The type of the numbers in ``NDArray[…]``, however deep this version of NumPy nests it."""
    parts = list(get_args(hint))
    for part in parts:
        if isinstance(part, type) and issubclass(part, np.generic):
            return part
        parts += get_args(part)
    raise TypeError(f"{hint} does not declare an array of a type")


def check_type(
    name: str, array: NDArray[Any], dtype: type[np.generic], width: int | None = None
) -> None:
    """Check the type and the dimensions of an array; with `width`, it has so many columns."""
    shape = array.shape[:1] + (() if width is None else (width,))
    if array.dtype != np.dtype(dtype) or array.shape != shape or not shape:
        refuse(name, f"has the type {array.dtype} and the shape {array.shape}")


def check_lengths(length: int, **arrays: NDArray[Any]) -> None:
    """Check that arrays have a length."""
    for name, array in arrays.items():
        if len(array) != length:
            refuse(name, f"has {len(array):,} entries, not {length:,}")


def check_numbers(name: str, array: NDArray[Any], first: int, end: int) -> None:
    """Check that all numbers are from `first` up to, not including, `end`."""
    if array.size and (array.min() < first or array.max() >= end):
        refuse(name, f"has numbers outside of {first:,} to {end - 1:,}")


def check_lists(
    name: str, start: NDArray[np.integer[Any]], items: int, lists: int | None = None
) -> None:
    """Check where lists begin: they lie end to end and fill `items` places."""
    if not len(start) or (lists is not None and len(start) != lists + 1):
        refuse(name, f"has {len(start):,} entries, which are not one for each list and one more")
    if start[0] != 0 or start[-1] != items or not _never_falls(start.astype(np.int64, copy=False)):
        refuse(name, f"does not divide {items:,} items into lists")


def check_texts(
    name: str, start: NDArray[np.int64], data: NDArray[np.uint8], texts: int | None = None
) -> None:
    """Check texts that lie end to end, in UTF-8."""
    check_lists(f"{name}.start", start, len(data), texts)
    if data.max(initial=0) < _FIRST_NOT_ASCII:
        return
    buffers = [None, pa.py_buffer(start), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_string(), len(start) - 1, buffers).validate(full=True)
    except pa.ArrowInvalid:
        refuse(name, "has a text that is not UTF-8")


def check_order(name: str, order: NDArray[np.int32]) -> None:
    """Check that an array has each number below its length once."""
    check_numbers(name, order, 0, len(order))
    if not _mark_each_once(order, np.zeros(len(order), np.uint8)):
        refuse(name, "has a number twice")


def check_rising(name: str, start: NDArray[np.int64], items: NDArray[Any]) -> None:
    """Check that the items of each list rise; NaN does not."""
    if not _lists_rise(start, items):
        refuse(name, "has lists that do not rise")


@kernel
def _never_falls(numbers):
    falls = False
    for i in range(1, len(numbers)):
        falls |= numbers[i] < numbers[i - 1]
    return not falls


@kernel
def _mark_each_once(numbers, marks):
    twice = 0
    for number in numbers:
        twice += marks[number]
        marks[number] = 1
    return twice == 0


@kernel
def _lists_rise(start, items):
    for k in range(len(start) - 1):
        if start[k] < start[k + 1] and items[start[k]] != items[start[k]]:
            return False
        for i in range(start[k] + 1, start[k + 1]):
            if not items[i] > items[i - 1]:
                return False
    return True
