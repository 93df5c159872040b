"""Files, SQL functions and pipeline stages give the same answers as `match`."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml import Pipeline, PipelineModel

import tamis
from tamis import spark as ts
from tamis.errors import EventError, InputFileError, StorageError
from tamis.spark.match.transformer import RuleMatcher
from tests.spark.indexes import publish_rules

RULES = [
    ("cheap", "price < 10"),
    ("paris", "city = 'Paris' AND tags = 'new'"),
    ("far", "city NOT IN ('Paris', 'Lyon')"),
    ("home", "home.zip >= 2"),
    ("late", "seen > TIMESTAMP '2024-06-01 00:00:00'"),
    ("none", "city IS NULL"),
]


def make_table(size: int = 300) -> pa.Table:
    cities = ["Paris", "Lyon", "Nice", None]
    return pa.table(
        {
            "id": pa.array(range(size), pa.int64()),
            "day": pa.array([i % 28 for i in range(size)], pa.int16()),
            "price": pa.array([None if i % 7 == 0 else i % 25 for i in range(size)], pa.int32()),
            "city": pa.array([cities[i % 4] for i in range(size)]),
            "tags": pa.array([["new", "old"][: i % 3] for i in range(size)]),
            "home": pa.array([{"zip": i % 5} if i % 2 else None for i in range(size)]),
            "seen": pa.array(
                [datetime(2024, 1 + i % 12, 1, tzinfo=UTC) for i in range(size)],
                pa.timestamp("us", "UTC"),
            ),
            "picture": pa.array([b"x"] * size),
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "index"
    publish_rules(path, RULES, shards=2)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, one with several row groups, and one that Spark ignores."""
    folder = tmp_path_factory.mktemp("events")
    pq.write_table(TABLE.slice(0, 200), folder / "a.parquet", row_group_size=90)
    pq.write_table(TABLE.slice(200), folder / "b.parquet")
    (folder / "_draft.parquet").write_bytes(b"nothing")
    return folder


@pytest.fixture(scope="module")
def expected() -> list[tuple]:
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    found = matcher.match_many(TABLE).to_pydict()
    pairs = sorted(zip(found["event"], found["rule"], strict=True))
    assert {rule for _, rule in pairs} == {rule for rule, _ in RULES}
    return pairs


def pairs(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_workers_read_files(spark, index: Path, files: Path, expected: list[tuple]) -> None:
    assert pairs(ts.match_files(spark, files, index)) == expected
    both = [files / "b.parquet", files / "a.parquet"]
    counted = ts.match_files(spark, both, index, ask="counts", keys=["day", "id"])
    assert counted.dtypes == [("day", "smallint"), ("id", "bigint"), ("matches", "bigint")]
    assert sum(row.matches for row in counted.collect()) == len(expected)
    best = ts.match_files(spark, files, index, ask="top", n=1)
    frame = spark.read.parquet(str(files))
    assert pairs(best) == pairs(ts.top(frame, index, 1))


def test_large_row_groups_are_sliced(
    spark, index: Path, files: Path, expected: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    # `tamis.spark.match` is the function.
    monkeypatch.setattr(import_module("tamis.spark.match.files"), "_BATCH_SIZE", 16)
    answers = ts.match_files(spark, files, index)
    assert answers.rdd.getNumPartitions() > 4
    assert pairs(answers) == expected


def test_bad_files_are_named(spark, index: Path, files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        ts.match_files(spark, tmp_path / "nothing.parquet", index)
    with pytest.raises(InputFileError, match="no Parquet files"):
        ts.match_files(spark, tmp_path, index)
    with pytest.raises(InputFileError, match="not a Parquet file: "):
        ts.match_files(spark, files / "_draft.parquet", index)
    with pytest.raises(EventError, match="there is no column 'key'"):
        ts.match_files(spark, files, index, keys="key")
    with pytest.raises(ValueError, match="ask is"):
        ts.match_files(spark, files, index, ask="all")  # type: ignore[arg-type]


def test_an_sql_function(spark, index: Path, files: Path, expected: list[tuple]) -> None:
    spark.read.parquet(str(files)).drop("picture").createOrReplaceTempView("events")
    ts.register(spark, index, keys="id BIGINT")
    assert pairs(spark.sql("SELECT * FROM tamis_match(TABLE(events))")) == expected
    ts.register(spark, index, "tamis_counts", ask="counts")
    counted = spark.sql("SELECT id, matches FROM tamis_counts(TABLE(events)) WHERE matches > 0")
    assert counted.dtypes[0] == ("id", "string")
    assert sum(row.matches for row in counted.collect()) == len(expected)
    ts.register(spark, index, "tamis_json", keys="id BIGINT", events="text")
    best = spark.sql(
        "SELECT * FROM tamis_json(TABLE(SELECT id, to_json(struct(price)) AS text FROM events))"
    )
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    assert pairs(best) == [
        (row, rule)
        for row, price in enumerate(TABLE["price"].to_pylist())
        for rule in sorted(matcher.match({"price": price}))
    ]


def test_an_sql_function_reports_errors(spark, index: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such index"):
        ts.register(spark, tmp_path / "nowhere")
    with pytest.raises(EventError, match="already have a column 'rule'"):
        ts.register(spark, index, keys="rule STRING")
    ts.register(spark, index, "tamis_other", keys="key STRING")
    with pytest.raises(EventError, match="there is no column 'key'"):
        spark.sql("SELECT * FROM tamis_other(TABLE(SELECT 1 AS id))").collect()


def test_a_stage_is_saved_and_loaded(
    spark, index: Path, files: Path, expected: list[tuple], tmp_path: Path
) -> None:
    frame = spark.read.parquet(str(files))
    stage = RuleMatcher(path=index, keys=["id"], events=["price", "city", "tags", "home", "seen"])
    fitted = Pipeline(stages=[stage]).fit(frame)
    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert isinstance(loaded.stages[0], RuleMatcher)
    assert pairs(loaded.transform(frame)) == expected
    counted = RuleMatcher(path=index, ask="counts", keys="id").transform(frame)
    assert counted.columns == ["id", "matches"]
    best = stage.copy({stage.ask: "top", stage.n: 1}).transform(frame)
    assert best.columns == ["id", "rank", "rule", "score"]
    with pytest.raises(ValueError, match="ask is"):
        stage.copy({stage.ask: "all"}).transform(frame)
