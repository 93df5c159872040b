"""A lock on the port of Spark Connect, which local sessions cannot choose."""

from __future__ import annotations

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

PORT = 15002
PATIENCE = 300.0
"""How many seconds to wait for the server of another test to end."""


@contextmanager
def connect_port() -> Iterator[None]:
    """Lock the port against all other test processes on this machine."""
    with (Path(tempfile.gettempdir()) / f"tamis-tests-port-{PORT}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wait_for_port()
        yield


def wait_for_port() -> None:
    """Wait until no server listens on the port."""
    last = monotonic() + PATIENCE
    while _is_taken():
        assert monotonic() < last, f"another program listens on port {PORT}"
        sleep(0.5)


def _is_taken() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0
