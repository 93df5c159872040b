"""Workloads made by all executors at once: the same files, however many there are.

The executors write Parquet by themselves. Rows of hundreds of columns that pass through the JVM
take several times as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from tamis.errors import StorageError
from tamis.spark.index.versions import root_of
from tamis.workloads.partitioned import PartitionedTable, write_parquet

__all__ = ["generate"]

_ROWS_A_FILE = 1 << 18


def generate(
    spark: SparkSession,
    table: PartitionedTable,
    path: str | os.PathLike[str],
    *,
    rows_a_file: int = _ROWS_A_FILE,
) -> int:
    """Write the rules or the events of a workload as a folder of Parquet files.

    The folder is there when it is complete. Its files, read in the order of their names, hold the
    rows in their order.

    Parameters
    ----------
    spark
        The session.
    table
        The rules or the events.
    path
        The folder, which must not exist, or be empty; all nodes have to see it under this path.
    rows_a_file
        How many rows a file has, about.

    Returns
    -------
    int
        How many rows were written.

    Raises
    ------
    StorageError
        There is something at `path` already, or it is no folder that can be written.
    """
    folder = root_of(path)
    _check_free(folder)
    parts, size = table.parts, _parts_a_file(table, rows_a_file)
    aside = folder.with_name(f".{folder.name}-{uuid4().hex}")
    aside.mkdir(parents=True)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = _known(table)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                some = range(number * size, min(parts, (number + 1) * size))
                rows = write_parquet(known, aside / f"part-{number:05}.parquet", some)
                yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    files = max(1, -(-parts // size))
    numbers = spark.range(0, files, numPartitions=files)
    done = numbers.mapInArrow(write, "rows long").collect()
    (aside / "_SUCCESS").touch()
    aside.replace(folder)
    return sum(row["rows"] for row in done)


@lru_cache(maxsize=1)
def _known(table: PartitionedTable) -> PartitionedTable:
    """The same table, but as an earlier task of this worker left it, with what it computed."""
    return table


def _parts_a_file(table: PartitionedTable, rows: int) -> int:
    return max(1, rows * table.parts // max(1, table.rows))


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError("there is something already; name a new folder", path=str(folder))
