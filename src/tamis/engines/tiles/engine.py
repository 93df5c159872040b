"""TILES: access keys over flat groups and bit tiles, the default engine.

Each conjunction is filed under the key that events satisfy least often (`keys.py`), and an event
looks only into the groups of its own keys (`groups.py`). A group's conjunctions over few attributes
stand in tiles, where up to 256 of them are tested at once by an AND of rows of bits (`layout.py`,
`columns.py`, `holds.py`); the others are flat, with a signature of the attributes they need and
their atoms in one place (`packed.py`). A rule too large for a DNF is evaluated when an atom of its
cover is satisfied. docs/decisions/0007 says what was measured.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Capabilities, Engine, Parts, Scratch
from tamis.engines.tiles.arrays import TileArrays
from tamis.engines.tiles.build import build
from tamis.engines.tiles.count import Batch, count_rows, new_batch
from tamis.engines.tiles.match import match_rows
from tamis.engines.tiles.top import top_rows
from tamis.engines.tiles.workspace import new_workspace

__all__ = ["Tiles"]

_BATCH = 64
"""From how many events on the groups are walked once to count the matches of all of them."""


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
    """Tests what is filed under an event's keys, many conjunctions at once."""

    arrays: TileArrays
    name: ClassVar[str] = "tiles"
    capabilities: ClassVar[Capabilities] = Capabilities(prunes_top=True)
    arrays_type: ClassVar[type[tuple[Any, ...]]] = TileArrays
    kernel: ClassVar[Any] = staticmethod(match_rows)
    top_kernel: ClassVar[Any] = staticmethod(top_rows)

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        """File and lay out `rules`, by what `sample` says about events if it is given."""
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
        """Whether what is found just has to be counted, and each thing is found once."""
        forms = self.rules.forms
        has_owners_or_programs = len(forms.owner) > 0 or len(forms.program_rule) > 0
        return len(mask) == 0 and not has_owners_or_programs and self.rules.texts.size == 0
