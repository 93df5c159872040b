"""Reads request bodies within limits of size and time, compressed or not.

The size counts after decompression, and decompression stops at the limit: a small body that
unpacks to gigabytes is refused after the first megabytes.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, TypeAlias

from tamis.deadline import check_time
from tamis.files.compression import CompressedDataError, Compression, decompress
from tamis.server.problems import ProblemError

__all__ = ["ClientGoneError", "Receive", "read_body", "spool_body"]

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

_IN_MEMORY: Final = 8 << 20
"""A longer body of many rules or events goes to a file."""

_PIECE: Final = 1 << 16
"""A compressed body is unpacked in pieces of about this many bytes."""

_ENCODINGS: Final = {
    b"gzip": Compression.GZIP,
    b"x-gzip": Compression.GZIP,
    b"deflate": Compression.DEFLATE,
}


class ClientGoneError(Exception):
    """The client has closed the connection before its request was complete."""


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, seconds: float
) -> bytes:
    """Read a body into memory.

    Raises
    ------
    ProblemError
        It is too large (413), took too long (408), or has an unknown encoding (415).
    """
    _check_length(headers, limit)
    encoding = _find_encoding(headers)
    if encoding is None:
        # The common case: one message has it all.
        message = await _receive(receive, seconds)
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(body) > limit:
                _refuse_size(limit)
            return body
        first = body
    else:
        first = b""
    pieces, size = [first], len(first)
    try:
        async with asyncio.timeout(seconds):
            async for piece in _pieces(receive, None):
                size += len(piece)
                if size > limit:
                    _refuse_size(limit)
                pieces.append(piece)
    except TimeoutError:
        _refuse_slowness(seconds)
    packed = b"".join(pieces)
    return packed if encoding is None else _unpack(BytesIO(packed), encoding, limit).read()


async def spool_body(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, pause: float
) -> IO[bytes]:
    """Receive a long body into a temporary file, which is at its beginning.

    A compressed one is unpacked where it is read, piece by piece: reading it raises the errors that
    `read_body` does. `pause` is the longest time without a byte.
    """
    _check_length(headers, limit)
    encoding = _find_encoding(headers)
    file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the handler closes it
    size = 0
    try:
        async for piece in _pieces(receive, pause):
            size += len(piece)
            if size > limit:
                _refuse_size(limit)
            if size <= _IN_MEMORY:
                file.write(piece)
            else:
                await asyncio.to_thread(file.write, piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file if encoding is None else _unpack(file, encoding, limit)


def _find_encoding(headers: Mapping[bytes, bytes]) -> Compression | None:
    name = headers.get(b"content-encoding", b"identity").strip().lower()
    if name == b"identity":
        return None
    if name not in _ENCODINGS:
        raise ProblemError(
            415,
            "unknown-encoding",
            "the body may be plain, or compressed by gzip or deflate",
            {"Accept-Encoding": "gzip, deflate"},
        )
    return _ENCODINGS[name]


def _unpack(packed: IO[bytes], encoding: Compression, limit: int) -> io.BufferedReader:
    return io.BufferedReader(_Unpacked(packed, encoding, limit), _PIECE)


class _Unpacked(io.RawIOBase):
    """A compressed body; reading raises a `ProblemError` if it is too large or not whole."""

    def __init__(self, packed: IO[bytes], encoding: Compression, limit: int) -> None:
        super().__init__()
        self._packed = packed
        self._stream = decompress(packed, encoding)
        self._limit = limit
        self._size = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go back to the beginning, to read it a second time."""
        self._size = 0
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        check_time()
        try:
            size = self._stream.readinto1(buffer)
        except CompressedDataError as error:
            raise ProblemError(
                400, "malformed-body", f"the body is not compressed as its header says: {error}"
            ) from None
        self._size += size
        if self._size > self._limit:
            _refuse_size(self._limit)
        return size

    def close(self) -> None:
        self._packed.close()
        super().close()


async def _pieces(receive: Receive, pause: float | None) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await (receive() if pause is None else _receive(receive, pause))
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def _receive(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    try:
        # Cheaper than `asyncio.wait_for`, which makes a task.
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        _refuse_slowness(seconds)
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message


def _check_length(headers: Mapping[bytes, bytes], limit: int) -> None:
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        _refuse_size(limit)


def _refuse_size(limit: int) -> Any:
    raise ProblemError(
        413,
        "body-too-large",
        f"the body has more than {limit:,} bytes; send less at once",
        {"Connection": "close"},
        limit=limit,
    )


def _refuse_slowness(seconds: float) -> Any:
    raise ProblemError(
        408,
        "body-too-slow",
        f"the body did not arrive within {seconds:g} seconds",
        {"Connection": "close"},
        limit=seconds,
    )
