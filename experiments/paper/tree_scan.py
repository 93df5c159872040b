"""SCAN as the k-index paper has it: it walks the operator tree of every rule for every event.

Our own `scan` tests conjunctions that several rules share only once, and its rarest atoms first.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.truth import atom_holds, load_event, unload_event

__all__ = ["TreeScan"]


class TreeArrays(NamedTuple):
    """The operator tree of each rule, read so that an operator comes before its operands."""

    start: NDArray[np.int64]
    """Where the tree of each rule begins, and where that of the last one ends."""
    node: NDArray[np.int32]
    """An atom, or ~1 for an OR and ~0 for an AND."""
    end: NDArray[np.int64]
    """Where the next node that is not below this one begins."""


@kernel
def _turn_trees(start, code, place_of, node, end):
    """Write trees whose operators follow their operands (`ScoreArrays`) the other way round.

    The node at `place` has its last operand right before it, so reading from the end of a tree to
    its beginning meets every operator before its operands.
    """
    for rule in range(len(start) - 1):
        first, last = start[rule], start[rule + 1]
        for place in range(first, last):
            begin = place
            operands = (-code[place] - 1) >> 1 if code[place] < 0 else 0
            for _ in range(operands):
                begin = place_of[begin - 1]
            place_of[place] = begin
            turned = first + last - 1 - place
            node[turned] = code[place] if code[place] >= 0 else -1 - ((-code[place] - 1) & 1)
            end[turned] = first + last - begin


@kernel
def _tree_holds(table, codes, event_code, loaded, index, rule, ends, is_or):
    """Evaluate a tree: an operator ends as soon as an operand decides it."""
    span, text = loaded
    place = index.start[rule]
    depth = 0
    while True:
        if index.node[place] >= 0:
            holds = atom_holds(table, codes, event_code, span, text, index.node[place])
            place += 1
        elif index.end[place] == place + 1:
            # TRUE is an AND without operands, FALSE an OR.
            holds = index.node[place] == ~0
            place += 1
        else:
            ends[depth] = index.end[place]
            is_or[depth] = index.node[place] == ~1
            depth += 1
            place += 1
            continue
        # An operator has the truth of the operand that decides it, or else of its last one.
        while depth > 0 and (place == ends[depth - 1] or holds == is_or[depth - 1]):
            depth -= 1
            place = ends[depth]
        if depth == 0:
            return holds


@kernel
def _scan_trees(
    atoms, _forms, index, events, row, last, mask, loaded, ends, is_or, _seen, out, counts
):
    table, codes = atoms
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        for rule in range(len(mask)):
            if mask[rule] and _tree_holds(
                table, codes, events.code, loaded, index, rule, ends, is_or
            ):
                out[found] = rule
                found += 1
        unload_event(events, row, loaded)
        counts[row] = found - first
        row += 1
    return row


class TreeScan(Engine):
    """Evaluates the tree of every rule on every event."""

    name: ClassVar[str] = "scan-trees"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = TreeArrays
    kernel: ClassVar[Any] = staticmethod(_scan_trees)
    arrays: TreeArrays

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> TreeArrays:
        """Read the trees of all rules."""
        scores = expand_scores(rules.forms, rules.scores)
        size = len(scores.code)
        arrays = TreeArrays(
            scores.start.astype(np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
        )
        _turn_trees(arrays.start, scores.code, np.empty(size, np.int64), arrays.node, arrays.end)
        return arrays

    def new_scratch(self) -> Scratch:
        """Allocate room for the operators above a node."""
        deepest = int(np.diff(self.arrays.start).max(initial=0)) + 1
        return Scratch(self.rules, np.empty(deepest, np.int64), np.empty(deepest, np.bool_))
