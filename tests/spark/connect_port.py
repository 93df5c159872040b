"""The port of Spark Connect, which a local session cannot choose: one test at a time has it."""

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
"""How many seconds the server of another test may take to end."""


@contextmanager
def connect_port() -> Iterator[None]:
    """Have the port to oneself, among all processes that run tests on this machine."""
    with (Path(tempfile.gettempdir()) / f"tamis-tests-port-{PORT}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wait_until_free()
        yield


def wait_until_free() -> None:
    """Wait for whoever listens there to end."""
    last = monotonic() + PATIENCE
    while _is_taken():
        assert monotonic() < last, f"another program listens on port {PORT}"
        sleep(0.5)


def _is_taken() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0
