"""When rules are valid, and their priorities: three numbers per rule.

Most sets of rules have neither times nor priorities; then nothing is stored. Which rules are valid
changes only when a rule begins or ends. So the mask of valid rules is computed once for the whole
period between two such times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from time import time_ns
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import check_lengths, check_numbers, check_type, refuse
from tamis.errors import RuleError
from tamis.expr.times import count_microseconds, to_timestamp

__all__ = ["ALWAYS", "Clock", "Validities", "Validity", "make_clock", "to_microseconds"]

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time."""

_FIRST, _LAST = -(2**63), 2**63 - 1
_NO_NUMBERS = np.empty((0, 3), np.int64)


class Validity(NamedTuple):
    """The priority of a rule, and the period in which it is valid."""

    priority: int = 0
    begin: int = _FIRST
    """The first microsecond since 1970 at which the rule is valid."""
    end: int = _LAST
    """The first microsecond at which the rule is no longer valid."""

    @classmethod
    def of(cls, priority: Any, valid_from: Any, valid_until: Any) -> Validity:
        """Check the priority and the times of a rule.

        Raises
        ------
        RuleError
            The priority is not an integer, a time is not a time, or the rule would never be valid.
        """
        if priority == 0 and valid_from is None and valid_until is None:
            return ALWAYS
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise RuleError(f"a priority is an integer, not {priority!r}")
        if not _FIRST <= priority <= _LAST:
            raise RuleError(f"the priority {priority} does not fit in 64 bits")
        begin = _FIRST if valid_from is None else _check_time("valid_from", valid_from)
        end = _LAST if valid_until is None else _check_time("valid_until", valid_until)
        if begin >= end:
            raise RuleError(
                f"the rule is never valid: it would end at {valid_until}, and begin at {valid_from}"
            )
        return cls(priority, begin, end)

    @property
    def valid_from(self) -> datetime | None:
        """When the rule becomes valid; None if it has no beginning."""
        return None if self.begin == _FIRST else to_timestamp(self.begin)

    @property
    def valid_until(self) -> datetime | None:
        """When the rule ceases to be valid; None if it has no end."""
        return None if self.end == _LAST else to_timestamp(self.end)

    def __str__(self) -> str:
        begin, end = self.valid_from, self.valid_until
        if begin is not None and end is not None:
            return f"only from {begin.isoformat()} until {end.isoformat()}"
        if begin is not None:
            return f"only from {begin.isoformat()} on"
        return "always" if end is None else f"only until {end.isoformat()}"

    def is_valid(self, at: int) -> bool:
        """Whether the rule is valid at a time in microseconds."""
        return self.begin <= at < self.end


ALWAYS: Final = Validity()


def to_microseconds(at: Any) -> int:
    """Convert a datetime or an ISO text to microseconds since 1970; UTC if it names no zone.

    Raises
    ------
    ValueError
        `at` is neither.
    """
    moment = _microseconds(at)
    if moment is None:
        raise ValueError(f"a time is a datetime or an ISO text, not {at!r}")
    return moment


def make_clock(clock: Clock | None) -> Callable[[], int]:
    """Make a clock that returns microseconds since 1970; the machine's clock by default."""
    if clock is None:
        return lambda: time_ns() // 1_000
    return lambda: to_microseconds(clock())


def _check_time(name: str, time: Any) -> int:
    moment = _microseconds(time)
    if moment is None:
        raise RuleError(f"{name} is a datetime or an ISO text, not {time!r}")
    if not _EARLIEST <= moment <= _LATEST:
        raise RuleError(f"{name}, {time}, lies outside the years 1 to 9999 in UTC")
    return moment


def _microseconds(time: Any) -> int | None:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return None
    if not isinstance(time, datetime):
        return None
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return count_microseconds(aware)


_EARLIEST = count_microseconds(datetime.min.replace(tzinfo=UTC))
_LATEST = count_microseconds(datetime.max.replace(tzinfo=UTC))
"""The times that a datetime in UTC can hold; an offset from UTC may lead beyond them."""


class Validities:
    """The validities of a segment's rules, by place.

    Parameters
    ----------
    numbers
        Priority, begin and end of each rule; no rows if all rules have the default validity.
    """

    def __init__(self, numbers: NDArray[np.int64] = _NO_NUMBERS) -> None:
        self.numbers = numbers
        self._times: NDArray[np.int64] | None = None
        self._valid: tuple[int, NDArray[np.uint8]] | None = None

    @classmethod
    def of(cls, validities: Sequence[Validity]) -> Validities:
        """Make a column of these validities."""
        if all(validity == ALWAYS for validity in validities):
            return cls()
        return cls(np.array(validities, np.int64).reshape(-1, 3))

    @classmethod
    def concat(cls, parts: Iterable[tuple[Validities, int]]) -> Validities:
        """Concatenate several columns, each given with the number of its rules."""
        known = list(parts)
        if not any(len(validities.numbers) for validities, _ in known):
            return cls()
        return cls(np.concatenate([validities._expand(count) for validities, count in known]))

    def _expand(self, count: int) -> NDArray[np.int64]:
        """One row per rule, even if all have the default validity."""
        if len(self.numbers):
            return self.numbers
        return np.tile(np.array(ALWAYS, np.int64), (count, 1))

    @classmethod
    def of_array(cls, numbers: NDArray[np.int64]) -> Validities:
        """The validities whose numbers lie end to end, as a file has them."""
        if numbers.size % 3:
            refuse("lives", f"has {numbers.size:,} entries, not three for each rule")
        return cls(numbers.reshape(-1, 3))

    def check(self, size: int) -> None:
        """Check the validities of `size` rules that were read from a file."""
        check_type("lives", self.numbers, np.int64, 3)
        if len(self.numbers):
            check_lengths(size, lives=self.numbers)
        ends = self.numbers[:, 1:]
        moments = ends[(ends != _FIRST) & (ends != _LAST)]
        check_numbers("lives", moments, _EARLIEST, _LATEST + 1)

    def take(self, places: NDArray[np.integer]) -> Validities:
        """The validities at these places, in this order."""
        return Validities(self.numbers[places]) if len(self.numbers) else self

    def at(self, place: int) -> Validity:
        """The validity at `place`."""
        return Validity(*self.numbers[place].tolist()) if len(self.numbers) else ALWAYS

    def priorities(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """The priorities of the rules at these places."""
        if not len(self.numbers):
            return np.zeros(len(places), np.int64)
        found: NDArray[np.int64] = self.numbers[places, 0]
        return found

    def find_ended(self, at: int) -> NDArray[np.int64]:
        """The places of the rules that have ended before or at a time in microseconds."""
        return np.flatnonzero(self.numbers[:, 2] <= at)

    def times(self) -> NDArray[np.int64]:
        """The times at which a rule begins or ends, rising, in microseconds since 1970."""
        times = self._times
        if times is None:
            # Two threads may both compute it, here and below; either result is right.
            ends = self.numbers[:, 1:]
            times = self._times = np.unique(ends[(ends != _FIRST) & (ends != _LAST)])
        return times

    def find_valid(self, at: int) -> tuple[int, NDArray[np.uint8] | None]:
        """A mask of the rules that are valid at a time in microseconds; None if all always are.

        The number identifies a period: the mask is the same for all times with the same number.
        """
        times = self.times()
        if not len(times):
            return 0, None
        period = int(np.searchsorted(times, at, side="right"))
        cached = self._valid
        if cached is None or cached[0] != period:
            begin, end = self.numbers[:, 1], self.numbers[:, 2]
            cached = self._valid = period, ((begin <= at) & (at < end)).view(np.uint8)
        return cached
