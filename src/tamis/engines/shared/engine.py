"""SHARED: a byte of truth for each atom, and conjunctions sorted by their atoms.

Where rules draw on few distinct predicates, as advertisers' contracts do, an event decides all of
them at once: its values change bytes of truth, by lists of atoms (`changes.py`). The conjunctions
are sorted by their atoms, rarest first, so that all with the same first atom are a group, and all
with the same second atom as well a run. A group is reached only if its first atom holds, and a run
is skipped by looking at one byte. What holds marks its rules in a bit set; a conjunction that
several rules share is tested once. A program is marked where a pair of its atoms holds, without
which it cannot hold, and is run on the bytes of truth when the marks are read.

Rules keep their order, so the marks yield them in the order in which they were added, unsorted.
docs/decisions/0020 has the measurements.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Choices, Events
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Best, Engine, Parts, Scratch
from tamis.engines.kernels.address_block import AddressBlock
from tamis.engines.kernels.event_expressions import MAYBE, YES, ExpressionMatches
from tamis.engines.shared.arrays import SharedArrays, new_workspace
from tamis.engines.shared.bounds import (
    RankedIndex,
    Weights,
    bound_weights,
    index_absorbed,
    index_own,
)
from tamis.engines.shared.build import build
from tamis.engines.shared.check import check_shared
from tamis.engines.shared.expressions import (
    ExpressionRoom,
    match_choices,
    new_expression_room,
)
from tamis.engines.shared.match import match_rows
from tamis.engines.shared.top import new_top_block, new_top_workspace, top_rows
from tamis.forks import computed_once

__all__ = ["Shared", "shares_atoms"]

_USES = 8
"""How often each atom is used, on average, in rules that this engine is built for."""

_LEAST = 1_000
"""The fewest conjunctions and programs that it is built for; any engine finds fewer at once."""


def shares_atoms(rules: EncodedRules) -> bool:
    """Whether rules share so many atoms that this engine finds them faster than `tiles`."""
    forms = rules.forms
    size = len(forms.conjunction_start) - 1 + len(forms.program_rule)
    if size < _LEAST or len(forms.owner) + len(forms.program_rule) == 0:
        return False
    uses = len(forms.conjunction_atom) + len(forms.program)
    return uses >= _USES * len(rules.atoms.table)


class SharedScratch(Scratch):
    """The working memory of one thread."""

    def __init__(self, rules: EncodedRules, arrays: SharedArrays) -> None:
        super().__init__(rules)
        workspace = new_workspace(arrays)
        self.fixed = (*rules.atoms, *rules.forms, *arrays, *workspace)
        """What `match_rows` takes on every call, array by array."""
        self.top: AddressBlock | None = None
        """What `top_rows` takes on every call; made for the first search for the best."""
        self._rules = rules

    @computed_once
    def expressions(self) -> tuple[ExpressionRoom, NDArray[np.uint8]]:
        """Room to match event expressions, and for the verdicts on what is found."""
        return new_expression_room(self._rules), np.empty(self._rules.size, np.uint8)


class Shared(Engine):
    """Tests all atoms first, then conjunctions by runs that share two atoms."""

    arrays: SharedArrays
    name: ClassVar[str] = "shared"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = SharedArrays
    check_arrays: ClassVar[Any] = staticmethod(check_shared)
    kernel: ClassVar[Any] = staticmethod(match_rows)

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        """Sort the conjunctions of `rules`; `sample` helps to tell which atoms are rare."""
        return build(rules, sample)

    def _mask_of_all(self) -> NDArray[np.uint8]:
        return np.empty(0, np.uint8)

    def new_scratch(self) -> SharedScratch:
        """Allocate working memory for one thread."""
        return SharedScratch(self.rules, self.arrays)

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
        assert isinstance(scratch, SharedScratch)
        size = self.rules.size
        return int(match_rows(row, last, size, keep, mask, out, counts, *scratch.fixed, *events))

    def _sort_rows(self, start: NDArray[np.int64], rules: NDArray[np.int32]) -> None:
        """See `Engine._sort_rows`. Marks are read in the order of ages, so nothing is to do."""

    def match_expression(
        self, choices: Choices, mask: NDArray[np.uint8] | None = None
    ) -> ExpressionMatches:
        """See `Engine.match_expression`. Tests only what possible atoms lead to."""
        scratch, rules = self._scratch(), self.rules
        assert isinstance(scratch, SharedScratch)
        room, verdicts = scratch.expressions
        chosen = self.all_rules if mask is None else mask
        found = match_choices(
            rules.atoms, rules.forms, self.arrays, choices, chosen, room, verdicts
        )
        listed, verdicts = room.found[:found], verdicts[:found]
        return ExpressionMatches(np.sort(listed[verdicts == YES]), listed[verdicts == MAYBE])

    @computed_once
    def _ranked(self) -> tuple[Weights, RankedIndex, RankedIndex]:
        """What bounds scores; computed for the first search for the best."""
        weights = bound_weights(self.rules, self.arrays)
        absorbed, sums = index_absorbed(self.rules, weights)
        return weights, index_own(self.rules, self.arrays, weights, sums), absorbed

    def _rank(
        self, events: Events, row: int, last: int, mask: NDArray[np.uint8], best: Best
    ) -> None:
        """See `Engine._rank`."""
        if not best.rule.shape[1]:
            return
        scratch = self._scratch()
        assert isinstance(scratch, SharedScratch)
        if scratch.top is None:
            workspace = new_top_workspace(self.rules, self.arrays)
            scratch.top = new_top_block(self.rules, self.arrays, *self._ranked, workspace)
        top_rows(scratch.top.block, events, row, last, mask, *best)
