"""Threads that change rules give way to threads that search.

One thread at a time runs Python. A search in a matcher whose rules change needs the interpreter
several times, for a fifth of a millisecond in all, and each time a thread that adds rules in a loop
may be in its way: beside such a thread a search took 20 ms. So searches announce themselves, and an
addition that is done waits for those that have begun, if only for a millisecond.

Searches in a matcher whose rules rest are not announced: they have little to wait for.
"""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Final, ParamSpec, TypeVar

from tamis.forks import call_in_child

__all__ = ["announced", "give_way"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PATIENCE: Final = 1e-3
"""Seconds that a change waits for searches, at most."""

_searches: Final[dict[int, LockType]] = {}
"""For each thread that is in a search, a lock that it releases at the end."""
call_in_child(_searches.clear)


def announced(search: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same function, as a search that others give way to."""

    @wraps(search)
    def announce(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        thread, running = get_ident(), allocate_lock()
        running.acquire()
        _searches[thread] = running
        try:
            return search(*args, **kwargs)
        finally:
            _searches.pop(thread, None)
            running.release()

    return announce


def give_way() -> None:
    """Wait for the searches that other threads have begun, but not long."""
    if not _searches:
        return
    begun = _searches.copy()
    begun.pop(get_ident(), None)
    end = time.perf_counter() + _PATIENCE
    for running in begun.values():
        if running.acquire(timeout=max(0.0, end - time.perf_counter())):
            running.release()
