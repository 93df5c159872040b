"""Aggregates over earlier documents, against DuckDB and against the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tamis
from tamis.expr.evaluate import add_joins, evaluate_flat, join_values
from tamis.expr.event import flatten
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Predicate, predicates
from tamis.joins import aggregate_tree, evaluate
from tamis.joins.aggregate_tree import AggregateTree
from tamis.joins.document_store import DocumentStore
from tests.joins import random_aggregates

RULES = 40
TYPES = {
    "u": pa.string(),
    "n": pa.int64(),
    "m": pa.int64(),
    "x": pa.float64(),
    "q": pa.decimal128(18, 2),
    "b": pa.bool_(),
    "t": pa.timestamp("us"),
}
START = datetime(2026, 1, 1, tzinfo=UTC)
FAILURES = (
    "action = 'failed' AND (SELECT COUNT(*) FROM seen d WHERE d.action = 'failed' "
    "AND d.user = user AND d.at > at - INTERVAL '5 minutes') >= 2"
)


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 1})
    yield connection
    connection.close()


@pytest.mark.parametrize("seed", range(4))
def test_aggregates_agree_with_duckdb(
    db: duckdb.DuckDBPyConnection, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(aggregate_tree, "_MOST", 4)  # trees of several levels
    if seed % 2:
        monkeypatch.setattr(evaluate, "_FEW", 0)
    spelled = [random_aggregates.rule(random) for _ in range(RULES)]
    rules = [tamis.parse(ours) for ours, _ in spelled]
    store = DocumentStore()
    documents: dict[Any, dict[str, Any]] = {}
    for _ in range(2):
        for _ in range(random.randrange(10, 30)):
            document = random_aggregates.document(random)
            documents[store.add(flatten(document))] = document
        for id in random.sample(sorted(documents), min(6, len(documents))):
            store.remove(id)
            del documents[id]
        events = [random_aggregates.document(random) for _ in range(12)]
        flat_documents = [flatten(document) for document in documents.values()]
        db.register("seen", _table(list(documents.values())))
        numbers = pa.array(range(len(events)))
        db.register("new", _table(events).append_column("place", numbers))
        for rule, (text, theirs) in zip(rules, spelled, strict=True):
            names = {p.attribute for p in predicates(rule)}
            answers = db.execute(f"SELECT ({theirs}) FROM new e ORDER BY place").fetchall()
            for event, (answer,) in zip(map(flatten, events), answers, strict=True):
                whole = add_joins(rule, event, flat_documents)
                assert evaluate_flat(rule, whole, "strong") is answer, (text, event, documents)
                found = store.evaluate_joins(names, event)
                assert {n: whole[n] for n in names if n in whole} == found, (text, event)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], kind) for name, kind in TYPES.items()}
    )


def test_random_rules_cover_the_whole_syntax() -> None:
    random = Random(0)
    texts = " ".join(random_aggregates.rule(random)[0] for _ in range(300))
    for part in ("COUNT(*)", "COUNT(DISTINCT d.", "COUNT(d.", "SUM(", "MIN(", "MAX(", "AVG(",
                 "NOT BETWEEN", "IS NULL", "INTERVAL", "t - d.t <", "d.m <> m"):  # fmt: skip
        assert part in texts


@pytest.mark.parametrize("seed", range(4))
def test_several_values_and_mixed_kinds_agree_with_the_reference(seed: int) -> None:
    random = Random(seed)
    functions = ["COUNT(*)", *(f"{f}d.v)" for f in
                 ("COUNT(", "COUNT(DISTINCT ", "SUM(", "MIN(", "MAX(", "AVG("))]  # fmt: skip
    conditions = ["", " WHERE d.k = k", " WHERE d.k = k AND d.t > t", " WHERE d.t <= t AND d.t > s",
                  " WHERE d.t > t - 2 AND d.j = j AND k > 1"]  # fmt: skip
    texts = [f"(SELECT {f} FROM seen d{c}) IS NULL" for f in functions for c in conditions]
    names = [_name(text) for text in texts]
    store, kept = DocumentStore(), {}
    for _ in range(60):
        flat = flatten(_mixed(random))
        kept[store.add(flat)] = flat
        if random.random() < 0.4:
            id = random.choice(list(kept))
            store.remove(id)
            del kept[id]
        event = flatten(_mixed(random))
        found = store.evaluate_joins(names, event)
        for name in names:
            assert join_values(join_named(name), event, kept.values()) == found.get(name), (
                name,
                event,
                kept,
            )


def _mixed(random: Random) -> dict[str, Any]:
    odd = [1, 2, 2.0, 2.5, True, "a", "b", Decimal("0.1"), Decimal("1e-30"), math.inf, 0.1, START]
    plain = [1, 2, 3, 4, 5]
    document: dict[str, Any] = {"v": random.choice(odd)}
    for name in "kjts":
        document[name] = random.choice(odd if random.random() < 0.1 else plain)
    for name in list(document):
        if random.random() < 0.06:
            document[name] = [document[name], random.choice(odd)]
        elif random.random() < 0.1:
            del document[name]
    return document


def _name(text: str) -> str:
    predicate = tamis.parse(text)
    assert isinstance(predicate, Predicate)
    return predicate.attribute


def test_three_failures_in_five_minutes() -> None:
    m = tamis.Matcher()
    m.add("alarm", FAILURES)
    found = []
    for minute, user in enumerate(["ann", "bob", "ann", "ann", "bob", "ann"]):
        event = {"user": user, "action": "failed", "at": START + timedelta(minutes=minute)}
        found.append(bool(m.publish(event, id=f"e{minute}")))
    assert found == [False, False, False, True, False, True]
    late = {"user": "ann", "action": "failed", "at": START + timedelta(minutes=7)}
    explained = m.explain("alarm", late).children[1]
    assert (explained.values, explained.documents) == ((2,), ("e3", "e5"))
    assert "[COUNT(*) = 2: held; documents 'e3', 'e5']" in str(explained)
    assert explained.to_json()["documents"] == ["e3", "e5"]
    m.documents.remove("e3")
    assert m.match(late) == []
    assert "COUNT(*)" in str(m.why_not("alarm", late))


@pytest.mark.parametrize("engine", ["auto", "scan", "shared"])
def test_thresholds_share_one_aggregate_in_every_part(engine: str) -> None:
    m = tamis.Matcher(engine=engine)
    texts = {n: f"(SELECT COUNT(*) FROM seen d WHERE d.u = u) >= {n}" for n in range(40)}
    m.add_many(texts)
    m.add("tail", "(SELECT SUM(d.n) FROM seen d WHERE d.u = u) BETWEEN 5 AND 9")
    for n in range(6):
        m.publish({"u": n % 2, "n": n})
    before = m.documents.stats()["evaluated"]
    event = {"u": 1}
    assert m.match(event) == [0, 1, 2, 3, "tail"]
    assert m.documents.stats()["evaluated"] - before == 2
    assert m.match_many([event])["rule"].to_pylist() == [0, 1, 2, 3, "tail"]
    assert [id for id, _ in m.top(event)] == [0, 1, 2, 3, "tail"]
    assert m.match({"u": 7}) == [0]


def test_logic_decides_what_unknown_means() -> None:
    m = tamis.Matcher()
    m.add("strong", "NOT (SELECT MAX(d.x) FROM seen d) > 3")
    m.add("weak", "NOT (SELECT MAX(d.x) FROM seen d) > 3", logic="weak")
    assert m.publish({"x": 9}) == ["weak"]
    assert m.publish({"x": 1}) == []


def test_retention_and_receivers_are_respected() -> None:
    m = tamis.Matcher(documents=tamis.Retention(count=2))
    m.add("two", "(SELECT COUNT(*) FROM seen d WHERE d.x = x) = 2")
    m.add("mine", "(SELECT SUM(d.y) FROM received d WHERE d.x = x) >= 3", subscription="ann")
    m.add("y", "y > 1", subscription="ann")
    assert m.publish({"x": 1, "y": 3}) == ["y"]
    assert m.publish({"x": 1, "y": 1}) == ["mine"]
    assert m.publish({"x": 1}) == ["two", "mine"]
    assert m.publish({"x": 1}) == ["two"]


def test_a_directory_keeps_windows(tmp_path: Path) -> None:
    schema = {"at": "timestamp"}
    text = "(SELECT MAX(d.at) FROM seen d WHERE d.u = u) < '2026-01-02'"
    with tamis.open(tmp_path / "rules", schema=schema) as m:
        m.add("early", text)
        m.publish({"u": 1, "at": "2026-01-01"})
        m.publish({"u": 2, "at": "2026-01-03"})
    with tamis.open(tmp_path / "rules") as m:
        assert (m.match({"u": 1}), m.match({"u": 2}), m.match({"u": 3})) == (["early"], [], [])
        assert m.rule("early").text == text


@pytest.mark.parametrize(
    "text",
    [
        FAILURES,
        "(SELECT COUNT(DISTINCT d.y) FROM seen d WHERE d.at BETWEEN at - 5 AND at) NOT IN (1, 2)",
        "NOT (SELECT AVG(d.y) FROM received d) <= 0.5",
        "(SELECT MIN(d.y) FROM seen d) IS NULL OR x = 1",
    ],
)
def test_text_model_and_json_are_one(text: str) -> None:
    rule = tamis.parse(text)
    assert tamis.parse(tamis.to_sql(rule)) == rule
    assert tamis.from_json(tamis.to_json(rule)) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(SELECT COUNT(*) FROM seen d) > x", "compares with a value"),
        ("x > (SELECT COUNT(*) FROM seen d)", "compares with a value"),
        ("(SELECT d.x FROM seen d) > 3", "COUNT, SUM, MIN, MAX or AVG"),
        ("(SELECT SUM(x) FROM seen d) > 3", "one attribute of the old document"),
        ("(SELECT COUNT(*) FROM seen d)", "compare a COUNT"),
        ("(SELECT COUNT(*) FROM seen d WHERE d.t > t - INTERVAL '2 months') = 1", "unit of time"),
        ("(SELECT COUNT(*) FROM seen d WHERE d.t > t - INTERVAL 'x') = 1", "not an interval"),
        ("(SELECT COUNT(*) FROM seen d WHERE d.t > t - x) = 1", "a number, or an interval"),
        ("(SELECT COUNT(*) FROM seen d WHERE d.t - 3 > 5) = 1", "attribute of the other document"),
        ("(SELECT COUNT(*) FROM seen d WHERE d.t - 3 > t + INTERVAL '1 day') = 1", "be added"),
        ("(SELECT COUNT(*) FROM seen d) LIKE 'x'", "no meaning for an aggregate"),
        ("(SELECT COUNT(*), 1 FROM seen d) > 3", "FROM after the aggregate"),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x > (SELECT MAX(d.x) FROM seen d))", "contain"),
    ],
)
def test_malformed_aggregates(text: str, message: str) -> None:
    with pytest.raises(tamis.RuleSyntaxError, match=message):
        tamis.parse(text)


def test_sums_are_exact_however_documents_come_and_go() -> None:
    store = DocumentStore()
    name = _name("(SELECT SUM(d.x) FROM seen d) IS NULL")
    ids = [store.add(flatten({"x": x})) for x in (1e308, 0.1, 1e-320, 0.2, -1e308, 2**63)]
    event = flatten({})
    assert store.evaluate_joins([name], event)[name] == [float(2**63)]  # of more than 38 digits
    store.remove(ids[5])
    store.remove(ids[2])
    assert store.evaluate_joins([name], event)[name] == [0.3]
    for id in (ids[1], ids[3], ids[0]):
        store.remove(id)
    assert store.evaluate_joins([name], event)[name] == [-1e308]
    store.clear()
    assert store.evaluate_joins([name], event) == {}


def test_windows_that_no_rule_needs_any_more_are_dropped() -> None:
    m = tamis.Matcher()
    for n in range(3):
        m.add(n, f"(SELECT COUNT(*) FROM seen d WHERE d.k = {n} AND d.u = u) > 0")
    m.publish({"u": 1, "k": 1})
    m.match({"u": 1})
    assert len(m._document_store._windows) == 3
    m.remove_many([0, 2])
    assert m.match({"u": 1}) == [1]
    assert len(m._document_store._windows) == 1


def test_an_event_looks_at_few_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DocumentStore()
    for n in range(6_000):
        store.add(flatten({"u": n % 3, "t": n, "x": n % 7}))
    texts = ["COUNT(*)", "SUM(d.x)", "MAX(d.x)", "COUNT(DISTINCT d.x)"]
    names = [_name(f"(SELECT {t} FROM seen d WHERE d.u = u AND d.t > t - 3000) > 1") for t in texts]
    event = flatten({"u": 1, "t": 5_999})
    first = store.evaluate_joins(names, event)
    assert [first[name] for name in names] == [[1000], [3001], [6], [7]]
    steps = 0

    def count(tree: AggregateTree, node: Any, *rest: Any) -> int:
        nonlocal steps
        steps += 1
        return plain(tree, node, *rest)

    plain = AggregateTree._collect
    monkeypatch.setattr(AggregateTree, "_collect", count)
    monkeypatch.delattr(DocumentStore, "document")
    assert store.evaluate_joins(names, event) == first
    assert steps <= 4 * 2 * 3


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_ranges_while_entries_come_and_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregate_tree, "_MOST", 4)
    random, tree = Random(seed), AggregateTree((sum, min))
    entries: list[tuple[int, int, int]] = []
    for number in range(500):
        if entries and random.random() < (0.3 if number < 350 else 0.8):
            key, removed, _ = entries.pop(random.randrange(len(entries)))
            tree.remove(key, removed)
        else:
            entries.append((random.randrange(20), number, random.randrange(100)))
            tree.add(entries[-1][0], number, entries[-1][2:] * 2)
        low, high = (
            random.choice([None, (random.randrange(-1, 21), random.randrange(2))]) for _ in range(2)
        )
        values = [
            value
            for key, _, value in entries
            if (low is None or (key, 0) >= low) and (high is None or (key, 0) < high)
        ]
        assert tree.reduce(low, high) == (
            len(values),
            [sum(values), min(values)] if values else [],
        )
