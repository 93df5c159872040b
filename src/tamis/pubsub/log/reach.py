"""Which events reached which subscriptions, as far as it is remembered once a file was read.

A subscriber without news must not cost a look into every file since its last message. So two things
stay in memory: for each file that has ended, its subscriptions with the last event that reached
each, in 12 bytes; and for each subscription that was asked about, its next messages.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.pubsub.log.segment_index import SegmentIndex

__all__ = ["Reach", "Waiting"]

_MOST_WAITING: Final = 10_000
"""Of one subscription, so many messages are remembered."""

_MOST_SUBSCRIPTIONS: Final = 100_000


class _FileReach(NamedTuple):
    """The subscriptions that a file has events for."""

    names: NDArray[np.int32]
    """Their numbers, rising."""
    lasts: NDArray[np.int64]
    """The last event that reached each."""
    following: int
    """The sequence number after the last event of the file."""


class Waiting(NamedTuple):
    """All messages of a subscription after one event and up to another."""

    after: int
    until: int
    sequences: array[int]

    def cut(self, after: int) -> Waiting:
        """Those after a later event."""
        if after == self.after:
            return self
        rest = self.sequences[bisect_right(self.sequences, after) :]
        return Waiting(after, max(self.until, after), rest)

    def take(self, earliest: int, limit: int) -> list[int]:
        """The first of them, without those before `earliest`, which retention has removed."""
        start = bisect_left(self.sequences, earliest)
        return self.sequences[start : start + limit].tolist()


class Reach:
    """What is known of which events reached which subscriptions.

    Files are noted and looked up with the lock of the log.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._files: dict[int, _FileReach] = {}
        self._waiting: dict[str, Waiting] = {}

    def note_file(self, index: SegmentIndex) -> None:
        """Remember which subscriptions a file that has ended has events for."""
        numbers = self._numbers
        found = np.array(
            [(numbers.setdefault(n, len(numbers)), s[-1]) for n, s in index.deliveries.items()],
            np.int64,
        ).reshape(-1, 2)
        found = found[np.argsort(found[:, 0])]
        self._files[index.first] = _FileReach(
            found[:, 0].astype(np.int32), found[:, 1].copy(), index.following
        )

    def knows_file(self, first: int) -> bool:
        """Whether the file that begins with an event was noted."""
        return first in self._files

    def forget_files(self, kept: set[int]) -> None:
        """Forget all files but those that begin with these events."""
        for first in self._files.keys() - kept:
            del self._files[first]

    def end_without(self, first: int, subscription: str, sequence: int) -> int | None:
        """The event after a file, if none of its events from `sequence` on reached a subscription.

        None if one has, or if that is not known.
        """
        file = self._files.get(first)
        if file is None:
            return None
        number = self._numbers.get(subscription, -1)
        place = int(np.searchsorted(file.names, number))
        has_some = place < len(file.names) and file.names[place] == number
        return None if has_some and file.lasts[place] >= sequence else file.following

    def find_waiting(self, subscription: str, after: int) -> Waiting | None:
        """What is remembered of the messages after an event; None if it is not enough to go on."""
        known = self._waiting.get(subscription)
        if known is None or after > known.until:
            return Waiting(after, after, array("Q"))
        return None if after < known.after else known.cut(after)

    def forget_waiting(self) -> None:
        """Forget what was found for subscriptions."""
        self._waiting.clear()

    def remember(self, subscription: str, waiting: Waiting) -> None:
        """Remember messages; any thread may, because each tuple is right by itself."""
        if len(waiting.sequences) > _MOST_WAITING:
            first = waiting.sequences[:_MOST_WAITING]
            waiting = Waiting(waiting.after, first[-1], first)
        if subscription not in self._waiting and len(self._waiting) >= _MOST_SUBSCRIPTIONS:
            self._waiting.clear()
        self._waiting[subscription] = waiting
