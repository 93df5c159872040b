"""Match a stream of events batch by batch, and write every match exactly once.

`tamis.spark.stream.output`, `tables` and `kafka` explain why no match is lost or written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tamis.errors import EventError, StorageError
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.match.options import Names, StreamKeywords, list_keywords
from tamis.spark.runtime.work import note_errors
from tamis.spark.stream.batch_log import LOG, BatchLog, claim_checkpoint, has_begun
from tamis.spark.stream.kafka import Topic
from tamis.spark.stream.output import StreamOutput
from tamis.spark.stream.question import prepare_question
from tamis.spark.stream.sinks import Destination, Sink, open_sink
from tamis.spark.stream.tables import Table

__all__ = ["match_stream"]

Trigger: TypeAlias = str | Mapping[str, Any]

VERSION: Final = "index_version"
"""The column with the version that a match was found with."""


@list_keywords(StreamKeywords)
def match_stream(
    stream_df: DataFrame,
    path: PathLike,
    *,
    output: Destination,
    checkpoint: PathLike,
    dead_letters: Destination | None = None,
    carry: Names = None,
    trigger: Trigger | None = None,
    name: str | None = None,
    **options: Unpack[StreamKeywords],
) -> StreamingQuery:
    """Match a stream of events, and write every match exactly once.

    Each batch is matched with the version of the index that is current when the batch begins, so a
    stream picks up a new version, or a rollback, without a restart. After a crash or ``kill -9``,
    start it again with the same arguments: it continues where it was.

    Parameters
    ----------
    stream_df
        The events, a streaming table; see also :func:`read_kafka`.
    path
        A published index; see :func:`tamis.spark.build`.
    output
        Where matches go: a folder, a :class:`Table` of the catalog, or a :class:`Topic`. A folder
        gets Parquet, in a folder for each batch that appears when it is complete. A topic gets
        every match at least once, and again with the same key if a batch has to be repeated.
    checkpoint
        The folder where Spark keeps its progress. It belongs to this output only.
    dead_letters
        Where records go that are not events, with the reason: a folder, a table, or a topic. By
        default such a record ends the query, unless ``on_error="skip"`` leaves it out.
    carry
        Columns that matches have besides the keys. By default none; of records of Kafka timestamp,
        key and headers.
    trigger
        When a batch begins: an interval such as ``"10 seconds"``, ``"availableNow"`` to stop when
        all events that exist now are done, or the arguments of Spark's ``trigger()`` as a mapping.
        By default a batch begins when the previous one ends.
    name
        Spark's name for the query.
    **options
        ``keys``, ``events``, ``plan``, ``memory``, ``ship``, ``on_error``, ``only`` and ``at``, as
        in :func:`match`; without ``at``, rules have to be valid when a batch begins. Records of
        Kafka have the keys topic, partition and offset, and the event is the value.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The running query. Its output has the keys, what is carried, rule, index_version, and
        batch_id.

    Raises
    ------
    EventError, SchemaError
        The table is not a stream, a column is missing, or has a type that rules cannot compare.
    StorageError
        There is no such index, or the output belongs to another stream.
    MissingExtraError
        The session lacks a connector; the message has the setting that loads it.
    """
    if not stream_df.isStreaming:
        raise EventError(
            "match_stream takes a streaming table, from spark.readStream; match() takes this one"
        )
    if "version" in options:
        raise TypeError("match_stream() has no version: each batch uses the current one")
    if dead_letters is not None and options.setdefault("on_error", "skip") != "skip":
        raise ValueError("with dead_letters, on_error is 'skip'")
    question = prepare_question(stream_df.schema, path, carry, options)
    # Errors in the columns are raised now, and not by the first batch.
    question.find_matches(stream_df.sparkSession.createDataFrame([], stream_df.schema))
    folder = resolve_folder(checkpoint)
    log, sink, letters = _open_sinks(stream_df, folder, question.keys, output, dead_letters)

    def write(batch_df: DataFrame, number: int) -> None:
        with note_errors():
            write_batch(batch_df, number)

    def write_batch(batch_df: DataFrame, number: int) -> None:
        # A folder shows by itself what it has.
        is_there = not isinstance(sink, StreamOutput) or sink.is_complete(number)
        if is_there and log.is_done(number):
            return
        begun = log.begin(number, path)
        if letters is not None:
            batch_df = batch_df.persist()
        try:
            found = question.find_matches(batch_df, begun.version, begun.begun)
            sink.write(found.withColumn(VERSION, F.lit(begun.version)), number)
            if letters is not None:
                letters.write(question.find_dead_letters(batch_df, begun.version), number)
        finally:
            if letters is not None:
                batch_df.unpersist()
        log.finish(number)

    writer = stream_df.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", folder.as_uri())
    if trigger is not None:
        writer = writer.trigger(**_trigger_arguments(trigger))
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def _open_sinks(
    stream_df: DataFrame,
    checkpoint: Path,
    keys: tuple[str, ...],
    output: Destination,
    dead_letters: Destination | None,
) -> tuple[BatchLog, Sink, Sink | None]:
    """The log of the stream's batches, and where matches and dead letters go."""
    if isinstance(output, Topic | Table):
        if has_begun(checkpoint) and not (checkpoint / LOG).is_dir():
            raise StorageError(
                "the stream of this checkpoint writes to a folder; pass a new checkpoint",
                path=str(checkpoint),
            )
        stream = claim_checkpoint(checkpoint)
        log = BatchLog(checkpoint / LOG)
    else:
        folder = StreamOutput(resolve_folder(output))
        stream, log = folder.claim(checkpoint), folder.log
    spark = stream_df.sparkSession
    places: dict[str, Any] = {"keys": keys, "checkpoint": checkpoint, "stream": stream}
    sink = open_sink(spark, output, "matches", **places)
    letters = None
    if dead_letters is not None:
        letters = open_sink(spark, dead_letters, "dead letters", **places)
    log.create()
    return log, sink, letters


def _trigger_arguments(trigger: Trigger) -> dict[str, Any]:
    if not isinstance(trigger, str):
        return dict(trigger)
    return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
