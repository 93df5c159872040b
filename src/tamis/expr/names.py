"""Names of attributes that no event carries: they are worked out from it.

Such a name is a mark and the text that says how. To whatever indexes rules it is a name like
any other, so that an attribute which is worked out is coded, stored and matched as one that an
event holds. Neither a rule nor an event may use a marked name itself.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DERIVED", "JOINED", "is_worked_out", "name_shown"]

DERIVED: Final = "\x01"
"""Before the text of an expression over the event: ``length(name)``."""

JOINED: Final = "\x02"
"""Before the text of a predicate over the documents seen before."""


def is_worked_out(name: str) -> bool:
    """Whether `name` says how to work out the attribute's values."""
    return name.startswith((DERIVED, JOINED))


def name_shown(name: str) -> str:
    """`name` as people see it."""
    return name.lstrip(DERIVED + JOINED)
