"""What a reader sees: one consistent state of a collection, which never changes.

The one swap point of a Matcher is its reference to a snapshot. A writer makes a new snapshot, which
shares all it can with the old one, and assigns it; a reader takes the reference once and is done
with locks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.expr.model import Expr
from tamis.expr.weights import RuleWeights
from tamis.matcher.results import IdColumn
from tamis.matcher.rule import Rule, Tagged
from tamis.matcher.segment import Segment

__all__ = ["Snapshot", "TailRule", "View"]


class TailRule(NamedTuple):
    """A rule that is not in a segment yet."""

    rule: Rule
    number: int
    """Its place in the order of addition."""
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

    def without(self, places: Iterable[int]) -> View:
        """The view with more rules removed; this one stays as it is."""
        alive = np.ones(len(self.segment), np.uint8) if self.alive is None else self.alive.copy()
        alive[list(places)] = 0
        return View(self.segment, alive, int(alive.sum()))

    def mask(self, only: Tagged | Collection[int] | None) -> NDArray[np.uint8] | None:
        """The rules that may be found; None when all may."""
        if only is None:
            return self.alive
        chosen = self.segment.mask_of(only)
        return chosen if self.alive is None else chosen & self.alive

    def rules(self) -> Iterator[tuple[int, Rule]]:
        """The living rules and their numbers, in the order in which they were added."""
        for place, (number, rule) in enumerate(
            zip(self.segment.numbers.tolist(), self.segment.rules, strict=True)
        ):
            if self.alive is None or self.alive[place]:
                yield number, rule


class Snapshot:
    """Segments, oldest rules first, and then the tail.

    Parameters
    ----------
    views
        The segments.
    tail
        The rules added since the last segment was built.
    freeze
        Builds a segment from tail rules.
    """

    def __init__(
        self,
        views: tuple[View, ...],
        tail: tuple[TailRule, ...],
        freeze: Callable[[tuple[TailRule, ...]], Segment],
    ) -> None:
        self.views = views
        self.tail = tail
        self.size = sum(view.size for view in views) + len(tail)
        self._freeze = freeze

    @cached_property
    def frozen_views(self) -> tuple[View, ...]:
        """All rules in segments: what a whole batch of events is worth building.

        Two readers may build it at once; both are right.
        """
        if not self.tail:
            return self.views
        segment = self._freeze(self.tail)
        return (*self.views, View(segment, None, len(segment)))

    @cached_property
    def ids(self) -> IdColumn:
        """The ids of `frozen_views`, end to end."""
        return IdColumn([view.segment.ids for view in self.frozen_views])

    def find(self, number: int) -> Rule | None:
        """The living rule with that number."""
        for entry in self.tail:
            if entry.number == number:
                return entry.rule
        for view in self.views:
            place = view.segment.place_of(number)
            if place is not None and (view.alive is None or view.alive[place]):
                return view.segment.rules[place]
        return None

    def rules(self) -> Iterator[Rule]:
        """All living rules, in the order in which they were added."""
        for view in self.views:
            for _, rule in view.rules():
                yield rule
        for entry in self.tail:
            yield entry.rule
