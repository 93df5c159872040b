"""kill -9 of a job over Kafka: every match once in a folder, and once by key in a topic."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

import tamis
from tamis import spark as ts
from tests.parts.jars import session_jars
from tests.parts.kafka import Broker, Record
from tests.spark.indexes import publish_rules
from tests.spark.stream.killed_jobs import KILLS, kill_jobs

SCRIPT = Path(__file__).with_name("interrupted_kafka_stream.py")

RULES = {
    version: [("all", "TRUE"), *((f"v{version}-{n}", f"x >= {10 * n + version}") for n in range(9))]
    for version in (1, 2)
}

Place = tuple[int, int]
"""The partition and the offset of a record."""


def send_events(broker: Broker, topic: str, count: int) -> dict[Place, int | None]:
    """Send events to two partitions, one record in ten not an event; returns the value of each."""
    values: dict[Place, int | None] = {}
    for partition in (0, 1):
        records = []
        for offset in range(count // 2):
            x = None if offset % 10 == 7 else (offset * 37 + partition) % 120
            values[partition, offset] = x
            text = "no event" if x is None else json.dumps({"x": x})
            records.append(Record(f"{partition}-{offset}".encode(), text.encode()))
        broker.send(topic, records, partition)
    return values


def expect(values: dict[Place, int | None], versions: dict[Place, int]) -> set[tuple[object, ...]]:
    """All matches, each with the version that its event was matched with."""
    found: set[tuple[object, ...]] = set()
    for version, rules in RULES.items():
        matcher = tamis.Matcher()
        matcher.add_many(rules)
        for place, x in values.items():
            if x is not None and versions[place] == version:
                found |= {(*place, rule, version) for rule in matcher.match({"x": x})}
    return found


@pytest.mark.slow
def test_killed_jobs_lose_no_match_and_repeat_none(broker: Broker, tmp_path: Path) -> None:
    index, topic = tmp_path / "index", f"events-{uuid4().hex[:8]}"
    for version in (1, 2):
        publish_rules(index, RULES[version])
    broker.create_topic(topic, 2)
    broker.create_topic(f"{topic}-matches", 2)
    values = send_events(broker, topic, 160 * KILLS)
    arguments = [
        broker.servers,
        topic,
        f"{topic}-matches",
        str(index),
        str(tmp_path),
        session_jars(),
    ]
    kill_jobs(
        [sys.executable, str(SCRIPT), *arguments],
        tmp_path / "log",
        before=lambda number: ts.rollback(index, 1 + number % 2),
        count_done=lambda: len(list((tmp_path / "matches").glob("batch_id=*"))),
    )
    events = {place for place, x in values.items() if x is not None}

    rows = pq.read_table(tmp_path / "matches").to_pylist()
    names = ("partition", "offset", "rule", "index_version")
    counted = Counter(tuple(row[name] for name in names) for row in rows)
    versions = {(p, o): version for p, o, rule, version in counted if rule == "all"}
    assert versions.keys() == events
    assert counted == Counter(expect(values, versions))
    assert all(row["key"].decode() == f"{row['partition']}-{row['offset']}" for row in rows)

    dead = pq.read_table(tmp_path / "dead").to_pylist()
    letters = Counter((row["partition"], row["offset"]) for row in dead)
    assert letters == Counter(values.keys() - events)

    last = {
        record.key: json.loads(record.value or b"") for record in broker.read(f"{topic}-matches")
    }
    found = {tuple(value[name] for name in names) for value in last.values()}
    assert len(found) == len(last)
    versions = {(p, o): version for p, o, rule, version in found if rule == "all"}
    assert versions.keys() == events
    assert found == expect(values, versions)
