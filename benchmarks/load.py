"""Sends prepared HTTP requests over many connections, and measures the answers.

A general HTTP client takes longer to send a request than the server to answer it; this one writes
bytes that are ready and looks only for the status and the length of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle
from time import perf_counter
from typing import NamedTuple

import numpy as np

__all__ = ["Measured", "make_request", "measure"]


class Measured(NamedTuple):
    """The answers of one run."""

    per_second: float
    p50_ms: float
    p99_ms: float
    answers: int
    failures: int
    """Answers other than 2xx."""


def make_request(
    method: str, path: str, body: bytes, media: str = "application/json", more: str = ""
) -> bytes:
    """A request as bytes."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n"
        f"{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the last one is complete."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._end = 0.0
        self._done = done
        self._buffer = b""
        self._needed = 0
        self._sent = 0.0
        self.times: list[float] = []
        self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def begin(self, end: float) -> None:
        """Send requests until a time."""
        self._end = end
        self._send()

    def _send(self) -> None:
        self._sent = perf_counter()
        if self._sent >= self._end:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if not self._needed and not self._read_head():
            return
        if len(self._buffer) >= self._needed:
            self.times.append(perf_counter() - self._sent)
            self._buffer, self._needed = b"", 0
            self._send()

    def _read_head(self) -> bool:
        """Find out how long the answer is, if its header is complete."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self._buffer[:end].lower()
        self.failures += head[9:10] != b"2"
        at = head.find(b"content-length: ")
        if at >= 0:
            self._needed = end + 4 + int(head[at + 16 :].partition(b"\r\n")[0])
            return True
        # A chunked answer ends with an empty chunk.
        if self._buffer.endswith(b"0\r\n\r\n"):
            self._needed = len(self._buffer)
            return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))


async def measure(port: int, requests: list[bytes], connections: int, seconds: float) -> Measured:
    """Send requests over so many connections for so many seconds."""
    loop = asyncio.get_running_loop()
    opened: list[_Connection] = []
    waits: list[asyncio.Future[None]] = []
    for number in range(connections):
        own = cycle(requests[number % len(requests) :] + requests[: number % len(requests)])
        done: asyncio.Future[None] = loop.create_future()
        connection = _Connection(own, done)
        opened.append(connection)
        waits.append(done)
        await loop.create_connection(lambda c=connection: c, "127.0.0.1", port)  # type: ignore[misc]
    start = perf_counter()
    for connection in opened:
        connection.begin(start + seconds)
    await asyncio.gather(*waits)
    taken = perf_counter() - start
    times = np.concatenate([np.array(connection.times) for connection in opened])
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    failures = sum(connection.failures for connection in opened)
    return Measured(len(times) / taken, float(p50), float(p99), len(times), failures)
