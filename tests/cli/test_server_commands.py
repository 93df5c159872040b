"""`tamis publish`, `tamis subscribe` and `tamis play` with a real server."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from tamis.cli import app
from tests.server.servers import Served, serving
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_events_are_published_and_received(served: Served, tmp_path: Path) -> None:
    served.make("shop", {"cheap": "price < 25"})
    collection = served.server.catalog.find("shop").pubsub
    collection.subscriptions.put("ann", rules=["cheap"])
    events = [{"nr": n, "price": 10 * n} for n in range(1, 5)]
    file = write_lines(tmp_path / "events.jsonl", events)
    arguments = ("publish", "shop", str(file), "--url", served.url, "--message-id", "nr")
    printed = call(*arguments)
    assert [json.loads(line)["sequence"] for line in printed.splitlines()] == [1, 2, 3, 4]
    # Published again under the same message ids, they count once.
    assert call(*arguments) == printed
    assert collection.log.latest == 4
    received = call("subscribe", "shop", "ann", "--url", served.url, "--count", "2")
    assert [json.loads(line)["event"]["nr"] for line in received.splitlines()] == [1, 2]
    assert collection.subscriptions.state("ann").acknowledged == 2


def test_an_event_without_its_message_id_is_refused(served: Served, tmp_path: Path) -> None:
    served.make("other")
    file = write_lines(tmp_path / "events.jsonl", [{"price": 1}])
    call("publish", "other", str(file), "--url", served.url, "--message-id", "nr", code=2)
    assert served.server.catalog.find("other").pubsub.log.latest == 0


def test_play_shows_files_and_changes_nothing(tmp_path: Path) -> None:
    rules = write_lines(
        tmp_path / "rules.jsonl",
        [{"id": "cheap", "rule": "price < 25"}, {"id": "broken", "rule": "price <"}],
    )
    events = write_lines(tmp_path / "events.jsonl", [{"price": n} for n in range(20, 30)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tamis", "play", str(rules), str(events), "--no-open"]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            wait_for(http, process)
            assert "Tamis" in http.get("/").text
            base = "/v1/collections/files"
            tried = http.post(f"{base}/try", json={"event": {"price": 3}}).json()
            assert [rule["id"] for rule in tried["rules"]] == ["cheap"]
            tested = http.post(f"{base}/backtest", json={"rule": "price >= 25"}).json()
            assert (tested["events"], tested["rules"][0]["matches"]) == (10, 5)
            refused = http.put(f"{base}/rules/new", json={"rule": "x = 1"})
            assert refused.status_code in (403, 405, 409)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    assert "broken" in errors


def wait_for(http: httpx2.Client, process: subprocess.Popen[str]) -> None:
    """Wait until the page is there; it may have kernels to compile before."""

    def is_there() -> bool:
        assert process.poll() is None, "the command has ended"
        try:
            return http.get("/health").status_code == 200
        except httpx2.TransportError:
            return False

    wait_until(is_there, 600)
