"""Reads Server-Sent Events, line by line; `Client` and `AsyncClient` feed it."""

from __future__ import annotations

import msgspec

from tamis.wire.pubsub import DeliveryRecord

__all__ = ["StreamReader"]


class StreamReader:
    """Collects the lines of a stream into messages, and knows where to resume."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last message, for ``Last-Event-ID``."""
        self._id: str | None = None
        self._data: list[str] = []
        self._decode = msgspec.json.Decoder(DeliveryRecord).decode

    def begin(self) -> None:
        """Begin with a new connection: what the last one left unfinished comes again."""
        self._id, self._data = None, []

    def feed(self, line: str) -> DeliveryRecord | None:
        """Take a line, and return the message that it completes."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        data, self._data = self._data, []
        if not data:
            return None
        self.last_id = self._id
        return self._decode("\n".join(data).encode())
