"""The writer of a matcher: queues changes, commits them in groups, and swaps snapshots.

A write takes these steps:

1. Prepare, without a lock: a few rules are parsed, many become a segment (`builder.py`).
2. Put the change into the queue.
3. Whichever thread gets the lock applies all changes in the queue to the state (`state.py`),
4. appends them to the journal as one group, so that many writers share one wait for the disk,
5. and swaps in one new snapshot. A change that is refused has no effect.

An exception may come at any line: a signal handler may raise. So one assignment decides whether a
group of changes happened, that of the new snapshot. Before the next change the journal keeps the
group, or drops it, by what was decided (`Writer._settle`).

A background thread (`background.py`) freezes the tail into a segment, merges segments and maintains
the journal. It also builds without the lock and takes it only to swap; rules removed in the
meantime are removed from what it has built.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from tamis.encode.plain.warm_up import is_compiled
from tamis.errors import (
    BackgroundError,
    DuplicateRuleError,
    TamisError,
    UnknownRuleError,
)
from tamis.forks import call_in_child
from tamis.matcher.give_way import give_way
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Snapshot, View, is_id
from tamis.matcher.tail import NO_TAIL, Remains, Tail, is_warm, warm_up
from tamis.matcher.write.background import Worker
from tamis.matcher.write.bad_rules import BadRule, refuse
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.changes import Added, Change, Removed, encode_rules
from tamis.matcher.write.journal import Journal
from tamis.matcher.write.merge_policy import Load, find_run_to_merge
from tamis.matcher.write.new_rules import NewRules
from tamis.matcher.write.release_memory import release_memory
from tamis.matcher.write.responsive import age_objects, keep_responsive
from tamis.matcher.write.state import (
    EMPTY,
    Batch,
    State,
    append_batch,
    count_dead,
    locate,
    locate_taken_ids,
    number_merged_rules,
    remove,
    replace_tail,
    replace_views,
)

__all__ = ["Writer"]

_SINGLES_BEFORE_TREES = 64
"""After this number of single additions, the kernels of the tail's trees are worth loading."""

_MOST_SEGMENTS: Final = 24
"""With more segments than this, a writer merges some before it adds more rules."""

_TAKEN: Final = "the id is taken; pass replace=True to replace it"


class _Outcome(NamedTuple):
    """The effect of a write on a state."""

    state: State
    rules: int
    """How many rules were added or removed."""
    change: Change | None
    """What to record; None if nothing changed."""


_Write: TypeAlias = Callable[[State], _Outcome]


class _Request:
    """A write in the queue, and its result once it is done."""

    def __init__(self, write: _Write) -> None:
        self.write = write
        self.rules: int | None = None
        self.error: TamisError | None = None
        self.is_done = False
        self.is_withdrawn = False
        """Whether its thread has stopped to wait for it."""

    @property
    def is_waiting(self) -> bool:
        return not (self.is_done or self.is_withdrawn)

    def result(self) -> int:
        if self.error is not None:
            raise self.error
        assert self.rules is not None
        return self.rules


class _Group(NamedTuple):
    """Writes that are recorded together."""

    requests: list[_Request]
    snapshot: Snapshot
    """The state after them; they are done once it is the newest."""


class Writer:
    """Changes a collection of rules. Any thread may read `snapshot` at any time.

    Parameters
    ----------
    builder
        Builds segments.
    state
        The rules at the beginning.
    journal
        Records all changes; None if they are kept in memory only.
    revision
        The number of the last change at the beginning.

    Attributes
    ----------
    snapshot
        The newest state.
    watchers
        Called after each change, with its revision, by the thread that holds the lock.
    """

    def __init__(
        self,
        builder: SegmentBuilder,
        state: State = EMPTY,
        journal: Journal | None = None,
        revision: int = 0,
    ) -> None:
        self._builder = builder
        self._journal = journal
        self._queue: deque[_Request] = deque()
        self._unsettled: _Group | None = None
        """Writes of which the journal does not know yet whether they are done."""
        self._create_locks()
        self._worker = Worker(self)
        self._failure: Exception | None = None
        """An error of the background thread, for the next writer."""
        self.snapshot = self._make_snapshot(state, revision)
        self.watchers: list[Callable[[int, Change], None]] = []
        self._singles = 0
        """How many rules came one by one, or a few at a time."""
        self._remains = Remains()
        _writers.add(self)
        if journal is not None:
            self._wake_worker()

    def _create_locks(self) -> None:
        self._writing = threading.Lock()
        """Held to swap `snapshot`."""
        self._compacting = threading.Lock()
        """Held to rearrange segments; taken before `_writing`."""

    # --- Writes ---

    def add(
        self, rules: list[Rule] | NewRules, replace: bool, bad: list[BadRule] | None = None
    ) -> int:
        """Add rules by one swap, and return how many.

        Refused rules are appended to `bad`; without such a list, the first one raises and nothing
        is added.
        """
        self._check_writable()
        while len(self.snapshot.views) > _MOST_SEGMENTS and self.compact(quiet=False):
            pass
        batch = self._builder.prepare(rules, bad)
        rows = self._encode_rows(batch)
        self._singles += len(batch.entries)
        if _needs_frozen_tail(self.snapshot.tail, batch):
            self.freeze_tail(self.snapshot)
        refused = 0 if bad is None else len(bad)

        def write(state: State) -> _Outcome:
            if bad is not None:
                # A thread that was interrupted may have tried it before.
                del bad[refused:]
            return self._add(state, batch, rows, replace, bad)

        added = self._commit(write)
        del rules
        release_memory(added)
        return added

    def replace_all(self, rules: list[Rule] | NewRules, bad: list[BadRule] | None = None) -> int:
        """Replace all rules by these with one swap, and return how many they are."""
        self._check_writable()
        batch = self._builder.prepare(rules, bad)
        state, count = append_batch(EMPTY, batch)
        change = Added(self._encode_rows(batch), clears=True)
        return self._commit(lambda _: _Outcome(state, count, change))

    def remove(self, ids: Collection[RuleId]) -> int:
        """Remove the rules with these ids, and return how many.

        Raises
        ------
        UnknownRuleError
            No rule has one of the ids; then none is removed.
        """
        self._check_writable()
        return self._commit(lambda state: _remove(state, ids))

    def _encode_rows(self, batch: Batch) -> tuple[bytes, ...]:
        if self._journal is None and not self.watchers:
            return ()
        return encode_rules(batch.rules)

    def _commit(self, write: _Write) -> int:
        request = _Request(write)
        try:
            self._queue.append(request)
            with self._writing:
                self._settle()
                # Another thread may have committed it while this one waited for the lock.
                if not request.is_done:
                    self._commit_queue()
        except BaseException:
            # Other writes of the queue are left to their own threads.
            request.is_withdrawn = True
            raise
        self._wake_worker()
        give_way()
        return request.result()

    def _commit_queue(self) -> None:
        """Apply all writes in the queue, record them together, and swap once."""
        requests = [request for request in self._queue.copy() if request.is_waiting]
        state = self._state()
        changes: list[Change] = []
        for request in requests:
            request.error = None
            try:
                state, request.rules, change = request.write(state)
            except TamisError as error:
                request.error = error
                continue
            if change is not None:
                changes.append(change)
        revision = self.snapshot.revision
        snapshot = self._make_snapshot(state, revision + len(changes)) if changes else self.snapshot
        self._unsettled = _Group(requests, snapshot)
        if changes and self._journal is not None:
            self._journal.append(changes)
        self.snapshot = snapshot
        self._settle()
        for number, change in enumerate(changes, revision + 1):
            for watch in self.watchers:
                watch(number, change)

    def _settle(self) -> None:
        """Have the journal keep the last group of writes if it is done, else drop it.

        Called with the lock, before any other change of the snapshot or the journal.
        """
        group = self._unsettled
        if group is not None:
            is_done = self.snapshot is group.snapshot
            if self._journal is not None:
                if is_done:
                    self._journal.confirm()
                else:
                    self._journal.undo()
            for request in group.requests if is_done else ():
                request.is_done = True
            self._unsettled = None
        while self._queue and not self._queue[0].is_waiting:
            self._queue.popleft()

    def _state(self) -> State:
        return State(self.snapshot.views, self.snapshot.tail)

    def _make_snapshot(self, state: State, revision: int) -> Snapshot:
        return Snapshot(state.views, state.tail, self._builder.freeze, revision)

    def _swap(self, state: State, revision: int | None = None) -> None:
        """Swap in a state; without a `revision` it holds the same rules as before."""
        self._settle()
        same = self.snapshot.revision
        self.snapshot = self._make_snapshot(state, same if revision is None else revision)

    def _add(
        self,
        state: State,
        batch: Batch,
        rows: tuple[bytes, ...],
        replace: bool,
        bad: list[BadRule] | None,
    ) -> _Outcome:
        taken = locate_taken_ids(state, batch)
        refused: frozenset[RuleId] = frozenset()
        if replace:
            state = remove(state, taken)
        else:
            refused = frozenset(taken.ids)
            for id in taken.ids:
                refuse(id, DuplicateRuleError(_TAKEN), bad)
        if _needs_frozen_tail(state.tail, batch):
            state = self._with_frozen_tail(state)
        state, count = append_batch(state, batch, refused)
        return _Outcome(state, count, Added(rows, tuple(refused)) if count else None)

    def _with_frozen_tail(self, state: State) -> State:
        """The same rules, all in segments."""
        if state.tail is self.snapshot.tail:
            segment = self.snapshot.frozen_tail
        else:
            segment = self._builder.freeze(state.tail)
        return State((*state.views, View(segment)), NO_TAIL)

    def replace_state(self, state: State, revision: int) -> None:
        """Swap in another state, without recording it in the journal."""
        with self._compacting, self._writing:
            self._swap(state, revision)
        self._wake_worker()

    # --- Compaction and maintenance ---

    def maintain(self, quiet: bool) -> bool:
        """Do one piece of background work. Returns whether there was any."""
        if self._singles > _SINGLES_BEFORE_TREES and not is_warm():
            warm_up()
            is_compiled()
            return True
        self._remains.free(self.snapshot.tail, quiet)
        adapted = not quiet and self.snapshot.tail.adapt()
        return self.compact(quiet) or adapted

    def compact(self, quiet: bool) -> bool:
        """Freeze the tail, merge some segments, or maintain the journal.

        Returns whether there was something to do.
        """
        with self._compacting:
            snapshot = self.snapshot
            if snapshot.tail and (quiet or snapshot.tail.is_ripe()):
                self.freeze_tail(snapshot)
                return True
            run = find_run_to_merge(_loads(snapshot), quiet)
            if run is not None:
                self._merge(snapshot.views[run.start : run.stop])
                return True
            if self._journal is None or not self._journal.needs_maintenance():
                return False
            if snapshot.tail:
                # Checkpoints store only segments, so freeze the tail first; readers benefit too.
                self.freeze_tail(snapshot)
            self._journal.maintain(self._take_snapshot)
            return True

    def optimize(self, sample: Sequence[EventChunk] = ()) -> None:
        """Merge all rules into one segment, which the engine may order for a sample of events."""
        self._raise_failure()
        with self._compacting:
            while (snapshot := self.snapshot).tail:
                self.freeze_tail(snapshot)
            views = snapshot.views
            if len(views) > 1 or (views and sample) or any(count_dead(view) for view in views):
                self._merge(views, sample)
        self._wake_worker()

    def freeze_tail(self, snapshot: Snapshot, wait: bool = True) -> None:
        """Put a segment in the place of the tail of `snapshot`, if it is still there.

        Without `wait`, nothing happens while another thread writes.
        """
        with keep_responsive():
            segment = snapshot.frozen_tail
            self._prepare(segment)
            age_objects(len(segment))
        if not wait and self._writing.locked():
            return
        with self._writing:
            state = replace_tail(self._state(), snapshot.tail, segment)
            if state is not None:
                self._swap(state)

    def _merge(self, views: tuple[View, ...], sample: Sequence[EventChunk] = ()) -> None:
        """Put one segment in the place of several neighbouring ones."""
        with keep_responsive():
            ages = number_merged_rules(views)
            segment = self._builder.merge(views, sample)
            self._prepare(segment)
            age_objects(len(segment))
        with self._writing:
            state = replace_views(self._state(), views, segment, ages)
            # None if all rules were replaced in the meantime.
            if state is not None:
                self._swap(state)
        release_memory(len(segment))

    def _prepare(self, segment: Segment) -> None:
        """Have a new segment ready for searches like those in the largest one."""
        views = self.snapshot.views
        segment.prepare(max(views, key=lambda view: view.size).segment if views else None)

    def _take_snapshot(self, function: Callable[[], None]) -> Snapshot:
        """Call a function between two changes, and return the snapshot of that moment."""
        with self._writing:
            self._settle()
            function()
            return self.snapshot

    def _wake_worker(self) -> None:
        """Wake the background thread if it may have something to do."""
        if self._worker.is_woken():
            # To notify it each time would have it compete with a writer that adds rule by rule.
            return
        snapshot, journal = self.snapshot, self._journal
        if (
            snapshot.tail
            or find_run_to_merge(_loads(snapshot), quiet=True)
            or (journal is not None and journal.needs_maintenance())
        ):
            self._worker.wake()

    # --- Failures, closing, forks ---

    def note_failure(self, error: Exception) -> None:
        """Keep an error of the background thread: the next writer raises it."""
        self._failure = error

    def _check_writable(self) -> None:
        if self._journal is not None:
            self._journal.check_writable()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if isinstance(failure, TamisError):
            raise failure
        if failure is not None:
            raise BackgroundError(
                f"background maintenance failed ({failure!r}); "
                "no rule is lost, but this call did nothing"
            ) from failure

    def close(self) -> None:
        """Stop the background thread and close the journal.

        Raises the error of the thread, if no call has raised it yet.
        """
        self._worker.stop()
        if self._journal is not None:
            with self._compacting:
                with self._writing:
                    self._settle()
                self._journal.close(self._take_snapshot)
        self._raise_failure()

    def after_fork(self) -> None:
        """In a forked child: replace locks that threads of the parent may have held."""
        self._create_locks()
        self._builder.after_fork()
        self.snapshot.tail.after_fork()
        self._queue.clear()
        self._unsettled = None
        self._worker.after_fork()


def _needs_frozen_tail(tail: Tail, batch: Batch) -> bool:
    """Whether the tail has to become a segment before the batch is appended."""
    if not tail:
        return False
    return batch.segment is not None or not tail.has_room(len(batch.entries))


def _remove(state: State, ids: Collection[RuleId]) -> _Outcome:
    for id in ids:
        if not is_id(id):
            raise UnknownRuleError(f"there is no rule {id!r}")
    distinct = dict.fromkeys(ids)
    located = locate(state, distinct)
    if len(located.ids) < len(distinct):
        known = set(located.ids)
        missing = next(id for id in distinct if id not in known)
        raise UnknownRuleError(f"there is no rule {missing!r}")
    change = Removed(tuple(distinct)) if distinct else None
    return _Outcome(remove(state, located), len(distinct), change)


def _loads(snapshot: Snapshot) -> list[Load]:
    return [Load(view.size, len(view.segment)) for view in snapshot.views]


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


def _after_fork() -> None:
    for writer in list(_writers):
        writer.after_fork()


call_in_child(_after_fork)
