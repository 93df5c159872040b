"""The publishers' ids of recent messages: one that is sent again is published once.

The ids are part of the log, so they are as durable as the events. Those of the last events are in
memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.records import EventRecord

__all__ = ["MessageIds"]


class MessageIds:
    """The message ids of the last events.

    Parameters
    ----------
    log
        The events.
    events
        How many of the last events are remembered.
    """

    def __init__(self, log: EventLog, events: int) -> None:
        self._events = events
        self._known: dict[str, tuple[int, int]] = {}
        """The sequence number and the time of each."""
        self._order: deque[tuple[int, str]] = deque()
        self._latest = log.latest
        found = (
            (sequence, id, index.times[sequence - index.first])
            for index in log.recent_indexes(events)
            for id, sequence in index.message_ids.items()
        )
        for sequence, id, time in sorted(found):
            self._remember(id, sequence, time)
        self._forget()

    def find(self, id: str) -> tuple[int, int] | None:
        """The sequence number and the time of a recent message; None if there is none."""
        return self._known.get(id)

    def add(self, records: Iterable[EventRecord]) -> None:
        """Remember the ids of new events."""
        for record in records:
            self._latest = record.sequence
            if record.message_id is not None:
                self._remember(record.message_id, record.sequence, record.time)
        self._forget()

    def _remember(self, id: str, sequence: int, time: int) -> None:
        self._known[id] = sequence, time
        self._order.append((sequence, id))

    def _forget(self) -> None:
        horizon = self._latest - self._events
        while self._order and self._order[0][0] <= horizon:
            sequence, id = self._order.popleft()
            if self._known.get(id, (0,))[0] == sequence:
                del self._known[id]
