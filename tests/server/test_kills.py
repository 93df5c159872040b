"""A server that is killed under load loses nothing that it has acknowledged.

Publishers, a writer of rules and a subscriber use a server over sockets. It is killed (SIGKILL) at
a random moment and started again, over and over. Then rules, log and deliveries are compared with
what the clients know. `make kills` kills it 100 times.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tamis.client import Client, RequestError
from tamis.errors import TamisError
from tamis.wire.pubsub import DeliveryRecord

KILLS = int(os.environ.get("TAMIS_KILLS", "2"))
PUBLISHERS = 4
SERVER = """
import sys
from pathlib import Path
from tamis.server.run import make_runner
from tamis.server.settings import ServerSettings
runner = make_runner(
    ServerSettings(folder=Path(sys.argv[1]), port=int(sys.argv[2]), access_log=False)
)
runner.tamis.skips_warm_up = True
runner.run()
"""


class Killed:
    """A server in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-c", SERVER, str(self._folder), str(self.port)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, "the server does not start"
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


class Load:
    """Clients that remember what the server has acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_over = False
        """Whether publishers and the writer end; the subscriber ends with the last message."""
        self.published: dict[str, int] = {}
        """The sequence number of each message that was acknowledged."""
        self.sent: set[str] = set()
        self.rules: set[str] = set()
        self.received: list[DeliveryRecord] = []
        self._errors: list[BaseException] = []
        works: list[Callable[[], None]] = [self.subscribe, self.write]
        works += [lambda n=n: self.publish(n) for n in range(PUBLISHERS)]  # type: ignore[misc]
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._errors.append(error)

    def publish(self, publisher: int) -> None:
        with Client(self._url, "c", retries=0) as client:
            number = 0
            while not self.is_over:
                number += 1
                id = f"{publisher}-{number}"
                self.sent.add(id)
                while not self.is_over:
                    try:
                        answer = client.publish({"id": id, "x": 1}, message_id=id)
                    except RequestError:
                        time.sleep(0.02)
                    else:
                        self.published[id] = answer.sequence
                        break

    def write(self) -> None:
        with Client(self._url, "c", retries=0) as client:
            number = 0
            while not self.is_over:
                number += 1
                try:
                    client.add(f"r{number}", "y = 1", replace=True)
                except RequestError:
                    time.sleep(0.02)
                else:
                    self.rules.add(f"r{number}")

    def subscribe(self) -> None:
        while True:
            try:
                with Client(self._url, "c", retries=0) as client:
                    for message in client.subscribe("ann"):
                        self.received.append(message)
                        client.acknowledge("ann", message.sequence)
                        if message.event.get("last"):
                            return
            except (RequestError, TamisError):
                time.sleep(0.02)

    def stop(self) -> None:
        """Have all end but the subscriber, which ends with the last message."""
        self.is_over = True
        for thread in self._threads[1:]:
            thread.join(60)

    def finish(self) -> None:
        self._threads[0].join(120)
        assert not self._threads[0].is_alive()
        assert not self._errors, self._errors


def test_kills_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(os.environ.get("TAMIS_SEED", "1"))
    server = Killed(tmp_path / "d")
    server.start()
    with Client(server.url, "c") as client:
        client.create()
        client.add("wanted", "x = 1")
        client.put_subscription("ann", rules=["wanted"], window=100_000)
        load = Load(server.url)
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.3, 1.5))
            server.kill()
            server.start()
        time.sleep(0.3)
        load.stop()
        client.publish({"x": 1, "last": True}, message_id="last")
        load.finish()
        check(client, load)
    server.kill()


def check(client: Client, load: Load) -> None:
    """Compare what the server has with what it has acknowledged."""
    assert load.published
    assert load.rules
    stored = set(client.export()["id"].to_pylist())
    assert load.rules <= stored
    logged: dict[str, int] = {}
    after = 0
    while events := client.read_log(after, limit=1000).events:
        for event in events:
            assert event.message_id is not None
            assert event.message_id not in logged, "an event was published twice"
            logged[event.message_id] = event.sequence
        after = events[-1].sequence
    logged.pop("last")
    assert load.published.items() <= logged.items()
    assert logged.keys() <= load.sent
    first_receipts = list(dict.fromkeys(message.sequence for message in load.received))
    assert first_receipts == sorted(first_receipts)
    received = {message.message_id for message in load.received}
    assert received == {*logged, "last"}
