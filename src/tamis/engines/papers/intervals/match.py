"""The kernels: values search the trees of their attributes, and the results are ANDed.

A conjunction remains if every tree with one of its intervals finds it for a value of the event.
Then its atoms that are in no tree are verified. Rules too large for a DNF are evaluated on every
event.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.engines.kernels.bits import ALL_BITS, ONE, lowest_bit
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.kernels.truth import atom_holds, load_event, unload_event
from tamis.engines.papers.intervals.arrays import LISTED, PASS

__all__ = ["Candidates", "match", "search"]


class Candidates(NamedTuple):
    """Two bit vectors of all conjunctions. Belongs to one thread."""

    alive: NDArray[np.uint64]
    """The conjunctions that no tree has ruled out."""
    reached: NDArray[np.uint64]
    """The conjunctions that the current tree has found; empty between trees."""


@kernel
def _take_vector(vector, node, reached):
    for k in range(vector.start[node], vector.start[node + 1]):
        reached[vector.place[k]] |= vector.word[k]


@kernel
def _take_listed(trees, node, code, key, reached):
    """Take the listed intervals that contain `code`: all of them if it is the key."""
    for k in range(trees.list_start[node], trees.list_start[node + 1]):
        if code <= key:
            if trees.rising[k, 1] > code:
                break
            conjunction = trees.rising[k, 0]
        else:
            if trees.falling[k, 1] < code:
                break
            conjunction = trees.falling[k, 0]
        reached[conjunction >> 6] |= ONE << np.uint64(conjunction & 63)


@kernel
def search(trees, attribute, code, reached):
    """Add the conjunctions that the tree of `attribute` has for `code` to `reached`."""
    node = trees.root[attribute]
    while node >= 0:
        kind, low, high = trees.node[node, 0], trees.node[node, 1], trees.node[node, 2]
        is_within = low <= code <= high
        if kind == LISTED:
            _take_listed(trees, node, code, low, reached)
        elif kind == PASS or is_within:
            _take_vector(trees.vector, node, reached)
        if kind != PASS and is_within:
            break
        node = np.int64(trees.node[node, 3 if code < low else 4])


@kernel
def _narrow(index, events, loaded, candidates):
    """Rule out the conjunctions with an interval that no value of the event is in."""
    alive, reached = candidates
    mention = index.mention
    for attribute in range(len(mention.start) - 1):
        if mention.start[attribute] == mention.start[attribute + 1]:
            continue
        for i in range(loaded.span[attribute, 0], loaded.span[attribute, 1]):
            search(index.trees, attribute, events.code[i], reached)
        for k in range(mention.start[attribute], mention.start[attribute + 1]):
            place = mention.place[k]
            alive[place] &= reached[place] | ~mention.word[k]
            reached[place] = 0


@kernel
def _is_verified(atoms, index, events, loaded, conjunction):
    """Whether the atoms of a conjunction hold that are in no tree."""
    table, codes = atoms
    span, text = loaded
    holds = True
    for i in range(index.test_start[conjunction], index.test_start[conjunction + 1]):
        if not atom_holds(table, codes, events.code, span, text, index.test_atom[i]):
            holds = False
            if not index.to_the_end:
                break
    return holds


@kernel
def match(atoms, forms, index, events, row, last, mask, loaded, candidates, seen, out, counts):
    """See `Engine.kernel`."""
    alive = candidates.alive
    conjunctions = len(forms.conjunction_start) - 1
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        alive[:] = ALL_BITS
        if conjunctions & 63:
            alive[-1] = (ONE << np.uint64(conjunctions & 63)) - ONE
        _narrow(index, events, loaded, candidates)
        for place in range(len(alive)):
            rest = alive[place]
            while rest:
                conjunction = 64 * place + np.int64(lowest_bit(rest))
                rest &= rest - ONE
                if _is_verified(atoms, index, events, loaded, conjunction):
                    found = emit_owners(
                        forms.owner_start, forms.owner, conjunction, mask, seen, out, found
                    )
        for program in range(len(forms.program_rule)):
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        counts[row] = found - first
        row += 1
    return row
