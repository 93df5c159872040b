"""The event log of a collection: files of records, appended to by one thread, read by many.

The log is the queue of every subscription and the source of the documents that join predicates
refer to: there is no other copy of an event. A file ends when it has grown to some size, and the
next one begins; retention removes whole files, the oldest first.

Records that are committed together form one frame of the file (`tamis.matcher.storage.log`), with
one wait for the disk. So after a crash the events of a group are all there, or none is, and none of
them was acknowledged.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from tamis.errors import CorruptFileError, GoneError
from tamis.forks import hold_during_forks
from tamis.matcher.analysis.backtest import PastChunk
from tamis.matcher.storage.atomic import (
    MissingFileError,
    close_file,
    open_regular,
    storage_errors,
)
from tamis.matcher.storage.file_names import remove_file
from tamis.matcher.storage.log import EMPTY_LENGTH, Log, report_torn
from tamis.pubsub.log.clock import LogClock, find_last
from tamis.pubsub.log.columns import PastLog
from tamis.pubsub.log.log_files import (
    SIDE,
    LogFile,
    create_file,
    list_files,
    remove_unfinished,
    size_of,
)
from tamis.pubsub.log.reach import Reach, Waiting
from tamis.pubsub.log.records import EventRecord, decode_record, encode_records
from tamis.pubsub.log.retention import LogRetention
from tamis.pubsub.log.segment_index import SegmentIndex

__all__ = ["SEGMENT_BYTES", "EventLog"]

SEGMENT_BYTES: Final = 8 << 20
"""A file that is longer ends, and the next one begins."""

_INDEXES: Final = 32
"""How many indexes of files that have ended stay in memory."""

_RECORDS_AT_ONCE: Final = 256

_TRIES: Final = 20
"""How often a reader tries again when the writer removes files while it reads."""


class EventLog:
    """Events in the order of their sequence numbers. Any number of threads may read it.

    Parameters
    ----------
    folder
        The folder of the log; an empty one is a log without events.
    read_only
        Whether to leave the folder as it is.
    retention
        How long events are kept; a week by default.
    sync
        Whether `append` waits until events are on the disk. Otherwise the operating system has
        them then.
    segment_bytes
        A file that is longer ends, and the next one begins.
    """

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool = False,
        retention: LogRetention | None = None,
        sync: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self.retention = retention or LogRetention()
        self._read_only = read_only
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        """Held for each look at the files and their indexes."""
        hold_during_forks(self._lock, rank=2)
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()
        self._reach = Reach()
        self.identity = ""
        """That of the collection; empty if it is not known."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when a file has ended."""
        self._is_stale = False
        """Whether an exception came while the index of the last file was extended."""
        self._log: Log | None = None
        self._files: list[LogFile] = []
        self._last: SegmentIndex | None = None
        if read_only:
            self._look_again()
        else:
            self._files = list_files(folder) or [create_file(folder, 1)]
            self._open_last()
        self.clock = LogClock(0 if read_only else self.last_time)
        """Gives events their times."""

    def _open_last(self) -> None:
        path, first = self._files[-1]
        self._last = SegmentIndex(path, first)
        if self._last.is_torn:
            report_torn(path, self._last.length)
        self._log = Log(path, self._last.length, self._sync)
        remove_unfinished(self.folder)

    # --- What is there ---

    @property
    def earliest(self) -> int:
        """The sequence number of the first event that is kept; of the next one if none is."""
        files = self._files
        return files[0].first if files else 1

    @property
    def latest(self) -> int:
        """The sequence number of the last event; 0 before the first one."""
        last = self._last
        return 0 if last is None else last.following - 1

    def __len__(self) -> int:
        return self.latest + 1 - self.earliest

    @property
    def last_time(self) -> int:
        """The time of the last event, in microseconds since 1970; 0 if it is not known."""
        last = self._last
        if last is not None and not len(last) and len(self._files) > 1:
            last = self.read_index(self._files[-2])
        return last.times[-1] if last is not None and len(last) else 0

    @property
    def stored_bytes(self) -> int:
        """How many bytes the files have."""
        return sum(size_of(file.path) for file in self._files)

    def __repr__(self) -> str:
        return f"<tamis.EventLog: {len(self):,} events from {self.earliest:,} to {self.latest:,}>"

    # --- Writing: one thread ---

    def append(self, records: Sequence[EventRecord]) -> None:
        """Append records with the next sequence numbers, all or none. Then they are safe.

        Raises
        ------
        StorageError
            They could not be written; nothing was changed.
        """
        if self._is_stale:
            self._reread()
        if self._last is not None and self._last.length > self._segment_bytes:
            self._begin_file()
        assert self._log is not None
        assert self._last is not None
        encoded = encode_records(records)
        start = self._log.length
        self._log.append(b"".join(encoded))
        self._is_stale = True
        self._log.confirm()
        with self._lock:
            # The content of a frame begins after the frame's own header.
            header = self._log.length - start - sum(map(len, encoded))
            self._last.extend(records, encoded, start + header)
            self._last.length = self._log.length
        self._is_stale = False

    def _reread(self) -> None:
        """Read the last file anew, because its index may be incomplete."""
        assert self._log is not None
        self._log.close()
        with self._lock:
            self._open_last()
            self._reach.forget_waiting()
        self._is_stale = False

    def _begin_file(self) -> None:
        """End the last file, and begin the next one."""
        assert self._last is not None
        assert self._log is not None
        ended = self._last
        file = create_file(self.folder, ended.following)
        log = Log(file.path, EMPTY_LENGTH, self._sync)
        index = SegmentIndex(*file)
        previous = self._log
        with self._lock:
            self._indexes[ended.first] = ended
            self._reach.note_file(ended)
            self._files = [*self._files, file]
            self._last, self._log = index, log
            self._forget_indexes()
        previous.close()
        self.on_end()

    def find_outdated(self) -> list[LogFile]:
        """The oldest files, which retention no longer keeps. The last one is always kept."""
        horizon, retention = self._find_horizon(), self.retention
        excess = 0 if retention.bytes is None else self.stored_bytes - retention.bytes
        outdated: list[LogFile] = []
        undecided: list[LogFile] = []
        latest = 0
        for file in self._files[:-1]:
            undecided.append(file)
            if excess <= 0:
                end = None if horizon is None else self._find_end(self.read_index(file))
                if horizon is None or max(latest, end or 0) >= horizon:
                    break
                latest = max(latest, end or 0)
                if end is None:
                    # No time in it can be right: it is as old as what follows.
                    continue
            excess -= sum(size_of(one.path) for one in undecided)
            outdated += undecided
            undecided = []
        return outdated

    def _now(self) -> int:
        # A clock of the user's own says what the time is.
        clock = self.retention.clock
        return self.clock.look() if clock is time.time else int(clock() * 1e6)

    def _find_horizon(self) -> int | None:
        """Events before this time are past their age; None if that cannot be said now."""
        age = self.retention.age
        if age is None or (self.retention.clock is time.time and not self.clock.is_trusted(age)):
            return None
        return self._now() - int(age * 1e6)

    def _find_end(self, index: SegmentIndex) -> int | None:
        """The last time in a file that can be right; None if none can."""
        return find_last(index.times, self._now())

    def end_old_file(self) -> None:
        """Begin a new file if all events of the last one are past their age."""
        last, horizon = self._last, self._find_horizon()
        if last is None or not len(last) or horizon is None:
            return
        end = self._find_end(last)
        if end is not None and end < horizon:
            self._begin_file()

    def remove(self, files: Sequence[LogFile]) -> None:
        """Remove the oldest files."""
        with self._lock:
            gone = {file.first for file in files}
            self._files = [file for file in self._files if file.first not in gone]
            self._reach.forget_files({file.first for file in self._files})
            for first in gone:
                self._indexes.pop(first, None)
        for file in files:
            remove_file(file.path)
            remove_file(file.path.with_name(file.path.name + SIDE))

    def close(self) -> None:
        """Write no more."""
        if self._log is not None:
            self._log.close()

    # --- Reading: any thread ---

    def refresh(self, from_scratch: bool = False) -> bool:
        """Read what a writer has appended since; returns whether there was something.

        With `from_scratch` nothing that was read before counts: the folder is another one.
        """
        if not self._read_only:
            return False
        before = self.latest, self.earliest
        with self._lock:
            if from_scratch:
                self._last, self._reach = None, Reach()
                self._indexes.clear()
            self._look_again()
            kept = {file.first for file in self._files}
            self._reach.forget_files(kept)
            for first in self._indexes.keys() - kept:
                del self._indexes[first]
        return from_scratch or (self.latest, self.earliest) != before

    def _look_again(self) -> None:
        """List the files of a writer, and read what is new in the last one."""
        for number in range(_TRIES):
            files = list_files(self.folder)
            try:
                if self._last is not None and files and files[-1].first == self._last.first:
                    self._last.read_more()
                elif files:
                    self._last = SegmentIndex(*files[-1])
            except MissingFileError:
                # The writer has gone on meanwhile, and removed what was the last file.
                if number == _TRIES - 1:
                    raise
            else:
                self._files = files
                if not files:
                    self._last = None
                return

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[EventRecord]:
        """Read events in order.

        Parameters
        ----------
        after
            The sequence number after which to begin; that event itself is not read.
        limit
            How many events to read at most.

        Raises
        ------
        GoneError
            Events after `after` were removed.
        """
        following, last = after + 1, self.latest
        if limit is not None:
            last = min(last, after + limit)
        self._check_kept(after)
        while following <= last:
            index = self._index_with(following)
            until = min(last, index.following - 1)
            yield from self._read_records(index, range(following, until + 1))
            following = until + 1

    def read_kept(self, after: int = 0) -> Iterator[EventRecord]:
        """As `read`, without the events that are removed before they are read."""
        latest = self.latest
        while after < latest:
            after = max(after, self.earliest - 1)
            with suppress(GoneError):
                for record in self.read(after, latest - after):
                    yield record
                    after = record.sequence

    def find(self, sequence: int) -> EventRecord:
        """The event with a sequence number.

        Raises
        ------
        GoneError
            It was removed.
        """
        self._check_kept(sequence - 1)
        index = self._index_with(sequence)
        return next(self._read_records(index, [sequence]))

    def find_deliveries(self, subscription: str, after: int, limit: int) -> list[int]:
        """The first sequence numbers after `after` that reached a subscription.

        What was found is remembered: to ask again costs no look into a file.
        """
        known = self._reach.find_waiting(subscription, after)
        if known is None:
            return self._scan(subscription, after, limit)[0]
        missing = limit - len(known.sequences)
        if missing > 0 and known.until < self.latest:
            more, until = self._scan(subscription, known.until, missing)
            known = Waiting(known.after, until, known.sequences + array("Q", more))
        self._reach.remember(subscription, known)
        return known.take(self.earliest, limit)

    def needs_files(self, subscription: str, after: int) -> bool:
        """Whether `find_deliveries` has to read a file first."""
        known = self._reach.find_waiting(subscription, after)
        following = (after if known is None else known.until) + 1
        with self._lock:
            return any(
                not self._reach.knows_file(file.first) and file.first not in self._indexes
                for file, next_file in pairwise(self._files)
                if next_file.first > following
            )

    def _scan(self, subscription: str, after: int, limit: int) -> tuple[list[int], int]:
        """The first events after `after` that reached a subscription, and up to where all are."""
        found: list[int] = []
        following, latest = after + 1, self.latest
        while following <= latest and len(found) < limit:
            following = max(following, self.earliest)
            # Retention may remove files meanwhile.
            with suppress(GoneError):
                some, following = self._scan_file(subscription, following, limit - len(found))
                found += some
        return found, following - 1

    def _scan_file(self, subscription: str, start: int, limit: int) -> tuple[list[int], int]:
        """As `_scan`, in the file that has the event `start`; and the event to go on with."""
        with self._lock:
            file = self._file_with(start)
            end = self._reach.end_without(file.first, subscription, start)
        if end is not None:
            return [], end
        index = self._index_with(start)
        with self._lock:
            found = list(index.find_deliveries(subscription, start - 1, limit))
            return found, found[-1] + 1 if len(found) == limit else index.following

    def read_chunks(self, attributes: frozenset[str], exact: frozenset[str]) -> Iterator[PastChunk]:
        """Read all events for a backtest; see `tamis.matcher.analysis.backtest.PastEvents`."""
        return PastLog(self).read_chunks(attributes, exact)

    def read_deliveries(self, sequences: Sequence[int]) -> list[EventRecord]:
        """The events with these sequence numbers, which rise."""
        records: list[EventRecord] = []
        at = 0
        while at < len(sequences):
            index = self._index_with(sequences[at])
            end = at
            while end < len(sequences) and sequences[end] < index.following:
                end += 1
            records += self._read_records(index, sequences[at:end])
            at = end
        return records

    def read_index(self, file: LogFile) -> SegmentIndex:
        """The index of a file, for those that need all of its records.

        Raises
        ------
        GoneError
            It was removed.
        """
        return self._index_with(file.first)

    def recent_indexes(self, events: int) -> list[SegmentIndex]:
        """The indexes of the newest files that have the last `events` events, newest first."""
        found: list[SegmentIndex] = []
        wanted = self.latest - events
        for file in reversed(self._files):
            found.append(self.read_index(file))
            if file.first <= wanted:
                break
        return found

    @property
    def files(self) -> list[LogFile]:
        """The files of the log, the oldest first."""
        return list(self._files)

    def _check_kept(self, after: int) -> None:
        earliest = self.earliest
        if after + 1 < earliest:
            raise GoneError(
                f"the events after {after} were removed; the earliest is {earliest}",
                earliest=earliest,
            )

    def _index_with(self, sequence: int) -> SegmentIndex:
        """The index of the file that has an event."""
        for _ in range(_TRIES):
            with self._lock:
                file = self._file_with(sequence)
                if self._last is not None and file.first == self._last.first:
                    return self._last
                index = self._indexes.get(file.first)
                if index is not None:
                    self._indexes.move_to_end(file.first)
                    return index
            # Retention may remove the file meanwhile.
            with suppress(MissingFileError):
                # Without the lock, because it takes long. The file has ended.
                return self._add_index(SegmentIndex(*file))
            self.refresh()
        raise CorruptFileError("the file of the log is missing", path=str(file.path))

    def _file_with(self, sequence: int) -> LogFile:
        """The file that has an event; with the lock."""
        self._check_kept(sequence - 1)
        return self._files[bisect_right(self._files, sequence, key=_first) - 1]

    def _add_index(self, index: SegmentIndex) -> SegmentIndex:
        """Remember the index of a file that has ended."""
        with self._lock:
            if any(file.first == index.first for file in self._files):
                self._check_whole(index)
                self._indexes[index.first] = index
                self._reach.note_file(index)
                self._forget_indexes()
        return index

    def _check_whole(self, index: SegmentIndex) -> None:
        """Refuse a file that ended, and lacks events before the next one."""
        firsts = [file.first for file in self._files if file.first > index.first]
        if firsts and index.following != firsts[0]:
            raise CorruptFileError(
                f"the log is damaged: it ends with event {index.following - 1:,}, "
                f"and the next file begins with {firsts[0]:,}",
                path=str(index.path),
            )

    def _forget_indexes(self) -> None:
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)

    def _read_records(
        self, index: SegmentIndex, sequences: Sequence[int] | range
    ) -> Iterator[EventRecord]:
        """Read records of one file."""
        try:
            with storage_errors(index.path):
                fd = open_regular(index.path, os.O_RDONLY)
        except MissingFileError:
            # Retention may have removed it, also that of another process.
            self.refresh()
            self._check_kept(sequences[0] - 1)
            raise
        try:
            for at in range(0, len(sequences), _RECORDS_AT_ONCE):
                yield from _read_some(fd, index, sequences[at : at + _RECORDS_AT_ONCE])
        finally:
            close_file(fd)


def _first(file: LogFile) -> int:
    return file.first


def _read_some(
    fd: int, index: SegmentIndex, sequences: Sequence[int] | range
) -> Iterator[EventRecord]:
    """Read a few records; neighbours by one call."""
    first, last = sequences[0], sequences[-1]
    block, origin = b"", 0
    if last - first == len(sequences) - 1:
        origin, end = index.find(first)[0], index.find(last)[1]
        with storage_errors(index.path):
            block = os.pread(fd, end - origin, origin)
    for sequence in sequences:
        start, end = index.find(sequence)
        if block:
            data = block[start - origin : end - origin]
        else:
            with storage_errors(index.path):
                data = os.pread(fd, end - start, start)
        try:
            yield decode_record(data)
        except msgspec.MsgspecError as error:
            raise CorruptFileError(
                f"event {sequence} is damaged: {error}", path=str(index.path)
            ) from error
