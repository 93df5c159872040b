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
from websockets.exceptions import InvalidStatus

import tamis
from tamis.client import Client, RequestError
from tamis.errors import GoneError
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


# --- Positions in an earlier collection of the name ---


def remake(served: Served, path: str, events: int) -> None:
    """Remove a collection, make it again, and publish events in it."""
    served.http.delete(path)
    prepare(served, path)
    for x in range(1, events + 1):
        served.http.post(f"{path}/publish", json={"event": {"x": x}})


def read_id(served: Served, path: str, query: str, **headers: str) -> tuple[int, str]:
    """The status of a stream, and the id of its first event."""
    place = f"{path}/{query}"
    with served.http.stream("GET", place, headers=headers) as answer:
        if answer.status_code != 200:
            return answer.status_code, answer.read().decode()
        lines = answer.iter_lines()
        return 200, next(line for line in lines if line.startswith("id: "))[4:]


def test_stream_does_not_resume_in_a_later_collection_of_the_name(
    served: Served, name: str
) -> None:
    path = f"/{name}"
    remake(served, path, 3)
    subscribed = "stream?subscription=ann"
    several = f"{subscribed}&subscription=bob"
    served.http.put(f"{path}/subscriptions/bob", json={"rules": ["r"]})
    ids = [read_id(served, path, query) for query in (subscribed, several)]
    changed = read_id(served, path, "changes?after=0", accept="text/event-stream")
    assert [status for status, _ in (*ids, changed)] == [200, 200, 200]
    remake(served, path, 5)
    served.http.put(f"{path}/subscriptions/bob", json={"rules": ["r"]})
    for query, (_, id) in zip((subscribed, several), ids, strict=True):
        headers = {"last-event-id": id}
        assert read_id(served, path, query, **headers)[0] == 410
        place = f"{served.url}/v1/collections{path}/{query}".replace("stream?", "socket?")
        with pytest.raises(InvalidStatus) as refused:
            websockets.connect(place.replace("http", "ws"), additional_headers=headers)
        assert refused.value.response.status_code == 410
    headers = {"last-event-id": changed[1], "accept": "text/event-stream"}
    assert read_id(served, path, "changes", **headers)[0] == 410
    # A number alone may be one of the collection that was there before.
    assert read_id(served, path, subscribed, **{"last-event-id": "1"})[0] == 410
    status, id = read_id(served, path, subscribed)
    assert status == 200
    assert read_id(served, path, subscribed, **{"last-event-id": id})[1].endswith(":2")


def test_pages_do_not_go_on_in_a_later_collection_of_the_name(served: Served, name: str) -> None:
    path = f"/{name}"
    remake(served, path, 3)
    served.http.put(f"{path}/rules/r2", json={"rule": "x > 1"})
    places = ("changes?after=0", "log?limit=2", "rules?limit=1", "subscriptions/ann/deliveries")
    pages = [served.http.get(f"{path}/{place}").json() for place in places]
    cursors = {
        "changes": pages[0]["cursor"],
        "log": pages[1]["cursor"],
        "rules": pages[2]["next"],
        "subscriptions/ann/deliveries": pages[3]["deliveries"][0]["cursor"],
    }
    for place, cursor in cursors.items():
        assert served.http.get(f"{path}/{place}", params={"after": cursor}).status_code == 200
    remake(served, path, 5)
    for place, cursor in cursors.items():
        answer = served.http.get(f"{path}/{place}", params={"after": cursor})
        assert answer.status_code == 410, place
        if place != "rules":
            bare = cursor.rpartition(":")[2]
            answer = served.http.get(f"{path}/{place}", params={"after": bare})
            assert answer.status_code == 410, place
            assert served.http.get(f"{path}/{place}", params={"after": 0}).status_code == 200
    ack = served.http.post(
        f"{path}/subscriptions/ann/ack",
        json={"sequence": cursors["subscriptions/ann/deliveries"]},
    )
    assert ack.status_code == 410
    assert served.http.get(f"{path}/subscriptions/ann").json()["acknowledged"] == 0


def test_revision_of_an_earlier_collection_replaces_no_rules(served: Served, name: str) -> None:
    path = f"/{name}"
    prepare(served, path)
    old = served.http.get(path).headers["etag"]
    remake(served, path, 0)
    new = served.http.get(path).headers["etag"]
    assert old.rpartition(":")[2] == new.rpartition(":")[2]
    for etag, status in ((old, 412), ('"1"', 412), (new, 200)):
        headers = {"if-match": etag, "content-type": "application/jsonl"}
        answer = served.http.put(f"{path}/rules", content=b"", headers=headers)
        assert answer.status_code == status
    assert (
        served.http.get(f"{path}/export").headers["etag"] == served.http.get(path).headers["etag"]
    )


def test_numbers_alone_count_where_no_other_collection_had_the_name(
    served: Served, name: str
) -> None:
    path = f"/{name}"
    prepare(served, path)
    served.http.post(f"{path}/publish", json={"event": {"x": 1}})
    for place in ("changes?after=1", "log?after=1", "subscriptions/ann/deliveries?after=1"):
        assert served.http.get(f"{path}/{place}").status_code == 200
    served.http.post(f"{path}/publish", json={"event": {"x": 2}})
    status, id = read_id(served, path, "stream?subscription=ann", **{"last-event-id": "1"})
    assert (status, id.rpartition(":")[2]) == (200, "2")
    headers = {"if-match": '"1"', "content-type": "application/jsonl"}
    assert served.http.put(f"{path}/rules", content=b"", headers=headers).status_code == 200


def test_client_that_resumes_learns_that_the_collection_is_another_one(
    served: Served, name: str
) -> None:
    path = f"/{name}"
    remake(served, path, 2)
    with Client(served.url, name) as client:
        version = client.info().version
        changes = client.changes(0)
        messages = client.subscribe("ann")
        last = next(messages)
        assert client.read("ann", after=last.cursor)[0].sequence == 2
        assert client.acknowledge("ann", last.cursor) == 1
        remake(served, path, 4)
        with pytest.raises(GoneError):
            list(messages)
        for call in (
            lambda: client.changes(changes.cursor),
            lambda: client.changes(version),
            lambda: client.read("ann", after=last.cursor),
            lambda: client.acknowledge("ann", last.cursor),
            lambda: client.read_log(last.cursor),
        ):
            with pytest.raises(GoneError):
                call()
        with pytest.raises(RequestError, match="revision"):
            client.replace_all({}, revision=version)
        assert client.replace_all({}, revision=client.info().version).added == 0


def test_ids_of_messages_are_those_of_one_collection(served: Served, name: str) -> None:
    path = f"/{name}"
    ids = set()
    for _ in range(2):
        remake(served, path, 1)
        (found,) = served.http.get(f"{path}/subscriptions/ann/deliveries").json()["deliveries"]
        ids.add(found["id"])
    assert len(ids) == 2


def test_identity_stays_on_followers_and_after_restarts(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as leader,
        serving(tmp_path, read_only=True, follow_seconds=0.02) as follower,
    ):
        path = "/c"
        remake(leader, path, 3)
        _, id = read_id(leader, path, "stream?subscription=ann")
        wait_until(lambda: follower.http.get(f"{path}/log").json().get("latest") == 3)
        headers = {"last-event-id": id}
        assert read_id(follower, path, "stream?subscription=ann", **headers)[1].endswith(":2")
        etag = leader.http.get(path).headers["etag"]
        assert follower.http.get(path).headers["etag"] == etag
        with follower.http.stream("GET", f"{path}/stream?subscription=ann") as answer:
            remake(leader, path, 4)
            answer.read()  # It ends.
        wait_until(lambda: follower.http.get(f"{path}/log").json().get("latest") == 4)
        assert read_id(follower, path, "stream?subscription=ann", **headers)[0] == 410
        etag = leader.http.get(path).headers["etag"]
    with serving(tmp_path) as again:
        assert again.http.get(path).headers["etag"] == etag
        assert read_id(again, path, "stream?subscription=ann", **headers)[0] == 410


def test_rules_are_saved_where_a_collection_has_an_odd_name(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "x.aside-0123456789abcdef") as opened:
        opened.add("r", "x = 1")
    with tamis.open(tmp_path / "x"):
        pass
    with tamis.open(tmp_path / "x.aside-0123456789abcdef", read_only=True) as opened:
        assert opened.match({"x": 1}) == ["r"]
