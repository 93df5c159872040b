"""Events from a topic of Kafka, and matches and dead letters to one.

A record is an event if its value is a JSON object. Topic, partition and offset identify it; its
key, headers and timestamp are carried along. A record that is not an event is a *dead letter*.

Kafka has no transaction that Spark takes part in, so a batch that starts again writes its matches
a second time. The key of a match says which event and which rule it is about, and a batch that
starts again finds the same matches, so a reader that keeps the last record of each key, as a
compacted topic does, has every match once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StructType

from tamis.spark.column_names import quote
from tamis.spark.connectors import connector_errors

__all__ = [
    "CARRIED",
    "IDENTITY",
    "VALUE",
    "Topic",
    "is_kafka",
    "read_kafka",
    "to_dead_letters",
    "to_match_records",
    "write_records",
]

IDENTITY: Final = ("topic", "partition", "offset")
"""The columns that identify a record."""

KEY: Final = "key"
HEADERS: Final = "headers"
CARRIED: Final = ("timestamp", KEY, HEADERS)
"""The columns of a record that matches have, too."""

VALUE: Final = "value"
"""The column of a record with the event."""

_HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"

Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Topic:
    """A topic of Kafka to write to.

    Parameters
    ----------
    name
        The topic. It has to exist, unless the brokers create topics.
    servers
        The brokers: ``"host:9092,other:9092"``.
    key
        The key of a match's record: ``"match"`` for the event's identity and the rule, as JSON, so
        that a repeated record has the same key; ``"event"`` for the key of the event's own record,
        so that a partition has the matches of such events in order.
    options
        More options of Spark's Kafka sink, such as ``{"kafka.security.protocol": "SASL_SSL"}``.
    """

    name: str
    servers: str
    key: Literal["match", "event"] = "match"
    options: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.key not in ("match", "event"):
            raise ValueError(f"key is 'match' or 'event', not {self.key!r}")


def read_kafka(
    spark: SparkSession,
    topic: str | Sequence[str],
    *,
    servers: str,
    start: str = "earliest",
    stream: bool = True,
    options: Options | None = None,
) -> DataFrame:
    """Read the records of topics, as a stream or as a table.

    Parameters
    ----------
    spark
        The session, with Spark's Kafka connector.
    topic
        One or several topics.
    servers
        The brokers: ``"host:9092,other:9092"``.
    start
        Where to begin, if there is no checkpoint: ``"earliest"``, ``"latest"``, or Spark's JSON of
        an offset for each partition.
    stream
        Whether to read a stream; else a table of the records that are there now.
    options
        More options of Spark's Kafka source, such as ``{"maxOffsetsPerTrigger": 100_000}``.

    Returns
    -------
    DataFrame
        The columns topic, partition, offset, timestamp, key, headers and value. `match` and
        `match_stream` take ``keys=["topic", "partition", "offset"], events="value"``, which
        `match_stream` assumes for such a table.

    Raises
    ------
    MissingExtraError
        The session has no Kafka connector; the message has the setting that loads it.
    """
    topics = topic if isinstance(topic, str) else ",".join(topic)
    settings: dict[str, Any] = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topics,
        "startingOffsets": start,
        "includeHeaders": True,
        **(options or {}),
    }
    reader: Any = spark.readStream if stream else spark.read
    with connector_errors(spark, "kafka"):
        records: DataFrame = reader.format("kafka").options(**settings).load()
        return records.select(*IDENTITY, *CARRIED, VALUE)


def is_kafka(schema: StructType) -> bool:
    """Whether a table has the columns of Kafka's records."""
    types = {column.name: column.dataType for column in schema.fields}
    return all(name in types for name in IDENTITY) and isinstance(types.get(VALUE), BinaryType)


def to_match_records(matches: DataFrame, keys: Sequence[str], topic: Topic) -> DataFrame:
    """Turn matches into records: key, value and headers.

    Parameters
    ----------
    matches
        The keys of events, what is carried along, rule and index_version.
    keys
        The columns that identify an event.
    topic
        The topic they are for.
    """
    match_key = _write_json([*keys, "rule"]).cast("binary")
    shown = [name for name in matches.columns if name in keys or name not in (KEY, HEADERS)]
    headers = [_read_headers(matches)]
    if topic.key == "event":
        headers.append(_make_header("tamis-match", match_key))
    elif KEY in matches.columns:
        headers.append(_make_header("tamis-event-key", _read_key(matches)))
    return matches.select(
        (match_key if topic.key == "match" else _read_key(matches)).alias(KEY),
        _write_json(shown).cast("binary").alias(VALUE),
        F.concat(*headers).alias(HEADERS),
    )


def to_dead_letters(refused: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Turn refused events into records: those that were read, with headers that say why.

    Parameters
    ----------
    refused
        The keys of events, what is carried along, the event if it is one column, and error. If
        there is no column `VALUE`, the value is a JSON object of all columns but the error.
    keys
        The columns that identify an event.
    """
    columns = refused.columns
    shown = [name for name in columns if name != "error"]
    value = F.col(VALUE) if VALUE in columns else _write_json(shown)
    said = {"error": F.col("error"), **{name: F.col(quote(name)).cast("string") for name in keys}}
    headers = [_make_header(f"tamis-{name}", text.cast("binary")) for name, text in said.items()]
    return refused.select(
        _read_key(refused).alias(KEY),
        value.cast("binary").alias(VALUE),
        F.concat(_read_headers(refused), *headers).alias(HEADERS),
    )


def write_records(records: DataFrame, topic: Topic) -> None:
    """Append records to a topic."""
    settings: dict[str, Any] = {
        **topic.options,
        "kafka.bootstrap.servers": topic.servers,
        "topic": topic.name,
        "includeHeaders": True,
    }
    with connector_errors(records.sparkSession, "kafka"):
        records.write.format("kafka").options(**settings).save()


def _read_key(rows: DataFrame) -> Column:
    """The key of the event's own record; null if the events have none."""
    return (F.col(KEY) if KEY in rows.columns else F.lit(None)).cast("string").cast("binary")


def _read_headers(rows: DataFrame) -> Column:
    """The headers of the event's own record; none if the events have none."""
    nothing = F.array().cast(_HEADERS_TYPE)
    types = {column.name: column.dataType for column in rows.schema.fields}
    if not isinstance(types.get(HEADERS), ArrayType):
        return nothing
    return F.coalesce(F.col(HEADERS).cast(_HEADERS_TYPE), nothing)


def _make_header(name: str, value: Column) -> Column:
    return F.array(F.struct(F.lit(name).alias("key"), value.alias("value")))


def _write_json(names: Sequence[str]) -> Column:
    return F.to_json(F.struct(*(F.col(quote(name)) for name in names)))
