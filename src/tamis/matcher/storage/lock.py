"""A lock file: one process at a time holds it, and the file says which."""

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
from tamis.matcher.storage.atomic import storage_errors

__all__ = ["Lock"]

_MOST_BYTES: Final = 512
"""How much of the file is written and read."""

_PAUSE: Final = 0.02
"""Seconds in which a process that has just got the lock has written its name."""


class Lock:
    """Keeps other processes, and other threads of this one, from writing to a directory.

    The operating system releases the lock when its holder ends, however that happens. What a dead
    process left in the file means nothing.

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
        The file cannot be written.
    """

    def __init__(self, path: Path, doing: str, advice: str) -> None:
        with storage_errors(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, _describe_this_process(), 0)
        except OSError as error:
            time.sleep(_PAUSE)
            pid, where = _read_holder(os.pread(fd, _MOST_BYTES, 0))
            os.close(fd)
            if not isinstance(error, BlockingIOError):
                raise StorageError(f"it cannot be locked: {error}", path=str(path)) from error
            raise LockedError(
                f"process {pid or 'unknown'} {doing}{where}; {advice}",
                path=str(path.parent),
                pid=pid,
            ) from None
        self.release = weakref.finalize(self, os.close, fd)


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
