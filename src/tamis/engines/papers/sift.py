"""SIFT: the counting algorithm of section 7 of "Indexing Boolean Expressions".

Every atom lists the conjunctions it belongs to. An event's values lead to the atoms they satisfy.
Each of these adds 1 to the counters of its conjunctions, or subtracts 1 if it is negated there. A
conjunction holds if its counter reaches the number of its atoms that need their attribute.

Where we differ: a counter is one byte. A range is not enumerated but filed under O(log n) nodes of
a segment tree over its attribute's codes, and a value visits the nodes above its own code. A
negated atom of the strong logic counts too, through the list of its attribute, because it needs the
attribute to be present. A rule too large for a DNF is evaluated when an atom of its cover holds.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, NO_INT32, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.ragged import Lists, empty_lists, list_numbers
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.bits import BYTE, EIGHT
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.kernels.truth import load_event, unload_event
from tamis.engines.papers.code_trees import Trees, file_under_nodes, group_by_key

__all__ = ["Sift"]

_LOWEST_BITS = np.uint64(0x0101010101010101)
_HIGHEST_BITS = np.uint64(0x8080808080808080)


class SiftArrays(NamedTuple):
    """The inverted lists."""

    needed: NDArray[np.uint64]
    """A byte for each conjunction: how many of its atoms need their attribute to be present. Padded
    to whole words with a number that no counter reaches."""
    node_base: NDArray[np.int64]
    axis_size: NDArray[np.int64]
    """The trees over the codes of each attribute; see `tamis.engines.papers.code_trees`."""
    node_start: NDArray[np.int64]
    node_atom: NDArray[np.int32]
    """The atoms whose positive form each tree node satisfies; negated ones as ~atom."""
    direct_start: NDArray[np.int64]
    direct: NDArray[np.int32]
    """The conjunctions of the atoms of each tree node, as ~conjunction if the atom is negated: what
    the value of a single-valued attribute counts, in one place."""
    text_start: NDArray[np.int64]
    text_atom: NDArray[np.int32]
    """The atoms of each text predicate; negated ones as ~atom."""
    posting_start: NDArray[np.int64]
    posting: NDArray[np.int32]
    """The conjunctions of each atom."""
    present_start: NDArray[np.int64]
    present: NDArray[np.int32]
    """For each attribute, the conjunction of each negated atom that needs it to be present."""
    covered_start: NDArray[np.int64]
    covered: NDArray[np.int32]
    """The programs that each atom covers."""
    uncovered: NDArray[np.int32]
    """The programs without a cover, which are evaluated on every event."""


class _Marks(NamedTuple):
    """Counters, and marks for what the event led to."""

    counter: NDArray[np.uint8]
    words: NDArray[np.uint64]
    """The counters, eight at a time."""
    visited: NDArray[np.uint8]
    """1 for each atom that a value or text predicate led to, where two may lead to it."""
    visited_list: NDArray[np.int32]
    chosen: NDArray[np.uint8]
    """1 for each program to evaluate."""
    chosen_list: NDArray[np.int32]


def _new_marks(rules: EncodedRules) -> _Marks:
    words = np.zeros(_words(len(rules.forms.conjunction_start) - 1), np.uint64)
    return _Marks(
        words.view(np.uint8),
        words,
        np.zeros(len(rules.atoms.table), np.uint8),
        np.empty(len(rules.atoms.table), np.int32),
        np.zeros(len(rules.forms.program_rule), np.uint8),
        np.empty(len(rules.forms.program_rule), np.int32),
    )


@kernel
def _write_direct(node_start, node_atom, posting_start, posting, direct_start, direct, fill):
    """Count the conjunctions of the atoms of each tree node, or with `fill` write them."""
    size = 0
    for node in range(len(node_start) - 1):
        direct_start[node] = size
        for k in range(node_start[node], node_start[node + 1]):
            signed = node_atom[k]
            atom = signed if signed >= 0 else ~signed
            for i in range(posting_start[atom], posting_start[atom + 1]):
                if fill:
                    direct[size] = posting[i] if signed >= 0 else ~posting[i]
                size += 1
    direct_start[len(node_start) - 1] = size


@kernel
def _count_node(direct_start, direct, counter, node):
    """Count all atoms that a value satisfies at a tree node."""
    for k in range(direct_start[node], direct_start[node + 1]):
        conjunction = direct[k]
        if conjunction >= 0:
            counter[conjunction] += np.uint8(1)
        else:
            counter[~conjunction] -= np.uint8(1)


@kernel
def _count_atom(posting_start, posting, counter, signed):
    """Count one satisfied atom."""
    atom = signed if signed >= 0 else ~signed
    step = np.uint8(1) if signed >= 0 else np.uint8(255)
    for i in range(posting_start[atom], posting_start[atom + 1]):
        counter[posting[i]] += step


@kernel
def _choose(index, marks, signed, choices):
    """Choose the programs that a satisfied atom covers; returns how many are chosen now."""
    if signed < 0:
        return choices
    for i in range(index.covered_start[signed], index.covered_start[signed + 1]):
        program = index.covered[i]
        if not marks.chosen[program]:
            marks.chosen[program] = 1
            marks.chosen_list[choices] = program
            choices += 1
    return choices


@kernel
def _is_new(marks, signed_atom, visits):
    """Mark an atom as visited; False if it was visited before."""
    atom = signed_atom if signed_atom >= 0 else ~signed_atom
    if marks.visited[atom]:
        return False
    marks.visited[atom] = 1
    marks.visited_list[visits] = atom
    return True


@kernel
def _count_event(index, events, row, loaded, marks):
    """Count all atoms that the event satisfies; returns how many programs were chosen.

    Two values of an attribute may lead to the same atom, which then counts once.
    """
    span, node_atom, counter = loaded.span, index.node_atom, marks.counter
    has_programs = len(index.covered) > 0
    choices = 0
    visits = 0
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        if span[attribute, 0] == i:
            for k in range(index.present_start[attribute], index.present_start[attribute + 1]):
                counter[index.present[k]] += np.uint8(1)
        several = span[attribute, 1] - span[attribute, 0] > 1
        node = index.axis_size[attribute] + events.code[i]
        while node > 0:
            at = index.node_base[attribute] + node
            node >>= 1
            if not several:
                _count_node(index.direct_start, index.direct, counter, at)
            if several or has_programs:
                for k in range(index.node_start[at], index.node_start[at + 1]):
                    if several:
                        if not _is_new(marks, node_atom[k], visits):
                            continue
                        visits += 1
                        _count_atom(index.posting_start, index.posting, counter, node_atom[k])
                    if has_programs:
                        choices = _choose(index, marks, node_atom[k], choices)
    for i in range(events.text_start[row], events.text_start[row + 1]):
        text = events.text[i]
        for k in range(index.text_start[text], index.text_start[text + 1]):
            if _is_new(marks, index.text_atom[k], visits):
                visits += 1
                _count_atom(index.posting_start, index.posting, counter, index.text_atom[k])
                choices = _choose(index, marks, index.text_atom[k], choices)
    for i in range(visits):
        marks.visited[marks.visited_list[i]] = 0
    return choices


@kernel
def _sweep(owner_start, owner, needed, counter, mask, seen, out, found):
    """Emit the conjunctions whose counters have the number needed, and clear all counters.

    A word has eight counters. Those with the number needed are zero bytes of the difference; a word
    without a zero byte is skipped.
    """
    for word in range(len(counter)):
        difference = counter[word] ^ needed[word]
        counter[word] = 0
        if (difference - _LOWEST_BITS) & ~difference & _HIGHEST_BITS == 0:
            continue
        for i in range(8):
            if difference & BYTE == 0:
                found = emit_owners(owner_start, owner, 8 * word + i, mask, seen, out, found)
            difference >>= EIGHT
    return found


@kernel
def _sift(atoms, forms, index, events, row, last, mask, loaded, marks, seen, out, counts):
    chosen, chosen_list, uncovered = marks.chosen, marks.chosen_list, index.uncovered
    owner_start, owner = forms.owner_start, forms.owner
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        choices = _count_event(index, events, row, loaded, marks)
        found = _sweep(owner_start, owner, index.needed, marks.words, mask, seen, out, found)
        for i in range(choices + len(uncovered)):
            if i < choices:
                program = chosen_list[i]
                chosen[program] = 0
            else:
                program = uncovered[i - choices]
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        counts[row] = found - first
        row += 1
    return row


class Sift(Engine):
    """Counts satisfied atoms for each conjunction."""

    name: ClassVar[str] = "sift"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = SiftArrays
    kernel: ClassVar[Any] = staticmethod(_sift)

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> SiftArrays:
        """Build the inverted lists of `rules`."""
        return _build(rules)

    def new_scratch(self) -> Scratch:
        """Allocate counters and marks."""
        return Scratch(self.rules, _new_marks(self.rules))


def _words(size: int) -> int:
    """The number of words for `size` bytes."""
    return -(-size // 8)


def _build(rules: EncodedRules) -> SiftArrays:
    atoms, forms = rules.atoms, rules.forms
    conjunction = list_numbers(forms.conjunction_start)
    flags = atoms.flags[forms.conjunction_atom]
    needs = (flags & IF_ABSENT) == 0
    strong = needs & ((flags & NEGATED) != 0)
    number = np.arange(len(atoms.table))
    signed = np.where(atoms.flags & NEGATED, ~number, number)
    is_text = atoms.test == TEXT
    trees = Trees.of(rules.dictionary)
    nodes = file_under_nodes(atoms, trees, number, signed)
    postings = group_by_key(forms.conjunction_atom, conjunction, len(atoms.table))
    size = len(forms.conjunction_start) - 1
    needed = np.full(8 * _words(size), 255, np.uint8)
    needed[:size] = np.bincount(conjunction[needs], minlength=size)
    negated_on = atoms.attribute[forms.conjunction_atom[strong]]
    return SiftArrays(
        needed.view(np.uint64),
        trees.base,
        trees.size,
        *nodes,
        *_build_direct(*nodes, *postings),
        *group_by_key(atoms.low[is_text], signed[is_text], rules.texts.size),
        *postings,
        *group_by_key(negated_on, conjunction[strong], len(trees.size)),
        *group_by_key(forms.cover_atom, list_numbers(forms.cover_start), len(atoms.table)),
        empty_lists(forms.cover_start).astype(np.int32),
    )


def _build_direct(
    node_start: NDArray[np.int64],
    node_atom: NDArray[np.int32],
    posting_start: NDArray[np.int64],
    posting: NDArray[np.int32],
) -> Lists:
    start = np.empty(len(node_start), np.int64)
    lists = node_start, node_atom, posting_start, posting
    _write_direct(*lists, start, NO_INT32, False)
    items = np.empty(start[-1], np.int32)
    _write_direct(*lists, start, items, True)
    return start, items
