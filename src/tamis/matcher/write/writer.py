"""How rules come and go: the writing side of a Matcher.

A writer first prepares what it brings, aside and without a lock: a few rules are parsed, many
become a segment. Then it queues up its change. Whoever gets the lock makes all the changes in the
queue, one after the other, has the journal keep them (many writers share one wait for the disk),
and swaps in one new snapshot. A change that is refused leaves nothing behind.

Behind the writers a thread tidies up: it makes a segment of the tail, and merges segments. It
builds aside, too, and takes the lock only to swap; what was removed in the meantime is removed
from what it built.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Collection as Several
from typing import NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.errors import (
    BackgroundError,
    CorruptFileError,
    DuplicateRuleError,
    TamisError,
    UnknownRuleError,
)
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Snapshot, View, is_id
from tamis.matcher.tail import NO_TAIL, Tail, is_warm, warm_up
from tamis.matcher.write.background import Worker
from tamis.matcher.write.builder import BadRule, Maker, Prepared, refuse
from tamis.matcher.write.merge_policy import Load, run_to_merge
from tamis.matcher.write.responsive import short_turns

__all__ = [
    "Added",
    "Collection",
    "Entry",
    "Journal",
    "Removed",
    "State",
    "appended",
    "located",
    "without",
]

_ONE_BY_ONE = 512
"""After how many rules that came one by one trees are worth loading their kernels for."""

_SEGMENTS = 24
"""With more segments than this a writer does its share of merging before it brings more."""


class State(NamedTuple):
    """What a collection holds."""

    views: tuple[View, ...]
    tail: Tail


_EMPTY = State((), NO_TAIL)


class Added(msgspec.Struct, frozen=True, tag="add"):
    """A change for the journal: rules that come, in place of those with the same ids."""

    rows: tuple[bytes, ...]
    """Lists of `Row` in MessagePack."""
    refused: tuple[RuleId, ...] = ()
    """The ids of rows that were left out after all."""
    clears: bool = False
    """Whether all rules that were there go."""


class Removed(msgspec.Struct, frozen=True, tag="remove"):
    """A change for the journal: rules that go."""

    ids: tuple[RuleId, ...]


Entry: TypeAlias = Added | Removed


class Journal(Protocol):
    """Keeps changes."""

    def check_writable(self) -> None:
        """Raise if no change can be kept."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Return when all of these are safe; if it raises, none is kept."""

    def is_untidy(self) -> bool:
        """Whether there is some upkeep to do."""

    def tidy(self, between_changes: Callable[[Callable[[], None]], Snapshot]) -> None:
        """Do one piece of upkeep.

        `between_changes` calls a function while nothing is changed, and returns the state then.
        """

    def verify(self, segments: Sequence[Segment]) -> None:
        """Raise if what these segments were read from is not as it was written."""

    def close(self, between_changes: Callable[[Callable[[], None]], Snapshot] | None) -> None:
        """Keep no more changes; without `between_changes` leave all as it is."""


class _Outcome(NamedTuple):
    """What a change makes of a state."""

    state: State
    result: int
    """How many rules it concerned."""
    entry: Entry | None
    """None where nothing changed."""


_Change: TypeAlias = Callable[[State], _Outcome]


class _Request:
    """A change in the queue, and what became of it."""

    def __init__(self, change: _Change) -> None:
        self.change = change
        self.result: int | None = None
        self.error: BaseException | None = None
        self.is_done = False

    def outcome(self) -> int:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class Collection:
    """Rules by id. `snapshot` may be read at any time.

    Parameters
    ----------
    maker
        Makes segments.
    state
        What the collection holds at first.
    """

    def __init__(self, maker: Maker, state: State | None = None) -> None:
        self._maker = maker
        self._journal: Journal | None = None
        self._queue: deque[_Request] = deque()
        self._new_locks()
        self._worker = Worker(self)
        self._failure: Exception | None = None
        self.damage: CorruptFileError | None = None
        """Why no answer can be trusted any more."""
        self._singles = 0
        """How many rules came one by one, or a few at a time."""
        self._set(state or _EMPTY)
        _collections.add(self)

    def _new_locks(self) -> None:
        self._writing = threading.Lock()
        """Held to change `snapshot`."""
        self._tidying = threading.Lock()
        """Held to rearrange segments; taken before `_writing`."""

    def keep_in(self, journal: Journal) -> None:
        """Have all changes from now on kept by `journal`."""
        self._journal = journal
        self._wake_worker()

    # --- Changes ---

    def add(self, rules: Sequence[Rule], replace: bool, bad: list[BadRule] | None = None) -> int:
        """Add rules and return how many; refused ones go to `bad`, or raise if there is none.

        Either all that is to be added is, by one swap, or nothing is.
        """
        self._check_writable()
        while len(self.snapshot.views) > _SEGMENTS and self.tidy(quiet=False):
            pass
        prepared = self._maker.prepare(rules, bad)
        self._singles += len(prepared.entries)
        if self._needs_frozen_tail(self.snapshot.tail, prepared):
            self.freeze(self.snapshot)
        return self._commit(lambda state: self._added(state, prepared, replace, bad))

    def replace_all(self, rules: Sequence[Rule], bad: list[BadRule] | None = None) -> int:
        """Have these rules in place of all others, by one swap, and return how many."""
        self._check_writable()
        prepared = self._maker.prepare(rules, bad)
        state, count = appended(_EMPTY, prepared, frozenset())
        entry = Added(prepared.rows, clears=True)
        return self._commit(lambda _: _Outcome(state, count, entry))

    def remove(self, ids: Several[RuleId]) -> int:
        """Remove the rules of these ids: all of them, or none if one is not there."""
        self._check_writable()
        return self._commit(lambda state: _removed(state, ids))

    def _commit(self, change: _Change) -> int:
        request = _Request(change)
        self._queue.append(request)
        with self._writing:
            if not request.is_done:
                self._make_changes()
        self._wake_worker()
        return request.outcome()

    def _make_changes(self) -> None:
        """Make all the changes in the queue, each of them or none of it."""
        requests = [self._queue.popleft() for _ in range(len(self._queue))]
        state = State(self.snapshot.views, self.snapshot.tail)
        entries: list[Entry] = []
        try:
            for request in requests:
                try:
                    state, request.result, entry = request.change(state)
                except TamisError as error:
                    request.error = error
                    continue
                if entry is not None:
                    entries.append(entry)
            if entries:
                if self._journal is not None:
                    self._journal.append(entries)
                self._set(state)
        except BaseException as error:
            for request in requests:
                request.error = request.error or error
        finally:
            for request in requests:
                request.is_done = True

    def _set(self, state: State) -> None:
        self.snapshot = Snapshot(state.views, state.tail, self._maker.segment)

    def _added(
        self, state: State, prepared: Prepared, replace: bool, bad: list[BadRule] | None
    ) -> _Outcome:
        taken = _taken(state, prepared)
        refused: frozenset[RuleId] = frozenset()
        if replace:
            state = without(state, taken)
        else:
            refused = frozenset(taken.ids)
            for id in taken.ids:
                refuse(id, DuplicateRuleError(_TAKEN), bad)
        if self._needs_frozen_tail(state.tail, prepared):
            state = self._with_frozen_tail(state)
        state, count = appended(state, prepared, refused)
        return _Outcome(state, count, Added(prepared.rows, tuple(refused)) if count else None)

    def _needs_frozen_tail(self, tail: Tail, prepared: Prepared) -> bool:
        """Whether the rules of the tail have to be in a segment before others come."""
        if not tail:
            return False
        return prepared.segment is not None or not tail.has_room(len(prepared.entries))

    def _with_frozen_tail(self, state: State) -> State:
        """The same rules, all in segments: those of the tail are older than what comes now."""
        if state.tail is self.snapshot.tail:
            segment = self.snapshot.frozen_tail
        else:
            segment = self._maker.segment([entry.rule for entry in state.tail])
        return State((*state.views, View(segment)), NO_TAIL)

    # --- Tidying ---

    def upkeep(self, quiet: bool) -> bool:
        """Do one piece of work that no writer should have to wait for, if there is any."""
        if self._singles > _ONE_BY_ONE and not is_warm():
            warm_up()
            return True
        return self.tidy(quiet)

    def tidy(self, quiet: bool) -> bool:
        """Make a segment of the tail, or merge some, or have the journal tidy up.

        Tells whether there was something to do.
        """
        with self._tidying:
            snapshot = self.snapshot
            if snapshot.tail and (quiet or snapshot.tail.is_ripe()):
                self.freeze(snapshot)
                return True
            run = run_to_merge(_loads(snapshot), quiet)
            if run is not None:
                return self._merge(snapshot.views[run.start : run.stop])
            if self._journal is None or not self._journal.is_untidy():
                return False
            if snapshot.tail:
                # The journal stores segments; so the one it needs serves readers, too.
                self.freeze(snapshot)
            self._journal.tidy(self._between_changes)
            return True

    def _between_changes(self, function: Callable[[], None]) -> Snapshot:
        with self._writing:
            function()
            return self.snapshot

    def _wake_worker(self) -> None:
        """Wake the tidying thread if it could have something to do."""
        snapshot, journal = self.snapshot, self._journal
        if (
            snapshot.tail
            or run_to_merge(_loads(snapshot), quiet=True)
            or (journal is not None and journal.is_untidy())
        ):
            self._worker.wake()

    def optimize(self, sample: Sequence[EventChunk] = ()) -> None:
        """Merge all into one segment; the engine may go by a sample of events."""
        self._raise_failure()
        with self._tidying:
            while (snapshot := self.snapshot).tail:
                self.freeze(snapshot)
            views = snapshot.views
            if len(views) > 1 or (views and sample) or any(_dead(view) for view in views):
                self._merge(views, sample)
        self._wake_worker()

    def freeze(self, snapshot: Snapshot, wait: bool = True) -> None:
        """Have a segment in place of the tail of `snapshot`, if that is all still there.

        What came since stays in the tail, and what was removed since is removed from the segment.
        Without `wait` nothing is done if a writer is at work.
        """
        segment = snapshot.frozen_tail
        if not self._writing.acquire(blocking=wait):
            return
        try:
            now = self.snapshot
            found = now.tail.changes_since(snapshot.tail)
            if found is not None:
                rest, gone = found
                places = segment.places_of(np.array(gone, np.int32)).tolist()
                view = View(segment).without(places)
                self._set(State((*now.views, view) if view.size else now.views, rest))
        finally:
            self._writing.release()

    def _merge(self, views: tuple[View, ...], sample: Sequence[EventChunk] = ()) -> bool:
        """Put one segment in the place of several, which are neighbours."""
        self._verify(views)
        with short_turns():
            ages = _merged_ages(views)
            segment = self._maker.merged(views, sample)
        with self._writing:
            now = self.snapshot.views
            first = _position(now, views)
            if first is None:
                # All rules were replaced in the meantime.
                return True
            last = first + len(views)
            gone = [
                ages_of[_dead_places(new)]
                for ages_of, old, new in zip(ages, views, now[first:last], strict=True)
                if new is not old
            ]
            dead = np.concatenate([_NO_AGES, *gone])
            places = segment.places_of(dead[dead >= 0])
            merged = (View(segment).without(places.tolist()),) if len(segment) else ()
            self._set(State((*now[:first], *merged, *now[last:]), self.snapshot.tail))
        return True

    def _verify(self, views: Sequence[View]) -> None:
        """Nothing may be made of damaged files: the damage would not be seen any more."""
        if self._journal is not None:
            try:
                self._journal.verify([view.segment for view in views])
            except CorruptFileError as error:
                self.damage = error
                raise

    # --- Failures, the end ---

    def note_failure(self, error: Exception) -> None:
        """Keep an error of the tidying thread for the next writer; of damaged files, for all."""
        self._failure = error
        if isinstance(error, CorruptFileError):
            self.damage = error

    def _check_writable(self) -> None:
        if self._journal is not None:
            self._journal.check_writable()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, self.damage
        if isinstance(failure, TamisError):
            raise failure
        if failure is not None:
            raise BackgroundError(
                f"tidying up in the background failed ({failure!r}); "
                "no rule is lost, and what was to be done now was not"
            ) from failure

    def close(self) -> None:
        """End the tidying thread and the journal.

        An error of the thread that nobody has seen yet is raised.
        """
        self._worker.stop()
        if self._journal is not None:
            with self._tidying:
                self._journal.close(None if self.damage else self._between_changes)
        self._failure = self._failure or self.damage
        self._raise_failure()

    def show(self, state: State) -> None:
        """Have another state in the place of all that was there, without the journal."""
        with self._tidying, self._writing:
            self._set(state)
        self._wake_worker()

    def after_fork(self) -> None:
        """In a forked child: no other thread is there, and locks may be held for ever."""
        self._new_locks()
        self._maker.after_fork()
        self.snapshot.tail.after_fork()
        self._queue.clear()
        self._worker.forget_thread()


class _Taken(NamedTuple):
    """Rules that are there and have the ids of others that are to come."""

    ids: list[RuleId]
    places: list[list[int]]
    """For each view."""
    tail: frozenset[RuleId]


def _taken(state: State, prepared: Prepared) -> _Taken:
    if prepared.segment is None:
        return located(state, [entry.rule.id for entry in prepared.entries])
    coming = prepared.segment.ids
    found: list[tuple[int, RuleId]] = []
    places: list[list[int]] = []
    for view in state.views:
        here, there = view.segment.ids.find_all(coming)
        alive = [view.is_alive(place) for place in here.tolist()]
        places.append(here[alive].tolist())
        found += [(place, coming.at(place)) for place in there[alive].tolist()]
    tail = {e.rule.id: p for e in state.tail if (p := coming.find(e.rule.id)) is not None}
    found += [(place, id) for id, place in tail.items()]
    return _Taken([id for _, id in sorted(found)], places, frozenset(tail))


def located(state: State, ids: Several[RuleId]) -> _Taken:
    """The rules of these ids that are there."""
    tail = frozenset(id for id in ids if state.tail.find(id) is not None)
    places: list[list[int]] = [[] for _ in state.views]
    found: list[RuleId] = []
    for id in ids:
        if id in tail:
            found.append(id)
            continue
        for number, view in enumerate(state.views):
            place = view.place_of(id)
            if place is not None:
                places[number].append(place)
                found.append(id)
                break
    return _Taken(found, places, tail)


def without(state: State, taken: _Taken) -> State:
    """The state with these rules removed."""
    views = (
        view.without(places) if places else view
        for view, places in zip(state.views, taken.places, strict=True)
    )
    tail = state.tail.without(taken.tail) if taken.tail else state.tail
    return State(tuple(view for view in views if view.size), tail)


def _removed(state: State, ids: Several[RuleId]) -> _Outcome:
    for id in ids:
        if not is_id(id):
            raise UnknownRuleError(f"there is no rule {id!r}")
    distinct = dict.fromkeys(ids)
    found = located(state, distinct)
    if len(found.ids) < len(distinct):
        missing = next(id for id in distinct if id not in set(found.ids))
        raise UnknownRuleError(f"there is no rule {missing!r}")
    entry = Removed(tuple(distinct)) if distinct else None
    return _Outcome(without(state, found), len(distinct), entry)


def appended(state: State, prepared: Prepared, refused: frozenset[RuleId]) -> tuple[State, int]:
    """The state with what was prepared behind it, but for `refused`, and how many that are."""
    views, tail = state
    if prepared.segment is None:
        entries = [e for e in prepared.entries if e.rule.id not in refused]
        return State(views, tail.with_added(entries)), len(entries)
    view = View(prepared.segment)
    places = [place for id in refused if (place := view.place_of(id)) is not None]
    view = view.without(places) if places else view
    return State((*views, view) if view.size else views, tail), view.size


def _loads(snapshot: Snapshot) -> list[Load]:
    return [Load(view.size, len(view.segment)) for view in snapshot.views]


def _dead(view: View) -> int:
    return len(view.segment) - view.size


def _dead_places(view: View) -> NDArray[np.int64]:
    alive = view.alive()
    return _NO_PLACES if alive is None else np.flatnonzero(alive == 0)


def _merged_ages(views: Sequence[View]) -> list[NDArray[np.int32]]:
    """For each view, and each place in it, the age that the rule gets by a merge; -1 for a dead."""
    ages, first = [], 0
    for view in views:
        places = view.places()
        age = np.full(len(view.segment), -1, np.int32)
        age[places] = np.arange(first, first + len(places))
        ages.append(age)
        first += len(places)
    return ages


def _position(now: tuple[View, ...], views: tuple[View, ...]) -> int | None:
    """Where the segments of `views` stand now, one behind the other."""
    segments = [view.segment for view in now]
    wanted = [view.segment for view in views]
    for first in range(len(segments) - len(wanted) + 1):
        if all(a is b for a, b in zip(segments[first:], wanted, strict=False)):
            return first
    return None


_TAKEN = "the id is taken; pass replace=True to replace it"
_NO_AGES = np.empty(0, np.int32)
_NO_PLACES = np.empty(0, np.int64)

_collections: weakref.WeakSet[Collection] = weakref.WeakSet()


def _after_fork() -> None:
    for collection in list(_collections):
        collection.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
