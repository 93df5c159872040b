"""How the versions of a published index are written.

`tamis.matcher.published.layout` says where its files are. In a folder there are, besides::

    PATH/
      BUILDER               the lock of a running build: which process, where and since when
      versions/.aside-…/    a version that is being written, or that a killed build left

A version is written to a folder aside, and gets its name by one rename when all of its files are
on disk. Then ``CURRENT`` is replaced, also by a rename. A build that is killed earlier leaves the
current version untouched, and a folder that the next build removes. `tamis.spark.index.bucket`
says how the same is done in a bucket, where nothing can be renamed.

Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tamis.matcher.published.address import PathLike, Place, resolve_place
from tamis.matcher.published.layout import (
    CURRENT,
    FORMAT,
    MANIFEST,
    QUARANTINE,
    VERSIONS,
    Manifest,
    Shard,
    ShardEntry,
    Version,
    explain_missing,
    list_numbers,
    read_current,
    read_version,
    resolve_folder,
    version_folder,
)
from tamis.matcher.storage.atomic import write_atomically

__all__ = [
    "ASIDE",
    "BUILDER",
    "CURRENT",
    "MANIFEST",
    "QUARANTINE",
    "VERSIONS",
    "Draft",
    "PathLike",
    "Place",
    "Shard",
    "Version",
    "encode_current",
    "encode_manifest",
    "explain_missing",
    "list_numbers",
    "read_current",
    "read_version",
    "resolve_folder",
    "resolve_place",
    "version_folder",
    "write_current",
    "write_manifest",
]

BUILDER: Final = "BUILDER"
ASIDE: Final = ".aside-"


class Draft(NamedTuple):
    """The description of a version that is written but not published yet."""

    shards: tuple[Shard, ...]
    """In the folder of the draft, or in a version of the same index."""
    bad: int
    logic: str
    engine: str
    schema: Mapping[str, str]
    id_type: str
    parameters: Mapping[str, Any] = {}


def encode_current(number: int) -> bytes:
    """The content of ``CURRENT``."""
    return f"{number:06d}\n".encode()


def write_current(root: Path, number: int) -> None:
    """Make the version `number` the current one."""
    write_atomically(root / CURRENT, [encode_current(number)])


def write_manifest(
    root: Path, aside: Path, number: int, parent: Version | None, draft: Draft
) -> None:
    """Write the manifest of a draft to its folder `aside`; see `encode_manifest`."""
    write_atomically(aside / MANIFEST, [encode_manifest(root, aside, number, parent, draft)])


def encode_manifest(
    root: Place, aside: Place, number: int, parent: Version | None, draft: Draft
) -> bytes:
    """The manifest of a draft, with the paths that its shards will have as version `number`.

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

    def entry(shard: Shard) -> ShardEntry:
        # The folders of an index are all paths, or all addresses.
        path: Any = shard.path
        if path.is_relative_to(aside):
            path = folder / path.relative_to(aside)
        return ShardEntry(
            path.name, path.relative_to(root).as_posix(), shard.rules, shard.bytes, shard.hash
        )

    manifest = Manifest(
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
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2)
