"""Events that are refused: left out of all answers, and returned with the reasons."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tamis import spark as ts
from tests.spark.indexes import publish_rules

TEXTS = [
    (1, '{"price": 5}'),
    (2, "{"),
    (3, '{"price": 18446744073709551616}'),
    (4, "[1]"),
    (5, '{"price": 50, "other": 18446744073709551616}'),
    (6, None),
    (7, '{"size": 18446744073709551616, "price": 5}'),
]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Rules in several shards, one of which mentions an attribute that others do not."""
    rules = [(n, f"price < {10 * n}") for n in range(1, 9)] + [(9, "size > 1")]
    publish_rules(tmp_path / "index", rules, shards=3)
    return tmp_path / "index"


@pytest.mark.parametrize("plan", ["whole", "sharded"])
def test_refused_events_are_left_out_and_returned(spark: Any, index: Path, plan: Any) -> None:
    events = spark.createDataFrame(TEXTS, "id int, text string")
    options: Any = {"keys": "id", "events": "text", "plan": plan, "on_error": "skip"}
    counted = {row["id"]: row["matches"] for row in ts.counts(events, index, **options).collect()}
    assert counted == {1: 8, 5: 3, 6: 0}
    matched = ts.match(events, index, **options).collect()
    assert sorted({row["id"] for row in matched}) == [1, 5]
    best = ts.top(events, index, 1, **options).collect()
    assert sorted(row["id"] for row in best) == [1, 5]
    refused = {row["id"]: row["error"] for row in ts.refused(events, index, **options).collect()}
    assert sorted(refused) == [2, 3, 4, 7]
    assert "not JSON" in refused[2]
    assert "'price' holds 18446744073709551616" in refused[3]
    assert "JSON object" in refused[4]
    assert "'size'" in refused[7]


def test_columns_of_decimals_compare_exactly(spark: Any, tmp_path: Path) -> None:
    rules = [(1, "price < 9.99"), (2, "price = 9.99"), (3, "price > 9.99")]
    publish_rules(tmp_path / "index", rules)
    prices = [(1, Decimal("9.98")), (2, Decimal("9.99")), (3, Decimal("10.00")), (4, None)]
    events = spark.createDataFrame(prices, "id int, price decimal(10, 2)")
    found = ts.match(events, tmp_path / "index", keys="id").collect()
    assert sorted(map(tuple, found)) == [(1, 1), (2, 2), (3, 3)]
    assert ts.refused(events, tmp_path / "index", keys="id").count() == 0


def test_bad_options_are_refused(spark: Any, index: Path) -> None:
    events = spark.createDataFrame([(1, 2.0)], "id int, price double")
    with pytest.raises(ValueError, match="on_error is"):
        ts.match(events, index, on_error="ignore")  # type: ignore[arg-type]  # refused
