"""The figures of a report on Spark equal those counted in Python."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tamis
from tamis import spark as ts
from tamis.report import Distribution, Figures, Story

RANDOM = Random(4)
MATCHES = sorted(
    {
        (e, e % 3, f"r{min(int(RANDOM.paretovariate(0.4)), 60)}")
        for e in range(400)
        for _ in range(9)
    }
)
"""Rows of two key columns and a rule."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Figures]:
    """The figures that the page gets."""
    seen: list[Figures] = []

    def page(figures: Figures, title: str, *, story: Story) -> str:
        assert not story.timeline
        seen.append(figures)
        return title

    # `tamis.spark.report` is the function.
    monkeypatch.setattr(import_module("tamis.spark.report"), "page", page)
    return seen


def test_figures_equal_those_counted_in_python(
    spark: SparkSession, tmp_path: Path, shown: list[Figures]
) -> None:
    matches = spark.createDataFrame(MATCHES, "a long, `b.c` long, rule string").repartition(3)
    rules = spark.createDataFrame(
        [(f"r{n}", f"x = {n}") for n in range(70)], "id string, rule string"
    )
    file = ts.report(
        matches, rules=rules, events=500, path=tmp_path / "new" / "page.html", title="Heading"
    )
    assert file.read_text() == "Heading"

    (figures,) = shown
    by_rule = Counter(rule for *_, rule in MATCHES)
    by_event = Counter((a, b) for a, b, _ in MATCHES)
    assert _pairs(figures.matches_by_rule) == Counter(by_rule.values())
    assert _pairs(figures.rules_by_event) == Counter(by_event.values())
    assert (figures.rules, figures.events) == (70, 500)
    ordered = sorted(by_rule.items(), key=lambda pair: (-pair[1], pair[0]))[:15]
    assert [(rule.id, rule.matches) for rule in figures.busiest] == ordered
    assert all(rule.text == f"x = {rule.id[1:]}" for rule in figures.busiest)
    silent = sorted({f"r{n}" for n in range(70)} - by_rule.keys())
    assert figures.silent_rules == len(silent)
    assert [rule.id for rule in figures.silent] == silent[:10]
    assert len(figures.partitions) == 3
    assert sum(figures.partitions) == len(MATCHES)


def test_without_rules_and_events_their_figures_are_unknown(
    spark: SparkSession, tmp_path: Path, shown: list[Figures]
) -> None:
    matches = spark.createDataFrame(
        [(1, 1, 0.5, 7), (1, 2, 0.25, 8)], "e int, rank int, score double, rule int"
    )
    ts.report(matches, path=tmp_path / "page.html")
    (figures,) = shown
    assert figures.rules is figures.events is figures.silent_rules is None
    assert [(rule.id, rule.matches, rule.text) for rule in figures.busiest] == [
        ("7", 1, None),
        ("8", 1, None),
    ]
    assert _pairs(figures.rules_by_event) == {2: 1}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rule": "id"}, "matches have no column 'id'"),
        ({"keys": ["event"]}, "matches have no column 'event'"),
        ({"keys": []}, "no column that identifies an event"),
        ({"id": "key"}, "rules have no column 'key'"),
    ],
)
def test_a_missing_column_is_named_before_anything_runs(
    options: dict[str, Any], reason: str, spark: SparkSession, tmp_path: Path
) -> None:
    matches = spark.createDataFrame([(1, "r")], "e int, rule string")
    rules = spark.createDataFrame([("r", "x = 1")], "id string, rule string")
    with pytest.raises(tamis.SchemaError, match=reason):
        ts.report(matches, rules=rules, path=tmp_path / "page.html", **options)
    assert not list(tmp_path.iterdir())


def _pairs(distribution: Distribution) -> dict[int, int]:
    return dict(zip(distribution.times.tolist(), distribution.things.tolist(), strict=True))
