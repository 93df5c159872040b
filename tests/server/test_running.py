"""A running server: followers, many subscribers, a full disk, restarts, limits, shutdown."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

import tamis
from tamis.client import Client
from tamis.pubsub import Collection
from tamis.server.settings import ServerLimits
from tests.server.servers import JSON_LINES, Served, serving
from tests.waiting import wait_until


def test_a_follower_stays_current_and_refuses_writes(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as leader,
        serving(tmp_path, read_only=True, follow_seconds=0.05) as follower,
    ):
        path = leader.make("c", {"r1": "x = 1"})
        wait_until(lambda: follower.http.get(path).status_code == 200)
        leader.http.put(f"{path}/rules/r2", json={"rule": "x = 1"})
        leader.http.put(f"{path}/subscriptions/ann", json={"rules": ["r1"]})
        leader.http.post(f"{path}/publish", json={"event": {"x": 1}})
        question = {"event": {"x": 1}}

        def is_current() -> bool:
            answer = follower.http.post(f"{path}/match", json=question)
            return bool(answer.json() == {"rules": ["r1", "r2"]})

        wait_until(is_current)
        assert follower.http.get(path).headers["etag"] == leader.http.get(path).headers["etag"]
        wait_until(lambda: follower.http.get(f"{path}/log").json()["latest"] == 1)
        changes = follower.http.get(f"{path}/changes", params={"after": 1}).json()["changes"]
        assert changes[-1]["revision"] == 2
        for method, rest in (("PUT", "/rules/r3"), ("POST", "/publish"), ("DELETE", "")):
            answer = follower.http.request(method, f"{path}{rest}", json={"rule": "x = 1"})
            assert (answer.status_code, answer.json()["title"]) == (403, "Read only")
        leader.http.delete(path)
        wait_until(lambda: follower.http.get(path).status_code == 404)


def test_200_subscribers_and_a_stuck_one(tmp_path: Path) -> None:
    """Each gets all its messages in order, although one reads nothing."""
    count, events = 200, 30
    with serving(tmp_path) as served:
        path = served.make("c", {"r1": "x >= 0"})
        subscriptions = served.server.catalog.find("c").pubsub.subscriptions
        for number in range(count):
            subscriptions.put(f"s{number}", rules=["r1"])
        stuck = socket.create_connection(("127.0.0.1", served.runner.port))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        stuck.sendall(
            f"GET /v1/collections{path}/stream?subscription=s0 HTTP/1.1\r\n"
            "Host: localhost\r\n\r\n".encode()
        )
        received: dict[int, list[int]] = {number: [] for number in range(1, count)}
        reading = threading.Thread(target=receive_all, args=(served, path, received, events))
        reading.start()
        with Client(served.url, "c") as client:
            wait_until(lambda: b"200 OK" in stuck.recv(1024))
            for x in range(events):
                # Long enough that the socket of the stuck one fills.
                client.publish({"x": x, "text": "a" * 20_000})
        reading.join(60)
        assert not reading.is_alive()
        assert all(found == list(range(events)) for found in received.values())
        stuck.close()


def receive_all(served: Served, path: str, received: dict[int, list[int]], events: int) -> None:
    import asyncio

    from tamis.client import AsyncClient

    async def follow(client: AsyncClient, number: int) -> None:
        async for message in client.subscribe(f"s{number}"):
            received[number].append(message.event["x"])
            if len(received[number]) == events:
                return

    async def follow_all() -> None:
        async with AsyncClient(served.url, path[1:]) as client:
            await asyncio.gather(*(follow(client, number) for number in received))

    asyncio.run(follow_all())


def test_a_full_disk_gets_507_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_full = os.write, False

    def write_if_there_is_room(fd: int, data: Any) -> int:
        if is_full and os.fstat(fd).st_nlink and _is_below(fd, tmp_path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(os, "write", write_if_there_is_room)
    with serving(tmp_path, sync=True) as served:
        path = served.make("c", {"r1": "x > 0"})
        served.http.put(f"{path}/subscriptions/ann", json={"rules": ["r1"]})
        assert served.http.post(f"{path}/publish", json={"event": {"x": 1}}).status_code == 200
        is_full = True
        publish = {"event": {"x": 2}, "message_id": "m2"}
        lines = b'{"id": "r3", "rule": "x = 1"}\n'
        for answer in (
            served.http.put(f"{path}/rules/r2", json={"rule": "x = 2"}),
            served.http.post(f"{path}/rules", content=lines, headers=JSON_LINES),
            served.http.delete(f"{path}/rules/r1"),
            served.http.post(f"{path}/publish", json=publish),
            served.http.put(f"{path}/subscriptions/bob", json={"rules": ["r1"]}),
        ):
            assert (answer.status_code, answer.json()["title"]) == (507, "Disk full"), answer.text
        # Questions go on.
        assert served.http.post(f"{path}/match", json={"event": {"x": 2}}).json() == {
            "rules": ["r1"]
        }
        is_full = False
        assert served.http.post(f"{path}/publish", json=publish).json()["sequence"] == 2
        assert served.http.put(f"{path}/rules/r2", json={"rule": "x = 2"}).status_code == 201
    with Collection.open(tmp_path / "c") as reopened:
        assert list(reopened.matcher) == ["r1", "r2"]
        assert [one.event["x"] for one in reopened.read("ann")] == [1, 2]


def _is_below(fd: int, folder: Path) -> bool:
    return str(Path(f"/proc/self/fd/{fd}").readlink()).startswith(str(folder))


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    ended = threading.Event()
    with serving(tmp_path) as served:
        path = served.make("c", {"r1": "x > 0"})
        served.http.put(f"{path}/subscriptions/ann", json={"rules": ["r1"]})

        def follow() -> None:
            url = f"{served.url}/v1/collections{path}/stream?subscription=ann"
            with httpx2.stream("GET", url, timeout=30) as answer:
                for _ in answer.iter_lines():
                    started.set()
            ended.set()

        started = threading.Event()
        thread = threading.Thread(target=follow)
        thread.start()
        assert started.wait(60)
    thread.join(60)
    assert ended.is_set()
    assert '"message":"stopped"' in served.access_log()


def test_collections_are_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.make("c", {"r1": "x = 1"})
        revision = first.http.get("/c").headers["etag"]
    with serving(tmp_path) as second:
        assert second.http.get("/c").headers["etag"] == revision
        listed = second.http.get(f"{second.url}/v1/collections").json()["collections"]
        assert [one["name"] for one in listed] == ["c"]


def test_collections_are_created_and_dropped(served: Served, name: str) -> None:
    path = served.make(name)
    assert served.http.put(path, json={}).status_code == 409
    assert served.http.put("/bad!name", json={}).status_code == 422
    bad_schema = served.http.put(f"{path}2", json={"schema": {"x": "nonsense"}})
    assert bad_schema.status_code == 422
    assert served.http.get(f"{path}2").status_code == 404
    assert served.http.put(f"{path}2", json={"schema": {"x": "double"}}).status_code == 201
    assert served.http.delete(path).status_code == 204
    assert served.http.get(path).status_code == 404
    assert served.http.put(path, json={}).status_code == 201


def test_too_much_work_gets_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ServerLimits(work=1, streams=1, request=0.5)
    with serving(tmp_path, limits=limits) as served:
        path = served.make("c", {"r1": "x = 1"})
        matcher = served.server.catalog.find("c").matcher
        hold = threading.Event()

        def lint(**_: Any) -> list[Any]:
            assert hold.wait(20)
            return []

        monkeypatch.setattr(matcher, "lint", lint)
        slow = served.http.post(f"{path}/lint")
        assert (slow.status_code, slow.json()["limit"]) == (504, 0.5)
        refused = served.http.post(f"{path}/lint")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        # Short questions need no thread.
        assert served.http.post(f"{path}/match", json={"event": {"x": 1}}).status_code == 200
        hold.set()
        wait_until(lambda: served.http.post(f"{path}/lint").status_code == 200)


def test_slow_searches_move_to_threads(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        path = served.make("c", {"r1": "x = 1"})
        collection = served.server.catalog.find("c")
        for _ in range(200):
            collection.note_time(0.1)
        assert collection.is_slow
        for _ in range(100):
            answer = served.http.post(f"{path}/match", json={"event": {"x": 1}})
            assert answer.json() == {"rules": ["r1"]}
        assert not collection.is_slow


def test_metrics_health_and_the_log(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x = 1"})
    served.http.post(f"{path}/match", json={"event": {}})
    served.http.get(f"{path}/nothing")
    text = served.http.get(f"{served.url}/metrics").text
    assert f'tamis_rules{{collection="{name}"}} 1.0' in text
    assert 'route="/v1/collections/{collection}/match",status="200"' in text
    assert served.http.get(f"{served.url}/health").json()["version"] == tamis.__version__
    wait_until(lambda: served.http.get(f"{served.url}/ready").status_code == 200)
    lines = [msgspec.json.decode(line) for line in served.access_log().splitlines()]
    asked = [line for line in lines if line.get("route", "").endswith("/match")]
    assert asked[-1]["collection"] == name
    assert asked[-1]["status"] == 200


def test_a_backtest_over_the_log(served: Served, name: str) -> None:
    path = served.make(name, {"cheap": "price < 20"})
    for price in (5, 15, 25, 35):
        served.http.post(f"{path}/publish", json={"event": {"price": price}})
    asked = served.http.post(f"{path}/backtest", json={"rule": "price < 30", "id": "cheap"})
    report = asked.json()
    assert asked.status_code == 200, asked.text
    assert (report["events"], report["rules"][0]["gained"], report["rules"][0]["lost"]) == (4, 1, 0)
    given = {"rule": "price > 1", "events": [{"price": 1}, {"price": 2}]}
    assert served.http.post(f"{path}/backtest", json=given).json()["rules"][0]["matches"] == 1


def test_dead_letters_over_http(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x = 1"})
    webhook = {"url": "https://127.0.0.1:9/private"}
    served.http.put(f"{path}/subscriptions/ann", json={"rules": ["r1"], "webhook": webhook})
    listed = served.http.get(f"{path}/subscriptions/ann/dead-letters")
    assert listed.json() == {"dead_letters": []}
    assert served.http.get(f"{path}/subscriptions/bob/dead-letters").status_code == 404
    replay = served.http.post(f"{path}/subscriptions/ann/replay", json={})
    assert replay.json() == {"replayed": 0}
    unknown = served.http.post(f"{path}/subscriptions/ann/replay", json={"sequences": [1]})
    assert unknown.status_code == 422
