"""Arrays in kernels, made from addresses that stand in an array of numbers.

Passing an array to a kernel costs 0.1 to 0.2 µs. Where a kernel takes very many arrays, it takes
one array of their addresses and lengths instead. Whoever makes it keeps the arrays alive.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of intrinsics.

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

__all__ = [
    "check_items",
    "doubles_at",
    "generate_view",
    "int32s_at",
    "int64s_at",
    "read_memory",
    "uint8s_at",
]


def check_items(context, builder, array, first, count):
    """Have a kernel that checks bounds raise an IndexError unless an array has these items.

    Numba checks what a kernel indexes, and nothing that an intrinsic reads or writes by itself.
    """
    if not context.enable_boundscheck:
        return
    size, zero = builder.extract_value(array.shape, 0), ir.Constant(ir.IntType(64), 0)
    with builder.if_then(builder.icmp_signed(">", count, zero)):
        last = builder.sub(builder.add(first, count), ir.Constant(ir.IntType(64), 1))
        for place in (first, last):
            cgutils.do_boundscheck(context, builder, place, size)


def generate_view(context, builder, numbers, place, array, width=0):
    """An array over the address and the length at a place, without a reference count.

    They stand in the array `numbers`; `array` is the type of the new array, and `width` is how many
    items each of its rows has if it has two dimensions.
    """

    def constant(value):
        return ir.Constant(ir.IntType(64), value)

    check_items(context, builder, numbers, place, constant(2))
    places = place, builder.add(place, constant(1))
    address, length = (builder.load(builder.gep(numbers.data, [at])) for at in places)
    item = context.get_data_type(array.dtype)
    size = context.get_abi_sizeof(item)
    view = make_array(array)(context, builder)
    populate_array(
        view,
        data=builder.inttoptr(address, item.as_pointer()),
        shape=cgutils.pack_array(builder, [length, constant(width)] if width else [length]),
        strides=cgutils.pack_array(
            builder, [constant(size * width), constant(size)] if width else [constant(size)]
        ),
        itemsize=constant(size),
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def read_memory(address: int, length: int, dtype: Any, width: int = 0) -> NDArray[Any]:
    """The same view as a NumPy array, for kernels that run as plain Python."""
    shape = (length, width) if width else (length,)
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    memory = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _make_reader(dtype: type[np.generic]) -> Any:
    """Make an intrinsic that takes the numbers and a place; see `generate_view`."""
    array = types.Array(from_dtype(np.dtype(dtype)), 1, "C")

    def define(typing_context, numbers, place):  # noqa: ARG001  # Numba passes them by position
        def generate(context, builder, signature, arguments):
            found = make_array(signature.args[0])(context, builder, arguments[0])
            return generate_view(context, builder, found, arguments[1], array)

        return array(numbers, types.int64), generate

    # The cache of kernels tells intrinsics apart by their names.
    define.__name__ = define.__qualname__ = f"{dtype.__name__}s_at"
    reader = intrinsic(define)
    reader.plain = partial(_read_plainly, dtype)
    return reader


def _read_plainly(dtype: type[np.generic], numbers: NDArray[np.int64], place: int) -> NDArray[Any]:
    address, length = numbers[place : place + 2].tolist()
    return read_memory(address, length, dtype)


uint8s_at, int32s_at = _make_reader(np.uint8), _make_reader(np.int32)
int64s_at, doubles_at = _make_reader(np.int64), _make_reader(np.float64)
