"""Marks: positions in a collection that those of no other collection are mistaken for.

A number of an event or of a revision means nothing in a collection that was removed and made again
under the same name. A mark has the identity of its collection in front: ``0123456789abcdef:12``.
Directories of older versions have no identity until they are opened as a collection to be written,
and numbers alone are their marks.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ForeignMarkError", "make_mark", "read_mark", "read_position"]

_MARK: Final = re.compile(r"([0-9a-f]{16}):(.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class ForeignMarkError(Exception):
    """A mark is that of another collection."""


def make_mark(identity: str, position: object) -> str:
    """The mark of a position."""
    return f"{identity}:{position}" if identity else str(position)


def read_mark(identity: str, mark: str) -> tuple[str, bool]:
    """The position of a mark, and whether the mark had an identity.

    Raises
    ------
    ForeignMarkError
        It is that of another collection.
    """
    found = _MARK.fullmatch(mark)
    if found is None:
        return mark, False
    if found[1] != identity:
        raise ForeignMarkError(mark)
    return found[2], True


def read_position(text: str) -> int:
    """The number of a position; raises ValueError if the text is none."""
    if not _NUMBER.fullmatch(text) or int(text) >= 2**63:
        raise ValueError(f"{text!r:.100} is not a number of this API")
    return int(text)
