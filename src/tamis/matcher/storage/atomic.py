"""Opens files safely, and writes them so that after a crash each is either complete or absent."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tamis.errors import StorageError
from tamis.matcher.storage.file_names import UNFINISHED

__all__ = [
    "MissingFileError",
    "choose_file_mode",
    "close_file",
    "open_regular",
    "storage_errors",
    "sync_folder",
    "write_all",
    "write_all_at",
    "write_atomically",
]


class MissingFileError(StorageError):
    """A file does not exist. Code that opens a directory explains why, or tries again."""


@contextmanager
def storage_errors(path: os.PathLike[str]) -> Iterator[None]:
    """Raise what the operating system reports as a `StorageError` about `path`."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError("the file is missing", path=str(path)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{reason[:1].lower()}{reason[1:]}", path=str(path)) from error


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file; anything else is refused at once, where a pipe would wait for ever.

    A file that is opened for writing may not be a symbolic link: its target is not ours.

    Raises
    ------
    StorageError
        It is something else than a regular file.
    """
    if flags & (os.O_WRONLY | os.O_RDWR):
        if path.is_symlink():
            raise StorageError("it is a symbolic link, which is not written to", path=str(path))
        flags |= os.O_NOFOLLOW
    mode = choose_file_mode(path.parent) if flags & os.O_CREAT else 0
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StorageError("it is not a regular file", path=str(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def choose_file_mode(folder: Path) -> int:
    """The mode of new files in a folder, before the umask: no wider than the folder's own."""
    return (folder.stat().st_mode & 0o666) | 0o600


def close_file(fd: int) -> None:
    """Close a file whose changes are on the disk already, so that an error loses nothing."""
    with suppress(OSError):
        os.close(fd)


def write_all(fd: int, data: Any) -> None:
    """Write all of a buffer, with as many system calls as it takes."""
    view = memoryview(data)
    rest = view.cast("B") if view.nbytes else memoryview(b"")
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_all_at(fd: int, data: bytes, at: int) -> None:
    """Write all of these bytes at a place of a file, and leave its position."""
    while data:
        written = os.pwrite(fd, data, at)
        data, at = data[written:], at + written


def write_atomically(
    path: Path, pieces: Iterable[Any], complete: Callable[[int], None] | None = None
) -> None:
    """Create or replace a file: it holds all of these buffers, or stays as it was.

    Returns when the file is on the disk.

    Parameters
    ----------
    path
        The file.
    pieces
        The buffers, in their order.
    complete
        Is called with the open file after the last of them, and may change what was written.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    with storage_errors(path):
        try:
            # A killed process may have left one. It is not written to: it may be a link.
            unfinished.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(unfinished, flags, choose_file_mode(path.parent))
            try:
                for piece in pieces:
                    write_all(fd, piece)
                if complete is not None:
                    complete(fd)
                os.fsync(fd)
            finally:
                os.close(fd)
            unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
