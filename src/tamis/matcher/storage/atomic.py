"""Writing so that it is either all there or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tamis.errors import StorageError

__all__ = ["ASIDE", "MissingFileError", "storing", "sync_folder", "write_all", "write_aside"]

ASIDE = ".aside"
"""How the name of a file ends that is not finished."""


class MissingFileError(StorageError):
    """A file that is not there. Whoever opens a directory tells why, or looks again."""


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """What the system refuses inside is told as an error about `path`."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError("the file is missing", path=str(path)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{reason[:1].lower()}{reason[1:]}", path=str(path)) from error


def write_all(fd: int, data: Any) -> None:
    """Write all of a buffer, in as many pieces as it takes."""
    view = memoryview(data)
    rest = view.cast("B") if view.nbytes else memoryview(b"")
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_aside(path: Path, pieces: Iterable[Any]) -> None:
    """Have a file of these buffers in the place of whatever is there, safe from a crash."""
    aside = path.with_name(path.name + ASIDE)
    with storing(path):
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                for piece in pieces:
                    write_all(fd, piece)
                os.fsync(fd)
            finally:
                os.close(fd)
            aside.replace(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a crash."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
