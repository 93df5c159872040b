"""The access log: a line of JSON for each request, without keys, queries or bodies.

A query may hold what a user searches for, a header holds the key: neither is written. Lines are
collected and written together, so that a request does not wait for the log.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import IO, Any, Final

import msgspec

from tamis.files.unprintable import escape_json

__all__ = ["AccessLog"]

_MOST_LINES: Final = 512
_SECONDS: Final = 0.5
_encode = msgspec.json.Encoder().encode


class AccessLog:
    """Writes lines of JSON to a stream.

    Parameters
    ----------
    stream
        Standard error by default.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def redirect(self, stream: IO[str]) -> None:
        """Write to another stream from now on."""
        self._stream = stream

    def request(
        self,
        method: str,
        route: str,
        collection: str | None,
        status: int,
        seconds: float,
        client: str | None,
        key: str | None,
        request_id: str,
    ) -> None:
        """Note a request. `route` is its template, `key` the id of its key."""
        self._add(
            {
                "time": _spell_time(time.time()),
                "method": method,
                "route": route,
                "collection": collection,
                "status": status,
                "ms": round(seconds * 1000, 3),
                "client": client,
                "key": key,
                "request": request_id,
            }
        )

    def event(self, message: str, **fields: Any) -> None:
        """Note something else that an operator should see."""
        self._add({"time": _spell_time(time.time()), "message": message, **fields})
        self.flush()

    def _add(self, fields: dict[str, Any]) -> None:
        self._lines.append(escape_json(_encode(fields)))
        if len(self._lines) >= _MOST_LINES:
            self.flush()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(_SECONDS, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Write the lines that were collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            self._stream.write(b"\n".join([*lines, b""]).decode())
            self._stream.flush()


def _spell_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
