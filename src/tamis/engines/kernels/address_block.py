"""A block of addresses: how a kernel takes many arrays as one argument.

Passing an array to a kernel costs 0.1 to 0.2 µs, which adds up to a third of the time to match one
event (docs/decisions/0017). So a kernel that is called for single events takes one array of int64
numbers, the *block*: the address and the length of each array of some NamedTuples, one after
another. A *reader* makes the NamedTuple inside the kernel, where it costs nothing.

A block does not keep its arrays alive; `AddressBlock` does, so keep that object as long as the
block is in use. Arrays that a kernel writes to belong to one thread, and so does their block. After
a fork, a block is as valid in the child as the arrays are.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of intrinsics.

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from tamis.encode.addresses import generate_view, read_memory

__all__ = ["AddressBlock", "Column", "make_reader"]


class Column(NamedTuple):
    """The type of an array: its items, and how many of them a row has if it has two dimensions."""

    dtype: type[np.generic]
    width: int = 0


class AddressBlock:
    """The addresses and lengths of arrays, and the arrays themselves.

    Parameters
    ----------
    parts
        NamedTuples of arrays, each with the reader that will read it. Readers are made for parts in
        this order.

    Raises
    ------
    TypeError
        An array is not of the type that its reader expects.
    """

    def __init__(self, *parts: tuple[Any, tuple[NDArray[Any], ...]]) -> None:
        self._arrays = [arrays for _, arrays in parts]
        """Keeps the arrays alive; the block holds only their addresses."""
        numbers: list[int] = []
        for reader, arrays in parts:
            columns, first = reader._defn.columns, reader._defn.first
            assert first == len(numbers) // 2
            for (name, column), array in zip(columns.items(), arrays, strict=True):
                _check(name, column, array)
                numbers += array.ctypes.data, len(array)
        self.block = np.array(numbers, np.int64)


def _check(name: str, column: Column, array: NDArray[Any]) -> None:
    shape = (len(array), column.width) if column.width else (len(array),)
    is_right = array.dtype == column.dtype and array.shape == shape
    if not (is_right and array.flags.c_contiguous):
        wanted = f"{column.dtype.__name__} by {column.width or 1}"
        raise TypeError(f"{name} is {array.dtype} {array.shape}, not contiguous {wanted}")


def make_reader(
    kind: type[tuple[Any, ...]], first: int, columns: Mapping[str, Column], name: str = ""
) -> Any:
    """Make a reader: a part of kernels that reads a NamedTuple of arrays from a block.

    Parameters
    ----------
    kind
        The NamedTuple.
    first
        How many arrays stand before it in the block.
    columns
        The type of each field, in order.
    name
        The reader's name, if a block has several parts of one kind.
    """
    assert tuple(columns) == kind._fields  # type: ignore[attr-defined]  # a NamedTuple
    arrays = [_array_type(column) for column in columns.values()]
    widths = [column.width for column in columns.values()]
    found = types.NamedTuple(arrays, kind)

    def define(typing_context, block):  # noqa: ARG001  # Numba passes them by position
        def generate(context, builder, signature, arguments):
            numbers = make_array(signature.args[0])(context, builder, arguments[0])
            number = ir.IntType(64)
            views = [
                generate_view(context, builder, numbers, number(2 * (first + i)), array, width)
                for i, (array, width) in enumerate(zip(arrays, widths, strict=True))
            ]
            return context.make_tuple(builder, signature.return_type, views)

        return found(block), generate

    about: Any = define
    about.kind, about.first, about.columns = kind, first, dict(columns)
    # The cache of kernels tells readers apart by their names.
    define.__name__ = define.__qualname__ = name or f"read_{kind.__name__}"
    reader = intrinsic(define)
    reader.plain = partial(_read_plainly, reader)
    return reader


def _array_type(column: Column) -> types.Array:
    return types.Array(from_dtype(np.dtype(column.dtype)), 2 if column.width else 1, "C")


def _read_plainly(reader: Any, block: NDArray[np.int64]) -> tuple[Any, ...]:
    """What a reader reads, as NumPy arrays, for kernels that run as plain Python."""
    definition = reader._defn
    arrays = []
    for place, column in enumerate(definition.columns.values(), definition.first):
        address, length = block[2 * place : 2 * place + 2].tolist()
        arrays.append(read_memory(address, length, column.dtype, column.width))
    return definition.kind(*arrays)  # type: ignore[no-any-return]  # the NamedTuple
