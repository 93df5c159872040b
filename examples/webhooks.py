"""A server, a receiver and real weather: storm warnings delivered as signed webhooks.

    python examples/webhooks.py         # needs: pip install 'tamis[server]'

Starts `tamis serve` over a directory, subscribes a receiver in this process, and publishes the
hours of a week. Everything is removed at the end.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import hmac
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from tamis.client import Client, RequestError

DATA = Path(__file__).parent / "data"
RULES = {
    "gale": "gust_mph >= 45",
    "snow storm": "temp_f <= 34 AND rain_in > 0.02 AND wind_mph > 20",
    "blind": "visibility_miles < 0.5",
    "record gust": "gust_mph IS NOT NULL AND "
    "gust_mph > ALL (SELECT d.gust_mph FROM seen d WHERE d.gust_mph IS NOT NULL)",
}


def read_weather() -> Iterator[dict[str, Any]]:
    """The hours of the file; what was not measured is left out."""
    with (DATA / "weather.csv").open() as file:
        for row in csv.DictReader(file):
            yield {
                name: value if name == "time" else float(value)
                for name, value in row.items()
                if value
            }


def is_genuine(secret: str, headers: Any, body: bytes) -> bool:
    """Whether a message was signed with the secret of the subscription."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(
        hmac.compare_digest(expected, given.removeprefix("v1,"))
        for given in headers["webhook-signature"].split()
    )


@contextmanager
def receiver(secrets: list[str]) -> Iterator[tuple[str, Queue[dict[str, Any]]]]:
    """A server of this process that takes genuine messages; its address, and what it took."""
    taken: Queue[dict[str, Any]] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            genuine = is_genuine(secrets[0], self.headers, body)
            self.send_response(200 if genuine else 403)
            self.end_headers()
            if genuine:
                taken.put(json.loads(body)["data"])

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", taken
    server.shutdown()
    server.server_close()


@contextmanager
def tamis_server(folder: str) -> Iterator[str]:
    """A server of rules over a directory; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tamis", "serve", folder, "--port", str(port)]
    command += ["--webhooks-to", "127.0.0.1/32"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_until_ready(client: Client) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        try:
            client.create(schema={"time": "timestamp"})
        except RequestError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("the server has not started")


def main() -> None:
    """Deliver the warnings of a week."""
    secrets: list[str] = []
    with (
        TemporaryDirectory() as folder,
        tamis_server(folder) as address,
        receiver(secrets) as (hook, taken),
        Client(address, "weather") as client,
    ):
        wait_until_ready(client)
        client.add_many([{"id": id, "rule": rule} for id, rule in RULES.items()])
        record = client.put_subscription("tower", rules=list(RULES), webhook=hook)
        assert record.secret is not None  # shown only in this answer
        secrets.append(record.secret)

        hours = list(read_weather())
        sent = [client.publish(hour) for hour in hours]
        expected = sum(bool(answer.deliveries) for answer in sent)
        for _ in range(expected):
            data = taken.get(timeout=30)
            print(data["event"]["time"][:16], ", ".join(data["rules"]))
        print(f"{len(hours)} hours, {expected} warnings delivered")


if __name__ == "__main__":
    main()
