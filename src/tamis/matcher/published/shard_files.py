"""The files of a shard: their hash, and how they travel to a bucket and back.

In a bucket, ``FILES.json`` beside the files lists them with their sizes and hashes. It is written
last, so a shard without it is not complete; and nobody has to list objects, which some stores do
from memory that lags behind.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.published.address import CHUNK, Address
from tamis.matcher.storage.atomic import MissingFileError, storage_errors
from tamis.matcher.storage.file_names import LOCK

__all__ = ["FILES", "ShardFile", "download_shard", "hash_shard", "read_files", "upload_shard"]

FILES: Final = "FILES.json"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_ATTEMPTS: Final = 4
"""How often to try to read a part of an object."""

_PAUSE: Final = 0.2
"""Seconds before the second attempt; each further one waits twice as long."""


class ShardFile(msgspec.Struct, frozen=True):
    """A file of a shard."""

    name: str
    size: int
    hash: str


def hash_shard(folder: Path) -> tuple[int, str]:
    """The size of a shard in bytes, and the hash of the names and contents of its files."""
    size, digest = 0, blake2b(digest_size=16)
    for file in _list_content(folder):
        digest.update(file.name.encode() + b"\0")
        for chunk in _read_chunks(file):
            size += len(chunk)
            digest.update(chunk)
    return size, digest.hexdigest()


def _list_content(folder: Path) -> list[Path]:
    # The lock says who opened the shard last, which is not part of its content.
    return sorted(file for file in folder.iterdir() if file.name != LOCK)


def _read_chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _hash_file(file: Path) -> str:
    digest = blake2b(digest_size=16)
    for chunk in _read_chunks(file):
        digest.update(chunk)
    return digest.hexdigest()


def upload_shard(folder: Path, to: Address) -> None:
    """Copy a shard to a bucket; it is complete there when this returns."""
    files = []
    with storage_errors(to):
        for file in _list_content(folder):
            (to / file.name).upload(file)
            files.append(ShardFile(file.name, file.stat().st_size, _hash_file(file)))
        (to / FILES).write_bytes(msgspec.json.encode(files))


def read_files(shard: Address) -> list[ShardFile]:
    """List the files of a shard in a bucket.

    Raises
    ------
    StorageError
        The shard is not there, or its list is damaged.
    """
    place = shard / FILES
    try:
        with storage_errors(place):
            files = msgspec.json.decode(place.read_bytes(), type=list[ShardFile])
    except MissingFileError as error:
        raise _explain_missing(place) from error
    except msgspec.MsgspecError as error:
        raise CorruptFileError(f"the list of files is damaged: {error}", path=str(place)) from error
    for file in files:
        # A name must not lead out of the folder that files are downloaded to.
        if not _NAME.fullmatch(file.name) or file.size < 0:
            raise CorruptFileError(f"it lists a file {file.name!r}", path=str(place))
    return files


def download_shard(shard: Address, files: list[ShardFile], digest: str, to: Path) -> None:
    """Copy a shard from a bucket, and compare it with its hash.

    Files that are in the folder already, from a download that was interrupted, are kept if their
    content is right. A file whose content is wrong is downloaded once more.

    Parameters
    ----------
    shard
        The shard.
    files
        What `read_files` returned.
    digest
        The hash of the whole shard, as the version states it.
    to
        An existing folder.

    Raises
    ------
    CorruptFileError
        An object differs from what was published.
    StorageError
        An object is missing, or cannot be read.
    """
    for file in files:
        if not _is_right(to / file.name, file):
            _download_file(shard / file.name, file, to / file.name)
    for stray in {path.name for path in to.iterdir()} - {file.name for file in files}:
        (to / stray).unlink()
    if hash_shard(to)[1] != digest:
        raise CorruptFileError(
            "its files are not those that the version was published with; build the index again, "
            "or rollback() to another version",
            path=str(shard),
        )


def _is_right(path: Path, file: ShardFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and _hash_file(path) == file.hash


def _download_file(place: Address, file: ShardFile, to: Path) -> None:
    for _ in range(2):
        with to.open("wb") as target:
            while target.tell() < file.size:
                chunk = _read_part(place, target.tell(), min(CHUNK, file.size - target.tell()))
                if not chunk:
                    break
                target.write(chunk)
        if _is_right(to, file):
            return
    raise CorruptFileError(
        f"the object is not what was published: its {to.stat().st_size:,} bytes have another "
        "checksum; build the index again, or rollback() to another version",
        path=str(place),
    )


def _read_part(place: Address, start: int, length: int) -> bytes:
    """Read a part of an object; a connection that breaks is tried again."""
    for attempt in range(_ATTEMPTS):
        try:
            return place.read_range(start, length)
        except FileNotFoundError as error:
            raise _explain_missing(place) from error
        except OSError as error:
            if attempt == _ATTEMPTS - 1:
                raise StorageError(
                    f"it could not be downloaded in {_ATTEMPTS} attempts: {error}", path=str(place)
                ) from error
            time.sleep(_PAUSE * 2**attempt)
    raise AssertionError("every attempt returns or raises")


def _explain_missing(place: Address) -> MissingFileError:
    return MissingFileError(
        "the object is missing; forget() may have removed its version, or a rule of the bucket: "
        "start the query again to use the current version",
        path=str(place),
    )
