"""The files of an event log, and their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tamis.errors import StorageError
from tamis.matcher.storage.file_names import UNFINISHED, remove_file
from tamis.matcher.storage.log import create_log

__all__ = ["SIDE", "LogFile", "create_file", "list_files", "remove_unfinished", "size_of"]

_NAME: Final = re.compile(r"events-(\d{12,})")
SIDE: Final = ".arrow"
"""The suffix of the columns of a file that has ended; see `columns.py`."""


class LogFile(NamedTuple):
    """A file of the log."""

    path: Path
    first: int
    """The sequence number of its first event."""


def create_file(folder: Path, first: int) -> LogFile:
    """Create a file of the log for events from the number `first` on."""
    path = folder / f"events-{first:012d}"
    create_log(path)
    return LogFile(path, first)


def list_files(folder: Path) -> list[LogFile]:
    """The files of a log, the oldest first."""
    try:
        names = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(str(error.strerror), path=str(folder)) from error
    return sorted((LogFile(path, int(path.name[7:])) for path in names), key=lambda f: f.first)


def remove_unfinished(folder: Path) -> None:
    """Remove files that were being written when their process ended."""
    for path in list(folder.iterdir()):
        if path.name.startswith("events-") and path.name.endswith(UNFINISHED):
            remove_file(path)


def size_of(path: Path) -> int:
    """The length of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
