"""When rules are valid, and which of them come first: a few numbers for each rule.

Most collections have neither times nor priorities; then there are no numbers either. Which rules
are valid changes only when a time passes at which one of them begins or ends. So the marks of the
valid ones are made once for the whole stretch between two such times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.errors import RuleError

__all__ = ["ALWAYS", "Clock", "Validities", "Validity", "make_clock", "to_microseconds"]

Clock: TypeAlias = Callable[[], datetime]
"""Tells what time it is."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = -(2**63), 2**63 - 1
_NO_NUMBERS = np.empty((0, 3), np.int64)


class Validity(NamedTuple):
    """What is known of a rule beside its text."""

    priority: int = 0
    begin: int = _FIRST
    end: int = _LAST
    """The first microsecond at which it is valid, and the first one at which it is not any more."""

    @classmethod
    def of(cls, priority: Any, valid_from: Any, valid_until: Any) -> Validity:
        """The life of a rule, checked.

        Raises
        ------
        RuleError
            The priority is no integer, a time is none, or the rule would never be valid.
        """
        if priority == 0 and valid_from is None and valid_until is None:
            return ALWAYS
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise RuleError(f"a priority is an integer, not {priority!r}")
        if not _FIRST <= priority <= _LAST:
            raise RuleError(f"the priority {priority} does not fit in 64 bits")
        begin = _FIRST if valid_from is None else _checked_time("valid_from", valid_from)
        end = _LAST if valid_until is None else _checked_time("valid_until", valid_until)
        if begin >= end:
            raise RuleError(
                f"the rule is never valid: it would end at {valid_until}, and begin at {valid_from}"
            )
        return cls(priority, begin, end)

    @property
    def valid_from(self) -> datetime | None:
        """When it begins to be valid; None if it always was."""
        return None if self.begin == _FIRST else _EPOCH + self.begin * _MICROSECOND

    @property
    def valid_until(self) -> datetime | None:
        """When it is not valid any more; None if that never comes."""
        return None if self.end == _LAST else _EPOCH + self.end * _MICROSECOND

    def __str__(self) -> str:
        begin, end = self.valid_from, self.valid_until
        if begin is not None and end is not None:
            return f"only from {begin.isoformat()} until {end.isoformat()}"
        if begin is not None:
            return f"only from {begin.isoformat()} on"
        return "always" if end is None else f"only until {end.isoformat()}"

    def is_valid(self, at: int) -> bool:
        """Whether it is valid at a microsecond."""
        return self.begin <= at < self.end


ALWAYS: Final = Validity()


def to_microseconds(at: Any) -> int:
    """A time in microseconds; without a zone it is taken as UTC.

    Raises
    ------
    ValueError
        It is no time.
    """
    moment = _microseconds(at)
    if moment is None:
        raise ValueError(f"a time is a datetime or an ISO text, not {at!r}")
    return moment


def make_clock(clock: Clock | None) -> Callable[[], int]:
    """A clock that tells microseconds; the machine's without one."""
    if clock is None:
        return lambda: time_ns() // 1_000
    return lambda: to_microseconds(clock())


def _checked_time(name: str, time: Any) -> int:
    moment = _microseconds(time)
    if moment is None:
        raise RuleError(f"{name} is a datetime or an ISO text, not {time!r}")
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
    return (aware - _EPOCH) // _MICROSECOND


class Validities:
    """The lives of rules by place.

    Parameters
    ----------
    numbers
        Priority, begin and end of each rule; no rows where no rule has any of them.
    """

    def __init__(self, numbers: NDArray[np.int64] = _NO_NUMBERS) -> None:
        self.numbers = numbers
        self._times: NDArray[np.int64] | None = None
        self._valid: tuple[int, NDArray[np.uint8]] | None = None

    @classmethod
    def of(cls, lives: Sequence[Validity]) -> Validities:
        """These lives."""
        if all(life == ALWAYS for life in lives):
            return cls()
        return cls(np.array(lives, np.int64).reshape(-1, 3))

    @classmethod
    def concat(cls, parts: Iterable[tuple[Validities, int]]) -> Validities:
        """The lives of several parts, each with the number of its rules."""
        known = list(parts)
        if not any(len(lives.numbers) for lives, _ in known):
            return cls()
        return cls(np.concatenate([lives._spelled_out(count) for lives, count in known]))

    def _spelled_out(self, count: int) -> NDArray[np.int64]:
        return (
            self.numbers if len(self.numbers) else np.tile(np.array(ALWAYS, np.int64), (count, 1))
        )

    def take(self, places: NDArray[np.integer]) -> Validities:
        """The lives at these places, in this order."""
        return Validities(self.numbers[places]) if len(self.numbers) else self

    def at(self, place: int) -> Validity:
        """The life at `place`."""
        return Validity(*self.numbers[place].tolist()) if len(self.numbers) else ALWAYS

    def priorities(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """The priorities of the rules at these places."""
        if not len(self.numbers):
            return np.zeros(len(places), np.int64)
        found: NDArray[np.int64] = self.numbers[places, 0]
        return found

    def ended(self, at: int) -> NDArray[np.int64]:
        """The places of the rules that will not be valid any more."""
        return np.flatnonzero(self.numbers[:, 2] <= at)

    def valid(self, at: int) -> tuple[int, NDArray[np.uint8] | None]:
        """A mark for each rule that is valid at a microsecond; None when all always are.

        The number tells stretches of time apart: all times of one have the same marks.
        """
        times = self._times
        if times is None:
            # Two readers may make it at once, and both are right. So below.
            ends = self.numbers[:, 1:]
            times = self._times = np.unique(ends[(ends != _FIRST) & (ends != _LAST)])
        if not len(times):
            return 0, None
        stretch = int(np.searchsorted(times, at, side="right"))
        known = self._valid
        if known is None or known[0] != stretch:
            begin, end = self.numbers[:, 1], self.numbers[:, 2]
            known = self._valid = stretch, ((begin <= at) & (at < end)).view(np.uint8)
        return known
