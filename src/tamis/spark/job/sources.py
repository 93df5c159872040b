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
from tamis.spark.job.config import Config, EventsSource, RulesSource

__all__ = ["RulesTable", "read_events", "read_rules"]

_ReaderOptions: TypeAlias = dict[str, str | int | float | bool]

_CSV_RULES: Final[_ReaderOptions] = {"header": True, "multiLine": True, "escape": '"'}
_CSV_EVENTS: Final[_ReaderOptions] = {**_CSV_RULES, "inferSchema": True}


class RulesTable(NamedTuple):
    """A table of rules."""

    frame: DataFrame
    columns: dict[str, Any]
    """The columns of what a rule may have besides id and rule, as far as the file names them."""


def read_rules(spark: SparkSession, config: Config, source: RulesSource) -> RulesTable:
    """Read the rules of a pipeline.

    Raises
    ------
    InputFileError
        Spark cannot read them, or a column is missing.
    """
    file_format = config.format_of("rules", source)
    with _explain_errors(config, "rules"):
        if file_format == "json":
            frame = _read_json_rules(spark, config.resolve_path(source.path), source)
        else:
            options = {**(_CSV_RULES if file_format == "csv" else {}), **source.options}
            reader = spark.read.format(file_format).options(**options)
            frame = reader.load(config.resolve_path(source.path))
    columns = {name: given for name in OPTIONAL_FIELDS if (given := getattr(source, name))}
    for key, column in {"id": source.id, "rule": source.rule, **columns}.items():
        _check_column(config, frame, f"rules.{key}", column)
    # CSV has no lists: a column of tags is ignored there, as in `tamis.files`.
    ignored = {"tags": None} if file_format == "csv" else {}
    return RulesTable(frame, {**ignored, **columns})


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
    file_format = config.format_of("events", source)
    options = {**(_CSV_EVENTS if file_format == "csv" else {}), **source.options}
    path = None if source.path is None else config.resolve_path(source.path)
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


def _read_json_rules(spark: SparkSession, path: str, source: RulesSource) -> DataFrame:
    """Read rules from JSON lines, as `tamis.files` does; values that are not text become JSON."""
    schema = spark.read.options(**source.options).json(path).schema
    lines = spark.read.options(**source.options).option("singleVariantColumn", "line").json(path)

    def column(name: str, data_type: DataType) -> Column:
        place = f"$['{name}']"
        if name == (source.payload or "payload"):
            return F.to_json(F.variant_get("line", place, "variant"))
        if name == (source.tags or "tags"):
            return F.variant_get("line", place, "array<string>")
        wanted = "long" if name == source.id and isinstance(data_type, LongType) else "string"
        return F.variant_get("line", place, wanted)

    return lines.select(*(column(f.name, f.dataType).alias(f.name) for f in schema.fields))
