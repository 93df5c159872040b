"""What a publish/subscribe layer needs of a matcher: matches with their rules' tags, documents.

A subscription owns rules by id or tag. To find the tags of a hundred matching rules one by one
would cost more than to match; here each segment answers for all its matches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.errors import StorageError
from tamis.expr.event import Event, FlatEvent
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.joins.document_store import DocumentStore, StoredDocument
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.selection import Tagged

__all__ = ["Matches", "Publishing", "SegmentMatches"]


class SegmentMatches(NamedTuple):
    """The rules of one segment that an event satisfies."""

    columns: RuleColumns
    """All rules of the segment; it never changes."""
    places: NDArray[np.integer]
    """Where the matching ones are."""
    ids: list[RuleId]
    """Their ids."""


class Matches(NamedTuple):
    """The rules that an event satisfies, in the order in which they were added."""

    segments: list[SegmentMatches]
    tail: list[Rule]
    """The newest rules, which are in no segment yet."""

    @property
    def has_weights(self) -> bool:
        """Whether scores may differ: some rule among those searched has weights."""
        return any(part.columns.has_weights for part in self.segments) or any(
            rule.weights for rule in self.tail
        )


class Publishing:
    """A matcher as the layer of subscriptions sees it.

    Parameters
    ----------
    matcher
        The matcher. Its documents have to be kept elsewhere.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self.documents: DocumentStore = matcher._document_store

    def read(self, event: Event) -> FlatEvent:
        """Check an event and flatten it by the schema.

        Raises
        ------
        EventError, SchemaError
            It is refused.
        """
        self._matcher._check_size(event)
        return self._matcher._schema.read(event)

    @property
    def has_joins(self) -> bool:
        """Whether a rule refers to earlier documents."""
        return self._matcher._searcher.has_joins

    @property
    def joins(self) -> frozenset[Join]:
        """The join predicates of all rules."""
        return frozenset(map(join_named, self._matcher._searcher.join_names))

    def match(
        self, event: FlatEvent, only: Tagged | Iterable[RuleId] | None, at: datetime | None
    ) -> tuple[list[RuleId], frozenset[str]]:
        """Find the rules that an event satisfies, as `Matcher.match` does, and their subscriptions.

        Parameters
        ----------
        event
            What `read` returned.
        only, at
            As in :meth:`Matcher.match`.
        """
        matcher = self._matcher
        return matcher._searcher.match_receivers(event, matcher._select(only, at))

    def restore_documents(
        self,
        documents: Iterable[StoredDocument],
        following: int,
        newest: float,
        *,
        watch: bool,
    ) -> None:
        """Replace all documents.

        Parameters
        ----------
        documents, following, newest
            The documents, the number of the next one, and the newest time so far.
        watch
            Whether to prepare the pre-filter for them, which pays if they stay for long.
        """
        self.documents.restore(documents, following, newest)
        if watch:
            # A new searcher watches the documents from the beginning.
            self._matcher._last_searcher = None

    def find(self, event: FlatEvent) -> Matches:
        """Find the rules that an event satisfies now."""
        matcher = self._matcher
        parts, tail = matcher._searcher.find_places(event, matcher._select(None, None))
        segments = [
            SegmentMatches(segment.columns, places, segment.ids.array(places).tolist())
            for segment, places in parts
            if len(places)
        ]
        return Matches(segments, [entry.rule for entry in tail])

    def score(self, event: Event, ids: Sequence[RuleId]) -> dict[RuleId, float]:
        """The scores of rules that an event satisfies."""
        return dict(self._matcher.top(event, len(ids), only=ids))

    def refuse_documents(self, advice: str) -> None:
        """Refuse documents that do not come by the log of events."""

        def refuse() -> None:
            raise StorageError(advice, path=str(self._path))

        self.documents.check_writable = refuse

    @property
    def _path(self) -> Any:
        store = self._matcher._store
        return "memory" if store is None else store.folder

    def draw_identity(self) -> None:
        """Give the directory an identity, if it has none."""
        if self._matcher._store is not None:
            self._matcher._store.draw_identity()

    @property
    def identity(self) -> str:
        """That of the directory, which no other one has had; empty if it is not known."""
        store = self._matcher._store
        return "" if store is None else store.identity

    def check_writable(self) -> None:
        """Raise `StorageError` if the directory takes no changes."""
        if self._matcher._store is not None:
            self._matcher._store.check_writable()

    def load_documents_later(self, load: Callable[[], tuple[Iterable[Any], int]]) -> None:
        """Have join predicates call `load` for the documents once they need them."""
        self.documents.load_later(load)
