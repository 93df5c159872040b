"""Backtests on Spark give the same as in process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tamis import EventError, Matcher, RuleError
from tamis import spark as ts
from tests.spark.indexes import publish_rules

START = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS = [
    {"key": n, "price": float(n % 97), "kind": "abc"[n % 3], "at": START + timedelta(minutes=7 * n)}
    for n in range(1000)
]
SAVED = {"r": "price < 20", "other": "price > 90"}
DRAFTS = {"r": "price < 30 AND kind <> 'b'", "new": "kind = 'c'"}


def test_a_backtest_gives_the_same_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    m = Matcher()
    m.add_many(SAVED)
    expected = m.backtest(DRAFTS, pa.Table.from_pylist(EVENTS), time="at")
    publish_rules(tmp_path / "index", list(SAVED.items()), shards=2)
    df = spark.createDataFrame([tuple(e.values()) for e in EVENTS], list(EVENTS[0])).repartition(3)
    for saved in (m, tmp_path / "index"):
        report = ts.backtest(df, DRAFTS, saved, keys="key", time="at", samples=2)
        assert report[:4] == expected[:4]
        for rule, other in zip(report.rules, expected.rules, strict=True):
            assert rule[:7] == other[:7]
        for sample in report.rules[0].gained_samples:
            event = EVENTS[sample.event["key"]]
            assert 20 <= event["price"] < 30
    assert ts.backtest(df.limit(0), "price < 5").events == 0
    assert ts.backtest(df, "price < 5", samples=0).rules[0].matches == 55
    with pytest.raises(RuleError, match="Spark has none"):
        ts.backtest(df, "EXISTS (SELECT 1 FROM seen d WHERE d.price = price)")
    with pytest.raises(EventError, match="no column"):
        ts.backtest(df, "price < 5", time="when")
