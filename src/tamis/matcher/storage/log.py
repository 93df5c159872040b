"""The write-ahead log: records, in the order in which they were acknowledged.

::

    header       16 bytes: magic, format version, checksum
    2 statements 44 bytes each: how long the log is at least (`log_statement.py`)
    frame …      20 bytes: magic, checksum of the content, its length, checksum of these; content

A frame is safe on the disk before the next one is written. So only the last frame can be incomplete
after a crash: it is cut short where the process was killed, or has sectors of zeros where the
machine was. Such a *torn* frame was never acknowledged, and is dropped. Anything else that does not
match its checksum is damage, and is refused. So is a log that is shorter than a statement in it
says: records that were acknowledged are missing. Logs of format 3 and before have no statements.
"""

from __future__ import annotations

import logging
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.storage.atomic import (
    close_file,
    open_regular,
    storage_errors,
    write_all,
    write_all_at,
    write_atomically,
)
from tamis.matcher.storage.file_format import CHECKSUM, FORMAT, check_format
from tamis.matcher.storage.log_statement import (
    STATEMENTS_LENGTH,
    Statement,
    pack_statement,
    pack_twice,
    read_boot,
    unpack_newest,
)

__all__ = [
    "EMPTY_LENGTH",
    "Frames",
    "Log",
    "LogContent",
    "create_log",
    "make_frame",
    "read_frames",
    "read_log",
    "read_whole_frames",
    "report_torn",
]

_logger = logging.getLogger("tamis")

_T = TypeVar("_T")

_MAGIC: Final = b"TAMISLOG"
_HEADER: Final = struct.Struct("<8sI")
_FRAME_MAGIC: Final = b"\x8bTMF"
_FRAME: Final = struct.Struct("<4sIQ")
"""Magic, checksum of the content, length of the content."""
_FRAME_START: Final = _FRAME.size + CHECKSUM.size

_SECTOR: Final = 512
_FEWEST_ZEROS: Final = 8
"""How many zeros at the end of a file are no coincidence."""

_STATEMENTS: Final = _HEADER.size + CHECKSUM.size
"""Where the statements begin."""

_FIRST_WITH_STATEMENTS: Final = 4
"""The first format whose logs have them."""

EMPTY_LENGTH: Final = _STATEMENTS + STATEMENTS_LENGTH
"""The length of a log without frames."""


class LogContent(NamedTuple, Generic[_T]):
    """The records of a log."""

    records: list[_T]
    """The content of each frame, decoded."""
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether a torn frame follows it."""
    statement: Statement | None
    """What the log says about itself; None in old formats."""


class Frames(NamedTuple):
    """The frames of a log as they are stored."""

    contents: list[tuple[int, memoryview]]
    """The content of each frame, and the byte of the file at which it begins."""
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether a torn frame follows it."""
    statement: Statement | None
    """What the log says about itself; None in old formats."""


def create_log(path: Path, contents: Iterable[bytes] = ()) -> None:
    """Write a log with a frame for each of these contents."""
    header = _HEADER.pack(_MAGIC, FORMAT)
    start = header + CHECKSUM.pack(zlib.crc32(header)) + bytes(STATEMENTS_LENGTH)

    def state_length(fd: int) -> None:
        length = os.lseek(fd, 0, os.SEEK_CUR)
        write_all_at(fd, pack_twice(Statement(length, length, read_boot())), _STATEMENTS)

    write_atomically(path, chain([start], map(make_frame, contents)), state_length)


def make_frame(content: bytes) -> bytes:
    """A frame with this content."""
    header = _FRAME.pack(_FRAME_MAGIC, zlib.crc32(content), len(content))
    return header + CHECKSUM.pack(zlib.crc32(header)) + content


def read_log(path: Path, decode: Callable[[Any], _T], accept_loss: bool = False) -> LogContent[_T]:
    """Read all frames of a log, except a torn one.

    Parameters
    ----------
    path
        The log.
    decode
        Decodes the content of a frame; raises `msgspec.MsgspecError` if it cannot.
    accept_loss
        Whether to take a log from whose end records are missing, with a warning.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is damaged.
    StorageError
        It is of a newer format, or cannot be read.
    """
    frames = read_frames(path, accept_loss=accept_loss)
    records: list[_T] = []
    for position, content in frames.contents:
        try:
            records.append(decode(content))
        except msgspec.MsgspecError as error:
            _refuse(path, position - _FRAME_START, f"the record cannot be decoded: {error}")
    return LogContent(records, frames.length, frames.is_torn, frames.statement)


def read_frames(path: Path, start: int = EMPTY_LENGTH, accept_loss: bool = False) -> Frames:
    """Read all frames of a log from the byte `start` on, except a torn one.

    Parameters
    ----------
    path
        The log.
    start
        Where a frame begins. `EMPTY_LENGTH` stands for the first one, in every format.
    accept_loss
        As in `read_log`.

    Raises
    ------
    MissingFileError, CorruptFileError, StorageError
        As in `read_log`.
    """
    data = _read_file(path)
    statement, first = _read_start(path, data)
    contents: list[tuple[int, memoryview]] = []
    at = first if start == EMPTY_LENGTH else start
    while at < len(data):
        content = _content(data, at)
        if content is None:
            _check_torn(path, data, at)
            break
        contents.append((at + _FRAME_START, content))
        at += _FRAME_START + len(content)
    if statement is not None and at < statement.least_length():
        _report_missing(path, at, statement.least_length(), accept_loss)
    return Frames(contents, at, at < len(data), statement)


def read_whole_frames(path: Path) -> tuple[Frames, int]:
    """As `read_frames`, without the damaged parts, and how many these are.

    For records that are written without waiting for the disk, and of which any may be missing.
    """
    data = _read_file(path)
    statement, first = _read_start(path, data)
    contents: list[tuple[int, memoryview]] = []
    at, end, damaged = first, first, 0
    while 0 <= at < len(data):
        content = _content(data, at)
        if content is None:
            damaged += 1
            at = data.find(_FRAME_MAGIC, at + 1)
            while at >= 0 and _content(data, at) is None:
                at = data.find(_FRAME_MAGIC, at + 1)
            continue
        contents.append((at + _FRAME_START, content))
        end = at = at + _FRAME_START + len(content)
    return Frames(contents, end, end < len(data), statement), damaged


def _read_file(path: Path) -> bytes:
    with storage_errors(path), os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _report_missing(path: Path, length: int, least: int, accept_loss: bool) -> None:
    """Refuse a log whose last records are missing, or warn of it."""
    lost = f"records that were acknowledged are missing from its end, {least - length:,} bytes"
    if not accept_loss:
        _refuse(path, length, f"{lost}; verify=False opens it without them")
    _logger.warning("%s: %s", path, lost)


def report_torn(path: Path, length: int) -> None:
    """Say that a log is cut off after its last whole frame."""
    _logger.warning(
        "%s: its last %s bytes are the beginning of a record and are dropped. "
        "A process that was killed leaves this of a change that had not returned; "
        "if none was, the file was cut short.",
        path,
        f"{path.stat().st_size - length:,}",
    )


def _read_start(path: Path, data: bytes) -> tuple[Statement | None, int]:
    """The newest statement of a log, if it has any, and where its first frame begins."""
    header = data[: _HEADER.size]
    is_whole = len(data) >= _STATEMENTS
    if not is_whole or zlib.crc32(header) != CHECKSUM.unpack_from(data, _HEADER.size)[0]:
        _refuse(path, 0, "its header is damaged")
    magic, version = _HEADER.unpack(header)
    if magic != _MAGIC:
        _refuse(path, 0, "it is not a log")
    check_format(path, version)
    if version < _FIRST_WITH_STATEMENTS:
        return None, _STATEMENTS
    statement = unpack_newest(data[_STATEMENTS:EMPTY_LENGTH])
    if statement is None:
        _refuse(path, _STATEMENTS, "both statements of its length are damaged")
    return statement, EMPTY_LENGTH


def _content(data: bytes, at: int) -> memoryview | None:
    """The content of the frame at `at`; None if there is no whole frame."""
    length = _content_length(data, at)
    if length is None:
        return None
    content = memoryview(data)[at + _FRAME_START : at + _FRAME_START + length]
    _, checksum, _ = _FRAME.unpack_from(data, at)
    return content if len(content) == length and zlib.crc32(content) == checksum else None


def _content_length(data: bytes, at: int) -> int | None:
    """The length that the frame at `at` says its content has; None if its header is not whole."""
    if len(data) - at < _FRAME_START:
        return None
    magic, _, length = _FRAME.unpack_from(data, at)
    (checksum,) = CHECKSUM.unpack_from(data, at + _FRAME.size)
    if magic != _FRAME_MAGIC or zlib.crc32(data[at : at + _FRAME.size]) != checksum:
        return None
    return int(length)


def _check_torn(path: Path, data: bytes, at: int) -> None:
    """Refuse a log whose frame at `at` is neither whole nor torn."""
    later = data.find(_FRAME_MAGIC, at + 1)
    while later >= 0:
        if _content(data, later) is not None:
            _refuse(path, at, "whole records follow a damaged one")
        later = data.find(_FRAME_MAGIC, later + 1)
    rest = data[at:]
    length = _content_length(data, at)
    if length is not None and len(rest) < _FRAME_START + length:
        return
    if len(rest) < _FRAME_START and _FRAME_MAGIC.startswith(rest[: len(_FRAME_MAGIC)]):
        return
    if not _has_empty_sector(data, at):
        _refuse(path, at, "its last record is damaged")


def _has_empty_sector(data: bytes, at: int) -> bool:
    """Whether a sector that the frame at `at` lies on was never written."""
    for start in range(at // _SECTOR * _SECTOR, len(data), _SECTOR):
        sector = data[max(start, at) : start + _SECTOR]
        if len(sector) >= _FEWEST_ZEROS and not any(sector):
            return True
    return False


class Log:
    """A log that is open for appending.

    A frame counts once it is confirmed. An exception at any line, such as `KeyboardInterrupt`,
    leaves a frame that is confirmed, or one that the next call of `append` or `undo` cuts off.

    Parameters
    ----------
    path
        An existing log.
    length
        Where its last whole frame ends; the rest is cut off.
    sync
        Whether `append` returns only when the frame is on the disk. Otherwise the operating system
        has it then.
    """

    def __init__(self, path: Path, length: int, sync: bool) -> None:
        self.path = path
        self.length = length
        self._end = length
        """Where the frame ends that was written last, confirmed or not."""
        self._sync = sync
        self._pid = os.getpid()
        self._boot = read_boot()
        self._broken: str | None = None
        with storage_errors(path):
            self._fd = open_regular(path, os.O_RDWR)
            self.close = weakref.finalize(self, close_file, self._fd)
            statement, self._first = _read_start(path, os.pread(self._fd, EMPTY_LENGTH, 0))
            self._has_statements = statement is not None
            self._safe = 0 if statement is None else min(statement.safe, length)
            """How many bytes are on the disk for certain."""
            self._successor = 0 if statement is None else statement.successor
            self._slot = 0
            """Where the next statement is written: they take turns."""
            if statement is not None and statement.written > length:
                # Records were lost, and the user accepts that; or the machine has crashed.
                write_all_at(self._fd, pack_twice(self._state()), _STATEMENTS)
            if os.fstat(self._fd).st_size != length:
                os.ftruncate(self._fd, length)
                os.fsync(self._fd)

    def append(self, content: bytes) -> None:
        """Write a frame after the confirmed ones. It counts once `confirm` is called.

        Raises
        ------
        StorageError
            It could not be written; the log is as before.
        """
        if self._broken is not None:
            raise StorageError(self._broken, path=str(self.path))
        if not self.close.alive:
            raise StorageError("the log was closed", path=str(self.path))
        self._end = self.length
        frame = make_frame(content)
        try:
            with storage_errors(self.path):
                if os.fstat(self._fd).st_size != self.length:
                    os.ftruncate(self._fd, self.length)
                os.lseek(self._fd, self.length, os.SEEK_SET)
                write_all(self._fd, frame)
                if self._sync:
                    os.fsync(self._fd)
            self._end = self.length + len(frame)
        except BaseException:
            self.undo()
            raise

    def confirm(self) -> None:
        """Keep the frame that was appended last. May be called again."""
        if self.length != self._end:
            self.length = self._end
            if self._sync:
                self._safe = self.length
            self._write_statement()

    def sync(self) -> None:
        """Return when all frames are on the disk."""
        length = self.length
        with storage_errors(self.path):
            os.fsync(self._fd)
        if self._safe != length:
            self._safe = length
            self._write_statement()

    def name_successor(self, number: int) -> None:
        """State that the log with this number, which is on the disk, continues this one."""
        self._successor = number
        self._write_statement()

    def _write_statement(self) -> None:
        """State how long the log is.

        It states what is safe already, so nothing has to wait for it; if it cannot be written, the
        last statement holds.
        """
        is_own = os.getpid() == self._pid and self.close.alive
        if self._has_statements and is_own:
            place = _STATEMENTS + self._slot * STATEMENTS_LENGTH // 2
            self._slot = 1 - self._slot
            with suppress(OSError):
                write_all_at(self._fd, pack_statement(self._state()), place)

    def _state(self) -> Statement:
        return Statement(self._safe, self.length, self._boot, self._successor)

    def undo(self) -> None:
        """Cut off what was written after the confirmed frames. May be called again."""
        self._end = self.length
        # A forked child does not know what its parent has appended since.
        if os.getpid() != self._pid or not self.close.alive:
            return
        try:
            if os.fstat(self._fd).st_size != self.length:
                os.ftruncate(self._fd, self.length)
                os.fsync(self._fd)
        except OSError as error:
            # What is on the disk is unknown, so nothing may be written after it.
            self._broken = (
                f"a change could neither be written nor be undone ({error.strerror}); "
                "nothing more is written: open the directory again"
            )

    @property
    def is_empty(self) -> bool:
        """Whether it has no frames."""
        return self.length == self._first


def _refuse(path: Path, at: int, message: str) -> NoReturn:
    raise CorruptFileError(f"the log is damaged at byte {at:,}: {message}", path=str(path))
