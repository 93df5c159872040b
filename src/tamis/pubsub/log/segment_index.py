"""Where the records of one file of the log are, and which of them reached which subscription."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tamis.errors import CorruptFileError
from tamis.matcher.storage.log import EMPTY_LENGTH, read_frames
from tamis.pubsub.log.records import EventRecord, decode_record, split_records

__all__ = ["SegmentIndex"]


class SegmentIndex:
    """The records of one file of the log.

    Building it reads the whole file and compares it with its checksums. One thread appends to it;
    others read, with the lock of the log.

    Parameters
    ----------
    path
        The file.
    first
        The sequence number of its first record.

    Attributes
    ----------
    length
        Where the last whole frame ends.
    is_torn
        Whether a torn frame follows it.
    """

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        self.first = first
        self.starts = array("Q")
        """Where each record begins in the file."""
        self.ends = array("Q")
        self.times = array("q")
        self.message_ids: dict[str, int] = {}
        """Sequence numbers by the publishers' message ids."""
        self.deliveries: dict[str, array[int]] = {}
        """The sequence numbers of the events that reached a subscription, rising."""
        self.length = EMPTY_LENGTH
        self.is_torn = False
        self.read_more()

    def read_more(self) -> bool:
        """Read what was written since; returns whether there was something.

        Raises
        ------
        CorruptFileError
            The file is damaged.
        """
        frames = read_frames(self.path, self.length)
        for position, content in frames.contents:
            try:
                for at, encoded in split_records(content):
                    record = decode_record(encoded)
                    if record.sequence != self.following:
                        raise msgspec.DecodeError(
                            f"expected event {self.following} here, found {record.sequence}"
                        )
                    self._add(record, position + at, position + at + len(encoded))
            except msgspec.MsgspecError as error:
                raise CorruptFileError(
                    f"the log is damaged at byte {position:,}: {error}", path=str(self.path)
                ) from error
        self.length, self.is_torn = frames.length, frames.is_torn
        return bool(frames.contents)

    def extend(self, records: Sequence[EventRecord], encoded: Sequence[bytes], start: int) -> None:
        """Note records that were written end to end from the byte `start` on."""
        for record, data in zip(records, encoded, strict=True):
            # A length of four bytes stands before each record.
            self._add(record, start + 4, start + len(data))
            start += len(data)

    def _add(self, record: EventRecord, start: int, end: int) -> None:
        self.starts.append(start)
        self.ends.append(end)
        self.times.append(record.time)
        if record.message_id is not None:
            self.message_ids[record.message_id] = record.sequence
        for match in record.matches:
            known = self.deliveries.get(match.subscription)
            if known is None:
                known = self.deliveries[match.subscription] = array("Q")
            known.append(record.sequence)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def following(self) -> int:
        """The sequence number after the last record."""
        return self.first + len(self.times)

    def find(self, sequence: int) -> tuple[int, int]:
        """Where the record of a sequence number begins and ends."""
        return self.starts[sequence - self.first], self.ends[sequence - self.first]

    def find_deliveries(self, subscription: str, after: int, limit: int) -> Iterable[int]:
        """The first sequence numbers after `after` that reached a subscription."""
        known = self.deliveries.get(subscription)
        if known is None:
            return ()
        at = bisect_right(known, after)
        return known[at : at + limit]
