"""What a stream remembers of its batches: the version and the time each is matched with.

When a batch begins, the current version of the index and the time are recorded before anything is
matched. A batch that starts again keeps both, so it finds the same matches: what it writes a second
time is what it wrote the first time. The records lie beside the matches if these go to a folder,
else in the checkpoint.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from tamis.errors import StorageError
from tamis.matcher.storage.atomic import storage_errors, write_atomically
from tamis.spark.index.layout import PathLike
from tamis.spark.index.versions import current, version

__all__ = ["LOG", "Batch", "BatchLog", "BatchRecord", "claim_checkpoint"]

_MARK: Final = "_tamis"
"""The file in a checkpoint with the id of its stream."""

LOG: Final = "_tamis_batches"
"""The folder in a checkpoint with the records of batches, if the matches go to no folder."""


class Batch(NamedTuple):
    """A batch of a stream that has begun."""

    number: int
    version: int
    """The version of the index that it is matched with."""
    begun: datetime
    done: bool
    """Whether its matches are complete."""


class BatchRecord(msgspec.Struct, frozen=True):
    """The record of a batch that has begun."""

    version: int
    begun: datetime
    done: bool = False


class BatchLog:
    """The records of a stream's batches, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def is_empty(self) -> bool:
        """Whether no batch has begun."""
        return not self._folder.exists() or not any(self._folder.iterdir())

    def create(self) -> None:
        """Create the folder if it does not exist."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def begin(self, number: int, index: PathLike) -> BatchRecord:
        """Choose and record the version that a batch is matched with; a second time, read it."""
        if self._file(number).exists():
            record = self.read(number)
            try:
                version(index, record.version)
            except StorageError:
                # The version was removed since.
                pass
            else:
                return record
        record = BatchRecord(current(index).number, datetime.now(UTC))
        self._write(number, record)
        return record

    def is_done(self, number: int) -> bool:
        """Whether a batch was recorded as complete."""
        return self._file(number).exists() and self.read(number).done

    def finish(self, number: int) -> None:
        """Record that everything of a batch is written."""
        self._write(number, msgspec.structs.replace(self.read(number), done=True))

    def read(self, number: int) -> BatchRecord:
        """Read the record of a batch that has begun."""
        file = self._file(number)
        with storage_errors(file):
            return msgspec.json.decode(file.read_bytes(), type=BatchRecord)

    def batches(self) -> list[Batch]:
        """The batches that have begun, in order."""
        numbers = (int(file.name) for file in self._folder.iterdir() if file.name.isdecimal())
        return [
            Batch(number, *msgspec.structs.astuple(self.read(number))) for number in sorted(numbers)
        ]

    def _write(self, number: int, record: BatchRecord) -> None:
        write_atomically(self._file(number), [msgspec.json.encode(record)])

    def _file(self, number: int) -> Path:
        return self._folder / str(number)


def claim_checkpoint(checkpoint: Path) -> str:
    """The id of the stream that a checkpoint belongs to; a new one gets an id."""
    with storage_errors(checkpoint):
        checkpoint.mkdir(parents=True, exist_ok=True)
        mark = checkpoint / _MARK
        if mark.exists():
            return mark.read_text()
        stream = uuid4().hex
        write_atomically(mark, [stream.encode()])
        return stream


def has_begun(checkpoint: Path) -> bool:
    """Whether a stream of Tamis has begun with this checkpoint."""
    return (checkpoint / _MARK).exists() and (checkpoint / "offsets").exists()
