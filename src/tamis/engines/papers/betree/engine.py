"""BETREE: the tree of `tamis.engines.betree` as an engine, built by insertions.

After "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions over High-dimensional
Discrete Space". A conjunction is an expression of the tree.

Where we differ: a rule too large for a DNF is in the tree once for each atom of its cover, and is
evaluated when one of them is found. A conjunction that needs no attribute stays at the root and is
tested on every event. The l-nodes hold the predicates themselves, so that a search reads no other
array of the rules; a tree that does not change any more packs them (`leaves.py`).

`betree-batch` knows all expressions in advance (the paper's BE-B); see `statistics.py`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, Events
from tamis.encode.kernel import kernel
from tamis.encode.ragged import concatenate_lists, empty_lists, list_numbers, starts, take_lists
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import order_atoms
from tamis.engines.base import Engine, Parts, Scratch
from tamis.engines.betree.arrays import NOWHERE, Nodes
from tamis.engines.betree.search import begin_search, end_search, new_search_state
from tamis.engines.betree.tree import MIN_PARTITION, BeTree
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.papers.betree.leaves import Leaves, pack_leaves, search_leaves
from tamis.engines.papers.betree.statistics import rarest_attributes

__all__ = ["Betree", "BetreeBatch"]


class BetreeArrays(NamedTuple):
    """The tree. Its expressions are the conjunctions, followed by the atoms of covers."""

    nodes: Nodes
    """Without the words of l-nodes."""
    leaves: Leaves
    program: NDArray[np.int32]
    """The program of each expression after the conjunctions."""


@kernel
def _match(atoms, forms, index, events, row, last, mask, _, state, tried, seen, out, counts):
    conjunctions = len(forms.conjunction_start) - 1
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        present = begin_search(events, row, state)
        for i in range(search_leaves(index.nodes, index.leaves, events, state, present)):
            expression = state.hits[i]
            if expression < conjunctions:
                found = emit_owners(
                    forms.owner_start, forms.owner, expression, mask, seen, out, found
                )
                continue
            program = index.program[expression - conjunctions]
            if not tried[program]:
                tried[program] = 1
                found = emit_program(atoms, forms, events, state.loaded, program, mask, out, found)
        end_search(events, row, state)
        clear_seen(out, first, found, seen)
        tried[:] = 0
        counts[row] = found - first
        row += 1
    return row


class Betree(Engine):
    """Splits the space of events in two phases, by attribute and by value."""

    arrays: BetreeArrays
    name: ClassVar[str] = "betree"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = BetreeArrays
    kernel: ClassVar[Any] = staticmethod(_match)

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        """Insert the conjunctions of `rules`, and adapt the tree to `sample`."""
        expressions = _list_expressions(rules)
        tree = BeTree(np.diff(rules.dictionary.base), rules.texts.size)
        cls._fill(tree, rules, expressions)
        if sample is not None:
            tree.observe(sample)
        nodes = tree.compact_nodes()
        leaves = pack_leaves(nodes)
        arrays = BetreeArrays(nodes._replace(word=NO_INT32), leaves, expressions.program)
        return Parts(rules, np.arange(rules.size, dtype=np.int32), arrays)

    @staticmethod
    def _fill(tree: BeTree, rules: EncodedRules, expressions: _Expressions) -> None:
        """Insert the expressions one after the other."""
        start, atom, _ = expressions
        tree.insert_many(np.arange(len(start) - 1), rules.atoms, start, atom)

    def new_scratch(self) -> Scratch:
        """Allocate a search state, and a mark for each program that was tried."""
        rules, arrays = self.rules, self.arrays
        expressions = len(rules.forms.conjunction_start) - 1 + len(arrays.program)
        attributes, texts = len(rules.dictionary.axes), rules.texts.size
        state = new_search_state(arrays.nodes, attributes, texts, expressions)
        return Scratch(rules, state, np.zeros(len(rules.forms.program_rule), np.uint8))


class BetreeBatch(Betree):
    """The same tree with a root that is partitioned by statistics of all expressions."""

    name: ClassVar[str] = "betree-batch"

    @staticmethod
    def _fill(tree: BeTree, rules: EncodedRules, expressions: _Expressions) -> None:
        start, atom, _ = expressions
        preferred = rarest_attributes(rules.atoms, start, atom, MIN_PARTITION)
        # Expressions without a preferred attribute come last, so that they find all partitions.
        order = np.argsort(preferred == NOWHERE, kind="stable")
        tree.insert_many(order, rules.atoms, *take_lists(start, atom, order), preferred[order])


class _Expressions(NamedTuple):
    """The expressions of the tree."""

    start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each expression, the least likely first."""
    program: NDArray[np.int32]
    """See `BetreeArrays.program`."""


def _list_expressions(rules: EncodedRules) -> _Expressions:
    """Each conjunction, then each atom of a cover, then an empty one for programs without cover."""
    forms = rules.forms
    program, uncovered = list_numbers(forms.cover_start), empty_lists(forms.cover_start)
    sizes = np.concatenate((np.ones(len(program), np.int64), np.zeros(len(uncovered), np.int64)))
    start, atom = concatenate_lists(
        [
            (forms.conjunction_start, order_atoms(rules)),
            (starts(sizes), forms.cover_atom),
        ]
    )
    return _Expressions(start, atom, np.concatenate((program, uncovered)).astype(np.int32))
