"""Find the rules of a published index on this machine's disk; those of a bucket are copied there.

A process that opens a shard keeps it in the cache as long as it has it open, and the next process,
or the next start of this one, finds it there.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

from tamis.errors import CorruptFileError
from tamis.matcher.merge_directories import merge_directories
from tamis.matcher.published.address import Address, Place
from tamis.matcher.published.cache import Cache, Entry, open_cache
from tamis.matcher.published.layout import Version
from tamis.matcher.published.shard_files import download_shard, read_files
from tamis.matcher.published.versions import current

__all__ = ["hold_shard", "open_published", "open_shard"]

_T = TypeVar("_T")

_HASH: Final = re.compile(r"[0-9a-f]{16,64}")


def open_shard(place: Place, digest: str, open_folder: Callable[[Path], _T]) -> _T:
    """Open a shard by a function that opens a folder.

    Parameters
    ----------
    place
        Where the shard is: a folder, or an address in a bucket.
    digest
        The hash of its files, as the version states it.
    open_folder
        Opens it. The folder stays as long as the object that it returns.

    Raises
    ------
    StorageError
        It cannot be downloaded, or there is no room for it.
    """
    if isinstance(place, Path):
        return open_folder(place)
    return _open_held(digest, partial(_hold_remote, place, digest), open_folder)


def hold_shard(place: Place, digest: str) -> Entry:
    """Find a shard on this machine's disk, as `open_shard` does; it stays as long as the result."""
    if isinstance(place, Path):
        return Entry(place)
    return _hold_remote(place, digest, open_cache())


def open_published(root: Place, open_folder: Callable[[Path], _T]) -> _T:
    """Open the rules of the current version of an index by a function that opens a folder.

    Several shards are merged into one folder of the cache.

    Raises
    ------
    StorageError
        There is no current version, or it cannot be downloaded or merged.
    """
    version = current(root)
    if len(version.shards) == 1:
        return open_shard(version.shards[0].path, version.shards[0].hash, open_folder)
    hashes = blake2b(digest_size=16)
    for part in (version.engine, *(shard.hash for shard in version.shards)):
        hashes.update(f"{part}\0".encode())
    key = hashes.hexdigest()
    return _open_held(key, partial(_hold_merged, version, key), open_folder)


def _open_held(key: str, hold: Callable[[Cache], Entry], open_folder: Callable[[Path], _T]) -> _T:
    cache = open_cache()
    entry = hold(cache)
    try:
        opened = open_folder(entry.path)
    except CorruptFileError:
        # The disk of the cache has failed; what was published may be all right.
        cache.drop(key, entry)
        entry = hold(cache)
        opened = open_folder(entry.path)
    weakref.finalize(opened, entry.release)
    return opened


def _hold_remote(place: Address, digest: str, cache: Cache) -> Entry:
    if not _HASH.fullmatch(digest):
        raise CorruptFileError(f"{digest!r} is not the hash of a shard", path=str(place))
    files: list[Any] = []

    def measure() -> int:
        files[:] = read_files(place)
        return sum(file.size for file in files)

    return cache.get(digest, measure, lambda folder: download_shard(place, files, digest, folder))


def _hold_merged(version: Version, key: str, cache: Cache) -> Entry:
    def merge(folder: Path) -> None:
        for stray in folder.iterdir():
            stray.unlink()
        held = [hold_shard(shard.path, shard.hash) for shard in version.shards]
        merge_directories([entry.path for entry in held], folder, engine=version.engine)

    return cache.get(key, lambda: sum(shard.bytes for shard in version.shards), merge)
