"""Pipelines over topics, tables of a catalog, Delta tables, and a PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tamis
from tamis import spark as ts
from tamis.cli import app
from tamis.spark.job.config import read_config
from tamis.spark.job.pipeline import Outcome, run_pipeline
from tests.parts.kafka import Broker, Record
from tests.parts.postgres import PASSWORD, USER, start_postgres
from tests.spark.indexes import read_rules, read_texts

RULES = [("cheap", "price < 10"), ("red", "colour = 'red'")]
EVENTS = [(1, 5.0, "red"), (2, 50.0, None), (3, None, "red")]
MATCHES = [(1, "cheap"), (1, "red"), (3, "red")]


@pytest.fixture
def db(spark: SparkSession) -> Iterator[str]:
    """A database of the catalog with a table of rules and one of events."""
    name = f"db_{uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {name}")
    rules = spark.createDataFrame(RULES, "id string, rule string")
    rules.write.saveAsTable(f"{name}.rules")
    events = spark.createDataFrame(EVENTS, "event_id long, price double, colour string")
    events.write.saveAsTable(f"{name}.events")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


def run(spark: SparkSession, folder: Path, text: str) -> Outcome:
    (folder / "job.toml").write_text(text)
    return run_pipeline(read_config(folder / "job.toml"), spark=spark)


def read_pairs(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    rows = spark.table(table).select("event_id", "rule").collect()
    return sorted(map(tuple, rows))


def test_a_batch_over_tables(spark: SparkSession, db: str, tmp_path: Path) -> None:
    job = f"""
        [rules]
        table = "{db}.rules"
        [events]
        table = "{db}.events"
        [index]
        path = "index"
        [output]
        matches = {{ table = "{db}.matches" }}
        counts = {{ table = "{db}.counts", format = "orc" }}
        top = {{ table = "{db}.top", n = 1 }}
        report = "report.html"
    """
    for _ in range(2):
        outcome = run(spark, tmp_path, job)
        assert read_pairs(spark, f"{db}.matches") == MATCHES
    assert outcome.written["matches"] == f"{db}.matches"
    assert spark.table(f"{db}.counts").count() == 3
    assert spark.table(f"{db}.top").count() == 2
    assert "cheap" in (tmp_path / "report.html").read_text()
    checked = CliRunner().invoke(app, ["pipeline", "check", str(tmp_path / "job.toml")])
    assert checked.stdout.splitlines()[:3] == [
        f"build index from the table {db}.rules",
        f"match the events of the table {db}.events with index",
        f"write matches to the table {db}.matches",
    ]


def test_a_stream_into_a_table_of_files(spark: SparkSession, db: str, tmp_path: Path) -> None:
    job = f"""
        mode = "stream"
        [rules]
        table = "{db}.rules"
        [events]
        table = "{db}.events"
        carry = "colour"
        [index]
        path = "index"
        [output]
        matches = {{ table = "{db}.matches" }}
        [stream]
        checkpoint = "checkpoint"
        trigger = "availableNow"
    """
    assert run(spark, tmp_path, job).batches == 1
    # The state after a kill between the write and the end of the batch: the batch is repeated.
    forget_end_of_batch(tmp_path / "checkpoint", 0)
    assert run(spark, tmp_path, job).batches == 1
    assert read_pairs(spark, f"{db}.matches") == MATCHES
    more = spark.createDataFrame([(4, 1.0, "blue")], "event_id long, price double, colour string")
    more.write.mode("append").saveAsTable(f"{db}.events")
    assert run(spark, tmp_path, job).batches == 2
    rows = {tuple(row) for row in spark.table(f"{db}.matches").collect()}
    assert (4, "blue", "cheap", 3, 1) in rows
    assert len(rows) == len(MATCHES) + 1
    with pytest.raises(tamis.StorageError, match="another stream has written this table"):
        run(spark, tmp_path, job.replace('"checkpoint"', '"other"'))
    with pytest.raises(tamis.StorageError, match="something else has written this table"):
        run(
            spark,
            tmp_path,
            job.replace("matches = {", "matches = {").replace(".matches", ".events"),
        )


def forget_end_of_batch(checkpoint: Path, number: int) -> None:
    for file in (checkpoint / "commits").glob(f"*{number}*"):
        file.unlink()
    log = checkpoint / "_tamis_batches" / str(number)
    log.write_text(log.read_text().replace('"done":true', '"done":false'))


KAFKA = """
    [rules]
    table = "{db}.rules"
    [events]
    topic = "{topic}"
    servers = "{servers}"
    [index]
    path = "index"
    [output]
    matches = {{ topic = "{topic}-matches", servers = "{servers}" }}
    dead_letters = {{ topic = "{topic}-dead", servers = "{servers}" }}
"""


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_events_from_a_topic_and_matches_to_another(
    spark: SparkSession, broker: Broker, db: str, tmp_path: Path, mode: str
) -> None:
    topic = broker.create_topic(f"events-{uuid4().hex[:8]}")
    broker.create_topic(f"{topic}-matches")
    broker.create_topic(f"{topic}-dead")
    values = [b'{"price": 5, "colour": "red"}', b"oops", b'{"price": 50}', None]
    broker.send(topic, [Record(str(n).encode(), value) for n, value in enumerate(values)])
    job = KAFKA.format(db=db, topic=topic, servers=broker.servers)
    if mode == "stream":
        stream = '[stream]\ncheckpoint = "checkpoint"\ntrigger = "availableNow"\n'
        job = f'mode = "stream"\n{job}\n{stream}'
    outcome = run(spark, tmp_path, job)
    assert outcome.written["matches"] == f"{topic}-matches"
    records = [json.loads(record.value or b"") for record in broker.read(f"{topic}-matches")]
    assert sorted((row["offset"], row["rule"]) for row in records) == [(0, "cheap"), (0, "red")]
    dead = broker.read(f"{topic}-dead")
    assert sorted(record.value or b"" for record in dead) == [b"", b"oops"]


def test_rules_from_postgres(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_postgres() as server:
        server.run(
            """
            CREATE TABLE rules (
                id text PRIMARY KEY, condition text NOT NULL, tags text[], payload jsonb,
                priority int, valid_from timestamptz
            );
            INSERT INTO rules VALUES
                ('cheap', 'price < 10', '{low,new}', '{"owner": "Ana"}', 3, '2024-01-01 00:00+00'),
                ('red', 'colour = ''red''', NULL, NULL, NULL, NULL),
                ('broken', 'price <', NULL, NULL, NULL, NULL);
            """
        )
        job = f"""
            [rules]
            jdbc = "{server.url}"
            table = "rules"
            rule = "condition"
            options = {{ user = "{USER}", password = {{ env = "TAMIS_TEST_PASSWORD" }} }}
            [index]
            path = "index"
        """
        with pytest.raises(tamis.InputFileError, match="the variable TAMIS_TEST_PASSWORD is not"):
            run(spark, tmp_path, job)
        monkeypatch.setenv("TAMIS_TEST_PASSWORD", PASSWORD)
        version = run(spark, tmp_path, job).version
    assert (version.rules, version.bad) == (2, 1)
    rules = read_rules(version)
    assert rules["cheap"].payload == {"owner": "Ana"}
    assert sorted(rules["cheap"].tags) == ["low", "new"]
    assert rules["cheap"].priority == 3
    assert rules["cheap"].valid_from is not None


def rules_table(ids: list[str], rules: list[str]) -> pa.Table:
    return pa.table({"id": ids, "rule": rules, "tags": [[f"tag-{id}"] for id in ids]})


def test_an_index_follows_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    rules = str(tmp_path / "rules")
    write_deltalake(
        rules,
        rules_table(["a", "b", "c"], ["x = 1", "x = 2", "x ="]),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    job = f'[rules]\npath = "{rules}"\nformat = "delta"\nfollow = true\n[index]\npath = "index"\n'
    version = run(spark, tmp_path, job).version
    assert (version.number, version.rules, version.bad) == (1, 2, 1)
    assert version.parameters["source"] == {"delta": rules, "version": 0}
    assert run(spark, tmp_path, job).version.number == 1
    table = DeltaTable(rules)
    table.delete("id = 'a'")
    table.update(predicate="id = 'b'", updates={"rule": "'x = 20'"})
    table.update(predicate="id = 'b'", updates={"rule": "'x = 21'"})
    write_deltalake(rules, rules_table(["d", "a"], ["x = 4", "x = 10"]), mode="append")
    DeltaTable(rules).delete("id = 'd'")
    version = run(spark, tmp_path, job).version
    assert (version.number, version.parent) == (2, 1)
    assert read_texts(version) == {"a": "x = 10", "b": "x = 21"}
    assert read_rules(version)["a"].tags == frozenset({"tag-a"})
    assert version.bad == 1
    ts.rollback(tmp_path / "index", 1)
    assert read_texts(ts.follow(spark, rules, tmp_path / "index")) == {"a": "x = 10", "b": "x = 21"}
    # What the index knows of another table says nothing about this one.
    other = str(tmp_path / "other")
    write_deltalake(other, pa.table({"id": ["z"], "rule": ["x = 9"]}))
    assert read_texts(ts.follow(spark, other, tmp_path / "index")) == {"z": "x = 9"}
    write_deltalake(other, pa.table({"id": ["y"], "rule": ["x = 8"]}), mode="append")
    with pytest.raises(tamis.StorageError, match="has no feed of its changes"):
        ts.follow(spark, other, tmp_path / "index")


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ('[events]\ntopic = "t"', "events.servers: the key is missing"),
        ('[events]\ntopic = "t"\ntable = "d.t"\nservers = "s"', "events.topic: there is events.ta"),
        ('[rules]\njdbc = "jdbc:x:y"\npath = "x.json"', "rules.table: the key is missing"),
        ('[rules]\nid = "id"', "rules.path: the key is missing; or name a table"),
        ('[rules]\njdbc = "j"\ntable = "t"\nfollow = true', "rules.follow: is for Delta"),
        ('[output]\nmatches = { topic = "t" }', "output.matches.servers: the key is missing"),
        ('[output]\nmatches = { format = "x" }', "output.matches: name one of path, table"),
        ('[output]\ncounts = { topic = "t", servers = "s" }', "output.counts.topic: only matches"),
        (
            '[output]\nreport = "r"\nmatches = { topic = "t", servers = "s" }',
            "output.report: a report needs matches in a folder or a table",
        ),
    ],
)
def test_errors_name_the_key(tmp_path: Path, keys: str, reason: str) -> None:
    rest = {"[index]": 'path = "i"', "[events]": 'table = "d.e"', "[output]": 'matches = "m"'}
    tables = [f"{table}\n{key}" for table, key in rest.items() if table not in keys]
    (tmp_path / "job.toml").write_text("\n".join([keys, *tables]))
    with pytest.raises(tamis.InputFileError) as caught:
        read_config(tmp_path / "job.toml")
    assert str(caught.value).startswith(f"{tmp_path / 'job.toml'}: {reason}")


def test_a_missing_connector_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    job = '[rules]\npath = "rules"\nformat = "delta"\n[index]\npath = "index"\n'
    with pytest.raises(tamis.MissingExtraError, match=r'"spark.jars.packages" = "io.delta:delta-'):
        run(spark, tmp_path, job)
    job = '[rules]\njdbc = "jdbc:mysql://x"\ntable = "t"\n[index]\npath = "index"\n'
    with pytest.raises(tamis.MissingExtraError, match=r"com\.mysql:mysql-connector-j"):
        run(spark, tmp_path, job)
