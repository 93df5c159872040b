"""GRYPHON: the matching tree of Aguilera et al., a rival in section 7 of the BE-Tree paper.

"Matching Events in a Content-Based Subscription System" (PODC 1999). All conjunctions test their
attributes in the same order and form a tree: a node tests an attribute, and has an edge for each
test that a conjunction applies there, and a ``*`` edge for conjunctions without such a test. An
event starts at the root and follows all edges whose tests it satisfies, and all ``*`` edges. It
satisfies each conjunction whose end it reaches. Conjunctions share the tests that they begin with.

The paper has two versions of the tree. The one for equalities finds the edge of a value in one
step; in the general one each edge is a test. Here they are combined: the equalities of a node stand
after its other edges, sorted by code, and are searched; the other edges are tested one by one.

A node whose only edge is ``*`` is left out, as the authors propose. Nodes that ``*`` edges connect
stand in a row, so that such an edge is a step to the next one. What is called a *node* below is
such a row, and a *test* is one of its members.

Where we differ: attributes that more conjunctions test come first, so that few ``*`` edges are
followed near the root. A path may test an attribute twice, since a rule may. An edge may hold where
the attribute is absent. A rule too large for a DNF is at the end of a path for each atom of its
cover, and is evaluated there.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NO_INT64, RANGE, AtomArrays
from tamis.encode.kernel import kernel, part
from tamis.encode.ragged import empty_lists, list_numbers, starts
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.kernels.truth import (
    atom_holds,
    find_code,
    load_event,
    unload_event,
)

__all__ = ["Gryphon"]


class GryphonArrays(NamedTuple):
    """The tree. Node 0 is the root, and edge i leads to node i + 1.

    A candidate is a conjunction, or after all conjunctions a program.
    """

    done_start: NDArray[np.int32]
    done: NDArray[np.int32]
    """The candidates that end at each node."""
    test_start: NDArray[np.int32]
    attribute: NDArray[np.int32]
    """The tests of each node, and the attribute of each."""
    edge_start: NDArray[np.int32]
    """Where the edges of each test begin, plus where those of the last one end."""
    present_start: NDArray[np.int32]
    """Where the edges of each test begin that fail if the attribute is absent."""
    equality_start: NDArray[np.int32]
    """Where the equalities of each test begin."""
    edge: NDArray[np.int32]
    """The atom of each edge, or the code of an equality; codes rise within a test."""


@part
def _emit_ends(atoms, forms, index, events, loaded, tried, node, mask, seen, out, found):
    """Write the candidates that end at a node; returns how many rules are found now."""
    conjunctions = len(forms.conjunction_start) - 1
    for i in range(index.done_start[node], index.done_start[node + 1]):
        program = index.done[i] - conjunctions
        if program < 0:
            found = emit_owners(
                forms.owner_start, forms.owner, index.done[i], mask, seen, out, found
            )
        elif not tried[program]:
            tried[program] = 1
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
    return found


@part
def _follow(atoms, index, events, loaded, test, stack, height):
    """Push the nodes that satisfied edges of a test lead to; returns the height of the stack."""
    table, codes = atoms
    span, text = loaded
    begin, end = span[index.attribute[test], 0], span[index.attribute[test], 1]
    if begin == end:
        for edge in range(index.edge_start[test], index.present_start[test]):
            stack[height] = edge + 1
            height += 1
        return height
    equalities = index.equality_start[test]
    for edge in range(index.edge_start[test], equalities):
        if atom_holds(table, codes, events.code, span, text, index.edge[edge]):
            stack[height] = edge + 1
            height += 1
    for i in range(begin, end):
        edge = find_code(index.edge, equalities, index.edge_start[test + 1], events.code[i])
        is_new = edge >= 0
        for k in range(begin, i):
            # Values that no rule distinguishes share a code.
            is_new = is_new and events.code[k] != events.code[i]
        if is_new:
            stack[height] = edge + 1
            height += 1
    return height


@kernel
def _gryphon(atoms, forms, index, events, row, last, mask, loaded, stack, tried, seen, out, counts):
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        stack[0] = 0
        height = 1
        while height > 0:
            height -= 1
            node = stack[height]
            found = _emit_ends(
                atoms, forms, index, events, loaded, tried, node, mask, seen, out, found
            )
            for test in range(index.test_start[node], index.test_start[node + 1]):
                height = _follow(atoms, index, events, loaded, test, stack, height)
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        tried[:] = 0
        counts[row] = found - first
        row += 1
    return row


class Gryphon(Engine):
    """Tests attributes in one order, and shared prefixes of tests only once."""

    name: ClassVar[str] = "gryphon"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = GryphonArrays
    kernel: ClassVar[Any] = staticmethod(_gryphon)
    arrays: GryphonArrays

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> GryphonArrays:
        """Grow the matching tree of `rules`."""
        return _build(rules)

    def new_scratch(self) -> Scratch:
        """Allocate a stack of nodes to visit, and a mark for each program that was tried."""
        stack = np.empty(len(self.arrays.edge) + 1, np.int32)
        return Scratch(self.rules, stack, np.zeros(len(self.rules.forms.program_rule), np.uint8))


class _Tests(NamedTuple):
    """All tests in the order in which conjunctions apply them; a *token* is a place in this order.

    Sorted by attribute, the one with the most atoms in conjunctions first. Within an attribute
    sorted like the edges in `GryphonArrays`: atoms that hold on absence, other atoms, and
    equalities by code.
    """

    token: NDArray[np.int64]
    """The token of each atom; all equalities with the same code are one test."""
    atom: NDArray[np.int64]
    """One atom of each token."""


class _Paths(NamedTuple):
    """The tests that each candidate must satisfy, in order."""

    start: NDArray[np.int64]
    token: NDArray[np.int64]
    candidate: NDArray[np.int64]
    """A program has a path for each atom of its cover, or a single path without tests."""


class _Tree(NamedTuple):
    """Edge i leads to node i + 1; edges are sorted by parent, then by token."""

    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    end: NDArray[np.int64]
    """The node at which each path ends."""


def _build(rules: EncodedRules) -> GryphonArrays:
    tests = _order_tests(rules)
    paths = _build_paths(rules, tests)
    tree = _grow_tree(paths, len(tests.atom))
    atoms, atom = rules.atoms, tests.atom[tree.token]
    nodes, attribute = len(atom) + 1, atoms.attribute[atom]
    begins_test = np.ones(len(atom), np.bool_)
    begins_test[1:] = (np.diff(tree.parent) != 0) | (np.diff(attribute) != 0)
    test, first = np.cumsum(begins_test) - 1, np.flatnonzero(begins_test)
    edge_start = np.append(first, len(atom))
    lenient, equality = (atoms.flags[atom] & IF_ABSENT) != 0, _is_equality(atoms)[atom]
    arrays = (
        starts(np.bincount(tree.end, minlength=nodes)),
        paths.candidate[np.argsort(tree.end, kind="stable")],
        starts(np.bincount(tree.parent[first], minlength=nodes)),
        attribute[first],
        edge_start,
        edge_start[:-1] + np.bincount(test[lenient], minlength=len(first)),
        edge_start[1:] - np.bincount(test[equality], minlength=len(first)),
        np.where(equality, atoms.low[atom], atom),
    )
    return GryphonArrays(*(array.astype(np.int32) for array in arrays))


def _is_equality(atoms: AtomArrays) -> NDArray[np.bool_]:
    """Which atoms hold on a single code only."""
    is_plain = (atoms.test == RANGE) & (atoms.flags == 0)
    single: NDArray[np.bool_] = is_plain & (atoms.low == atoms.high)
    return single


def _order_tests(rules: EncodedRules) -> _Tests:
    atoms = rules.atoms
    mentions = np.bincount(
        atoms.attribute[rules.forms.conjunction_atom], minlength=len(rules.dictionary.axes)
    )
    level = np.empty(len(mentions), np.int64)
    level[np.argsort(-mentions, kind="stable")] = np.arange(len(mentions))
    equality = _is_equality(atoms)
    strict = (atoms.flags & IF_ABSENT) == 0
    code = np.where(equality, atoms.low, -1)
    order = np.lexsort((code, equality, strict, level[atoms.attribute]))
    is_new = np.ones(len(order), np.bool_)
    before, after = order[:-1], order[1:]
    same = (atoms.attribute[before] == atoms.attribute[after]) & (code[before] == code[after])
    is_new[1:] = ~(same & equality[after])
    token = np.empty(len(order), np.int64)
    token[order] = np.cumsum(is_new) - 1
    return _Tests(token, order[is_new])


def _build_paths(rules: EncodedRules, tests: _Tests) -> _Paths:
    forms = rules.forms
    conjunctions = len(forms.conjunction_start) - 1
    covered, uncovered = list_numbers(forms.cover_start), empty_lists(forms.cover_start)
    size = np.zeros(conjunctions + len(covered) + len(uncovered), np.int64)
    size[:conjunctions] = np.diff(forms.conjunction_start)
    size[conjunctions : conjunctions + len(covered)] = 1
    token = tests.token[np.concatenate((forms.conjunction_atom, forms.cover_atom))]
    start = starts(size)
    candidate = (np.arange(conjunctions), conjunctions + covered, conjunctions + uncovered)
    token = token[np.lexsort((token, list_numbers(start)))]
    return _Paths(start, token, np.concatenate(candidate))


def _grow_tree(paths: _Paths, tokens: int) -> _Tree:
    """The tree of all paths, level by level: a node for each distinct beginning of a path."""
    size = np.diff(paths.start)
    end = np.zeros(len(size), np.int64)
    parents, edges = [NO_INT64], [NO_INT64]
    going = np.flatnonzero(size)
    depth = nodes = 0
    while len(going):
        key = end[going] * tokens + paths.token[paths.start[going] + depth]
        distinct, place = np.unique(key, return_inverse=True)
        parents.append(distinct // tokens)
        edges.append(distinct % tokens)
        # No edge leads to the root, so the first node of a level follows all edges so far.
        end[going] = nodes + 1 + place
        nodes += len(distinct)
        depth += 1
        going = going[size[going] > depth]
    return _Tree(np.concatenate(parents), np.concatenate(edges), end)
