"""Kills `tamis serve` under load, again and again, and compares with a shadow.

Publishers, a writer of rules, subscribers and a receiver of webhooks talk to the service over real
sockets. Each knows what was acknowledged to it. The service is killed with SIGKILL at a random
moment and started again; publishers send what was not acknowledged once more, with the same ids.
At the end everything is compared:

- every acknowledged event is in the log, with its number, and no message id is there twice;
- every acknowledged rule is there;
- an event reached exactly the subscriptions that a shadow computes, join predicates included;
- every subscriber has received every message, in order, and none again that it had acknowledged;
- the receiver has taken every message, and at most one of them twice for each kill.

Usage: python -m tests.pubsub.kills [--kills 100] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tamis.client import Client, RequestError
from tamis.pubsub import Collection
from tests.pubsub.receivers import Receiver, run_receiver

__all__ = ["Campaign", "main"]

COLLECTION = "collection"
_LONGEST_ROUND = 10.0
PUBLISHERS = 4
SUBSCRIBERS = ("a", "b", "again")
RULES: dict[str, dict[str, Any]] = {
    "a": {"rule": "kind = 'a' AND n >= 0", "subscription": "a"},
    "b": {"rule": "kind IN ('b', 'a')", "tags": ["b"]},
    "again": {"rule": "EXISTS (SELECT 1 FROM seen d WHERE d.key = key)", "tags": ["again"]},
    "hook": {"rule": "n >= 0", "tags": ["hook"]},
}


class Connection:
    """A connection to the service."""

    def __init__(self, port: int) -> None:
        self._client = Client(f"http://127.0.0.1:{port}", COLLECTION, retries=0)

    def call(self, op: str, **arguments: Any) -> Any:
        """The answer to a request.

        Raises
        ------
        ConnectionError
            The service was killed.
        """
        try:
            return self._call(op, arguments)
        except RequestError as error:
            if error.status is None:
                raise ConnectionError(str(error)) from error
            raise

    def _call(self, op: str, arguments: dict[str, Any]) -> Any:
        client = self._client
        match op:
            case "create":
                return client.create()
            case "publish":
                return client.publish(**arguments).sequence
            case "rule":
                return client.add(**arguments, replace=True)
            case "put":
                return client.put_subscription(**arguments)
            case "read":
                return [[d.sequence, d.message_id] for d in client.read(**arguments)]
            case "acknowledge":
                return client.acknowledge(**arguments)
        raise ValueError(f"unknown request {op!r}")

    def close(self) -> None:
        """End the connection."""
        self._client.close()


class Service:
    """The service in its process.

    Parameters
    ----------
    folder
        The folder that it serves.
    """

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.pubsub.killed_service", str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._pid = 0

    def start(self) -> Callable[[], Connection]:
        """Start it, and return what connects to it."""
        assert self._process.stdin is not None
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        port, self._pid = json.loads(self._read_line())
        return lambda: Connection(port)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        os.kill(self._pid, signal.SIGKILL)
        assert self._read_line() == "ended\n"

    def close(self) -> None:
        """End the process that starts it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class Campaign:
    """What everyone has seen so far.

    Parameters
    ----------
    service
        The service.
    receiver
        The receiver of webhooks.
    seed
        Decides events and moments.
    """

    def __init__(self, service: Service, receiver: Receiver, seed: int) -> None:
        self._service = service
        self._receiver = receiver
        self._random = random.Random(seed)
        self._connect: Callable[[], Any] = lambda: None
        self._published: list[dict[str, int]] = [{} for _ in range(PUBLISHERS)]
        self._unknown: list[list[dict[str, Any]]] = [[] for _ in range(PUBLISHERS)]
        """For each publisher: what was acknowledged, and what it sent without an answer."""
        self.rules: list[str] = []
        self._received: dict[str, set[int]] = {name: set() for name in SUBSCRIBERS}
        self._acknowledged = dict.fromkeys(SUBSCRIBERS, 0)
        self.failures: list[str] = []
        self.repeated = 0
        receiver.answer = self._take

    def _take(self, request: Any) -> int:
        return 500 if self._random.random() < 0.05 else 204

    def begin(self) -> None:
        """Create the subscriptions and their rules."""
        self._connect = self._service.start()
        client = self._connect()
        client.call("create")
        for name in SUBSCRIBERS:
            tags = [] if name == "a" else [name]
            client.call("put", name=name, tags=tags, window=50)
        client.call("put", name="hook", tags=["hook"], webhook=self._receiver.url, window=1000)
        for id, rule in RULES.items():
            client.call("rule", id=id, **rule)
        client.close()

    def run_round(self, number: int) -> None:
        """Load the service, kill it, and start it again."""
        work = [
            *(lambda client, n=n: self._publish(client, number, n) for n in range(PUBLISHERS)),
            *(lambda client, name=name: self._receive(client, name, None) for name in SUBSCRIBERS),
            lambda client: self._add_rules(client, number),
        ]
        threads = [threading.Thread(target=self._guard, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        # Wherever it is when it has done a little: in a write, a wait for the disk, an answer.
        wanted = self._count_published() + self._random.randrange(60)
        end = time.monotonic() + _LONGEST_ROUND
        while self._count_published() < wanted and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(self._random.uniform(0, 0.02))
        self._service.kill()
        for thread in threads:
            thread.join()
        self._connect = self._service.start()

    def _count_published(self) -> int:
        return sum(map(len, self._published))

    def _guard(self, work: Callable[[Any], None]) -> None:
        """Work with a connection of its own until the service is killed."""
        try:
            with closing(self._connect()) as client:
                work(client)
        except (ConnectionError, OSError):
            return
        except BaseException as error:
            self.failures.append(f"{type(error).__name__}: {error}")

    def _publish(self, client: Any, number: int, publisher: int) -> None:
        rnd = random.Random(number * 100 + publisher)
        known, unknown = self._published[publisher], self._unknown[publisher]
        count = 0
        while True:
            if not unknown:
                count += 1
                event = {"kind": rnd.choice("abc"), "n": count, "key": rnd.randrange(10_000)}
                unknown.append({"event": event, "message_id": f"{number}-{publisher}-{count}"})
            known[unknown[0]["message_id"]] = client.call("publish", **unknown[0])
            unknown.pop(0)

    def _add_rules(self, client: Any, number: int) -> None:
        for count in range(10_000):
            id = f"extra {number} {count}"
            client.call("rule", id=id, rule=f"n = {count} AND kind = 'none'")
            self.rules.append(id)

    def _receive(self, client: Any, name: str, rounds: int | None) -> None:
        """Read and acknowledge messages, so many times or for ever."""
        received, after = self._received[name], None
        rnd = random.Random(len(received))
        for _ in itertools.count() if rounds is None else range(rounds):
            found = client.call("read", subscription=name, after=after, limit=20, wait=0.2)
            for sequence, _ in found:
                if sequence <= self._acknowledged[name]:
                    self.failures.append(f"{name} got {sequence} again, and had acknowledged it")
                if after is not None and sequence <= after:
                    self.failures.append(f"{name} got {sequence} after {after}")
                self.repeated += sequence in received
                received.add(sequence)
                after = sequence
            if found and rnd.random() < 0.7:
                upto = client.call("acknowledge", subscription=name, sequence=after)
                self._acknowledged[name] = max(self._acknowledged[name], upto)
            elif not found and after is not None:
                client.call("acknowledge", subscription=name, sequence=after)
                self._acknowledged[name] = after
                if rounds is not None:
                    return

    def finish(self) -> None:
        """Publish what is left, receive what is left, and end the service."""
        client = self._connect()
        for known, unknown in zip(self._published, self._unknown, strict=True):
            for one in unknown:
                known[one["message_id"]] = client.call("publish", **one)
        for name in SUBSCRIBERS:
            while client.call("read", subscription=name, limit=1):
                self._receive(client, name, 1_000)
        client.close()
        end = time.monotonic() + 120
        while len(set(self._receiver.taken)) < self._count_published():
            assert time.monotonic() < end, "the webhook has not got all messages"
            time.sleep(0.05)
        self._service.kill()

    def compare(self, folder: Path, kills: int) -> dict[str, int]:
        """Compare what everyone has seen with what is there; returns some figures."""
        known = {id: sequence for one in self._published for id, sequence in one.items()}
        with Collection.open(folder, webhooks=False) as c:
            records = list(c.log.read())
            for id in [*RULES, *self.rules]:
                self._expect(id in c.matcher, f"the rule {id!r} is lost")
        ids = Counter(record.message_id for record in records)
        self._expect(max(ids.values()) == 1, "a message id is in the log twice")
        found = {record.message_id: record.sequence for record in records}
        for id, sequence in known.items():
            self._expect(found.get(id) == sequence, f"message {id} is not event {sequence}")
        self._expect(len(found) == len(known), "the log has messages that no one sent")
        reached: dict[str, set[int]] = {name: set() for name in (*SUBSCRIBERS, "hook")}
        seen: set[int] = set()
        for record in records:
            event = record.event
            expected = {"hook"}
            expected |= {"a": {"a", "b"}, "b": {"b"}}.get(event["kind"], set())
            expected |= {"again"} if event["key"] in seen else set()
            seen.add(event["key"])
            actual = {match.subscription for match in record.matches}
            self._expect(actual == expected, f"event {record.sequence} reached {actual}")
            for name in expected:
                reached[name].add(record.sequence)
        for name in SUBSCRIBERS:
            self._expect(self._received[name] == reached[name], f"{name} has not got the right")
        taken = Counter(self._receiver.taken)
        wanted = {f"hook.{sequence}" for sequence in reached["hook"]}
        self._expect(set(taken) == wanted, "the receiver has not taken the right messages")
        twice = sum(taken.values()) - len(taken)
        self._expect(twice <= kills + 1, f"{twice} messages were taken twice in {kills} kills")
        return {
            "kills": kills,
            "events": len(records),
            "rules": len(self.rules),
            "messages": sum(map(len, self._received.values())) + len(taken),
            "received again": self.repeated,
            "taken twice": twice,
        }

    def _expect(self, holds: bool, message: str) -> None:
        if not holds:
            self.failures.append(message)


def run(kills: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Kill a service so many times; returns figures, and what was wrong."""
    with TemporaryDirectory(prefix="kills-") as name, run_receiver() as receiver:
        service = Service(Path(name))
        try:
            campaign = Campaign(service, receiver, seed)
            campaign.begin()
            for number in range(kills):
                campaign.run_round(number)
                if campaign.failures:
                    break
            campaign.finish()
        finally:
            service.close()
        figures = campaign.compare(Path(name) / COLLECTION, kills)
        return figures, campaign.failures


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures, failures = run(options.kills, options.seed)
    sys.stdout.write(json.dumps(figures) + "\n")
    for failure in failures[:20]:
        sys.stderr.write(f"{failure}\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
