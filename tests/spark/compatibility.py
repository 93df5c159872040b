"""What works with the PySpark of this environment: prints a line for each part that was tried.

``make compatibility`` runs it with several versions of PySpark, each in an environment of its own;
docs/reference/tables.md has the results.

Usage: python compatibility.py FOLDER PART…, where a part is one of those in `PARTS`
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tamis import spark as ts

RULES = [("cheap", "price < 10"), ("red", "colour = 'red'")]
EVENTS = [(1, 5.0, "red"), (2, 50.0, None), (3, None, "red")]
SCHEMA = "event_id long, price double, colour string"
MATCHES = [(1, "cheap"), (1, "red"), (3, "red")]

LAKES = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}


def start(folder: Path, parts: list[str]) -> SparkSession:
    """Start a session with the settings of all parts."""
    conf = {name: value for part in parts for name, value in LAKES.get(part, {}).items()}
    if "iceberg" in parts:
        conf["spark.sql.catalog.lake.warehouse"] = str(folder / "lake")
    conf |= {
        "spark.jars": os.environ.get("TAMIS_JARS", ""),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
    }
    return ts.local_session(2, memory="1g", **conf)


def pairs(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.select(*(names or ("event_id", "rule"))).collect()))


def build(spark: SparkSession, folder: Path) -> Path:
    ts.build(spark.createDataFrame(RULES, "id string, rule string"), folder / "index")
    return folder / "index"


def try_tables(spark: SparkSession, folder: Path) -> None:
    """Build, match, rank, update."""
    index, events = build(spark, folder), spark.createDataFrame(EVENTS, SCHEMA)
    assert pairs(ts.match(events, index)) == MATCHES
    assert pairs(ts.counts(events, index), "event_id", "matches") == [(1, 2), (2, 0), (3, 1)]
    assert ts.top(events, index, 1).count() == 2
    changes = spark.createDataFrame(
        [("cheap", None, True)], "id string, rule string, deleted boolean"
    )
    assert ts.update(index, changes).rules == 1
    ts.register(spark, index, keys="event_id BIGINT")
    events.createOrReplaceTempView("events")
    found = spark.sql("SELECT * FROM tamis_match(TABLE(events))")
    assert pairs(found) == [(1, "red"), (3, "red")]


def try_stream(spark: SparkSession, folder: Path) -> None:
    """Match a stream of files into a folder."""
    index = build(spark, folder)
    spark.createDataFrame(EVENTS, SCHEMA).write.parquet(str(folder / "events"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "events"))
    places: Any = {"output": folder / "matches", "checkpoint": folder / "checkpoint"}
    ts.match_stream(stream, index, trigger="availableNow", **places).awaitTermination()
    assert pairs(spark.read.parquet(str(folder / "matches"))) == MATCHES


def try_connect(spark: SparkSession, folder: Path) -> None:
    """The same tables by Spark Connect."""
    assert "connect" in type(spark).__module__
    try_tables(spark, folder)


def try_kafka(spark: SparkSession, folder: Path) -> None:
    """From a topic to a topic."""
    from tests.parts.kafka import Record, start_broker

    index = build(spark, folder)
    (folder / "kafka").mkdir()
    with start_broker(folder / "kafka") as broker:
        for topic in ("events", "matches"):
            broker.create_topic(topic)
        broker.send("events", [Record(b"k", b'{"price": 5}', (("h", b"v"),))])
        stream = ts.read_kafka(spark, "events", servers=broker.servers)
        output, checkpoint = ts.Topic("matches", broker.servers), folder / "checkpoint"
        ts.match_stream(
            stream, index, output=output, checkpoint=checkpoint, trigger="availableNow"
        ).awaitTermination()
        (record,) = broker.read("matches")
        assert b'"rule":"cheap"' in (record.key or b"")
        assert record.headers[0] == ("h", b"v")


def try_lake(spark: SparkSession, folder: Path, part: str) -> None:
    """Rules, events and matches in tables of a format, and a batch that is repeated."""
    db = "lake.db" if part == "iceberg" else "db"
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {db}")
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)" if part == "delta" else ""
    spark.sql(f"CREATE TABLE {db}.rules (id STRING, rule STRING) USING {part} {feed}")
    rules = spark.createDataFrame(RULES, "id string, rule string")
    rules.writeTo(f"{db}.rules").append()
    spark.sql(f"CREATE TABLE {db}.events ({SCHEMA}) USING {part}")
    spark.createDataFrame(EVENTS, SCHEMA).writeTo(f"{db}.events").append()
    index = folder / "index"
    if part == "delta":
        assert ts.follow(spark, f"{db}.rules", index).number == 1
    else:
        ts.build(spark.table(f"{db}.rules"), index)
    output = ts.Table(f"{db}.matches", part)

    def run() -> list[tuple[Any, ...]]:
        stream = spark.readStream.table(f"{db}.events")
        places: Any = {"output": output, "checkpoint": folder / "checkpoint"}
        query = ts.match_stream(stream, index, trigger="availableNow", **places)
        query.awaitTermination()
        spark.catalog.refreshTable(output.name)
        return pairs(spark.table(output.name))

    assert run() == MATCHES
    forget_end(folder / "checkpoint")
    assert run() == MATCHES, "a batch that is repeated was written twice"
    spark.sql(f"INSERT INTO {db}.events VALUES (4, 1.0, 'blue')")
    found = run()
    assert found == [*MATCHES, (4, "cheap")], found
    if part == "delta":
        follow_changes(spark, db, index)


def forget_end(checkpoint: Path) -> None:
    """The state after a kill between the write and the end of the first batch."""
    for file in (checkpoint / "commits").glob("*0*"):
        file.unlink()
    log = checkpoint / "_tamis_batches" / "0"
    log.write_text(log.read_text().replace('"done":true', '"done":false'))


def follow_changes(spark: SparkSession, db: str, index: Path) -> None:
    """Apply the changes of a Delta table to the index."""
    assert ts.follow(spark, f"{db}.rules", index).number == 1
    spark.sql(f"DELETE FROM {db}.rules WHERE id = 'red'")
    spark.sql(f"UPDATE {db}.rules SET rule = 'price < 2' WHERE id = 'cheap'")
    spark.sql(f"INSERT INTO {db}.rules VALUES ('blue', 'price > 2')")
    version = ts.follow(spark, f"{db}.rules", index)
    assert (version.number, version.parent, version.rules) == (2, 1, 2)
    events = spark.createDataFrame([(1, 5.0, "blue"), (2, 1.0, "red")], SCHEMA)
    assert pairs(ts.match(events, index)) == [(1, "blue"), (2, "cheap")]


PARTS: dict[str, Callable[[SparkSession, Path], None]] = {
    "tables": try_tables,
    "stream": try_stream,
    "connect": try_connect,
    "kafka": try_kafka,
    "delta": lambda spark, folder: try_lake(spark, folder, "delta"),
    "iceberg": lambda spark, folder: try_lake(spark, folder, "iceberg"),
}


def main() -> None:
    folder, *parts = Path(sys.argv[1]), *sys.argv[2:]
    if parts == ["connect"]:
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        spark = start(folder, parts)
    for part in parts:
        place = folder / part
        place.mkdir()
        try:
            PARTS[part](spark, place)
            result = "works"
        except Exception as error:
            traceback.print_exc()
            result = f"fails: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        sys.stdout.write(f"PySpark {pyspark.__version__}  {part:<8} {result}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
