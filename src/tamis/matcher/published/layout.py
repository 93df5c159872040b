"""Where a published index keeps its files, and how its manifests are read.

::

    PLACE/
      CURRENT               the number of the current version
      versions/000001/      a version; it never changes
        VERSION.json          its manifest
        shard-0000…/          rules, as `Matcher.save` writes them
        quarantine.parquet/   the rules that were refused

A place is a folder, or an address in a bucket. A version may share shards with an older one: its
manifest says where they are. `tamis.spark.index` writes all of this.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.published.address import Address, PathLike, Place, resolve_place
from tamis.matcher.storage.atomic import MissingFileError, storage_errors

__all__ = [
    "CURRENT",
    "FORMAT",
    "MANIFEST",
    "QUARANTINE",
    "VERSIONS",
    "Manifest",
    "Shard",
    "ShardEntry",
    "Version",
    "explain_missing",
    "is_published",
    "list_numbers",
    "read_current",
    "read_version",
    "resolve_folder",
    "version_folder",
]

_Place = TypeVar("_Place", Path, Address, Path | Address)

FORMAT: Final = 1
"""The version of the manifest's format; increase it with every change."""

CURRENT: Final = "CURRENT"
VERSIONS: Final = "versions"
MANIFEST: Final = "VERSION.json"
QUARANTINE: Final = "quarantine.parquet"
_NUMBER = re.compile(r"\d{6,}")


class Shard(NamedTuple):
    """A part of the rules: those whose ids have the same hash, modulo the number of shards."""

    path: Place
    """A directory that :func:`tamis.open` reads, or where it is in a bucket."""
    rules: int
    bytes: int
    hash: str
    """The hash of all its files: shards with equal hashes have equal content."""


class Version(NamedTuple):
    """One state of a published index; the files it names never change."""

    number: int
    folder: Place
    created: datetime
    rules: int
    bad: int
    """How many rules are in quarantine."""
    logic: str
    """The logic of rules that do not name their own."""
    engine: str
    schema: dict[str, str]
    id_type: str
    """``"string"`` or ``"long"``."""
    shards: tuple[Shard, ...]
    parent: int | None
    """The version that was current when this one was built."""
    parameters: dict[str, Any]
    """The other parameters of the build."""

    @property
    def quarantine(self) -> Place:
        """A folder of Parquet files: the refused rules, and the reasons."""
        return self.folder / QUARANTINE


class ShardEntry(msgspec.Struct, frozen=True):
    """A shard in a manifest."""

    name: str
    path: str
    """Relative to the index, so that an index can be moved."""
    rules: int
    bytes: int
    hash: str


class Manifest(msgspec.Struct, frozen=True):
    """The content of ``VERSION.json``."""

    format: int
    version: int
    parent: int | None
    created: datetime
    logic: str
    engine: str
    schema: dict[str, str]
    id_type: str
    rules: int
    bad: int
    shards: tuple[ShardEntry, ...]
    parameters: dict[str, Any]


class _Format(msgspec.Struct):
    """The one field that manifests of every format have."""

    format: int


def resolve_folder(path: PathLike) -> Path:
    """Turn `path`, which may be a ``file:`` address, into an absolute path.

    Raises
    ------
    StorageError
        It is an address of something other than a file system.
    """
    place = resolve_place(path)
    if isinstance(place, Address):
        raise StorageError(
            "this has to be a folder that all machines see under the same path; "
            "mount the bucket, and pass the path of the mount",
            path=str(place),
        )
    return place


def version_folder(root: _Place, number: int) -> _Place:
    """The folder of the version `number` of the index at `root`."""
    return root / VERSIONS / f"{number:06d}"


def is_published(root: Place) -> bool:
    """Whether a published index is at `root`, rather than the rules of one matcher."""
    return isinstance(root, Address) or ((root / CURRENT).is_file() and (root / VERSIONS).is_dir())


def list_numbers(root: Place) -> list[int]:
    """List the numbers of all version folders in ascending order, with or without a manifest."""
    try:
        names = [entry.name for entry in (root / VERSIONS).iterdir()]
    except OSError as error:
        if isinstance(root, Address):
            raise StorageError(f"it cannot be listed: {error}", path=str(root)) from error
        return []
    numbers = {int(name) for name in names if _NUMBER.fullmatch(name)}
    if isinstance(root, Address):
        numbers |= _find_unlisted(root, numbers)
    return sorted(numbers)


def _find_unlisted(root: Address, listed: set[int]) -> set[int]:
    """Versions that a list of objects lacks, which some stores make from memory that lags."""
    known = listed | {read_current(root) or 0}
    gaps = set(range(min(known - {0}, default=1), max(known) + 1)) - listed
    found = {number for number in gaps if (version_folder(root, number) / MANIFEST).exists()}
    number = max(known) + 1
    while (version_folder(root, number) / MANIFEST).exists():
        found.add(number)
        number += 1
    return found


def read_current(root: Place) -> int | None:
    """Read the number of the current version; None if there is none."""
    path = root / CURRENT
    try:
        with storage_errors(path):
            name = path.read_bytes().decode("utf-8", errors="replace").strip()
    except MissingFileError:
        return None
    except StorageError:
        if isinstance(root, Path) and not root.is_dir():
            return None
        raise
    if not _NUMBER.fullmatch(name):
        raise CorruptFileError(
            f"this is not the number of a version: {name[:40]!r}", path=str(path)
        )
    return int(name)


def read_version(root: Place, number: int) -> Version:
    """Read the manifest of the version `number`.

    Raises
    ------
    MissingFileError
        There is no such version.
    StorageError
        The manifest is damaged, or a newer Tamis wrote it.
    """
    folder = version_folder(root, number)
    path = folder / MANIFEST
    with storage_errors(path):
        data = path.read_bytes()
    manifest = _decode_manifest(data, path)
    shards = tuple(Shard(root / s.path, s.rules, s.bytes, s.hash) for s in manifest.shards)
    return Version(
        number,
        folder,
        manifest.created,
        manifest.rules,
        manifest.bad,
        manifest.logic,
        manifest.engine,
        manifest.schema,
        manifest.id_type,
        shards,
        manifest.parent,
        manifest.parameters,
    )


def _decode_manifest(data: bytes, path: Place) -> Manifest:
    try:
        # A manifest of a newer format may have any other fields, so the format is read first.
        format = msgspec.json.decode(data, type=_Format).format  # noqa: A001  the field's name
        if format > FORMAT:
            raise StorageError(
                f"it has format {format}, and this version of Tamis reads up to {FORMAT}; "
                "upgrade Tamis",
                path=str(path),
            )
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptFileError(f"the manifest is damaged: {error}", path=str(path)) from error


def explain_missing(root: Place) -> str:
    """Say why there is no current version at `root`, and what to do."""
    if not root.exists():
        return "there is no such index; tamis.spark.build(rules, path) makes one"
    if isinstance(root, Path) and not root.is_dir():
        return "it is a file; an index is a directory"
    if (root / "MANIFEST").exists():
        return (
            "it holds the rules of one matcher, for tamis.open; "
            "tamis.spark.build(rules, path) makes an index for Spark"
        )
    if list_numbers(root):
        return "no version is current; rollback(path, version) selects one"
    return "no version is published; tamis.spark.build(rules, path) publishes one"
