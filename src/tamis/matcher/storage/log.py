"""The write-ahead log: changes in the order in which they were acknowledged.

::

    header       16 bytes: magic, format version, checksum
    frame …      20 bytes: magic, checksum of the content, its length, checksum of these; content

A frame holds what several writers changed at once, and is safe on the disk before the next one is
written. So only the last frame can be incomplete after a crash: it is cut short where the process
was killed, or has sectors of zeros where the machine was. Such a *torn* frame was never
acknowledged, and is dropped. Anything else that does not fit its checksum is damage, and refused.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.storage.array_file import FORMAT
from tamis.matcher.storage.atomic import storing, write_all, write_aside
from tamis.matcher.write.writer import Entry

__all__ = ["EMPTY", "Frames", "Log", "LogContent", "create_log", "read_frames", "read_log"]

_MAGIC = b"TAMISLOG"
_HEADER = struct.Struct("<8sI")
_FRAME_MAGIC = b"\x8bTMF"
_FRAME = struct.Struct("<4sIQ")
"""Magic, checksum of the content, length of the content."""
_CHECKSUM = struct.Struct("<I")
_SECTOR = 512
_TELLING = 8
"""How many bytes of zeros at the end of a file are no accident."""

EMPTY = _BEGIN = _HEADER.size + _CHECKSUM.size
"""How long a log without frames is."""
_FRAME_BEGIN = _FRAME.size + _CHECKSUM.size

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


class LogContent(NamedTuple):
    """What a log holds."""

    entries: list[Entry]
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether there is a torn frame behind it."""


class Frames(NamedTuple):
    """The frames of a log."""

    starts: list[int]
    """Where each begins."""
    contents: list[memoryview]
    length: int
    """Where the last whole frame ends."""
    is_torn: bool
    """Whether there is a torn frame behind it."""


def create_log(path: Path, contents: Iterable[bytes] = ()) -> None:
    """Write a log, without entries or with frames of these contents."""
    header = _HEADER.pack(_MAGIC, FORMAT)
    begin = header + _CHECKSUM.pack(zlib.crc32(header))
    write_aside(path, chain([begin], map(_framed, contents)))


def _framed(content: bytes) -> bytes:
    header = _FRAME.pack(_FRAME_MAGIC, zlib.crc32(content), len(content))
    return header + _CHECKSUM.pack(zlib.crc32(header)) + content


def read_log(path: Path) -> LogContent:
    """All entries of a log, but for a torn frame.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is not as it was written.
    """
    frames = read_frames(path)
    entries: list[Entry] = []
    for at, content in zip(frames.starts, frames.contents, strict=True):
        try:
            entries += _decode(content)
        except msgspec.MsgspecError as error:
            _refuse(path, at, f"it is not to be read: {error}")
    return LogContent(entries, frames.length, frames.is_torn)


def read_frames(path: Path) -> Frames:
    """All frames of a log, but for a torn one.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is not as it was written.
    """
    with storing(path):
        data = path.read_bytes()
    _check_header(path, data)
    starts: list[int] = []
    contents: list[memoryview] = []
    at = _BEGIN
    while at < len(data):
        content = _content(data, at)
        if content is None:
            _check_torn(path, data, at)
            return Frames(starts, contents, at, True)
        starts.append(at)
        contents.append(content)
        at += _FRAME_BEGIN + len(content)
    return Frames(starts, contents, at, False)


def _check_header(path: Path, data: bytes) -> None:
    header = data[: _HEADER.size]
    whole = len(data) >= _BEGIN
    if not whole or zlib.crc32(header) != _CHECKSUM.unpack_from(data, _HEADER.size)[0]:
        _refuse(path, 0, "its header is not as it was written")
    magic, version = _HEADER.unpack(header)
    if magic != _MAGIC:
        _refuse(path, 0, "it is no log")
    if version > FORMAT:
        raise StorageError(
            f"it has format {version}, and this Tamis reads formats up to {FORMAT}; "
            "use a newer Tamis",
            path=str(path),
        )


def _content(data: bytes, at: int) -> memoryview | None:
    """The content of the frame at `at`; None if that is no whole frame."""
    length = _length(data, at)
    if length is None:
        return None
    content = memoryview(data)[at + _FRAME_BEGIN : at + _FRAME_BEGIN + length]
    _, checksum, _ = _FRAME.unpack_from(data, at)
    return content if len(content) == length and zlib.crc32(content) == checksum else None


def _length(data: bytes, at: int) -> int | None:
    """How long the content of the frame at `at` is, if its header is whole."""
    if len(data) - at < _FRAME_BEGIN:
        return None
    magic, _, length = _FRAME.unpack_from(data, at)
    (checksum,) = _CHECKSUM.unpack_from(data, at + _FRAME.size)
    if magic != _FRAME_MAGIC or zlib.crc32(data[at : at + _FRAME.size]) != checksum:
        return None
    return int(length)


def _check_torn(path: Path, data: bytes, at: int) -> None:
    """Refuse a log whose frame at `at` is neither whole nor torn."""
    later = data.find(_FRAME_MAGIC, at + 1)
    while later >= 0:
        if _content(data, later) is not None:
            _refuse(path, at, "there are whole records behind a damaged one")
        later = data.find(_FRAME_MAGIC, later + 1)
    rest = data[at:]
    length = _length(data, at)
    if length is not None and len(rest) < _FRAME_BEGIN + length:
        return
    if len(rest) < _FRAME_BEGIN and _FRAME_MAGIC.startswith(rest[: len(_FRAME_MAGIC)]):
        return
    if not _has_empty_sector(data, at):
        _refuse(path, at, "its last record is not as it was written")


def _has_empty_sector(data: bytes, at: int) -> bool:
    """Whether a part of the disk that the frame at `at` lies on was never written."""
    for start in range(at // _SECTOR * _SECTOR, len(data), _SECTOR):
        sector = data[max(start, at) : start + _SECTOR]
        if len(sector) >= _TELLING and not any(sector):
            return True
    return False


class Log:
    """A log that grows.

    Parameters
    ----------
    path
        A log that was created before.
    length
        Where its last whole frame ends; what is behind it is cut off.
    sync
        Whether each frame is safe on the disk, and not only with the system, when it is
        acknowledged.
    """

    def __init__(self, path: Path, length: int, sync: bool) -> None:
        self.path = path
        self.length = length
        self._sync = sync
        self._broken: str | None = None
        with storing(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self.close = weakref.finalize(self, os.close, self._fd)
            if os.fstat(self._fd).st_size != length:
                os.ftruncate(self._fd, length)
                os.fsync(self._fd)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write a frame; if that fails, the log is as before.

        Raises
        ------
        StorageError
            It could not be written.
        """
        self.append_frame(_encode(entries))

    def append_frame(self, content: bytes) -> None:
        """As `append`, for a frame of any content."""
        if self._broken is not None:
            raise StorageError(self._broken, path=str(self.path))
        frame = _framed(content)
        try:
            with storing(self.path):
                os.lseek(self._fd, self.length, os.SEEK_SET)
                write_all(self._fd, frame)
                if self._sync:
                    os.fsync(self._fd)
        except BaseException:
            self._cut()
            raise
        self.length += len(frame)

    def sync(self) -> None:
        """Return when all frames are on the disk."""
        with storing(self.path):
            os.fsync(self._fd)

    def _cut(self) -> None:
        """Cut off what was written of a frame that failed."""
        try:
            os.ftruncate(self._fd, self.length)
            os.fsync(self._fd)
        except OSError as error:
            # Nobody knows what is on the disk now, so nothing may be written behind it.
            self._broken = (
                f"a change could neither be written nor be undone ({error.strerror}); "
                "nothing more is written: open the directory again"
            )

    @property
    def is_empty(self) -> bool:
        """Whether there is no frame in it."""
        return self.length == EMPTY


def _refuse(path: Path, at: int, message: str) -> NoReturn:
    raise CorruptFileError(f"the log is damaged at byte {at:,}: {message}", path=str(path))
