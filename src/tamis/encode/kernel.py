"""How kernels are compiled."""

from __future__ import annotations

from typing import Any

import numba

__all__ = ["kernel"]

kernel: Any = numba.njit(cache=True, nogil=True, _nrt=False)
"""Compiles a function over arrays that allocates nothing.

It is compiled without Numba's runtime, so that no references are counted: with it, each array that
is passed to an inner function or taken out of a NamedTuple costs two atomic additions, which made
the scan of rules seven times slower (docs/decisions/0003). A kernel that tried to allocate would
not compile.
"""
