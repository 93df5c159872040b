"""Workers write answers to files: the same answers, all of them or none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis import spark as ts
from tamis.errors import EventError, InputFileError
from tamis.spark.match.answer_files import AnswerFolder
from tests.spark.indexes import publish_rules

RULES = [("low", "x < 40"), ("even", "parity = 'even'"), ("both", "x < 20 AND parity = 'odd'")]
COUNT = 100


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "events.parquet"
    table = pa.table(
        {
            "id": [f"e{i}" for i in range(COUNT)],
            "at": pa.array([datetime(2026, 1, 1 + i % 28, tzinfo=UTC) for i in range(COUNT)]),
            "x": range(COUNT),
            "parity": [("even", "odd")[i % 2] for i in range(COUNT)],
        }
    )
    pq.write_table(table, path, row_group_size=30)
    return path


@pytest.fixture(scope="module", params=["texts", "numbers", "shards"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "index"
    rules: list[tuple[Any, str]] = list(RULES)
    if request.param == "numbers":
        rules = [(number, text) for number, (_, text) in enumerate(RULES)]
    publish_rules(path, rules, shards=2 if request.param == "shards" else 1)
    return path


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.collect())


@pytest.mark.parametrize(
    "options",
    [{}, {"form": "lists"}, {"ask": "counts"}, {"ask": "top", "n": 2}, {"plan": "sharded"},
     {"plan": "sharded", "ask": "counts"}],
    ids=lambda options: "-".join(map(str, options.values())) or "match",
)  # fmt: skip
def test_written_answers_are_those_that_are_returned(
    spark, index: Path, events: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    keys, output = ["id", "at"], tmp_path / "answers"
    expected = ts.match_files(spark, events, index, keys=keys, **options)
    before = ts.metrics(spark).matches
    found = ts.match_files(spark, events, index, keys=keys, output=output, **options)
    written = ts.metrics(spark).matches - before
    assert found.schema == expected.schema
    assert rows(found) == rows(expected) != []
    assert written == found.count() or options.get("plan") == "sharded"
    assert [path.name for path in tmp_path.iterdir()] == ["answers"]
    assert (output / "_SUCCESS").exists()
    assert set(spark.read.parquet(str(output)).columns) == set(found.columns)


def test_an_index_without_matches(spark, events: Path, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("never", "x < 0")])
    found = ts.match_files(spark, events, tmp_path / "index", output=tmp_path / "answers")
    assert found.columns == ["id", "rule"]
    assert found.collect() == []


def test_an_output_is_never_overwritten(spark, index: Path, events: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    with pytest.raises(InputFileError, match="already") as caught:
        ts.match_files(spark, events, index, output=tmp_path / "precious")
    assert caught.value.path == str(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "data"
    with pytest.raises(InputFileError, match="write the table that is returned"):
        ts.match_files(spark, events, index, output="s3://bucket/answers")


def test_a_failed_query_leaves_nothing(spark, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("low", "x < 10")])
    bad = pa.table({"id": [1], "event": ['{"x": ']})
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(EventError, match="event id=1"):
        ts.match_files(
            spark, tmp_path / "bad.parquet", tmp_path / "index",
            events="event", output=tmp_path / "answers",
        )  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"index", "bad.parquet"}


def test_files_of_failed_attempts_are_left_out(spark, tmp_path: Path) -> None:
    """An attempt that ends before its report, and another one that takes its place."""
    folder = AnswerFolder.create(tmp_path / "answers", 1)
    batch = pa.record_batch([[1, 2], ["a", "b"]], ["id", "rule"])
    lost = next(folder.write("part-00000", [batch]))
    report = next(folder.write("part-00000", [batch]))
    assert lost["file"] != report["file"]
    folder.finish(spark.createDataFrame(report.to_pandas()))
    names = sorted(path.name for path in (tmp_path / "answers").iterdir())
    assert names == ["_SUCCESS", report["file"][0].as_py()]
    assert pq.read_table(tmp_path / "answers").to_pydict() == {"id": [1, 2], "rule": ["a", "b"]}
