"""Which documents expire, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from tamis.expr.event import FlatEvent
from tamis.expr.numbers import LongDecimal

__all__ = ["Retention"]


class Retention:
    """Which documents expire, by count or by age.

    Parameters
    ----------
    count
        How many documents are kept at most; the oldest expire first.
    age
        The age at which a document expires: a ``timedelta``, or seconds.
    by
        The attribute with a document's time: a timestamp, or seconds since 1970. A document
        without it, like all documents without `by`, counts from when it came.
    clock
        Returns the current time, in seconds since 1970.
    """

    __slots__ = ("age", "by", "clock", "count")

    def __init__(
        self,
        count: int | None = None,
        age: timedelta | float | None = None,
        by: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if count is not None and (type(count) is not int or count < 0):
            raise ValueError(f"count must be a whole number, not {count!r}")
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and seconds >= 0):
            raise ValueError(f"age must be a timedelta or a number of seconds, not {age!r}")
        if by is not None and (not isinstance(by, str) or not by):
            raise ValueError(f"by must be the name of an attribute, not {by!r}")
        if by is not None and seconds is None:
            raise ValueError("by= names the time that an age counts from; pass age= too")
        self.count = count
        self.age = seconds
        self.by = by
        self.clock = clock

    def __repr__(self) -> str:
        return f"Retention(count={self.count!r}, age={self.age!r}, by={self.by!r})"

    def moment(self, document: FlatEvent, came: float) -> float:
        """The time that the age of a document counts from, in seconds since 1970."""
        values: list[Any] = document.get(self.by, []) if self.by is not None else []
        moments = [m for value in values if (m := _seconds(value)) is not None]
        return max(moments, default=came)


def _seconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    is_number = isinstance(value, int | float | LongDecimal) and not isinstance(value, bool)
    return float(value) if is_number else None
