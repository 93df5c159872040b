"""HTTP/1.1 connections of uvicorn with limits on the header: its size, and the time it takes.

uvicorn limits neither: a client that sends a byte a minute would keep its connection for ever.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["make_protocol"]

_TOO_LARGE = b"the header of the request is too large"


def make_protocol(most_bytes: int, seconds: float) -> type[HttpToolsProtocol]:
    """The protocol with these limits, as uvicorn's ``http`` setting takes it."""

    class LimitedProtocol(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            super().on_message_begin()
            if self._timer is None:
                self._start_timer()

        def on_url(self, url: bytes) -> None:
            super().on_url(url)
            self._count(len(url))

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            self._count(len(name) + len(value) + 4)

        def on_headers_complete(self) -> None:
            self._stop_timer()
            super().on_headers_complete()

        def _count(self, size: int) -> None:
            self._header_bytes += size
            if self._header_bytes > most_bytes and not self.transport.is_closing():
                self._refuse_header()
                raise ValueError("the header is too large")

        def _refuse_header(self) -> None:
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
            length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(_TOO_LARGE)
            self.transport.write(head + length + _TOO_LARGE)
            self.transport.close()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)

        def send_400_response(self, msg: str) -> None:
            if not self.transport.is_closing():
                super().send_400_response(msg)

        def _start_timer(self) -> None:
            self._timer = self.loop.call_later(seconds, self._give_up)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.close()

    return LimitedProtocol
