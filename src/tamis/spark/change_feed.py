"""Keep an index up to date with a Delta table of rules, by the table's change data feed.

A version of the index remembers which version of the table it has. The next one applies the changes
since then; of several changes of a rule, the last one counts. If the index has the rules of another
table, or none, it is built from the whole table.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tamis.errors import MissingExtraError, RuleError, StorageError
from tamis.spark.column_names import quote
from tamis.spark.connectors import connector_errors
from tamis.spark.index.build import build, update
from tamis.spark.index.layout import PathLike, Version
from tamis.spark.index.versions import current

__all__ = ["follow"]

_CHANGE: Final = "_change_type"
_COMMIT: Final = "_commit_version"
_TIME: Final = "_commit_timestamp"
_DELETED: Final = "_tamis_deleted"

_BUILD_ONLY: Final = ("default_logic", "schema", "engine", "shards")
"""Arguments of `build` that `update` does not have: a version keeps those of its parent."""

_ENABLE: Final = "ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def follow(spark: SparkSession, table: str, path: PathLike, **options: Any) -> Version:
    """Publish a version of an index that has the rules of a Delta table as they are now.

    Only changed rules are read and parsed: those of the table's change data feed since the version
    of the index was published. If the table has not changed, nothing is published.

    Parameters
    ----------
    spark
        The session.
    table
        The name of a table, for which the session needs Delta Lake's connector; or the path of
        one, ``"/data/rules"`` or ``"s3://…"``, which the package deltalake reads.
    path
        The index; it is built if it does not exist, or is of another table.
    **options
        As in :func:`build`.

    Returns
    -------
    Version
        The current version.

    Raises
    ------
    StorageError
        The table cannot be read, or has no feed of the changes since the last version.
    MissingExtraError
        The connector, or the package, is missing.
    RuleError, LockedError
        As in :func:`build` and :func:`update`.
    """
    reader: _DeltaTable = _DeltaFolder(spark, table) if "/" in table else _DeltaName(spark, table)
    newest = reader.version()
    source = {"delta": table, "version": newest}
    known = _read_source(path)
    if known is None or known.get("delta") != table:
        return build(reader.read(newest), path, source=source, **options)
    if known["version"] == newest:
        return current(path)
    if known["version"] > newest:
        raise StorageError(
            f"the index has version {known['version']} of the table, whose newest is {newest}; "
            "was the table created anew? build the index again",
            path=table,
        )
    changes = _take_last(reader.changes(known["version"] + 1, newest), options.get("id", "id"))
    kept = {name: value for name, value in options.items() if name not in _BUILD_ONLY}
    return update(path, changes, delete=_DELETED, source=source, **kept)


def _read_source(path: PathLike) -> dict[str, Any] | None:
    """The table that the current version has the rules of, and its version."""
    try:
        return current(path).parameters.get("source")
    except StorageError:
        return None


def _take_last(changes: DataFrame, id: str) -> DataFrame:
    """The last change of each rule."""
    if id not in changes.columns:
        raise RuleError(f"the table of rules has no column {id!r}; name it with id=")
    # A commit may delete a row and insert another of the same id: then the rule exists.
    last = Window.partitionBy(quote(id)).orderBy(F.desc(_COMMIT), _DELETED)
    return (
        changes.where(F.col(_CHANGE) != "update_preimage")
        .withColumn(_DELETED, F.col(_CHANGE) == "delete")
        .withColumn("_tamis_place", F.row_number().over(last))
        .where("_tamis_place = 1")
        .drop("_tamis_place", _CHANGE, _COMMIT, _TIME)
    )


def _to_spark_table(table: pa.Table) -> pa.Table:
    """The same columns in types that Spark takes: it has neither views nor unsigned integers."""
    return table.cast(
        pa.schema([field.with_type(_to_spark_type(field.type)) for field in table.schema])
    )


def _to_spark_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_uint64(data_type):
        return pa.int64()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(_to_spark_type(data_type.value_type))
    return data_type


class _DeltaTable(Protocol):
    """A Delta table, however it is read."""

    def version(self) -> int:
        """The newest version."""

    def read(self, version: int) -> DataFrame:
        """All rows of a version."""

    def changes(self, first: int, last: int) -> DataFrame:
        """The changes that versions made, from `first` to `last`."""


class _DeltaName:
    """A table of the session's catalog, which Spark reads."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name

    def version(self) -> int:
        with connector_errors(self._spark, "delta"):
            try:
                history = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").collect()
            except PySparkException as error:
                raise self._explain(error) from None
        return int(history[0]["version"])

    def read(self, version: int) -> DataFrame:
        return self._spark.read.option("versionAsOf", version).table(self._name)

    def changes(self, first: int, last: int) -> DataFrame:
        options = {"readChangeFeed": True, "startingVersion": first, "endingVersion": last}
        try:
            feed = self._spark.read.options(**options).table(self._name)
            _ = feed.columns
        except PySparkException as error:
            raise self._explain(error) from None
        return feed

    def _explain(self, error: PySparkException) -> StorageError:
        reason = str(error).partition("\n")[0]
        if "DELTA_MISSING_CHANGE_DATA" in reason or "CHANGE_DATA" in reason:
            reason = f"{reason}; its changes are recorded after {_ENABLE.format(table=self._name)}"
        return StorageError(f"cannot be followed as a Delta table: {reason}", path=self._name)


class _DeltaFolder:
    """A table at a path, which the package deltalake reads on the driver."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path
        try:
            self._deltalake: Any = import_module("deltalake")
        except ImportError:
            raise MissingExtraError(
                f"{path} is the path of a Delta table; type: pip install 'tamis[delta]'"
            ) from None
        self._table = self._open()

    def _open(self, version: int | None = None) -> Any:
        try:
            return self._deltalake.DeltaTable(self._path, version=version)
        except self._deltalake.exceptions.DeltaError as error:
            raise StorageError(
                f"cannot be read as a Delta table: {error}", path=self._path
            ) from error

    def version(self) -> int:
        return int(self._table.version())

    def read(self, version: int) -> DataFrame:
        return self._spark.createDataFrame(self._open(version).to_pyarrow_table())

    def changes(self, first: int, last: int) -> DataFrame:
        if self._table.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
            hint = _ENABLE.format(table=f"delta.`{self._path}`")
            raise StorageError(f"has no feed of its changes; {hint}", path=self._path)
        try:
            feed = self._table.load_cdf(starting_version=first, ending_version=last)
            return self._spark.createDataFrame(_to_spark_table(pa.table(feed.read_all())))
        except (self._deltalake.exceptions.DeltaError, OSError) as error:
            raise StorageError(f"has no feed of its changes: {error}", path=self._path) from error
