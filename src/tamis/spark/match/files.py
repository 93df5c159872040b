"""The fast road: workers read Parquet files themselves, and no event passes through the JVM."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, NullType, StructField, StructType

from tamis.errors import EventError, InputFileError
from tamis.spark.index.versions import PathLike
from tamis.spark.match.event_columns import EventColumns, Names
from tamis.spark.match.query import prepare
from tamis.spark.match.worker import EVENT, Ask, Task

__all__ = ["match_files"]

_ROWS = 65_536
"""How many events are read at a time, and for how many a task is worth its while."""


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
    ship: bool = False,
) -> DataFrame:
    """As `match`, for events in Parquet files that every node sees.

    Workers read the files with PyArrow, and of them only keys and what rules mention. That is
    faster than a table of Spark's: its rows would be taken apart in the JVM and put together again
    in Python.

    Parameters
    ----------
    spark
        The session.
    files
        A Parquet file, a folder of such files, or several of both; all with the same columns.
    path
        A published index.
    ask
        ``"match"``, ``"counts"`` or ``"top"``: the answers are those of the function of that name.
    n
        How many rules ``"top"`` gives at most.
    keys, events, version, ship
        As in :func:`match`.

    Raises
    ------
    InputFileError
        There is no such file, or it is no Parquet file.
    """
    found = {str(file): _opened(file).metadata for file in _listed(files)}
    arrow = next(iter(found.values())).schema.to_arrow_schema()
    schema = StructType([StructField(field.name, _spark_type(field.type)) for field in arrow])
    blank = pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in arrow.types], schema=arrow)
    query = prepare(schema, path, ask, n=n, keys=keys, events=events, version=version, blank=blank)
    slices = tuple(_sliced(found, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))
    task = _FileTask(
        query.task(spark, (query.version.shards,), ship),
        query.columns,
        tuple(arrow.names),
        _encoded(query.columns, arrow),
        tuple(_key_type(key) for key in query.keys),
        slices,
    )
    numbers = spark.range(0, len(slices), 1, max(1, len(slices)))
    return numbers.mapInArrow(task.run, query.schema)


class _Slice(NamedTuple):
    """Some rows of a row group of a file."""

    file: str
    group: int
    first: int
    last: int


@dataclass(frozen=True)
class _FileTask:
    """What every task does: the rows that come say which slices are to be read."""

    task: Task
    columns: EventColumns
    names: tuple[str, ...]
    """Of all columns of a file."""
    encoded: tuple[str, ...]
    """Columns of texts that stay encoded by a dictionary, as they are in the file."""
    keys: tuple[pa.DataType, ...]
    slices: tuple[_Slice, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for events in self._read(self.slices[number]):
                    yield from self.task.answer(events)

    def _read(self, piece: _Slice) -> Iterator[pa.RecordBatch]:
        places = sorted({*self.columns.keys, *self._event_places()})
        names = [self.names[place] for place in places]
        file = _opened(piece.file, self.encoded)
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise InputFileError(f"there is no column {missing[0]!r}", path=piece.file)
        read = 0
        for batch in file.iter_batches(_ROWS, [piece.group], names, use_threads=False):
            first, last = max(piece.first - read, 0), min(piece.last - read, batch.num_rows)
            read += batch.num_rows
            if first < last:
                yield self._sent(batch.slice(first, last - first))
            if read >= piece.last:
                return

    def _event_places(self) -> list[int]:
        if self.columns.event is not None:
            return [self.columns.event]
        return [place for place, _ in self.columns.fields]

    def _sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The keys and the event, as Spark would send them."""
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        nothing = pa.nulls(batch.num_rows)
        whole = [by_name.get(name, nothing) for name in self.names]
        table = pa.RecordBatch.from_arrays(whole, list(self.names))
        keys = [
            table.column(place).cast(kind)
            for place, kind in zip(self.columns.keys, self.keys, strict=True)
        ]
        names = [f"k{i}" for i in range(len(keys))]
        return pa.RecordBatch.from_arrays([*keys, self.columns.array(table)], [*names, EVENT])


def _listed(files: PathLike | Sequence[PathLike]) -> list[Path]:
    """All files, those in folders too; what Spark passes over is passed over."""
    given = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(f) for f in files]
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(path.rglob("*.parquet"))
        found += [file for file in inside if not file.name.startswith(("_", "."))]
    if not found:
        raise InputFileError(
            "there are no Parquet files", path=", ".join(map(str, given)) or "files"
        )
    return found


def _opened(file: Path | str, encoded: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file; `encoded` columns are had as dictionaries where they are texts."""
    try:
        return pq.ParquetFile(file, read_dictionary=list(encoded), memory_map=True)
    except FileNotFoundError:
        raise InputFileError(
            "there is no such file; every node has to see it", path=str(file)
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise InputFileError(f"no Parquet file: {error}", path=str(file)) from None


def _encoded(columns: EventColumns, arrow: pa.Schema) -> tuple[str, ...]:
    """The attributes that are texts; a key has to be a plain column."""
    if columns.event is not None:
        return ()
    places = [place for place, _ in columns.fields if place not in columns.keys]
    return tuple(arrow.names[place] for place in places if pa.types.is_string(arrow.types[place]))


def _sliced(files: Mapping[str, pq.FileMetaData], tasks: int) -> Iterator[_Slice]:
    """All rows in slices for so many tasks, as far as these are worth their while.

    To read the end of a row group is to read all of it, but that costs little beside matching.
    """
    most = max(_ROWS, -(-sum(file.num_rows for file in files.values()) // tasks))
    for name, file in files.items():
        for group in range(file.num_row_groups):
            rows = file.row_group(group).num_rows
            pieces = -(-rows // most)
            for piece in range(pieces):
                yield _Slice(name, group, piece * rows // pieces, (piece + 1) * rows // pieces)


def _key_type(key: StructField) -> pa.DataType:
    if isinstance(key.dataType, NullType):
        raise EventError(f"the key {key.name!r} has a type that Spark does not know")
    return to_arrow_type(key.dataType, timezone="UTC")


def _spark_type(kind: pa.DataType) -> DataType:
    """What Spark calls it; NullType for what it does not know, which rules cannot compare."""
    try:
        return from_arrow_type(kind)
    except PySparkException:
        return NullType()
