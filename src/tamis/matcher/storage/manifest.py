"""The manifest: which files a directory of rules consists of."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import ArrayError
from tamis.errors import CorruptFileError
from tamis.matcher.storage.array_file import map_sections, write_sections
from tamis.matcher.storage.file_names import MANIFEST

__all__ = ["Manifest", "Settings", "StoredView", "draw_identity", "read_manifest", "write_manifest"]

_KIND: Final = "manifest"


class Settings(msgspec.Struct, frozen=True):
    """What holds for all rules of a directory."""

    engine: str
    logic: str
    schema: dict[str, str]


class StoredView(NamedTuple):
    """A segment file, and which of its rules were removed."""

    file: str
    removed: NDArray[np.int32]
    """Their places."""


class Manifest(NamedTuple):
    """One state of a directory. All files that it names exist."""

    settings: Settings
    views: tuple[StoredView, ...]
    """Oldest rules first."""
    log: int
    """The number of the first log to replay; those with higher numbers follow."""
    next_number: int
    """No file has this number or a higher one, except for logs."""
    documents: int = 0
    """There is a file of documents with this number or a higher one; 0 if there may be none."""
    revision: int = 0
    """How many changes of rules led to this state; 0 where an older Tamis wrote it."""
    identity: str = ""
    """Drawn when the directory is created, so that numbers of another of its name are not taken for
    its own; empty where an older Tamis wrote it."""


def draw_identity() -> str:
    """An identity that no other directory has."""
    return secrets.token_hex(8)


class _About(msgspec.Struct, frozen=True):
    settings: Settings
    segments: tuple[str, ...]
    log: int
    next_number: int
    documents: int = 0
    revision: int = 0
    identity: str = ""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a directory, atomically."""
    about = _About(
        manifest.settings,
        tuple(view.file for view in manifest.views),
        manifest.log,
        manifest.next_number,
        manifest.documents,
        manifest.revision,
        manifest.identity,
    )
    removed = {f"removed.{i}": view.removed for i, view in enumerate(manifest.views)}
    write_sections(folder / MANIFEST, _KIND, msgspec.to_builtins(about), removed)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a directory and verify its checksums.

    Raises
    ------
    MissingFileError
        There is none.
    CorruptFileError
        It is damaged.
    """
    path = folder / MANIFEST
    sections = map_sections(path, _KIND, verify=True)
    try:
        about = msgspec.convert(sections.about, _About)
        removed = sections.group("removed")
        views = tuple(StoredView(f, removed[str(i)]) for i, f in enumerate(about.segments))
    except (ArrayError, msgspec.MsgspecError) as error:
        raise CorruptFileError(f"the manifest is damaged: {error}", path=str(path)) from error
    return Manifest(
        about.settings,
        views,
        about.log,
        about.next_number,
        about.documents,
        about.revision,
        about.identity,
    )
