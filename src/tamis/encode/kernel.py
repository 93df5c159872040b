"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from tamis.encode.kernel_cache import KernelCache

__all__ = ["kernel", "part"]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function over arrays that allocates nothing, and keep the result on disk.

    Kernels are compiled without Numba's runtime, so that no references are counted: with it, each
    array that is passed to an inner function or taken out of a NamedTuple costs two atomic
    additions, which made a loop over conjunctions eight times slower (docs/decisions/0003). A
    kernel that allocates does not compile.

    Numba's own cache considers a kernel fresh as long as its file is unchanged, although it may
    contain code of kernels in other files; `tamis.encode.kernel_cache` knows better.
    """
    dispatcher: Any = numba.njit(nogil=True, _nrt=False)(function)
    dispatcher._cache = KernelCache(dispatcher)
    return dispatcher


def part(function: Callable[..., Any]) -> Any:
    """A part of a kernel, inlined wherever it is called.

    A call passes every array of each NamedTuple on its own; for a small part that takes many
    arrays, this costs more than the work it does.
    """
    return numba.njit(inline="always", _nrt=False)(function)
