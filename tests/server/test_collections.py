"""Collections of a server: their names, how they are removed, and made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets.sync.client as websockets

import tamis
from tamis.pubsub import Collection
from tamis.server.keys import KEYS_FILE, KeyFile
from tests.server.servers import Served, serving
from tests.waiting import wait_until

# --- Names ---


@pytest.mark.parametrize("name", ["keys.json", "keys.new", "keys.lock", "MANIFEST", "log-00000001"])
def test_collection_of_any_name_leaves_keys_alone(tmp_path: Path, name: str) -> None:
    with serving(tmp_path, keys=False) as served:
        served.make(name, {"r": "x = 1"})
        key, token = KeyFile(tmp_path).create("", ["admin"])
        assert KeyFile(tmp_path).find(token) == key
        KeyFile(tmp_path).revoke(key.id)
        assert KeyFile(tmp_path).find(token) is None
    with serving(tmp_path, keys=False) as served:
        assert served.http.get(f"/{name}").json()["rules"] == 1


def test_keys_of_an_older_version_count_until_they_are_revoked(tmp_path: Path) -> None:
    key, token = KeyFile(tmp_path).create("", ["admin"])
    (tmp_path / KEYS_FILE).rename(tmp_path / "keys.json")
    server = KeyFile(tmp_path)
    assert server.find(token) == key
    other, _ = KeyFile(tmp_path).create("", ["read"])
    assert not (tmp_path / "keys.json").exists()
    assert {one.id for one in KeyFile(tmp_path).list()} == {key.id, other.id}
    KeyFile(tmp_path).revoke(key.id)
    wait_until(lambda: server.find(token) is None)


def test_name_of_an_unfinished_directory_is_refused(served: Served, name: str) -> None:
    for bad in ("x.aside-0123456789abcdef", ".x", "x/y", ".dropped-x", "..", "é", "x" * 101):
        quoted = bad.replace("/", "%2F").replace("..", "%2E%2E")
        assert served.http.put(f"/{quoted}", json={}).status_code in (404, 422), bad


def test_collection_with_the_name_of_an_unfinished_directory_stays(tmp_path: Path) -> None:
    name = "x.aside-0123456789abcdef"
    for folder in (name, "x"):
        with Collection.open(tmp_path / folder) as made:
            made.matcher.add("r", "x = 1")
    for _ in range(2):
        with serving(tmp_path) as served:
            assert served.http.get(f"/{name}").json()["rules"] == 1


# --- Removal ---


def test_collection_is_removed_after_a_removal_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as served:
        path = served.make("c", {"r": "x = 1"})
        with monkeypatch.context() as patch:
            # As if the process had ended here.
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            assert served.http.delete(path).status_code == 204
        served.make("c", {"r": "x = 1"})
        assert served.http.delete(path).status_code == 204
        assert served.http.get(path).status_code == 404
    with serving(tmp_path) as served:
        assert list(tmp_path.glob(".dropped-*")) == []
        assert served.server.catalog.list() == []


def test_collection_that_cannot_be_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as served:
        path = served.make("c", {"r": "x = 1"})
        rename = Path.rename

        def fail(self: Path, target: Any) -> Path:
            if self.name == "c":
                raise PermissionError(13, "Permission denied")
            return rename(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", fail)
            refused = served.http.delete(path)
        assert refused.status_code == 500
        assert str(tmp_path) not in refused.text
        assert served.http.put(f"{path}/rules/r2", json={"rule": "x = 1"}).status_code == 201
        assert served.http.post(f"{path}/match", json={"event": {"x": 1}}).json()["rules"]
        assert served.http.delete(path).status_code == 204


def prepare(served: Served, path: str) -> None:
    served.http.put(path, json={})
    served.http.put(f"{path}/rules/r", json={"rule": "x > 0"})
    served.http.put(f"{path}/subscriptions/ann", json={"rules": ["r"]})


@pytest.mark.parametrize("is_remade", [True, False])
def test_streams_of_a_removed_collection_end(served: Served, name: str, is_remade: bool) -> None:
    path = f"/{name}"
    prepare(served, path)
    with ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(base_url=str(served.http.base_url), timeout=20))

        def open_stream(place: str, **headers: str) -> Callable[[], str]:
            answer = client.stream("GET", f"{path}/{place}", headers=headers)
            return stack.enter_context(answer).read  # type: ignore[return-value]

        ends = [
            open_stream("stream?subscription=ann"),
            open_stream("changes", accept="text/event-stream"),
        ]
        place = f"{served.url}/v1/collections{path}/socket?subscription=ann"
        socket = stack.enter_context(websockets.connect(place.replace("http", "ws")))
        served.http.delete(path)
        if is_remade:
            prepare(served, path)
        for end in ends:
            end()
        assert json.loads(socket.recv(20))["problem"]["status"] == 404


def test_long_polls_of_a_removed_collection_end(served: Served, name: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = f"/{name}"
    prepare(served, path)
    pubsub = served.server.catalog.find(name).pubsub
    with ThreadPoolExecutor() as pool:
        places = ["subscriptions/ann/deliveries?wait=60", "changes?wait=60"]
        asked = [pool.submit(served.http.get, f"{path}/{place}") for place in places]
        wait_until(lambda: bool(pubsub._waiters._waiting))
        served.http.delete(path)
        assert [one.result(20).status_code for one in asked] == [404, 404]


def test_readers_that_wait_return_when_a_collection_is_closed(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    collection = Collection.open(tmp_path / "c")
    collection.subscriptions.put("ann")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(collection.read, "ann", wait=60)
        wait_until(lambda: bool(collection._waiters._waiting))
        collection.close()
        assert waiting.result(20) == []


def test_collection_that_was_removed_and_made_again_is_followed(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as leader,
        serving(tmp_path, read_only=True, follow_seconds=0.02) as follower,
    ):
        path = leader.make("c", {"r1": "x = 1"})
        leader.http.post(f"{path}/publish", json={"event": {"x": 1}})
        question = {"event": {"x": 1}}

        def answer() -> Any:
            return follower.http.post(f"{path}/match", json=question).json().get("rules")

        wait_until(lambda: answer() == ["r1"])
        for number in range(5):
            leader.http.delete(path)
            leader.make("c", {f"new{number}": "x = 1"})
            wait_until(lambda number=number: answer() == [f"new{number}"])  # type: ignore[misc]
            wait_until(lambda: follower.http.get(f"{path}/log").json().get("latest") == 0)


def test_rules_are_saved_where_a_collection_has_an_odd_name(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "x.aside-0123456789abcdef") as opened:
        opened.add("r", "x = 1")
    with tamis.open(tmp_path / "x"):
        pass
    with tamis.open(tmp_path / "x.aside-0123456789abcdef", read_only=True) as opened:
        assert opened.match({"x": 1}) == ["r"]
