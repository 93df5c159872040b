"""The manifest: what a directory of rules consists of."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.errors import CorruptFileError
from tamis.matcher.storage.array_file import map_sections, write_sections

__all__ = ["MANIFEST", "Manifest", "Settings", "StoredView", "read_manifest", "write_manifest"]

MANIFEST = "MANIFEST"
_KIND = "manifest"


class Settings(msgspec.Struct, frozen=True):
    """What holds for all rules of a directory."""

    engine: str
    logic: str
    schema: dict[str, str]


class StoredView(NamedTuple):
    """A segment file, and which of its rules are gone."""

    file: str
    removed: NDArray[np.int32]
    """Their places."""


class Manifest(NamedTuple):
    """One state of a directory; all it names is there."""

    settings: Settings
    views: tuple[StoredView, ...]
    """Oldest rules first."""
    log: int
    """The number of the first log to replay; those behind it follow."""
    next_number: int
    """No file has this number or a higher one, but for logs."""


class _About(msgspec.Struct, frozen=True):
    settings: Settings
    segments: tuple[str, ...]
    log: int
    next_number: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put a manifest in the place of the one before, at once."""
    about = _About(
        manifest.settings,
        tuple(view.file for view in manifest.views),
        manifest.log,
        manifest.next_number,
    )
    removed = {f"removed.{i}": view.removed for i, view in enumerate(manifest.views)}
    write_sections(folder / MANIFEST, _KIND, msgspec.to_builtins(about), removed)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a directory, all of it checked.

    Raises
    ------
    MissingFileError
        There is none.
    CorruptFileError
        It is not as it was written.
    """
    path = folder / MANIFEST
    sections = map_sections(path, _KIND)
    sections.verify()
    try:
        about = msgspec.convert(sections.about, _About)
        removed = sections.group("removed")
        views = tuple(StoredView(f, removed[str(i)]) for i, f in enumerate(about.segments))
    except (KeyError, msgspec.MsgspecError) as error:
        raise CorruptFileError(f"the manifest is damaged: {error}", path=str(path)) from error
    return Manifest(about.settings, views, about.log, about.next_number)
