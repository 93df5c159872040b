"""Folders of a version that is being written: on a shared file system, or on their way to a bucket.

Shards are always built in a folder of the executor. One of a bucket is a temporary folder, and is
copied when it is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tamis.matcher.published.address import Address
from tamis.matcher.published.shard_files import download_shard, read_files, upload_shard
from tamis.matcher.storage.atomic import storage_errors, write_atomically
from tamis.spark.index.layout import Place

__all__ = ["is_shared", "new_folder", "read_folder", "remove", "write_file"]


@contextmanager
def new_folder(place: Place) -> Iterator[Path]:
    """A new, empty folder to write to; what is in it at the end of the block is at `place`.

    A block that removes the folder leaves nothing there.
    It has the mode of the umask, like all the index: executors and driver may be different users.
    """
    if isinstance(place, Path):
        with storage_errors(place):
            place.mkdir()
        yield place
        return
    with TemporaryDirectory(prefix="tamis-") as work:
        folder = Path(work, place.name)
        with storage_errors(folder):
            folder.mkdir()
        yield folder
        if folder.exists():
            upload_shard(folder, place)


@contextmanager
def read_folder(place: Place, digest: str) -> Iterator[Path]:
    """The folder of a shard with this hash, to read from inside the block."""
    if isinstance(place, Path):
        yield place
        return
    with TemporaryDirectory(prefix="tamis-") as work:
        folder = Path(work)
        download_shard(place, read_files(place), digest, folder)
        yield folder


def write_file(place: Place, data: bytes | memoryview) -> None:
    """Write a small file or object."""
    if isinstance(place, Path):
        write_atomically(place, [data])
        return
    with storage_errors(place):
        place.write_bytes(data)


def is_shared(place: Place) -> bool:
    """Whether this process sees the folder of the version; a bucket is seen by all."""
    return isinstance(place, Address) or place.is_dir()


def remove(place: Place) -> None:
    """Remove a file or a folder."""
    if isinstance(place, Address):
        place.remove_tree()
    elif place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
