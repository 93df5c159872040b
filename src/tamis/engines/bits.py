"""Bit operations that Numba does not offer by itself."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# Numba infers the types of kernels and intrinsics.

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["lowest_bit"]


@intrinsic
def lowest_bit(typing_context, word):  # noqa: ARG001  # Numba passes them by position
    """The place of the lowest set bit of a 64-bit word that is not zero."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001  # as above
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate
