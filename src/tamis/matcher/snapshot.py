"""A snapshot: one consistent state of all rules, which never changes.

A matcher has one reference to its newest snapshot. A writer builds a new snapshot, which shares all
it can with the old one, and swaps the reference; a reader takes the reference once. The only locks
that readers meet are in the trees of the tail (`tail.py`), for microseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.segment import Segment
from tamis.matcher.selection import Selection
from tamis.matcher.tail import NO_TAIL, LazyEvent, Tail, TailRule
from tamis.matcher.validity import Validities

__all__ = ["Snapshot", "View", "is_id"]

_REMOVED = 256
"""How many removed places a view keeps beside its mask."""

_IDS_AT_ONCE = 4096
"""How many ids are decoded at a time while iterating over them."""


class View:
    """A segment as a snapshot sees it: which of its rules are alive. It never changes.

    The cost of a removal must not depend on the size of the segment, but an engine needs a mask
    with an entry per rule. So a view keeps the places of the last few removals beside an older
    mask. It combines the two when a search first needs them, or when the places become too many.

    Parameters
    ----------
    segment
        The segment.
    marks
        A mask of the rules that were alive at an earlier time; None if all were.
    removed
        The places of the rules that were removed since then.
    size
        How many rules are alive; counted if it is not given.
    """

    __slots__ = ("_alive", "_valid", "marks", "removed", "segment", "size")

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
        self._alive: NDArray[np.uint8] | None = None
        self._valid: tuple[int, NDArray[np.uint8]] | None = None
        """The number of a period, and a mask of the rules that are alive and valid in it."""

    @property
    def has_times(self) -> bool:
        """Whether some rule is not valid at all times."""
        return self.segment.columns.validities.find_valid(0)[1] is not None

    def is_alive(self, place: int) -> bool:
        """Whether the rule at `place` was not removed."""
        return place not in self.removed and (self.marks is None or bool(self.marks[place]))

    def place_of(self, id: RuleId, key: int | None = None) -> int | None:
        """Find the place of the living rule `id`, whose key may be known already."""
        place = self.segment.ids.find(id, key)
        return place if place is not None and self.is_alive(place) else None

    def without(self, places: Collection[int]) -> View:
        """A view with more living rules removed."""
        size = self.size - len(places)
        removed = self.removed.union(places)
        if len(removed) <= _REMOVED:
            return View(self.segment, self.marks, removed, size)
        return View(self.segment, self._clear_marks(removed), size=size)

    def alive(self) -> NDArray[np.uint8] | None:
        """A mask of the living rules; None if all are alive."""
        if not self.removed:
            return self.marks
        mask = self._alive
        if mask is None:
            # Two threads may both compute it; either result is right.
            mask = self._alive = self._clear_marks(self.removed)
        return mask

    def _clear_marks(self, removed: frozenset[int]) -> NDArray[np.uint8]:
        """Copy the mask, without the removed rules."""
        marks = np.ones(len(self.segment), np.uint8) if self.marks is None else self.marks.copy()
        marks[np.fromiter(removed, np.int64, len(removed))] = 0
        return marks

    def mask(self, selection: Selection) -> NDArray[np.uint8] | None:
        """A mask of the rules that a search considers; None if it considers all."""
        mask = self._alive_and_valid(selection.at)
        if selection.only is None:
            return mask
        wanted = self.segment.mask_of(selection.only)
        return wanted if mask is None else wanted & mask

    def _alive_and_valid(self, at: int) -> NDArray[np.uint8] | None:
        """A mask of the rules that are alive, and valid at a time; None if all are."""
        alive, (period, valid) = self.alive(), self.segment.columns.validities.find_valid(at)
        if alive is None or valid is None:
            return valid if alive is None else alive
        cached = self._valid
        if cached is None or cached[0] != period:
            # Two threads may both compute it; either result is right.
            cached = self._valid = period, alive & valid
        return cached[1]

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


class Snapshot:
    """All rules at one time: segments, the oldest rules first, and then the tail.

    Parameters
    ----------
    views
        The segments.
    tail
        The rules that are in no segment yet.
    freeze
        Builds a segment from the rules of the tail.
    revision
        How many changes led to this state.
    """

    def __init__(
        self,
        views: tuple[View, ...],
        tail: Tail,
        freeze: Callable[[Iterable[TailRule]], Segment],
        revision: int = 0,
    ) -> None:
        self.views = views
        self.tail = tail
        self.revision = revision
        self.size = sum(view.size for view in views) + len(tail)
        self._freeze = freeze
        self._frozen_tail: Segment | None = None

    @property
    def frozen_tail(self) -> Segment:
        """The rules of the tail as a segment, built when it is first needed."""
        segment = self._frozen_tail
        if segment is None:
            # Two threads may both build it; either result is right.
            segment = self._frozen_tail = self._freeze(self.tail)
        return segment

    @property
    def frozen_views(self) -> tuple[View, ...]:
        """At least one view, with all rules in segments: for searches that cannot use the tail."""
        if not self.tail and self.views:
            return self.views
        return (*self.views, View(self.frozen_tail))

    def parts(self) -> Iterator[tuple[str, Snapshot]]:
        """The segments and the tail, by name, each as a snapshot of its own."""
        for number, view in enumerate(self.views, 1):
            yield f"segment {number}", Snapshot((view,), NO_TAIL, self._freeze)
        if self.tail:
            yield "tail", Snapshot((), self.tail, self._freeze)

    def replaced_by(self, segment: Segment) -> Snapshot:
        """The same rules, merged into one segment."""
        return Snapshot((View(segment),), NO_TAIL, self._freeze, self.revision)

    def __contains__(self, id: Any) -> bool:
        return is_id(id) and (self.tail.find(id) is not None or self._locate(id) is not None)

    def find(self, id: Any) -> Rule | None:
        """Find the rule `id`."""
        if not is_id(id):
            return None
        entry = self.tail.find(id)
        if entry is not None:
            return entry.rule
        located = self._locate(id)
        return None if located is None else located[0].segment.columns.rule(located[1])

    def _locate(self, id: RuleId) -> tuple[View, int] | None:
        """Find the view and the place of a living rule that is in a segment."""
        for view in self.views:
            place = view.place_of(id)
            if place is not None:
                return view, place
        return None

    def match_tail(self, event: LazyEvent, selection: Selection) -> list[TailRule]:
        """Find the selected rules of the tail that an event satisfies, oldest first."""
        check_time()
        return [entry for entry in self.tail.match(event) if selection.includes(entry.rule)]

    def find_ended(self, at: int) -> Iterator[RuleId]:
        """Find the ids of the living rules that have ended at a time in microseconds."""
        for view in self.views:
            ended = view.segment.columns.validities.find_ended(at).tolist()
            places = np.array([place for place in ended if view.is_alive(place)], np.int64)
            yield from view.segment.ids.array(places).tolist()
        yield from (entry.rule.id for entry in self.tail if entry.rule.validity.end <= at)

    def validity_times(self) -> NDArray[np.int64]:
        """The times at which a rule begins or ends, rising, in microseconds since 1970."""
        tail = Validities.of([entry.rule.validity for entry in self.tail])
        parts = [view.segment.columns.validities.times() for view in self.views]
        return np.unique(np.concatenate([*parts, tail.times()]))

    def tags(self) -> set[str]:
        """The tags of all living rules."""
        tags = {tag for entry in self.tail for tag in entry.rule.tags}
        for view in self.views:
            alive = view.alive()
            places = None if alive is None else np.flatnonzero(alive)
            tags |= view.segment.columns.tags(places)
        return tags

    def draw_rule(self, random: Random) -> Rule | None:
        """A random rule; None if there is none at the place that was drawn."""
        if not self.size:
            return None
        number = random.randrange(len(self.tail) + sum(len(view.segment) for view in self.views))
        for view in self.views:
            if number < len(view.segment):
                return view.segment.columns.rule(number) if view.is_alive(number) else None
            number -= len(view.segment)
        return next(islice(self.tail, number, None)).rule

    def subscriptions(self) -> set[str]:
        """The subscriptions of all living rules."""
        found = {s for entry in self.tail if (s := entry.rule.subscription) is not None}
        for view in self.views:
            alive = view.alive()
            places = None if alive is None else np.flatnonzero(alive)
            found |= view.segment.columns.subscriptions(places)
        return found

    def rules(self, start: int = 0) -> Iterator[Rule]:
        """The living rules from a position on, in the order in which they were added."""
        for view in self.views:
            if start < view.size:
                columns = view.segment.columns
                yield from map(columns.rule, view.places()[start:].tolist())
            start = max(0, start - view.size)
        yield from (entry.rule for entry in islice(self.tail, start, None))

    def rules_by_priority(self) -> Iterator[Rule]:
        """The living rules, the highest priority first; of equal ones the oldest first."""
        runs = [self._rank(view) for view in self.views]
        newest = sorted(self.tail, key=lambda entry: -entry.rule.priority)
        return heapq.merge(*runs, (entry.rule for entry in newest), key=lambda rule: -rule.priority)

    def _rank(self, view: View) -> Iterator[Rule]:
        columns, places = view.segment.columns, view.places()
        # ~p orders as -p does, and unlike it never overflows.
        order = np.argsort(~columns.validities.priorities(places), kind="stable")
        return map(columns.rule, places[order].tolist())

    def rules_with_payload(self) -> Iterator[Rule]:
        """The living rules that carry a payload, in the order in which they were added."""
        for view in self.views:
            columns = view.segment.columns
            yield from map(columns.rule, columns.keep_with_payload(view.places()).tolist())
        yield from (entry.rule for entry in self.tail if entry.rule.payload is not None)

    def ids(self) -> Iterator[RuleId]:
        """The ids of all living rules, in the order in which they were added."""
        for view in self.views:
            yield from view.ids()
        for entry in self.tail:
            yield entry.rule.id


def is_id(id: Any) -> bool:
    """Whether `id` is of a type that ids have."""
    return isinstance(id, str | int) and not isinstance(id, bool)
