"""Turns the JSONPath of a Mustang predicate into an attribute.

``$.user.name`` and ``$['user']['name']`` become dotted attributes, which every event has. So does
``$.modes[*].type`` if events have lists there: on an object, ``[*]`` leads to all its members. Any
other path becomes the attribute's name itself; see :mod:`tamis.importers.event_paths`.
"""

from __future__ import annotations

from tamis.errors import RuleError
from tamis.importers.event_paths import check_path, split_path

__all__ = ["attribute_of", "normal_path"]


def normal_path(path: str) -> str:
    """The path with a leading ``$``, which Mustang's library lets people leave out."""
    text = path.strip()
    return text if text.startswith("$") else f"$.{text}"


def attribute_of(path: str, *, typed: bool = False) -> str:
    """The attribute for `path`: a dotted name, or the path itself.

    Parameters
    ----------
    path
        A JSONPath.
    typed
        Events have a list wherever a path has ``[*]``.

    Raises
    ------
    RuleError
        The path is invalid.
    MissingExtraError
        The path needs a JSONPath library, which is not installed.
    """
    text = normal_path(path)
    steps = split_path(text)
    if steps is None or (None in steps and not typed):
        check_path(text)
        return text
    names = [name for name in steps if name is not None]
    if not names:
        raise RuleError(f"the path {path!r} names no attribute")
    return ".".join(names)
