"""A real server on a real socket, in a thread of the tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2

from tamis.server.run import Runner, make_runner
from tamis.server.settings import ServerSettings

JSON_LINES = {"content-type": "application/jsonl"}
ARROW_MEDIA = "application/vnd.apache.arrow.stream"


class Served:
    """A server that runs, and a client for it."""

    def __init__(self, runner: Runner, log: StringIO) -> None:
        self.runner = runner
        self.server = runner.tamis
        self.log = log
        self.url = f"http://127.0.0.1:{runner.port}"
        self.http = httpx2.Client(base_url=f"{self.url}/v1/collections", timeout=30)

    def make(self, name: str, rules: dict[Any, Any] | None = None) -> str:
        """Create a collection with these rules, and return its path."""
        made = self.http.put(f"/{name}", json={})
        assert made.status_code == 201, made.text
        if rules:
            self.server.catalog.find(name).matcher.add_many(rules)
        return f"/{name}"

    def access_log(self) -> str:
        """What was logged."""
        self.server.log.flush()
        return self.log.getvalue()


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Served]:
    """Run a server on a free port."""
    settings = {"port": 0, "sync": False, **settings}
    runner = make_runner(ServerSettings(folder=folder, **settings))
    log = StringIO()
    runner.tamis.log.redirect(log)
    runner.tamis.skips_warm_up = True
    thread = Thread(target=runner.run)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not runner.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert runner.started, log.getvalue()
        served = Served(runner, log)
        with served.http:
            yield served
    finally:
        runner.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
