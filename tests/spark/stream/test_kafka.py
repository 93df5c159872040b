"""Kafka: events from a topic, matches to folders and topics, dead letters; a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tamis
from tamis import spark as ts
from tests.parts.kafka import Broker, Record
from tests.spark.indexes import publish_rules

RULES = [("cheap", "price < 10"), ("red", "colour = 'red'")]

EVENTS = [
    Record(b"ana", b'{"price": 5, "colour": "red"}', (("trace", b"t1"), ("empty", None))),
    Record(b"\xff\x00", b'{"price": 50}'),
    Record(None, '{"price": 7, "colour": "gr\u00fcn"}'.encode()),
]
MATCHES = [(0, "cheap"), (0, "red"), (2, "cheap")]

NO_EVENTS = [
    Record(b"k", b"{", (("trace", b"t2"),)),
    Record(b"\xff\x00", b'{"price": "\xff"}'),
    Record(b"tomb", None),
    Record(b"list", b"[1]"),
]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    publish_rules(tmp_path / "index", RULES)
    return tmp_path / "index"


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"events-{uuid4().hex[:8]}")


def run(spark: SparkSession, broker: Broker, topic: str, index: Path, **options: Any) -> None:
    """Match all records of a topic."""
    stream = ts.read_kafka(spark, topic, servers=broker.servers)
    checkpoint = options.pop("checkpoint", index.with_name("checkpoint"))
    query = ts.match_stream(stream, index, checkpoint=checkpoint, trigger="availableNow", **options)
    query.awaitTermination()


def read_rows(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return sorted(rows, key=lambda row: (row["offset"], row.get("rule", "")))


def test_matches_in_a_folder_carry_keys_and_headers(
    spark: SparkSession, broker: Broker, topic: str, index: Path, tmp_path: Path
) -> None:
    broker.send(topic, EVENTS)
    run(spark, broker, topic, index, output=tmp_path / "matches")
    rows = read_rows(tmp_path / "matches")
    assert [(row["offset"], row["rule"]) for row in rows] == MATCHES
    assert {(row["topic"], row["partition"], row["index_version"]) for row in rows} == {
        (topic, 0, 1)
    }
    assert [row["key"] for row in rows] == [b"ana", b"ana", None]
    trace = [{"key": "trace", "value": b"t1"}, {"key": "empty", "value": None}]
    assert [row["headers"] for row in rows] == [trace, trace, None]
    assert all(row["timestamp"] is not None for row in rows)


def read_matches(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Offset, rule and version of each record, by what its key and its value say."""
    found = []
    for record in records:
        assert record.key is not None
        assert record.value is not None
        key, value = json.loads(record.key), json.loads(record.value)
        assert list(key) == ["topic", "partition", "offset", "rule"]
        assert key.items() <= value.items()
        found.append((value["offset"], value["rule"], value["index_version"]))
    return sorted(found)


def test_matches_in_a_topic_have_the_same_key_if_they_are_repeated(
    spark: SparkSession, broker: Broker, topic: str, index: Path
) -> None:
    broker.send(topic, EVENTS)
    output = ts.Topic(broker.create_topic(f"{topic}-matches"), broker.servers)
    run(spark, broker, topic, index, output=output)
    first = broker.read(output.name)
    assert read_matches(first) == [(*match, 1) for match in MATCHES]
    assert [batch.done for batch in ts.batches(index.with_name("checkpoint"))] == [True]
    carried = {record.headers for record in first}
    assert carried == {
        (("trace", b"t1"), ("empty", None), ("tamis-event-key", b"ana")),
        (("tamis-event-key", None),),
    }
    # The state after a kill between the last record and the end of the batch: it is repeated, with
    # the same version of the index although another one is current.
    for file in (index.with_name("checkpoint") / "commits").glob("*0*"):
        file.unlink()
    log = index.with_name("checkpoint") / "_tamis_batches" / "0"
    log.write_text(log.read_text().replace('"done":true', '"done":false'))
    publish_rules(index, [("all", "TRUE")])
    run(spark, broker, topic, index, output=output)
    again = broker.read(output.name)
    assert len(again) == 2 * len(first)
    assert set(again) == set(first)
    broker.send(topic, [Record(None, b"{}")])
    run(spark, broker, topic, index, output=output)
    assert read_matches(broker.read(output.name))[-1] == (3, "all", 2)
    assert [batch.version for batch in ts.batches(index.with_name("checkpoint"))] == [1, 2]


def test_records_may_have_the_keys_of_their_events(
    spark: SparkSession, broker: Broker, topic: str, index: Path
) -> None:
    broker.send(topic, EVENTS)
    output = ts.Topic(broker.create_topic(f"{topic}-matches"), broker.servers, key="event")
    run(spark, broker, topic, index, output=output, carry=["key"])
    records = broker.read(output.name)
    assert sorted(record.key or b"" for record in records) == [b"", b"ana", b"ana"]
    assert all(record.headers[0][0] == "tamis-match" for record in records)
    ids = [Record(record.headers[0][1], record.value) for record in records]
    assert read_matches(ids) == [(*match, 1) for match in MATCHES]
    with pytest.raises(ValueError, match="key is 'match' or 'event'"):
        ts.Topic("t", "s", key="rule")  # type: ignore[arg-type]


def test_records_that_are_not_events_become_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, index: Path, tmp_path: Path
) -> None:
    broker.send(topic, [*EVENTS, *NO_EVENTS])
    letters = ts.Topic(broker.create_topic(f"{topic}-dead"), broker.servers)
    run(spark, broker, topic, index, output=tmp_path / "matches", dead_letters=letters)
    found = read_rows(tmp_path / "matches")
    assert [(row["offset"], row["rule"]) for row in found] == MATCHES
    records = broker.read(letters.name)
    assert len(records) == len(NO_EVENTS)
    by_offset = {int(dict(record.headers)["tamis-offset"] or b""): record for record in records}
    for offset, sent in enumerate(NO_EVENTS, len(EVENTS)):
        record = by_offset[offset]
        assert (record.key, record.value) == (sent.key, sent.value)
        assert record.headers[: len(sent.headers)] == sent.headers
        headers = dict(record.headers)
        assert headers["tamis-topic"] == topic.encode()
        assert headers["tamis-partition"] == b"0"
    reasons = [dict(by_offset[offset].headers)["tamis-error"] or b"" for offset in range(3, 7)]
    for reason, words in zip(
        reasons, [b"not JSON", b"UTF-8", b"no value", b"JSON object"], strict=True
    ):
        assert words in reason


def test_dead_letters_may_go_to_a_folder(
    spark: SparkSession, broker: Broker, topic: str, index: Path, tmp_path: Path
) -> None:
    broker.send(topic, [*EVENTS, *NO_EVENTS])
    places = {"output": tmp_path / "matches", "dead_letters": tmp_path / "dead"}
    run(spark, broker, topic, index, **places)
    rows = read_rows(tmp_path / "dead")
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (number, record.key, record.value) for number, record in enumerate(NO_EVENTS, len(EVENTS))
    ]
    assert "no value" in rows[2]["error"]


def test_a_record_that_is_not_an_event_ends_the_stream_or_is_left_out(
    spark: SparkSession, broker: Broker, topic: str, index: Path, tmp_path: Path
) -> None:
    broker.send(topic, [*EVENTS, *NO_EVENTS])
    with pytest.raises(Exception, match="not JSON"):
        run(spark, broker, topic, index, output=tmp_path / "matches")
    run(spark, broker, topic, index, output=tmp_path / "matches", on_error="skip")
    assert [(row["offset"], row["rule"]) for row in read_rows(tmp_path / "matches")] == MATCHES
    with pytest.raises(ValueError, match="on_error is 'skip'"):
        run(spark, broker, topic, index, output="m", dead_letters="d", on_error="raise")


def test_a_table_of_records_is_matched_like_any_other(
    spark: SparkSession, broker: Broker, topic: str, index: Path
) -> None:
    broker.send(topic, EVENTS)
    table = ts.read_kafka(spark, [topic], servers=broker.servers, stream=False)
    found = ts.match(table, index, keys=["partition", "offset"], events="value")
    assert sorted((row["offset"], row["rule"]) for row in found.collect()) == MATCHES


def test_a_checkpoint_of_a_folder_is_not_for_a_topic(
    spark: SparkSession, broker: Broker, topic: str, index: Path, tmp_path: Path
) -> None:
    broker.send(topic, EVENTS)
    run(spark, broker, topic, index, output=tmp_path / "matches")
    with pytest.raises(tamis.StorageError, match="writes to a folder; pass a new checkpoint"):
        run(spark, broker, topic, index, output=ts.Topic("other", broker.servers))
