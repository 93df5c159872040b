"""The names of the files in a directory of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "DOCUMENTS",
    "LOCK",
    "LOG",
    "MANIFEST",
    "SEGMENT",
    "UNFINISHED",
    "NumberedFile",
    "file_name",
    "file_numbers",
    "list_files",
    "newest_number",
    "remove_file",
    "remove_files",
]

MANIFEST: Final = "MANIFEST"
LOCK: Final = "LOCK"

SEGMENT: Final = "segment"
LOG: Final = "log"
DOCUMENTS: Final = "documents"
"""The kinds of numbered files, such as ``log-00000007``."""

UNFINISHED: Final = ".aside"
"""The suffix of a file that is still being written."""

_NUMBERED: Final = re.compile(
    rf"({SEGMENT}|{LOG}|{DOCUMENTS})-(\d{{8,}})({re.escape(UNFINISHED)})?"
)


class NumberedFile(NamedTuple):
    """A file whose name is a kind and a number."""

    path: Path
    number: int
    is_finished: bool


def file_name(kind: str, number: int) -> str:
    """The name of a numbered file."""
    return f"{kind}-{number:08d}"


def list_files(folder: Path, kind: str) -> Iterator[NumberedFile]:
    """The files of a kind, in any order."""
    for path in folder.iterdir():
        found = _NUMBERED.fullmatch(path.name)
        if found is not None and found[1] == kind:
            yield NumberedFile(path, int(found[2]), found[3] is None)


def file_numbers(folder: Path, kind: str) -> list[int]:
    """The numbers of the finished files of a kind, in ascending order."""
    return sorted(file.number for file in list_files(folder, kind) if file.is_finished)


def newest_number(folder: Path, kind: str) -> int:
    """The highest number of a finished file of a kind; 0 if there is none."""
    try:
        return max(file_numbers(folder, kind), default=0)
    except OSError:
        return 0


def remove_files(folder: Path, kind: str, is_needed: Callable[[NumberedFile], bool]) -> None:
    """Remove the files of a kind that are unfinished or not needed."""
    for file in list(list_files(folder, kind)):
        if not (file.is_finished and is_needed(file)):
            remove_file(file.path)


def remove_file(path: Path) -> None:
    """Remove a superfluous file. If that fails it does no harm: such files are ignored."""
    with suppress(OSError):
        path.unlink()
