"""Match a stream of events batch by batch, and write every match exactly once.

`tamis.spark.stream.output` explains why no match is lost or written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tamis.errors import EventError
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.match.options import StreamKeywords, list_keywords
from tamis.spark.match.tables import match
from tamis.spark.stream.output import StreamOutput

__all__ = ["match_stream"]

Trigger: TypeAlias = str | Mapping[str, Any]

VERSION: Final = "index_version"
"""The column with the version that a match was found with."""


@list_keywords(StreamKeywords)
def match_stream(
    stream_df: DataFrame,
    path: PathLike,
    *,
    output: PathLike,
    checkpoint: PathLike,
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
        The events, a streaming table.
    path
        A published index; see :func:`tamis.spark.build`.
    output
        The folder for the matches: Parquet, in a folder for each batch. The folder of a batch
        appears when it is complete.
    checkpoint
        The folder where Spark keeps its progress. It belongs to this output only.
    trigger
        When a batch begins: an interval such as ``"10 seconds"``, ``"availableNow"`` to stop when
        all events that exist now are done, or the arguments of Spark's ``trigger()`` as a mapping.
        By default a batch begins when the previous one ends.
    name
        Spark's name for the query.
    **options
        ``keys``, ``events``, ``plan``, ``memory``, ``ship``, ``on_error``, ``only`` and ``at``, as
        in :func:`match`; without ``at``, rules have to be valid when a batch begins.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The running query. Its output has the keys, rule, index_version, and batch_id.

    Raises
    ------
    EventError, SchemaError
        The table is not a stream, a column is missing, or has a type that rules cannot compare.
    StorageError
        There is no such index, or the output belongs to another stream.
    """
    if not stream_df.isStreaming:
        raise EventError(
            "match_stream takes a streaming table, from spark.readStream; match() takes this one"
        )
    if "version" in options:
        raise TypeError("match_stream() has no version: each batch uses the current one")
    # Errors in the columns are raised now, and not by the first batch.
    match(stream_df.sparkSession.createDataFrame([], stream_df.schema), path, **options)
    folder = StreamOutput(resolve_folder(output))
    folder.claim(resolve_folder(checkpoint))

    def write(batch_df: DataFrame, number: int) -> None:
        if folder.is_complete(number):
            return
        version = folder.begin(number, path)
        found = match(batch_df, path, version=version, **options)
        aside = folder.new_aside(number)
        found.withColumn(VERSION, F.lit(version)).write.parquet(aside.as_uri())
        folder.finish(number, aside)

    writer = stream_df.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", resolve_folder(checkpoint).as_uri())
    if trigger is not None:
        writer = writer.trigger(**_trigger_arguments(trigger))
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def _trigger_arguments(trigger: Trigger) -> dict[str, Any]:
    if not isinstance(trigger, str):
        return dict(trigger)
    return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
