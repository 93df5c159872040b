"""Streams: every match exactly once, even after a crash, and a version for each batch."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tamis
from tamis import spark as ts
from tests.spark.indexes import publish_rules
from tests.spark.stream.killed_jobs import KILLS, kill_jobs

SCRIPT = Path(__file__).with_name("interrupted_stream.py")
EVENTS_PER_FILE = 50


def rules_of(version: int) -> list[tuple[str, str]]:
    """The rules of a version; one of them matches every event."""
    rules = [
        (f"v{version}-{n}", f"x BETWEEN {10 * n + version} AND {10 * n + 25}") for n in range(9)
    ]
    return [("all", "TRUE"), *rules]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of two versions; the first one is current."""
    for version in (1, 2):
        publish_rules(tmp_path / "index", rules_of(version))
    ts.rollback(tmp_path / "index", 1)
    return tmp_path / "index"


def write_events(folder: Path, files: int, first: int = 0) -> None:
    """Write files of events, which a stream reads one at a time."""
    folder.mkdir(exist_ok=True)
    for number in range(first, first + files):
        ids = range(number * EVENTS_PER_FILE, (number + 1) * EVENTS_PER_FILE)
        table = pa.table({"event_id": list(ids), "x": [id * 37 % 120 for id in ids]})
        aside = folder / f".{number}"
        pq.write_table(table, aside)
        aside.rename(folder / f"{number:04}.parquet")


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema("event_id long, x long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def expected(events: int, version_of: dict[int, int]) -> Counter[tuple[int, str, int]]:
    """All matches of all events, by the version that each was matched with."""
    found: Counter[tuple[int, str, int]] = Counter()
    for version in set(version_of.values()):
        matcher = tamis.Matcher()
        matcher.add_many(rules_of(version))
        table = matcher.match_many([{"x": id * 37 % 120} for id in range(events)])
        for event, rule in zip(*table.to_pydict().values(), strict=True):
            if version_of[event] == version:
                found[event, rule, version] += 1
    return found


def check(output: Path, events: int) -> list[ts.Batch]:
    """Check that every match is there once, found with the version recorded for its batch."""
    rows = pq.read_table(output).to_pylist()
    recorded = {batch.number: batch for batch in ts.batches(output)}
    assert all(batch.done for batch in recorded.values())
    assert all(row["index_version"] == recorded[int(row["batch_id"])].version for row in rows)
    version_of = {row["event_id"]: row["index_version"] for row in rows if row["rule"] == "all"}
    assert sorted(version_of) == list(range(events))
    found = Counter((row["event_id"], row["rule"], row["index_version"]) for row in rows)
    assert found == expected(events, version_of)
    assert not list((output / "_tamis").glob("aside-*"))
    return list(recorded.values())


def run_all(spark: SparkSession, tmp_path: Path, index: Path, **options: Any) -> None:
    query = ts.match_stream(
        stream_of(spark, tmp_path / "events"),
        index,
        output=tmp_path / "matches",
        checkpoint=tmp_path / "checkpoint",
        trigger="availableNow",
        **options,
    )
    query.awaitTermination()


def test_a_stream_is_matched_in_shards(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch goes to every group of shards, and its matches are written once."""
    publish_rules(tmp_path / "index", rules_of(1), shards=3)
    write_events(tmp_path / "events", 2)
    before = ts.metrics(spark).events
    run_all(spark, tmp_path, tmp_path / "index", plan="sharded")
    assert ts.metrics(spark).events - before == 3 * 2 * EVENTS_PER_FILE
    assert len(check(tmp_path / "matches", 2 * EVENTS_PER_FILE)) == 2


def test_a_running_stream_picks_up_new_versions(
    spark: SparkSession, tmp_path: Path, index: Path
) -> None:
    write_events(tmp_path / "events", 2)
    query = ts.match_stream(
        stream_of(spark, tmp_path / "events"),
        index,
        output=tmp_path / "matches",
        checkpoint=tmp_path / "checkpoint",
        name="alerts",
    )
    try:
        query.processAllAvailable()
        ts.rollback(index, 2)
        write_events(tmp_path / "events", 2, first=2)
        query.processAllAvailable()
        ts.rollback(index, 1)
        write_events(tmp_path / "events", 1, first=4)
        query.processAllAvailable()
    finally:
        query.stop()
    done = check(tmp_path / "matches", 5 * EVENTS_PER_FILE)
    assert [batch.version for batch in done] == [1, 1, 2, 2, 1]
    read = spark.read.parquet(str(tmp_path / "matches"))
    assert read.columns == ["event_id", "rule", "index_version", "batch_id"]


def test_a_restarted_batch_keeps_its_version(
    spark: SparkSession, tmp_path: Path, index: Path
) -> None:
    write_events(tmp_path / "events", 1)
    run_all(spark, tmp_path, index)
    # The state after a kill before the rename, and before Spark recorded the end of the batch.
    for file in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        file.unlink()
    (tmp_path / "matches" / "batch_id=0").rename(tmp_path / "matches" / "_tamis" / "aside-0-x")
    ts.rollback(index, 2)
    run_all(spark, tmp_path, index)
    assert [batch.version for batch in check(tmp_path / "matches", EVENTS_PER_FILE)] == [1]


def test_a_complete_batch_is_skipped(spark: SparkSession, tmp_path: Path, index: Path) -> None:
    write_events(tmp_path / "events", 1)
    run_all(spark, tmp_path, index)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "matches").rglob("*.parquet")}
    for file in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        file.unlink()
    run_all(spark, tmp_path, index)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "matches").rglob("*.parquet")}
    assert after == before


def test_a_checkpoint_of_another_stream_is_refused(
    spark: SparkSession, tmp_path: Path, index: Path
) -> None:
    write_events(tmp_path / "events", 1)
    run_all(spark, tmp_path, index)
    others: list[dict[str, Any]] = [
        {"output": tmp_path / "matches", "checkpoint": tmp_path / "new"},
        {"output": tmp_path / "new-matches", "checkpoint": tmp_path / "checkpoint"},
    ]
    for folders in others:
        with pytest.raises(tamis.StorageError, match="does not belong to the checkpoint"):
            ts.match_stream(stream_of(spark, tmp_path / "events"), index, **folders)


def start_bad(spark: SparkSession, tmp_path: Path, index: Path, **options: Any) -> StreamingQuery:
    (tmp_path / "events").mkdir()
    places: dict[str, Any] = {"output": tmp_path / "matches", "checkpoint": tmp_path / "checkpoint"}
    return ts.match_stream(stream_of(spark, tmp_path / "events"), index, **places, **options)


def test_errors_are_raised_before_the_stream_starts(
    spark: SparkSession, tmp_path: Path, index: Path
) -> None:
    with pytest.raises(tamis.EventError, match="there is no column 'key'"):
        start_bad(spark, tmp_path, index, keys="key")
    with pytest.raises(tamis.StorageError, match="no such index"):
        ts.match_stream(
            stream_of(spark, tmp_path / "events"), tmp_path / "no", output="o", checkpoint="c"
        )
    table = spark.createDataFrame([(1, 2)], "event_id long, x long")
    with pytest.raises(tamis.EventError, match=r"spark\.readStream"):
        ts.match_stream(table, index, output="o", checkpoint="c")
    assert not (tmp_path / "matches").exists()
    with pytest.raises(tamis.StorageError, match="no stream writes here"):
        ts.batches(tmp_path)


@pytest.mark.slow
def test_killed_jobs_write_every_match_once(tmp_path: Path, index: Path) -> None:
    files = 6 * KILLS
    write_events(tmp_path / "events", files)
    folders = [str(tmp_path / name) for name in ("events", "index", "matches", "checkpoint")]
    kill_jobs(
        [sys.executable, str(SCRIPT), *folders],
        tmp_path / "log",
        before=lambda number: ts.rollback(index, 1 + number % 2),
        count_done=lambda: len(list((tmp_path / "matches").glob("batch_id=*"))),
    )
    check(tmp_path / "matches", files * EVENTS_PER_FILE)
