"""Publish versions of an index in a bucket, where nothing can be renamed and nothing is locked.

::

    s3://BUCKET/PREFIX/
      CURRENT                           the number of the current version
      versions/000001/BUILDER           who has this number: which process, where and since when
      versions/000001/shard-0000-1a2b…/ rules, and FILES.json, which lists their files
      versions/000001/quarantine.parquet/
      versions/000001/VERSION.json      the manifest

A builder creates ``BUILDER`` of the next free number, which only one can, so the number is its
own. It writes everything else there and the manifest last: a number without one is not a version.
Then it replaces ``CURRENT``, on condition that it is still as it was when the build began. If
another builder has replaced it meanwhile, the version stays, but is not current.

What a builder that was killed has left is removed by `forget`, after a day.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from tamis.errors import LockedError, StorageError
from tamis.matcher.published.address import Address
from tamis.matcher.published.shard_files import FILES
from tamis.matcher.published.versions import current, version, versions
from tamis.matcher.storage.atomic import storage_errors
from tamis.spark.index.exclusive import ExclusiveWrites, choose_writes
from tamis.spark.index.layout import (
    BUILDER,
    CURRENT,
    MANIFEST,
    Draft,
    Place,
    Version,
    encode_current,
    encode_manifest,
    list_numbers,
    read_version,
    version_folder,
)

__all__ = ["forget_in_bucket", "publish_to_bucket", "rollback_in_bucket"]

_ABANDONED: Final = timedelta(days=1)
"""A version that is not complete after this time was left by a builder that has died."""


def publish_to_bucket(
    root: Address, write: Callable[[Place, Version | None], Draft], repeat: str
) -> Version:
    """Write a new version to a bucket and make it the current one.

    Parameters
    ----------
    root
        The index.
    write
        As in :func:`tamis.spark.index.publish.publish`.
    repeat
        What to do if another builder was faster.

    Raises
    ------
    LockedError
        Another builder has published a version meanwhile.
    StorageError
        The bucket cannot be read or written.
    """
    writes = choose_writes(root)
    seen = writes.read(root / CURRENT)
    parent = None if seen.data is None else current(root)
    number = _reserve(root, writes)
    folder = version_folder(root, number)
    try:
        draft = write(folder, parent)
        manifest = encode_manifest(root, folder, number, parent, draft)
        with storage_errors(folder):
            (folder / MANIFEST).write_bytes(manifest)
    except BaseException:
        folder.remove_tree()
        raise
    if not writes.replace(root / CURRENT, encode_current(number), seen):
        raise LockedError(
            f"another builder has made version {current(root).number} current meanwhile; yours is "
            f"kept as version {number}: {repeat.format(number=number)}",
            path=str(root),
        )
    return read_version(root, number)


def _reserve(root: Address, writes: ExclusiveWrites) -> int:
    """Take the next free number."""
    number = max([0, *list_numbers(root)]) + 1
    while True:
        builder = version_folder(root, number) / BUILDER
        if writes.create(builder, _describe_builder()):
            return number
        number += 1


def _describe_builder() -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return f"{os.getpid()} {platform.node() or 'unknown'} {now} {uuid4().hex}\n".encode()


def rollback_in_bucket(root: Address, number: int) -> Version:
    """Make the version `number` the current one."""
    writes = choose_writes(root)
    seen = writes.read(root / CURRENT)
    wanted = version(root, number)
    for shard in wanted.shards:
        with storage_errors(shard.path / FILES):
            if not (shard.path / FILES).exists():
                raise StorageError(
                    f"version {number} is not complete: the shard is missing", path=str(shard.path)
                )
    if not writes.replace(root / CURRENT, encode_current(number), seen):
        raise LockedError(
            f"another process has made version {current(root).number} current meanwhile; "
            "look at it, and try again",
            path=str(root),
        )
    return wanted


def forget_in_bucket(root: Address, keep: int) -> list[int]:
    """Remove old versions: all but the `keep` newest and the current one."""
    current_number, known = current(root).number, versions(root)
    old = [each for each in known[:-keep] if each.number != current_number]
    removed = {each.number for each in old}
    used = {shard.path for each in known if each.number not in removed for shard in each.shards}
    for each in old:
        with storage_errors(each.folder):
            (each.folder / MANIFEST).unlink(missing_ok=True)
    complete = {each.number for each in known} - removed
    for number in list_numbers(root):
        folder = version_folder(root, number)
        if number in complete or (number not in removed and _is_being_built(folder)):
            continue
        with storage_errors(folder):
            entries = folder.iterdir()
            if not used.intersection(entries):
                folder.remove_tree()
                continue
            for entry in entries:
                if entry not in used:
                    entry.remove_tree()
    return sorted(removed)


def _is_being_built(folder: Address) -> bool:
    if (folder / MANIFEST).exists():
        # It was published since the versions were listed.
        return True
    try:
        written = (folder / BUILDER).written()
    except FileNotFoundError:
        # Shards that other versions used until now.
        return False
    return datetime.now(UTC) - written < _ABANDONED
