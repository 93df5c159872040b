"""The changes of a collection's rules, for followers: the last few thousand, by revision.

A follower that was away longer gets 410 with the earliest revision, and loads all rules again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tamis.matcher.matcher import Matcher, RuleChange
from tamis.server.bell import Bell
from tamis.server.problems import ProblemError

__all__ = ["Changes"]

_MOST: Final = 10_000
"""How many changes are kept."""


class Changes:
    """Keeps the last changes of a matcher.

    Parameters
    ----------
    matcher
        The matcher to watch.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._kept: deque[RuleChange] = deque(maxlen=_MOST)
        self.bell = Bell()
        self.is_closed = False
        self._start = matcher.revision
        """Changes after this revision are kept, or were."""
        matcher.watch(self.append)

    def append(self, change: RuleChange) -> None:
        """Note a change."""
        if self._kept and change.revision != self._kept[-1].revision + 1:
            # An interrupted thread did not report a change; followers have to start again.
            self._kept.clear()
            self._start = change.revision - 1
        self._kept.append(change)
        self.bell.ring()

    def close(self) -> None:
        """End all that wait for changes: there will be no more."""
        self.is_closed = True
        self.bell.ring()

    def note_refresh(self) -> None:
        """Another process changed rules; we cannot tell which, so followers must resync."""
        revision = self._matcher.revision
        self._kept.clear()
        self._start = revision - 1
        self._kept.append(RuleChange(revision, "replace_all", None))
        self.bell.ring()

    def read(self, after: int, limit: int) -> list[RuleChange]:
        """The changes after a revision.

        Raises
        ------
        ProblemError
            Some of them are not kept any more (410), or the revision is still to come (422).
        """
        kept = list(self._kept)
        earliest = kept[0].revision - 1 if kept else self._start
        if after < earliest:
            raise ProblemError(
                410,
                "changes-gone",
                f"changes after revision {earliest} are kept; load the rules again",
                earliest=earliest,
            )
        if after > self._matcher.revision:
            raise ProblemError(
                422,
                "unknown-revision",
                f"the collection is at revision {self._matcher.revision}",
                revision=self._matcher.revision,
            )
        return [change for change in kept if change.revision > after][:limit]
