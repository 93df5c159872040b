"""Ratifying: a correct index agrees; for a wrong one, rule and event are reported."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis import spark as ts
from tests.spark.indexes import publish_rules

RANDOM = Random(3)
RULES = [
    (f"r{n}", text)
    for n in range(60)
    for text in [
        RANDOM.choice(
            [
                f"x < {n} AND NOT (place = 'Rome' OR place IS NULL)",
                f"x >= {n} OR tags IN ('t{n % 4}', 't9')",
                f"seen > TIMESTAMP '2026-01-{n % 28 + 1:02} 00:00:00' AND place LIKE 'P%'",
                f"NOT (x BETWEEN {n} AND {n + 9}) AND deep.y <> {n % 3}",
            ]
        )
    ]
]
EVENTS = [
    (
        n,
        n * 7 % 61 if n % 5 else None,
        RANDOM.choice(["Rome", "Paris", "Oslo", None]),
        [f"t{n % 6}", f"t{n % 4}"] if n % 3 else None,
        datetime(2026, 1, n % 28 + 1, tzinfo=UTC),
        (n % 4,),
    )
    for n in range(300)
]
TYPES = "id int, x int, place string, tags array<string>, seen timestamp, deep struct<y: int>"


def reshape(events: DataFrame, shape: str) -> tuple[DataFrame, dict[str, Any]]:
    """Put the events into columns, or into one column."""
    if shape == "flat":
        return events, {}
    whole = F.struct(*[name for name in events.columns if name != "id"])
    column = F.to_json(whole.dropFields("seen")) if shape == "json" else whole
    return events.select("id", column.alias("doc")), {"events": "doc", "keys": ["id"]}


@pytest.mark.parametrize("shape", ["flat", "struct", "json"])
def test_a_correct_index_agrees(shape: str, spark: SparkSession, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", RULES, shards=2)
    events, options = reshape(spark.createDataFrame(EVENTS, TYPES), shape)
    found = ts.ratify(events, tmp_path / "index", sample_events=250, **options)
    assert found == ts.Ratification(version=1, rules=60, events=250, differences=[])
    assert found.agrees


def test_rules_about_documents_agree_without_documents(spark: SparkSession, tmp_path: Path) -> None:
    rules = [
        ("all", "x < ALL (SELECT d.x FROM seen d)"),
        ("not any", "NOT x < ANY (SELECT d.x FROM seen d WHERE d.place = place)"),
        ("none", "(SELECT COUNT(*) FROM seen d) = 0"),
        ("no sum", "(SELECT SUM(d.x) FROM seen d) IS NULL"),
        ("no sum either", "NOT (SELECT SUM(d.x) FROM seen d) > 3"),
        ("exists", "EXISTS (SELECT 1 FROM seen d) OR x > 30"),
    ]
    publish_rules(tmp_path / "index", rules)
    found = ts.ratify(spark.createDataFrame(EVENTS, TYPES), tmp_path / "index", sample_events=60)
    assert (found.rules, found.events, found.differences) == (6, 60, [])


def test_differences_name_rule_and_event(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = publish_rules(tmp_path / "other", [("low", "x < 10"), ("high", "x > 20")])
    publish_rules(tmp_path / "index", [("low", "x < 12"), ("high", "x > 20")])
    module = import_module("tamis.spark.ratify")
    sample_rules = module._sample_rules
    # The index then seems to have other conditions than its rules.
    monkeypatch.setattr(module, "_sample_rules", lambda _, *rest: sample_rules(other, *rest))
    events = spark.createDataFrame([(n, n, n) for n in range(30)], "id int, `a.b` int, x int")
    found = ts.ratify(events, tmp_path / "index", keys=["id", "a.b"])
    assert sorted(found.differences, key=lambda difference: difference.keys["id"]) == [
        ts.Difference("low", "x < 10", {"id": n, "a.b": n}, {"x": n}, found=True, holds=False)
        for n in (10, 11)
    ]
    assert not found.agrees
    limited = ts.ratify(events, tmp_path / "index", keys="id", limit=1)
    assert len(limited.differences) == 1
