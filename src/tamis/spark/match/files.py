"""Match events in Parquet files: workers read them, and no event passes through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, NullType, StructField, StructType

from tamis.errors import EventError, InputFileError
from tamis.spark.index.layout import PathLike
from tamis.spark.match.answer_files import WRITTEN, AnswerFolder, count_answers
from tamis.spark.match.arrow_types import to_arrow_type
from tamis.spark.match.event_columns import EventColumns
from tamis.spark.match.options import Ask, Form, MatchOptions, Names, Only, Output, Plan
from tamis.spark.match.parquet_files import list_files, open_file
from tamis.spark.match.query import attributes_of, choose_version, prepare_query
from tamis.spark.match.shard_groups import group_shards
from tamis.spark.match.tables import ROW_AND_GROUP, check_form, merge_groups
from tamis.spark.match.worker import EVENT, MatchTask, key_names
from tamis.spark.runtime.work import Work, count_work

__all__ = ["match_files"]

_BATCH_SIZE = 65_536
"""How many events to read at a time, and the fewest that are worth a task."""

_SLICE_BITS = 40
"""The number of a row has that of its slice above these bits, and the row within it below."""


def match_files(
    spark: SparkSession,
    files: PathLike | Sequence[PathLike],
    path: PathLike,
    *,
    ask: Ask = "match",
    n: int = 5,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    plan: Plan = "auto",
    memory: int | str | None = None,
    ship: bool = False,
    only: Only = None,
    at: datetime | None = None,
    form: Form = "pairs",
    output: PathLike | None = None,
) -> DataFrame:
    """Match events in Parquet files that every node sees.

    Workers read the files with PyArrow: only keys and attributes that rules mention. This is
    faster than a Spark table, whose rows the JVM takes apart and Python puts together again.

    Parameters
    ----------
    spark
        The session.
    files
        A Parquet file, a folder of such files, a Delta table (with the package deltalake), or
        several of these; all with the same columns. They may be in a bucket: ``s3://…``, ``gs://…``
        and whatever else PyArrow reads.
    path
        A published index.
    ask
        ``"match"``, ``"counts"``, ``"first"`` or ``"top"``: the answers are those of the function
        of that name.
    n
        How many rules ``"first"`` and ``"top"`` give at most.
    keys, events, version, plan, memory, ship, only
        As in :func:`match`.
    at
        When rules have to be valid; by default now.
    form
        As in :func:`match`, if `ask` is ``"match"``.
    output
        A new folder that every node sees, for the answers: workers write them there as Parquet
        files, and the table that is returned reads these. It is there when this function returns,
        with all answers. For millions of matches this takes less than half of the time that Spark
        takes to write them.

    Raises
    ------
    InputFileError
        A file does not exist, or is not a Parquet file; or the names of folders hold a column
        that rules mention; or `output` exists.
    """
    listed = list_files(files)
    found = {file: open_file(file).metadata for file in listed.addresses}
    arrow = next(iter(found.values())).schema.to_arrow_schema()
    schema = StructType([StructField(field.name, _spark_type(field.type)) for field in arrow])
    blank = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in arrow], schema=arrow)
    options = MatchOptions(keys, events, version, plan, memory, ship, only=only, at=at)
    _refuse_partitions(listed.partitions - set(arrow.names), path, options)
    wanted: Output = check_form(form) if ask == "match" else ask
    query = prepare_query(schema, path, wanted, options, n=n, blank=blank)
    groups = group_shards(query.version, options)
    merges = len(groups) > 1 and wanted != "match"
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    slices = tuple(_slice_files(found, tasks))
    task = _FileTask(
        query.make_task(spark, groups, ROW_AND_GROUP if merges else ()),
        query.columns,
        tuple(arrow.names),
        _text_attributes(query.columns, arrow),
        tuple(_key_type(key) for key in query.keys),
        slices,
        len(groups),
    )
    # The slices of a group are neighbours, so that a node works on one or two groups at a time.
    size = len(groups) * len(slices)
    # Small row groups share a task.
    batches = -(-sum(file.num_rows for file in found.values()) // _BATCH_SIZE)
    numbers = spark.range(0, size, 1, max(1, min(size, len(groups) * max(tasks, batches))))
    work = Work(task.run, f"tamis_{ask}_files", count_work(spark))
    if merges:
        whole = StructType([*query.keys, *ROW_AND_GROUP, *query.answers])
        answers = merge_groups(query, numbers.mapInArrow(work, whole))
    else:
        answers = numbers.mapInArrow(work, query.schema)
    if output is None:
        return answers
    folder = AnswerFolder.create(output, len(query.keys))
    if merges:
        # The answers to an event are spread over several tasks, so Spark merges and writes them.
        folder.save(answers)
    else:
        writing = replace(work, function=task.write_to(folder).run, count_rows=count_answers)
        folder.finish(numbers.mapInArrow(writing, WRITTEN))
    return spark.read.schema(query.schema).parquet(folder.path)


def _refuse_partitions(partitions: Set[str], path: PathLike, options: MatchOptions) -> None:
    """Refuse to match without values that only the names of folders hold."""
    version, _ = choose_version(path, options.version, "match", 0)
    keys = options.keys or ()
    needed = attributes_of(version) | ({keys} if isinstance(keys, str) else set(keys))
    for column in sorted(partitions & needed):
        raise InputFileError(
            f"the column {column!r} is in the names of folders, and not in the files; "
            "read them with spark.read.parquet, and pass that to match()",
            path=column,
        )


class _Slice(NamedTuple):
    """Some rows of a row group of a file."""

    file: str
    group: int
    first: int
    last: int


@dataclass(frozen=True)
class _FileTask:
    """Reads slices of files and answers their events; its input are the numbers of slices."""

    task: MatchTask
    columns: EventColumns
    names: tuple[str, ...]
    """The names of all columns of a file."""
    dictionaries: tuple[str, ...]
    """The columns of text to read as dictionaries, as they are in the file."""
    keys: tuple[pa.DataType, ...]
    slices: tuple[_Slice, ...]
    groups: int
    """How many groups of shards there are; a number stands for a slice and a group."""
    folder: AnswerFolder | None = None
    """Where to write the answers; the task then returns reports about files."""

    def write_to(self, folder: AnswerFolder) -> _FileTask:
        """The same work, with answers that go to a folder."""
        answers, task = self.task.answers, self.task
        if task.ask == "match" and pa.types.is_string(answers.types[0]):
            encoded = pa.dictionary(pa.int32(), pa.large_string())
            task = replace(task, answers=pa.schema([(answers.names[0], encoded)]))
        return replace(self, task=task, folder=folder)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answers = self._answer(*divmod(number, len(self.slices)))
                if self.folder is None:
                    yield from answers
                else:
                    yield from self.folder.write(f"part-{number:05}", answers)

    def _answer(self, group: int, place: int) -> Iterator[pa.RecordBatch]:
        first = place << _SLICE_BITS
        for events in self._read(self.slices[place]):
            size = events.num_rows
            yield from self.task.answer(self._add_group(events, group, first))
            first += size

    def _add_group(self, events: pa.RecordBatch, group: int, first: int) -> pa.RecordBatch:
        """Add the numbers of rows and the group of shards, if there are several groups."""
        if self.groups == 1:
            return events
        size, (*keys, event) = events.num_rows, events.columns
        rows = pa.array(np.arange(first, first + size, dtype=np.int64))
        number = pa.array(np.full(size, group, np.int32))
        names = [*key_names(len(keys)), *(field.name for field in ROW_AND_GROUP), EVENT]
        return pa.RecordBatch.from_arrays([*keys, rows, number, event], names)

    def _read(self, part: _Slice) -> Iterator[pa.RecordBatch]:
        places = sorted({*self.columns.keys, *self._event_places()})
        names = [self.names[place] for place in places]
        file = open_file(part.file, self.dictionaries)
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise InputFileError(f"there is no column {missing[0]!r}", path=part.file)
        read = 0
        for batch in file.iter_batches(_BATCH_SIZE, [part.group], names, use_threads=False):
            first, last = max(part.first - read, 0), min(part.last - read, batch.num_rows)
            read += batch.num_rows
            if first < last:
                yield self._select_input(batch.slice(first, last - first))
            if read >= part.last:
                return

    def _event_places(self) -> list[int]:
        if self.columns.event is not None:
            return [self.columns.event]
        return [place for place, _ in self.columns.fields]

    def _select_input(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The keys and the event, as Spark would send them."""
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        nothing = pa.nulls(batch.num_rows)
        all_columns = [by_name.get(name, nothing) for name in self.names]
        table = pa.RecordBatch.from_arrays(all_columns, list(self.names))
        keys = [
            table.column(place).cast(key_type)
            for place, key_type in zip(self.columns.keys, self.keys, strict=True)
        ]
        return pa.RecordBatch.from_arrays(
            [*keys, self.columns.event_array(table)], [*key_names(len(keys)), EVENT]
        )


def _text_attributes(columns: EventColumns, arrow: pa.Schema) -> tuple[str, ...]:
    """The attributes that are text; keys have to be plain columns."""
    if columns.event is not None:
        return ()
    places = [place for place, _ in columns.fields if place not in columns.keys]
    return tuple(arrow.names[place] for place in places if pa.types.is_string(arrow.types[place]))


def _slice_files(files: Mapping[str, pq.FileMetaData], tasks: int) -> Iterator[_Slice]:
    """Divide all rows into slices for about `tasks` tasks, or fewer if slices would be small.

    Reading the end of a row group means reading all of it, but that costs little next to matching.
    """
    size = max(_BATCH_SIZE, -(-sum(file.num_rows for file in files.values()) // tasks))
    for name, file in files.items():
        for group in range(file.num_row_groups):
            rows = file.row_group(group).num_rows
            parts = -(-rows // size)
            for part in range(parts):
                yield _Slice(name, group, part * rows // parts, (part + 1) * rows // parts)


def _key_type(key: StructField) -> pa.DataType:
    if isinstance(key.dataType, NullType):
        raise EventError(f"the key {key.name!r} has a type that Spark does not know")
    return to_arrow_type(key.dataType)


def _spark_type(arrow_type: pa.DataType) -> DataType:
    """Spark's type; NullType, which rules cannot compare, for types that Spark does not know."""
    try:
        return from_arrow_type(arrow_type)
    except PySparkException:
        return NullType()
