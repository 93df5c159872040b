"""The time that a search may take: when it ends, and where a search looks at the clock.

A search runs in one thread, and so does everything that may take long in it. So the deadline
belongs to the thread: :func:`limit_time` sets it, and :func:`check_time`, called between the steps
of a search, raises an error once it has passed. A step that has begun ends first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from tamis.errors import TimeLimitError

__all__ = ["check_time", "limit_time"]


class _Deadline(threading.local):
    at: float | None = None
    """When the search of this thread must end, on the clock of `perf_counter`."""
    milliseconds: float = 0.0
    """The limit for one event, for the error."""


_deadline = _Deadline()


@contextmanager
def limit_time(milliseconds: float | None, events: int = 1) -> Iterator[None]:
    """Let the steps of a search take so many milliseconds for each event; None sets no limit."""
    if milliseconds is None:
        yield
        return
    before = _deadline.at, _deadline.milliseconds
    _deadline.at = perf_counter() + milliseconds * events / 1000
    _deadline.milliseconds = milliseconds
    try:
        yield
    finally:
        _deadline.at, _deadline.milliseconds = before


def check_time() -> None:
    """Raise an error if the time of this thread's search is up.

    Raises
    ------
    TimeLimitError
        It is.
    """
    at = _deadline.at
    if at is not None and perf_counter() > at:
        raise TimeLimitError(
            f"the search took longer than {_deadline.milliseconds:g} ms for an event, "
            "the limit milliseconds"
        )
