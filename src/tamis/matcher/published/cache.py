"""A cache of folders on this machine's disk, for all of its processes, that survives restarts.

::

    CACHE/
      KEY/              a complete entry; its content never changes
      KEY.lock          locked by those who use the entry, and by the one who fills it
      KEY.part/         an entry that is being filled, or whose filling was interrupted
      KEY.size          how many bytes it will have
      space.lock        locked while somebody makes room

A process that needs an entry locks it in common with others, so that nobody removes it, and keeps
that lock as long as it uses the entry. If the entry is missing, it locks it alone, fills
``KEY.part`` and renames it: processes that came later wait for the lock and find the entry. The
operating system releases the locks of a process that ends, however it ends.

The cache stays below its limit. Whoever needs room removes the entries that were used least
recently and are not in use now.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from tamis.errors import StorageError
from tamis.matcher.published.byte_sizes import read_byte_size
from tamis.matcher.storage.atomic import storage_errors

__all__ = ["Cache", "Entry", "open_cache"]

FOLDER: Final = "TAMIS_CACHE"
"""The environment variable that names the folder of the cache."""

SIZE: Final = "TAMIS_CACHE_SIZE"
"""The environment variable with the limit: a number of bytes, or a text such as ``20g``."""

_LOCK: Final = ".lock"
_PART: Final = ".part"
_RESERVED: Final = ".size"
_GONE: Final = ".gone-"
_SPACE: Final = "space"

Fill = Callable[[Path], None]
"""Fills a folder, which may hold what an interrupted attempt has left."""


class Entry:
    """A folder that stays as long as this object lives: one of the cache, or any other.

    Attributes
    ----------
    path
        The folder.
    release
        Allows others to remove it; a second call does nothing.
    """

    def __init__(self, path: Path, lock: int | None = None) -> None:
        self.path = path
        self.release = weakref.finalize(self, _close, lock)


class Cache:
    """Folders that are filled once and shared by processes.

    Parameters
    ----------
    folder
        Where they are; created if necessary.
    limit
        How many bytes they may take together.

    Attributes
    ----------
    counts
        How many entries this process found (``hits``) and filled (``misses``), and how many bytes
        it filled them with (``bytes``).
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self.counts: Counter[str] = Counter()

    def get(self, key: str, size: Callable[[], int], fill: Fill) -> Entry:
        """The entry of a key; it is filled if it is missing.

        Parameters
        ----------
        key
            A name that stands for the content.
        size
            How many bytes the entry will have; called if it is missing.
        fill
            Fills the folder of the entry.

        Raises
        ------
        StorageError
            There is no room for it, or the folder cannot be written.
        """
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        was_missing = False
        while True:
            entry = self._find(key)
            if entry is not None:
                self.counts["misses" if was_missing else "hits"] += 1
                return entry
            with self._locked(key):
                # Another process may have filled it while this one waited.
                if not (self._folder / key).is_dir():
                    self._fill(key, size(), fill)
                    was_missing = True

    def drop(self, key: str, entry: Entry) -> None:
        """Remove an entry whose content turned out to be damaged, unless others use it."""
        entry.release()
        with self._locked(_SPACE):
            self._remove(self._folder / key)

    def _find(self, key: str) -> Entry | None:
        lock = self._open_lock(key)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            path = self._folder / key
            if path.is_dir():
                os.utime(path)
                return Entry(path, lock)
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        return None

    def _fill(self, key: str, size: int, fill: Fill) -> None:
        """Fill an entry that this process has locked."""
        part, reserved = (self._folder / f"{key}{suffix}" for suffix in (_PART, _RESERVED))
        with storage_errors(part), self._locked(_SPACE):
            self._make_room(size, part)
            part.mkdir(exist_ok=True)
            reserved.write_text(str(size))
        try:
            fill(part)
            with storage_errors(part):
                part.rename(self._folder / key)
        finally:
            reserved.unlink(missing_ok=True)
        self.counts["bytes"] += size

    def _make_room(self, size: int, keep: Path) -> None:
        """Remove entries until there is room for `size` bytes beside the others."""
        for path in self._folder.glob(f"{_GONE}*"):
            shutil.rmtree(path, ignore_errors=True)
        entries = [path for path in self._folder.iterdir() if path.is_dir() and path != keep]
        entries.sort(key=_last_use)
        used = sum(map(self._measure, entries))
        for path in entries:
            if used + size <= self._limit:
                return
            measured = self._measure(path)
            if self._remove(path):
                used -= measured
        if used + size > self._limit:
            raise StorageError(
                f"the cache may take {self._limit:,} bytes, and {used:,} of them are in use, so "
                f"there is no room for {size:,} more; raise {SIZE}",
                path=str(self._folder),
            )

    def _measure(self, path: Path) -> int:
        """How many bytes an entry has, or will have."""
        try:
            return int((self._folder / f"{_key_of(path)}{_RESERVED}").read_text())
        except (OSError, ValueError):
            return sum(file.stat().st_size for file in path.iterdir())

    def _remove(self, path: Path) -> bool:
        """Remove an entry; False if it is in use. The caller has locked the space."""
        lock = self._open_lock(_key_of(path))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that dies while it removes files leaves no entry that looks complete.
            gone = self._folder / f"{_GONE}{uuid4().hex}"
            path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            (self._folder / f"{_key_of(path)}{_RESERVED}").unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError):
            return False
        finally:
            os.close(lock)
        return True

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Have an entry, or the space, for this process alone; waits for others."""
        lock = self._open_lock(key)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _open_lock(self, key: str) -> int:
        with storage_errors(self._folder):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            return os.open(self._folder / f"{key}{_LOCK}", flags, 0o666)


def _close(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def open_cache() -> Cache:
    """The cache of this machine, as the environment describes it.

    Raises
    ------
    StorageError
        The limit in the environment is not a size.
    """
    given = os.environ.get(FOLDER)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(given) if given else home / "tamis" / "shards"
    text = os.environ.get(SIZE)
    limit = _choose_limit(folder) if text is None else read_byte_size(text)
    if limit is None:
        raise StorageError(
            f"{SIZE} is a number of bytes, or a text such as 20g, not {text!r}", path=str(folder)
        )
    return _open_once(folder, limit)


@lru_cache(maxsize=4)
def _open_once(folder: Path, limit: int) -> Cache:
    return Cache(folder, limit)


def _choose_limit(folder: Path) -> int:
    """Half of the disk."""
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(parent).total // 2


def _key_of(path: Path) -> str:
    return path.name.removesuffix(_PART)


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
