"""Locks: one process at a time may write to a folder, and a file in it says which.

Both the file and the folder are locked. The file can be removed or replaced while it is locked,
and the folder only together with all that is in it.
"""

from __future__ import annotations

import fcntl
import os
import platform
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tamis.errors import LockedError, StorageError
from tamis.forks import call_in_child
from tamis.matcher.storage.atomic import close_file, open_regular, storage_errors

__all__ = ["FolderLock", "Lock"]

_MOST_BYTES: Final = 512
"""How much of the file is written and read."""

_PAUSE: Final = 0.02
"""Seconds in which a process that has just got the lock has written its name."""


class FolderLock:
    """A lock on a folder itself, whatever happens to the files in it.

    Parameters
    ----------
    folder
        An existing folder.

    Attributes
    ----------
    is_exclusive
        Whether no other process can have it; not so where a file system cannot lock folders.
    release
        Releases it; a second call does nothing.

    Raises
    ------
    BlockingIOError
        Another process holds it.
    OSError
        The folder cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        fds: list[int] = []
        self.release = weakref.finalize(self, _release, fds, os.getpid())
        try:
            fds.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._identity = _identify(os.fstat(fds[0]))
            self.is_exclusive = _lock_now(fds[0])
        except BaseException:
            self.release()
            raise
        _locks.add(self)

    def is_held(self) -> bool:
        """Whether the folder of that name is still the one that was locked."""
        try:
            return _identify(self._folder.stat()) == self._identity
        except OSError:
            return False


def _lock_now(fd: int) -> bool:
    """Lock a folder; False where that is not supported. Raises BlockingIOError if another has."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


class Lock:
    """Keeps other processes, and other threads of this one, from writing to a directory.

    The operating system releases the lock when its holder ends, however that happens, even if
    forked children live on. What a dead process left in the file means nothing.

    Parameters
    ----------
    path
        The file; it is created if necessary, and never removed.
    doing
        What a holder does, for the message to others: ``"writes to it"``.
    advice
        What others may do about it.

    Raises
    ------
    LockedError
        Another process holds it.
    StorageError
        The file cannot be written, or is not a regular file of its own.
    """

    def __init__(self, path: Path, doing: str, advice: str) -> None:
        self._path = path
        self._folder: FolderLock | None = None
        fds: list[int] = []
        self._release_file = weakref.finalize(self, _release, fds, os.getpid())
        try:
            with storage_errors(path):
                fds.append(open_regular(path, os.O_RDWR | os.O_CREAT))
                found = os.fstat(fds[0])
            if found.st_nlink > 1:
                raise StorageError(
                    "the file has another name, too, and would be overwritten; remove it",
                    path=str(path),
                )
            self._identity = _identify(found)
            self._take(fds[0], doing, advice)
        except BaseException:
            self.release()
            raise
        _locks.add(self)

    def _take(self, fd: int, doing: str, advice: str) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._folder = FolderLock(self._path.parent)
            os.ftruncate(fd, 0)
            os.pwrite(fd, _describe_this_process(), 0)
        except BlockingIOError:
            time.sleep(_PAUSE)
            pid, where = _read_holder(os.pread(fd, _MOST_BYTES, 0))
            raise LockedError(
                f"process {pid or 'unknown'} {doing}{where}; {advice}",
                path=str(self._path.parent),
                pid=pid,
            ) from None
        except OSError as error:
            raise StorageError(f"it cannot be locked: {error}", path=str(self._path)) from error

    def is_held(self) -> bool:
        """Whether we still hold the lock on the directory at this path."""
        if self._folder is None or not self._folder.is_held():
            return False
        if self._folder.is_exclusive:
            return True
        try:
            return _identify(self._path.lstat()) == self._identity
        except OSError:
            return False

    def release(self) -> None:
        """Let others lock it. A second call does nothing."""
        self._release_file()
        if self._folder is not None:
            self._folder.release()


def _release(fds: list[int], pid: int) -> None:
    """Unlock and close files that were locked by process `pid`."""
    while fds:
        fd = fds.pop()
        try:
            # Forked children share the lock: it would last as long as one of them lives. And a
            # child that closes its copy must not unlock that of its parent.
            if os.getpid() == pid:
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            close_file(fd)


def _identify(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _describe_this_process() -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
    return f"{os.getpid()} {platform.node() or 'unknown'} {now}Z".encode()[:_MOST_BYTES]


def _read_holder(content: bytes) -> tuple[int | None, str]:
    """The process that holds a lock, and where and since when; the file may be half written."""
    match content.decode(errors="replace").split():
        case [pid, host, since] if pid.isdigit():
            return int(pid), f" (on {host}, since {since})"
        case [pid, *_] if pid.isdigit():
            return int(pid), ""
        case _:
            return None, ""


_locks: weakref.WeakSet[Lock | FolderLock] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child: drop the locks, which must not outlive the parent that holds them."""
    for lock in list(_locks):
        lock.release()


call_in_child(_after_fork)
