"""A stream of events, matched batch by batch, with every match written exactly once.

::

    OUTPUT/
      batch_id=0/           the matches of a batch, as Parquet: complete, or not there
      batch_id=1/
      _tamis/stream         which stream writes here
      _tamis/batches/0      the version of the index that the batch is matched with
      _tamis/aside-…/       a batch that is being written

Spark notes in the checkpoint which events a batch has before it begins, and that it is done when it
has ended. Between the two a job may be killed, and Spark then begins the batch again with the same
events. So a batch is written aside and gets its name by one rename: if it has its name when it
begins, it was complete already, and is left alone; else nobody has seen anything of it.

Which version of the index is in force is looked up when a batch begins, and noted before anything
is matched. A batch that begins again keeps its version.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tamis.errors import EventError, StorageError
from tamis.matcher.storage.atomic import storing, write_aside
from tamis.spark.index.versions import PathLike, current, root_of, version
from tamis.spark.match.event_columns import Names
from tamis.spark.match.shard_groups import Plan
from tamis.spark.match.tables import match

__all__ = ["Batch", "batches", "match_stream"]

Trigger: TypeAlias = str | Mapping[str, Any]

VERSION: Final = "index_version"
_OURS: Final = "_tamis"
"""Spark passes over names that begin with an underscore when it reads a folder."""


class Batch(NamedTuple):
    """A batch of a stream that was begun."""

    number: int
    version: int
    """The version of the index that it is matched with."""
    begun: datetime
    done: bool
    """Whether its matches are there."""


class _Note(msgspec.Struct, frozen=True):
    """What is noted when a batch begins."""

    version: int
    begun: datetime


def match_stream(
    stream_df: DataFrame,
    path: PathLike,
    *,
    output: PathLike,
    checkpoint: PathLike,
    trigger: Trigger | None = None,
    keys: Names = None,
    events: Names = None,
    plan: Plan = "auto",
    memory: int | str | None = None,
    ship: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Match a stream of events, and write every match exactly once.

    Each batch is matched with the version of the index that is in force when it begins: a version
    that is published or rolled back to meanwhile is picked up without a restart. After a crash or
    ``kill -9``, start it again with the same arguments: it goes on where it was.

    Parameters
    ----------
    stream_df
        The events, a streaming table.
    path
        A published index; see :func:`tamis.spark.build`.
    output
        The folder for the matches, Parquet in a folder for each batch. A batch is there when all
        of it is.
    checkpoint
        The folder where Spark keeps how far it is. It belongs to this output and to no other.
    trigger
        When a batch begins: ``"10 seconds"`` for how often, ``"availableNow"`` to stop when
        everything that is there now is done, or what Spark's ``trigger()`` takes, as a mapping. By
        default the next batch begins when one ends.
    keys, events, plan, memory, ship
        As in :func:`match`.
    name
        What Spark calls the query.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The running query. What it writes has the keys, rule, index_version, and batch_id.

    Raises
    ------
    EventError, SchemaError
        The table is no stream, a column is not there, or has a type that rules cannot compare.
    StorageError
        There is no such index, or the output is that of another stream.
    """
    if not stream_df.isStreaming:
        raise EventError(
            "match_stream takes a streaming table, from spark.readStream; match() takes this one"
        )
    options: dict[str, Any] = {
        "keys": keys,
        "events": events,
        "plan": plan,
        "memory": memory,
        "ship": ship,
    }
    # What is wrong with the columns is said now, and not by the first batch.
    match(stream_df.sparkSession.createDataFrame([], stream_df.schema), path, **options)
    folder = _Output(root_of(output))
    folder.claim(root_of(checkpoint))

    def write(batch_df: DataFrame, number: int) -> None:
        if folder.has(number):
            return
        chosen = folder.begin(number, path)
        found = match(batch_df, path, version=chosen, **options)
        aside = folder.aside(number)
        found.withColumn(VERSION, F.lit(chosen)).write.parquet(aside.as_uri())
        folder.finish(number, aside)

    writer = stream_df.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", root_of(checkpoint).as_uri())
    if trigger is not None:
        writer = writer.trigger(**_trigger(trigger))
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def batches(output: PathLike) -> list[Batch]:
    """The batches that a stream has begun, and the version of the index of each.

    Parameters
    ----------
    output
        The folder that :func:`match_stream` writes to.

    Raises
    ------
    StorageError
        No stream writes there.
    """
    return _Output(root_of(output)).batches()


def _trigger(trigger: Trigger) -> dict[str, Any]:
    if not isinstance(trigger, str):
        return dict(trigger)
    return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}


class _Output:
    """The folder that a stream writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ours = folder / _OURS
        self._stream = self._ours / "stream"
        self._notes = self._ours / "batches"

    def claim(self, checkpoint: Path) -> None:
        """Make sure that output and checkpoint belong together.

        A checkpoint that begins anew would count its batches from 0 again, and find them done.
        """
        mark = checkpoint / _OURS
        with storing(self._folder):
            self._notes.mkdir(parents=True, exist_ok=True)
            checkpoint.mkdir(parents=True, exist_ok=True)
            here = self._stream.read_text() if self._stream.exists() else None
            there = mark.read_text() if mark.exists() else None
            started = any(self._notes.iterdir())
            for left in self._ours.glob("aside-*"):
                shutil.rmtree(left, ignore_errors=True)
        if here is not None and here == there:
            return
        if started or (there is not None and (checkpoint / "offsets").exists()):
            raise StorageError(
                f"it does not belong to the checkpoint {checkpoint}; give both as they were when "
                "the stream began, or a new folder for each",
                path=str(self._folder),
            )
        stream = uuid4().hex.encode()
        write_aside(self._stream, [stream])
        write_aside(mark, [stream])

    def has(self, number: int) -> bool:
        """Whether the batch is complete."""
        return self._place(number).exists()

    def begin(self, number: int, index: PathLike) -> int:
        """The version that a batch is matched with, noted for good."""
        note = self._notes / str(number)
        if note.exists():
            noted = self._read(note).version
            try:
                return version(index, noted).number
            except StorageError:
                # It was forgotten meanwhile. Nobody has seen a match of this batch yet.
                pass
        chosen = current(index).number
        write_aside(note, [msgspec.json.encode(_Note(chosen, datetime.now(UTC)))])
        return chosen

    def aside(self, number: int) -> Path:
        """Where to write a batch that has no name yet."""
        return self._ours / f"aside-{number}-{uuid4().hex}"

    def finish(self, number: int, aside: Path) -> None:
        """Have what was written be the batch."""
        with storing(self._folder):
            aside.rename(self._place(number))

    def batches(self) -> list[Batch]:
        """What was begun, in order."""
        if not self._stream.exists():
            raise StorageError("no stream writes here", path=str(self._folder))
        found = []
        for note in self._notes.iterdir():
            if note.name.isdecimal():
                read, number = self._read(note), int(note.name)
                found.append(Batch(number, read.version, read.begun, self.has(number)))
        return sorted(found)

    def _place(self, number: int) -> Path:
        return self._folder / f"batch_id={number}"

    def _read(self, note: Path) -> _Note:
        with storing(note):
            return msgspec.json.decode(note.read_bytes(), type=_Note)
