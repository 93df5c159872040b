"""Deliveries: one row a subscription and event, limited by capacity; their sinks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from standardwebhooks.webhooks import Webhook as Verifier

import tamis
from tamis import spark as ts
from tamis.pubsub import Webhook
from tests.pubsub.receivers import run_receiver
from tests.server.servers import serving
from tests.spark.indexes import publish_rules

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of this test alone
LOCAL = ("127.0.0.0/8",)


def test_messages_are_the_most_useful_of_each_subscriber(spark: SparkSession) -> None:
    random = Random(4)
    matches = [
        (event, f"r{rule}", random.choice([0.5, 1.0, 2.0]))
        for event in range(12)
        for rule in range(6)
        if random.random() < 0.5
    ]
    owned = [  # name, owner, rules, priority, capacity
        ("a", "ann", ["r0", "r1"], 5, 4),
        ("b", "ann", ["r1", "r2"], 1, 6),
        ("c", "carl", ["r3", "r4", "no such"], None, None),
        ("d", "dan", ["r5"], 3, 0),
    ]
    found = ts.deliveries(
        spark.createDataFrame(matches, "event long, rule string, score double"),
        spark.createDataFrame(
            owned,
            "subscription string, owner string, rules array<string>, priority int, capacity int",
        ),
        subscriber="owner",
    )
    assert found.columns == ["subscription", "event", "rules", "score", "priority", "rank"]
    expected = []
    for name, owner, rules, priority, _ in owned:
        for event in range(12):
            mine = {rule: score for e, rule, score in matches if e == event and rule in rules}
            if mine:
                utility = (-(priority or 0), -max(mine.values()), event, name)
                expected.append((utility, owner, sorted(mine)))
    expected.sort()
    ranks: Counter[str] = Counter()
    rows = []
    for (priority, score, event, name), owner, rules in expected:
        ranks[owner] += 1
        if ranks[owner] <= {"ann": 4, "dan": 0}.get(owner, 100):
            rows.append((name, event, rules, -score, -priority, ranks[owner]))
    assert [tuple(row) for row in found.collect()] == rows


def test_a_row_for_each_rule_and_no_scores(spark: SparkSession) -> None:
    matches = spark.createDataFrame([(1, 7), (1, 8), (2, 8)], "id long, rule long")
    owned = spark.createDataFrame([("s", 7), ("s", 8), ("t", 8)], "subscription string, rule long")
    found = {(r["subscription"], r["id"]): r for r in ts.deliveries(matches, owned).collect()}
    assert {key: row["rules"] for key, row in found.items()} == {
        ("s", 1): [7, 8],
        ("s", 2): [8],
        ("t", 1): [8],
        ("t", 2): [8],
    }
    assert found["s", 1]["score"] == 0.0
    with pytest.raises(tamis.EventError, match="no column 'rule'"):
        ts.deliveries(matches.drop("rule"), owned)
    with pytest.raises(tamis.EventError, match="subscriptions has no column 'subscription'"):
        ts.deliveries(matches, owned.drop("subscription"))
    with pytest.raises(tamis.EventError, match="already have a column 'rank'"):
        ts.deliveries(matches.withColumnRenamed("id", "rank"), owned, keys="rank")


def make_deliveries(spark: SparkSession) -> Any:
    matches = spark.createDataFrame([(1, "a"), (2, "a"), (2, "b")], "id long, rule string")
    owned = spark.createDataFrame(
        [("ann", "a"), ("bob", "b"), ("nobody", "a")], "subscription string, rule string"
    )
    events = spark.createDataFrame([(1, 10), (2, 20)], "id long, price int")
    made = ts.deliveries(matches, owned).join(events, "id")
    return made.selectExpr("* EXCEPT (price)", "struct(id, price) AS event")


def test_webhooks_get_signed_messages_with_the_same_ids_again(spark: SparkSession) -> None:
    with run_receiver() as receiver:
        sink = ts.send_to_webhooks(
            {name: Webhook(f"{receiver.url}/{name}", SECRET) for name in ("ann", "bob")},
            event="event",
            allowed_networks=LOCAL,
        )
        sink(make_deliveries(spark), 0)
        first = Counter(request.headers["webhook-id"] for request in receiver.requests)
        sink(make_deliveries(spark), 0)
        again = Counter(request.headers["webhook-id"] for request in receiver.requests)
        assert again == first + first
        assert set(first.values()) == {1}
        messages = []
        for request in receiver.requests[:3]:
            body: Any = Verifier(SECRET).verify(request.body.decode(), request.headers)
            assert body["type"] == "event.matched"
            data = body["data"]
            assert request.path == f"/{data['subscription']}"
            messages.append((data["subscription"], data["rules"], data["event"]))
    assert sorted(messages, key=repr) == [
        ("ann", ["a"], {"id": 1, "price": 10}),
        ("ann", ["a"], {"id": 2, "price": 20}),
        ("bob", ["b"], {"id": 2, "price": 20}),
    ]


def test_messages_that_are_not_taken_fail_the_batch_or_become_dead_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    with run_receiver() as receiver:
        receiver.answer = lambda request: 500 if request.path == "/ann" else 204
        webhooks = {name: Webhook(f"{receiver.url}/{name}", SECRET) for name in ("ann", "bob")}
        options: dict[str, Any] = {"allowed_networks": LOCAL, "delays": (0.01,), "event": "event"}
        with pytest.raises((PySparkException, tamis.TamisError), match="status 500"):
            ts.send_to_webhooks(webhooks, **options)(make_deliveries(spark), 3)
        receiver.requests.clear()
        sink = ts.send_to_webhooks(webhooks, dead_letters=tmp_path / "dead", **options)
        for _ in range(2):
            sink(make_deliveries(spark), 3)
        assert Counter(request.path for request in receiver.requests) == {"/ann": 8, "/bob": 2}
    dead = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert {(row["subscription"], row["reason"], row["batch_id"]) for row in dead} == {
        ("ann", "status 500", 3)
    }
    assert sorted(json.loads(row["message"])["data"]["message_id"] for row in dead) == [
        '{"id":1}',
        '{"id":2}',
    ]
    private = ts.send_to_webhooks(
        webhooks, dead_letters=tmp_path / "private", delays=(), event="event"
    )
    private(make_deliveries(spark), 0)
    reasons = {row["reason"] for row in spark.read.parquet(str(tmp_path / "private")).collect()}
    assert any("private address" in reason for reason in reasons)


def test_a_server_publishes_each_event_once(spark: SparkSession, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("cheap", "price < 15")])
    events = spark.createDataFrame([(n, 10 * n) for n in range(4)], "id long, price int")
    chosen = ts.match(events, tmp_path / "index").join(events, "id")
    with serving(tmp_path / "served") as served:
        served.make("offers", {"free": "price = 0"})
        sink = ts.send_to_server(served.url, "offers", keys="id", event="event")
        batch = chosen.selectExpr("id", "to_json(struct(id, price)) AS event")
        for number in range(2):
            sink(batch, number)
        log = served.http.get("/offers/log").json()
        assert sorted(entry["event"]["price"] for entry in log["events"]) == [0, 10]


def test_what_cannot_be_sent_is_refused(spark: SparkSession) -> None:
    with pytest.raises(tamis.EventError, match="no column 'payload'"):
        ts.send_to_webhooks({}, event="payload")(make_deliveries(spark), 0)
    with pytest.raises(tamis.EventError, match="which columns identify"):
        ts.send_to_webhooks({}, event="event")(make_deliveries(spark).drop("id"), 0)
