"""Look up the versions of a published index."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.published.address import PathLike, resolve_place
from tamis.matcher.published.layout import (
    CURRENT,
    Version,
    explain_missing,
    list_numbers,
    read_current,
    read_version,
)
from tamis.matcher.storage.atomic import MissingFileError

__all__ = ["current", "version", "versions"]

_ATTEMPTS: Final = 5
"""How often to look again if the current version is replaced and removed while it is read."""


def current(path: PathLike) -> Version:
    """The current version.

    Raises
    ------
    StorageError
        There is none, or it cannot be read.
    """
    root = resolve_place(path)
    for _ in range(_ATTEMPTS):
        number = read_current(root)
        if number is None:
            raise StorageError(explain_missing(root), path=str(root))
        try:
            return read_version(root, number)
        except MissingFileError:
            # Another process may have published a version and removed this one.
            if number == read_current(root):
                break
    raise CorruptFileError(
        f"{CURRENT} names version {number}, which does not exist; rollback() to another",
        path=str(root),
    )


def versions(path: PathLike) -> list[Version]:
    """All versions that are kept, oldest first.

    Raises
    ------
    StorageError
        It is not a published index, or cannot be read.
    """
    root = resolve_place(path)
    found = []
    for number in list_numbers(root):
        with suppress(MissingFileError):
            found.append(read_version(root, number))
    if not found:
        raise StorageError(explain_missing(root), path=str(root))
    return found


def version(path: PathLike, number: int) -> Version:
    """The version `number`.

    Raises
    ------
    StorageError
        There is no such version, or it cannot be read.
    """
    root = resolve_place(path)
    try:
        return read_version(root, number)
    except MissingFileError:
        known = ", ".join(str(each.number) for each in versions(root))
        raise StorageError(
            f"there is no version {number}; the versions are {known}", path=str(root)
        ) from None
