"""Write to tables of a catalog, a batch of a stream exactly once.

Each format has its own way to know that a batch was written before: Delta Lake remembers the last
version of each application (``txnAppId``, ``txnVersion``), Iceberg keeps properties with each
snapshot, and in a table of files every batch is a partition, which is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis.errors import StorageError
from tamis.spark.column_names import quote
from tamis.spark.connectors import connector_errors

__all__ = ["Table", "check_table", "replace_table", "write_batch"]

BATCH: Final = "batch_id"
"""The column with the number of the batch."""

_STREAM: Final = "tamis.stream"
"""The property of a table of files with the id of the stream that writes to it."""


@dataclass(frozen=True)
class Table:
    """A table of a catalog to write to.

    Parameters
    ----------
    name
        Its name: ``"db.matches"`` or ``"catalog.db.matches"``. It is created if it does not exist.
    format
        The format of a table that does not exist yet: ``"delta"``, ``"iceberg"``, ``"parquet"``, …
        By default the session's, which is Parquet.
    options
        More options of Spark's writer.
    """

    name: str
    format: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)


def check_table(spark: SparkSession, table: Table, stream: str) -> None:
    """Check, before a stream starts, that it can write to a table.

    Raises
    ------
    StorageError
        Another stream writes to it, and its format cannot tell the batches of two streams apart.
    MissingExtraError
        The jar of its format is missing.
    """
    with connector_errors(spark, table.format or table.name):
        if not spark.catalog.tableExists(table.name):
            return
        provider = _find_provider(spark, table)
        if provider in ("delta", "iceberg"):
            return
        owner = _read_properties(spark, table.name).get(_STREAM)
        if BATCH not in spark.table(table.name).columns or owner not in (None, stream):
            whose = "another stream" if owner else "something else"
            raise StorageError(
                f"{whose} has written this table of {provider} files; name a new table, or one "
                "of Delta Lake or Iceberg, which several streams may share",
                path=table.name,
            )


def write_batch(rows: DataFrame, table: Table, stream: str, number: int) -> None:
    """Write the rows of a batch to a table, unless they are there already.

    Parameters
    ----------
    rows
        The rows.
    table
        The table; it is created if it does not exist.
    stream
        The id of the stream.
    number
        The number of the batch.
    """
    spark = rows.sparkSession
    rows = rows.withColumn(BATCH, F.lit(number).cast("long"))
    with connector_errors(spark, table.format or table.name):
        match _find_provider(spark, table):
            case "delta":
                mark = {"txnAppId": f"tamis-{stream}", "txnVersion": number}
                _append(rows, table, "delta", mark)
            case "iceberg":
                if not _has_snapshot(spark, table.name, stream, number):
                    mark = {
                        f"snapshot-property.{_STREAM}": stream,
                        f"snapshot-property.{BATCH}": number,
                    }
                    _append(rows, table, "iceberg", mark)
            case provider:
                _replace_partition(rows, table, provider, stream, number)


def replace_table(rows: DataFrame, table: Table) -> None:
    """Replace all rows of a table, which is created if it does not exist."""
    spark = rows.sparkSession
    with connector_errors(spark, table.format or table.name):
        provider = _find_provider(spark, table)
        options: dict[str, Any] = dict(table.options)
        if provider == "delta":
            options.setdefault("overwriteSchema", True)
        writer = rows.write.format(provider).options(**options).mode("overwrite")
        writer.saveAsTable(table.name)


def _append(rows: DataFrame, table: Table, provider: str, mark: Mapping[str, Any]) -> None:
    options = {**table.options, **mark}
    rows.write.format(provider).options(**options).mode("append").saveAsTable(table.name)


def _replace_partition(
    rows: DataFrame, table: Table, provider: str, stream: str, number: int
) -> None:
    spark = rows.sparkSession
    if not spark.catalog.tableExists(table.name):
        writer = rows.limit(0).write.format(provider).partitionBy(BATCH)
        writer.options(**table.options).saveAsTable(table.name)
    if _read_properties(spark, table.name).get(_STREAM) != stream:
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{_STREAM}' = '{stream}')")
    columns = ", ".join(quote(name) for name in spark.table(table.name).columns if name != BATCH)
    # What an earlier attempt has written of this batch is replaced; other partitions stay.
    insert = f"INSERT OVERWRITE TABLE {table.name} PARTITION ({BATCH} = {number})"
    spark.sql(f"{insert} SELECT {columns} FROM {{rows}}", rows=rows)


def _find_provider(spark: SparkSession, table: Table) -> str:
    """The format of a table, or the one that it will have."""
    if not spark.catalog.tableExists(table.name):
        default = spark.conf.get("spark.sql.sources.default") or "parquet"
        return (table.format or default).lower()
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {table.name}").collect()
    return next((row[1] for row in described if row[0] == "Provider"), "parquet").lower()


def _read_properties(spark: SparkSession, name: str) -> dict[str, str]:
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return {row["key"]: row["value"] for row in rows}


def _has_snapshot(spark: SparkSession, name: str, stream: str, number: int) -> bool:
    """Whether a snapshot of an Iceberg table has the rows of a batch."""
    if not spark.catalog.tableExists(name):
        return False
    # The session may remember the table as it was before another session wrote to it.
    spark.catalog.refreshTable(name)
    summary = F.col("summary")
    snapshots = spark.table(f"{name}.snapshots").where(summary[_STREAM] == stream)
    last = snapshots.agg(F.max(summary[BATCH].cast("long"))).collect()[0][0]
    return last is not None and last >= number
