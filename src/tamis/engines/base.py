"""The protocol of engines, and what all of them share.

An engine is built once from encoded rules and never changes. It answers for a range of rows of
encoded events; everything else, threads, chunks and ranking, is done here for all engines alike.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Choices, Events
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.event_expressions import Stabbed, stab
from tamis.engines.kernels.scores import top_rules
from tamis.engines.kernels.truth import Loaded, new_loaded
from tamis.engines.threads import in_threads, threads

__all__ = ["Capabilities", "Engine", "Matches", "Parts", "Scratch", "Tops"]

_Best = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
"""How many rules are best for each row, which ones, and their scores."""

_BUFFER = 1 << 20
"""How many matches are collected at once, beyond what one event may need."""

_LEAST_ROWS, _MOST_ROWS = 512, 8192
"""How many events a thread takes at a time; up to the first number there is but one thread."""


class Capabilities(NamedTuple):
    """What an engine does by itself; the shared code makes up for the rest."""

    indexed: bool
    """Whether it reads less than all the rules for an event."""
    prunes_top: bool = False
    """Whether it finds the best rules without finding all."""


class Matches(NamedTuple):
    """The rules that each of several events matches."""

    start: NDArray[np.int64]
    rule: NDArray[np.int32]
    """In no particular order within an event."""


class Tops(NamedTuple):
    """The best rules of each of several events, best first."""

    start: NDArray[np.int64]
    rule: NDArray[np.int32]
    score: NDArray[np.float64]


class Parts(NamedTuple):
    """What an engine consists of; enough to have it again without building it."""

    rules: EncodedRules
    """The rules in the engine's own order: its numbers of rules are places in here."""
    order: NDArray[np.int32]
    """For each place the number of the rule among those the engine was built from."""
    arrays: tuple[Any, ...]
    """The engine's own arrays: a NamedTuple of arrays, or nothing."""


class Scratch:
    """The working memory of one thread. Engines extend it."""

    own: tuple[Any, ...] = ()
    """What the engine's kernel takes beside the rest."""

    def __init__(self, rules: EncodedRules) -> None:
        self.loaded: Loaded = new_loaded(len(rules.dictionary.axes), rules.texts.size)
        self.seen = np.zeros(rules.size if len(rules.forms.owner) else 0, np.uint8)
        """A mark for each rule that was already found for the event; none where conjunction i is
        rule i, since then nothing is found twice."""
        self.room = np.empty(rules.size, np.int32)
        """Where the rules of one event are written."""
        self.count = np.zeros(1, np.int64)


class Engine(ABC):
    """Finds the rules that events match.

    Parameters
    ----------
    rules
        The rules; the engine keeps the arrays and adds its own.
    built
        What `parts` of an engine of the same class gave; then nothing is computed. `rules` is
        that engine's `rules`.
    sample
        Events like those to come, encoded for `rules`, if any are known.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    arrays_type: ClassVar[type[tuple[Any, ...]]] = tuple
    """What the engine's own arrays are: a NamedTuple of arrays, numbers and such NamedTuples, by
    which they are stored and had again; `tuple` where there are none."""

    def __init__(
        self, rules: EncodedRules, built: Parts | None = None, sample: Events | None = None
    ) -> None:
        self.rules, self.order, self.arrays = built or self.build(rules, sample)
        self._local = threading.local()
        self._all = self._mask_of_all()

    @property
    def parts(self) -> Parts:
        """All that was computed when the engine was built."""
        return Parts(self.rules, self.order, self.arrays)

    @classmethod
    def build(
        cls,
        rules: EncodedRules,
        sample: Events | None = None,  # noqa: ARG003  engines that override this may go by it
    ) -> Parts:
        """Compute the engine's own arrays, and put the rules in the order it wants.

        `sample` holds events like those to come, encoded for `rules`; an engine may go by them.
        """
        return Parts(rules, np.arange(rules.size, dtype=np.int32), ())

    @property
    @abstractmethod
    def kernel(self) -> Any:
        """The engine's kernel, which does what `run` says."""

    def run(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        out: NDArray[np.int32],
        counts: NDArray[np.int64],
        keep: bool = True,  # noqa: ARG002  engines that override this may spare themselves `out`
    ) -> int:
        """Match the events from `row` up to, not including, `last`.

        Writes the matching rules whose `mask` is set, in any order within each event, end to end
        into `out`, and their number for each event into `counts`; what is in `out` does not matter
        unless it is to be kept. Stops early before an event for which `out` has no room for all
        rules. Returns the first row that is not done.
        """
        return int(
            self.kernel(
                self.rules.atoms,
                self.rules.forms,
                *self._own_arrays(),
                events,
                row,
                last,
                mask,
                scratch.loaded,
                *scratch.own,
                scratch.seen,
                out,
                counts,
            )
        )

    @property
    def nbytes(self) -> int:
        """The size of the engine's arrays, the encoded rules included."""
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

    def _own_arrays(self) -> tuple[tuple[Any, ...], ...]:
        return (self.arrays,) if self.arrays else ()

    def new_scratch(self) -> Scratch:
        """Working memory for one thread."""
        return Scratch(self.rules)

    def _mask_of_all(self) -> NDArray[np.uint8]:
        """What `run` takes for a mask where there is none."""
        return np.ones(self.rules.size, np.uint8)

    def match_one(self, events: Events, mask: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
        """The matching rules of the only event, of those whose `mask` is set, in any order.

        They are overwritten by the thread's next call.
        """
        scratch = self._scratch()
        chosen = self._all if mask is None else mask
        self.run(events, 0, 1, chosen, scratch, scratch.room, scratch.count)
        return scratch.room[: scratch.count[0]]

    def match(self, events: Events, mask: NDArray[np.uint8] | None = None) -> Matches:
        """The matching rules of each event, of those whose `mask` is set."""
        counts = np.zeros(_size(events), np.int64)
        found = [part for parts in self._ranges(events, mask, counts, True) for part in parts]
        start = np.concatenate(([0], np.cumsum(counts)))
        return Matches(start, found[0] if len(found) == 1 else np.concatenate(found or [_NOTHING]))

    def count(self, events: Events, mask: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
        """How many rules each event matches."""
        counts = np.zeros(_size(events), np.int64)
        for _ in self._ranges(events, mask, counts, False):
            pass
        return counts

    def top_one(
        self, events: Events, n: int, mask: NDArray[np.uint8] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The `n` best of the matching rules of the only event, and their scores, as in `top`."""
        most = min(n, self.rules.size)
        count = np.zeros(1, np.int64)
        rule, score = np.empty((1, most), np.int32), np.empty((1, most), np.float64)
        chosen = self._all if mask is None else mask
        self.run_top(events, 0, 1, chosen, self._scratch(), count, rule, score)
        return rule[0, : count[0]], score[0, : count[0]]

    def top(self, events: Events, n: int, mask: NDArray[np.uint8] | None = None) -> Tops:
        """The `n` best of the matching rules of each event.

        Of equal scores the rule comes first that came first when the engine was built.
        """
        chosen = self._all if mask is None else mask
        size, most = _size(events), min(n, self.rules.size)
        rows = min(_rows_per_task(size), max(1, _BUFFER // max(most, 1)))

        def run_range(start: int) -> _Best:
            return self._top_range(events, start, min(start + rows, size), most, chosen)

        found = list(in_threads(run_range, range(0, size, rows)))
        counts, rule, score = map(np.concatenate, zip(*found, strict=True)) if found else _NO_TOPS
        return Tops(np.concatenate(([0], np.cumsum(counts))), rule, score)

    def stab(self, choices: Choices, mask: NDArray[np.uint8] | None = None) -> Stabbed:
        """The rules that match an event expression, of those whose `mask` is set.

        All rules are looked at here; an engine may do better.
        """
        found = stab(self.rules, choices)
        return found if mask is None else Stabbed(*(part[mask[part] != 0] for part in found))

    def _top_range(
        self, events: Events, row: int, last: int, most: int, mask: NDArray[np.uint8]
    ) -> _Best:
        counts = np.zeros(last - row, np.int64)
        rule = np.empty((last - row, most), np.int32)
        score = np.empty((last - row, most), np.float64)
        self.run_top(events, row, last, mask, self._scratch(), counts, rule, score)
        kept = np.arange(most) < counts[:, None]
        return counts, rule[kept], score[kept]

    def run_top(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        counts: NDArray[np.int64],
        rule: NDArray[np.int32],
        score: NDArray[np.float64],
    ) -> None:
        """Write the best rules of the events from `row` up to, not including, `last`.

        They go into the rows of `rule` and `score`, best first, as many as these have room for, and
        their number for each event into `counts`.
        """
        stack = np.empty(self.rules.scores.depth, np.float64)
        count = np.zeros(last, np.int64)
        for at in range(last - row):
            self.run(events, row + at, row + at + 1, mask, scratch, scratch.room, count)
            counts[at] = top_rules(
                self.rules.atoms,
                self.rules.forms,
                self.rules.scores,
                events,
                scratch.loaded,
                row + at,
                scratch.room[: count[row + at]],
                self.order,
                stack,
                rule[at],
                score[at],
            )

    def _ranges(
        self, events: Events, mask: NDArray[np.uint8] | None, counts: NDArray[np.int64], keep: bool
    ) -> Iterator[list[NDArray[np.int32]]]:
        """Fill `counts`, and yield the matches of range after range of rows if they are kept."""
        chosen = self._all if mask is None else mask
        size = len(counts)
        rows = _rows_per_task(size)
        starts = range(0, size, rows)

        def run_range(start: int) -> list[NDArray[np.int32]]:
            last = min(start + rows, size)
            return self._run_range(events, start, last, chosen, counts, keep)

        return in_threads(run_range, starts)

    def _run_range(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        counts: NDArray[np.int64],
        keep: bool,
    ) -> list[NDArray[np.int32]]:
        scratch = self._scratch()
        room = self.rules.size if last - row == 1 else self.rules.size + _BUFFER
        out = np.empty(room, np.int32)
        parts = []
        while row < last:
            done = self.run(events, row, last, mask, scratch, out, counts, keep)
            if keep:
                parts.append(out[: counts[row:done].sum()].copy())
            row = done
        return parts

    def _scratch(self) -> Scratch:
        scratch: Scratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = self.new_scratch()
        return scratch


_NOTHING = np.empty(0, np.int32)
_NO_TOPS = np.empty(0, np.int64), _NOTHING, np.empty(0, np.float64)


def _bytes_of(arrays: tuple[Any, ...]) -> int:
    """The size of arrays, and of those in tuples among them."""
    inner = sum(_bytes_of(group) for group in arrays if isinstance(group, tuple))
    return inner + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _size(events: Events) -> int:
    return len(events.start) - 1


def _rows_per_task(size: int) -> int:
    """How many of `size` events a thread takes at a time, so that all threads have a share."""
    return max(_LEAST_ROWS, min(_MOST_ROWS, -(-size // threads())))
