"""Building: shards have the rules and the matches of one matcher."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tamis
from tamis import Matcher, StorageError, UnknownEngineError
from tamis import spark as ts
from tamis.spark.index import jobs
from tamis.spark.index.shards import BuildSpec, build_shards, decode_report
from tamis.workloads import begen
from tests.spark.indexes import match_pairs, match_version, read_quarantine, read_rules, read_texts

WORKLOAD = begen.Workload(size=600, match_probability=0.01)
EVENTS = WORKLOAD.events_table(100)


def expected() -> set[tuple[int, str | int]]:
    matcher = Matcher()
    matcher.add_many(WORKLOAD.rules_table())
    found = match_pairs(matcher, EVENTS)
    assert found
    return found


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, as if there were millions of rules."""
    monkeypatch.setattr(jobs, "RULES_PER_SHARD", 300)
    monkeypatch.setattr(jobs, "RULES_PER_PIECE", 150)


def test_shards_have_all_rules(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame(WORKLOAD.rules_table().to_pandas())
    version = ts.build(table, tmp_path / "index", shards=3)
    assert version == ts.current(tmp_path / "index")
    assert (version.number, version.rules, version.bad, version.id_type) == (1, 600, 0, "long")
    assert (version.engine, version.logic, version.schema) == ("tiles", "strong", {})
    assert len(version.shards) == 3
    assert all(shard.rules > 100 for shard in version.shards)
    assert match_version(version, EVENTS) == expected()
    assert read_quarantine(version) == []
    # Files of other attempts are removed.
    assert {entry.name for entry in version.folder.iterdir()} == {
        "VERSION.json", "quarantine.parquet", "shard-0000", "shard-0001", "shard-0002",
    }  # fmt: skip
    assert spark.read.parquet(str(version.quarantine)).count() == 0


def test_large_shards_are_built_in_pieces(spark, tmp_path: Path, small_pieces: None) -> None:
    table = spark.createDataFrame(WORKLOAD.rules_table().to_pandas())
    bad = spark.createDataFrame([(-1, "a ="), (-2, "= 2")], "id long, rule string")
    version = ts.build(
        table.union(bad), tmp_path / "index", sample=spark.createDataFrame([(1,)], "a1 long")
    )
    assert len(version.shards) == 3
    assert match_version(version, EVENTS) == expected()
    assert [row[0] for row in read_quarantine(version)] == [-2, -1]
    assert {entry.name for entry in version.folder.iterdir()} == {
        "VERSION.json", "quarantine.parquet", "shard-0000", "shard-0001", "shard-0002",
    }  # fmt: skip
    for shard in version.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            assert matcher.stats()["engine"] == "tiles"
            assert matcher.stats()["segments"] == 1


def test_the_same_rules_give_the_same_hashes(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame(
        [(f"r{i}", f"x = {i}") for i in range(40)], "id string, rule string"
    )
    first = ts.build(table, tmp_path / "index", shards=2)
    again = ts.build(table, tmp_path / "index", shards=2)
    other = ts.build(table.where("id <> 'r7'"), tmp_path / "index", shards=2)
    assert [shard.hash for shard in first.shards] == [shard.hash for shard in again.shards]
    assert len({shard.hash for v in (again, other) for shard in v.shards}) == 3
    assert [v.parent for v in ts.versions(tmp_path / "index")] == [None, 1, 2]


def test_a_sample_of_events_changes_the_order_of_rules(spark, tmp_path: Path) -> None:
    # In the rules, a value of b is rarer than one of a; in these events it is not.
    rules = [(i, f"a = {i % 10} AND b = {i}") for i in range(200)]
    table = spark.createDataFrame(rules, "id long, rule string")
    sample = spark.createDataFrame([(a, 7) for a in range(3_000, 4_000)], "a long, b long")
    without = ts.build(table, tmp_path / "index", shards=1)
    by_sample = ts.build(table, tmp_path / "index", shards=1, sample=sample)
    assert without.shards[0].hash != by_sample.shards[0].hash
    events = [{"a": i % 10, "b": i} for i in range(0, 200, 7)]
    assert match_version(by_sample, events) == match_version(without, events)


def test_empty_shards_and_empty_tables(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1"), ("b", "x = 2")], "id string, rule string")
    version = ts.build(table, tmp_path / "index", shards=5)
    assert len(version.shards) == 5
    assert read_texts(version) == {"a": "x = 1", "b": "x = 2"}
    version = ts.build(table.limit(0), tmp_path / "index")
    assert (version.number, version.rules, len(version.shards)) == (2, 0, 1)
    assert read_texts(version) == {}


def test_rows_with_every_column(spark, tmp_path: Path) -> None:
    rows = [
        (
            "a",
            "x = 1 AND y > 0",
            "weak",
            '[["x", 1, 2.5], ["y > 0", 0.5]]',
            '{"to": ["me"]}',
            ["t", "u"],
        ),
        ("b", ' {"attr": "x", "in": [1, 2]}', None, None, None, None),
        ("c", "x > 0", None, None, "7", []),
    ]
    columns = "`the id` string, `a.rule` string, l string, w string, p string, t array<string>"
    version = ts.build(
        spark.createDataFrame(rows, columns), tmp_path / "index", id="the id", rule="a.rule",
        logic="l", weights="w", payload="p", tags="t", engine="sift", schema={"x": "integer"},
    )  # fmt: skip
    matcher = Matcher("sift", schema={"x": "integer"})
    matcher.add("a", "x = 1 AND y > 0", logic="weak", weights={("x", 1): 2.5, "y > 0": 0.5},
                payload={"to": ["me"]}, tags=["t", "u"])  # fmt: skip
    matcher.add("b", {"attr": "x", "in": [1, 2]})
    matcher.add("c", "x > 0", payload=7)
    found = read_rules(version)
    for id in "abc":
        have, want = found[id], matcher.rule(id)
        assert (have.text, have.logic, have.payload, have.tags) == (
            want.text, want.logic, want.payload, want.tags,
        )  # fmt: skip
    assert version.engine == "sift"
    assert version.schema == {"x": "integer"}
    with tamis.open(version.shards[0].path, read_only=True) as stored:
        event = {"x": 1, "y": 2}
        assert stored.top(event, 5) == matcher.top(event, 5)
        assert stored.top(event, 5)[0] == ("a", 3.0)
        assert set(stored.match(event, only=tamis.tagged("u"))) == {"a"}


def test_small_integers_are_ids_like_large_ones(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame([(i, f"x = {i}") for i in range(20)], "id int, rule string")
    version = ts.build(table, tmp_path / "index", shards=2, default_logic="weak")
    assert version.id_type == "long"
    wider = ts.build(table.selectExpr("cast(id as long) id", "rule"), tmp_path / "index", shards=2)
    for narrow, wide in zip(version.shards, wider.shards, strict=True):
        assert narrow.rules == wide.rules
    assert {rule.logic for rule in read_rules(version).values()} == {"weak"}


def test_other_folders_are_left_alone(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1")], "id string, rule string")
    Matcher().save(tmp_path / "matcher")
    with pytest.raises(StorageError, match="the rules of one matcher"):
        ts.build(table, tmp_path / "matcher")
    with pytest.raises(StorageError, match="no addresses that begin with ftp:"):
        ts.build(table, "ftp://cluster/index")


def test_arguments_are_checked_before_a_job_runs(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1")], "id string, rule string")
    path = tmp_path / "index"
    with pytest.raises(UnknownEngineError):
        ts.build(table, path, engine="warp")
    with pytest.raises(ValueError, match="'quarantine' or 'raise'"):
        ts.build(table, path, on_error="skip")  # type: ignore[arg-type]
    for shards in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="how many shards"):
            ts.build(table, path, shards=shards)  # type: ignore[arg-type]
    with pytest.raises(tamis.RuleError, match="'fuzzy'"):
        ts.build(table, path, default_logic="fuzzy")
    with pytest.raises(tamis.SchemaError):
        ts.build(table, path, schema={"x": "number"})
    assert not path.exists()


def test_spark_reads_the_quarantine(spark, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1"), ("b", "x =")], "id string, rule string")
    version = ts.build(table, tmp_path / "index")
    row = spark.read.parquet(str(version.quarantine)).collect()[0]
    assert (row.id, row.rule, row.position) == ("b", "x =", 3)


def test_executors_that_do_not_see_the_path_are_reported(tmp_path: Path) -> None:
    """Nothing is written, and the driver raises an error about the path."""
    aside = tmp_path / "index" / "versions" / ".aside-1"
    spec = BuildSpec(str(aside), "tiles", "strong", {}, "string", True, b"")
    rows = pa.record_batch({"id": ["a", "b"], "rule": ["x = 1", "x = 2"], "shard": [0, 1]})
    done = [decode_report(batch[0][0].as_py()) for batch in build_shards(spec, iter([rows]))]
    problems = [report.problem for report in done if report.problem]
    assert [problem.kind for problem in problems] == ["unseen", "unseen"]
    assert not aside.exists()
    with pytest.raises(StorageError, match="do not see the same files") as caught:
        jobs.raise_problems(problems, spec.folder, "id")
    assert caught.value.path == str(tmp_path / "index")
    aside.mkdir(parents=True)
    (built, _) = build_shards(spec, iter([rows]))
    report = decode_report(built[0][0].as_py())
    assert (report.shard, report.rules, report.problem) == (0, 1, None)
