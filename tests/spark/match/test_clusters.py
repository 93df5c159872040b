"""Matching outside of local mode: a Connect server, and a cluster of two workers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tamis
from tests.spark.cluster import daemon, environment, jvm_options, wait_for_line
from tests.spark.connect_port import connect_port, wait_for_port
from tests.spark.indexes import publish_rules

RULES = [(f"r{i}", f"a = {i % 7} AND b <> 'b{i % 3}'") for i in range(50)]

QUERY = """
    from pyspark.sql import functions as F
    from tamis import spark as ts

    events = spark.range(200).select(
        "id", (F.col("id") % 9).alias("a"), F.concat(F.lit("b"), F.col("id") % 4).alias("b")
    ).repartition(4)
    for options in ({{}}, {{"ship": True, "plan": "sharded"}}):
        rows = ts.match(events, {index!r}, **options).collect()
        print(*sorted(f"{{row.id}}:{{row.rule}}" for row in rows))
    print(sum(row.matches for row in ts.counts(events, {index!r}, plan="sharded").collect()))
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    publish_rules(tmp_path / "index", RULES, shards=2)
    return tmp_path / "index"


def expected_lines() -> list[str]:
    """The lines that `QUERY` has to print."""
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    events = [{"id": i, "a": i % 9, "b": f"b{i % 4}"} for i in range(200)]
    found = [(event["id"], matcher.match(event)) for event in events]
    line = " ".join(sorted(f"{id}:{rule}" for id, rules in found for rule in rules))
    return [line, line, str(sum(len(rules) for _, rules in found))]


def run(script: str, folder: Path) -> list[str]:
    """Run a script and return its lines; retry if Spark gave up waiting for a worker to start."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if "waiting for the Python worker to connect back" not in done.stderr:
            break
        wait_for_port()
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.strip().splitlines()


@pytest.mark.slow
def test_matching_through_spark_connect(index: Path, tmp_path: Path) -> None:
    script = """
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        spark.conf.set("spark.sql.shuffle.partitions", 4)
    """
    sql = """
        assert type(spark).__module__ == "pyspark.sql.connect.session"
        ts.register(spark, {index!r}, keys="id BIGINT")
        events.createOrReplaceTempView("events")
        rows = spark.sql("SELECT * FROM tamis_match(TABLE(events))").collect()
        print(*sorted(f"{{row.id}}:{{row.rule}}" for row in rows))
    """
    others = """
        found = ts.ratify(events, {index!r}, sample_events=50, sample_rules=50)
        print(found.events, found.rules, len(found.differences))
        matches = ts.match(events, {index!r})
        ts.report(matches, events=events, path="report.html")
        events.write.mode("overwrite").parquet("events")
        stream = spark.readStream.schema(events.schema).parquet("events")
        query = ts.match_stream(
            stream, {index!r}, output="found", checkpoint="checkpoint", trigger="availableNow"
        )
        query.awaitTermination()
        rows = spark.read.parquet("found").collect()
        print(*sorted(f"{{row.id}}:{{row.rule}}" for row in rows))
        spark.stop()
    """
    parts = [script, *(part.format(index=str(index)) for part in (QUERY, sql, others))]
    with connect_port():
        lines = run("\n".join(map(textwrap.dedent, parts)), tmp_path)
    matches = expected_lines()[0]
    assert lines == [*expected_lines(), matches, "50 50 0", matches]
    assert "</html>" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_cluster_of_two_workers(index: Path, tmp_path: Path) -> None:
    deploy = "org.apache.spark.deploy"
    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    limits = ["--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / "work")]
    logs = [tmp_path / name for name in ("master", "first", "second")]
    with daemon(f"{deploy}.master.Master", *place, log=logs[0]) as master:
        address = wait_for_line(logs[0], r"Starting Spark master at (spark://\S+)", master)
        worker = [f"{deploy}.worker.Worker", *place, *limits, address]
        with daemon(*worker, log=logs[1]) as first, daemon(*worker, log=logs[2]) as second:
            wait_for_line(logs[1], "(Successfully registered)", first)
            wait_for_line(logs[2], "(Successfully registered)", second)
            script = f"""
                from pyspark.sql import SparkSession

                spark = (
                    SparkSession.builder.master({address!r})
                    .config("spark.driver.host", "127.0.0.1")
                    .config("spark.driver.memory", "512m")
                    .config("spark.executor.memory", "512m")
                    .config("spark.executor.extraJavaOptions", {jvm_options()!r})
                    .config("spark.python.daemon.module", "tamis.spark.runtime.daemon")
                    .config("spark.sql.shuffle.partitions", 4)
                    .config("spark.ui.enabled", False)
                    .getOrCreate()
                )
            """
            retried = """
                import os
                from pyspark import TaskContext

                def die_once(batches):
                    if TaskContext.get().attemptNumber() == 0:
                        os._exit(1)
                    yield from batches

                rows = ts.match(events.mapInArrow(die_once, events.schema), {index!r}).collect()
                print(*sorted(f"{{row.id}}:{{row.rule}}" for row in rows))
            """
            end = """
                executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
                print(len(executors) - 1)
                spark.stop()
            """
            queries = [part.format(index=str(index)) for part in (QUERY, retried)]
            lines = run("\n".join(map(textwrap.dedent, [script, *queries, end])), tmp_path)
    assert lines == [*expected_lines(), expected_lines()[0], "2"]
