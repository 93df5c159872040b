"""A collection behind a socket, to be killed; run by `kills.py` in a process of its own.

The process waits for lines on its input. For each it forks a child that opens the collection,
listens on a free port, prints the port and its process id, and serves until it is killed. The
process itself opens nothing, so that it has no threads when it forks.

Usage: python -m tests.pubsub.killed_service FOLDER
"""

from __future__ import annotations

import json
import os
import socketserver
import sys
from pathlib import Path
from typing import Any

from tamis.errors import TamisError
from tamis.pubsub import Collection, WebhookSettings
from tamis.pubsub.log import event_log

SETTINGS = WebhookSettings(allowed_networks=("127.0.0.0/8",), delays=(0.02,) * 500, seconds=5)


def answer(c: Collection, request: dict[str, Any]) -> Any:
    """What a request asks for."""
    match request.pop("op"):
        case "publish":
            return c.publish(**request).sequence
        case "rule":
            c.matcher.add(**request)
            return None
        case "put":
            c.subscriptions.put(**request)
            return None
        case "read":
            return [[d.sequence, d.message_id] for d in c.read(**request)]
        case "acknowledge":
            return c.acknowledge(**request)
        case "pending":
            state = c.subscriptions.state(request["name"])
            waiting = c.log.find_deliveries(request["name"], state.acknowledged, 1)
            return len(state.retries) + len(waiting)
        case other:
            raise ValueError(f"unknown request {other!r}")


def serve(folder: Path) -> None:
    """Serve a collection until the process is killed."""
    c = Collection.open(folder, segment_bytes=64_000, webhooks=SETTINGS, engine="scan")

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                try:
                    result = {"ok": answer(c, json.loads(line))}
                except TamisError as error:
                    result = {"error": f"{type(error).__name__}: {error}"}
                self.wfile.write(json.dumps(result).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Handler) as server:
        say(json.dumps([server.server_address[1], os.getpid()]))
        server.serve_forever()


def say(text: str) -> None:
    """Write a line to the output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Fork a service for every line of the input."""
    assert event_log.SEGMENT_BYTES
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                serve(folder)
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
        say("ended")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
