"""The threads that share the rows of many events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

__all__ = ["in_threads", "set_threads", "threads"]

_Result = TypeVar("_Result")

_chosen: int | None = None


def set_threads(number: int | None) -> None:
    """Have this process match many events at once with so many threads; None for all cores.

    For processes that share a machine, each with events of its own, one thread is best.
    """
    global _chosen
    if number is not None and (type(number) is not int or number < 1):
        raise ValueError(f"the number of threads is at least 1, or None, not {number!r}")
    _chosen = number


def threads() -> int:
    """How many threads there are to be."""
    return _chosen or os.cpu_count() or 1


def in_threads(run: Callable[[int], _Result], starts: range) -> Iterator[_Result]:
    """Run ranges of rows in all threads, if there are two or more of both."""
    if len(starts) < 2 or threads() < 2:
        return map(run, starts)
    return _pool(threads()).map(run, starts)


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="tamis")
