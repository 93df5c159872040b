"""Publish and receive over HTTP: long poll, streams, WebSockets, acknowledgements."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest
import websockets.sync.client as websockets
from websockets.exceptions import InvalidStatus

from tests.server.servers import JSON_LINES, Served


def subscribe(served: Served, path: str, name: str = "ann", **body: Any) -> None:
    answer = served.http.put(f"{path}/subscriptions/{name}", json={"rules": ["r1"], **body})
    assert answer.status_code == 201, answer.text


def publish(served: Served, path: str, event: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = httpx2.post(
        f"{served.url}/v1/collections{path}/publish", json={"event": event, **more}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def read_stream(lines: Iterator[str]) -> dict[str, Any]:
    """The next message of a stream, with its id."""
    id = next(line for line in lines if line.startswith("id: "))[4:]
    data = next(line for line in lines if line.startswith("data: "))[6:]
    return {**msgspec.json.decode(data), "stream_id": id}


def test_from_publish_to_acknowledgement(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "price < 25"})
    subscribe(served, path)
    first = publish(served, path, {"price": 20, "title": "Emma"}, message_id="m1")
    assert (first["sequence"], first["duplicate"]) == (1, False)
    assert first["deliveries"] == [{"subscription": "ann", "rules": ["r1"], "score": 0.0}]
    again = publish(served, path, {"price": 20, "title": "Emma"}, message_id="m1")
    assert (again["sequence"], again["duplicate"]) == (1, True)
    publish(served, path, {"price": 99})
    read = served.http.get(f"{path}/subscriptions/ann/deliveries").json()["deliveries"]
    assert [(one["sequence"], one["event"]["title"], one["id"]) for one in read] == [
        (1, "Emma", f"ann.1.{served.server.catalog.find(name).identity}")
    ]
    ack = served.http.post(f"{path}/subscriptions/ann/ack", json={"sequence": 1})
    assert ack.json() == {"acknowledged": 1}
    assert served.http.get(f"{path}/subscriptions/ann/deliveries").json() == {"deliveries": []}
    assert served.http.get(f"{path}/subscriptions/ann").json()["acknowledged"] == 1
    beyond = served.http.post(f"{path}/subscriptions/ann/ack", json={"sequence": 99})
    assert beyond.status_code == 422


def test_an_audience_chooses_subscriptions(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x = 1"})
    subscribe(served, path, "paris", attributes={"country": "FR", "tier": 2})
    subscribe(served, path, "ghent", attributes={"country": "BE", "tier": 2})
    reached = publish(served, path, {"x": 1}, audience="country = 'FR' AND tier >= 2")
    assert [one["subscription"] for one in reached["deliveries"]] == ["paris"]
    bad = served.http.post(f"{path}/publish", json={"event": {}, "audience": "country ="})
    assert bad.status_code == 422


def test_a_long_poll_waits_for_a_message(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x = 1"})
    subscribe(served, path)
    timer = threading.Timer(0.2, publish, (served, path, {"x": 1}))
    timer.start()
    read = served.http.get(f"{path}/subscriptions/ann/deliveries", params={"wait": 20}).json()
    timer.join()
    assert [one["sequence"] for one in read["deliveries"]] == [1]
    nothing = served.http.get(
        f"{path}/subscriptions/ann/deliveries", params={"wait": 0.05, "after": 1}
    )
    assert nothing.json() == {"deliveries": []}


def test_a_stream_resumes_after_the_last_event(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x > 0"})
    subscribe(served, path)
    for x in (1, 2):
        publish(served, path, {"x": x})
    query = {"subscription": "ann"}
    with served.http.stream("GET", f"{path}/stream", params=query) as answer:
        lines = answer.iter_lines()
        assert [read_stream(lines)["event"]["x"] for _ in range(2)] == [1, 2]
        publish(served, path, {"x": 3})
        assert read_stream(lines)["event"]["x"] == 3
    headers = {"last-event-id": "2"}
    with served.http.stream("GET", f"{path}/stream", params=query, headers=headers) as answer:
        assert read_stream(answer.iter_lines())["event"]["x"] == 3
    # Receipt is not acknowledgement: without the id all come again.
    with served.http.stream("GET", f"{path}/stream", params=query) as answer:
        assert read_stream(answer.iter_lines())["event"]["x"] == 1


def test_a_stream_ends_with_its_subscription(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x > 0"})
    subscribe(served, path)
    publish(served, path, {"x": 1})
    query = {"subscription": "ann"}
    with served.http.stream("GET", f"{path}/stream", params=query) as answer:
        lines = answer.iter_lines()
        assert read_stream(lines)["sequence"] == 1
        assert served.http.delete(f"{path}/subscriptions/ann").status_code == 204
        # A connection that breaks off would raise.
        assert not any(line.startswith("data") for line in lines)


def test_one_stream_for_many_subscriptions_takes_the_most_urgent_first(
    served: Served, name: str
) -> None:
    path = served.make(name, {"r1": "x > 0", "r2": "x > 1"})
    subscribe(served, path, "calm")
    subscribe(served, path, "urgent", rules=["r2"], priority=5)
    for x in (1, 2, 3):
        publish(served, path, {"x": x})
    query = {"subscription": ["calm", "urgent"]}
    with served.http.stream("GET", f"{path}/stream", params=query) as answer:
        lines = answer.iter_lines()
        found = [read_stream(lines) for _ in range(5)]
    order = [(one["subscription"], one["sequence"]) for one in found]
    assert order == [("urgent", 2), ("urgent", 3), ("calm", 1), ("calm", 2), ("calm", 3)]
    headers = {"last-event-id": found[3]["stream_id"]}
    with served.http.stream("GET", f"{path}/stream", params=query, headers=headers) as answer:
        last = read_stream(answer.iter_lines())
    assert (last["subscription"], last["sequence"]) == ("calm", 3)


def test_the_window_bounds_what_is_not_acknowledged(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x > 0"})
    subscribe(served, path, window=2)
    for x in (1, 2, 3):
        publish(served, path, {"x": x})
    with served.http.stream("GET", f"{path}/stream", params={"subscription": "ann"}) as answer:
        lines = answer.iter_lines()
        assert [read_stream(lines)["sequence"] for _ in range(2)] == [1, 2]
        acked = httpx2.post(
            f"{served.url}/v1/collections{path}/subscriptions/ann/ack", json={"sequence": 1}
        )
        assert acked.status_code == 200
        assert read_stream(lines)["sequence"] == 3


def test_a_stream_that_cannot_be_is_refused_before_it_begins(served: Served, name: str) -> None:
    path = served.make(name)
    unknown = served.http.get(f"{path}/stream", params={"subscription": "nobody"})
    assert unknown.status_code == 404
    assert served.http.get(f"{path}/stream").status_code == 422
    subscribe(served, path)
    headers = {"last-event-id": "never"}
    bad = served.http.get(f"{path}/stream", params={"subscription": "ann"}, headers=headers)
    assert bad.status_code == 422


def test_a_websocket_delivers_and_takes_acknowledgements(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x > 0"})
    subscribe(served, path, window=1)
    for x in (1, 2):
        publish(served, path, {"x": x})
    address = f"{served.url.replace('http', 'ws')}/v1/collections{path}/socket?subscription=ann"
    with websockets.connect(address) as socket:
        assert msgspec.json.decode(socket.recv(10))["sequence"] == 1
        socket.send('{"subscription": "ann", "sequence": 1}')
        assert msgspec.json.decode(socket.recv(10))["sequence"] == 2
        socket.send('{"subscription": "bob", "sequence": 1}')
        assert msgspec.json.decode(socket.recv(10))["problem"]["status"] == 422
    assert served.http.get(f"{path}/subscriptions/ann").json()["acknowledged"] == 1


def test_a_websocket_that_cannot_be_is_refused(served: Served, name: str) -> None:
    path = served.make(name)
    address = f"{served.url.replace('http', 'ws')}/v1/collections{path}"
    for rest, status in [("/socket?subscription=nobody", 404), ("/socket", 422), ("/other", 404)]:
        with pytest.raises(InvalidStatus) as caught:
            websockets.connect(address + rest)
        assert caught.value.response.status_code == status


def test_many_events_at_once(served: Served, name: str) -> None:
    path = served.make(name, {"r1": "x > 0"})
    subscribe(served, path)
    body = b'{"event": {"x": 1}, "message_id": "a"}\n{"event": {"x": 2}}\n'
    answer = served.http.post(f"{path}/publish-many", content=body, headers=JSON_LINES)
    assert answer.json() == {"published": 2, "refused": 0, "sequences": [1, 2]}
    again = served.http.post(f"{path}/publish-many", content=body[:39], headers=JSON_LINES)
    assert again.json()["sequences"] == [1]
    log = served.http.get(f"{path}/log").json()
    assert [one["event"]["x"] for one in log["events"]] == [1, 2]
    assert (log["earliest"], log["latest"]) == (1, 2)
    bad = served.http.post(f"{path}/publish-many", content=b'{"x": 1}\n', headers=JSON_LINES)
    assert bad.status_code == 422


def test_a_rule_may_belong_to_a_subscription(served: Served, name: str) -> None:
    path = served.make(name)
    put = served.http.put(f"{path}/rules/r9", json={"rule": "x = 9", "subscription": "ann"})
    assert put.json()["subscription"] == "ann"
    subscribe(served, path, rules=[])
    reached = publish(served, path, {"x": 9})
    assert reached["deliveries"][0]["rules"] == ["r9"]


def test_subscriptions_are_listed_replaced_and_deleted(served: Served, name: str) -> None:
    path = served.make(name)
    subscribe(served, path, "b", owner="me")
    subscribe(served, path, "a", webhook={"url": "https://example.com/hook"})
    listed = served.http.get(f"{path}/subscriptions").json()["subscriptions"]
    assert [one["name"] for one in listed] == ["a", "b"]
    assert all(one["secret"] is None for one in listed)
    mine = served.http.get(f"{path}/subscriptions", params={"owner": "me"}).json()
    assert [one["name"] for one in mine["subscriptions"]] == ["b"]
    put = served.http.put(
        f"{path}/subscriptions/a", json={"webhook": {"url": "https://example.com/hook"}}
    )
    assert put.status_code == 200
    assert put.json()["secret"].startswith("whsec_")
    assert served.http.delete(f"{path}/subscriptions/a").status_code == 204
    assert served.http.delete(f"{path}/subscriptions/a").status_code == 404
