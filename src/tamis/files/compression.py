"""Compressed files: gzip and Zstandard, read and written as streams of bytes."""

from __future__ import annotations

import gzip
import io
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import IO, Any, cast

import pyarrow as pa

__all__ = ["Compression", "compress", "decompress"]


class Compression(StrEnum):
    """How a file is compressed; the value is its extension."""

    GZIP = ".gz"
    ZSTANDARD = ".zst"


def decompress(raw: IO[bytes], compression: Compression) -> io.BufferedIOBase:
    """The decompressed bytes of `raw`; they can be read again from the beginning."""
    if compression is Compression.GZIP:
        return gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_ZstandardFile(raw), 1 << 20)


def compress(file: IO[bytes], compression: Compression | None) -> AbstractContextManager[IO[bytes]]:
    """A stream that writes to `file`, and is complete when it is closed."""
    if compression is Compression.GZIP:
        return cast(AbstractContextManager[IO[bytes]], gzip.open(file, "wb"))
    if compression is Compression.ZSTANDARD:
        stream = pa.CompressedOutputStream(pa.PythonFile(_KeepOpen(file), "w"), "zstd")
        return cast(AbstractContextManager[IO[bytes]], stream)
    return cast(AbstractContextManager[IO[bytes]], _KeepOpen(file))


class _KeepOpen:
    """A file that its caller closes."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> IO[bytes]:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.flush()


class _ZstandardFile(io.RawIOBase):
    """Reads a file of one or more Zstandard frames.

    Python's standard library knows the format from 3.14 on; pyarrow is here anyway.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._stream = self._open()

    def _open(self) -> Any:
        return pa.CompressedInputStream(pa.PythonFile(_KeepOpen(self._raw), "r"), "zstd")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go back to the beginning, which is all that readers of CSV need."""
        if offset or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file is read from its beginning")
        self._raw.seek(0)
        self._stream = self._open()
        return 0

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
