"""Where the rows of a stream go: a folder, a table of a catalog, or a topic of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from tamis.spark.connectors import check_connector
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.stream.kafka import Topic, to_dead_letters, to_match_records, write_records
from tamis.spark.stream.output import StreamOutput
from tamis.spark.stream.tables import Table, check_table, write_batch

__all__ = ["Destination", "Rows", "Sink", "open_sink"]

Destination: TypeAlias = PathLike | Table | Topic
"""A folder, a table, or a topic."""

Rows: TypeAlias = Literal["matches", "dead letters"]
"""What a sink is for."""


class Sink(Protocol):
    """Writes the rows of each batch once; or, if that is impossible, with the same keys again."""

    def write(self, rows: DataFrame, number: int) -> None:
        """Write the rows of a batch, unless they are there already."""


@dataclass(frozen=True)
class _TableSink:
    table: Table
    stream: str

    def write(self, rows: DataFrame, number: int) -> None:
        write_batch(rows, self.table, self.stream, number)


@dataclass(frozen=True)
class _TopicSink:
    topic: Topic
    keys: Sequence[str]
    content: Rows

    def write(self, rows: DataFrame, number: int) -> None:
        del number  # Kafka does not know what it has; the keys of matches say it.
        if self.content == "matches":
            records = to_match_records(rows, self.keys, self.topic)
        else:
            records = to_dead_letters(rows, self.keys)
        write_records(records, self.topic)


def open_sink(
    spark: SparkSession,
    destination: Destination,
    content: Rows,
    *,
    keys: Sequence[str],
    checkpoint: Path,
    stream: str,
) -> Sink:
    """Open a destination for a stream, and check what can be known before it starts.

    Parameters
    ----------
    spark
        The session.
    destination
        Where rows go.
    content
        What the rows are.
    keys
        The columns that identify an event.
    checkpoint
        The checkpoint of the stream.
    stream
        The id of the stream.

    Raises
    ------
    StorageError
        It belongs to another stream.
    MissingExtraError
        A connector is missing.
    """
    if isinstance(destination, Topic):
        check_connector(spark, "kafka")
        return _TopicSink(destination, tuple(keys), content)
    if isinstance(destination, Table):
        check_table(spark, destination, stream)
        return _TableSink(destination, stream)
    folder = StreamOutput(resolve_folder(destination))
    folder.claim(checkpoint, may_join=content == "dead letters")
    return folder
