"""Events that are JSON in bytes, as brokers deliver them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tamis import spark as ts
from tests.spark.indexes import publish_rules


def test_events_may_be_bytes(spark: Any, tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("cheap", "price < 10"), ("green", "colour = 'grün'")])
    rows = [(1, b'{"price": 5}'), (2, '{"colour": "grün"}'.encode()), (3, b"\xff"), (4, None)]
    events = spark.createDataFrame([(n, v and bytearray(v)) for n, v in rows], "id int, doc binary")
    options: Any = {"keys": "id", "events": "doc", "on_error": "skip"}
    found = ts.match(events, tmp_path / "index", **options).collect()
    assert sorted(map(tuple, found)) == [(1, "cheap"), (2, "green")]
    refused = ts.refused(events, tmp_path / "index", **options).collect()
    assert [row["id"] for row in refused] == [3]
