"""Spark builds, updates and matches an index in a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis import spark as ts
from tamis.matcher.published.address import Address
from tamis.spark.index import jobs
from tests.buckets import s3_server


def test_build_update_and_match(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path / "cache"))
    # Shards are merged from pieces.
    monkeypatch.setattr(jobs, "RULES_PER_PIECE", 2)
    rules = spark.createDataFrame(
        [(n, f"price < {10 * n}" if n else "price <") for n in range(9)], "id long, rule string"
    )
    with s3_server() as index:
        version = ts.build(rules, index, shards=2)
        assert (version.number, version.rules, version.bad) == (1, 8, 1)
        assert isinstance(version.quarantine, Address)
        (part,) = version.quarantine.iterdir()
        refused = pq.read_table(pa.BufferReader(part.read_bytes())).to_pylist()
        assert [(row["id"], row["position"]) for row in refused] == [(0, 7)]
        # Nothing is left of the pieces.
        assert sorted(entry.name[:10] for entry in version.folder.iterdir()) == [
            "BUILDER",
            "VERSION.js",
            "quarantine",
            "shard-0000",
            "shard-0001",
        ]
        events = spark.createDataFrame([(1, 5), (2, 75)], "event_id int, price int")
        for options in ({"plan": "whole"}, {"plan": "sharded"}, {"ship": True}):
            found = ts.match(events, index, **options).collect()
            assert sorted(map(tuple, found)) == [*((1, n) for n in range(1, 9)), (2, 8)]
        changes = spark.createDataFrame(
            [(8, None, True), (0, "price > 70", False)], "id long, rule string, deleted boolean"
        )
        updated = ts.update(index, changes)
        assert (updated.number, updated.rules, updated.bad) == (2, 8, 0)
        found = ts.match(events, index).collect()
        assert sorted(map(tuple, found)) == [*((1, n) for n in range(1, 8)), (2, 0)]
        assert ts.ratify(events, index).agrees
        assert ts.match(events, index, version=1).count() == 9
