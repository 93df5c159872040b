"""How old documents are, and by which clock.

With ``by=`` the time is that of the events: the newest that any of them has had, so that publishing
the same events again gives the same answers. Otherwise it is that of a clock. Neither is believed
without limits. A document's own time that lies far ahead of the clock does not count, or it would
stop the forgetting for years. A clock that has gone back has been wrong before or is wrong now:
documents from its future come now.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable
from typing import Final

from tamis.expr.event import FlatEvent
from tamis.joins.retention import FUTURE, Retention

__all__ = ["SLACK", "UNKNOWN", "Ages"]

SLACK: Final = 60.0
"""By how many seconds a clock may be set back without being taken as wrong."""

UNKNOWN: Final = math.nan
"""When a document came whose time is that of the events, and follows from those before it."""

_SPARE: Final = 64
"""How many removed documents the heap may name besides as many as there are."""


class Ages:
    """The ages of documents, by their numbers.

    Parameters
    ----------
    retention
        How old documents get.

    Attributes
    ----------
    newest
        The newest time so far: of the events, or of the clock.
    came
        When each document came, where that is known: by the time of the events, or of the clock.
    faults
        How many times a clock had gone back, or a document's own time was not believed.
    """

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self.newest = -math.inf
        self.came: dict[int, float] = {}
        self.faults = 0
        self._by_age: list[tuple[float, int]] = []
        """A heap of moments and numbers; may name removed documents."""
        self._fixed: float | None = None

    def clear(self) -> None:
        """Forget all documents, but not the time."""
        self.came, self._by_age = {}, []

    # --- The time ---

    def read_clock(self) -> float:
        """The current time; of the events, if they have times."""
        if self.retention.by_events:
            return self.newest
        return self._read() if self._fixed is None else self._fixed

    def fix(self, is_fixed: bool) -> None:
        """Have the current time stay as it is, or pass again."""
        self._fixed = None
        self._fixed = self.read_clock() if is_fixed else None

    def note_event(self, event: FlatEvent) -> None:
        """Take note of the time of an event that is being published, or is added."""
        if self.retention.by_events:
            self.newest = max(self.newest, self._moment(event, -math.inf))

    def has_gone_back(self, now: float) -> bool:
        """Whether the clock, which says `now`, has said a later time before."""
        if now >= self.newest - SLACK:
            self.newest = max(self.newest, now)
            return False
        return True

    def find_later(self, now: float) -> dict[int, float]:
        """The documents that came after `now`, with what counts as their coming instead."""
        return {number: now for number, came in self.came.items() if came > now}

    def set_back(self, now: float, later: dict[int, float], documents: Iterable[FlatEvent]) -> None:
        """Have documents come now, given all documents in the order of `came`."""
        came = self.came | later
        pairs = zip(came.items(), documents, strict=True)
        heap = [(self._moment(document, at), number) for (number, at), document in pairs]
        heapq.heapify(heap)
        # Last what says that the clock has gone back: an exception may come between.
        self._by_age = heap
        self.came = came
        self.faults += 1
        self.newest = now

    # --- Documents ---

    def judge(self, document: FlatEvent, came: float) -> None:
        """Count a new document with a time that is not believed."""
        limit = self._limit(came)
        self.faults += any(time > limit for time in self.retention.times(document))

    def stamp(self, document: FlatEvent, came: float) -> float:
        """When a document comes, if that is `UNKNOWN`; the time goes on with it."""
        if math.isnan(came):
            came = max(self.newest, self._moment(document, self.newest))
        if self.retention.age is not None:
            self.newest = max(self.newest, came)
        return came

    def add(self, number: int, came: float, document: FlatEvent) -> None:
        """Take note of a document, whose number is the highest so far."""
        came = self.came[number] = self.stamp(document, came)
        if self.retention.age is not None:
            heapq.heappush(self._by_age, (self._moment(document, came), number))

    def remove(self, number: int) -> None:
        """Take note that a document was removed."""
        self.came.pop(number, None)
        if len(self._by_age) > 2 * len(self.came) + _SPARE:
            self._by_age = [pair for pair in self._by_age if pair[1] in self.came]
            heapq.heapify(self._by_age)

    def is_past(self, now: float, came: float, document: FlatEvent) -> bool:
        """Whether a document is past its age when it comes."""
        age = self.retention.age
        return age is not None and self._moment(document, came) < now - age

    def find_past(self, now: float) -> list[int]:
        """The documents past their age, oldest first."""
        age, heap = self.retention.age, self._by_age
        if age is None:
            return []
        while heap and heap[0][1] not in self.came:
            heapq.heappop(heap)
        past, places = [], [0]
        while places:
            at = places.pop()
            # What lies below a place of a heap is not older.
            if at < len(heap) and heap[at][0] < now - age:
                places += (2 * at + 1, 2 * at + 2)
                if heap[at][1] in self.came:
                    past.append(heap[at])
        return [number for _, number in sorted(past)]

    # --- Inside ---

    def _read(self) -> float:
        clock = self.retention.clock
        return time.time() if clock is None else clock()

    def _limit(self, came: float) -> float:
        """The latest time of its own that a document may have, to be believed."""
        return (time.time() if self.retention.by_events else came) + FUTURE

    def _moment(self, document: FlatEvent, came: float) -> float:
        """The time that the age of a document counts from."""
        if self.retention.by is None:
            return came
        limit = self._limit(came)
        return max((time for time in self.retention.times(document) if time <= limit), default=came)
