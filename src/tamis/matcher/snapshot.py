"""What a reader sees: one consistent state of a collection, which never changes.

The one swap point of a Matcher is its reference to a snapshot. A writer makes a new snapshot, which
shares all it can with the old one, and assigns it; a reader takes the reference once. Locks are
only in the trees of the tail (`tail.py`), and held for microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.segment import Segment
from tamis.matcher.selection import Selection
from tamis.matcher.tail import LazyEvent, Tail, TailRule

__all__ = ["Snapshot", "View"]


class View:
    """A segment as a snapshot sees it: which of its rules are alive. It never changes.

    A removal must not cost more the larger the segment is, but an engine wants a mark for each
    rule. So the places of the last few removals stand beside the marks, and the two become new
    marks when a reader first asks for them, or when those are too many.

    Parameters
    ----------
    segment
        The segment.
    marks
        A mark for each rule that was alive at some time; None when all were.
    removed
        The places of rules that were removed since.
    size
        How many rules are alive; counted here if that is not known.
    """

    __slots__ = ("_mask", "_timed", "marks", "removed", "segment", "size")

    def __init__(
        self,
        segment: Segment,
        marks: NDArray[np.uint8] | None = None,
        removed: frozenset[int] = frozenset(),
        size: int | None = None,
    ) -> None:
        self.segment = segment
        self.marks = marks
        self.removed = removed
        if size is None:
            size = len(segment) if marks is None else int(np.count_nonzero(marks))
        self.size = size
        self._mask: NDArray[np.uint8] | None = None
        self._timed: tuple[int, NDArray[np.uint8]] | None = None

    def is_alive(self, place: int) -> bool:
        """Whether the rule at `place` was not removed."""
        return place not in self.removed and (self.marks is None or bool(self.marks[place]))

    def place_of(self, id: RuleId) -> int | None:
        """Where the living rule `id` stands in the segment."""
        place = self.segment.ids.find(id)
        return place if place is not None and self.is_alive(place) else None

    def without(self, places: Collection[int]) -> View:
        """The view with more living rules removed; this one stays as it is."""
        size = self.size - len(places)
        removed = self.removed.union(places)
        if len(removed) <= _REMOVED:
            return View(self.segment, self.marks, removed, size)
        return View(self.segment, self._folded(removed), size=size)

    def alive(self) -> NDArray[np.uint8] | None:
        """A mark for each living rule; None when all are alive."""
        if not self.removed:
            return self.marks
        mask = self._mask
        if mask is None:
            # Two readers may do so at once, and both are right.
            mask = self._mask = self._folded(self.removed)
        return mask

    def _folded(self, removed: frozenset[int]) -> NDArray[np.uint8]:
        marks = np.ones(len(self.segment), np.uint8) if self.marks is None else self.marks.copy()
        marks[np.fromiter(removed, np.int64, len(removed))] = 0
        return marks

    def mask(self, selection: Selection) -> NDArray[np.uint8] | None:
        """The rules that may be found; None when all may."""
        mask = self._living(selection.at)
        if selection.only is None:
            return mask
        wanted = self.segment.mask_of(selection.only)
        return wanted if mask is None else wanted & mask

    def _living(self, at: int) -> NDArray[np.uint8] | None:
        """A mark for each rule that is alive and valid; None when all are."""
        alive, (stretch, valid) = self.alive(), self.segment.columns.validities.valid(at)
        if alive is None or valid is None:
            return valid if alive is None else alive
        known = self._timed
        if known is None or known[0] != stretch:
            # Two readers may do so at once, and both are right.
            known = self._timed = stretch, alive & valid
        return known[1]

    def places(self) -> NDArray[np.int32]:
        """The places of the living rules, in the order in which they were added."""
        alive = self.alive()
        places = self.segment.places_of(np.arange(len(self.segment), dtype=np.int32))
        return places if alive is None else places[alive[places] != 0]

    def ids(self) -> Iterator[RuleId]:
        """The ids of the living rules, in the order in which they were added."""
        ids, places = self.segment.ids, self.places()
        for start in range(0, len(places), _IDS_AT_ONCE):
            yield from ids.array(places[start : start + _IDS_AT_ONCE]).tolist()


_REMOVED = 256
"""How many removals may stand beside the marks of a view."""

_IDS_AT_ONCE = 4096


class Snapshot:
    """Segments, oldest rules first, and then the tail.

    Parameters
    ----------
    views
        The segments.
    tail
        The rules in no segment.
    freeze
        Builds a segment from the rules of the tail.
    """

    def __init__(
        self,
        views: tuple[View, ...],
        tail: Tail,
        freeze: Callable[[Iterable[TailRule]], Segment],
    ) -> None:
        self.views = views
        self.tail = tail
        self.size = sum(view.size for view in views) + len(tail)
        self._freeze = freeze
        # Made when first asked for. Two readers may do so at once, and both are right; Python's
        # cached_property would make them, and readers of other collections, wait.
        self._frozen_tail: Segment | None = None

    @property
    def frozen_tail(self) -> Segment:
        """The rules of the tail as a segment."""
        segment = self._frozen_tail
        if segment is None:
            segment = self._frozen_tail = self._freeze(self.tail)
        return segment

    @property
    def frozen_views(self) -> tuple[View, ...]:
        """All rules in segments, at least one: what a batch of events is worth building."""
        if not self.tail and self.views:
            return self.views
        return (*self.views, View(self.frozen_tail))

    def __contains__(self, id: Any) -> bool:
        return is_id(id) and (self.tail.find(id) is not None or self._in_view(id) is not None)

    def find(self, id: Any) -> Rule | None:
        """The rule `id`."""
        if not is_id(id):
            return None
        entry = self.tail.find(id)
        if entry is not None:
            return entry.rule
        found = self._in_view(id)
        return None if found is None else found[0].segment.columns.rule(found[1])

    def _in_view(self, id: RuleId) -> tuple[View, int] | None:
        for view in self.views:
            place = view.place_of(id)
            if place is not None:
                return view, place
        return None

    def match_tail(self, event: LazyEvent, selection: Selection) -> list[TailRule]:
        """The rules of the tail that an event satisfies, of those that may be found."""
        return [entry for entry in self.tail.match(event) if selection.includes(entry.rule)]

    def ended(self, at: int) -> Iterator[RuleId]:
        """The ids of the living rules that are not valid any more."""
        for view in self.views:
            ended = view.segment.columns.validities.ended(at).tolist()
            places = np.array([place for place in ended if view.is_alive(place)], np.int64)
            yield from view.segment.ids.array(places).tolist()
        yield from (entry.rule.id for entry in self.tail if entry.rule.validity.end <= at)

    def ids(self) -> Iterator[RuleId]:
        """The ids of all living rules, in the order in which they were added."""
        for view in self.views:
            yield from view.ids()
        for entry in self.tail:
            yield entry.rule.id


def is_id(id: Any) -> bool:
    """Whether `id` may be that of a rule."""
    return isinstance(id, str | int) and not isinstance(id, bool)
