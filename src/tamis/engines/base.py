"""The protocol of engines, and the code that all engines share.

An engine is built once from encoded rules and never changes. It supplies a kernel that matches a
range of encoded events; threads, chunks and ranking are handled here for all engines alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, NO_INT64, Choices, Events
from tamis.encode.arrow_arrays import new_integers
from tamis.encode.event_pairs import to_events
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.event_expressions import ExpressionMatches, match_expression
from tamis.engines.kernels.scores import rank_rules
from tamis.engines.kernels.sorting import repeat, sort_rows
from tamis.engines.kernels.truth import LoadedEvent, new_loaded_event
from tamis.engines.threads import map_in_threads, thread_count
from tamis.forks import computed_once

__all__ = ["BUFFER", "Best", "Engine", "MatchChunks", "Matches", "Parts", "Scratch", "Tops"]

BUFFER = 1 << 20
"""How many matches fit into one output buffer, beyond the room that a single event may need."""

_LEAST_ROWS, _MOST_ROWS = 512, 8192
"""The fewest and the most events of one task; fewer events than the first run in one thread."""
_LEAST_MATCHES = 1 << 16
"""From this number of matches on, a task has fewer events."""


class Matches(NamedTuple):
    """The matching rules of each event."""

    start: NDArray[np.int64]
    """Where the rules of each event begin, and last where those of the last one end."""
    rule: NDArray[np.integer]
    """The oldest first within an event."""


class MatchChunks(NamedTuple):
    """The matching rules of each event, without copying what the engine has written."""

    start: NDArray[np.int64]
    """Where the rules of each event begin, and last where those of the last one end."""
    rules: list[NDArray[np.integer]]
    """The rules of all events, the oldest first within an event; a chunk ends with an event."""
    numbers: list[NDArray[np.int64]]
    """The number of the event of each rule, if numbers were given; in chunks of their own."""


class _TaskMatches(NamedTuple):
    """The matches of some consecutive events, as in `MatchChunks`."""

    rules: list[NDArray[np.integer]]
    numbers: NDArray[np.int64]


class Tops(NamedTuple):
    """The best rules of each event, best first."""

    start: NDArray[np.int64]
    """Where the rules of each event begin, and last where those of the last one end."""
    rule: NDArray[np.int32]
    score: NDArray[np.float64]


class Parts(NamedTuple):
    """Everything that building an engine computes: enough to restore it."""

    rules: EncodedRules
    """The rules in the engine's own order; the engine numbers rules by this order."""
    order: NDArray[np.int32]
    """For each of these rules, its number among the rules that the engine was built from."""
    arrays: tuple[Any, ...]
    """The engine's own arrays: a NamedTuple of arrays, or an empty tuple."""


class Best(NamedTuple):
    """Output of ranking: one row of `rule` and `score` for each event, best first."""

    counts: NDArray[np.int64]
    """How many entries of each row are filled."""
    rule: NDArray[np.int32]
    score: NDArray[np.float64]

    @classmethod
    def empty(cls, rows: int, most: int) -> Best:
        """Room for `most` rules in each of `rows` rows."""
        return cls(
            np.zeros(rows, np.int64),
            np.empty((rows, most), np.int32),
            np.empty((rows, most), np.float64),
        )


class Scratch:
    """The working memory of one thread.

    Parameters
    ----------
    rules
        The engine's rules.
    workspace
        The engine's own working memory.
    """

    top_arguments: tuple[Any, ...] = ()
    """What the engine's `top_kernel` takes from here."""

    def __init__(self, rules: EncodedRules, *workspace: Any) -> None:
        self.loaded: LoadedEvent = new_loaded_event(len(rules.dictionary.axes), rules.texts.size)
        self.seen = np.zeros(rules.size if len(rules.forms.owner) else 0, np.uint8)
        """Marks the rules found for the current event; empty where conjunction i is rule i, since
        then no rule is found twice."""
        self.room = np.empty(rules.size, np.int32)
        """Output for the rules of one event."""
        self.count = np.zeros(1, np.int64)
        """Output for the number of these rules."""
        self.stack = np.empty(rules.scores.depth, np.float64)
        """Room for the operands of the deepest rule, to score it."""
        self.arguments: tuple[Any, ...] = (self.loaded, *workspace, self.seen)
        """What the engine's `kernel` takes from here."""


class Engine:
    """Finds the rules that events match.

    A subclass sets `name`, `kernel` and `arrays_type` and overrides `build_arrays`. Where its
    kernel needs working memory it overrides `new_scratch`.

    Parameters
    ----------
    rules
        The rules. The engine keeps these arrays and adds its own.
    built
        The `parts` of an engine of the same class, so that nothing is computed; `rules` are then
        the rules of these parts.
    sample
        Events like those to come, encoded for `rules`.
    """

    name: ClassVar[str]
    arrays_type: ClassVar[type[tuple[Any, ...]]] = tuple
    """The type of the engine's own arrays: a NamedTuple of arrays, numbers and further such
    NamedTuples. Files store the fields by name. `tuple` where the engine has no arrays."""
    check_arrays: ClassVar[Callable[[EncodedRules, Any], None] | None] = None
    """Refuses stored arrays with which a kernel could leave its arrays, by raising `ArrayError`;
    takes the rules, which were checked, and the arrays. Where an engine has no such check, files
    are not trusted with its arrays: they are built anew."""
    variants: ClassVar[tuple[type[Engine], ...]] = ()
    """Engines that may be built for a segment in place of this one; see `choose`."""
    kernel: ClassVar[Callable[..., int]]
    """Matches events as `run` says. Takes `kernel_inputs`, then events, row, last and mask, then
    `Scratch.arguments`, then out and counts."""
    top_kernel: ClassVar[Callable[..., None] | None] = None
    """Writes the best rules of events without finding all matching rules, if the engine can. Takes
    the rules' (atoms, forms, scores), the engine's arrays, events, row, last, mask and `order`,
    then `Scratch.top_arguments`, then counts and the rows of best rules and scores."""

    def __init__(
        self, rules: EncodedRules, built: Parts | None = None, sample: Events | None = None
    ) -> None:
        self.rules, self.order, self.arrays = built or self.build(rules, sample)
        self.kernel_inputs = self._kernel_inputs()
        self.all_rules = self._mask_of_all()
        """The mask that lets every rule through."""
        self.ids: NDArray[np.int64] = NO_INT64
        """The ids of the rules, if they are integers: what `find_ids` and `match_chunks` answer
        with. Set before the first search, and never changed."""
        self._local = threading.local()
        self._spares: list[Scratch] = []
        """Working memory for threads to come."""

    @classmethod
    def choose(cls, rules: EncodedRules) -> type[Engine]:  # noqa: ARG003  most engines take all
        """The engine to build for a segment of `rules`: this one, or one of its `variants`."""
        return cls

    @property
    def parts(self) -> Parts:
        """Everything that building the engine computed."""
        return Parts(self.rules, self.order, self.arrays)

    @classmethod
    def build(
        cls,
        rules: EncodedRules,
        sample: Events | None = None,  # noqa: ARG003  for engines that adapt to events
    ) -> Parts:
        """Compute the engine's arrays, and put the rules in the order it wants.

        `sample` has events like those to come, encoded for `rules`, for engines that adapt to them.
        """
        return Parts(rules, np.arange(rules.size, dtype=np.int32), cls.build_arrays(rules))

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> tuple[Any, ...]:  # noqa: ARG003  none here
        """Compute the engine's own arrays, of `arrays_type`."""
        return ()

    def _kernel_inputs(self) -> tuple[Any, ...]:
        """What the kernel takes first on every call."""
        return self.rules.atoms, self.rules.forms, self.arrays

    def _mask_of_all(self) -> NDArray[np.uint8]:
        return np.ones(self.rules.size, np.uint8)

    @property
    def nbytes(self) -> int:
        """The size of the engine's arrays, including the encoded rules."""
        rules = self.rules
        return _bytes_of(
            (
                rules.atoms,
                rules.forms,
                rules.scores,
                rules.dictionary.arrays,
                rules.texts.arrays,
                self.arrays,
            )
        )

    def new_scratch(self) -> Scratch:
        """Allocate working memory for one thread."""
        return Scratch(self.rules)

    def prepare(self) -> None:
        """Do what the first search of a thread would have to do."""
        _ = self.first_id, self.place_of_age
        self._spares.append(self.new_scratch())

    def run(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        out: NDArray[np.int32],
        counts: NDArray[np.int64],
        keep: bool = True,  # noqa: ARG002  an engine may skip `out` where only counts matter
    ) -> int:
        """Match the events from `row` up to, but not including, `last`.

        Writes the matching rules whose `mask` is set to `out`, event after event, in any order
        within an event; the contents of `out` are undefined unless `keep`. Writes the number of
        rules of each event to `counts`. Stops before an event for which `out` might lack room.

        Returns the first row that was not matched.
        """
        return int(
            self.kernel(
                *self.kernel_inputs, events, row, last, mask, *scratch.arguments, out, counts
            )
        )

    @computed_once
    def first_id(self) -> int | None:
        """The id of the oldest rule, if ids are consecutive numbers in the order of ages."""
        if len(self.ids) == 0:
            return 0
        first = int(self.ids[0]) - int(self.order[0])
        return first if bool((self.ids - self.order == first).all()) else None

    @computed_once
    def place_of_age(self) -> NDArray[np.int32] | None:
        """The inverse of `order`; None if every rule's place is its age."""
        places = np.arange(len(self.order), dtype=np.int32)
        if np.array_equal(self.order, places):
            return None
        inverse = np.empty_like(places)
        inverse[self.order] = places
        return inverse

    def find_places(
        self, event: NDArray[np.int32], mask: NDArray[np.uint8] | None = None
    ) -> NDArray[np.integer]:
        """Find the rules that an event matches, among those whose `mask` is set.

        The event is given as pairs (`tamis.encode.event_pairs`). The oldest rule comes first. The
        thread's next call overwrites the result.
        """
        scratch = self._scratch()
        chosen = self.all_rules if mask is None else mask
        events = to_events(event, len(self.rules.dictionary.axes))
        self.run(events, 0, 1, chosen, scratch, scratch.room, scratch.count)
        found = scratch.room[: scratch.count[0]]
        self._sort_rows(np.array([0, len(found)]), found)
        return found

    def find_ids(
        self,
        event: NDArray[np.int32],
        mask: NDArray[np.uint8] | None,
        in_order: bool,  # noqa: ARG002  an engine may be faster where the order does not matter
    ) -> NDArray[np.integer]:
        """As `find_places`, with the ids of the rules; in any order unless `in_order`.

        Ids of 32 bits are valid until the thread's next call, those of 64 bits for ever.
        """
        places, first = self.find_places(event, mask), self.first_id
        if self.place_of_age is None and first == 0:
            return places
        found: NDArray[np.int64] = (
            self.ids[places]
            if self.place_of_age is not None or first is None
            else np.add(places, first, dtype=np.int64)
        )
        return found

    def match(
        self, events: Events, mask: NDArray[np.uint8] | None = None, expected: int = 0
    ) -> Matches:
        """Find the rules that each event matches, among those whose `mask` is set.

        `expected` says how many there may be of an event, if that is known: where there are many,
        few events are divided among threads, too.
        """
        start, found, _ = self.match_chunks(events, mask, with_ids=False, expected=expected)
        return Matches(start, found[0] if len(found) == 1 else np.concatenate(found or [NO_INT64]))

    def match_chunks(
        self,
        events: Events,
        mask: NDArray[np.uint8] | None = None,
        with_ids: bool = False,
        numbers: NDArray[np.int64] | None = None,
        expected: int = 0,
    ) -> MatchChunks:
        """As `match`, in chunks that are not copied; with ids of rules instead of their places.

        `numbers` has a number for each event, to be written for each of its rules.
        """
        counts = np.zeros(_size(events), np.int64)
        rows = _rows_per_task(len(counts), expected)
        tasks = list(self._run_tasks(events, mask, counts, rows, True, with_ids, numbers))
        found = [part for task in tasks for part in task.rules]
        of_events = [] if numbers is None else [task.numbers for task in tasks]
        return MatchChunks(starts(counts), found, of_events)

    def _sort_rows(self, start: NDArray[np.int64], rules: NDArray[np.int32]) -> None:
        """Sort the rules of each event by age, in place."""
        inverse = self.place_of_age
        # Empty arrays mean that places are ages.
        order, inverse = (NO_INT32, NO_INT32) if inverse is None else (self.order, inverse)
        bits = np.zeros(self.rules.size // 64 + 1, np.uint64)
        sort_rows(start, rules, order, inverse, bits)

    def count(self, events: Events, mask: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
        """Count the rules that each event matches, among those whose `mask` is set."""
        counts = np.zeros(_size(events), np.int64)
        rows = _rows_per_task(len(counts))
        for _ in self._run_tasks(events, mask, counts, rows, False, False, None):
            pass
        return counts

    def top_one(
        self, events: Events, n: int, mask: NDArray[np.uint8] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Find the `n` best matching rules of the only event, and their scores; see `top`."""
        best = Best.empty(1, min(n, self.rules.size))
        self._rank(events, 0, 1, self.all_rules if mask is None else mask, best)
        return best.rule[0, : best.counts[0]], best.score[0, : best.counts[0]]

    def top_pairs(
        self,
        event: NDArray[np.int32],
        n: int,
        mask: NDArray[np.uint8] | None = None,
        weight: NDArray[np.float64] = NO_DOUBLES,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """As `top_one`, for an event given as pairs (`tamis.encode.event_pairs`).

        `weight` has the weight of each pair, or is empty if all are 1. Each text predicate must
        hold for one value at most, and for none if there are weights. The thread's next call may
        overwrite the result.
        """
        events = to_events(event, len(self.rules.dictionary.axes))
        return self.top_one(events._replace(weight=weight), n, mask)

    def top_ids(
        self,
        event: NDArray[np.int32],
        n: int,
        mask: NDArray[np.uint8] | None = None,
        weight: NDArray[np.float64] = NO_DOUBLES,
    ) -> list[tuple[Any, float]]:
        """As `top_pairs`, but with the ids of the rules, which are integers."""
        places, scores = self.top_pairs(event, n, mask, weight)
        return list(zip(self.ids.take(places).tolist(), scores.tolist(), strict=True))

    def top(self, events: Events, n: int, mask: NDArray[np.uint8] | None = None) -> Tops:
        """Find the `n` best matching rules of each event.

        Among equal scores, the rule that came first when the engine was built wins.
        """
        chosen = self.all_rules if mask is None else mask
        size, most = _size(events), min(n, self.rules.size)
        rows = min(_rows_per_task(size), max(1, BUFFER // max(most, 1)))

        def rank_rows(row: int) -> tuple[NDArray[Any], ...]:
            last = min(row + rows, size)
            best = Best.empty(last - row, most)
            self._rank(events, row, last, chosen, best)
            is_filled = np.arange(most) < best.counts[:, None]
            return best.counts, best.rule[is_filled], best.score[is_filled]

        found = list(map_in_threads(rank_rows, range(0, size, rows)))
        counts, rule, score = map(np.concatenate, zip(*found, strict=True)) if found else _NO_TOPS
        return Tops(starts(counts), rule, score)

    def match_expression(
        self, choices: Choices, mask: NDArray[np.uint8] | None = None
    ) -> ExpressionMatches:
        """Find the rules that match an event expression, among those whose `mask` is set.

        This tests every rule; the engines of the product test fewer.
        """
        found = match_expression(self.rules, choices)
        if mask is not None:
            found = ExpressionMatches(*(part[mask[part] != 0] for part in found))
        by_age = found.matched[np.argsort(self.order[found.matched])]
        return ExpressionMatches(by_age, found.undecided)

    def _rank(
        self, events: Events, row: int, last: int, mask: NDArray[np.uint8], best: Best
    ) -> None:
        """Write the best rules of the events from `row` up to, but not including, `last`."""
        scratch, rules = self._scratch(), self.rules
        scored = rules.atoms, rules.forms, rules.scores
        if self.top_kernel is not None:
            if best.rule.shape[1]:
                fixed = (mask, self.order, *scratch.top_arguments)
                self.top_kernel(scored, self.arrays, events, row, last, *fixed, *best)
            return
        count = np.zeros(last, np.int64)
        for at in range(last - row):
            event = row + at
            self.run(events, event, event + 1, mask, scratch, scratch.room, count)
            best.counts[at] = rank_rules(
                *scored,
                events,
                scratch.loaded,
                event,
                scratch.room[: count[event]],
                self.order,
                scratch.stack,
                best.rule[at],
                best.score[at],
            )

    def _run_tasks(
        self,
        events: Events,
        mask: NDArray[np.uint8] | None,
        counts: NDArray[np.int64],
        rows: int,
        keep: bool,
        with_ids: bool,
        numbers: NDArray[np.int64] | None,
    ) -> Iterator[_TaskMatches]:
        """Fill `counts`, and yield the matches of `rows` rows after another if kept."""
        chosen = self.all_rules if mask is None else mask
        size = len(counts)

        def run_rows(row: int) -> _TaskMatches:
            last = min(row + rows, size)
            found = self._run_rows(events, row, last, chosen, counts, keep, with_ids)
            if numbers is None:
                return _TaskMatches(found, NO_INT64)
            start = starts(counts[row:last])
            of_events = new_integers(start[-1])
            repeat(numbers[row:last], start, of_events)
            return _TaskMatches(found, of_events)

        return map_in_threads(run_rows, range(0, size, rows))

    def _run_rows(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        counts: NDArray[np.int64],
        keep: bool,
        with_ids: bool,
    ) -> list[NDArray[np.integer]]:
        """Match a range of rows in one thread, and return their rules if `keep`."""
        scratch = self._scratch()
        room = self.rules.size if last - row == 1 else self.rules.size + BUFFER
        out = np.empty(room, np.int32)
        parts: list[NDArray[np.integer]] = []
        while row < last:
            done = self.run(events, row, last, mask, scratch, out, counts, keep)
            if keep:
                found = out[: counts[row:done].sum()].copy()
                self._sort_rows(starts(counts[row:done]), found)
                parts.append(self.ids[found] if with_ids else found)
            row = done
        return parts

    def _scratch(self) -> Scratch:
        """The working memory of the current thread."""
        try:
            scratch: Scratch = self._local.scratch
        except AttributeError:
            try:
                scratch = self._spares.pop()
            except IndexError:
                scratch = self.new_scratch()
            self._local.scratch = scratch
        return scratch


_NO_TOPS = NO_INT64, NO_INT32, NO_DOUBLES


def _bytes_of(arrays: tuple[Any, ...]) -> int:
    """The size of all arrays in nested tuples."""
    inner = sum(_bytes_of(group) for group in arrays if isinstance(group, tuple))
    return inner + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _size(events: Events) -> int:
    return len(events.start) - 1


def _rows_per_task(size: int, expected: int = 0) -> int:
    """How many of `size` events make one task, so that every thread gets a share.

    `expected` is how many matches an event is likely to have.
    """
    least = min(_LEAST_ROWS, max(1, _LEAST_MATCHES // max(expected, 1)))
    return max(least, min(_MOST_ROWS, -(-size // thread_count())))
