"""Parquet files of answers that workers write themselves, so that no answer passes through the JVM.

Workers write into a hidden folder beside the wanted one, each attempt of a task under a name of its
own, and tell the driver what they wrote. The driver moves those files into a second folder, and
gives it the wanted name: it appears with all answers, or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tamis.errors import InputFileError
from tamis.matcher.published.address import is_address
from tamis.spark.index.layout import PathLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["WRITTEN", "AnswerFolder", "count_answers"]

WRITTEN: Final = StructType([StructField("file", StringType()), StructField("rows", LongType())])
"""What a worker reports about each file that it wrote."""

_REPORT: Final = pa.schema([("file", pa.string()), ("rows", pa.int64())])

_DICTIONARY_BYTES: Final = 1 << 23
"""How large the ids of a row group may be before Parquet repeats each of them for every match."""


@dataclass(frozen=True)
class AnswerFolder:
    """A folder that will have the answers of a query."""

    path: str
    aside: str
    """Where workers write."""
    keys: int
    """How many columns are keys; they stand before the answers."""

    @classmethod
    def create(cls, path: PathLike, keys: int) -> AnswerFolder:
        """Create the folder aside.

        Raises
        ------
        InputFileError
            There is something at `path`, or it is an address in a bucket.
        """
        text = os.fspath(path)
        if is_address(text):
            raise InputFileError(
                "workers write answers to folders that every node sees; for a bucket leave out "
                "output=, and write the table that is returned",
                path=text,
            )
        final = Path(text).absolute()
        if final.exists():
            raise InputFileError("there is a file or folder of this name already", path=str(final))
        aside = final.with_name(f".{final.name}-{uuid4().hex}")
        aside.mkdir(parents=True)
        return cls(str(final), str(aside), keys)

    def write(self, name: str, answers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write answers to a file, on a worker; report it, unless there was no answer at all."""
        file = f"{name}-{uuid4().hex}.parquet"
        writer, rows = None, 0
        try:
            for batch in answers:
                if writer is None:
                    writer = pq.ParquetWriter(
                        Path(self.aside, file),
                        batch.schema,
                        # Readers see texts, although this process wrote dictionaries.
                        store_schema=False,
                        dictionary_pagesize_limit=_DICTIONARY_BYTES,
                        # The least and the greatest rule of a file are of no use to readers,
                        # and finding them takes longer than writing.
                        write_statistics=batch.schema.names[: self.keys],
                    )
                if batch.num_rows:
                    writer.write_batch(batch)
                rows += batch.num_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            yield pa.record_batch([[file], [rows]], schema=_REPORT)

    def finish(self, written: DataFrame) -> None:
        """Run the job whose rows are the reports, and put the folder in its place."""
        with self._put_in_place() as ready:
            for row in written.collect():
                Path(self.aside, row["file"]).rename(ready / row["file"])
            (ready / "_SUCCESS").touch()

    def save(self, answers: DataFrame) -> None:
        """Have Spark write a table, and put the folder in its place."""
        with self._put_in_place() as ready:
            answers.write.mode("overwrite").parquet(str(ready))

    @contextmanager
    def _put_in_place(self) -> Iterator[Path]:
        """Give the folder that is filled meanwhile its name.

        It is another one than that of the workers: an attempt that was given up may still write.
        """
        ready = Path(f"{self.aside}-ready")
        ready.mkdir()
        try:
            yield ready
            ready.rename(self.path)
        finally:
            for folder in (ready, self.aside):
                shutil.rmtree(folder, ignore_errors=True)


def count_answers(report: pa.RecordBatch) -> int:
    """How many answers the files have that a report names."""
    return sum(report.column("rows").to_pylist())
