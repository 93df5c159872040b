"""Publish, select and remove versions of an index: one process at a time, and safe from crashes.

`tamis.spark.index.layout` says what is written when in a folder, `tamis.spark.index.bucket` in a
bucket. Nothing here needs Spark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from tamis.errors import StorageError
from tamis.matcher.published.address import Address
from tamis.matcher.storage.atomic import storage_errors, sync_folder
from tamis.matcher.storage.lock import Lock
from tamis.spark.index.bucket import forget_in_bucket, publish_to_bucket, rollback_in_bucket
from tamis.spark.index.layout import (
    ASIDE,
    BUILDER,
    MANIFEST,
    VERSIONS,
    Draft,
    PathLike,
    Place,
    Version,
    explain_missing,
    list_numbers,
    read_current,
    read_version,
    resolve_place,
    version_folder,
    write_current,
    write_manifest,
)
from tamis.spark.index.versions import current, version, versions

__all__ = ["forget", "publish", "rollback"]


def publish(
    path: PathLike,
    write: Callable[[Any, Version | None], Draft],
    repeat: str = "rollback(path, {number}) makes it current",
) -> Version:
    """Write a new version and make it the current one.

    Parameters
    ----------
    path
        The index; created if it does not exist.
    write
        Gets a folder for its files, or an address in a bucket, and the current version, or None if
        there is none. All files must be on disk when it returns; those that its draft does not
        name are kept, too.
    repeat
        What to do with the version if another builder was faster, which happens only in a bucket.

    Returns
    -------
    Version
        The new version.

    Raises
    ------
    LockedError
        Another process is building; in a bucket, it has published a version meanwhile.
    StorageError
        The folder holds something else, or cannot be written.
    """
    root = resolve_place(path)
    if isinstance(root, Address):
        return publish_to_bucket(root, write, repeat)
    _check_is_ours(root)
    with storage_errors(root):
        (root / VERSIONS).mkdir(parents=True, exist_ok=True)
    with _lock(root):
        _remove_leftovers(root)
        parent = None if read_current(root) is None else current(root)
        aside = root / VERSIONS / f"{ASIDE}{uuid4().hex}"
        with storage_errors(aside):
            aside.mkdir()
        try:
            draft = write(aside, parent)
            number = max([0, *list_numbers(root), *([] if parent is None else [parent.number])]) + 1
            write_manifest(root, aside, number, parent, draft)
            _rename(aside, version_folder(root, number))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        write_current(root, number)
        return read_version(root, number)


def rollback(path: PathLike, number: int) -> Version:
    """Make the version `number` the current one; it may be older or newer than the current one.

    Streams change to it at their next batch. No version is removed.

    Raises
    ------
    LockedError
        Another process is building.
    StorageError
        There is no such version.
    """
    root = resolve_place(path)
    if isinstance(root, Address):
        return rollback_in_bucket(root, number)
    wanted = version(root, number)
    with _lock(root):
        write_current(root, version(root, number).number)
    return wanted


def forget(path: PathLike, keep: int = 1) -> list[int]:
    """Remove old versions: all but the `keep` newest and the current one.

    A reader that has a removed version open keeps the files it has mapped, but cannot open others.

    Returns
    -------
    list of int
        The numbers of the removed versions.

    Raises
    ------
    LockedError
        Another process is building.
    """
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ValueError(f"keep is how many versions to keep, at least 1, not {keep!r}")
    root = resolve_place(path)
    if isinstance(root, Address):
        return forget_in_bucket(root, keep)
    with _lock(root):
        _remove_leftovers(root)
        current_number, known = current(root).number, versions(root)
        old = [v for v in known[:-keep] if v.number != current_number]
        removed = {v.number for v in old}
        used = {shard.path for v in known if v.number not in removed for shard in v.shards}
        for each in old:
            # Without its manifest a folder is not a version, even if this process is killed now.
            folder = version_folder(root, each.number)
            with storage_errors(folder):
                (folder / MANIFEST).unlink()
                sync_folder(folder)
        for number in list_numbers(root):
            folder = version_folder(root, number)
            if not (folder / MANIFEST).exists():
                _remove_unused(folder, used)
    return sorted(removed)


def _check_is_ours(root: Path) -> None:
    """Refuse to build in a folder that holds something else."""
    if root.exists() and not root.is_dir():
        raise StorageError(explain_missing(root), path=str(root))
    with storage_errors(root):
        names = {entry.name for entry in root.iterdir()} if root.exists() else set()
    if names and VERSIONS not in names:
        why = explain_missing(root) if "MANIFEST" in names else "the directory holds other files"
        raise StorageError(f"{why}; name one that does not exist yet", path=str(root))


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    if not (root / VERSIONS).is_dir():
        raise StorageError(explain_missing(root), path=str(root))
    lock = Lock(root / BUILDER, "builds a version", "wait for it to end")
    try:
        yield
    finally:
        lock.release()


def _remove_leftovers(root: Path) -> None:
    """Remove the folders of killed builds; the caller has the lock."""
    for entry in list((root / VERSIONS).iterdir()):
        if entry.name.startswith(ASIDE):
            shutil.rmtree(entry, ignore_errors=True)


def _rename(aside: Path, folder: Path) -> None:
    """Give a complete draft the name of its version, safe from a crash."""
    with storage_errors(folder):
        for inner, _, _ in os.walk(aside):
            sync_folder(Path(inner))
        aside.rename(folder)
        sync_folder(folder.parent)


def _remove_unused(folder: Path, used: set[Place]) -> None:
    """Remove a version's folder, except for shards that other versions use."""
    for entry in list(folder.iterdir()):
        if entry in used:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
