"""PROPAGATION: Le Subscribe's algorithm, as section 7 of "Indexing Boolean Expressions" extends it.

Each conjunction belongs to the cluster of its most selective predicate. An event first writes the
truth of every distinct atom to a byte. Then it walks the clusters of the satisfied atoms, and each
conjunction there reads the bytes of its other atoms. A list of values is one predicate. A ∉ is true
at first; a value that violates it clears its byte.

Where we differ: the most selective predicate is estimated as in `keyed`, which has the same idea
but tests atoms one by one, without a table of their truth. Ranges are filed under the nodes of a
tree over codes (`code_trees.py`). A rule too large for a DNF is in the clusters of all atoms of its
cover, and candidates that need no attribute are tested on every event.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.ragged import empty_lists, list_numbers, starts, take_lists
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import order_atoms
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.output import clear_seen, emit_owners, emit_program
from tamis.engines.kernels.truth import load_event, unload_event
from tamis.engines.papers.code_trees import Trees, file_under_nodes, group_by_key
from tamis.engines.papers.keyed import choose_access_atoms

__all__ = ["Propagation"]


class PropagationArrays(NamedTuple):
    """The clusters. A candidate is a conjunction, or after all conjunctions a program."""

    node_base: NDArray[np.int64]
    axis_size: NDArray[np.int64]
    """The trees over the codes of each attribute; see `tamis.engines.papers.code_trees`."""
    node_start: NDArray[np.int64]
    node_atom: NDArray[np.int32]
    """The atoms whose positive form each tree node satisfies; negated ones as ~atom."""
    text_start: NDArray[np.int64]
    text_atom: NDArray[np.int32]
    """The atoms of each text predicate; negated ones as ~atom."""
    present_start: NDArray[np.int64]
    present_atom: NDArray[np.int32]
    """The negated atoms of each attribute that need it to be present."""
    cluster_start: NDArray[np.int64]
    """Where the cluster of each atom begins, then that of candidates for every event."""
    candidate: NDArray[np.int32]
    """The candidates, cluster by cluster."""
    test_start: NDArray[np.int64]
    test_atom: NDArray[np.int32]
    """The other atoms of each candidate, the least likely first."""


@kernel
def _set(truth, changed, satisfied, tally, signed):
    """Record that the positive form of an atom is satisfied; negated atoms come as ~atom."""
    if signed >= 0:
        if not truth[signed]:
            truth[signed] = 1
            satisfied[tally[1]] = signed
            changed[tally[0]] = signed
            return tally[0] + 1, tally[1] + 1
    elif truth[~signed]:
        truth[~signed] = 0
        changed[tally[0]] = signed
        return tally[0] + 1, tally[1]
    return tally


@kernel
def _evaluate(index, events, row, loaded, truth, changed, satisfied):
    """Write the truth of all atoms; returns how many changed, and how many positive ones hold.

    A change is listed as atom if its byte became 1, and as ~atom if it became 0.
    """
    tally = 0, 0
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        if loaded.span[attribute, 0] == i:
            for k in range(index.present_start[attribute], index.present_start[attribute + 1]):
                truth[index.present_atom[k]] = 1
                changed[tally[0]] = index.present_atom[k]
                tally = tally[0] + 1, tally[1]
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        node = index.axis_size[attribute] + events.code[i]
        while node > 0:
            at = index.node_base[attribute] + node
            for k in range(index.node_start[at], index.node_start[at + 1]):
                tally = _set(truth, changed, satisfied, tally, index.node_atom[k])
            node >>= 1
    for i in range(events.text_start[row], events.text_start[row + 1]):
        text = events.text[i]
        for k in range(index.text_start[text], index.text_start[text + 1]):
            tally = _set(truth, changed, satisfied, tally, index.text_atom[k])
    return tally


@kernel
def _walk_cluster(
    atoms, forms, index, events, loaded, truth, tried, cluster, mask, seen, out, found
):
    """Test the candidates of a cluster; returns how many rules are found now."""
    conjunctions = len(forms.conjunction_start) - 1
    for k in range(index.cluster_start[cluster], index.cluster_start[cluster + 1]):
        holds = True
        for i in range(index.test_start[k], index.test_start[k + 1]):
            if not truth[index.test_atom[i]]:
                holds = False
                break
        if not holds:
            continue
        program = index.candidate[k] - conjunctions
        if program < 0:
            found = emit_owners(
                forms.owner_start, forms.owner, index.candidate[k], mask, seen, out, found
            )
        elif not tried[program]:
            tried[program] = 1
            found = emit_program(atoms, forms, events, loaded, program, mask, out, found)
    return found


@kernel
def _propagate(
    atoms,
    forms,
    index,
    events,
    row,
    last,
    mask,
    loaded,
    truth,
    changed,
    satisfied,
    tried,
    seen,
    out,
    counts,
):
    found = 0
    always = len(index.cluster_start) - 2
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        changes, positive = _evaluate(index, events, row, loaded, truth, changed, satisfied)
        for i in range(positive + 1):
            cluster = np.int64(satisfied[i]) if i < positive else always
            found = _walk_cluster(
                atoms,
                forms,
                index,
                events,
                loaded,
                truth,
                tried,
                cluster,
                mask,
                seen,
                out,
                found,
            )
        for i in range(changes - 1, -1, -1):
            atom = changed[i]
            truth[atom if atom >= 0 else ~atom] = 0 if atom >= 0 else 1
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        tried[:] = 0
        counts[row] = found - first
        row += 1
    return row


class Propagation(Engine):
    """Clusters each conjunction on its most selective predicate."""

    name: ClassVar[str] = "propagation"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = PropagationArrays
    kernel: ClassVar[Any] = staticmethod(_propagate)

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> PropagationArrays:
        """Cluster the conjunctions of `rules`."""
        return _build(rules)

    def new_scratch(self) -> Scratch:
        """Allocate the truth of all atoms on the empty event, and marks for programs tried."""
        rules = self.rules
        atoms, programs = len(rules.atoms.table), len(rules.forms.program_rule)
        return Scratch(
            rules,
            (rules.atoms.flags & IF_ABSENT != 0).astype(np.uint8),
            np.empty(2 * atoms, np.int32),
            np.empty(atoms, np.int32),
            np.zeros(programs, np.uint8),
        )


def _build(rules: EncodedRules) -> PropagationArrays:
    atoms = rules.atoms
    number = np.arange(len(atoms.table))
    negated = atoms.flags & NEGATED != 0
    signed = np.where(negated, ~number, number)
    is_text = atoms.test == TEXT
    strong = np.flatnonzero(negated & (atoms.flags & IF_ABSENT == 0))
    trees = Trees.of(rules.dictionary)
    return PropagationArrays(
        trees.base,
        trees.size,
        *file_under_nodes(atoms, trees, number, signed),
        *group_by_key(atoms.low[is_text], signed[is_text], rules.texts.size),
        *group_by_key(atoms.attribute[strong], strong, len(trees.size)),
        *_build_clusters(rules),
    )


def _build_clusters(
    rules: EncodedRules,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """The clusters of all atoms, and the other atoms of their candidates."""
    forms = rules.forms
    sizes = np.diff(forms.conjunction_start)
    always = len(rules.atoms.table)
    access = choose_access_atoms(rules, by_presence=False)
    access = np.where(access >= 0, access, always)
    program, uncovered = list_numbers(forms.cover_start), empty_lists(forms.cover_start)
    cluster = np.concatenate((access, forms.cover_atom, np.full(len(uncovered), always)))
    candidate = np.concatenate(
        (np.arange(len(sizes)), len(sizes) + program, len(sizes) + uncovered)
    )
    # Candidates of the same size stand together, so that the loop over atoms is predictable.
    length = np.concatenate((sizes, np.zeros(len(program) + len(uncovered), np.int64)))
    order = np.lexsort((length, cluster))
    cluster_start = np.searchsorted(cluster[order], np.arange(always + 2)).astype(np.int64)
    return cluster_start, candidate[order].astype(np.int32), *_list_tests(rules, access, order)


def _list_tests(
    rules: EncodedRules, access: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The atoms of the candidates in this order, without those of their clusters."""
    forms = rules.forms
    conjunction, atom = list_numbers(forms.conjunction_start), order_atoms(rules)
    kept = atom != access[conjunction]
    test_sizes = np.bincount(conjunction[kept], minlength=len(order))
    return take_lists(starts(test_sizes), atom[kept], order)
