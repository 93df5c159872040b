"""A model of the documents seen before: a list, and what `docs/reference/joins.md` says of it.

It shares nothing with the document store but the two limits on how far clocks are believed. Tests
compare a store with it, and `tamis.evaluate` over its documents gives the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from attack.oracle import flatten
from tamis.joins.ages import SLACK
from tamis.joins.retention import FUTURE

__all__ = ["DocumentModel", "Remembered"]


@dataclass
class Remembered:
    """A document that is remembered."""

    id: str | int
    event: dict[str, Any]
    came: float
    receivers: frozenset[str] = frozenset()


class DocumentModel:
    """What a store of documents remembers.

    Parameters
    ----------
    count, age, by
        As in :class:`tamis.Retention`.
    clock
        Returns the current time; None if it is that of the events.
    believed
        Returns the time of the machine, by which the times of events are believed; with a clock
        of its own, it is that.
    """

    def __init__(
        self,
        count: int | None = None,
        age: float | None = None,
        by: str | None = None,
        clock: Callable[[], float] | None = None,
        believed: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.count, self.age, self.by, self.clock, self.believed = count, age, by, clock, believed
        self.documents: list[Remembered] = []
        self.next = 0
        self.newest = -math.inf

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that are remembered, oldest first."""
        return [document.event for document in self.documents]

    def publish(self, event: dict[str, Any], id: str | None = None) -> list[dict[str, Any]]:
        """Remember an event; returns the documents that it sees."""
        self.note(event)
        seen = self.look()
        self.add(event, id)
        return seen

    def note(self, event: dict[str, Any]) -> None:
        """The time of an event counts from when it is published."""
        if self.clock is None:
            self.newest = max(self.newest, self._moment(event, -math.inf))

    def add(
        self, event: dict[str, Any], id: str | None = None, receivers: frozenset[str] = frozenset()
    ) -> None:
        """Remember an event without matching it."""
        self.note(event)
        self.look()
        self.documents = [document for document in self.documents if document.id != id]
        new = Remembered(self.next if id is None else id, event, self._now(), receivers)
        if self._is_young(new):
            self.documents.append(new)
        self.next += 1
        self._limit()

    def remove(self, id: str | int) -> None:
        """Forget a document."""
        self.documents = [document for document in self.documents if document.id != id]

    def clear(self) -> None:
        """Forget all documents."""
        self.documents = []

    def reopen(self) -> None:
        """Earlier readings of a clock are not stored, apart from those of documents."""
        if self.clock is not None:
            self.newest = max((document.came for document in self.documents), default=-math.inf)
        self.look()

    def look(self) -> list[dict[str, Any]]:
        """The documents as they are now."""
        now = self._now()
        if now < self.newest - SLACK:
            for document in self.documents:
                document.came = min(document.came, now)
            self.newest = now
        self.newest = max(self.newest, now)
        self.documents = [document for document in self.documents if self._is_young(document)]
        self._limit()
        return self.events

    def _limit(self) -> None:
        if self.count is not None:
            self.documents = self.documents[max(0, len(self.documents) - self.count) :]

    def _now(self) -> float:
        return self.newest if self.clock is None else self.clock()

    def _is_young(self, document: Remembered) -> bool:
        moment = self._moment(document.event, document.came)
        return self.age is None or moment >= self._now() - self.age

    def _moment(self, event: dict[str, Any], came: float) -> float:
        believed = (self.believed() if self.clock is None else came) + FUTURE
        values = flatten(event).get(self.by, []) if self.by is not None else []
        times = map(_seconds, values)
        return max((t for t in times if t is not None and t <= believed), default=came)


def _seconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    return None if isinstance(value, bool | str) else float(value)
