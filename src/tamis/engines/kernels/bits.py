"""Bit operations that Numba lacks, and the 64-bit constants of kernels.

Numba turns an unsigned word plus a signed number into a float; these constants are unsigned.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of kernels and intrinsics.

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from tamis.encode.addresses import check_items
from tamis.encode.bits import lowest_bit

__all__ = [
    "ALL_BITS",
    "BYTE",
    "EIGHT",
    "ONE",
    "ZERO",
    "count_bits",
    "count_zeros_below",
    "find_nonzero",
    "lowest_bit",
    "prefetch",
    "without_lowest_bit",
]

ZERO, ONE, EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
BYTE, ALL_BITS = np.uint64(0xFF), ~np.uint64(0)


@intrinsic
def count_zeros_below(typing_context, word):  # noqa: ARG001  # Numba passes them by position
    """The position of the lowest set bit of a 64-bit word, or 64 if none is set."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001  # as above
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def without_lowest_bit(typing_context, word):  # noqa: ARG001  # Numba passes them by position
    """A 64-bit word without its lowest set bit; 0 stays 0."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001  # as above
        below = builder.sub(arguments[0], ir.Constant(ir.IntType(64), 1))
        return builder.and_(arguments[0], below)

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context, word):  # noqa: ARG001  # Numba passes them by position
    """How many bits of a 64-bit word are set."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001  # as above
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def find_nonzero(typing_context, words, first):  # noqa: ARG001  # Numba passes them by position
    """A bit for each of the eight words from words[first] on: whether it is not 0."""

    def generate(context, builder, signature, arguments):
        array = make_array(signature.args[0])(context, builder, arguments[0])
        check_items(context, builder, array, arguments[1], ir.IntType(64)(8))
        eight = ir.VectorType(ir.IntType(64), 8)
        pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), eight.as_pointer())
        found = builder.icmp_unsigned("!=", builder.load(pointer, align=8), eight(None))
        return builder.zext(builder.bitcast(found, ir.IntType(8)), ir.IntType(64))

    return types.uint64(words, types.uint64), generate


@intrinsic
def prefetch(typing_context, array, place):  # noqa: ARG001  # as above
    """Start loading the cache line of array[place] of a flat array, without waiting for it."""

    def generate(context, builder, signature, arguments):
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        read, keep, data_cache = (ir.Constant(number, n) for n in (0, 3, 1))
        builder.call(function, [pointer, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


# What the intrinsics do, for kernels that run as plain Python.
count_zeros_below.plain = lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64
without_lowest_bit.plain = lambda word: np.uint64(int(word) & (int(word) - 1)) if word else ZERO
count_bits.plain = lambda word: int(word).bit_count()
find_nonzero.plain = lambda words, first: sum(
    np.uint64(1 << k) for k in range(8) if words[int(first) + k]
)
prefetch.plain = lambda array, place: None
