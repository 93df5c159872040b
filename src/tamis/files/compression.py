"""Compressed data: gzip, zlib and Zstandard, read and written as streams of bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import IO, Any, Final, cast

import pyarrow as pa

__all__ = ["CompressedDataError", "Compression", "compress", "compression_of", "decompress"]


class Compression(StrEnum):
    """How a file is compressed; the value is its extension."""

    GZIP = ".gz"
    ZSTANDARD = ".zst"
    DEFLATE = ".zz"
    """A stream of zlib, which HTTP calls deflate."""


_WINDOWS: Final = {Compression.GZIP: 31, Compression.DEFLATE: 15}
"""What zlib is told about each format."""

_PACKED: Final = 1 << 16
"""How many compressed bytes are read at a time: they may unpack to a thousand times as many."""

_UNPACKED: Final = 1 << 20


class CompressedDataError(OSError):
    """Compressed data are truncated, corrupt, or followed by something else."""


def compression_of(path: str) -> Compression | None:
    """How a file is compressed, by its extension."""
    found = (kind for kind in Compression if path.lower().endswith(kind))
    return next(found, None)


def decompress(raw: IO[bytes], compression: Compression) -> io.BufferedIOBase:
    """The decompressed bytes of `raw`; they can be read again from the beginning.

    Reading raises a `CompressedDataError` where the data are truncated, corrupt, or followed by
    something else.
    """
    if compression is Compression.ZSTANDARD:
        return io.BufferedReader(_ZstandardFile(raw), _UNPACKED)
    return io.BufferedReader(_ZlibFile(raw, compression), _UNPACKED)


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


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of a file, which is read in pieces of bounded size."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._begin()

    def _begin(self) -> None:
        """Prepare to read `_raw` from where it stands."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go back to the beginning, which is all that readers of CSV need."""
        if offset or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file is read from its beginning")
        self._raw.seek(0)
        self._begin()
        return 0


class _ZlibFile(_Unpacked):
    """Reads gzip with any number of members, or one stream of zlib.

    RFC 1952 lets a file consist of several members, as ``cat a.gz b.gz``, pigz, bgzip and Hadoop
    write it. Zeros may follow a member: tapes and block devices pad with them.
    """

    def __init__(self, raw: IO[bytes], compression: Compression) -> None:
        self._window = _WINDOWS[compression]
        self._name = compression.name.lower()
        super().__init__(raw)

    def _begin(self) -> None:
        self._packed = b""
        self._unpack = zlib.decompressobj(self._window)

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._unpack.eof and not self._begin_member():
                return 0
            if not self._packed:
                self._packed = self._raw.read(_PACKED)
            # What was read before may still yield bytes after the last of the file was taken in.
            is_last = not self._packed
            try:
                data = self._unpack.decompress(self._packed, len(buffer))
            except zlib.error as error:
                raise CompressedDataError(f"corrupt {self._name} data: {error}") from None
            self._packed = self._unpack.unconsumed_tail or self._unpack.unused_data
            if data:
                buffer[: len(data)] = data
                return len(data)
            if is_last and not self._unpack.eof:
                raise CompressedDataError(f"truncated {self._name} data")

    def _begin_member(self) -> bool:
        """Whether another member follows; then `_unpack` is ready for it."""
        while True:
            if self._window == _WINDOWS[Compression.GZIP]:
                self._packed = self._packed.lstrip(b"\0")
            if self._packed:
                break
            self._packed = self._raw.read(_PACKED)
            if not self._packed:
                return False
        if self._window != _WINDOWS[Compression.GZIP] or self._packed[:1] != b"\x1f":
            raise CompressedDataError(f"there is something else after the {self._name} data")
        self._unpack = zlib.decompressobj(self._window)
        return True


class _ZstandardFile(_Unpacked):
    """Reads a file of any number of Zstandard frames.

    Python's standard library knows the format from 3.14 on; pyarrow is here anyway.
    """

    def _begin(self) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(_Feed(self._raw), "r"), "zstd")

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise CompressedDataError(f"truncated or corrupt zstd data: {reason}") from None
        buffer[: len(data)] = data
        return len(data)


class _Feed:
    """Bytes for a stream of Arrow's, which closes what it reads when it is freed.

    By then the file may be closed, and Arrow prints the traceback of an error that it gets there.
    """

    closed = False

    def __init__(self, raw: IO[bytes]) -> None:
        self.read = raw.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file to its owner."""
