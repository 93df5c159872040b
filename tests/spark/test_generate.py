"""Workloads written on Spark have the rows that one process generates."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tamis
from tamis.spark.generate import generate
from tamis.workloads import ads, begen, nested
from tamis.workloads.base import ChunkedWorkload
from tamis.workloads.partitioned import PartitionedTable, write_parquet

FEW: dict[str, ChunkedWorkload] = {
    "ads": ads.Workload(70_000, attributes=40, dimensions=40, event_size=9, seed=5),
    "begen": begen.Workload(140_000, dimensions=30, seed=5),
    "nested": nested.Workload(70_000, dimensions=30, seed=5),
}
"""Workloads of two chunks of rules each."""


@pytest.mark.parametrize("name", list(FEW))
def test_rules_equal_those_of_one_process(name: str, spark: SparkSession, tmp_path: Path) -> None:
    workload = FEW[name]
    rows = generate(spark, PartitionedTable(workload), tmp_path / "rules", rows_a_file=60_000)
    assert rows == workload.size
    assert len(list((tmp_path / "rules").glob("*.parquet"))) == 2
    assert pq.read_table(tmp_path / "rules").equals(workload.rules_table())


@pytest.mark.parametrize("rows_a_file", [1_000, 1_000_000])
def test_events_equal_those_of_one_process(
    rows_a_file: int, spark: SparkSession, tmp_path: Path
) -> None:
    table = PartitionedTable(FEW["ads"], 3_500)
    generate(spark, table, tmp_path / "events", rows_a_file=rows_a_file)
    written = pq.read_table(tmp_path / "events")
    assert written["event_id"].to_pylist() == list(range(3_500))
    assert written.drop(["event_id"]).equals(FEW["ads"].events_table(3_500))
    alone = tmp_path / "alone.parquet"
    assert write_parquet(table, alone) == 3_500
    assert pq.read_table(alone).equals(written)


def test_existing_files_are_not_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(tamis.StorageError, match="there are files already"):
        generate(spark, PartitionedTable(FEW["ads"], 10), tmp_path)
