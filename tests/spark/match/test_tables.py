"""Spark finds the same matches as a matcher in this process, and as Spark SQL."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import tamis
from tamis import spark as ts
from tests.spark.indexes import publish_rules

SCHEMA = """
    id long, age int, price double, name string, city string, vip boolean, seen timestamp,
    home struct<city: string, zip: long>
"""
NAMES = ["ann", "bob", "cleo", "dan", "Eve"]
CITIES = ["Paris", "Lyon", "Nice", "Åre"]


def maybe(rng: random.Random, value: Any) -> Any:
    """`value`, or None for one in four."""
    return None if rng.random() < 0.25 else value


def make_events(size: int, seed: int = 1) -> list[dict[str, Any]]:
    """Events that lack a quarter of their attributes."""
    rng = random.Random(seed)
    return [
        {
            "id": number,
            "age": maybe(rng, rng.randrange(80)),
            "price": maybe(rng, rng.choice([0.0, 9.5, 10.0, 99.99, float("nan")])),
            "name": maybe(rng, rng.choice(NAMES)),
            "city": maybe(rng, rng.choice(CITIES)),
            "vip": maybe(rng, rng.random() < 0.5),
            "seen": maybe(rng, datetime(2024, rng.randrange(1, 13), 1, tzinfo=UTC)),
            "home": maybe(
                rng, {"city": maybe(rng, rng.choice(CITIES)), "zip": maybe(rng, rng.randrange(5))}
            ),
        }
        for number in range(size)
    ]


def predicate(rng: random.Random) -> str:
    return rng.choice(
        [
            f"age {rng.choice(['<', '<=', '>', '>=', '=', '<>'])} {rng.randrange(80)}",
            f"age NOT BETWEEN {rng.randrange(40)} AND {rng.randrange(40, 80)}",
            f"name = '{rng.choice(NAMES)}'",
            f"name NOT IN ('{rng.choice(NAMES)}', '{rng.choice(NAMES)}')",
            f"name LIKE '%{rng.choice('abne')}%'",
            f"city IN ('{rng.choice(CITIES)}', '{rng.choice(CITIES)}')",
            f"city <> '{rng.choice(CITIES)}'",
            "vip = TRUE",
            "city IS NULL",
            "name IS NOT NULL",
            f"seen >= TIMESTAMP '2024-{rng.randrange(1, 13):02d}-01 00:00:00'",
            f"home.city = '{rng.choice(CITIES)}'",
            f"home.zip < {rng.randrange(5)}",
        ]
    )


def make_rules(size: int, seed: int = 2) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    rules = []
    for number in range(size):
        parts = [predicate(rng) for _ in range(rng.randrange(1, 4))]
        text = rng.choice([" AND ", " OR "]).join(parts)
        rules.append((f"rule {number}", f"NOT ({text})" if rng.random() < 0.2 else text))
    return rules


EVENTS = make_events(400)
RULES = make_rules(300)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "alerts"
    publish_rules(path, RULES, shards=3)
    return path


@pytest.fixture(scope="module")
def matcher() -> Iterator[tamis.Matcher]:
    with tamis.Matcher() as matcher:
        matcher.add_many(RULES)
        yield matcher


@pytest.fixture(scope="module")
def events(spark):
    frame = spark.createDataFrame(EVENTS, SCHEMA).cache()
    yield frame
    frame.unpersist()


def pairs(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def expected(matcher: tamis.Matcher, events: list[dict[str, Any]]) -> list[tuple]:
    return sorted((event["id"], rule) for event in events for rule in matcher.match(event))


@pytest.fixture(scope="module")
def matches(matcher: tamis.Matcher) -> list[tuple]:
    found = expected(matcher, EVENTS)
    assert len(found) > 10_000
    return found


def evaluate_in_sql(frame) -> list[tuple]:
    """Evaluate every fifth rule in Spark SQL; attributes that `frame` lacks are null."""
    whole = StructType.fromDDL(SCHEMA)
    assert isinstance(whole, StructType)
    lacking = [field for field in whole if field.name not in frame.columns]
    nulls = {field.name: F.lit(None).cast(field.dataType) for field in lacking}
    # NaN is absent for a rule, and a number for Spark.
    filled = frame.withColumns(nulls).withColumn("price", F.expr("nanvl(price, NULL)"))
    lists = filled.agg(
        *(
            F.collect_list(F.when(F.expr(text), F.col("id"))).alias(rule)
            for rule, text in RULES[::5]
        )
    ).first()
    assert lists is not None
    return sorted((event, rule) for rule in lists.asDict() for event in lists[rule])


def select_sampled(found: list[tuple]) -> list[tuple]:
    """The matches of the rules that `evaluate_in_sql` evaluates."""
    rules = {rule for rule, _ in RULES[::5]}
    return [pair for pair in found if pair[1] in rules]


def test_columns_are_attributes(events, index: Path, matches: list[tuple]) -> None:
    found = pairs(ts.match(events, index))
    assert found == matches
    assert select_sampled(found) == evaluate_in_sql(events)


def test_a_struct_is_an_event(events, index: Path, matches: list[tuple]) -> None:
    whole = events.selectExpr("id", "struct(* EXCEPT (id)) AS payload")
    found = pairs(ts.match(whole, index, events="payload"))
    assert found == matches
    assert select_sampled(found) == evaluate_in_sql(whole.select("id", "payload.*"))


def test_json_is_an_event(spark, index: Path, matcher: tamis.Matcher) -> None:
    texts, read = [], []
    for event in EVENTS:
        # JSON has neither timestamps nor NaN.
        kept = {name: value for name, value in event.items() if name != "seen"}
        if kept["price"] is not None and kept["price"] != kept["price"]:
            del kept["price"]
        texts.append((event["id"], json.dumps(kept)))
        read.append(kept)
    frame = spark.createDataFrame([*texts, (1000, None)], "id long, text string")
    found = pairs(ts.match(frame, index, events="text"))
    assert found == sorted([*expected(matcher, read), *expected(matcher, [{"id": 1000}])])
    by_spark = frame.withColumn("read", F.from_json("text", SCHEMA))
    assert select_sampled(found) == evaluate_in_sql(
        by_spark.selectExpr("id", "read.* EXCEPT (id, seen)")
    )


def test_a_map_is_an_event(events, index: Path, matcher: tamis.Matcher) -> None:
    frame = events.selectExpr("id", "map('name', name, 'city', city, 'other', 'x') AS attributes")
    given = [{"id": e["id"], "name": e["name"], "city": e["city"]} for e in EVENTS]
    found = pairs(ts.match(frame, index, events="attributes"))
    assert found == expected(matcher, given)
    by_spark = frame.selectExpr("id", "attributes['name'] AS name", "attributes['city'] AS city")
    assert select_sampled(found) == evaluate_in_sql(by_spark)


def test_a_map_of_numbers_is_an_event(events, index: Path, matcher: tamis.Matcher) -> None:
    frame = events.selectExpr("id", "map('age', age) AS attributes")
    found = pairs(ts.match(frame, index, events="attributes"))
    assert found == expected(matcher, [{"id": e["id"], "age": e["age"]} for e in EVENTS])
    assert select_sampled(found) == evaluate_in_sql(
        frame.selectExpr("id", "attributes['age'] AS age")
    )


def test_both_plans_give_the_same_answers(events, index: Path, matches: list[tuple]) -> None:
    assert pairs(ts.match(events, index, plan="sharded")) == matches
    counted = pairs(ts.counts(events, index, plan="sharded"))
    assert counted == pairs(ts.counts(events, index, plan="whole"))
    best = pairs(ts.top(events, index, 4, plan="sharded"))
    assert best == pairs(ts.top(events, index, 4, plan="whole"))


def test_counts_equal_the_matchers(events, index: Path, matcher: tamis.Matcher) -> None:
    wanted = [(event["id"], len(matcher.match(event))) for event in EVENTS]
    assert pairs(ts.counts(events, index)) == wanted


def test_top_equals_the_matchers(spark, tmp_path: Path) -> None:
    """All scores differ, so there are no ties."""
    rules = [
        tamis.Rule(i, f"a = {i % 4} OR b = {i % 3}", "strong", {("a", i % 4): 1 + i / 64})
        for i in range(40)
    ]
    publish_rules(tmp_path / "index", rules, shards=3)
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    given = [{"id": i, "a": i % 5, "b": None} for i in range(10)]
    wanted = [
        (event["id"], rank, rule, score)
        for event in given
        for rank, (rule, score) in enumerate(matcher.top(event, 6), 1)
    ]
    frame = spark.createDataFrame(given, "id long, a long, b long")
    for plan in ("whole", "sharded"):
        found = ts.top(frame, tmp_path / "index", 6, plan=plan)
        assert found.columns == ["id", "rank", "rule", "score"]
        assert pairs(found) == wanted


def test_a_list_is_several_values(spark, tmp_path: Path) -> None:
    rules = [(1, "tag = 'a' AND tag = 'b'"), (2, "tag <> 'a'"), (3, "tag IS NULL")]
    publish_rules(tmp_path / "index", rules)
    rows = [(0, ["a", "b"]), (1, ["b", None]), (2, []), (3, None), (4, ["c", "c"])]
    frame = spark.createDataFrame(rows, "id int, tag array<string>")
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    given = [{"id": id, "tag": tags} for id, tags in rows]
    assert pairs(ts.match(frame, tmp_path / "index")) == expected(matcher, given)
    mapped = frame.selectExpr("id", "map('tag', tag) AS m")
    assert pairs(ts.match(mapped, tmp_path / "index", events="m")) == expected(matcher, given)


def test_weak_rules_match_what_is_absent(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [(7, "state <> 'CA'")], logic="weak")
    frame = spark.createDataFrame([(1, None), (2, "CA"), (3, "NY")], "id int, state string")
    assert pairs(ts.match(frame, tmp_path / "index")) == [(1, 7), (3, 7)]


def test_several_keys_of_any_type_are_carried_along(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("big", "`a.b` > 5 AND day = 3")])
    moment = datetime(2024, 5, 1)
    rows = [(3, "x", moment, {"k": [1, 2]}, 9), (3, "x", moment, {}, 1), (2, None, None, None, 6)]
    schema = "day int, name string, `when` timestamp, extra map<string, array<int>>, `a.b` int"
    frame = spark.createDataFrame(rows, schema)
    keys = ["name", "when", "extra", "day"]
    found = ts.match(frame, tmp_path / "index", keys=keys)
    assert found.columns == [*keys, "rule"]
    assert [tuple(row) for row in found.collect()] == [("x", moment, {"k": [1, 2]}, 3, "big")]


def test_equal_keys_are_still_several_events(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [(1, "a > 0"), (2, "a > 1")], shards=2)
    frame = spark.createDataFrame([(1, 1), (1, 2), (1, 2)], "id int, a int")
    for plan in ("whole", "sharded"):
        counted = pairs(ts.counts(frame, tmp_path / "index", plan=plan))
        assert counted == [(1, 1), (1, 2), (1, 2)]


def test_a_chain_of_transformations(events, index: Path, matches: list[tuple]) -> None:
    chained = events.where("id < 10").transform(ts.matcher(index, keys="id"))
    assert pairs(chained) == [pair for pair in matches if pair[0] < 10]


def test_columns_can_be_chosen(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [(1, "a = 1 AND b IS NULL")])
    frame = spark.createDataFrame([(5, 1, 1)], "id int, a int, b int")
    assert pairs(ts.match(frame, tmp_path / "index")) == []
    assert pairs(ts.match(frame, tmp_path / "index", events=["a"])) == [(5, 1)]


def test_a_query_keeps_its_version(spark, tmp_path: Path) -> None:
    path = tmp_path / "index"
    publish_rules(path, [("old", "a = 1")])
    frame = spark.createDataFrame([(5, 1)], "id int, a int")
    query = ts.match(frame, path)
    publish_rules(path, [("new", "a = 1")])
    assert pairs(query) == [(5, "old")]
    assert pairs(ts.match(frame, path)) == [(5, "new")]
    assert pairs(ts.match(frame, path, version=1)) == [(5, "old")]
    ts.rollback(path, 1)
    assert pairs(ts.match(frame, path)) == [(5, "old")]


def test_spark_ships_the_index(events, index: Path, matches: list[tuple]) -> None:
    assert pairs(ts.match(events, index, ship=True)) == matches
    # The second time, Spark has the files already.
    assert pairs(ts.match(events, index, ship=True, plan="sharded")) == matches


def test_no_events_and_no_rules(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [])
    empty = spark.createDataFrame([], "id long, a long")
    full = spark.createDataFrame([(1, 1)], "id long, a long")
    for frame, counted in ((empty, []), (full, [(1, 0)])):
        assert pairs(ts.match(frame, tmp_path / "index")) == []
        assert pairs(ts.top(frame, tmp_path / "index")) == []
        assert pairs(ts.counts(frame, tmp_path / "index")) == counted
