"""The folder that a stream writes to, with every match in it exactly once.

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

When a batch begins, the current version of the index is looked up and recorded before anything is
matched. A batch that starts again keeps its version.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from tamis.errors import StorageError
from tamis.matcher.storage.atomic import storage_errors, write_atomically
from tamis.spark.index.layout import PathLike, resolve_folder
from tamis.spark.index.versions import current, version

__all__ = ["Batch", "StreamOutput", "batches"]

_OURS: Final = "_tamis"
"""Spark ignores names that begin with an underscore when it reads a folder."""


class Batch(NamedTuple):
    """A batch of a stream that has begun."""

    number: int
    version: int
    """The version of the index that it is matched with."""
    begun: datetime
    done: bool
    """Whether its matches are complete."""


class _BatchRecord(msgspec.Struct, frozen=True):
    """The record of a batch that has begun."""

    version: int
    begun: datetime


def batches(output: PathLike) -> list[Batch]:
    """The batches that a stream has begun, each with its version of the index.

    Parameters
    ----------
    output
        The folder that :func:`match_stream` writes to.

    Raises
    ------
    StorageError
        No stream writes there.
    """
    return StreamOutput(resolve_folder(output)).batches()


class StreamOutput:
    """The folder that a stream writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ours = folder / _OURS
        self._stream = self._ours / "stream"
        self._records = self._ours / "batches"

    def claim(self, checkpoint: Path) -> None:
        """Make sure that output and checkpoint belong together, and remove unfinished batches.

        A new checkpoint would count batches from 0 again, and take the old ones for complete.

        Raises
        ------
        StorageError
            They belong to different streams.
        """
        mark = checkpoint / _OURS
        with storage_errors(self._folder):
            self._records.mkdir(parents=True, exist_ok=True)
            checkpoint.mkdir(parents=True, exist_ok=True)
            output_stream = self._stream.read_text() if self._stream.exists() else None
            checkpoint_stream = mark.read_text() if mark.exists() else None
            has_begun = any(self._records.iterdir())
            for unfinished in self._ours.glob("aside-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
        if output_stream is not None and output_stream == checkpoint_stream:
            return
        if has_begun or (checkpoint_stream is not None and (checkpoint / "offsets").exists()):
            raise StorageError(
                f"it does not belong to the checkpoint {checkpoint}; pass both as they were when "
                "the stream began, or a new folder for each",
                path=str(self._folder),
            )
        stream = uuid4().hex.encode()
        write_atomically(self._stream, [stream])
        write_atomically(mark, [stream])

    def is_complete(self, number: int) -> bool:
        """Whether all matches of a batch are written."""
        return self._batch_folder(number).exists()

    def begin(self, number: int, index: PathLike) -> int:
        """Choose and record the version that a batch is matched with."""
        file = self._records / str(number)
        if file.exists():
            recorded = self._read_record(file).version
            try:
                return version(index, recorded).number
            except StorageError:
                # The version was removed since. No reader has seen a match of this batch yet.
                pass
        chosen = current(index).number
        write_atomically(file, [msgspec.json.encode(_BatchRecord(chosen, datetime.now(UTC)))])
        return chosen

    def new_aside(self, number: int) -> Path:
        """A new path at which to write a batch."""
        return self._ours / f"aside-{number}-{uuid4().hex}"

    def finish(self, number: int, aside: Path) -> None:
        """Give the folder of a complete batch its name."""
        with storage_errors(self._folder):
            aside.rename(self._batch_folder(number))

    def batches(self) -> list[Batch]:
        """The batches that have begun, in order."""
        if not self._stream.exists():
            raise StorageError("no stream writes here", path=str(self._folder))
        found = []
        for file in self._records.iterdir():
            if file.name.isdecimal():
                record, number = self._read_record(file), int(file.name)
                found.append(Batch(number, record.version, record.begun, self.is_complete(number)))
        return sorted(found)

    def _batch_folder(self, number: int) -> Path:
        return self._folder / f"batch_id={number}"

    def _read_record(self, file: Path) -> _BatchRecord:
        with storage_errors(file):
            return msgspec.json.decode(file.read_bytes(), type=_BatchRecord)
