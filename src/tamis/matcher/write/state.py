"""The states of a collection of rules, and what changes turn them into.

All functions are pure: a state never changes, and a new one shares all it can with the old.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, NO_INT64
from tamis.matcher.ids import key_of
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import View
from tamis.matcher.tail import NO_TAIL, Tail, TailRule

__all__ = [
    "EMPTY",
    "Batch",
    "Located",
    "State",
    "append_batch",
    "count_dead",
    "locate",
    "locate_taken_ids",
    "number_merged_rules",
    "remove",
    "replace_tail",
    "replace_views",
]


class State(NamedTuple):
    """All rules of a collection."""

    views: tuple[View, ...]
    """Rules in segments, oldest first."""
    tail: Tail
    """The rules added last, which are in no segment yet."""


EMPTY: Final = State((), NO_TAIL)


class Batch(NamedTuple):
    """Valid rules, ready to be appended to a state."""

    rules: Sequence[Rule] | RuleColumns
    """All of them, in the order in which they were given."""
    entries: tuple[TailRule, ...]
    """The same rules for the tail, if they are few."""
    segment: Segment | None
    """The same rules as a segment, if they are many."""


class Located(NamedTuple):
    """Where rules of a state stand."""

    ids: list[RuleId]
    places: list[list[int]]
    """Places of rules in the segment of each view."""
    tail: frozenset[RuleId]
    """Ids of rules in the tail."""


def locate(state: State, ids: Collection[RuleId]) -> Located:
    """Find the rules with these ids; ids that no rule has are ignored."""
    tail = frozenset([id for id in ids if state.tail.find(id) is not None])
    places: list[list[int]] = [[] for _ in state.views]
    found: list[RuleId] = []
    for id in ids:
        if id in tail:
            found.append(id)
            continue
        key = key_of(id) if state.views else None
        for number, view in enumerate(state.views):
            place = view.place_of(id, key)
            if place is not None:
                places[number].append(place)
                found.append(id)
                break
    return Located(found, places, tail)


def locate_taken_ids(state: State, batch: Batch) -> Located:
    """Find the rules whose ids rules of the batch have, too."""
    if batch.segment is None:
        return locate(state, [entry.rule.id for entry in batch.entries])
    new_ids = batch.segment.ids
    found: list[tuple[int, RuleId]] = []
    places: list[list[int]] = []
    for view in state.views:
        old_places, new_places = view.segment.ids.find_all(new_ids)
        alive = [view.is_alive(place) for place in old_places.tolist()]
        places.append(old_places[alive].tolist())
        found += [(place, new_ids.at(place)) for place in new_places[alive].tolist()]
    tail = {e.rule.id: p for e in state.tail if (p := new_ids.find(e.rule.id)) is not None}
    found += [(place, id) for id, place in tail.items()]
    return Located([id for _, id in sorted(found)], places, frozenset(tail))


def remove(state: State, located: Located) -> State:
    """Remove the located rules."""
    views = (
        view.without(places) if places else view
        for view, places in zip(state.views, located.places, strict=True)
    )
    tail = state.tail.without(located.tail) if located.tail else state.tail
    return State(tuple(view for view in views if view.size), tail)


def append_batch(
    state: State, batch: Batch, refused: frozenset[RuleId] = frozenset()
) -> tuple[State, int]:
    """Append the rules of a batch, except those with refused ids, and count them.

    A segment is younger than the tail, so the tail has to be empty when the batch has one.
    """
    views, tail = state
    if batch.segment is None:
        entries = [entry for entry in batch.entries if entry.rule.id not in refused]
        return State(views, tail.with_added(entries)), len(entries)
    view = View(batch.segment)
    places = [place for id in refused if (place := view.place_of(id)) is not None]
    view = view.without(places) if places else view
    return State((*views, view) if view.size else views, tail), view.size


def replace_tail(state: State, tail: Tail, segment: Segment) -> State | None:
    """Put a segment in the place of an earlier tail that it was built from.

    Rules added since stay in the tail; rules removed since are removed from the segment. None if
    the state's tail does not begin with that tail any more.
    """
    since = state.tail.changes_since(tail)
    if since is None:
        return None
    rest, removed = since
    places = segment.places_of(np.array(removed, np.int32)).tolist()
    view = View(segment).without(places)
    return State((*state.views, view) if view.size else state.views, rest)


def replace_views(
    state: State, views: tuple[View, ...], segment: Segment, ages: list[NDArray[np.int32]]
) -> State | None:
    """Put a segment in the place of earlier, neighbouring views that were merged into it.

    Rules removed since are removed from the segment, too. None if the views are gone.

    Parameters
    ----------
    state
        The state now.
    views
        The views as they were when the merge began.
    segment
        Their living rules.
    ages
        `number_merged_rules` of the views.
    """
    first = _find_run(state.views, views)
    if first is None:
        return None
    last = first + len(views)
    removed = [
        ages_of_view[_dead_places(new)]
        for ages_of_view, old, new in zip(ages, views, state.views[first:last], strict=True)
        if new is not old
    ]
    dead = np.concatenate([NO_INT32, *removed])
    places = segment.places_of(dead[dead >= 0])
    merged = (View(segment).without(places.tolist()),) if len(segment) else ()
    return State((*state.views[:first], *merged, *state.views[last:]), state.tail)


def number_merged_rules(views: Sequence[View]) -> list[NDArray[np.int32]]:
    """For each view, the age that the rule at each place has after a merge; -1 if it is dead."""
    ages, first = [], 0
    for view in views:
        places = view.places()
        age = np.full(len(view.segment), -1, np.int32)
        age[places] = np.arange(first, first + len(places))
        ages.append(age)
        first += len(places)
    return ages


def count_dead(view: View) -> int:
    """How many rules of the view's segment were removed."""
    return len(view.segment) - view.size


def _dead_places(view: View) -> NDArray[np.int64]:
    alive = view.alive()
    return NO_INT64 if alive is None else np.flatnonzero(alive == 0)


def _find_run(views: tuple[View, ...], wanted: tuple[View, ...]) -> int | None:
    """The position in `views` from which on the segments of `wanted` follow each other."""
    segments = [view.segment for view in views]
    run = [view.segment for view in wanted]
    for first in range(len(segments) - len(run) + 1):
        if all(a is b for a, b in zip(segments[first:], run, strict=False)):
            return first
    return None
