"""The write-ahead log: records, in the order in which they were acknowledged.

::

    header       16 bytes: magic, format version, checksum
    frame …      20 bytes: magic, checksum of the content, its length, checksum of these; content

A frame is safe on the disk before the next one is written. So only the last frame can be incomplete
after a crash: it is cut short where the process was killed, or has sectors of zeros where the
machine was. Such a *torn* frame was never acknowledged, and is dropped. Anything else that does not
match its checksum is damage, and is refused.
"""

from __future__ import annotations

import logging
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable
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
    write_atomically,
)
from tamis.matcher.storage.file_format import CHECKSUM, FORMAT, check_format

__all__ = [
    "EMPTY_LENGTH",
    "Frames",
    "Log",
    "LogContent",
    "create_log",
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

EMPTY_LENGTH: Final = _HEADER.size + CHECKSUM.size
"""The length of a log without frames."""


class LogContent(NamedTuple, Generic[_T]):
    """The records of a log."""

    records: list[_T]
    """The content of each frame, decoded."""
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether a torn frame follows it."""


class Frames(NamedTuple):
    """The frames of a log as they are stored."""

    contents: list[tuple[int, memoryview]]
    """The content of each frame, and the byte of the file at which it begins."""
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether a torn frame follows it."""


def create_log(path: Path, contents: Iterable[bytes] = ()) -> None:
    """Write a log with a frame for each of these contents."""
    header = _HEADER.pack(_MAGIC, FORMAT)
    start = header + CHECKSUM.pack(zlib.crc32(header))
    write_atomically(path, chain([start], map(_frame, contents)))


def _frame(content: bytes) -> bytes:
    header = _FRAME.pack(_FRAME_MAGIC, zlib.crc32(content), len(content))
    return header + CHECKSUM.pack(zlib.crc32(header)) + content


def read_log(path: Path, decode: Callable[[Any], _T]) -> LogContent[_T]:
    """Read all frames of a log, except a torn one.

    Parameters
    ----------
    path
        The log.
    decode
        Decodes the content of a frame; raises `msgspec.MsgspecError` if it cannot.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is damaged.
    StorageError
        It is of a newer format, or cannot be read.
    """
    frames = read_frames(path)
    records: list[_T] = []
    for position, content in frames.contents:
        try:
            records.append(decode(content))
        except msgspec.MsgspecError as error:
            _refuse(path, position - _FRAME_START, f"the record cannot be decoded: {error}")
    return LogContent(records, frames.length, frames.is_torn)


def read_frames(path: Path, start: int = EMPTY_LENGTH) -> Frames:
    """Read all frames of a log from the byte `start` on, except a torn one.

    Raises
    ------
    MissingFileError, CorruptFileError, StorageError
        As in `read_log`.
    """
    with storage_errors(path), os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        data = file.read()
    _check_header(path, data)
    contents: list[tuple[int, memoryview]] = []
    at = start
    while at < len(data):
        content = _content(data, at)
        if content is None:
            _check_torn(path, data, at)
            return Frames(contents, at, True)
        contents.append((at + _FRAME_START, content))
        at += _FRAME_START + len(content)
    return Frames(contents, at, False)


def read_whole_frames(path: Path) -> tuple[Frames, int]:
    """As `read_frames`, without the damaged parts, and how many these are.

    For records that are written without waiting for the disk, and of which any may be missing.
    """
    with storage_errors(path), os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        data = file.read()
    _check_header(path, data)
    contents: list[tuple[int, memoryview]] = []
    at, end, damaged = EMPTY_LENGTH, EMPTY_LENGTH, 0
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
    return Frames(contents, end, end < len(data)), damaged


def report_torn(path: Path, length: int) -> None:
    """Say that a log is cut off after its last whole frame."""
    _logger.warning(
        "%s: its last %s bytes are the beginning of a record and are dropped. "
        "A process that was killed leaves this of a change that had not returned; "
        "if none was, the file was cut short.",
        path,
        f"{path.stat().st_size - length:,}",
    )


def _check_header(path: Path, data: bytes) -> None:
    header = data[: _HEADER.size]
    is_whole = len(data) >= EMPTY_LENGTH
    if not is_whole or zlib.crc32(header) != CHECKSUM.unpack_from(data, _HEADER.size)[0]:
        _refuse(path, 0, "its header is damaged")
    magic, version = _HEADER.unpack(header)
    if magic != _MAGIC:
        _refuse(path, 0, "it is not a log")
    check_format(path, version)


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
        self._broken: str | None = None
        with storage_errors(path):
            self._fd = open_regular(path, os.O_RDWR)
            self.close = weakref.finalize(self, close_file, self._fd)
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
        frame = _frame(content)
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
        self.length = self._end

    def sync(self) -> None:
        """Return when all frames are on the disk."""
        with storage_errors(self.path):
            os.fsync(self._fd)

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
        return self.length == EMPTY_LENGTH


def _refuse(path: Path, at: int, message: str) -> NoReturn:
    raise CorruptFileError(f"the log is damaged at byte {at:,}: {message}", path=str(path))
