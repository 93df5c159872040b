"""What the writer needs from a journal. `tamis.matcher.storage.store.Store` is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tamis.matcher.snapshot import Snapshot
from tamis.matcher.write.changes import Change

__all__ = ["Journal", "TakeSnapshot"]

TakeSnapshot: TypeAlias = Callable[[Callable[[], None]], Snapshot]
"""Calls a function between two changes, and returns the snapshot of that moment."""


class Journal(Protocol):
    """Records changes, so that they survive the process."""

    def check_writable(self) -> None:
        """Raise if no change can be recorded."""

    def append(self, changes: Sequence[Change]) -> None:
        """Record changes. They are safe when it returns, and count once they are confirmed.

        If it raises, none is recorded.
        """

    def confirm(self) -> None:
        """Keep the changes that were appended last. May be called again."""

    def undo(self) -> None:
        """Drop the changes that were appended last, unless confirmed. May be called again."""

    def needs_maintenance(self) -> bool:
        """Whether `maintain` has something to do."""

    def maintain(self, take_snapshot: TakeSnapshot) -> None:
        """Make a checkpoint."""

    def close(self, take_snapshot: TakeSnapshot | None) -> None:
        """Record no more changes.

        Makes a last checkpoint if one is due; not without `take_snapshot`.
        """
