"""Generate workloads on executors: the same files, however many executors there are.

Executors write Parquet with PyArrow. Sending rows of hundreds of columns through the JVM would take
several times as long.
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
from tamis.spark.index.layout import resolve_folder
from tamis.workloads.partitioned import PartitionedTable, write_parquet

__all__ = ["generate"]

_ROWS_PER_FILE = 1 << 18


def generate(
    spark: SparkSession,
    table: PartitionedTable,
    path: str | os.PathLike[str],
    *,
    rows_a_file: int = _ROWS_PER_FILE,
) -> int:
    """Write the rules or the events of a workload as a folder of Parquet files.

    The folder appears when it is complete. Its files, in the order of their names, have the rows
    in their order.

    Parameters
    ----------
    spark
        The session.
    table
        The rules or the events.
    path
        The folder, which must not exist, or be empty. All nodes have to see it under this path.
    rows_a_file
        About how many rows a file has.

    Returns
    -------
    int
        How many rows were written.

    Raises
    ------
    StorageError
        `path` already has files, or cannot be written.
    """
    folder = resolve_folder(path)
    _check_empty(folder)
    parts, per_file = table.parts, _parts_per_file(table, rows_a_file)
    aside = folder.with_name(f".{folder.name}-{uuid4().hex}")
    aside.mkdir(parents=True)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cached = _reuse_table(table)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                numbers = range(number * per_file, min(parts, (number + 1) * per_file))
                rows = write_parquet(cached, aside / f"part-{number:05}.parquet", numbers)
                yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    files = max(1, -(-parts // per_file))
    file_numbers = spark.range(0, files, numPartitions=files)
    written = file_numbers.mapInArrow(write, "rows long").collect()
    (aside / "_SUCCESS").touch()
    aside.replace(folder)
    return sum(row["rows"] for row in written)


@lru_cache(maxsize=1)
def _reuse_table(table: PartitionedTable) -> PartitionedTable:
    """The equal table of an earlier task of this worker, if there is one, with its caches."""
    return table


def _parts_per_file(table: PartitionedTable, rows: int) -> int:
    return max(1, rows * table.parts // max(1, table.rows))


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError("there are files already; name a new folder", path=str(folder))
