"""Rates, latencies, lag and dead letters, as the page asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.pubsub import WebhookSettings
from tamis.server.latencies import Latencies
from tests.pubsub.receivers import run_receiver
from tests.server.servers import Served, serving
from tests.waiting import wait_until


def test_percentiles_and_rates_of_the_last_requests() -> None:
    latencies = Latencies()
    for number in range(100):
        latencies.note("match", (number + 1) / 1000, 1000.0 + number / 10)
    latencies.note("publish", 0.004, 1009.0)
    latencies.note("list_rules", 9.0, 1009.0)
    match, publish = latencies.summarize(1010.0)
    assert (match.kind, match.requests) == ("match", 100)
    assert match.per_second == pytest.approx(10, 0.1)
    assert (match.p50_ms, match.p95_ms, match.p99_ms) == pytest.approx((50.5, 95.05, 99.01))
    assert (publish.kind, publish.requests) == ("publish", 1)
    assert publish.p99_ms == pytest.approx(4)
    assert latencies.summarize(1400.0) == []


def test_a_rate_above_what_is_remembered() -> None:
    latencies = Latencies()
    for number in range(10_000):
        latencies.note("match", 0.001, 1000.0 + number / 5000)
    (match,) = latencies.summarize(1002.0)
    assert match.requests == 4096
    assert match.per_second == pytest.approx(5000, rel=0.01)


def test_lag_is_what_a_subscription_has_not_acknowledged(served: Served, name: str) -> None:
    path = served.make(name, {"even": "n % 2 = 0", "all": "TRUE"})
    pubsub = served.server.catalog.find(name).pubsub
    pubsub.subscriptions.put("half", rules=["even"], owner="ann")
    pubsub.subscriptions.put("whole", rules=["all"], priority=3)
    assert served.http.get(f"{path}/live").json()["lagging"][0]["oldest"] is None
    for n in range(10):
        assert served.http.post(f"{path}/publish", json={"event": {"n": n}}).status_code == 200
    pubsub.acknowledge("whole", 9)
    served.http.post(f"{path}/match", json={"event": {"n": 1}})
    found = served.http.get(f"{path}/live").json()
    assert (found["latest"], found["subscriptions"], found["dead"]) == (10, 2, 0)
    half, whole = found["lagging"]
    assert (half["name"], half["owner"], half["waiting"]) == ("half", "ann", 5)
    assert (whole["name"], whole["priority"], whole["waiting"]) == ("whole", 3, 1)
    assert half["oldest"] < whole["oldest"]
    kinds = {each["kind"]: each for each in found["latencies"]}
    assert kinds["publish"]["requests"] == 10
    assert kinds["match"]["requests"] == 1
    assert kinds["publish"]["per_second"] > 0
    for each in kinds.values():
        assert 0 < each["p50_ms"] <= each["p95_ms"] <= each["p99_ms"]


def test_dead_letters_of_all_subscriptions(tmp_path: Path) -> None:
    webhooks = WebhookSettings(allowed_networks=("127.0.0.0/8",), delays=(0.01,), seconds=2)
    with run_receiver() as receiver, serving(tmp_path, webhooks=webhooks) as served:
        receiver.answer = lambda _: 500
        path = served.make("c", {"all": "TRUE"})
        pubsub = served.server.catalog.find("c").pubsub
        pubsub.subscriptions.put("hook", rules=["all"], webhook=receiver.url)
        pubsub.publish({"n": 1})
        wait_until(lambda: bool(pubsub.subscriptions.state("hook").dead))
        found = served.http.get(f"{path}/live").json()
        assert found["dead"] == 1
        assert found["letters"][0]["subscription"] == "hook"
        assert found["letters"][0]["attempts"] == 2
        (hook,) = found["lagging"]
        assert (hook["dead"], hook["webhook"]) == (1, receiver.url)


def test_costs_are_measured_over_published_events(served: Served, name: str) -> None:
    path = served.make(name, {"plain": "n = 1", "text": "lower(t) LIKE '%a%b%'"})
    drawn = served.http.post(f"{path}/costs").json()
    assert drawn["source"] == "drawn"
    served.server.catalog.find(name).pubsub.publish_many(
        [{"n": n, "t": "x" * n} for n in range(30)]
    )
    found = served.http.post(f"{path}/costs").json()
    assert (found["source"], found["events"], found["measured"]) == ("log", 30, 2)
    assert found["microseconds"] > 0
    assert found["advice"]
