"""When work has to end: at a deadline, or once nobody waits for it any more.

A search or an analysis runs in one thread, and so does everything that may take long in it. So a
deadline belongs to the thread: :func:`limit_time` sets one for a search, :func:`working` one that
another thread can bring forward. :func:`check_time`, called between the steps of the work, raises
an error once one of them has passed. A step that has begun ends first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from tamis.errors import TimeLimitError

__all__ = ["GivenUpError", "Work", "check_time", "limit_time", "working"]


class GivenUpError(BaseException):
    """Nobody waits for this work any more.

    Not an `Exception`: work that goes on after an error, such as the next event after one that is
    refused, must not go on after this one.
    """


class _Deadline:
    """When the work of a thread must end, on the clock of `perf_counter`."""

    __slots__ = ("at", "outer")

    def __init__(self, at: float) -> None:
        self.at = at
        self.outer: _Deadline | None = None

    def error(self) -> BaseException:
        return GivenUpError()


class _SearchDeadline(_Deadline):
    __slots__ = ("milliseconds",)

    def __init__(self, milliseconds: float, events: int) -> None:
        super().__init__(perf_counter() + milliseconds * events / 1000)
        self.milliseconds = milliseconds

    def error(self) -> BaseException:
        return TimeLimitError(
            f"the search exceeded Limits.milliseconds ({self.milliseconds:g} ms per event)"
        )


class Work(_Deadline):
    """Work of one thread that another may give up."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(math.inf)

    def give_up(self) -> None:
        """Have the work end at its next step."""
        self.at = -math.inf

    @property
    def is_given_up(self) -> bool:
        """Whether it has to end."""
        return self.at == -math.inf


class _Current(threading.local):
    deadline: _Deadline | None = None
    """The innermost deadline of this thread."""


_current = _Current()


@contextmanager
def _until(deadline: _Deadline) -> Iterator[None]:
    deadline.outer = before = _current.deadline
    _current.deadline = deadline
    try:
        yield
    finally:
        _current.deadline = before


@contextmanager
def limit_time(milliseconds: float | None, events: int = 1) -> Iterator[None]:
    """Limit the steps of a search to this time for each event; None sets no limit."""
    if milliseconds is None:
        yield
        return
    with _until(_SearchDeadline(milliseconds, events)):
        yield


@contextmanager
def working(work: Work) -> Iterator[None]:
    """Do `work` in this thread, as far as it is not given up."""
    with _until(work):
        check_time()
        yield


def check_time() -> None:
    """Raise an error if the time of this thread's work is up.

    Raises
    ------
    TimeLimitError
        A search has taken too long.
    GivenUpError
        The work was given up.
    """
    deadline = _current.deadline
    if deadline is None:
        return
    now = perf_counter()
    while deadline is not None:
        if now > deadline.at:
            raise deadline.error()
        deadline = deadline.outer
