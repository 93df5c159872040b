"""Replays the changes of a journal on top of the state that they were made to."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.matcher.rule import Row, RuleId
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.changes import Added, Change
from tamis.matcher.write.state import EMPTY, State, append_batch, locate, remove

__all__ = ["replay"]


def replay(state: State, changes: Iterable[Change], builder: SegmentBuilder) -> State:
    """The state after these changes. Only the rules that are left at the end are built.

    Raises
    ------
    RuleError, SchemaError
        A rule is not valid.
    """
    added: dict[RuleId, Row] = {}
    gone: dict[RuleId, None] = {}
    """Ids under which the state may hold a rule that was replaced or removed."""
    for change in changes:
        if isinstance(change, Added):
            if change.clears:
                state, added, gone = EMPTY, {}, {}
            for row in change.added_rows():
                # A rule that is replaced becomes the youngest one.
                added.pop(row.id, None)
                added[row.id] = row
                gone[row.id] = None
        else:
            for id in change.ids:
                added.pop(id, None)
                gone[id] = None
    state = remove(state, locate(state, gone))
    batch = builder.prepare([row.rule() for row in added.values()], None)
    return append_batch(state, batch)[0]
