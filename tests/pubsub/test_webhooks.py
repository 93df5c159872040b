"""Webhooks to receivers that take messages, fail, hang, redirect, or are where they must not be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tamis.errors import SubscriptionError
from tamis.pubsub import Collection, Webhook, WebhookSettings
from tamis.pubsub.webhooks.addresses import AddressPolicy, RefusedAddressError
from tests.pubsub.receivers import Receiver, run_receiver, run_silent
from tests.waiting import wait_until

LOCAL = ("127.0.0.0/8",)


def open_collection(path: Path, **settings: Any) -> Collection:
    settings = {"allowed_networks": LOCAL, "delays": (0.01, 0.01), "seconds": 0.5, **settings}
    c = Collection.open(path, sync=False, webhooks=WebhookSettings(**settings))
    if "all" not in c.matcher:
        c.matcher.add("all", "TRUE")
    return c


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


def test_messages_are_signed_and_sent_in_order(tmp_path: Path, receiver: Receiver) -> None:
    with open_collection(tmp_path / "c") as c:
        made = c.subscriptions.put("s", rules=["all"], webhook=receiver.url + "/in?x=1")
        assert made.webhook is not None
        c.publish_many([{"n": n} for n in range(20)], message_ids=[f"m{n}" for n in range(20)])
        wait_until(lambda: len(receiver.taken) == 20)
        assert receiver.taken == [f"s.{n}" for n in range(1, 21)]
        for request in receiver.requests:
            Verifier(made.webhook.secret).verify(request.body, request.headers)
        first = receiver.requests[0]
        assert first.path == "/in?x=1"
        assert json.loads(first.body)["data"] == {
            "subscription": "s",
            "sequence": 1,
            "message_id": "m0",
            "rules": ["all"],
            "score": 0.0,
            "event": {"n": 0},
        }
        wait_until(lambda: c.subscriptions.state("s").acknowledged == 20)
        assert made.webhook.secret not in repr(made)


def test_a_message_that_is_not_taken_is_tried_again_and_later_ones_go_on(
    tmp_path: Path, receiver: Receiver
) -> None:
    failures = {"s.2": 2}

    def answer(request: Any) -> int:
        id = request.message
        if failures.get(id, 0):
            failures[id] -= 1
            return 500
        return 200

    receiver.answer = answer
    with open_collection(tmp_path / "c") as c:
        c.subscriptions.put("s", rules=["all"], webhook=receiver.url)
        c.publish_many([{"n": n} for n in range(4)])
        wait_until(lambda: len(receiver.taken) == 4)
        assert sorted(receiver.taken) == ["s.1", "s.2", "s.3", "s.4"]
        tried = [r.message for r in receiver.requests]
        assert tried.count("s.2") == 3
        wait_until(lambda: not c.subscriptions.state("s").retries)
        assert c.webhooks is not None
        assert c.webhooks.dead_letters("s") == []


def test_dead_letters_have_a_reason_and_can_be_replayed(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answer = lambda _: 503
    path = tmp_path / "c"
    with open_collection(path, delays=(0.01,)) as c:
        assert c.webhooks is not None
        c.subscriptions.put("s", rules=["all"], webhook=receiver.url)
        c.publish_many([{"n": 1}, {"n": 2}])
        wait_until(lambda: len(c.webhooks.dead_letters("s")) == 2)  # type: ignore[union-attr]
    with open_collection(path) as c:
        assert c.webhooks is not None
        letters = c.webhooks.dead_letters("s")
        assert [(letter.sequence, letter.attempts, letter.reason) for letter in letters] == [
            (1, 2, "status 503"),
            (2, 2, "status 503"),
        ]
        assert len(receiver.requests) == 4
        receiver.answer = lambda _: 200
        with pytest.raises(SubscriptionError, match="not the number"):
            c.webhooks.replay("s", [1, 7])
        assert c.webhooks.replay("s", [2]) == 1
        wait_until(lambda: receiver.taken == ["s.2"])
        assert c.webhooks.replay("s") == 1
        wait_until(lambda: receiver.taken == ["s.2", "s.1"])
        assert c.webhooks.dead_letters("s") == []


@pytest.mark.parametrize(
    ("answer", "reason"), [(302, "redirects"), (307, "redirects"), (404, "status 404")]
)
def test_redirects_and_errors_are_failures(
    tmp_path: Path, receiver: Receiver, answer: int, reason: str
) -> None:
    receiver.answer = lambda _: answer
    with open_collection(tmp_path / "c", delays=()) as c:
        c.subscriptions.put("s", rules=["all"], webhook=receiver.url)
        c.publish({"n": 1})
        wait_until(lambda: bool(c.subscriptions.state("s").dead))
        letter = c.subscriptions.state("s").dead[1]
        assert reason in letter.reason
        assert "secret" not in letter.reason
        assert [r.path for r in receiver.requests] == ["/"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/", "private"),
        ("http://localhost:1/", "private"),
        ("http://[::1]:1/", "private"),
        ("http://2130706433:1/", "private"),
        ("http://0x7f.1:1/", "private"),
        ("http://169.254.169.254/latest", "private"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://no-such-host.invalid/", "cannot be resolved"),
    ],
)
def test_private_addresses_are_refused(tmp_path: Path, url: str, reason: str) -> None:
    with open_collection(tmp_path / "c", delays=(), allowed_networks=()) as c:
        c.subscriptions.put("s", rules=["all"], webhook=url)
        c.publish({"n": 1})
        wait_until(lambda: bool(c.subscriptions.state("s").dead))
        assert reason in c.subscriptions.state("s").dead[1].reason


def test_every_address_of_a_name_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(policy: AddressPolicy, *addresses: str) -> list[str]:
        async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
            return [(2, 1, 6, "", (address, 80)) for address in addresses]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        return list(await policy.resolve("example.com", 80))

    open_policy = AddressPolicy()
    assert asyncio.run(resolve(open_policy, "93.184.216.34")) == ["93.184.216.34"]
    for private in (
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "255.255.255.255",
    ):
        with pytest.raises(RefusedAddressError, match="private"):
            asyncio.run(resolve(open_policy, "93.184.216.34", private))
    assert asyncio.run(resolve(AddressPolicy(["10.0.0.0/8"]), "10.0.0.1")) == ["10.0.0.1"]


def test_a_receiver_that_hangs_slows_no_other(tmp_path: Path, receiver: Receiver) -> None:
    with run_silent() as silent, open_collection(tmp_path / "c", seconds=20) as c:
        for n in range(5):
            c.subscriptions.put(f"stuck{n}", rules=["all"], webhook=silent)
        c.subscriptions.put("s", rules=["all"], webhook=receiver.url)
        c.publish_many([{"n": n} for n in range(10)])
        wait_until(lambda: len(receiver.taken) == 10)
        assert all(c.subscriptions.state(f"stuck{n}").acknowledged == 0 for n in range(5))


def test_a_receiver_that_hangs_has_a_time_limit(tmp_path: Path) -> None:
    with run_silent() as silent, open_collection(tmp_path / "c", seconds=0.1, delays=()) as c:
        c.subscriptions.put("s", rules=["all"], webhook=silent)
        c.publish({"n": 1})
        wait_until(lambda: bool(c.subscriptions.state("s").dead))
        assert c.subscriptions.state("s").dead[1].reason == "no answer within 0.1 seconds"


def test_an_answer_that_is_not_http_is_a_failure(tmp_path: Path) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n" + b"x" * 100_000)

        threading.Thread(target=answer, daemon=True).start()
        with open_collection(tmp_path / "c", delays=()) as c:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            c.subscriptions.put("s", rules=["all"], webhook=url)
            c.publish({"n": 1})
            wait_until(lambda: bool(c.subscriptions.state("s").dead))
            assert c.subscriptions.state("s").dead[1].reason == "the answer is not HTTP"


def test_higher_priority_then_higher_score_are_sent_first(
    tmp_path: Path, receiver: Receiver
) -> None:
    with open_collection(tmp_path / "c", connections=1) as c:
        c.matcher.add("weighty", "n >= 1", weights={"n >= 1": 3.0})
        assert c.webhooks is not None
        c.subscriptions.put("low", rules=["all"])
        c.subscriptions.put("score", rules=["weighty"])
        c.subscriptions.put("urgent", rules=["all"], priority=5)
        c.publish_many([{"n": 1}, {"n": 2}])
        c.close()
    with open_collection(tmp_path / "c", connections=1) as c:
        sending = c.webhooks
        assert sending is not None
        wake, sending.wake = sending.wake, lambda names: None  # type: ignore[method-assign]
        for name, priority in (("low", 0), ("score", 0), ("urgent", 5)):
            rules = ["weighty"] if name == "score" else ["all"]
            c.subscriptions.put(name, rules=rules, priority=priority, webhook=receiver.url)
        wake(["low", "score", "urgent"])
        sending.wake = wake  # type: ignore[method-assign]
        wait_until(lambda: len(receiver.taken) == 6)
        expected = [f"{name}.{n}" for name in ("urgent", "score", "low") for n in (1, 2)]
        assert receiver.taken == expected


def test_a_restart_sends_what_was_not_taken(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answer = lambda _: 500
    path = tmp_path / "c"
    with open_collection(path, delays=(0.05,) * 50) as c:
        c.subscriptions.put("s", rules=["all"], webhook=receiver.url)
        c.publish_many([{"n": n} for n in range(3)])
        wait_until(lambda: len(receiver.requests) > 1)
    receiver.answer = lambda _: 200
    with open_collection(path) as c:
        wait_until(lambda: sorted(set(receiver.taken)) == ["s.1", "s.2", "s.3"])
        wait_until(lambda: not c.subscriptions.state("s").retries)


def test_a_secret_stays_unless_another_is_given(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", sync=False, webhooks=False) as c:
        first = c.subscriptions.put("s", webhook="https://example.com/a").webhook
        assert first is not None
        assert c.subscriptions.put("s", webhook="https://example.com/a").webhook == first
        other = "whsec_" + "QUFB" * 8
        given = Webhook("https://example.com/a", other)
        assert c.subscriptions.put("s", webhook=given).webhook == given
        moved = c.subscriptions.put("s", webhook="https://example.com/b").webhook
        assert moved is not None
        assert moved.secret not in (other, first.secret)
