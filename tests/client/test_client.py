"""The clients give the answers of a matcher, retry, and resume."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import tamis
from tamis.client import AsyncClient, Client, RequestError
from tamis.client import calls as described
from tamis.client.connection import Settings
from tamis.client.retries import may_retry
from tests.server.servers import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Client]:
    name = str(request.node.name).replace("[", "-").replace("]", "")
    with Client(served.url, name) as made:
        made.create()
        yield made


def test_it_has_the_methods_of_a_matcher(client: Client) -> None:
    m = tamis.Matcher()
    for target in (m, client):
        target.add("cheap", "price < 25", weights={"price < 25": 0.5}, tags=["t"], priority=2)
        target.add(7, "country = 'FR'", weights={("country", "FR"): 2.0}, payload={"a": [1]})
        target.add_many({"b": "name LIKE 'a%'"}, on_error="raise")
    event = {"price": 20, "country": "FR"}
    assert client.match(event) == m.match(event)
    assert client.match(event, only=tamis.tagged("t")) == ["cheap"]
    assert client.match(event, only=[7]) == [7]
    assert client.first(event) == m.first(event)
    assert client.top(event, weights={("country", "FR"): 0.1}) == m.top(
        event, weights={("country", "FR"): 0.1}
    )
    assert client.count(event) == 2
    assert client.match_expression("name = 'ab'") == m.match_expression("name = 'ab'")
    assert client.explain("cheap", event).text == str(m.explain("cheap", event))
    assert list(client.why(event)) == list(m.why(event))
    assert client.why_not("b", event).text == str(m.why_not("b", event))
    assert client.rule(7).payload == {"a": [1]}
    assert len(client) == len(m)
    assert client.revision == m.revision
    assert client.stats()["rules"] == 3
    assert client.similar("price < 20")[0].rule == "cheap"
    assert client.lint() == []
    assert client.ratify(seconds=0.1).differences == []
    client.remove(7)
    assert client.remove_many(["b"]) == 1
    assert [rule.id for rule in client.list_rules().rules] == ["cheap"]


@pytest.mark.parametrize("is_table", [True, False])
def test_batches_are_tables(client: Client, is_table: bool) -> None:
    client.add("cheap", "price < 25", weights={"price < 25": 0.5})
    m = tamis.Matcher()
    m.add("cheap", "price < 25", weights={"price < 25": 0.5})
    rows = [{"price": 20}, {"price": 99}, {"price": 1}]
    events: Any = pa.Table.from_pylist(rows) if is_table else rows
    assert client.match_many(events).equals(m.match_many(events))
    assert client.count_many(events).equals(m.count_many(events))
    assert client.top_many(events, n=1).equals(m.top_many(events, n=1))
    assert client.match_many(events, only=["cheap"], form="lists").num_rows == 3


def test_rules_go_from_one_collection_to_another(client: Client, served: Served) -> None:
    client.add("a", "x = 1", tags=["t"], payload={"p": 1}, weights={("x", 1): 2.0})
    with Client(served.url, "copy") as copy:
        copy.create()
        assert copy.replace_all(client.export()).added == 1
        assert copy.rule("a") == client.rule("a")
        with pytest.raises(RequestError, match="revision"):
            copy.replace_all({}, revision=0)


def test_errors_are_those_of_a_matcher(client: Client, served: Served) -> None:
    client.add("a", "x = 1")
    with pytest.raises(tamis.DuplicateRuleError):
        client.add("a", "x = 2")
    with pytest.raises(tamis.RuleError) as caught:
        client.add("b", "x = = 1")
    assert caught.value.position == 4
    with pytest.raises(tamis.UnknownRuleError):
        client.rule("zz")
    with pytest.raises(tamis.UnknownSubscriptionError):
        client.read("nobody")
    with pytest.raises(tamis.RuleError):
        client.add_many({"c": "x ="})
    assert client.add_many({"c": "x ="}, on_error="skip").refused == 1
    with pytest.raises(RequestError) as failed, Client(served.url, "absent") as other:
        other.match({})
    assert failed.value.status == 404


@pytest.mark.parametrize(
    "id", ["..", ".", "", "a/b", "../..", "%2E", "%", "ü/\u0667", "a?b#c", "7", "007", 7, -(2**63)]
)
def test_client_reaches_the_rule_with_just_this_id(served: Served, id: str | int) -> None:
    others: list[str | int] = [one for one in ("", "7", 7, "seven") if one != id]
    with Client(served.url, "ids") as client:
        client.drop() if "ids" in [one.name for one in client.collections()] else None
        client.create()
        client.add_many([{"id": one, "rule": "x = 0"} for one in others])
        client.add(id, "x = 1")
        assert (client.rule(id).id, client.rule(id).rule) == (id, "x = 1")
        client.add(id, "x = 2", replace=True)
        assert client.match({"x": 2}) == [id]
        client.remove(id)
        assert [one.id for one in client.list_rules().rules] == others
        with pytest.raises(tamis.UnknownRuleError):
            client.remove(id)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "%2E"])
def test_client_with_a_strange_name_drops_nothing(served: Served, name: str) -> None:
    before = {one.name for one in served.server.catalog.list()}
    with Client(served.url, name) as client, pytest.raises(RequestError) as caught:
        client.drop()
    assert caught.value.status in (404, 405)
    assert {one.name for one in served.server.catalog.list()} == before


def test_client_refuses_what_is_no_id(client: Client) -> None:
    for bad in ("\ud800", 7.0, True, 2**63):
        with pytest.raises(tamis.RuleError):
            client.remove(bad)  # type: ignore[arg-type]  # what it refuses
    with pytest.raises(RequestError, match="surrogate"):
        client.read("\ud800")


def test_publish_and_receive(client: Client) -> None:
    client.add("r", "x > 0")
    client.put_subscription("ann", rules=["r"], attributes={"tier": 2})
    published = client.publish({"x": 1}, audience="tier >= 2")
    assert (published.sequence, published.deliveries[0].subscription) == (1, "ann")
    client.publish_many([{"x": 2}, {"x": 3}])
    messages = client.subscribe("ann")
    assert [next(messages).event["x"] for _ in range(3)] == [1, 2, 3]
    messages.close()  # type: ignore[attr-defined]  # it is a generator
    assert client.acknowledge("ann", 2) == 2
    assert [one.sequence for one in client.read("ann")] == [3]
    assert client.subscription("ann").acknowledged == 2
    assert [one.sequence for one in client.read_log().events] == [1, 2, 3]
    assert [change.ids for change in client.changes(0).changes] == [["r"]]
    client.delete_subscription("ann")
    assert client.subscriptions() == []


def test_the_same_for_coroutines(client: Client, served: Served) -> None:
    client.add("r", "x > 0")
    client.put_subscription("ann", rules=["r"])

    async def use() -> list[int]:
        async with AsyncClient(served.url, client.collection) as c:
            assert await c.match({"x": 1}) == ["r"]
            assert await c.revision() == 1
            with pytest.raises(tamis.UnknownRuleError):
                await c.rule("zz")
            await asyncio.gather(*(c.publish({"x": n}) for n in (1, 2)))
            found = []
            async for message in c.subscribe("ann"):
                found.append(message.event["x"])
                if len(found) == 2:
                    return found
        raise AssertionError

    assert sorted(asyncio.run(use())) == [1, 2]


def test_both_clients_have_every_call() -> None:
    names = {
        name
        for name, value in vars(described).items()
        if inspect.isfunction(value)
        and value.__module__ == described.__name__
        and not name.startswith("_")
        and name not in ("document", "list_collections", "make_path")
    }
    for kind in (Client, AsyncClient):
        assert names <= vars(kind).keys()
        assert list(inspect.signature(kind.match).parameters) == ["self", "event", "only", "at"]
        assert kind.match.__doc__


def test_a_subscription_survives_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "d") as first:
        port = first.runner.port
        client = Client(first.url, "c")
        client.create()
        client.add("r", "x > 0")
        client.put_subscription("ann", rules=["r"])
        client.publish({"x": 1})
        messages = client.subscribe("ann")
        assert next(messages).event["x"] == 1
    with serving(tmp_path / "d", port=port):
        client.publish({"x": 2})
        # Neither lost nor repeated.
        assert next(messages).event["x"] == 2
    client.close()


def test_what_may_be_sent_again() -> None:
    question = described.match("c", {})
    removal = described.remove("c", "r")
    assert may_retry(question, None, was_sent=True)
    assert may_retry(removal, None, was_sent=False)
    assert not may_retry(removal, None, was_sent=True)
    assert may_retry(removal, 503, was_sent=True)
    assert not may_retry(removal, 502, was_sent=True)
    assert not may_retry(question, 404, was_sent=True)
    assert described.publish("c", {}).body != described.publish("c", {}).body


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[httpx2.Response | Exception] = [
        httpx2.Response(503, headers={"retry-after": "0"}),
        httpx2.ConnectError("refused"),
        httpx2.Response(200, content=b'{"rules":["r"]}'),
    ]

    def answer(request: httpx2.Request) -> httpx2.Response:
        next_one = answers.pop(0)
        if isinstance(next_one, Exception):
            raise next_one
        return next_one

    client = Client("http://nowhere", "c")
    client._http = httpx2.Client(base_url="http://x", transport=httpx2.MockTransport(answer))
    assert client.match({}) == ["r"]
    assert answers == []


def test_no_server_is_an_error_that_names_it() -> None:
    with (
        Client("http://127.0.0.1:9", "c", retries=0) as client,
        pytest.raises(RequestError, match=r"127\.0\.0\.1:9"),
    ):
        client.match({})


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_KEY", "tamis_x")
    assert Client("http://x", "c")._http.headers["authorization"] == "Bearer tamis_x"


def test_client_asks_for_answers_that_are_not_compressed() -> None:
    """What reads them knows only the first member of gzip."""
    options = Settings("http://localhost", None, 1.0, 0).for_http()
    assert options["headers"]["accept-encoding"] == "identity"
