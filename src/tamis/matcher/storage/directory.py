"""Directories of rules as a whole: what they are, and how they are created and replaced."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from tamis.errors import StorageError
from tamis.matcher.segment import Segment
from tamis.matcher.storage.atomic import choose_file_mode, storage_errors, sync_folder
from tamis.matcher.storage.file_names import (
    DOCUMENTS,
    LOCK,
    LOG,
    MANIFEST,
    SEGMENT,
    UNFINISHED,
    file_name,
    file_numbers,
    newest_number,
    remove_file,
    remove_files,
)
from tamis.matcher.storage.lock import FolderLock, Lock
from tamis.matcher.storage.log import create_log
from tamis.matcher.storage.manifest import (
    Manifest,
    Settings,
    StoredView,
    draw_identity,
    read_manifest,
    write_manifest,
)
from tamis.matcher.storage.segment_file import write_segment

__all__ = [
    "create_directory",
    "is_index",
    "is_name_of_leftover",
    "lock_directory",
    "open_manifest",
    "read_identity",
    "read_settings",
    "remove_abandoned_folders",
    "remove_superfluous_files",
    "replace_directory",
]

_ASIDE: Final = re.escape(f"{UNFINISHED}-") + "[0-9a-f]{16}"
_LEFTOVER: Final = re.compile(f".+{_ASIDE}", re.DOTALL)
"""How folders are named in which a directory is written before it gets its own name."""

_NEW_MODE: Final = 0o700
"""The mode of a new directory: rules and payloads are their owner's."""


def is_index(folder: Path) -> bool:
    """Whether `folder` holds stored rules: whether there is a manifest in it."""
    try:
        return (folder / MANIFEST).exists()
    except OSError:
        return False


def read_settings(folder: Path) -> Settings:
    """Read the settings of a directory of rules.

    Raises
    ------
    StorageError
        It holds no stored rules, or cannot be read.
    """
    return open_manifest(folder).settings


def read_identity(folder: Path) -> str:
    """The identity of a directory of rules; empty if it has none."""
    with suppress(StorageError):
        return open_manifest(folder).identity
    return ""


def open_manifest(folder: Path) -> Manifest:
    """Read the manifest of a directory; the error says what is there if it has none."""
    if not is_index(folder):
        raise StorageError(_why_no_index(folder), path=str(folder))
    return read_manifest(folder)


def _why_no_index(folder: Path) -> str:
    if not folder.exists():
        return "there is no such directory"
    if not folder.is_dir():
        return "it is a file; stored rules are a directory"
    if not any(folder.iterdir()):
        return "the directory is empty; to store rules, name one that does not exist yet"
    return f"it holds no stored rules: there is no {MANIFEST}"


def create_directory(
    folder: Path,
    settings: Settings,
    segment: Segment | None = None,
    write_more: Callable[[Path], None] | None = None,
    identity: str = "",
) -> None:
    """Create a directory with the rules of `segment`: complete, or not at all.

    Parameters
    ----------
    folder
        The directory; an empty one may exist, and keeps its mode.
    settings
        What holds for all its rules.
    segment
        The rules, if there are any.
    write_more
        Writes other files into the directory.
    identity
        What tells its changes from those of others. Rules that are only stored have none, so that
        equal rules make equal files; whoever changes them draws one.

    Raises
    ------
    StorageError
        Something else has that name, or it cannot be created.
    """
    remove_abandoned_folders(folder)
    with storage_errors(folder):
        mode = stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() else _NEW_MODE
        aside, lock = _create_aside(folder)
        try:
            unfinished = aside / folder.name
            unfinished.mkdir()
            unfinished.chmod(mode)
            (unfinished / LOCK).touch(choose_file_mode(unfinished))
            if write_more is not None:
                write_more(unfinished)
            _write_first_files(unfinished, settings, segment, 1, identity)
            # A rename replaces an empty directory, and nothing else.
            unfinished.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            lock.release()
        sync_folder(folder.absolute().parent)


def _create_aside(folder: Path) -> tuple[Path, FolderLock]:
    """Create a hidden folder beside `folder` that no other process or thread has, and lock it.

    The lock says that its process is alive; see `remove_abandoned_folders`.
    """
    while True:
        aside = folder.with_name(f".{folder.name}{UNFINISHED}-{secrets.token_hex(8)}")
        aside.mkdir(_NEW_MODE, parents=True)
        # Another process may take it for an abandoned one before it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            lock = FolderLock(aside)
            if lock.is_held():
                return aside, lock
            lock.release()


def is_name_of_leftover(name: str) -> bool:
    """Whether older versions of Tamis named folders so that were not finished yet."""
    return _LEFTOVER.fullmatch(name) is not None


def remove_abandoned_folders(folder: Path) -> None:
    """Remove what killed processes have left of directories that were to become `folder`.

    Older versions did not hide them.
    """
    name = re.compile(rf"\.?{re.escape(folder.name)}{_ASIDE}")
    with suppress(OSError):
        for path in list(folder.absolute().parent.iterdir()):
            if name.fullmatch(path.name) and not path.is_symlink():
                _remove_if_abandoned(path)


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(OSError):
        # A finished directory of such a name is somebody's rules.
        if folder.stat().st_uid != os.geteuid() or is_index(folder):
            return
        # If this raises, the process that writes it is alive.
        lock = FolderLock(folder)
        try:
            if lock.is_exclusive:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.release()


def replace_directory(
    folder: Path,
    settings: Settings,
    segment: Segment | None,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Replace all rules of a directory by those of `segment`, atomically.

    Parameters
    ----------
    folder, settings, segment
        As in `create_directory`.
    write_more
        Writes other files into the directory, right after the rules.

    Raises
    ------
    StorageError
        `folder` holds no stored rules.
    LockedError
        Another process writes to it.
    """
    read_settings(folder)
    lock = lock_directory(folder)
    try:
        before = read_manifest(folder)
        numbers = [before.next_number, *(number + 1 for number in file_numbers(folder, LOG))]
        _write_first_files(folder, settings, segment, max(numbers), draw_identity())
        if write_more is not None:
            write_more(folder)
        remove_superfluous_files(folder, read_manifest(folder))
    finally:
        lock.release()


def _write_first_files(
    folder: Path, settings: Settings, segment: Segment | None, number: int, identity: str
) -> None:
    """Write a segment file and an empty log with this number, then their manifest.

    Documents that are there already are known to the manifest.
    """
    views: tuple[StoredView, ...] = ()
    if segment is not None and len(segment):
        name = file_name(SEGMENT, number)
        write_segment(folder / name, segment)
        views = (StoredView(name, np.empty(0, np.int32)),)
    create_log(folder / file_name(LOG, number))
    documents = newest_number(folder, DOCUMENTS)
    write_manifest(
        folder,
        Manifest(settings, views, number, number + 1, documents, revision=0, identity=identity),
    )


def lock_directory(folder: Path) -> Lock:
    """Lock a directory for writing.

    Raises
    ------
    LockedError
        Another process writes to it.
    """
    advice = "close it there, or open it with read_only=True"
    return Lock(folder / LOCK, "writes to it", advice)


def remove_superfluous_files(folder: Path, manifest: Manifest) -> None:
    """Remove segments and logs that the manifest does not need, and unfinished files."""
    segments = {view.file for view in manifest.views}
    remove_files(folder, SEGMENT, lambda file: file.path.name in segments)
    remove_files(folder, LOG, lambda file: file.number >= manifest.log)
    remove_file(folder / f"{MANIFEST}{UNFINISHED}")
