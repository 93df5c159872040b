"""Reads request bodies within limits of size and time, compressed or not.

The size counts after decompression, and decompression stops at the limit: a small body that
unpacks to gigabytes is refused after the first megabytes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, TypeAlias

from tamis.server.problems import ProblemError

__all__ = ["ClientGoneError", "Receive", "read_body", "spool_body"]

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

_IN_MEMORY: Final = 8 << 20
"""A longer body of many rules or events goes to a file."""

_WINDOW: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""What zlib is told about each encoding."""


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
    if b"content-encoding" not in headers:
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
            async for piece in _decoded_pieces(receive, headers, limit):
                size += len(piece)
                if size > limit:
                    _refuse_size(limit)
                pieces.append(piece)
    except TimeoutError:
        _refuse_slowness(seconds)
    return b"".join(pieces)


async def spool_body(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, pause: float
) -> IO[bytes]:
    """Read a long body into a temporary file, which is at its beginning.

    `pause` is the longest time without a byte.
    """
    _check_length(headers, limit)
    file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the handler closes it
    size = 0
    try:
        async for piece in _decoded_pieces(receive, headers, limit, pause):
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
    return file


async def _decoded_pieces(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, pause: float | None = None
) -> AsyncIterator[bytes]:
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding == b"identity":
        async for piece in _pieces(receive, pause):
            yield piece
        return
    if encoding not in _WINDOW:
        raise ProblemError(
            415,
            "unknown-encoding",
            "the body may be plain, or compressed by gzip or deflate",
            {"Accept-Encoding": "gzip, deflate"},
        )
    unpack = zlib.decompressobj(_WINDOW[encoding])
    async for packed in _pieces(receive, pause):
        for piece in _unpack(unpack, packed, limit):
            yield piece
    if not unpack.eof:
        raise ProblemError(400, "malformed-body", "the compressed body ends too early")


def _unpack(unpack: Any, packed: bytes, limit: int) -> Iterator[bytes]:
    """Decompress in steps of at most `limit` bytes, so that none needs much memory."""
    step = min(limit + 1, 1 << 20)
    try:
        piece = unpack.decompress(packed, step)
        while piece:
            yield piece
            piece = unpack.decompress(unpack.unconsumed_tail, step)
    except zlib.error:
        raise ProblemError(
            400, "malformed-body", "the body is not compressed as its header says"
        ) from None


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
