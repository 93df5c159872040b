"""Names of computed attributes, which events do not carry: derived and joined ones.

Such a name is a mark followed by the text of the computation. Engines treat it like any other
name, so a computed attribute is encoded, stored and matched like one of the event. Rules and events
may not use marked names themselves.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DERIVED", "JOINED", "display_name", "is_computed"]

DERIVED: Final = "\x01"
"""Marks an attribute derived from the event: ``length(name)``."""

JOINED: Final = "\x02"
"""Marks a join predicate, which is about the documents seen before."""


def is_computed(name: str) -> bool:
    """Whether the attribute is derived or joined."""
    return name.startswith((DERIVED, JOINED))


def display_name(name: str) -> str:
    """`name` without its mark, for people."""
    return name.lstrip(DERIVED + JOINED)
