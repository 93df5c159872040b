"""PSCAN: evaluates every rule in CNF that stands in a posting list of the event.

The rival of the CNF algorithm in section 7 of "Indexing Boolean Expressions": SCAN, improved by
inverted lists. It reads the lists of `kindex-cnf` from end to end, in any order, and evaluates each
rule when it first meets it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tamis.encode.kernel import kernel
from tamis.engines.kernels.scores import score_rule
from tamis.engines.kernels.truth import load_event, unload_event
from tamis.engines.papers.kindex.cnf import CnfEngine, CnfScratch, clauses_hold
from tamis.engines.papers.kindex.postings import LOOSE
from tamis.engines.papers.kindex.walk import choose_lists, new_cursors

__all__ = ["PScan"]


@kernel
def _pscan(
    rules, index, events, row, last, mask, loaded, cursors, met, met_list, stack, out, counts
):
    """See `Engine.kernel`; `rules` are their atoms, forms and scores."""
    atoms, forms, scores = rules
    postings = index.postings
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        marks = 0
        load_event(events, row, loaded)
        choose_lists(postings, events, row, loaded, cursors)
        for i in range(cursors.start[len(cursors.start) - 1]):
            number = cursors.chosen[i]
            is_loose = postings.traits[postings.partition[number]] & LOOSE
            for k in range(postings.entry_start[number], postings.entry_start[number + 1]):
                rule = np.int64(postings.entry[k] >> 1)
                if met[rule]:
                    continue
                met[rule] = 1
                met_list[marks] = rule
                marks += 1
                if not mask[rule] or not clauses_hold(atoms, index, events, loaded, rule):
                    continue
                if is_loose and (
                    score_rule(atoms, forms, scores, events, loaded, row, rule, stack) < 0
                ):
                    continue
                out[found] = rule
                found += 1
        for i in range(marks):
            met[met_list[i]] = 0
        unload_event(events, row, loaded)
        counts[row] = found - first
        row += 1
    return row


class PScan(CnfEngine):
    """Evaluates the rules in the lists of an event's keys."""

    name: ClassVar[str] = "pscan"
    kernel: ClassVar[Any] = staticmethod(_pscan)

    def new_scratch(self) -> CnfScratch:
        """Allocate list cursors, and a mark for each rule that was met with the list of marks."""
        size = self.rules.size
        met, met_list = np.zeros(size, np.uint8), np.empty(size, np.int32)
        return CnfScratch(self.rules, new_cursors(self.arrays.postings), met, met_list)
