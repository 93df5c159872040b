"""Receivers of webhooks for the tests: real sockets, and answers of all kinds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

__all__ = ["Received", "Receiver", "run_receiver"]


class Received(NamedTuple):
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def message(self) -> str:
        """The id of the message, without the identity of the collection: ``ann.12``."""
        return self.headers["webhook-id"].rpartition(".")[0]


class Receiver:
    """What a receiver got, and how it answers."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.answer: Callable[[Received], int] = lambda _: 204
        self.url = ""

    @property
    def taken(self) -> list[str]:
        """The messages that it took, such as ``ann.12``."""
        return [r.message for r in self.requests if 200 <= r.status < 300]


@contextmanager
def run_receiver(host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.path, headers, body, 0)
            status = receiver.answer(request)
            receiver.requests.append(request._replace(status=status))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.send_header("content-length", "6")
            self.end_headers()
            self.wfile.write(b"secret")

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """A sender that is killed breaks its connection."""

    server = Server((host, 0), Handler)
    receiver.url = f"http://{host}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def run_silent() -> Iterator[str]:
    """Listen, and never answer; yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
