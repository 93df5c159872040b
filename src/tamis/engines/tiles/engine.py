"""TILES: access keys, bit tiles and flat entries; the default engine.

Each conjunction is filed under the key that events satisfy least often (`access_keys.py`), and an
event visits only the groups of its own keys (`groups.py`). The conjunctions of a group that share
few attributes stand in tiles, where an AND of bit rows tests up to 256 of them at once
(`layout.py`, `columns.py`, `tile_and.py`). The others are flat entries: a signature of the
attributes needed, and the atoms packed in one place (`flat_groups.py`). A rule too large for a DNF
is evaluated when an atom of its cover holds. docs/decisions/0007 and 0017 have the measurements.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT64, Choices, Events, rows_between
from tamis.encode.arrow_arrays import new_integers
from tamis.encode.event_pairs import list_entries
from tamis.encode.rules import EncodedRules
from tamis.engines.base import BUFFER, Best, Engine, Parts, Scratch
from tamis.engines.kernels.address_block import AddressBlock
from tamis.engines.kernels.event_expressions import ExpressionMatches, find_repeats
from tamis.engines.kernels.marks import SLACK
from tamis.engines.kernels.sorting import take
from tamis.engines.shared.engine import Shared, shares_atoms
from tamis.engines.tiles.arrays import TileArrays
from tamis.engines.tiles.bounds import NO_BOUNDS, TileWeights, weigh_tiles
from tamis.engines.tiles.build import build
from tamis.engines.tiles.check import check_tiles
from tamis.engines.tiles.count import Batch, count_rows, new_batch
from tamis.engines.tiles.expressions import (
    ExpressionRoom,
    match_choices,
    new_expression_room,
)
from tamis.engines.tiles.match import COUNT, IN_ORDER, LIST, match_event, match_rows
from tamis.engines.tiles.top import top_event, top_rows
from tamis.engines.tiles.top_workspace import TopWorkspace, new_top_block, new_top_workspace
from tamis.engines.tiles.workspace import Ages, new_block, new_workspace
from tamis.forks import computed_once

__all__ = ["Tiles"]

_BATCH, _MOST_FLAT = 64, 0.05
"""With at least this many events, `count_rows` walks the groups once for all of them, if no larger
part of the conjunctions is tested one by one."""

_LEAST_ROOM = 1 << 16
"""How many matches an output buffer has room for at least, and the first one of some events."""

_MARGIN = 1.05
"""How many times as many matches the next buffer has room for as the events so far predict."""

_NO_MASK: Final = np.empty(0, np.uint8)


_MOST_BEST, _MOST_VALUES = 16, 256
"""How many rules and values a thread has room for in a search for the best, to begin with."""


class TopBlock(NamedTuple):
    """The addresses of what ranking needs, and how much room there is."""

    block: NDArray[np.int64]
    addresses: AddressBlock
    """The block, and what keeps its arrays alive."""
    workspace: TopWorkspace
    most: int
    values: int


class TilesScratch(Scratch):
    """The working memory of one thread.

    Parameters
    ----------
    engine
        The engine.
    """

    def __init__(self, engine: Tiles) -> None:
        super().__init__(engine.rules)
        # The engine has this memory of each thread: it is freed with the last search, not later.
        self._engine: Tiles = weakref.proxy(engine)
        self._workspace = new_workspace(engine.rules, engine.arrays)
        self.found = self._workspace.found
        """The ages of the rules that the last single event matched."""
        self._plain_ranks: TopBlock | None = None
        self._weighted_ranks: TopBlock | None = None

    @computed_once
    def block(self) -> NDArray[np.int64]:
        """What kernels take besides events."""
        return self._addresses.block

    @computed_once
    def _addresses(self) -> AddressBlock:
        engine = self._engine
        ages = Ages(np.ascontiguousarray(engine.order, np.int32))
        return new_block(engine.rules, engine.arrays, ages, self._workspace)

    @computed_once
    def batch(self) -> Batch:
        """Room for many events; a thread that only sees single events never allocates it."""
        return new_batch(self._engine.arrays)

    @computed_once
    def expressions(self) -> ExpressionRoom:
        """Room to match event expressions."""
        return new_expression_room(self._engine.rules, self._engine.repeats)

    def ranks(self, most: int, values: int, is_weighted: bool) -> TopBlock:
        """What kernels take to find the `most` best rules of an event of so many `values`."""
        block = self._weighted_ranks if is_weighted else self._plain_ranks
        if block is None or most > block.most or values > block.values:
            most, values = max(most, _MOST_BEST), max(2 * values, _MOST_VALUES)
            block = self._engine.new_top_block(most, values, is_weighted)
            if is_weighted:
                self._weighted_ranks = block
            else:
                self._plain_ranks = block
        return block


class Tiles(Engine):
    """Tests what is filed under an event's keys, many conjunctions at a time."""

    arrays: TileArrays
    name: ClassVar[str] = "tiles"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = TileArrays
    check_arrays: ClassVar[Any] = staticmethod(check_tiles)

    variants: ClassVar[tuple[type[Engine], ...]] = (Shared,)

    @classmethod
    def choose(cls, rules: EncodedRules) -> type[Engine]:
        """`Shared` for rules that share their atoms; see docs/decisions/0020."""
        return Shared if shares_atoms(rules) else cls

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        """File and lay out `rules`; `sample` helps to choose their keys."""
        return build(rules, sample)

    def _mask_of_all(self) -> NDArray[np.uint8]:
        return _NO_MASK

    def new_scratch(self) -> TilesScratch:
        """Allocate working memory for one thread."""
        return TilesScratch(self)

    def prepare(self) -> None:
        """See `Engine.prepare`."""
        if self.first_id is None:
            _ = self._ids_by_age
        scratch = self.new_scratch()
        _ = scratch.block
        self._spares.append(scratch)

    @computed_once
    def _ids_by_age(self) -> NDArray[np.int64]:
        places = self.place_of_age
        return np.ascontiguousarray(self.ids if places is None else self.ids[places])

    @computed_once
    def repeats(self) -> NDArray[np.uint8]:
        """See `find_repeats`; computed for the first event expression."""
        return find_repeats(self.rules)

    # --- One event ---

    def find_places(
        self, event: NDArray[np.int32], mask: NDArray[np.uint8] | None = None
    ) -> NDArray[np.int32]:
        """See `Engine.find_places`."""
        places, ages = self.place_of_age, self._find_ages(event, mask, IN_ORDER)
        return ages if places is None else places.take(ages)

    def find_ids(
        self, event: NDArray[np.int32], mask: NDArray[np.uint8] | None, in_order: bool
    ) -> NDArray[np.integer]:
        """See `Engine.find_ids`."""
        ages = self._find_ages(event, mask, IN_ORDER if in_order else LIST)
        first = self.first_id
        if first == 0:
            return ages
        if first is not None:
            return np.add(ages, first, dtype=np.int64)
        return self._ids_by_age.take(ages)

    def _find_ages(
        self, event: NDArray[np.int32], mask: NDArray[np.uint8] | None, wanted: int
    ) -> NDArray[np.int32]:
        scratch: Any = self._scratch()
        chosen = _NO_MASK if mask is None else mask
        found: NDArray[np.int32] = scratch.found
        return found[: match_event(scratch.block, event, chosen, wanted)]

    def match_expression(
        self, choices: Choices, mask: NDArray[np.uint8] | None = None
    ) -> ExpressionMatches:
        """See `Engine.match_expression`. Tests only what the codes lead to; the oldest first."""
        if choices.is_endless.any():
            # Any text predicate may lead to a rule then.
            return super().match_expression(choices, mask)
        scratch = self._scratch()
        assert isinstance(scratch, TilesScratch)
        room, chosen = scratch.expressions, _NO_MASK if mask is None else mask
        found, doubtful = match_choices(scratch.block, choices, choices.present, chosen, room)
        ages, places = scratch.found[:found], self.place_of_age
        matched = ages.copy() if places is None else places.take(ages)
        undecided = room.undecided[:doubtful].copy()
        if doubtful:
            undecided = np.setdiff1d(undecided, matched)
        return ExpressionMatches(matched, undecided)

    # --- Many events ---

    def run(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        out: NDArray[Any],
        counts: NDArray[np.int64],
        keep: bool = True,
    ) -> int:
        """See `Engine.run`. What is written is in the order of ages."""
        assert isinstance(scratch, TilesScratch)
        block, size, counts = scratch.block, last - row, counts[row:last]
        entries = list_entries(rows_between(events, row, last), len(self.arrays.levels))
        if keep:
            if len(out) < self.rules.size:
                return row
            # The kernel may write to what comes after the rules.
            room = new_integers(len(out) + SLACK)
            done = int(match_rows(block, *entries, mask, 0, size, IN_ORDER, 0, room, counts))
            found = self._label(room[: counts[:done].sum()], with_ids=False)
            out[: len(found)] = found
            return row + done
        if size >= _BATCH and self._counts_by_groups and self._counts_plainly(mask):
            done = int(count_rows(block, scratch.batch, *entries, 0, size, counts))
            if done > 0:
                return row + done
            size = 1
        return row + int(match_rows(block, *entries, mask, 0, size, COUNT, 0, out, counts))

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
        """See `Engine._run_rows`. What the kernel writes is in order, and is not copied."""
        scratch = self._scratch()
        assert isinstance(scratch, TilesScratch)
        parts: list[NDArray[np.integer]] = []
        if not keep:
            while row < last:
                row = self.run(events, row, last, mask, scratch, NO_INT64, counts, keep)
            return parts
        entries = list_entries(rows_between(events, row, last), len(self.arrays.levels))
        offset = (self.first_id or 0) if with_ids else 0
        size, counts, at, room = last - row, counts[row:last], 0, _LEAST_ROOM
        while at < size:
            out = new_integers(room)
            done = int(
                match_rows(scratch.block, *entries, mask, at, size, IN_ORDER, offset, out, counts)
            )
            if done > at:
                parts.append(self._label(out[: counts[at:done].sum()], with_ids))
                expected = int(_MARGIN * counts[:done].mean() * (size - done))
                room = max(_LEAST_ROOM, min(expected, BUFFER))
            else:
                room = SLACK + self.rules.size
            at = done
        return parts

    def _label(self, ages: NDArray[np.int64], with_ids: bool) -> NDArray[np.int64]:
        """Replace ages by places or ids, in place; consecutive ids are written by the kernel."""
        if not with_ids:
            if self.place_of_age is not None:
                take(self.place_of_age, ages, ages)
        elif self.first_id is None:
            take(self._ids_by_age, ages, ages)
        return ages

    @computed_once
    def _counts_by_groups(self) -> bool:
        """Whether most conjunctions stand in tiles: for others it is faster event by event."""
        in_tiles = int(self.arrays.tile[:-1, 1].sum())
        return in_tiles >= (1 - _MOST_FLAT) * (len(self.rules.forms.conjunction_start) - 1)

    def _counts_plainly(self, mask: NDArray[np.uint8]) -> bool:
        """Whether each hit is one rule: no mask, shared conjunctions, programs or texts."""
        forms = self.rules.forms
        has_owners_or_programs = len(forms.owner) > 0 or len(forms.program_rule) > 0
        return len(mask) == 0 and not has_owners_or_programs and self.rules.texts.size == 0

    @computed_once
    def _tile_weights(self) -> TileWeights:
        """The weights in tiles; computed for the first event with weights."""
        return weigh_tiles(self.rules, self.arrays)

    def new_top_block(self, most: int, values: int, is_weighted: bool) -> TopBlock:
        """Allocate working memory for one thread to find the best rules."""
        workspace = new_top_workspace(self.rules, self.order, self.ids, most, values)
        weights = self._tile_weights if is_weighted else NO_BOUNDS
        addresses = new_top_block(self.rules, weights, workspace)
        return TopBlock(addresses.block, addresses, workspace, most, values)

    def top_pairs(
        self,
        event: NDArray[np.int32],
        n: int,
        mask: NDArray[np.uint8] | None = None,
        weight: NDArray[np.float64] = NO_DOUBLES,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """See `Engine.top_pairs`."""
        ranks, found = self._find_best(event, n, mask, weight)
        return ranks.workspace.best[:found], ranks.workspace.score[:found]

    def top_ids(
        self,
        event: NDArray[np.int32],
        n: int,
        mask: NDArray[np.uint8] | None = None,
        weight: NDArray[np.float64] = NO_DOUBLES,
    ) -> list[tuple[Any, float]]:
        """See `Engine.top_ids`. The kernel looks up the ids."""
        ranks, found = self._find_best(event, n, mask, weight)
        ids, scores = ranks.workspace.best_id, ranks.workspace.score
        return list(zip(ids[:found].tolist(), scores[:found].tolist(), strict=True))

    def _find_best(
        self,
        event: NDArray[np.int32],
        n: int,
        mask: NDArray[np.uint8] | None,
        weight: NDArray[np.float64],
    ) -> tuple[TopBlock, int]:
        """Find the best rules of an event; returns where they are, and how many."""
        n = min(n, self.rules.size)
        scratch: Any = self._scratch()
        ranks: TopBlock = scratch.ranks(n, len(event) >> 1, len(weight) > 0)
        if not n:
            return ranks, 0
        chosen = _NO_MASK if mask is None else mask
        return ranks, top_event(scratch.block, ranks.block, event, weight, chosen, n)

    def _rank(
        self, events: Events, row: int, last: int, mask: NDArray[np.uint8], best: Best
    ) -> None:
        """See `Engine._rank`."""
        if not best.rule.shape[1]:
            return
        scratch = self._scratch()
        assert isinstance(scratch, TilesScratch)
        events = rows_between(events, row, last)
        top_rows(
            scratch.block,
            scratch.ranks(0, 0, len(events.weight) > 0).block,
            *list_entries(events, len(self.arrays.levels)),
            events,
            0,
            last - row,
            mask,
            *best,
        )
