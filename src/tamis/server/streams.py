"""Server-Sent Events: one connection that stays open, with a limit on how many there are.

A client that reads slowly holds up only its own stream: the next message is taken from the log when
the last one has left, so nothing piles up in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from tamis.server.metrics import Metrics
from tamis.server.operation import Call
from tamis.server.problems import ProblemError
from tamis.wire.media import EVENT_STREAM

__all__ = ["BEAT_SECONDS", "Streams", "format_event", "send_events"]

BEAT_SECONDS: Final = 15.0
"""How often an idle stream says that it is there; proxies cut silent connections."""

_BEAT: Final = b": \n\n"
_encode = msgspec.json.Encoder().encode


class Streams:
    """The open streams of a server.

    Parameters
    ----------
    most
        How many may be open.
    metrics
        Knows how many are.
    """

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most = most
        self._metrics = metrics
        self._count = 0
        self._ending: asyncio.Event | None = None

    @property
    def ending(self) -> asyncio.Event:
        """Set when the server stops."""
        if self._ending is None:
            self._ending = asyncio.Event()
        return self._ending

    def end(self) -> None:
        """Have all streams end."""
        self.ending.set()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Count a stream while it is open.

        Raises
        ------
        ProblemError
            There are too many (503).
        """
        if self._count >= self._most:
            raise ProblemError(
                503,
                "too-many-streams",
                f"{self._most:,} streams are open",
                {"Retry-After": "10"},
                limit=self._most,
            )
        self._count += 1
        self._metrics.streams.set(self._count)
        try:
            yield
        finally:
            self._count -= 1
            self._metrics.streams.set(self._count)


def format_event(data: Any, id: str, kind: str) -> bytes:
    """One event of a stream; JSON has no line breaks of its own."""
    head = f"id: {id}\nevent: {kind}\ndata: "
    return head.encode() + _encode(data) + b"\n\n"


async def send_events(call: Call, pieces: AsyncIterator[bytes]) -> None:
    """Send a stream of events until the client goes or the server stops.

    `pieces` yields an empty text when there was nothing for `BEAT_SECONDS`.
    """
    streams = call.server.streams
    with streams.opened():
        headers = [
            (b"content-type", EVENT_STREAM.encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await call.send({"type": "http.response.start", "status": 200, "headers": headers})
        await call.send({"type": "http.response.body", "body": _BEAT, "more_body": True})
        sending = asyncio.create_task(_send_pieces(call, pieces))
        watching = [
            asyncio.create_task(_watch_client(call)),
            asyncio.create_task(streams.ending.wait()),
        ]
        try:
            await asyncio.wait([sending, *watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *watching):
                task.cancel()
            results = await asyncio.gather(sending, *watching, return_exceptions=True)
        if isinstance(results[0], Exception) and not isinstance(results[0], OSError):
            raise results[0]
        await call.send({"type": "http.response.body", "body": b""})


async def _send_pieces(call: Call, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        await call.send({"type": "http.response.body", "body": piece or _BEAT, "more_body": True})


async def _watch_client(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
