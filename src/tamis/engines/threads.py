"""The threads among which the events of one call are divided."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from tamis.forks import call_in_child

__all__ = ["map_in_threads", "set_threads", "thread_count"]

_Result = TypeVar("_Result")

_chosen: int | None = None


def set_threads(number: int | None) -> None:
    """Set how many threads this process uses to match many events; None uses all cores.

    Where several processes share a machine and each matches its own events, one thread each is
    best.
    """
    global _chosen
    if number is not None and (type(number) is not int or number < 1):
        raise ValueError(f"the number of threads is at least 1, or None, not {number!r}")
    _chosen = number


def thread_count() -> int:
    """How many threads this process uses to match many events."""
    return _chosen or os.cpu_count() or 1


def map_in_threads(run: Callable[[int], _Result], starts: range) -> Iterator[_Result]:
    """Call `run` with each start and yield the results in order.

    Uses threads if there are at least two starts and two threads.
    """
    if len(starts) < 2 or thread_count() < 2:
        return map(run, starts)
    return _pool(thread_count()).map(run, starts)


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="tamis")


# A forked child has none of its parent's threads.
call_in_child(_pool.cache_clear)
