"""The events of a batch that were refused and skipped."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

from tamis.errors import TamisError

__all__ = ["BadEvent", "SkippedEvents"]


class BadEvent(NamedTuple):
    """An event that was refused and skipped."""

    event: int
    """Its number, as in the answers."""
    message: str


class SkippedEvents:
    """Reports refused events: to a list of the caller, or in a warning at the end.

    Parameters
    ----------
    report
        The list that refused events are appended to, if there is one.
    """

    def __init__(self, report: list[BadEvent] | None) -> None:
        self._report = report
        self._first: BadEvent | None = None
        self._count = 0

    def add(self, errors: Mapping[int, TamisError]) -> None:
        """Add events, by number, each with the reason why it was refused."""
        bad = [BadEvent(number, str(errors[number])) for number in sorted(errors)]
        self._first = self._first or (bad[0] if bad else None)
        self._count += len(bad)
        if self._report is not None:
            self._report += bad

    def warn(self) -> None:
        """Warn about skipped events, unless the caller gets them in a list."""
        if self._report is None and self._first is not None:
            number, message = self._first
            warnings.warn(
                f"{self._count:,} events were skipped; event {number}: {message}; "
                "pass skipped=[] to get them all",
                stacklevel=2,
            )
