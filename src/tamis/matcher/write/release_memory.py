"""Gives freed memory back to the system after a large build.

Building a segment allocates several times what stays. The allocators of C and of Arrow keep freed
pages for later: after a million rules, more than the index itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pyarrow as pa

__all__ = ["release_memory"]

_LEAST_RULES: Final = 50_000
"""Smaller builds leave little, and giving pages back takes some milliseconds."""


def release_memory(rules: int) -> None:
    """Give back the memory that building a large segment has left."""
    if rules < _LEAST_RULES:
        return
    pa.default_memory_pool().release_unused()
    trim = _find_trim()
    if trim is not None:
        trim(0)


@cache
def _find_trim() -> Callable[[int], Any] | None:
    """The function of glibc that gives pages back; None where there is none, as on macOS."""
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
