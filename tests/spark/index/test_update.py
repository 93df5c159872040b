"""Updating: the rules of a rebuild, but only changed shards are new."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tamis
from tamis import DuplicateRuleError, RuleError, RuleSyntaxError, StorageError
from tamis import spark as ts
from tests.spark.indexes import match_pairs, match_version, read_quarantine, read_rules, read_texts

RULES = "id string, rule string"
CHANGES = "id string, rule string, deleted boolean"


def table(spark, rules: dict[str, str]):
    return spark.createDataFrame(list(rules.items()), RULES)


def make_rules(count: int) -> dict[str, str]:
    return {f"r{i}": f"x = {i % 7} OR y > {i}" for i in range(count)}


def files(shard: ts.Shard) -> dict[str, int]:
    return {file.name: file.stat().st_ino for file in Path(shard.path).iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_an_update_equals_a_rebuild(spark, path: Path) -> None:
    rng = random.Random(7)
    rules = make_rules(200)
    ts.build(table(spark, rules), path, shards=4)
    events = pa.table({"x": [*range(8), None], "y": [rng.randrange(200) for _ in range(9)]})
    for step in range(2):
        gone = rng.sample(sorted(rules), 10)
        changed = dict.fromkeys(rng.sample(sorted(rules.keys() - set(gone)), 10), f"x <> {step}")
        new = {f"new{step}.{i}": f"y BETWEEN {i} AND {10 * i}" for i in range(10)}
        changes = [
            *((id, None, True) for id in gone),
            *((id, rule, None) for id, rule in changed.items()),
            *((id, rule, False) for id, rule in new.items()),
            ("never there", None, True),
        ]
        version = ts.update(path, spark.createDataFrame(changes, CHANGES))
        rules = {id: rule for id, rule in rules.items() if id not in gone} | changed | new
        assert read_texts(version) == rules
        matcher = tamis.Matcher()
        matcher.add_many(rules)
        assert match_version(version, events) == match_pairs(matcher, events)
        assert version == ts.current(path)
        assert version.parent == step + 1
    rebuilt = ts.build(table(spark, rules), path, shards=4)
    assert [s.rules for s in rebuilt.shards] == [s.rules for s in version.shards]
    assert len(read_texts(ts.version(path, 1))) == 200


def test_only_changed_shards_are_built(spark, path: Path) -> None:
    before = ts.build(table(spark, make_rules(100)), path, shards=4)
    contents = [files(shard) for shard in before.shards]
    after = ts.update(path, spark.createDataFrame([("r5", "x = 500", False)], CHANGES))
    same = [a == b for a, b in zip(before.shards, after.shards, strict=True)]
    assert sorted(same) == [False, True, True, True]
    assert [files(shard) for shard in before.shards] == contents
    new = after.shards[same.index(False)]
    assert new.path.is_relative_to(after.folder)
    assert {entry.name for entry in after.folder.iterdir()} == {
        "VERSION.json", "quarantine.parquet", new.path.name,
    }  # fmt: skip
    with tamis.open(new.path, read_only=True, verify=True) as matcher:
        assert matcher.stats()["segments"] == 1
        assert matcher.rule("r5").text == "x = 500"
    # The old version is unchanged, and its shared shards stay when it is removed.
    assert read_texts(before) == make_rules(100)
    assert ts.forget(path) == [1]
    assert read_texts(ts.current(path)) == {**make_rules(100), "r5": "x = 500"}


def test_changes_that_change_nothing(spark, path: Path) -> None:
    before = ts.build(table(spark, make_rules(10)), path, shards=2)
    changes = [("unknown", None, True), ("r1", "x =", False)]
    after = ts.update(path, spark.createDataFrame(changes, CHANGES))
    assert after.shards == before.shards
    assert after.number == 2
    # A refused change leaves the rule as it was.
    assert read_texts(after) == make_rules(10)
    assert [row[0] for row in read_quarantine(after)] == ["r1"]


def test_the_quarantine_follows_the_rules(spark, path: Path) -> None:
    bad = {f"bad{i}": f"x = {i} AND" for i in range(10)}
    ts.build(table(spark, make_rules(10) | bad), path, shards=3)
    changes = [("bad1", "x = 1", False), ("bad2", None, True), ("bad3", "y >", False)]
    version = ts.update(path, spark.createDataFrame(changes, CHANGES))
    assert read_texts(version) == {**make_rules(10), "bad1": "x = 1"}
    left = {id: rule for id, rule in bad.items() if id not in ("bad1", "bad2")}
    assert {row[0]: row[1] for row in read_quarantine(version)} == {**left, "bad3": "y >"}
    everything = [(f"bad{i}", None, True) for i in range(10)]
    version = ts.update(path, spark.createDataFrame(everything, CHANGES))
    assert read_quarantine(version) == []


def test_an_update_after_a_rollback(spark, path: Path) -> None:
    ts.build(table(spark, {"a": "x = 1"}), path)
    ts.build(table(spark, {"b": "x = 2"}), path)
    ts.rollback(path, 1)
    version = ts.update(path, table(spark, {"c": "x = 3"}), delete=None)
    assert (version.number, version.parent) == (3, 1)
    assert read_texts(version) == {"a": "x = 1", "c": "x = 3"}


def test_rows_with_every_column(spark, path: Path) -> None:
    ts.build(table(spark, {"a": "x = 1"}), path, default_logic="weak", engine="sift")
    rows = [("a", '{"attr": "x", "=": 2}', "strong", '[["x", 2, 4.0]]', "[1]", ["new"])]
    columns = f"{RULES}, l string, w string, p string, t array<string>"
    version = ts.update(
        path, spark.createDataFrame(rows, columns), delete=None,
        logic="l", weights="w", payload="p", tags="t",
    )  # fmt: skip
    assert (version.logic, version.engine) == ("weak", "sift")
    rule = read_rules(version)["a"]
    assert (rule.text, rule.logic, rule.payload) == ("x = 2", "strong", [1])
    assert rule.tags == {"new"}
    with tamis.open(version.shards[0].path, read_only=True) as matcher:
        assert matcher.top({"x": 2}) == [("a", 4.0)]


def test_bad_changes_are_refused(spark, path: Path) -> None:
    changes = spark.createDataFrame([("a", "x = 1", False)], CHANGES)
    with pytest.raises(StorageError, match="there is no such index"):
        ts.update(path, changes)
    before = ts.build(table(spark, make_rules(10)), path, shards=2)
    with pytest.raises(RuleError, match=r"changes has no column 'deleted'.* pass delete=None"):
        ts.update(path, changes.drop("deleted"))
    with pytest.raises(RuleError, match=r"'id' has ids of type long, .* of type string; cast it"):
        ts.update(path, changes.selectExpr("1 as id", "rule", "deleted"))
    with pytest.raises(RuleError, match="deleted has to be a boolean"):
        ts.update(path, changes.selectExpr("id", "rule", "'no' as deleted"))
    with pytest.raises(DuplicateRuleError, match="2 rows share an id"):
        ts.update(path, changes.union(changes))
    with pytest.raises(RuleError, match="'id' is null in 1 row"):
        ts.update(path, changes.selectExpr("cast(null as string) id", "rule", "deleted"))
    with pytest.raises(RuleSyntaxError, match="rule 'a'"):
        ts.update(path, changes.selectExpr("id", "'x =' as rule", "deleted"), on_error="raise")
    assert ts.versions(path) == [before]
    assert len(list((path / "versions").iterdir())) == 1
