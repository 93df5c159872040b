"""Read the rules and events that a pipeline's file names into Spark tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType

from tamis.matcher.rule import OPTIONAL_FIELDS
from tamis.spark.connectors import connector_errors, name_driver
from tamis.spark.job.settings import Config, EventsSource, RulesSource
from tamis.spark.stream.kafka import read_kafka

__all__ = ["RulesTable", "read_events", "read_rules"]

_ReaderOptions: TypeAlias = dict[str, str | int | float | bool]

_CSV_RULES: Final[_ReaderOptions] = {"header": True, "multiLine": True, "escape": '"'}
_CSV_EVENTS: Final[_ReaderOptions] = {**_CSV_RULES, "inferSchema": True}


class RulesTable(NamedTuple):
    """A table of rules."""

    frame: DataFrame | None
    """None for a table that :func:`tamis.spark.follow` reads."""
    columns: dict[str, Any]
    """The columns of what a rule may have besides id and rule, as far as the file names them."""


def read_rules(spark: SparkSession, config: Config, source: RulesSource) -> RulesTable:
    """Read the rules of a pipeline.

    Raises
    ------
    InputFileError
        Spark cannot read them, or a column is missing.
    """
    columns = {name: given for name in OPTIONAL_FIELDS if (given := getattr(source, name))}
    if source.follow:
        return RulesTable(None, columns)
    file_format = config.format_of("rules", source)
    with _explain_errors(config, "rules"):
        frame = _load_rules(spark, config, source, file_format)
    for key, column in {"id": source.id, "rule": source.rule, **columns}.items():
        _check_column(config, frame, f"rules.{key}", column)
    # CSV has no lists: a column of tags is ignored there, as in `tamis.files`.
    ignored = {"tags": None} if file_format == "csv" else {}
    return RulesTable(frame, {**ignored, **columns})


def _load_rules(
    spark: SparkSession, config: Config, source: RulesSource, file_format: str
) -> DataFrame:
    options = config.resolve_options("rules", source.options)
    if source.jdbc is not None:
        with connector_errors(spark, source.jdbc):
            where = {"url": source.jdbc, "dbtable": source.table, **name_driver(source.jdbc)}
            return spark.read.format("jdbc").options(**{**where, **options}).load()
    if source.table is not None:
        with connector_errors(spark, source.format or source.table):
            return spark.read.options(**options).table(source.table)
    path = config.resolve_path(source.path or "")
    if file_format == "json":
        return _read_json_rules(spark, path, source, options)
    options = {**(_CSV_RULES if file_format == "csv" else {}), **options}
    with connector_errors(spark, file_format):
        return spark.read.format(file_format).options(**options).load(path)


def read_events(spark: SparkSession, config: Config, source: EventsSource) -> DataFrame:
    """Read the events of a pipeline: a table, or a stream if its mode says so.

    Raises
    ------
    InputFileError
        Spark cannot read them, or a key column is missing.
    """
    with _explain_errors(config, "events"):
        frame = _load_events(spark, config, source)
    keys = source.keys or []
    for key in [keys] if isinstance(keys, str) else keys:
        _check_column(config, frame, "events.keys", key)
    return frame


def _load_events(spark: SparkSession, config: Config, source: EventsSource) -> DataFrame:
    options = config.resolve_options("events", source.options)
    is_stream = config.pipeline.mode == "stream"
    if source.topic is not None:
        return read_kafka(
            spark,
            source.topic,
            servers=source.servers or "",
            start=source.start,
            stream=is_stream,
            options=options,
        )
    if source.table is not None:
        tables: Any = spark.readStream if is_stream else spark.read
        with connector_errors(spark, source.format or source.table):
            table: DataFrame = tables.options(**options).table(source.table)
            return table
    return _load_files(spark, config, source, options)


def _load_files(
    spark: SparkSession, config: Config, source: EventsSource, options: dict[str, Any]
) -> DataFrame:
    """Load events from files, or from another source that has a format of its own."""
    file_format = config.format_of("events", source)
    options = {**(_CSV_EVENTS if file_format == "csv" else {}), **options}
    path = None if source.path is None else config.resolve_path(source.path)
    with connector_errors(spark, file_format):
        reader = spark.read.format(file_format).options(**options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        if config.pipeline.mode != "stream":
            return reader.load(path)
        stream = spark.readStream.format(file_format).options(**options)
        if source.schema is not None:
            stream = stream.schema(source.schema)
        elif config.is_of_files(source):
            # A stream of files needs a schema: that of the files that exist now.
            stream = stream.schema(reader.load(path).schema)
        return stream.load(path)


def _check_column(config: Config, frame: DataFrame, key: str, column: str) -> None:
    if column not in frame.columns:
        names = ", ".join(frame.columns)
        raise config.error(key, f"there is no column {column!r}; the columns are {names}")


@contextmanager
def _explain_errors(config: Config, key: str) -> Iterator[None]:
    """Turn Spark's errors about a source into errors about its key in the file."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        reason = str(error).partition("\n")[0]
        raise config.error(key, f"Spark cannot read it: {reason}") from None


def _read_json_rules(
    spark: SparkSession, path: str, source: RulesSource, options: dict[str, Any]
) -> DataFrame:
    """Read rules from JSON lines, as `tamis.files` does; values that are not text become JSON."""
    schema = spark.read.options(**options).json(path).schema
    lines = spark.read.options(**options).option("singleVariantColumn", "line").json(path)

    def column(name: str, data_type: DataType) -> Column:
        place = f"$['{name}']"
        if name == (source.payload or "payload"):
            return F.to_json(F.variant_get("line", place, "variant"))
        if name == (source.tags or "tags"):
            return F.variant_get("line", place, "array<string>")
        wanted = "long" if name == source.id and isinstance(data_type, LongType) else "string"
        return F.variant_get("line", place, wanted)

    return lines.select(*(column(f.name, f.dataType).alias(f.name) for f in schema.fields))
