"""TILES: access keys, bit tiles and flat entries; the default engine.

Each conjunction is filed under the key that events satisfy least often (`access_keys.py`), and an
event visits only the groups of its own keys (`groups.py`). The conjunctions of a group that share
few attributes stand in tiles, where an AND of bit rows tests up to 256 of them at once
(`layout.py`, `columns.py`, `tile_and.py`). The others are flat entries: a signature of the
attributes needed, and the atoms packed in one place (`flat_entries.py`). A rule too large for a DNF
is evaluated when an atom of its cover holds. docs/decisions/0007 has the measurements.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Parts, Scratch
from tamis.engines.tiles.arrays import TileArrays
from tamis.engines.tiles.build import build
from tamis.engines.tiles.check import check_tiles
from tamis.engines.tiles.count import Batch, count_rows, new_batch
from tamis.engines.tiles.match import match_rows
from tamis.engines.tiles.top import top_rows
from tamis.engines.tiles.workspace import new_workspace

__all__ = ["Tiles"]

_BATCH = 64
"""With at least this many events, `count_rows` walks the groups once for all of them."""


class TilesScratch(Scratch):
    """The working memory of one thread."""

    def __init__(self, rules: EncodedRules, arrays: TileArrays) -> None:
        super().__init__(rules)
        self.workspace = new_workspace(rules, arrays)
        self.top_arguments = (self.workspace, self.room, np.zeros(2, np.int64), self.stack)
        self.fixed = (*rules.atoms, *rules.forms, *arrays, *self.workspace)
        """What `match_rows` takes on every call, array by array."""
        self._arrays = arrays

    @cached_property
    def batch(self) -> Batch:
        """Room for many events; a thread that only sees single events never allocates it."""
        return new_batch(self._arrays)


class Tiles(Engine):
    """Tests what is filed under an event's keys, many conjunctions at a time."""

    arrays: TileArrays
    name: ClassVar[str] = "tiles"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = TileArrays
    check_arrays: ClassVar[Any] = staticmethod(check_tiles)
    kernel: ClassVar[Any] = staticmethod(match_rows)
    top_kernel: ClassVar[Any] = staticmethod(top_rows)

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        """File and lay out `rules`; `sample` helps to choose their keys."""
        return build(rules, sample)

    def _mask_of_all(self) -> NDArray[np.uint8]:
        return np.empty(0, np.uint8)

    def new_scratch(self) -> TilesScratch:
        """Allocate working memory for one thread."""
        return TilesScratch(self.rules, self.arrays)

    def run(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        out: NDArray[np.int32],
        counts: NDArray[np.int64],
        keep: bool = True,
    ) -> int:
        """See `Engine.run`."""
        assert isinstance(scratch, TilesScratch)
        if not keep and last - row >= _BATCH and self._counts_plainly(mask):
            done: int = count_rows(
                self.rules.atoms,
                self.arrays,
                scratch.workspace,
                scratch.batch,
                events,
                row,
                last,
                counts,
            )
            if done > row:
                return done
            last = row + 1
        return int(match_rows(row, last, keep, mask, out, counts, *scratch.fixed, *events))

    def _counts_plainly(self, mask: NDArray[np.uint8]) -> bool:
        """Whether each hit is one rule: no mask, shared conjunctions, programs or texts."""
        forms = self.rules.forms
        has_owners_or_programs = len(forms.owner) > 0 or len(forms.program_rule) > 0
        return len(mask) == 0 and not has_owners_or_programs and self.rules.texts.size == 0
