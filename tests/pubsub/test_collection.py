"""A collection: publish, read, acknowledge, and what a restart finds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tamis import EventError, LockedError, StorageError, TamisError
from tamis.errors import GoneError, SubscriptionError, UnknownSubscriptionError
from tamis.pubsub import Collection, Delivery, LogRetention


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c"


@pytest.fixture
def c(path: Path) -> Iterator[Collection]:
    with Collection.open(path, sync=False) as collection:
        yield collection


def sequences(c: Collection, name: str, after: int | None = None, limit: int = 100) -> list[int]:
    return [delivery.sequence for delivery in c.read(name, after, limit=limit)]


def test_an_event_reaches_the_subscriptions_that_own_matching_rules(c: Collection) -> None:
    c.matcher.add("cheap", "price < 25", tags=["sale"], payload={"send": "mail"})
    c.matcher.add("dear", "price > 20")
    c.matcher.add("other", "price > 0")
    c.subscriptions.put("by tag".replace(" ", "-"), tags=["sale"])
    c.subscriptions.put("by-id", rules=["dear", "cheap"])
    c.subscriptions.put("nothing", rules=["unknown"])
    published = c.publish({"price": 22})
    assert {match.subscription: match.rules for match in published.deliveries} == {
        "by-tag": ("cheap",),
        "by-id": ("cheap", "dear"),
    }
    (delivery,) = c.read("by-tag", payloads=True)
    assert delivery.event == {"price": 22}
    assert delivery.payloads == {"cheap": {"send": "mail"}}
    assert delivery.id == f"by-tag.1.{c.identity}"
    assert c.read("nothing") == []


def test_rules_of_segments_and_of_the_tail_have_owners(c: Collection) -> None:
    c.matcher.add_many(
        {"id": n, "rule": f"x >= {n}", "tags": [f"t{n % 3}", "all"]} for n in range(100)
    )
    c.matcher.add(1000, "x >= 0", tags=["t1"])
    c.subscriptions.put("one", tags=["t1"], rules=[0])
    c.subscriptions.put("both", tags=["t1", "all"])
    found = {match.subscription: match.rules for match in c.publish({"x": 10}).deliveries}
    assert found["one"] == (0, 1, 4, 7, 10, 1000)
    assert found["both"] == (*range(11), 1000)


def test_a_rule_of_a_subscription_is_its_own_and_sees_what_that_received(
    c: Collection, path: Path
) -> None:
    c.subscriptions.put("ann")
    c.subscriptions.put("bob")
    c.matcher.add("large", "size > 10", subscription="ann")
    again = "user = ANY (SELECT d.user FROM received d)"
    c.matcher.add_many(
        {"id": f"again {name}", "rule": again, "subscription": name}
        for name in ["ann", "bob", *("x" * n for n in range(1, 30))]
    )
    c.publish({"user": "u", "size": 5})
    c.publish({"user": "u", "size": 20})
    c.publish({"user": "u", "size": 5})
    assert [d.rules for d in c.read("ann")] == [("large",), ("again ann",)]
    assert c.read("bob") == []
    c.close()
    with Collection.open(path) as restarted:
        published = restarted.publish({"user": "u", "size": 1})
        assert [match.rules for match in published.deliveries] == [("again ann",)]


def test_a_cursor_means_exclusively_after(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", rules=["all"])
    c.publish_many({"n": n} for n in range(5))
    assert sequences(c, "s") == [1, 2, 3, 4, 5]
    assert sequences(c, "s", 2) == [3, 4, 5]
    assert sequences(c, "s", 2, limit=1) == [3]
    assert sequences(c, "s", 5) == []
    assert c.acknowledge("s", 3) == 3
    assert c.acknowledge("s", 1) == 3
    assert sequences(c, "s") == [4, 5]
    assert sequences(c, "s", 0) == [1, 2, 3, 4, 5]


def test_the_window_bounds_what_is_not_acknowledged(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", rules=["all"], window=2)
    c.publish_many({"n": n} for n in range(5))
    assert sequences(c, "s") == [1, 2]
    assert sequences(c, "s", 2) == []
    c.acknowledge("s", 1)
    assert sequences(c, "s", 2) == [3]


def test_a_subscription_gets_events_from_its_creation_on(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", rules=["all"])
    c.publish({"n": 1})
    c.subscriptions.delete("s")
    c.subscriptions.put("s", rules=["all"])
    assert sequences(c, "s") == []
    c.publish({"n": 2})
    assert sequences(c, "s") == [2]
    c.subscriptions.put("s", rules=["all"], priority=3)
    assert sequences(c, "s") == [2]


def test_a_message_id_is_published_once(c: Collection, path: Path) -> None:
    first = c.publish({"n": 1}, message_id="a")
    again = c.publish({"n": 1}, message_id="a")
    assert (again.sequence, again.time, again.duplicate) == (first.sequence, first.time, True)
    twice = c.publish_many([{"n": 2}, {"n": 2}], message_ids=["b", "b"])
    assert [p and (p.sequence, p.duplicate) for p in twice] == [(2, False), (2, True)]
    c.close()
    with Collection.open(path, deduplicated_events=1) as restarted:
        assert restarted.publish({"n": 2}, message_id="b").duplicate
        assert not restarted.publish({"n": 1}, message_id="a").duplicate


def test_a_restart_finds_everything(c: Collection, path: Path) -> None:
    event = {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "price": Decimal("1.10"),
        "list": [1, 2.5, "x", None],
        "nested": {"deep": {"ok": True}},
    }
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", owner="ann", rules=["all"], attributes={"tier": 2})
    c.publish(event, message_id="m")
    c.publish({"n": 2})
    c.acknowledge("s", 1)
    c.close()
    with Collection.open(path) as restarted:
        assert restarted.subscriptions.get("s").owner == "ann"
        assert sequences(restarted, "s") == [2]
        (delivery,) = restarted.read("s", 0, limit=1)
        assert delivery.event == event
        assert delivery.message_id == "m"
        assert restarted.publish({"n": 3}).sequence == 3


def test_join_predicates_see_what_was_published(c: Collection, path: Path) -> None:
    c.matcher.add("low", "price < ALL (SELECT d.price FROM seen d)")
    c.subscriptions.put("s", rules=["low"])
    c.publish_many([{"price": price} for price in (30, 40, 20)])
    assert sequences(c, "s") == [1, 3]
    with pytest.raises(StorageError, match="come by its publish"):
        c.matcher.publish({"price": 1})
    c.close()
    with Collection.open(path) as restarted:
        assert restarted.publish({"price": 25}).deliveries == ()
        assert restarted.publish({"price": 5}).deliveries != ()
        assert len(restarted.matcher.documents) == 5


def test_a_rule_with_joins_added_later_sees_what_was_published_before(c: Collection) -> None:
    c.publish({"price": 10})
    c.matcher.add("again", "EXISTS (SELECT 1 FROM seen d WHERE d.price = price)")
    c.subscriptions.put("s", rules=["again"])
    assert c.matcher.match({"price": 10}) == ["again"]
    assert c.publish({"price": 11}).deliveries == ()
    assert c.publish({"price": 10}).deliveries != ()
    assert c.publish({"price": 11}).deliveries != ()


def test_a_document_id_replaces_a_document(c: Collection, path: Path) -> None:
    c.matcher.add("again", "EXISTS (SELECT 1 FROM seen d WHERE d.price = price)")
    c.publish({"price": 1}, id="offer")
    c.publish({"price": 2}, id="offer")
    assert c.matcher.match({"price": 1}) == []
    c.close()
    with Collection.open(path) as restarted:
        assert restarted.matcher.match({"price": 1}) == []
        assert restarted.matcher.match({"price": 2}) == ["again"]


def test_an_audience_is_a_condition_on_subscriptions(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("fr", rules=["all"], attributes={"country": "FR", "tier": 3})
    c.subscriptions.put("de", rules=["all"], attributes={"country": "DE", "tier": 3})
    c.subscriptions.put("low", rules=["all"], attributes={"country": "FR", "tier": 1})
    c.subscriptions.put("none", rules=["all"])

    def reached(audience: str, logic: str = "strong") -> set[str]:
        published = c.publish({"n": 1}, audience=audience, audience_logic=logic)
        return {match.subscription for match in published.deliveries}

    assert reached("country = 'FR' AND tier >= 2") == {"fr"}
    assert reached("country <> 'FR'") == {"de"}
    assert reached("country <> 'FR'", "weak") == {"de", "none"}
    c.subscriptions.put("de", rules=["all"], attributes={"country": "FR", "tier": 2})
    assert reached("country = 'FR' AND tier >= 2") == {"fr", "de"}
    for wrong in ("country =", "EXISTS (SELECT 1 FROM seen d)", 7):
        with pytest.raises(SubscriptionError):
            c.publish({"n": 1}, audience=wrong)  # type: ignore[arg-type]
    assert c.log.latest == 4


def test_higher_priority_then_higher_score_go_first(c: Collection) -> None:
    c.matcher.add("plain", "x = 1", tags=["low"])
    c.matcher.add("good", "x = 1", tags=["b"], weights={("x", 1): 2.0})
    c.matcher.add("better", "x IN (1, 2)", tags=["a"], weights={("x", 1): 1.0, ("x", 2): 5.0})
    c.subscriptions.put("urgent", tags=["low"], priority=9)
    c.subscriptions.put("a", tags=["a"])
    c.subscriptions.put("b", tags=["b"])
    c.publish({"x": 1})
    c.publish({"x": 2})
    c.publish({"x": 1})
    order = [(d.subscription, d.sequence) for d in c.read_any(["a", "b", "urgent"])]
    assert order == [("urgent", 1), ("urgent", 3), ("b", 1), ("b", 3), ("a", 1), ("a", 2), ("a", 3)]
    assert [d.subscription for d in c.read_any({"a": 1, "b": 1, "urgent": 3})] == ["a", "b", "a"]


def test_a_long_poll_ends_when_a_message_comes(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", rules=["all"])
    assert c.read("s", wait=0.01) == []
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(sequences_of(c.read("s", wait=30))))
    reader.start()
    c.publish({"n": 1})
    reader.join(30)
    assert found == [1]


def sequences_of(deliveries: list[Delivery]) -> list[int]:
    return [delivery.sequence for delivery in deliveries]


def test_coroutines_publish_and_read(c: Collection) -> None:
    c.matcher.add("all", "TRUE")
    c.subscriptions.put("s", rules=["all"])

    async def run() -> list[int]:
        reading = asyncio.create_task(c.read_async("s", wait=30))
        await asyncio.sleep(0.01)
        done = await asyncio.gather(*(c.publish_async({"n": n}) for n in range(20)))
        assert sorted(publication.sequence for publication in done) == list(range(1, 21))
        with pytest.raises(EventError):
            await c.publish_async([])  # type: ignore[arg-type]
        assert await c.read_async("s", 20, wait=0.01) == []
        return sequences_of(await reading)

    assert asyncio.run(run())[0] == 1


def test_many_threads_publish_in_one_order(c: Collection) -> None:
    c.matcher.add("even", "n IN (0, 2, 4)")
    c.subscriptions.put("s", rules=["even"], window=10_000)

    def publish(k: int) -> None:
        for n in range(50):
            c.publish({"n": n % 5, "k": k, "i": n}, message_id=f"{k}-{n}")

    threads = [threading.Thread(target=publish, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = list(c.log.read())
    assert [record.sequence for record in records] == list(range(1, 401))
    assert [r.time for r in records] == sorted(r.time for r in records)
    expected = [r.sequence for r in records if r.event["n"] in (0, 2, 4)]
    assert sequences(c, "s", limit=1000) == expected


def test_retention_removes_old_events_and_says_so(path: Path) -> None:
    now = [1_000.0]
    retention = LogRetention(age=None, bytes=20_000, clock=lambda: now[0])
    with Collection.open(path, sync=False, retention=retention, segment_bytes=4_000) as c:
        c.matcher.add("all", "n >= 0")
        c.matcher.add("never", "n < 0")
        c.matcher.add("seen", "EXISTS (SELECT 1 FROM seen d WHERE d.n = n)")
        for name, rule in (("behind", "all"), ("idle", "never"), ("done", "all")):
            c.subscriptions.put(name, rules=[rule])
        for n in range(600):
            c.publish({"n": n, "text": "x" * 40})
            if n == 300:
                c.acknowledge("done", 300)
        assert c._publisher is not None
        c._publisher._keep_up()
        earliest = c.log.earliest
        assert 300 < earliest < 600
        assert c.log.stored_bytes <= 24_000
        with pytest.raises(GoneError, match="acknowledge") as gone:
            c.read("behind")
        assert gone.value.earliest == earliest
        with pytest.raises(GoneError):
            c.read("done")
        assert c.read("idle") == []
        with pytest.raises(GoneError):
            list(c.log.read())
        c.acknowledge("behind", earliest - 1)
        assert sequences(c, "behind", limit=1) == [earliest]
        assert c.matcher.match({"n": earliest - 2}) == ["all"]
        assert c.matcher.match({"n": earliest}) == ["all", "seen"]
    with Collection.open(path, retention=retention) as c:
        assert c.log.earliest == earliest
        assert c.log.latest == 600
        assert c.matcher.match({"n": earliest - 2}) == ["all"]
        with pytest.raises(GoneError):
            c.read("done")


def test_events_past_their_age_are_removed(path: Path) -> None:
    import time

    later = [0.0]
    retention = LogRetention(age=60, clock=lambda: time.time() + later[0])
    with Collection.open(path, sync=False, retention=retention) as c:
        c.publish({"n": 1})
        assert c._publisher is not None
        c._publisher._keep_up()
        assert len(c.log) == 1
        later[0] = 61.0
        c._publisher._keep_up()
        assert (len(c.log), c.log.earliest, c.log.latest) == (0, 2, 1)
        assert c.publish({"n": 2}).sequence == 2


def test_a_reader_follows_a_writer(c: Collection, path: Path) -> None:
    c.matcher.add("all", "TRUE")
    with Collection.open(path, read_only=True) as reader:
        c.subscriptions.put("s", rules=["all"])
        c.matcher.add("again", "EXISTS (SELECT 1 FROM seen d WHERE d.n = n)")
        c.publish({"n": 1})
        assert reader.refresh()
        assert sequences(reader, "s") == [1]
        assert reader.matcher.match({"n": 1}) == ["all", "again"]
        c.publish({"n": 2})
        c.acknowledge("s", 1)
        assert reader.refresh()
        assert sequences(reader, "s") == [2]
        assert reader.matcher.match({"n": 2}) == ["all", "again"]
        for change in (
            lambda: reader.publish({"n": 3}),
            lambda: reader.subscriptions.put("t"),
            lambda: reader.acknowledge("s", 2),
        ):
            with pytest.raises(StorageError, match="read-only"):
                change()


def test_one_process_writes(c: Collection, path: Path) -> None:
    with pytest.raises(LockedError):
        Collection.open(path)
    c.close()
    for change in (lambda: c.publish({"n": 1}), lambda: c.subscriptions.put("t")):
        with pytest.raises(StorageError, match="closed"):
            change()
    Collection.open(path).close()


def test_a_collection_that_goes_out_of_use_releases_its_directory(path: Path) -> None:
    import gc

    forgotten = Collection.open(path, sync=False)
    forgotten.publish({"n": 1})
    del forgotten
    gc.collect()
    with Collection.open(path) as c:
        assert c.log.latest == 1


def test_rules_of_a_plain_directory_become_a_collection(path: Path) -> None:
    import tamis

    with tamis.open(path) as m:
        m.add("all", "TRUE")
    with Collection.open(path) as c:
        c.subscriptions.put("s", rules=["all"])
        assert c.publish({"n": 1}).deliveries
    with tamis.open(path) as m:
        m.publish({"n": 1})
    with pytest.raises(StorageError, match="remove documents-"):
        Collection.open(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "../x"},
        {"name": "a\nb"},
        {"name": "s", "priority": "high"},
        {"name": "s", "window": 0},
        {"name": "s", "rules": "abc"},
        {"name": "s", "rules": [1.5]},
        {"name": "s", "tags": "abc"},
        {"name": "s", "attributes": [1]},
        {"name": "s", "attributes": {"x": object()}},
        {"name": "s", "owner": 3},
        {"name": "s", "webhook": "ftp://example.com"},
        {"name": "s", "webhook": "http://user:pw@example.com"},
        {"name": "s", "webhook": "http://"},
        {"name": "s", "webhook": "http://example.com/\r\nx: y"},
        {"name": "s", "webhook": {"url": "http://example.com", "secret": "short"}},
        {"name": "s", "webhook": {"url": "http://example.com", "secret": "whsec_c2hvcnQ="}},
        {"name": "s", "webhook": 5},
    ],
)
def test_a_bad_subscription_is_refused(c: Collection, wrong: dict[str, Any]) -> None:
    with pytest.raises(TamisError):
        c.subscriptions.put(**wrong)
    assert len(c.subscriptions) == 0


def test_bad_requests_are_refused_and_change_nothing(c: Collection) -> None:
    c.subscriptions.put("s")
    for call in (
        lambda: c.publish(["text"]),  # type: ignore[arg-type]
        lambda: c.publish({"x": object()}),
        lambda: c.publish({"x": 2**70}),
        lambda: c.publish({"x": 1}, message_id=""),
        lambda: c.publish({"x": 1}, message_id=5),  # type: ignore[arg-type]
        lambda: c.publish_many([{"x": 1}, {"x": b"1"}]),
        lambda: c.publish_many([{"x": 1}], message_ids=["a", "b"]),
    ):
        with pytest.raises(EventError):
            call()
    for read in (
        lambda: c.read("s", -1),
        lambda: c.read("s", 1),
        lambda: c.read("s", limit=0),
        lambda: c.acknowledge("s", 1),
        lambda: c.acknowledge("s", -1),
    ):
        with pytest.raises(SubscriptionError):
            read()
    for unknown in (
        lambda: c.read("t"),
        lambda: c.acknowledge("t", 0),
        lambda: c.subscriptions.delete("t"),
        lambda: c.subscriptions.get("t"),
    ):
        with pytest.raises(UnknownSubscriptionError, match="no subscription 't'"):
            unknown()
    assert c.log.latest == 0
    results = c.publish_many([{"x": 1}, {"x": b"1"}, {"x": 3}], on_error="skip")
    assert [p and p.sequence for p in results] == [1, None, 2]
