"""What an operator sets: addresses, limits and times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis.limits import Limits
from tamis.pubsub import LogRetention, WebhookSettings

__all__ = ["ServerLimits", "ServerSettings"]


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """What the server refuses because it is too large, too slow or too much at once.

    Sizes are in bytes after decompression, times in seconds.
    """

    body: int = 4 << 20
    """A request body; 413."""
    bulk_body: int = 1 << 30
    """A body of many rules or events, which goes through a temporary file; 413. A line of it has
    the limit of a body."""
    answer: int = 1 << 30
    """The answers about many events, which go through a temporary file; 413."""
    header: int = 32 << 10
    """The request line and all header fields; 431."""
    batch: int = 1_000_000
    """The rules or events of one request; 413."""
    rule: int = 64 << 10
    """The text of a rule; 422."""
    search: float = 5.0
    """The search for one event; 504."""
    request: float = 60.0
    """A request that is no stream, from its header to its answer; 504."""
    arrival: float = 30.0
    """From the connection to the end of the header, and of a small body; 408."""
    pause: float = 15.0
    """The longest pause within a body of many rules or events; 408."""
    work: int = 64
    """Requests that wait for or use a thread; 503."""
    key_work: int = 16
    """Those of one key; 429."""
    streams: int = 2_000
    """Connections of subscribers and followers; 503."""
    connections: int = 10_000
    """Connections in all; 503."""

    def for_matcher(self) -> Limits:
        """The part of these limits that a matcher enforces."""
        return Limits(
            rule_bytes=self.rule,
            milliseconds=self.search * 1000,
        )


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How to serve a directory of collections."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    """Whether to follow what another process writes to the directory."""
    keys: bool | None = None
    """Whether requests need a key; by default unless the host is a loopback address."""
    follow_seconds: float = 0.25
    """How often a read-only server looks for changes."""
    threads: int = 4
    """How many threads match batches, and how many write."""
    drain_seconds: float = 10.0
    """How long requests may take to finish when the server stops."""
    access_log: bool = True
    sync: bool = True
    """Whether a change is on the disk before it is acknowledged."""
    retention: LogRetention | None = None
    """How long published events are kept; a week by default."""
    webhooks: WebhookSettings | None = None
    """How messages are sent to webhooks."""
    limits: ServerLimits = ServerLimits()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the host."""
        return self.host in ("localhost", "::1", "[::1]") or self.host.startswith("127.")

    @property
    def needs_keys(self) -> bool:
        """Whether requests need a key."""
        return not self.is_loopback if self.keys is None else self.keys
