"""What a reader sees: one consistent state of a collection, which never changes.

The one swap point of a Matcher is its reference to a snapshot. A writer makes a new snapshot, which
shares all it can with the old one, and assigns it; a reader takes the reference once and is done
with locks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.expr.model import Expr
from tamis.expr.weights import RuleWeights
from tamis.matcher.results import IdColumn
from tamis.matcher.rule import Rule, RuleId, Tagged
from tamis.matcher.segment import Segment

__all__ = ["Chosen", "Snapshot", "TailRule", "View"]

Chosen = Tagged | Collection[RuleId] | None
"""The rules to look at: those with one of these tags, those of these ids, or all."""


class TailRule(NamedTuple):
    """A rule that is not in a segment yet."""

    rule: Rule
    tree: Expr
    """The rule in negation normal form."""
    weights: RuleWeights


class View(NamedTuple):
    """A segment as a snapshot sees it."""

    segment: Segment
    alive: NDArray[np.uint8] | None
    """A mark for each rule that was not removed; None when none was."""
    size: int
    """How many rules are alive."""

    def place_of(self, id: Any) -> int | None:
        """Where the living rule `id` stands in the segment."""
        place = self.segment.places.get(id)
        if place is None or (self.alive is not None and not self.alive[place]):
            return None
        return place

    def without(self, places: Iterable[int]) -> View:
        """The view with more rules removed; this one stays as it is."""
        alive = np.ones(len(self.segment), np.uint8) if self.alive is None else self.alive.copy()
        alive[list(places)] = 0
        return View(self.segment, alive, int(alive.sum()))

    def mask(self, chosen: Chosen) -> NDArray[np.uint8] | None:
        """The rules that may be found; None when all may."""
        if chosen is None:
            return self.alive
        mask = self.segment.mask_of(chosen)
        return mask if self.alive is None else mask & self.alive

    def rules(self) -> Iterator[Rule]:
        """The living rules, in the order in which they were added."""
        if self.alive is None:
            return iter(self.segment.rules)
        return (self.segment.rules[place] for place in np.flatnonzero(self.alive).tolist())


class Snapshot:
    """Segments, oldest rules first, and then the tail.

    Parameters
    ----------
    views
        The segments.
    tail
        The rules added since the last segment was built.
    freeze
        Builds a segment from rules.
    """

    def __init__(
        self,
        views: tuple[View, ...],
        tail: tuple[TailRule, ...],
        freeze: Callable[[list[Rule]], Segment],
    ) -> None:
        self.views = views
        self.tail = tail
        self.size = sum(view.size for view in views) + len(tail)
        self._freeze = freeze
        # Made when first asked for. Two readers may do so at once, and both are right; Python's
        # cached_property would make them, and readers of other collections, wait.
        self._frozen_views: tuple[View, ...] | None = None
        self._ids: IdColumn | None = None

    @property
    def frozen_views(self) -> tuple[View, ...]:
        """All rules in segments, at least one: what a batch of events is worth building."""
        views = self._frozen_views
        if views is None:
            views = self.views
            if self.tail or not views:
                segment = self._freeze([entry.rule for entry in self.tail])
                views = (*views, View(segment, None, len(segment)))
            self._frozen_views = views
        return views

    @property
    def ids(self) -> IdColumn:
        """The ids of `frozen_views`, end to end."""
        ids = self._ids
        if ids is None:
            ids = self._ids = IdColumn([view.segment.ids for view in self.frozen_views])
        return ids

    def find(self, id: Any) -> Rule | None:
        """The rule `id`."""
        if isinstance(id, bool) or not isinstance(id, str | int):
            return None
        for entry in self.tail:
            if entry.rule.id == id:
                return entry.rule
        for view in self.views:
            place = view.place_of(id)
            if place is not None:
                return view.segment.rules[place]
        return None

    def chosen_tail(self, chosen: Chosen) -> Iterator[TailRule]:
        """The rules of the tail that may be found."""
        for entry in self.tail:
            if chosen is None:
                yield entry
            elif isinstance(chosen, Tagged):
                if not chosen.isdisjoint(entry.rule.tags):
                    yield entry
            elif entry.rule.id in chosen:
                yield entry

    def rules(self) -> Iterator[Rule]:
        """All living rules, in the order in which they were added."""
        for view in self.views:
            yield from view.rules()
        for entry in self.tail:
            yield entry.rule
