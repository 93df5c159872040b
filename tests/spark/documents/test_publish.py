"""Rules about earlier events, on tables and streams of Spark: the answers of `Matcher.publish`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tamis
from tamis import spark as ts
from tests.spark.documents.published import (
    BY_USER,
    OF_ALL,
    SCHEMA,
    START,
    expect,
    found,
    make_events,
    run_stream,
    write_files,
)
from tests.spark.indexes import publish_rules


@pytest.mark.parametrize("rules", [BY_USER, OF_ALL], ids=["by user", "one group"])
def test_a_table_has_the_answers_of_publish(
    spark: SparkSession, tmp_path: Path, rules: list[tuple[str, str]]
) -> None:
    events = make_events(300)
    publish_rules(tmp_path / "index", rules, shards=2)
    shuffled = list(events)
    Random(2).shuffle(shuffled)
    table = spark.createDataFrame(
        [tuple(event.values()) for event in shuffled], SCHEMA
    ).repartition(3)
    expected = expect(rules, events)
    assert {rule for _, rule in expected} == {id for id, _ in rules}
    assert found(ts.publish(table, tmp_path / "index", order="at")) == expected
    assert found(ts.publish(table, tmp_path / "index", order=["x", "id"], by=())) == expect(
        rules, sorted(events, key=lambda e: (e["x"] is not None, e["x"] or 0, e["id"]))
    )
    texts = table.selectExpr("id", "at", "to_json(struct(user, x)) AS event")
    assert found(ts.publish(texts, tmp_path / "index", order="id", events="event")) == expected
    maps = table.selectExpr(
        "id", "user", "map_from_arrays(array('user', 'x'), array(user, CAST(x AS STRING))) AS event"
    )
    strings = [
        {**e, "x": None if e["x"] is None else str(e["x"])} for e in events
    ]  # fmt: skip
    assert found(ts.publish(maps, tmp_path / "index", order="id", events="event")) == expect(
        rules, strings
    )


def test_a_table_forgets_events_that_are_too_old(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(200)
    publish_rules(tmp_path / "index", OF_ALL, shards=1)
    table = spark.createDataFrame([tuple(event.values()) for event in events], SCHEMA)
    retention = tamis.Retention(age=timedelta(minutes=20), by="at")
    expected = expect(OF_ALL, events, retention)
    assert expected != expect(OF_ALL, events)
    assert found(ts.publish(table, tmp_path / "index", order="id", retention=retention)) == expected
    few = tamis.Retention(count=7)
    assert found(ts.publish(table, tmp_path / "index", order="id", retention=few)) == expect(
        OF_ALL, events, tamis.Retention(count=7)
    )


def test_a_stream_forgets_batches_that_are_too_old(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(90)
    publish_rules(tmp_path / "index", BY_USER)
    write_files(tmp_path / "events", events, 3)
    batch = [0.0]
    matcher = tamis.Matcher(documents=tamis.Retention(age=0, clock=lambda: batch[0]))
    matcher.add_many(BY_USER)
    expected: Counter[tuple[int, str]] = Counter()
    for number, event in enumerate(events):
        batch[0] = float(number // 30)
        expected.update((event["id"], str(rule)) for rule in matcher.publish(event))
    assert expected != expect(BY_USER, events)

    def answers(stream: DataFrame) -> DataFrame:
        return ts.publish(stream, tmp_path / "index", order="id", retention=tamis.Retention(age=0))

    assert found(run_stream(spark, tmp_path, answers)) == expected


@pytest.mark.parametrize("rules", [BY_USER, OF_ALL], ids=["by user", "one group"])
def test_a_stream_has_the_answers_of_publish(
    spark: SparkSession, tmp_path: Path, rules: list[tuple[str, str]]
) -> None:
    events = make_events(120)
    publish_rules(tmp_path / "index", rules, shards=2)
    write_files(tmp_path / "events", events[:80], 2)

    def answers(stream: DataFrame) -> DataFrame:
        return ts.publish(stream, tmp_path / "index", order="at")

    run_stream(spark, tmp_path, answers)
    # A stream that starts again remembers what it saw.
    write_files(tmp_path / "events", events[80:], 1, first=2)
    assert found(run_stream(spark, tmp_path, answers)) == expect(rules, events)


@pytest.mark.parametrize("expires", [False, True])
def test_a_stream_takes_large_batches_and_keys_of_all_types(
    spark: SparkSession, tmp_path: Path, expires: bool
) -> None:
    """Without empty batches, Spark lets state expire."""
    no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(no_data, not expires)
    events = make_events(12_000)
    rules = [("third", BY_USER[2][1]), ("plain", "x > 98")]
    publish_rules(tmp_path / "index", rules)
    write_files(tmp_path / "events", events, 1)

    def answers(stream: DataFrame) -> DataFrame:
        retention = tamis.Retention(age=timedelta(hours=1))
        return ts.publish(
            stream, tmp_path / "index", order="id", keys=["at", "id"], retention=retention, by=()
        )

    try:
        rows = run_stream(spark, tmp_path, answers).collect()
    finally:
        spark.conf.unset(no_data)
    assert Counter((row["id"], row["rule"]) for row in rows) == expect(rules, events)
    assert all(
        row["at"].astimezone(UTC) == START + timedelta(minutes=row["id"]) for row in rows
    )  # fmt: skip


def test_what_cannot_be_published_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", OF_ALL)
    table = spark.createDataFrame([(1, "a", 1, START, 0.5)], f"{SCHEMA}, f double")
    index = tmp_path / "index"
    with pytest.raises(tamis.EventError, match=r"without d\.user = user"):
        ts.publish(table, index, order="id", by="user")
    with pytest.raises(tamis.EventError, match="no column 'when' for order="):
        ts.publish(table, index, order="when")
    with pytest.raises(tamis.EventError, match="order='f' is of type double"):
        ts.publish(table, index, order="f")
    with pytest.raises(tamis.EventError, match="which event came first"):
        ts.publish(table, index, order=[])
    with pytest.raises(tamis.EventError, match="come at once"):
        ts.publish(table, index, order="id", retention=tamis.Retention(age=5))
    publish_rules(tmp_path / "users", BY_USER)
    few = tamis.Retention(count=5)
    with pytest.raises(tamis.EventError, match="limit on the number of all documents"):
        ts.publish(table, tmp_path / "users", order="id", by="user", retention=few)
    old = tamis.Retention(age=5, by="at")
    with pytest.raises(tamis.EventError, match="by the newest time of all events"):
        ts.publish(table, tmp_path / "users", order="id", by="user", retention=old)
    clock = tamis.Retention(age=5, by="at", clock=lambda: 0.0)
    with pytest.raises(tamis.EventError, match="a clock cannot go to workers"):
        ts.publish(table, tmp_path / "users", order="at", retention=clock)
    texts = table.selectExpr("id", "to_json(struct(user)) AS event")
    with pytest.raises(tamis.EventError, match="cannot be grouped by 'user'"):
        ts.publish(texts, tmp_path / "users", order="id", by="user", events="event")
    (tmp_path / "events").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "events"))
    nested = stream.selectExpr("*", "array(id) AS list")
    with pytest.raises(tamis.EventError, match="cast it to a string"):
        ts.publish(nested, index, order="id", keys="list")
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = str(spark.conf.get(provider))
    spark.conf.set(provider, "org.example.Other")
    try:
        with pytest.raises(tamis.EventError, match="needs the RocksDB state store"):
            ts.publish(stream, index, order="id")
    finally:
        spark.conf.set(provider, before)


def test_bad_events_raise_or_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", OF_ALL)
    texts = spark.createDataFrame([(1, '{"x": 5}'), (2, "{"), (3, '{"x": 6}')], "id long, e string")
    with pytest.raises((PySparkException, tamis.TamisError), match="not JSON"):
        ts.publish(texts, tmp_path / "index", order="id", events="e").collect()
    answers = ts.publish(texts, tmp_path / "index", order="id", events="e", on_error="skip")
    events = [{"id": 1, "x": 5}, {"id": 3, "x": 6}]
    assert found(answers) == expect(OF_ALL, events)


def test_an_index_built_on_spark_has_rules_about_earlier_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = spark.createDataFrame(OF_ALL, "id string, rule string")
    version = ts.build(rules, tmp_path / "index", shards=2)
    assert (version.rules, version.bad) == (len(OF_ALL), 0)
    events = make_events(60)
    table = spark.createDataFrame([tuple(event.values()) for event in events], SCHEMA)
    assert found(ts.publish(table, tmp_path / "index", order="id")) == expect(OF_ALL, events)
    # Without documents the answers are those of `Matcher.match`.
    matcher = tamis.Matcher()
    matcher.add_many(OF_ALL)
    assert found(ts.match(table, tmp_path / "index")) == Counter(
        (event["id"], rule) for event in events for rule in matcher.match(event)
    )
