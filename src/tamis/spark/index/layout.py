"""Where a published index keeps its files, and how its manifests are read and written.

::

    PATH/
      CURRENT               the number of the current version
      BUILDER               the lock of a running build: which process, where and since when
      versions/000001/      a version; it never changes
        VERSION.json          its manifest
        shard-0000/           rules, as `Matcher.save` writes them
        quarantine.parquet/   the rules that were refused
      versions/.aside-…/    a version that is being written, or that a killed build left

A version is written to a folder aside, and gets its name by one rename when all of its files are
on disk. Then ``CURRENT`` is replaced, also by a rename. A build that is killed earlier leaves the
current version untouched, and a folder that the next build removes. A version may share shards
with an older one: its manifest says where they are.

Nothing here needs Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.storage.atomic import MissingFileError, storage_errors, write_atomically

__all__ = [
    "ASIDE",
    "BUILDER",
    "CURRENT",
    "MANIFEST",
    "QUARANTINE",
    "VERSIONS",
    "Draft",
    "PathLike",
    "Shard",
    "Version",
    "explain_missing",
    "list_numbers",
    "read_current",
    "read_version",
    "resolve_folder",
    "version_folder",
    "write_current",
    "write_manifest",
]

PathLike: TypeAlias = str | os.PathLike[str]

FORMAT: Final = 1
"""The version of the manifest's format; increase it with every change."""

CURRENT: Final = "CURRENT"
BUILDER: Final = "BUILDER"
VERSIONS: Final = "versions"
MANIFEST: Final = "VERSION.json"
QUARANTINE: Final = "quarantine.parquet"
ASIDE: Final = ".aside-"
_NUMBER = re.compile(r"\d{6,}")
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(.*)", re.DOTALL)


class Shard(NamedTuple):
    """A part of the rules: those whose ids have the same hash, modulo the number of shards."""

    path: Path
    """A directory that :func:`tamis.open` reads."""
    rules: int
    bytes: int
    hash: str
    """The hash of all its files: shards with equal hashes have equal content."""


class Version(NamedTuple):
    """One state of a published index; the files it names never change."""

    number: int
    folder: Path
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
    def quarantine(self) -> Path:
        """A folder of Parquet files: the refused rules, and the reasons."""
        return self.folder / QUARANTINE


class Draft(NamedTuple):
    """The description of a version that is written but has no number yet."""

    shards: tuple[Shard, ...]
    """In the folder of the draft, or in a version of the same index."""
    bad: int
    logic: str
    engine: str
    schema: Mapping[str, str]
    id_type: str
    parameters: Mapping[str, Any] = {}


class _ShardEntry(msgspec.Struct, frozen=True):
    name: str
    path: str
    """Relative to the index, so that an index can be moved."""
    rules: int
    bytes: int
    hash: str


class _Manifest(msgspec.Struct, frozen=True):
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
    shards: tuple[_ShardEntry, ...]
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
    text = os.fspath(path)
    address = _ADDRESS.fullmatch(text)
    if address is None:
        return Path(text).absolute()
    scheme, rest = address.groups()
    if scheme.lower() != "file":
        raise StorageError(
            "an index is a folder that all machines see under the same path; "
            f"mount what {scheme}: names, and pass the path of the mount",
            path=text,
        )
    return Path("/" + rest.lstrip("/"))


def version_folder(root: Path, number: int) -> Path:
    """The folder of the version `number` of the index at `root`."""
    return root / VERSIONS / f"{number:06d}"


def list_numbers(root: Path) -> list[int]:
    """List the numbers of all version folders in ascending order, with or without a manifest."""
    try:
        names = [entry.name for entry in (root / VERSIONS).iterdir()]
    except OSError:
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def read_current(root: Path) -> int | None:
    """Read the number of the current version; None if there is none."""
    path = root / CURRENT
    try:
        with storage_errors(path):
            name = path.read_text(encoding="utf-8", errors="replace").strip()
    except MissingFileError:
        return None
    except StorageError:
        if not root.is_dir():
            return None
        raise
    if not _NUMBER.fullmatch(name):
        raise CorruptFileError(
            f"this is not the number of a version: {name[:40]!r}", path=str(path)
        )
    return int(name)


def write_current(root: Path, number: int) -> None:
    """Make the version `number` the current one."""
    write_atomically(root / CURRENT, [f"{number:06d}\n".encode()])


def read_version(root: Path, number: int) -> Version:
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


def _decode_manifest(data: bytes, path: Path) -> _Manifest:
    try:
        # A manifest of a newer format may have any other fields, so the format is read first.
        format = msgspec.json.decode(data, type=_Format).format  # noqa: A001  the field's name
        if format > FORMAT:
            raise StorageError(
                f"it has format {format}, and this version of Tamis reads up to {FORMAT}; "
                "upgrade Tamis",
                path=str(path),
            )
        return msgspec.json.decode(data, type=_Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptFileError(f"the manifest is damaged: {error}", path=str(path)) from error


def write_manifest(
    root: Path, aside: Path, number: int, parent: Version | None, draft: Draft
) -> None:
    """Write the manifest of a draft, with the paths that its shards will have as version `number`.

    Parameters
    ----------
    root
        The index.
    aside
        The folder of the draft.
    number
        The number that the version will have.
    parent
        The current version, if there is one.
    draft
        The version.
    """
    folder = version_folder(root, number)

    def entry(shard: Shard) -> _ShardEntry:
        is_new = shard.path.is_relative_to(aside)
        path = folder / shard.path.relative_to(aside) if is_new else shard.path
        return _ShardEntry(
            path.name, path.relative_to(root).as_posix(), shard.rules, shard.bytes, shard.hash
        )

    manifest = _Manifest(
        FORMAT,
        number,
        None if parent is None else parent.number,
        datetime.now(UTC),
        draft.logic,
        draft.engine,
        dict(draft.schema),
        draft.id_type,
        sum(shard.rules for shard in draft.shards),
        draft.bad,
        tuple(entry(shard) for shard in draft.shards),
        dict(draft.parameters),
    )
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    write_atomically(aside / MANIFEST, [text])


def explain_missing(root: Path) -> str:
    """Say why there is no current version at `root`, and what to do."""
    if not root.exists():
        return "there is no such index; tamis.spark.build(rules, path) makes one"
    if not root.is_dir():
        return "it is a file; an index is a directory"
    if (root / "MANIFEST").exists():
        return (
            "it holds the rules of one matcher, for tamis.open; "
            "tamis.spark.build(rules, path) makes an index for Spark"
        )
    if list_numbers(root):
        return "no version is current; rollback(path, version) selects one"
    return "no version is published; tamis.spark.build(rules, path) publishes one"
