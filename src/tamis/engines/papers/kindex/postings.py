"""Posting lists (section 3 of "Indexing Boolean Expressions", and 2.3 for ranges).

A *thing* is what is indexed: a conjunction in `dnf.py`, a rule in `cnf.py`. Its size K is how many
of its predicates, or disjunctions, the keys of an event must satisfy. For each key and each K there
is a list of the things in which the key stands, with a bit for ∉ or ∈: an entry is
``2 * thing + bit``, so that entries sort as in the paper, ∉ before ∈. Beside it stands the weight
of the key in the thing (section 5). Rules with different weights may share a conjunction; its
weight is the highest of theirs, so what it bounds is exact only where one rule has it.

A key is a node of the value hierarchy of its attribute (`tamis.engines.papers.code_trees`), or a
text predicate. A range is filed under the few nodes that make it up, and an event's value is
expanded to the path above its code. The code of an absent attribute is the paper's NULL: a strong ∉
is also a weak ∉ of NULL.

Where we differ: the lists of a size are divided further (`LOOSE`, `UNBOUNDED`), to treat what the
paper leaves out separately. Lists are stored by key, and sorted by first entries once an event has
chosen its lists.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, AtomArrays
from tamis.encode.kernel import kernel
from tamis.encode.ragged import concatenate_lists
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.truth import find_code
from tamis.engines.papers.code_trees import Trees, file_under_nodes, group_by_key
from tamis.engines.score_bounds import round_up

__all__ = ["LOOSE", "UNBOUNDED", "Mentions", "PostingArrays", "Things", "build_postings"]

LOOSE: Final = 1
"""A trait of things: agreement of K lists is necessary for it to hold, but not sufficient."""
UNBOUNDED: Final = 2
"""A trait of things: its score may be above the sum of its keys' bounds."""


class PostingArrays(NamedTuple):
    """The lists of all keys. Keys are numbered: tree nodes, then text predicates, then Z."""

    size: NDArray[np.int64]
    traits: NDArray[np.uint8]
    """The K and the traits of each partition; sizes rise."""
    node_base: NDArray[np.int64]
    axis_size: NDArray[np.int64]
    """The trees over the codes of each attribute; see `tamis.engines.papers.code_trees`."""
    first_text: int
    """The key of the first text predicate."""
    null_attribute: NDArray[np.int32]
    """The attributes whose key NULL has a list."""
    list_start: NDArray[np.int32]
    """Where the lists of each key begin."""
    partition: NDArray[np.int16]
    """The partition of each list, rising within a key."""
    bound: NDArray[np.float64]
    """UB of each list: the highest weight of its entries."""
    entry_start: NDArray[np.int64]
    entry: NDArray[np.int32]
    """The entries of each list, rising; a thing is in a list at most once."""
    weight: NDArray[np.float32]
    """The weight of each entry, rounded up; 0 with ∉ and in Z. Empty if all others weigh 1."""
    disjunction: NDArray[np.int16]
    """For each entry, the disjunction of the thing that the key stands in; -1 in Z. Empty if things
    are conjunctions."""


class Things(NamedTuple):
    """The things to index, without their predicates."""

    size: NDArray[np.int64]
    """The K of each thing."""
    traits: NDArray[np.uint8]
    """LOOSE and UNBOUNDED for each thing."""
    owner_start: NDArray[np.int64]
    owner: NDArray[np.int32]
    """The rules that each thing belongs to."""


class Mentions(NamedTuple):
    """The atoms of things, in any order."""

    thing: NDArray[np.int64]
    atom: NDArray[np.int64]
    disjunction: NDArray[np.int64] | None
    """The number of each atom's disjunction in its thing; None if things are conjunctions."""

    def at(self, places: NDArray[Any]) -> Mentions:
        """The mentions at some places."""
        disjunction = None if self.disjunction is None else self.disjunction[places]
        return Mentions(self.thing[places], self.atom[places], disjunction)

    def append(self, others: Mentions) -> Mentions:
        """These mentions, followed by others."""
        disjunction = self.disjunction
        if disjunction is not None and others.disjunction is not None:
            disjunction = np.concatenate((disjunction, others.disjunction))
        thing = np.concatenate((self.thing, others.thing))
        return Mentions(thing, np.concatenate((self.atom, others.atom)), disjunction)


class _Entries(NamedTuple):
    """The entries of all lists."""

    key: NDArray[np.int32]
    entry: NDArray[np.int32]
    disjunction: NDArray[np.int16]
    weight: NDArray[np.float32]

    def at(self, places: NDArray[Any]) -> _Entries:
        """The entries at some places."""
        parts: list[Any] = [part[places] if len(part) else part for part in self]
        return _Entries(*parts)


def build_postings(rules: EncodedRules, things: Things, mentions: Mentions) -> PostingArrays:
    """Build the posting lists of `things`, whose atoms are in `mentions`."""
    size, traits, partition = _partition_things(things)
    trees = Trees.of(rules.dictionary)
    entries = _build_entries(rules, trees, things, mentions, partition)
    nth = _count_before(entries.key, entries.entry >> 1)
    if nth.any():
        order = np.lexsort((nth, partition[entries.entry >> 1], entries.key))
        entries, nth = entries.at(order), nth[order]
    of_entry = partition[entries.entry >> 1]
    first = np.flatnonzero(_differs(entries.key) | _differs(of_entry) | _differs(nth))
    keys = int(trees.base[-1]) + rules.texts.size + 1
    list_start = np.searchsorted(entries.key[first], np.arange(keys + 1)).astype(np.int32)
    has_null = np.diff(list_start)[trees.base[:-1] + trees.size] > 0
    return PostingArrays(
        size,
        traits,
        trees.base,
        trees.size,
        int(trees.base[-1]),
        np.flatnonzero(has_null).astype(np.int32),
        list_start,
        of_entry[first].astype(np.int16),
        _bound_lists(entries, first, keys - 1),
        np.append(first, len(entries.entry)),
        entries.entry,
        entries.weight,
        entries.disjunction,
    )


def _bound_lists(entries: _Entries, first: NDArray[np.int64], zero: int) -> NDArray[np.float64]:
    """UB of each list, given where lists begin; 0 for those of Z."""
    if len(first) == 0:
        return np.empty(0)
    weight = entries.weight
    if len(weight) == 0:
        weight = np.where(entries.key == zero, 0, entries.entry & 1).astype(np.float32)
    return np.maximum.reduceat(weight, first).astype(np.float64)


def _partition_things(
    things: Things,
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int16]]:
    """The size and traits of each partition, and the partition of each thing."""
    kinds, partition = np.unique(4 * things.size + things.traits, return_inverse=True)
    return kinds // 4, (kinds % 4).astype(np.uint8), partition.astype(np.int16)


def _build_entries(
    rules: EncodedRules,
    trees: Trees,
    things: Things,
    mentions: Mentions,
    partition: NDArray[np.int16],
) -> _Entries:
    """All entries, sorted by key, partition and entry."""
    atoms, mentions = _add_nulls(rules.atoms, mentions)
    is_in = (atoms.flags & NEGATED == 0)[mentions.atom]
    columns = [is_in, mentions.thing, partition[mentions.thing]]
    if mentions.disjunction is not None:
        columns.insert(0, mentions.disjunction)
    order = np.lexsort(columns)
    mentions = mentions.at(order)
    key_start, place = _place_by_key(atoms, trees, rules.texts.size, mentions.atom)
    zero = np.flatnonzero(things.size == 0)
    zero = zero[np.argsort(partition[zero], kind="stable")]
    key = np.repeat(np.arange(len(key_start), dtype=np.int32), [*np.diff(key_start), len(zero)])
    entry = (2 * mentions.thing + is_in[order])[place]
    disjunction = np.empty(0, np.int16)
    if mentions.disjunction is not None:
        in_z = np.full(len(zero), -1)
        disjunction = np.concatenate((mentions.disjunction[place], in_z)).astype(np.int16)
    weight = np.zeros(len(key) if len(rules.scores.weight) else 0)
    if len(weight):
        _weigh_entries(
            rules.atoms, trees, rules.scores, things, mentions.thing, mentions.atom, place, key,
            weight,
        )  # fmt: skip
    entry = np.concatenate((entry, 2 * zero + 1)).astype(np.int32)
    return _Entries(key, entry, disjunction, round_up(weight))


@kernel
def _weigh_entries(atoms, trees, scores, things, mention_thing, mention_atom, place, key, weight):
    """Write the highest weight of each entry's key in a rule of its thing."""
    table, codes = atoms
    for i in range(len(place)):
        atom, thing = mention_atom[place[i]], mention_thing[place[i]]
        # The atoms that stand for ∉ NULL come after those of the table.
        if atom >= len(table) or table[atom, 1] & NEGATED:
            continue
        within = 0
        if table[atom, 1] & 3 == SET:
            code = key[i] - trees.base[table[atom, 0]] - trees.size[table[atom, 0]]
            within = find_code(codes, table[atom, 2], table[atom, 3], code) - table[atom, 2]
        highest = 0.0
        for k in range(things.owner_start[thing], things.owner_start[thing + 1]):
            rule = things.owner[k]
            for at in range(scores.start[rule], scores.start[rule + 1]):
                if scores.code[at] == atom:
                    own = scores.weights[at]
                    highest = max(highest, scores.weight[own + within] if own >= 0 else 1.0)
        weight[i] = highest


def _add_nulls(atoms: AtomArrays, mentions: Mentions) -> tuple[AtomArrays, Mentions]:
    """Add a mention of "∉ NULL" for each strong ∉, and the atoms for these."""
    strong = atoms.flags & (NEGATED | IF_ABSENT) == NEGATED
    added = mentions.at(np.flatnonzero(strong[mentions.atom]))
    if len(added.atom) == 0:
        return atoms, mentions
    attributes = int(atoms.attribute.max()) + 1
    nulls = np.zeros((attributes, 4), np.int32)
    nulls[:, 0], nulls[:, 1] = np.arange(attributes), RANGE | NEGATED
    null = len(atoms.table) + atoms.attribute[added.atom].astype(np.int64)
    table = np.concatenate((atoms.table, nulls))
    return AtomArrays(table, atoms.codes), mentions.append(added._replace(atom=null))


def _place_by_key(
    atoms: AtomArrays, trees: Trees, texts: int, atom: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The places in `atom` under each tree node and each text predicate, rising."""
    places = np.arange(len(atom), dtype=np.int32)
    is_text = atoms.test[atom] == TEXT
    nodes = file_under_nodes(atoms, trees, atom, places)
    by_text = group_by_key(atoms.low[atom[is_text]], places[is_text], texts)
    return concatenate_lists([nodes, by_text])


def _count_before(key: NDArray[np.int32], thing: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each entry, how many entries of its thing precede it under its key.

    The nth one goes into the nth list of the key, so that a thing is in a list at most once.
    """
    place = np.arange(len(key), dtype=np.int32)
    is_first = _differs(key) | _differs(thing)
    return place - np.maximum.accumulate(np.where(is_first, place, 0), dtype=np.int32)


def _differs(items: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each item is the first one or differs from the one before it."""
    differs = np.ones(len(items), np.bool_)
    differs[1:] = items[1:] != items[:-1]
    return differs
