"""Names of computed attributes, which events do not carry: derived and joined ones.

Such a name is a mark followed by the text of the computation. Engines treat it like any other
name, so a computed attribute is encoded, stored and matched like one of the event. Rules and events
may not use marked names themselves.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DERIVED", "JOINED", "RECEIVED_BY", "display_name", "is_aggregate", "is_computed"]

DERIVED: Final = "\x01"
"""Marks an attribute derived from the event: ``length(name)``."""

JOINED: Final = "\x02"
"""Marks a join predicate, which is about the documents seen before."""

RECEIVED_BY: Final = "\x03received by"
"""The attribute of a document with the names of the subscriptions that received it."""


def is_computed(name: str) -> bool:
    """Whether rules and events may not use the name: it is derived, joined, or `RECEIVED_BY`."""
    return name.startswith((DERIVED, JOINED, RECEIVED_BY[0]))


def is_aggregate(name: str) -> bool:
    """Whether the attribute is a value computed from old documents: ``(SELECT COUNT(*) …)``."""
    return name.startswith(f"{JOINED}(")


def display_name(name: str) -> str:
    """`name` without its mark, for people."""
    return name.lstrip(DERIVED + JOINED)
