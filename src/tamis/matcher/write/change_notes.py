"""What watchers of a matcher learn about a change: its revision, its kind and the ids."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tamis.matcher.rule import RuleId
from tamis.matcher.write.changes import Change, Removed

__all__ = ["RuleChange", "describe"]

_MOST_BYTES: Final = 1 << 20
"""The ids of a larger change are not listed: to find them would hold up other writers."""

_MOST_IDS: Final = 10_000


class RuleChange(NamedTuple):
    """One change of the rules of a matcher."""

    revision: int
    """The number of the change; see :attr:`tamis.Matcher.revision`."""
    kind: Literal["put", "remove", "replace_all"]
    """Rules were added or replaced, or removed, or all rules were replaced by others."""
    ids: tuple[RuleId, ...] | None
    """The rules that were put or removed; None if they are too many to list."""


def describe(revision: int, change: Change) -> RuleChange:
    """Describe a change for watchers."""
    if isinstance(change, Removed):
        return RuleChange(revision, "remove", _limit(change.ids))
    kind: Literal["put", "replace_all"] = "replace_all" if change.clears else "put"
    if sum(map(len, change.rows)) > _MOST_BYTES:
        return RuleChange(revision, kind, None)
    return RuleChange(revision, kind, _limit(tuple(row.id for row in change.added_rows())))


def _limit(ids: tuple[RuleId, ...]) -> tuple[RuleId, ...] | None:
    return ids if len(ids) <= _MOST_IDS else None
