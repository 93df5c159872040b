"""The folder that a stream writes to, with every row in it exactly once.

::

    OUTPUT/
      batch_id=0/           the matches of a batch, as Parquet: complete, or not there
      batch_id=1/
      _tamis/stream         the id of the stream that writes here
      _tamis/batches/0      the version of the index that the batch is matched with
      _tamis/aside-…/       a batch that is being written

Spark records the events of a batch in the checkpoint before the batch begins, and its completion
after it has ended. If a job is killed in between, Spark starts the batch again with the same
events. So a batch is written aside and gets its name by one rename. If the name exists when a
batch starts, the batch was already complete, and is skipped; otherwise no reader has seen any of
its matches.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tamis.errors import StorageError
from tamis.matcher.storage.atomic import storage_errors, write_atomically
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.stream.batch_log import LOG, Batch, BatchLog, claim_checkpoint, has_begun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["StreamOutput", "batches"]

_OURS: Final = "_tamis"
"""Spark ignores names that begin with an underscore when it reads a folder."""


def batches(output: PathLike) -> list[Batch]:
    """The batches that a stream has begun, each with its version of the index.

    Parameters
    ----------
    output
        The folder that :func:`match_stream` writes to; the checkpoint, if it writes to a topic or
        a table.

    Raises
    ------
    StorageError
        No stream writes there.
    """
    folder = resolve_folder(output)
    if (folder / LOG).is_dir():
        return BatchLog(folder / LOG).batches()
    return StreamOutput(folder).batches()


class StreamOutput:
    """The folder that a stream writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ours = folder / _OURS
        self._stream = self._ours / "stream"
        self.log = BatchLog(self._ours / "batches")

    def claim(self, checkpoint: Path, *, may_join: bool = False) -> str:
        """Make sure that output and checkpoint belong together, and remove unfinished batches.

        A new checkpoint would count batches from 0 again, and take the old ones for complete.

        Parameters
        ----------
        checkpoint
            The checkpoint of the stream.
        may_join
            Whether an empty folder may become an output of a stream that has begun without it.

        Returns
        -------
        str
            The id of the stream.

        Raises
        ------
        StorageError
            They belong to different streams.
        """
        with storage_errors(self._folder):
            self._ours.mkdir(parents=True, exist_ok=True)
            self.log.create()
            begun = has_begun(checkpoint)
            checkpoint_stream = claim_checkpoint(checkpoint)
            output_stream = self._stream.read_text() if self._stream.exists() else None
            for unfinished in self._ours.glob("aside-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
        if output_stream == checkpoint_stream:
            return checkpoint_stream
        is_used = not self.log.is_empty or any(self._folder.glob("batch_id=*"))
        if is_used or (begun and not (may_join and output_stream is None)):
            raise StorageError(
                f"it does not belong to the checkpoint {checkpoint}; pass both as they were when "
                "the stream began, or a new folder for each",
                path=str(self._folder),
            )
        write_atomically(self._stream, [checkpoint_stream.encode()])
        return checkpoint_stream

    def write(self, rows: DataFrame, number: int) -> None:
        """Write the rows of a batch, unless it is there already."""
        if self.is_complete(number):
            return
        aside = self._ours / f"aside-{number}-{uuid4().hex}"
        rows.write.parquet(aside.as_uri())
        with storage_errors(self._folder):
            aside.rename(self._batch_folder(number))

    def is_complete(self, number: int) -> bool:
        """Whether all rows of a batch are written."""
        return self._batch_folder(number).exists()

    def batches(self) -> list[Batch]:
        """The batches that have begun, in order."""
        if not self._stream.exists():
            raise StorageError("no stream writes here", path=str(self._folder))
        return [
            batch._replace(done=batch.done or self.is_complete(batch.number))
            for batch in self.log.batches()
        ]

    def _batch_folder(self, number: int) -> Path:
        return self._folder / f"batch_id={number}"
