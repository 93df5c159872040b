"""A file that one process at a time holds, and that says who it is."""

from __future__ import annotations

import fcntl
import os
import platform
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

from tamis.errors import LockedError, StorageError
from tamis.matcher.storage.atomic import storing

__all__ = ["Lock"]


class Lock:
    """Keeps others out of a directory, also those of other processes.

    The system lets go of the lock when its holder ends, however that happens: what a dead
    process left in the file says nothing.

    Parameters
    ----------
    path
        The file; it is made if there is none, and stays.
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
        with storing(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, _about_this_process(), 0)
        except OSError as error:
            # Whoever has got it just now may not have written yet.
            time.sleep(_MOMENT)
            pid, where = _holder(os.pread(fd, _LONGEST, 0))
            os.close(fd)
            if not isinstance(error, BlockingIOError):
                raise StorageError(f"no lock is to be had: {error}", path=str(path)) from error
            raise LockedError(
                f"process {pid or 'unknown'} {doing}{where}; {advice}",
                path=str(path.parent),
                pid=pid,
            ) from None
        self.release = weakref.finalize(self, os.close, fd)


_LONGEST = 512
_MOMENT = 0.02


def _about_this_process() -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
    return f"{os.getpid()} {platform.node() or 'unknown'} {now}Z".encode()[:_LONGEST]


def _holder(content: bytes) -> tuple[int | None, str]:
    """The process that wrote this, and where and when; the file may be half written."""
    match content.decode(errors="replace").split():
        case [pid, host, since] if pid.isdigit():
            return int(pid), f" (on {host}, since {since})"
        case [pid, *_] if pid.isdigit():
            return int(pid), ""
        case _:
            return None, ""
