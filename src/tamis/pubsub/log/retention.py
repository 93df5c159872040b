"""How long the event log keeps events."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

__all__ = ["WEEK", "LogRetention"]

WEEK: Final = 7 * 24 * 3600.0


class LogRetention:
    """How long the event log keeps events. The oldest are removed, a file of the log at a time.

    Parameters
    ----------
    age
        The age at which events may be removed: a ``timedelta``, or seconds; None keeps them
        whatever their age.
    bytes
        How many bytes the log may have before events are removed; None for any number.
    clock
        Returns the current time, in seconds since 1970.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from tamis.pubsub import LogRetention
    >>> LogRetention(age=timedelta(days=1), bytes=10_000_000_000)
    LogRetention(age=86400.0, bytes=10000000000)
    """

    __slots__ = ("age", "bytes", "clock")

    def __init__(
        self,
        age: timedelta | float | None = WEEK,
        bytes: int | None = None,  # noqa: A002  the name users expect
        clock: Callable[[], float] = time.time,
    ) -> None:
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and seconds >= 0):
            raise ValueError(f"age must be a timedelta or a number of seconds, not {age!r}")
        if bytes is not None and (type(bytes) is not int or bytes < 0):
            raise ValueError(f"bytes must be a whole number, not {bytes!r}")
        self.age = seconds
        self.bytes = bytes
        self.clock = clock

    def __repr__(self) -> str:
        return f"LogRetention(age={self.age!r}, bytes={self.bytes!r})"
