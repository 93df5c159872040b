"""A published index: versions beside each other, of which one is in force.

::

    PATH/
      CURRENT               the name of the version in force
      BUILDER               held by whoever builds; it says which process, where and since when
      versions/000001/      a version, which never changes
        VERSION.json          what it consists of
        shard-0000-…/         rules as `Matcher.save` writes them
        quarantine.parquet/   the rules that were refused
      versions/.aside-…/    a version that somebody is writing, or did not finish

A version is written aside and gets its name by one rename, after all of it is on the disk; then
``CURRENT`` is replaced, by a rename too. Whoever is killed before leaves the version in force as
it was, and a folder that the next builder removes. A shard that a version shares with an older one
stays where it is: the manifest says where.

Nothing here needs Spark.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.storage.atomic import MissingFileError, storing, sync_folder, write_aside
from tamis.matcher.storage.lock import Lock

__all__ = [
    "QUARANTINE",
    "Draft",
    "PathLike",
    "Shard",
    "Version",
    "current",
    "forget",
    "publish",
    "rollback",
    "root_of",
    "version",
    "versions",
]

PathLike: TypeAlias = str | os.PathLike[str]

FORMAT: Final = 1
"""The version of the manifest's format. Whoever changes it counts it up."""

QUARANTINE: Final = "quarantine.parquet"
_CURRENT: Final = "CURRENT"
_BUILDER: Final = "BUILDER"
_VERSIONS: Final = "versions"
_MANIFEST: Final = "VERSION.json"
_ASIDE: Final = ".aside-"
_NAME = re.compile(r"\d{6,}")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(.*)", re.DOTALL)

_TRIES: Final = 5
"""How often a reader looks again when the version in force changes under its eyes."""


class Shard(NamedTuple):
    """A part of the rules: those whose ids have the same hash, modulo the number of shards."""

    path: Path
    """A directory for :func:`tamis.open`."""
    rules: int
    bytes: int
    hash: str
    """Of all its files: shards with the same hash hold the same."""


class Version(NamedTuple):
    """One state of a published index; what it names never changes."""

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
    """The version that was in force when this one was built."""
    parameters: dict[str, Any]
    """What else it was built with."""

    @property
    def quarantine(self) -> Path:
        """A folder of Parquet files with the rules that were refused, and why."""
        return self.folder / QUARANTINE


class Draft(NamedTuple):
    """What a builder says about the version it wrote."""

    shards: tuple[Shard, ...]
    """In the folder that it was given, or of an older version of the same index."""
    bad: int
    logic: str
    engine: str
    schema: Mapping[str, str]
    id_type: str
    parameters: Mapping[str, Any] = {}


class _ShardEntry(msgspec.Struct, frozen=True):
    name: str
    path: str
    """Relative to the index."""
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
    """What is read first: a newer format may have anything else."""

    format: int


# --- Reading ---


def current(path: PathLike) -> Version:
    """The version in force.

    Raises
    ------
    StorageError
        There is none, or it cannot be read.
    """
    root = root_of(path)
    for _ in range(_TRIES):
        number = _current_number(root)
        if number is None:
            raise StorageError(_why_none(root), path=str(root))
        try:
            return _read(root, number)
        except MissingFileError:
            # Somebody may have published another one and removed this.
            if number == _current_number(root):
                break
    raise CorruptFileError(
        f"{_CURRENT} names version {number}, which is not there; rollback() to another",
        path=str(root),
    )


def versions(path: PathLike) -> list[Version]:
    """All versions that are kept, oldest first.

    Raises
    ------
    StorageError
        It is no published index, or cannot be read.
    """
    root = root_of(path)
    found = []
    for number in _numbers(root):
        with suppress(MissingFileError):
            found.append(_read(root, number))
    if not found:
        raise StorageError(_why_none(root), path=str(root))
    return found


def version(path: PathLike, number: int) -> Version:
    """The version `number`.

    Raises
    ------
    StorageError
        There is no such version, or it cannot be read.
    """
    root = root_of(path)
    try:
        return _read(root, number)
    except MissingFileError:
        there = [known.number for known in versions(root)]
        raise StorageError(
            f"there is no version {number}; there is {', '.join(map(str, there))}", path=str(root)
        ) from None


def root_of(path: PathLike) -> Path:
    """The folder that `path` names, which may be a ``file:`` address.

    Raises
    ------
    StorageError
        It is an address of something that is no file system.
    """
    text = os.fspath(path)
    address = _SCHEME.fullmatch(text)
    if address is None:
        return Path(text).absolute()
    scheme, rest = address.groups()
    if scheme.lower() != "file":
        raise StorageError(
            "an index is a folder that all machines see under the same path; "
            f"mount what {scheme}: names, and give that path",
            path=text,
        )
    return Path("/" + rest.lstrip("/"))


def _current_number(root: Path) -> int | None:
    path = root / _CURRENT
    try:
        with storing(path):
            name = path.read_text(encoding="utf-8", errors="replace").strip()
    except MissingFileError:
        return None
    except StorageError:
        if not root.is_dir():
            return None
        raise
    if not _NAME.fullmatch(name):
        raise CorruptFileError(f"it names no version: {name[:40]!r}", path=str(path))
    return int(name)


def _why_none(root: Path) -> str:
    if not root.exists():
        return "there is no such index; tamis.spark.build(rules, path) makes one"
    if not root.is_dir():
        return "it is a file; an index is a directory"
    if (root / "MANIFEST").exists():
        return (
            "it holds the rules of one matcher, as tamis.open reads them; "
            "an index for Spark is made by tamis.spark.build(rules, path)"
        )
    if _numbers(root):
        return "no version is in force; rollback(path, version) puts one in force"
    return "no version is published; tamis.spark.build(rules, path) does that"


def _numbers(root: Path) -> list[int]:
    """The numbers of all folders of versions, whether or not there is a manifest in them."""
    try:
        names = [entry.name for entry in (root / _VERSIONS).iterdir()]
    except OSError:
        return []
    return sorted(int(name) for name in names if _NAME.fullmatch(name))


def _folder(root: Path, number: int) -> Path:
    return root / _VERSIONS / f"{number:06d}"


def _read(root: Path, number: int) -> Version:
    folder = _folder(root, number)
    path = folder / _MANIFEST
    with storing(path):
        data = path.read_bytes()
    try:
        format = msgspec.json.decode(data, type=_Format).format  # noqa: A001  the field's name
        if format > FORMAT:
            raise StorageError(
                f"it has format {format}, and this version of Tamis reads up to {FORMAT}; "
                "upgrade Tamis",
                path=str(path),
            )
        read = msgspec.json.decode(data, type=_Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptFileError(f"the manifest is damaged: {error}", path=str(path)) from error
    shards = tuple(Shard(root / s.path, s.rules, s.bytes, s.hash) for s in read.shards)
    return Version(
        number,
        folder,
        read.created,
        read.rules,
        read.bad,
        read.logic,
        read.engine,
        read.schema,
        read.id_type,
        shards,
        read.parent,
        read.parameters,
    )


# --- Writing ---


def publish(path: PathLike, write: Callable[[Path, Version | None], Draft]) -> Version:
    """Have a new version written, and put it in force.

    Parameters
    ----------
    path
        The index; it is made if there is none.
    write
        Is given a folder for its files, and the version in force, if there is one. What it leaves
        there but does not name is kept, too. Each file has to be on the disk when it returns.

    Returns
    -------
    Version
        The new version.

    Raises
    ------
    LockedError
        Another process is building.
    StorageError
        The folder holds something else, or cannot be written.
    """
    root = root_of(path)
    _check_ours(root)
    with storing(root):
        (root / _VERSIONS).mkdir(parents=True, exist_ok=True)
    with _building(root):
        _sweep(root)
        parent = None if _current_number(root) is None else current(root)
        aside = root / _VERSIONS / f"{_ASIDE}{uuid4().hex}"
        with storing(aside):
            aside.mkdir()
        try:
            draft = write(aside, parent)
            number = max([0, *_numbers(root), *([] if parent is None else [parent.number])]) + 1
            _finish(root, aside, number, parent, draft)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        _set_current(root, number)
        return _read(root, number)


def rollback(path: PathLike, number: int) -> Version:
    """Put the version `number` in force, which may be older or newer than the one that is.

    Readers change to it at their next batch. No version is removed.

    Raises
    ------
    LockedError
        Another process is building.
    StorageError
        There is no such version.
    """
    root = root_of(path)
    wanted = version(root, number)
    with _building(root):
        _set_current(root, version(root, number).number)
    return wanted


def forget(path: PathLike, keep: int = 1) -> list[int]:
    """Remove old versions: all but the `keep` newest and the one in force.

    A reader that has one of them open keeps what it has mapped, but cannot open more of it.

    Returns
    -------
    list of int
        The numbers of the versions that were removed.

    Raises
    ------
    LockedError
        Another process is building.
    """
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ValueError(f"keep is how many versions to keep, at least 1, not {keep!r}")
    root = root_of(path)
    with _building(root):
        _sweep(root)
        in_force, known = current(root).number, versions(root)
        old = [v for v in known[:-keep] if v.number != in_force]
        gone = {v.number for v in old}
        used = {shard.path for v in known if v.number not in gone for shard in v.shards}
        for one in old:
            # Without its manifest it is no version any more, whatever happens now.
            with storing(one.folder):
                (one.folder / _MANIFEST).unlink()
                sync_folder(one.folder)
        for number in _numbers(root):
            folder = _folder(root, number)
            if not (folder / _MANIFEST).exists():
                _remove_unused(folder, used)
    return sorted(gone)


def _check_ours(root: Path) -> None:
    """Refuse to build over a folder that holds something else."""
    if root.exists() and not root.is_dir():
        raise StorageError(_why_none(root), path=str(root))
    with storing(root):
        names = {entry.name for entry in root.iterdir()} if root.exists() else set()
    if names and _VERSIONS not in names:
        why = _why_none(root) if "MANIFEST" in names else "the directory holds something else"
        raise StorageError(f"{why}; name one that does not exist yet", path=str(root))


@contextmanager
def _building(root: Path) -> Iterator[None]:
    if not (root / _VERSIONS).is_dir():
        raise StorageError(_why_none(root), path=str(root))
    lock = Lock(root / _BUILDER, "builds a version", "wait for it to end")
    try:
        yield
    finally:
        lock.release()


def _sweep(root: Path) -> None:
    """Remove what builders left that were killed; only to be called with the lock."""
    for entry in list((root / _VERSIONS).iterdir()):
        if entry.name.startswith(_ASIDE):
            shutil.rmtree(entry, ignore_errors=True)


def _finish(root: Path, aside: Path, number: int, parent: Version | None, draft: Draft) -> None:
    """Write the manifest, and give the folder its name."""
    folder = _folder(root, number)

    def entry(shard: Shard) -> _ShardEntry:
        inside = shard.path.is_relative_to(aside)
        place = folder / shard.path.relative_to(aside) if inside else shard.path
        return _ShardEntry(
            place.name, place.relative_to(root).as_posix(), shard.rules, shard.bytes, shard.hash
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
    write_aside(aside / _MANIFEST, [text])
    with storing(folder):
        for below, _, _ in os.walk(aside):
            sync_folder(Path(below))
        aside.rename(folder)
        sync_folder(folder.parent)


def _set_current(root: Path, number: int) -> None:
    write_aside(root / _CURRENT, [f"{number:06d}\n".encode()])


def _remove_unused(folder: Path, used: set[Path]) -> None:
    """Remove a version's folder, but for shards that other versions name."""
    for entry in list(folder.iterdir()):
        if entry in used:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
