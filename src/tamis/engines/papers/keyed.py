"""KEYED: files each conjunction under one key, the rarest of its atoms.

An event tests only what is filed under the keys that it satisfies. The idea is that of access
predicates (Le Subscribe's Propagation algorithm, the BE-Tree); the layout is ours.

A key that is a run of codes is filed under O(log n) nodes of a tree (`code_trees.py`), so a range
is as good a key as an equality. Each candidate has a signature, 64 bits for the attributes it
needs: a candidate that needs an attribute which the event lacks is dropped without testing its
atoms. The candidates of a node are contiguous.

A conjunction that needs no attribute is a candidate for every event. A rule too large for a DNF is
a candidate under each atom of its cover.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, TEXT
from tamis.encode.kernel import kernel
from tamis.encode.ragged import Lists, empty_lists, list_numbers
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import estimate_selectivity, order_atoms
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.output import clear_seen, emit_owners
from tamis.engines.kernels.truth import atom_holds, load_event, program_holds, unload_event
from tamis.engines.papers.code_trees import Trees, file_under_nodes, group_by_key
from tamis.engines.signatures import assign_attribute_bits, build_signatures

__all__ = ["Keyed", "choose_access_atoms"]


class KeyedArrays(NamedTuple):
    """Candidates by key. A candidate is a conjunction, or after all conjunctions a program."""

    conjunction_atom: NDArray[np.int32]
    """As in `FormArrays`, but with the least likely atoms of each conjunction first."""
    attribute_bit: NDArray[np.uint64]
    """The bit of a signature that stands for each attribute."""
    node_base: NDArray[np.int64]
    axis_size: NDArray[np.int64]
    """The trees over the codes of each attribute; see `tamis.engines.papers.code_trees`."""
    node_start: NDArray[np.int64]
    node_candidate: NDArray[np.int32]
    node_signature: NDArray[np.uint64]
    """The candidates under each tree node, and their signatures."""
    present_start: NDArray[np.int64]
    present_candidate: NDArray[np.int32]
    present_signature: NDArray[np.uint64]
    """The candidates whose key is the presence of each attribute."""
    text_start: NDArray[np.int64]
    text_candidate: NDArray[np.int32]
    text_signature: NDArray[np.uint64]
    """The candidates under each text predicate."""
    always: NDArray[np.int32]
    """The candidates for every event."""


@kernel
def _holds(atoms, forms, conjunction_atom, events, loaded, candidate):
    """Whether a candidate holds on the loaded event; tests the atoms of `conjunction_atom`."""
    table, codes = atoms
    span, text = loaded
    conjunctions = len(forms.conjunction_start) - 1
    if candidate >= conjunctions:
        start = forms.program_start[candidate - conjunctions]
        return program_holds(table, codes, events.code, span, text, forms.program, start)
    for i in range(forms.conjunction_start[candidate], forms.conjunction_start[candidate + 1]):
        if not atom_holds(table, codes, events.code, span, text, conjunction_atom[i]):
            return False
    return True


@kernel
def _emit(forms, candidate, mask, seen, out, found):
    conjunctions = len(forms.conjunction_start) - 1
    if candidate < conjunctions:
        return emit_owners(forms.owner_start, forms.owner, candidate, mask, seen, out, found)
    rule = forms.program_rule[candidate - conjunctions]
    if mask[rule]:
        out[found] = rule
        found += 1
    return found


@kernel
def _test_candidates(
    atoms,
    forms,
    conjunction_atom,
    events,
    loaded,
    start,
    candidates,
    signatures,
    key,
    lacking,
    once,
    marks,
    sink,
):
    """Test the candidates under a key; returns how many rules are found and marks are set now.

    `once` says that another key of the event may have the same candidates, so that they must be
    marked. Programs are always marked, since they may stand under several keys.
    """
    considered, considered_list, marked = marks
    mask, seen, out, found = sink
    conjunctions = len(forms.conjunction_start) - 1
    for k in range(start[key], start[key + 1]):
        if signatures[k] & lacking:
            continue
        candidate = candidates[k]
        if once or candidate >= conjunctions:
            if considered[candidate]:
                continue
            considered[candidate] = 1
            considered_list[marked] = candidate
            marked += 1
        if _holds(atoms, forms, conjunction_atom, events, loaded, candidate):
            found = _emit(forms, candidate, mask, seen, out, found)
    return found, marked


@kernel
def _match_by_key(
    atoms,
    forms,
    index,
    events,
    row,
    last,
    mask,
    loaded,
    considered,
    considered_list,
    seen,
    out,
    counts,
):
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        marked = 0
        load_event(events, row, loaded)
        lacking = ~np.uint64(0)
        for i in range(events.start[row], events.start[row + 1]):
            lacking &= ~index.attribute_bit[events.attribute[i]]
        for i in range(events.start[row], events.start[row + 1]):
            attribute = events.attribute[i]
            begin, end = loaded.span[attribute, 0], loaded.span[attribute, 1]
            if begin == i:
                found, marked = _test_candidates(
                    atoms,
                    forms,
                    index.conjunction_atom,
                    events,
                    loaded,
                    index.present_start,
                    index.present_candidate,
                    index.present_signature,
                    attribute,
                    lacking,
                    False,
                    (considered, considered_list, marked),
                    (mask, seen, out, found),
                )
            node = index.axis_size[attribute] + events.code[i]
            while node > 0:
                found, marked = _test_candidates(
                    atoms,
                    forms,
                    index.conjunction_atom,
                    events,
                    loaded,
                    index.node_start,
                    index.node_candidate,
                    index.node_signature,
                    index.node_base[attribute] + node,
                    lacking,
                    end - begin > 1,
                    (considered, considered_list, marked),
                    (mask, seen, out, found),
                )
                node >>= 1
        for i in range(events.text_start[row], events.text_start[row + 1]):
            found, marked = _test_candidates(
                atoms,
                forms,
                index.conjunction_atom,
                events,
                loaded,
                index.text_start,
                index.text_candidate,
                index.text_signature,
                events.text[i],
                lacking,
                True,
                (considered, considered_list, marked),
                (mask, seen, out, found),
            )
        for candidate in index.always:
            if _holds(atoms, forms, index.conjunction_atom, events, loaded, candidate):
                found = _emit(forms, candidate, mask, seen, out, found)
        for i in range(marked):
            considered[considered_list[i]] = 0
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        counts[row] = found - first
        row += 1
    return row


class Keyed(Engine):
    """Files each conjunction under the rarest of its atoms."""

    name: ClassVar[str] = "keyed"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = KeyedArrays
    kernel: ClassVar[Any] = staticmethod(_match_by_key)

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> KeyedArrays:
        """File the conjunctions of `rules` under their keys."""
        return _build(rules)

    def new_scratch(self) -> Scratch:
        """Allocate a mark for each candidate considered, and the list of these marks."""
        forms = self.rules.forms
        candidates = len(forms.conjunction_start) - 1 + len(forms.program_rule)
        return Scratch(self.rules, np.zeros(candidates, np.uint8), np.empty(candidates, np.int32))


def _build(rules: EncodedRules) -> KeyedArrays:
    atoms, forms = rules.atoms, rules.forms
    conjunctions = len(forms.conjunction_start) - 1
    attributes = len(rules.dictionary.axes)
    bits = assign_attribute_bits(rules)
    signature = build_signatures(rules, bits)
    keys = choose_access_atoms(rules)
    keyed = np.flatnonzero(keys >= 0)
    atom = np.concatenate((keys[keyed], forms.cover_atom))
    candidate = np.concatenate((keyed, conjunctions + list_numbers(forms.cover_start)))
    is_text = atoms.test[atom] == TEXT
    is_presence = (atoms.flags[atom] & NEGATED) != 0
    by_code = ~is_text & ~is_presence
    by_text = is_text & ~is_presence
    trees = Trees.of(rules.dictionary)
    nodes = file_under_nodes(atoms, trees, atom[by_code], candidate[by_code])
    attribute, text = atoms.attribute[atom[is_presence]], atoms.low[atom[by_text]]
    uncovered = empty_lists(forms.cover_start)
    return KeyedArrays(
        order_atoms(rules),
        bits,
        trees.base,
        trees.size,
        *_attach_signatures(nodes, signature),
        *_attach_signatures(group_by_key(attribute, candidate[is_presence], attributes), signature),
        *_attach_signatures(group_by_key(text, candidate[by_text], rules.texts.size), signature),
        np.concatenate((np.flatnonzero(keys < 0), conjunctions + uncovered)).astype(np.int32),
    )


def _attach_signatures(
    lists: Lists, signature: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    """Lists of candidates with their signatures."""
    start, candidates = lists
    return start, candidates, signature[candidates]


def choose_access_atoms(rules: EncodedRules, by_presence: bool = True) -> NDArray[np.int64]:
    """Choose the atom that is the key of each conjunction; -1 if no atom needs its attribute.

    This is the rarest one by estimate: an atom is as likely as the share of codes that satisfy it,
    and an attribute is as common in events as in rules. A negated atom counts by the presence of
    its attribute alone, and is not chosen unless `by_presence`.
    """
    atoms, forms = rules.atoms, rules.forms
    popularity = np.bincount(
        atoms.attribute[forms.conjunction_atom], minlength=len(rules.dictionary.axes)
    )
    share = np.where(atoms.flags & NEGATED, 1.0, estimate_selectivity(rules))
    useless = IF_ABSENT if by_presence else NEGATED
    cost = np.where(atoms.flags & useless, np.inf, share * popularity[atoms.attribute])
    sizes = np.diff(forms.conjunction_start)
    conjunction = list_numbers(forms.conjunction_start)
    order = np.lexsort((cost[forms.conjunction_atom], conjunction))
    filled = np.flatnonzero(sizes)
    cheapest = forms.conjunction_atom[order[forms.conjunction_start[filled]]]
    keys = np.full(len(sizes), -1, np.int64)
    keys[filled] = np.where(np.isinf(cost[cheapest]), -1, cheapest)
    return keys
