"""Rules about earlier events, the events, and what `Matcher.publish` answers."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import tamis

START = datetime(2026, 1, 1, tzinfo=UTC)
BY_USER = [
    ("again", "EXISTS (SELECT 1 FROM seen d WHERE d.user = user AND d.x > x)"),
    ("low", "x < ALL (SELECT d.x FROM seen d WHERE d.user = user)"),
    ("third", "(SELECT COUNT(*) FROM seen d WHERE d.user = user) = 2"),
    ("plain", "x > 90"),
]
"""All of them equate the user."""
OF_ALL = [*BY_USER, ("record", "x > ALL (SELECT d.x FROM seen d)")]
SCHEMA = "id long, user string, x long, at timestamp"


def make_events(size: int, seed: int = 1) -> list[dict[str, Any]]:
    random = Random(seed)
    users = [None, *(f"user {n}" for n in range(9))]
    return [
        {
            "id": id,
            "user": random.choice(users),
            "x": random.choice([None, random.randrange(100)]) if id % 3 else 50,
            "at": START + timedelta(minutes=id),
        }
        for id in range(size)
    ]


def expect(
    rules: list[tuple[str, str]],
    events: list[dict[str, Any]],
    retention: tamis.Retention | None = None,
) -> Counter[tuple[int, str]]:
    matcher = tamis.Matcher(documents=retention)
    matcher.add_many(rules)
    return Counter((e["id"], str(rule)) for e in events for rule in matcher.publish(e))


def write_files(folder: Path, events: list[dict[str, Any]], files: int, first: int = 0) -> None:
    """Write events to files, which a stream reads one at a time, in the order of their times."""
    folder.mkdir(exist_ok=True)
    for number in range(files):
        part = events[number * len(events) // files : (number + 1) * len(events) // files]
        Random(number).shuffle(part)
        aside = folder / f".{first + number}"
        pq.write_table(pa.Table.from_pylist(part), aside)
        aside.rename(folder / f"{first + number:04}.parquet")
        modified = START.timestamp() + first + number
        os.utime(folder / f"{first + number:04}.parquet", (modified, modified))


def make_late_events(size: int) -> list[dict[str, Any]]:
    """Events in no order of their times, some without a time, some twice."""
    random = Random(size)
    events = make_events(size)
    for event in events:
        late = timedelta(minutes=random.choice((0, 0, 5, 15, 60)))
        event["at"] = None if random.random() < 0.1 else event["at"] - late
    repeated = random.sample(events, size // 10)
    return [{**event, "id": id} for id, event in enumerate([*events, *repeated])]


def found(answers: DataFrame) -> Counter[tuple[int, str]]:
    assert answers.columns == ["id", "rule"]
    return Counter((row["id"], row["rule"]) for row in answers.collect())


def run_stream(spark: SparkSession, tmp_path: Path, answers: Any) -> DataFrame:
    """Run a stream over all files, and read what it wrote."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "events"))
    writer = answers(stream).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    return spark.read.parquet(str(tmp_path / "out"))
