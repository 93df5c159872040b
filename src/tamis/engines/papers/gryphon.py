"""GRYPHON: the matching tree of Aguilera et al., a rival in section 7 of the BE-Tree paper.

"Matching Events in a Content-Based Subscription System" (PODC 1999). All conjunctions test their
attributes in the same order and form a tree: a node tests an attribute, and has an edge for each
test that a conjunction applies there, and a ``*`` edge for conjunctions without such a test. An
event starts at the root and follows all edges whose tests it satisfies, and all ``*`` edges. It
satisfies each conjunction whose end it reaches. Conjunctions share the tests that they begin with.

The paper has two versions of the tree. The one for equalities finds the edge of a value in one
step; in the general one each edge is a test. Here they are combined: the equalities of a node stand
after its other edges, sorted by code, and are searched; the other edges are tested one by one.

The authors propose three optimizations:

- *Trivial tests* are left out: a node whose only edge is ``*``. Nodes that ``*`` edges connect
  stand in a row, so that such an edge is a step to the next one. What is called a *node* below is
  such a row, and a *test* is one of its members.
- *Factoring*: where most conjunctions compare an attribute with a value, each of its values has a
  tree of its own, and conjunctions without such an equality are copied into all of these trees. So
  no ``*`` edge is followed for this attribute. It costs space, so it is done where the tree grows
  at most to twice its size.
- *Delayed branching*: let an event follow the edge a = 1, and let the node there test b, as does
  the ``*`` edge next to it. The tests of that ``*`` edge join those of the node, with a *link* to
  where they would have led: b is looked up once, and the branch of ``*`` is left until then.

Where we differ: attributes that more conjunctions test come first, so that few ``*`` edges are
followed near the root. A path may test an attribute twice, since a rule may. An edge may hold where
the attribute is absent. A rule too large for a DNF is at the end of a path for each atom of its
cover, and is evaluated there. Branches are delayed by one test, and where this adds few edges.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NO_INT64, RANGE, AtomArrays
from tamis.encode.kernel import kernel, part
from tamis.encode.ragged import (
    concatenate_lists,
    empty_lists,
    list_numbers,
    run_places,
    starts,
    take_lists,
)
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

_FACTORED_SPACE = 2
"""How many times as many paths the tree may have for factoring out an attribute."""
_DELAYED_SPACE = 1
"""A test is added to another one with at least as many edges, divided by this."""


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
    link: NDArray[np.int32]
    """The node that a delayed ``*`` edge leads to for this test, or -1."""
    delays: NDArray[np.uint8]
    """1 for each node whose first test includes the next test of the node above."""
    factor: NDArray[np.int32]
    """The attribute that is factored out, if any. Then the edges of the root are the equalities of
    this attribute, after an edge for other values if a conjunction allows them."""


@part
def _emit_ends(atoms, forms, index, events, loaded, tried, ended, node, mask, seen, out, found):
    """Write the candidates that end at a node; returns how many rules are found now.

    `ended` marks the conjunctions that were found, or is empty if none can be found twice.
    """
    conjunctions = len(forms.conjunction_start) - 1
    for i in range(index.done_start[node], index.done_start[node + 1]):
        program = index.done[i] - conjunctions
        if program < 0:
            if len(ended):
                if ended[index.done[i]]:
                    continue
                ended[index.done[i]] = 1
            found = emit_owners(
                forms.owner_start, forms.owner, index.done[i], mask, seen, out, found
            )
        elif not tried[program]:
            tried[program] = 1
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
    return found


@part
def _push(index, edge, has_links, stack, height):
    """Push the nodes that an edge leads to; returns the height of the stack."""
    stack[height] = edge + 1
    height += 1
    if has_links and index.link[edge] >= 0:
        # The node that it belongs to goes on after the test that was delayed, so the test after
        # that is not left to a node that would include it.
        linked = index.link[edge]
        stack[height] = ~linked if index.delays[linked] else linked
        height += 1
    return height


@part
def _is_first(event_code, begin, place):
    """Whether a code is not among those before it; values that no rule distinguishes share one."""
    is_first = True
    for k in range(begin, place):
        is_first = is_first and event_code[k] != event_code[place]
    return is_first


@kernel
def _follow(atoms, index, events, loaded, test, has_links, stack, height):
    """Push the nodes that satisfied edges of a test lead to.

    Returns the height of the stack, and whether one of these nodes includes the next test. If the
    event has several values, several nodes may; only one of them, then, is to follow links.
    """
    table, codes = atoms
    span, text = loaded
    begin, end = span[index.attribute[test], 0], span[index.attribute[test], 1]
    is_delayed = False
    if begin == end:
        for edge in range(index.edge_start[test], index.present_start[test]):
            height = _push(index, edge, has_links, stack, height)
        return height, is_delayed
    equalities = index.equality_start[test]
    for edge in range(index.edge_start[test], equalities):
        if atom_holds(table, codes, events.code, span, text, index.edge[edge]):
            height = _push(index, edge, has_links, stack, height)
    for i in range(begin, end):
        edge = find_code(index.edge, equalities, index.edge_start[test + 1], events.code[i])
        if edge >= 0 and _is_first(events.code, begin, i):
            child = height
            height = _push(index, edge, has_links, stack, height)
            if index.delays[edge + 1]:
                if is_delayed:
                    stack[child] = ~stack[child]
                is_delayed = True
    return height, is_delayed


@part
def _push_roots(index, events, loaded, stack):
    """Push the root, or those of the event's values of a factored attribute; returns how many."""
    stack[0] = 0
    if len(index.factor) == 0:
        return 1
    span, _ = loaded
    begin, end = span[index.factor[0], 0], span[index.factor[0], 1]
    height = 0
    has_other = begin == end
    for i in range(begin, end):
        equalities = index.equality_start[0]
        edge = find_code(index.edge, equalities, index.edge_start[1], events.code[i])
        if edge < 0:
            has_other = True
        elif _is_first(events.code, begin, i):
            stack[height] = edge + 1
            height += 1
    # The edge for other values is missing where all conjunctions have an equality.
    if has_other and index.equality_start[0]:
        stack[height] = 1
        height += 1
    return height


@kernel
def _gryphon(
    atoms, forms, index, events, row, last, mask, loaded, stack, tried, ended, seen, out, counts
):
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        height = _push_roots(index, events, loaded, stack)
        several = ended if height > 1 else ended[:0]
        while height > 0:
            height -= 1
            has_links = stack[height] >= 0
            node = stack[height] if has_links else ~stack[height]
            found = _emit_ends(
                atoms, forms, index, events, loaded, tried, several, node, mask, seen, out, found
            )
            test = index.test_start[node]
            while test < index.test_start[node + 1]:
                height, is_delayed = _follow(
                    atoms, index, events, loaded, test, has_links, stack, height
                )
                test += 2 if is_delayed else 1
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        tried[:] = 0
        several[:] = 0
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
        """Allocate a stack of nodes to visit, and marks for the candidates of an event."""
        forms, arrays = self.rules.forms, self.arrays
        conjunctions = len(forms.conjunction_start) - 1
        return Scratch(
            self.rules,
            np.empty(len(arrays.edge) + 1, np.int32),
            np.zeros(len(forms.program_rule), np.uint8),
            np.zeros(conjunctions if len(arrays.factor) else 0, np.uint8),
        )


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
    is_equality: NDArray[np.bool_]
    """Whether a token is an equality."""
    factor: NDArray[np.int64]
    """The attribute that is factored out, if any. The first token then means that no equality of
    this attribute holds, and those after it are its equalities."""


class _Paths(NamedTuple):
    """The tests that each candidate must satisfy, in order."""

    start: NDArray[np.int64]
    token: NDArray[np.int64]
    candidate: NDArray[np.int64]
    """A program has a path for each atom of its cover, or a single path without tests. -1 for a
    path that only adds the edges of a delayed branch."""


class _Tree(NamedTuple):
    """Edge i leads to node i + 1; edges are sorted by parent, then by token."""

    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    end: NDArray[np.int64]
    """The node at which each path ends."""
    path: NDArray[np.int64]
    depth: NDArray[np.int64]
    """A path through each edge, and which of its tests the edge is."""


class _Rows(NamedTuple):
    """The tests of each node of a tree."""

    attribute: NDArray[np.int64]
    """The attribute of each edge."""
    test: NDArray[np.int64]
    """The test of each edge."""
    first: NDArray[np.int64]
    """The first edge of each test, and last the number of edges."""
    start: NDArray[np.int64]
    """Where the tests of each node begin, and where those of the last one end."""


def _build(rules: EncodedRules) -> GryphonArrays:
    tests = _order_tests(rules)
    tests, paths = _factor(rules, tests, _build_paths(rules, tests))
    tree = _grow_tree(paths, len(tests.atom))
    delayed = _delay_branches(paths, tree, _row_tests(tree, tests, rules.atoms), tests)
    real = len(paths.candidate)
    if len(delayed.candidate):
        paths = _join_paths(paths, delayed)
        tree = _grow_tree(paths, len(tests.atom))
    rows = _row_tests(tree, tests, rules.atoms)
    link, delays = _link_delayed(tree, tree.end[real:], len(tests.atom))
    atoms, atom = rules.atoms, tests.atom[tree.token]
    nodes, last = len(atom) + 1, len(rows.first) - 1
    lenient, equality = (atoms.flags[atom] & IF_ABSENT) != 0, tests.is_equality[tree.token]
    end = tree.end[:real]
    return GryphonArrays(
        starts(np.bincount(end, minlength=nodes)).astype(np.int32),
        paths.candidate[:real][np.argsort(end, kind="stable")].astype(np.int32),
        rows.start.astype(np.int32),
        rows.attribute[rows.first[:-1]].astype(np.int32),
        rows.first.astype(np.int32),
        (rows.first[:-1] + np.bincount(rows.test[lenient], minlength=last)).astype(np.int32),
        (rows.first[1:] - np.bincount(rows.test[equality], minlength=last)).astype(np.int32),
        np.where(equality, atoms.low[atom], atom).astype(np.int32),
        link.astype(np.int32),
        delays,
        tests.factor.astype(np.int32),
    )


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
    atom = order[is_new]
    return _Tests(token, atom, equality[atom], NO_INT64)


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


def _join_paths(paths: _Paths, more: _Paths) -> _Paths:
    start, token = concatenate_lists([paths[:2], more[:2]])
    return _Paths(start, token, np.concatenate((paths.candidate, more.candidate)))


def _factor(rules: EncodedRules, tests: _Tests, paths: _Paths) -> tuple[_Tests, _Paths]:
    """Factor out the attribute that the most paths compare with a value, if it is worth its space.

    A path begins then with one of its equalities of this attribute, or is copied to all values.
    """
    size, path = len(paths.candidate), list_numbers(paths.start)
    equal = np.flatnonzero(tests.is_equality[paths.token])
    attribute = rules.atoms.attribute[tests.atom].astype(np.int64)
    attributes = len(rules.dictionary.axes)
    # A path counts once for an attribute, however many of its equalities it has.
    pairs = np.unique(path[equal] * attributes + attribute[paths.token[equal]])
    owners = np.bincount(pairs % attributes, minlength=attributes) if attributes else NO_INT64
    values = np.bincount(attribute[np.unique(paths.token[equal])], minlength=attributes)
    grown = owners + (size - owners) * (values + 1)
    fits = (values > 1) & (2 * owners > size) & (grown <= _FACTORED_SPACE * size)
    if not fits.any():
        return tests, paths
    factor = int(np.argmax(np.where(fits, owners, 0)))
    own = equal[attribute[paths.token[equal]] == factor]
    own_path, at = np.unique(path[own], return_index=True)
    own = own[at]
    value, place = np.unique(paths.token[own], return_inverse=True)
    others = np.setdiff1d(np.arange(size), own_path, assume_unique=True)
    chosen = np.concatenate((own_path, np.repeat(others, len(value) + 1)))
    begins = np.concatenate((1 + place, np.tile(np.arange(len(value) + 1), len(others))))
    left = np.delete(np.arange(len(path)), own)
    rest = starts(np.bincount(path[left], minlength=size))
    shift = len(value) + 1
    start, token = take_lists(rest, paths.token[left] + shift, chosen)
    first = start[:-1]
    new_start = start + np.arange(len(start))
    new_tests = _Tests(
        tests.token + shift,
        np.concatenate((tests.atom[value[:1]], tests.atom[value], tests.atom)),
        np.concatenate(([False], np.ones(len(value), np.bool_), tests.is_equality)),
        np.array([factor]),
    )
    return new_tests, _Paths(new_start, np.insert(token, first, begins), paths.candidate[chosen])


def _grow_tree(paths: _Paths, tokens: int) -> _Tree:
    """The tree of all paths, level by level: a node for each distinct beginning of a path."""
    size = np.diff(paths.start)
    end = np.zeros(len(size), np.int64)
    parents, edges, through, depths = [NO_INT64], [NO_INT64], [NO_INT64], [NO_INT64]
    going = np.flatnonzero(size)
    depth = nodes = 0
    while len(going):
        key = end[going] * tokens + paths.token[paths.start[going] + depth]
        distinct, one, place = np.unique(key, return_index=True, return_inverse=True)
        parents.append(distinct // tokens)
        edges.append(distinct % tokens)
        through.append(going[one])
        depths.append(np.full(len(one), depth))
        # No edge leads to the root, so the first node of a level follows all edges so far.
        end[going] = nodes + 1 + place
        nodes += len(distinct)
        depth += 1
        going = going[size[going] > depth]
    columns = (np.concatenate(each) for each in (through, depths))
    return _Tree(np.concatenate(parents), np.concatenate(edges), end, *columns)


def _row_tests(tree: _Tree, tests: _Tests, atoms: AtomArrays) -> _Rows:
    """Group the edges of each node by attribute."""
    attribute = atoms.attribute[tests.atom[tree.token]].astype(np.int64)
    begins = np.ones(len(attribute), np.bool_)
    begins[1:] = (np.diff(tree.parent) != 0) | (np.diff(attribute) != 0)
    first = np.flatnonzero(begins)
    start = starts(np.bincount(tree.parent[first], minlength=len(attribute) + 1))
    return _Rows(attribute, np.cumsum(begins) - 1, np.append(first, len(attribute)), start)


def _delay_branches(paths: _Paths, tree: _Tree, rows: _Rows, tests: _Tests) -> _Paths:
    """Paths that add the next test of a node to the node of an equality, where it tests the same.

    Such a path leads to the node of the equality, and then applies one of the tests to be added.
    """
    size = np.diff(rows.first)
    edge = np.flatnonzero(tests.is_equality[tree.token])
    following, inner = rows.test[edge] + 1, rows.start[edge + 1]
    is_last = following >= rows.start[tree.parent[edge] + 1]
    is_leaf = inner >= rows.start[edge + 2]
    edge, following, inner = (a[~(is_last | is_leaf)] for a in (edge, following, inner))
    attribute = rows.attribute[rows.first[:-1]]
    is_same = attribute[following] == attribute[inner]
    is_same &= size[following] <= _DELAYED_SPACE * size[inner]
    edge, following = edge[is_same], following[is_same]
    added = size[following]
    upper = np.repeat(edge, added)
    token = tree.token[run_places(rows.first[following], added)]
    lengths = tree.depth[upper] + 1
    prefix = paths.token[run_places(paths.start[tree.path[upper]], lengths)]
    ends = np.cumsum(lengths)
    start = starts(lengths + 1)
    return _Paths(start, np.insert(prefix, ends, token), np.full(len(token), -1))


def _link_delayed(
    tree: _Tree, ends: NDArray[np.int64], tokens: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The links of delayed branches, given the nodes at which the paths of these end."""
    link = np.full(len(tree.token), -1, np.int64)
    delays = np.zeros(len(tree.token) + 1, np.uint8)
    node = tree.parent[ends - 1]
    above = tree.parent[node - 1]
    keys = tree.parent * tokens + tree.token
    link[ends - 1] = 1 + np.searchsorted(keys, above * tokens + tree.token[ends - 1])
    delays[node] = 1
    return link, delays
