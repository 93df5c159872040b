"""How to reach a server: its address, the key, and what each request has in its header."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import httpx2

import tamis
from tamis.client.calls import Call, make_path
from tamis.wire.media import EVENT_STREAM

__all__ = ["Settings", "find_key", "request_options", "stream_options"]

KEY_VARIABLE: Final = "TAMIS_KEY"
_SILENCE: Final = 45.0
"""A stream that is silent for this number of seconds is broken: the server beats every 15."""


class Settings(NamedTuple):
    """How to reach a server."""

    url: str
    key: str | None
    timeout: float
    retries: int

    def for_http(self) -> dict[str, Any]:
        """The arguments of httpx2's clients."""
        # httpx2 reads only the first member of gzip; a proxy may write several.
        headers = {"user-agent": f"tamis/{tamis.__version__}", "accept-encoding": "identity"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "follow_redirects": False,
            "limits": httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        }


def find_key(key: str | None) -> str | None:
    """The key that is given, or that of the environment."""
    return key or os.environ.get(KEY_VARIABLE) or None


def request_options(call: Call[Any], settings: Settings) -> dict[str, Any]:
    """The arguments of a request for a call."""
    headers = {"accept": call.accept, **call.headers}
    if call.body is not None:
        headers["content-type"] = call.media
    return {
        "method": call.method,
        "url": call.path,
        "content": call.body,
        "params": call.query,
        "headers": headers,
        "timeout": settings.timeout + call.wait,
    }


def stream_options(
    collection: str, subscriptions: Sequence[str], payloads: bool, last_id: str | None
) -> dict[str, Any]:
    """The arguments of a request for a stream."""
    headers = {"accept": EVENT_STREAM}
    if last_id is not None:
        headers["last-event-id"] = last_id
    query = {"subscription": list(subscriptions), "payloads": str(payloads).lower()}
    return {
        "method": "GET",
        "url": make_path(collection, "stream"),
        "params": query,
        "headers": headers,
        "timeout": httpx2.Timeout(30.0, read=_SILENCE),
    }
