"""SIFT: the counting algorithm of section 7 of "Indexing Boolean Expressions".

Every atom lists the conjunctions it belongs to. An event's values lead to the atoms they satisfy,
and each of those adds one to the counters of its conjunctions, or takes one away if it stands there
negated. A conjunction whose counter reaches the number of atoms that need their attribute holds.

Where we differ: a counter is one byte. A range is not enumerated but filed under the O(log n) nodes
of a segment tree over its attribute's codes, and a value visits the nodes above its own code. A
negated atom of the strong logic counts too, through the list of its attribute, because it needs the
attribute to be present. A rule too large for a DNF is evaluated when an atom of its cover is
satisfied.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, Events
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Capabilities, Engine, Scratch
from tamis.engines.output import close_row, emit_owners
from tamis.engines.truth import load, program_holds, unload

__all__ = ["Sift"]

_BLOCK = 64
"""How many counters are compared before any is looked at by itself."""


class SiftArrays(NamedTuple):
    """The inverted lists."""

    needed: NDArray[np.uint8]
    """For each conjunction, how many of its atoms need their attribute to be present."""
    node_base: NDArray[np.int64]
    """For each attribute, where the nodes of its tree begin; leaf of code c is size + c."""
    axis_size: NDArray[np.int64]
    node_start: NDArray[np.int64]
    node_atom: NDArray[np.int32]
    """The atoms that each tree node satisfies, whether they are negated or not."""
    text_start: NDArray[np.int64]
    text_atom: NDArray[np.int32]
    """The atoms of each text predicate."""
    posting_start: NDArray[np.int64]
    posting: NDArray[np.int32]
    """The conjunctions of each atom."""
    step: NDArray[np.uint8]
    """What each atom adds to their counters: 1, or -1 if it is negated."""
    present_start: NDArray[np.int64]
    present: NDArray[np.int32]
    """For each attribute, a conjunction for each negated atom that needs it to be present."""
    covered_start: NDArray[np.int64]
    covered: NDArray[np.int32]
    """The programs that each atom covers."""
    uncovered: NDArray[np.int32]
    """The programs that nothing covers, which are evaluated on every event."""


class SiftScratch(Scratch):
    """Counters, and marks for what was visited for the event."""

    def __init__(self, rules: EncodedRules) -> None:
        super().__init__(rules)
        conjunctions = len(rules.forms.conjunction_start) - 1
        self.marks = _Marks(
            np.zeros(conjunctions, np.uint8),
            np.zeros(len(rules.atoms.table), np.uint8),
            np.empty(len(rules.atoms.table), np.int32),
            np.zeros(len(rules.forms.program_rule), np.uint8),
            np.empty(len(rules.forms.program_rule), np.int32),
        )


class _Marks(NamedTuple):
    counter: NDArray[np.uint8]
    visited: NDArray[np.uint8]
    """A mark for each atom that a value or text predicate of a multi-valued event led to."""
    visited_list: NDArray[np.int32]
    chosen: NDArray[np.uint8]
    """A mark for each program to evaluate."""
    chosen_list: NDArray[np.int32]


@kernel
def _tree_postings(atoms, axis_size, node_base, start, items, fill):
    """Count, or with `fill` write, the atoms filed under each tree node.

    A run of codes is filed under the highest nodes that lie within it, a list of codes under its
    leaves. To fill, `start` holds where each node's list begins, and moves to where it ends.
    """
    table, codes = atoms
    for atom in range(len(table)):
        size = axis_size[table[atom, 0]]
        base = node_base[table[atom, 0]]
        test = table[atom, 1] & 3
        if test == SET:
            for i in range(table[atom, 2], table[atom, 3]):
                node = base + size + codes[i]
                if fill:
                    items[start[node]] = atom
                start[node] += 1
        elif test == RANGE:
            low = size + table[atom, 2]
            high = size + table[atom, 3] + 1
            while low < high:
                if low & 1:
                    if fill:
                        items[start[base + low]] = atom
                    start[base + low] += 1
                    low += 1
                if high & 1:
                    high -= 1
                    if fill:
                        items[start[base + high]] = atom
                    start[base + high] += 1
                low >>= 1
                high >>= 1


@kernel
def _count(posting_start, posting, step, counter, atom):
    """Add an atom's `step` to the counters of its conjunctions."""
    by = step[atom]
    for i in range(posting_start[atom], posting_start[atom + 1]):
        counter[posting[i]] += by


@kernel
def _choose(covered_start, covered, chosen, chosen_list, size, atom):
    """Choose the programs that an atom covers; returns how many are chosen by now."""
    for i in range(covered_start[atom], covered_start[atom + 1]):
        program = covered[i]
        if not chosen[program]:
            chosen[program] = 1
            chosen_list[size] = program
            size += 1
    return size


@kernel
def _count_event(index, events, row, loaded, marks):
    """Visit all atoms that the event satisfies; returns how many programs were chosen.

    Two values of an attribute may lead to one atom, which then counts once.
    """
    attributes, event_code, span = events.attribute, events.code, loaded.span
    texts, text_start, text_atom = events.text, index.text_start, index.text_atom
    axis_size, node_base = index.axis_size, index.node_base
    node_start, node_atom = index.node_start, index.node_atom
    posting_start, posting, step = index.posting_start, index.posting, index.step
    present_start, present = index.present_start, index.present
    covered_start, covered = index.covered_start, index.covered
    counter, visited, visited_list, chosen, chosen_list = marks
    choices = 0
    visits = 0
    for i in range(events.start[row], events.start[row + 1]):
        attribute = attributes[i]
        if span[attribute, 0] == i:
            for k in range(present_start[attribute], present_start[attribute + 1]):
                counter[present[k]] += np.uint8(1)
        several = span[attribute, 1] - span[attribute, 0] > 1
        node = axis_size[attribute] + event_code[i]
        while node > 0:
            at = node_base[attribute] + node
            for k in range(node_start[at], node_start[at + 1]):
                atom = node_atom[k]
                if several:
                    if visited[atom]:
                        continue
                    visited[atom] = 1
                    visited_list[visits] = atom
                    visits += 1
                _count(posting_start, posting, step, counter, atom)
                choices = _choose(covered_start, covered, chosen, chosen_list, choices, atom)
            node >>= 1
    for i in range(events.text_start[row], events.text_start[row + 1]):
        for k in range(text_start[texts[i]], text_start[texts[i] + 1]):
            atom = text_atom[k]
            if not visited[atom]:
                visited[atom] = 1
                visited_list[visits] = atom
                visits += 1
                _count(posting_start, posting, step, counter, atom)
                choices = _choose(covered_start, covered, chosen, chosen_list, choices, atom)
    for i in range(visits):
        visited[visited_list[i]] = 0
    return choices


@kernel
def _sweep(owner_start, owner, needed, counter, mask, seen, out, found):
    """Emit the conjunctions whose counters reached what they need, and clear all counters."""
    size = len(counter)
    for block in range(0, size, _BLOCK):
        stop = min(block + _BLOCK, size)
        hits = np.uint8(0)
        for i in range(block, stop):
            hits |= np.uint8(counter[i] == needed[i])
        if hits:
            for i in range(block, stop):
                if counter[i] == needed[i]:
                    found = emit_owners(owner_start, owner, i, mask, seen, out, found)
    counter[:] = 0
    return found


@kernel
def _sift(atoms, forms, index, events, row, last, mask, loaded, marks, seen, out, counts):
    table, codes = atoms
    span, text = loaded
    chosen, chosen_list, uncovered = marks.chosen, marks.chosen_list, index.uncovered
    owner_start, owner = forms.owner_start, forms.owner
    program_start, program_rule = forms.program_start, forms.program_rule
    instructions, event_code = forms.program, events.code
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load(events, row, loaded)
        choices = _count_event(index, events, row, loaded, marks)
        found = _sweep(owner_start, owner, index.needed, marks.counter, mask, seen, out, found)
        for i in range(choices + len(uncovered)):
            if i < choices:
                program = chosen_list[i]
                chosen[program] = 0
            else:
                program = uncovered[i - choices]
            if mask[program_rule[program]] and program_holds(
                table, codes, event_code, span, text, instructions, program_start[program]
            ):
                out[found] = program_rule[program]
                found += 1
        unload(events, row, loaded)
        close_row(out, first, found, seen)
        counts[row] = found - first
        row += 1
    return row


class Sift(Engine):
    """Counts satisfied atoms for each conjunction."""

    name: ClassVar[str] = "sift"
    capabilities: ClassVar[Capabilities] = Capabilities(indexed=True)

    def __init__(self, rules: EncodedRules) -> None:
        super().__init__(rules)
        self._index = _build(rules)

    def _arrays(self) -> tuple[tuple[NDArray[np.generic], ...], ...]:
        return (self._index,)

    def new_scratch(self) -> SiftScratch:
        """Counters for one thread."""
        return SiftScratch(self.rules)

    def run(
        self,
        events: Events,
        row: int,
        last: int,
        mask: NDArray[np.uint8],
        scratch: Scratch,
        out: NDArray[np.int32],
        counts: NDArray[np.int64],
    ) -> int:
        """Match a range of events; see `Engine.run`."""
        assert isinstance(scratch, SiftScratch)
        return int(
            _sift(
                self.rules.atoms,
                self.rules.forms,
                self._index,
                events,
                row,
                last,
                mask,
                scratch.loaded,
                scratch.marks,
                scratch.seen,
                out,
                counts,
            )
        )


def _build(rules: EncodedRules) -> SiftArrays:
    atoms, forms = rules.atoms, rules.forms
    axis_size = np.array([axis.size for axis in rules.dictionary.axes], np.int64)
    node_base = 2 * rules.dictionary.base
    conjunction = np.repeat(
        np.arange(len(forms.conjunction_start) - 1), np.diff(forms.conjunction_start)
    )
    flags = atoms.flags[forms.conjunction_atom]
    needs = (flags & IF_ABSENT) == 0
    strong = needs & ((flags & NEGATED) != 0)
    is_text = np.flatnonzero(atoms.test == TEXT)
    program = np.repeat(np.arange(len(forms.program_rule)), np.diff(forms.cover_start))
    return SiftArrays(
        np.bincount(conjunction[needs], minlength=len(forms.owner_start) - 1).astype(np.uint8),
        node_base,
        axis_size,
        *_tree_lists(rules, axis_size, node_base),
        *_lists(atoms.low[is_text], is_text, rules.texts.size),
        *_lists(forms.conjunction_atom, conjunction, len(atoms.table)),
        np.where(atoms.flags & NEGATED, 255, 1).astype(np.uint8),
        *_lists(
            atoms.attribute[forms.conjunction_atom[strong]], conjunction[strong], len(axis_size)
        ),
        *_lists(forms.cover_atom, program, len(atoms.table)),
        np.flatnonzero(np.diff(forms.cover_start) == 0).astype(np.int32),
    )


def _tree_lists(
    rules: EncodedRules, axis_size: NDArray[np.int64], node_base: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    ends = np.zeros(node_base[-1] + 1, np.int64)
    _tree_postings(rules.atoms, axis_size, node_base, ends, np.empty(0, np.int32), False)
    start = np.concatenate(([0], np.cumsum(ends[:-1])))
    items = np.empty(start[-1], np.int32)
    _tree_postings(rules.atoms, axis_size, node_base, start.copy(), items, True)
    return start, items


def _lists(
    keys: NDArray[np.integer], items: NDArray[np.integer], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The items of each of `size` keys, as a start array and a flat one."""
    order = np.argsort(keys, kind="stable")
    start = np.searchsorted(keys[order], np.arange(size + 1)).astype(np.int64)
    return start, items[order].astype(np.int32)
