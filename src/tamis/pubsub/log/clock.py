"""The times of events, where the clock of the machine may be wrong.

A machine may boot in 2099 or in 1970 until the time service has set its clock. Neither may stay in
the log: after a jump back events get the time that the clock says then, and only a small step back
is hidden. Retention ignores times that cannot be, and removes nothing by age until the clock has
run on for a while without a jump.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

__all__ = ["LogClock", "find_last", "read_steady", "read_wall"]

_logger = logging.getLogger("tamis")

_TOLERANCE: Final = 60_000_000
"""A step of at most so many microseconds is no fault: time services make them."""

_FIRST: Final = 1_735_689_600_000_000
"""2025 began then. No clock that is right says an earlier time: there was no Tamis."""

_STEADY: Final = 600.0
"""So many seconds after a start or a jump, the clock is trusted to remove events."""


def read_wall() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


def read_steady() -> float:
    """Seconds that nothing sets, and that pass while the machine sleeps where that can be had."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class LogClock:
    """Gives events their times, and notices when the clock jumps. For one thread.

    Parameters
    ----------
    last
        The time of the last event, in microseconds since 1970; 0 if there is none.

    Attributes
    ----------
    jumps
        How many jumps were noticed.
    """

    def __init__(self, last: int) -> None:
        self.jumps = 0
        self._last = last
        self._wall, self._steady = read_wall(), read_steady()
        self._steady_since = self._steady

    def stamp(self) -> int:
        """The time of the next event: not before that of the last one, unless that was wrong."""
        now = self.look()
        if now < self._last - _TOLERANCE and now >= _FIRST:
            self._note("the last event was published in the future", self._last, now)
            self._last = now
        self._last = max(self._last, now)
        return self._last

    def look(self) -> int:
        """The time now, in microseconds since 1970."""
        wall, steady = read_wall(), read_steady()
        expected = self._wall + int((steady - self._steady) * 1e6)
        self._wall, self._steady = wall, steady
        if abs(wall - expected) > _TOLERANCE:
            self._steady_since = steady
            self._note("the clock jumped", expected, wall)
        return wall

    @property
    def ahead(self) -> float:
        """By how many seconds the time of the last event lies in the future."""
        return max(0, self._last - read_wall()) / 1e6

    def is_trusted(self, age: float) -> bool:
        """Whether the clock has run on for so long that events of an age may be removed."""
        self.look()
        return self._steady - self._steady_since >= min(_STEADY, age)

    def _note(self, what: str, before: int, now: int) -> None:
        self.jumps += 1
        _logger.warning("%s: from %s to %s", what, _spell(before), _spell(now))


def find_last(times: Iterable[int], now: int) -> int | None:
    """The last of the times that can be right; None if none can."""
    latest = max(times, default=0)
    if latest > now + _TOLERANCE:
        latest = max((one for one in times if one <= now + _TOLERANCE), default=0)
    return latest if latest >= _FIRST else None


def _spell(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs"
