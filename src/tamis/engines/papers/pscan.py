"""PSCAN: evaluate every rule in CNF that stands in a posting list of the event.

The rival of the CNF algorithm in section 7 of "Indexing Boolean Expressions": SCAN, improved by the
inverted lists. It reads the same lists as `kindex-cnf`, all of them whole and in any order, and
counts nothing: a rule is evaluated when it is met for the first time.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Capabilities, Scratch
from tamis.engines.kernels.scores import rule_score
from tamis.engines.kernels.truth import load, unload
from tamis.engines.papers.kindex.cnf import CnfArrays, CnfEngine, clauses_hold
from tamis.engines.papers.kindex.postings import LOOSE
from tamis.engines.papers.kindex.walk import gather, new_desk

__all__ = ["PScan"]


class PScanScratch(Scratch):
    """The lists of an event, and marks for the rules that were met in them."""

    def __init__(self, rules: EncodedRules, arrays: CnfArrays) -> None:
        super().__init__(rules)
        met, met_list = np.zeros(rules.size, np.uint8), np.empty(rules.size, np.int32)
        stack = np.empty(rules.scores.depth, np.float64)
        self.own = (new_desk(arrays.postings), met, met_list, stack)


@kernel
def _pscan(rules, index, events, row, last, mask, loaded, desk, met, met_list, stack, out, counts):
    """As `Engine.run`; `rules` are their atoms, forms and scores."""
    atoms, forms, scores = rules
    postings = index.postings
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        marks = 0
        load(events, row, loaded)
        gather(postings, events, row, loaded, desk)
        for i in range(desk.start[len(desk.start) - 1]):
            number = desk.chosen[i]
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
                    rule_score(atoms, forms, scores, events, loaded, row, rule, stack) < 0
                ):
                    continue
                out[found] = rule
                found += 1
        for i in range(marks):
            met[met_list[i]] = 0
        unload(events, row, loaded)
        counts[row] = found - first
        row += 1
    return row


class PScan(CnfEngine):
    """Evaluates the rules in the lists of an event's keys."""

    name: ClassVar[str] = "pscan"
    capabilities: ClassVar[Capabilities] = Capabilities(indexed=True)

    def new_scratch(self) -> PScanScratch:
        """Working memory for one thread."""
        return PScanScratch(self.rules, self.arrays)

    @property
    def kernel(self) -> Any:
        """See `CnfEngine.run`."""
        return _pscan
