"""Which documents expire, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from tamis.expr.event import FlatEvent
from tamis.expr.numbers import LongDecimal

__all__ = ["FUTURE", "Retention"]

FUTURE: Final = 86_400.0
"""How many seconds a document's own time may lie ahead of the clock to be believed."""


class Retention:
    """Which documents expire, by count or by age.

    Parameters
    ----------
    count
        How many documents are kept at most; the oldest expire first.
    age
        The age at which a document expires: a ``timedelta``, or seconds.
    by
        The attribute with a document's time: a timestamp, or seconds since 1970. The current time
        is then the newest of these times, so that the answers depend on the events alone. A
        document without the attribute, like all documents without `by`, counts from when it came.
    clock
        Returns the current time, in seconds since 1970. By default that is the machine's clock, or
        with `by` the newest time of the events. A clock is not stored with the documents.
    """

    __slots__ = ("age", "by", "clock", "count")

    def __init__(
        self,
        count: int | None = None,
        age: timedelta | float | None = None,
        by: str | None = None,
        clock: Callable[[], float] | None = None,
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

    @property
    def by_events(self) -> bool:
        """Whether the current time is the newest time of the events."""
        return self.by is not None and self.clock is None

    def times(self, document: FlatEvent) -> list[float]:
        """A document's own times, in seconds since 1970."""
        values: list[Any] = document.get(self.by, []) if self.by is not None else []
        return [time for value in values if (time := _seconds(value)) is not None]


def _seconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    is_number = isinstance(value, int | float | LongDecimal) and not isinstance(value, bool)
    return float(value) if is_number else None
