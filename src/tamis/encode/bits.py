"""The lowest bit of a word, which Numba lacks."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of intrinsics.

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["lowest_bit"]


@intrinsic
def lowest_bit(typing_context, word):  # noqa: ARG001  # Numba passes them by position
    """The position of the lowest set bit of a nonzero 64-bit word."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001  # as above
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


# What the intrinsic does, for kernels that run as plain Python.
lowest_bit.plain = lambda word: (int(word) & -int(word)).bit_length() - 1
