"""KINDEX: the Conjunction algorithm of "Indexing Boolean Expressions" (sections 3 and 5).

Conjunctions are divided by size K, the number of their ∈ predicates. Each key has a list for each
size, with the conjunctions that it stands in. A conjunction holds if K lists of the event's keys
have it with ∈, and none has it with ∉. The lists are merged with skipping (`walk.py`).

Where we differ: once a conjunction is found or rejected, all lists that stand at it skip it, not
only the first K. What the paper's model lacks is verified: if a conjunction has two atoms on one
attribute, one of them is filed; a rule too large for a DNF is filed under each atom of its cover;
and if an event has several values for an attribute, K lists may belong to fewer predicates.

Conjunctions are indexed as they are written, also those that contain another one of their rule
(`tamis.engines.normal_forms`). Where a rule's score is still more than the best sum over its
conjunctions, these have their own partitions and are not pruned. The weights of a conjunction's
entries bound its score; a rule that could be among the best is scored by its tree, as in every
engine, so that equal scores are equal to the last bit.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, TEXT, Events
from tamis.encode.kernel import kernel
from tamis.encode.ragged import empty_lists, list_numbers
from tamis.encode.rules import EncodedRules
from tamis.engines.atom_order import estimate_selectivity
from tamis.engines.base import Engine, Parts, Scratch
from tamis.engines.kernels.output import clear_seen, emit_owners
from tamis.engines.kernels.ranking import Ranking, rank_rule
from tamis.engines.kernels.truth import atom_holds, load_event, program_holds, unload_event
from tamis.engines.normal_forms import with_absorbed
from tamis.engines.papers.kindex.postings import (
    LOOSE,
    UNBOUNDED,
    Mentions,
    PostingArrays,
    Things,
    build_postings,
)
from tamis.engines.papers.kindex.walk import (
    NO_FLOOR,
    bound_partition,
    bound_thing,
    choose_lists,
    is_below,
    new_cursors,
    open_lists,
    skip_to_common,
    stands_in,
    thing_of,
)

__all__ = ["KIndex", "KIndexArrays"]


class KIndexArrays(NamedTuple):
    """The lists. A thing is a conjunction, or after these an atom of a program's cover."""

    postings: PostingArrays
    program: NDArray[np.int32]
    """The program of each thing after the conjunctions."""


@kernel
def _conjunction_holds(atoms, forms, events, loaded, conjunction):
    table, codes = atoms
    span, text = loaded
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        if not atom_holds(table, codes, events.code, span, text, forms.conjunction_atom[i]):
            return False
    return True


@kernel
def _program_holds_anew(atoms, forms, events, loaded, program, tried):
    """Whether a program holds and was not tried for this event before."""
    if tried[program]:
        return False
    tried[program] = 1
    table, codes = atoms
    span, text = loaded
    start = forms.program_start[program]
    return program_holds(table, codes, events.code, span, text, forms.program, start)


@kernel
def _match(atoms, forms, index, events, row, last, mask, loaded, cursors, tried, seen, out, counts):
    postings = index.postings
    conjunctions = len(forms.conjunction_start) - 1
    entry = postings.entry
    found = 0
    while row < last and len(out) - found >= len(mask):
        first = found
        load_event(events, row, loaded)
        several = choose_lists(postings, events, row, loaded, cursors)
        for partition in range(len(postings.size) - 1, -1, -1):
            needed = max(1, postings.size[partition])
            if cursors.start[partition + 1] - cursors.start[partition] < needed:
                continue
            verify = several or postings.traits[partition] & LOOSE
            front, rest, target = 0, open_lists(postings, cursors, partition), 0
            while True:
                front, rest, lists = skip_to_common(
                    entry, cursors, partition, front, rest, target, needed, NO_FLOOR
                )
                if lists == 0:
                    break
                thing = thing_of(cursors.head[0])
                target = 2 * thing + 2
                if not stands_in(cursors.head[0]):
                    # ∉ sorts before ∈, so the event violates a ∉.
                    continue
                if thing >= conjunctions:
                    program = index.program[thing - conjunctions]
                    rule = forms.program_rule[program]
                    if mask[rule] and _program_holds_anew(
                        atoms, forms, events, loaded, program, tried
                    ):
                        out[found] = rule
                        found += 1
                elif not verify or _conjunction_holds(atoms, forms, events, loaded, thing):
                    found = emit_owners(
                        forms.owner_start, forms.owner, thing, mask, seen, out, found
                    )
        unload_event(events, row, loaded)
        clear_seen(out, first, found, seen)
        tried[:] = 0
        counts[row] = found - first
        row += 1
    return row


@kernel
def _rank_thing(rules, index, events, loaded, row, ranking, tried, verify, thing):
    """Score the rules of a thing that K lists have with ∈ and none with ∉."""
    atoms, forms, _ = rules
    conjunctions = len(forms.conjunction_start) - 1
    if thing >= conjunctions:
        program = index.program[thing - conjunctions]
        if _program_holds_anew(atoms, forms, events, loaded, program, tried):
            rule = np.int64(forms.program_rule[program])
            rank_rule(rules, events, loaded, row, ranking, rule)
    elif not verify or _conjunction_holds(atoms, forms, events, loaded, thing):
        if len(forms.owner) == 0:
            rank_rule(rules, events, loaded, row, ranking, np.int64(thing))
        else:
            for i in range(forms.owner_start[thing], forms.owner_start[thing + 1]):
                rank_rule(rules, events, loaded, row, ranking, np.int64(forms.owner[i]))


@kernel
def _floor(ranking, is_bounded):
    """The score that a thing must reach to be among the best."""
    kept = ranking.tally[0]
    return ranking.score[kept - 1] if is_bounded and kept == len(ranking.score) else NO_FLOOR


@kernel
def _top(
    rules,
    index,
    events,
    row,
    last,
    mask,
    order,
    loaded,
    cursors,
    tried,
    seen,
    seen_list,
    tally,
    stack,
    counts,
    best,
    scores,
):
    """See `Engine.top_kernel`; `rules` are their atoms, forms and scores."""
    postings = index.postings
    entry = postings.entry
    for at in range(last - row):
        event = row + at
        ranking = Ranking(mask, order, best[at], scores[at], seen, seen_list, tally, stack)
        tally[:] = 0
        load_event(events, event, loaded)
        several = choose_lists(postings, events, event, loaded, cursors)
        for partition in range(len(postings.size) - 1, -1, -1):
            size = postings.size[partition]
            needed = max(1, size)
            if cursors.start[partition + 1] - cursors.start[partition] < needed:
                continue
            is_bounded = postings.traits[partition] & UNBOUNDED == 0
            verify = several or postings.traits[partition] & LOOSE
            front, rest, target = 0, open_lists(postings, cursors, partition), 0
            floor = _floor(ranking, is_bounded)
            if floor != NO_FLOOR and is_below(bound_partition(cursors, rest, size, several), floor):
                continue
            while True:
                front, rest, lists = skip_to_common(
                    entry, cursors, partition, front, rest, target, needed, floor
                )
                if lists == 0:
                    break
                thing = thing_of(cursors.head[0])
                target = 2 * thing + 2
                if not stands_in(cursors.head[0]):
                    continue
                if floor != NO_FLOOR and is_below(bound_thing(postings, cursors, lists), floor):
                    continue
                _rank_thing(rules, index, events, loaded, event, ranking, tried, verify, thing)
                floor = _floor(ranking, is_bounded)
        unload_event(events, event, loaded)
        for i in range(tally[1]):
            seen[seen_list[i]] = 0
        tried[:] = 0
        counts[at] = tally[0]


class KIndex(Engine):
    """Merges the posting lists of an event's keys."""

    arrays: KIndexArrays
    name: ClassVar[str] = "kindex"
    arrays_type: ClassVar[type[tuple[Any, ...]]] = KIndexArrays
    kernel: ClassVar[Any] = staticmethod(_match)
    top_kernel: ClassVar[Any] = staticmethod(_top)

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:  # noqa: ARG003
        """Build the posting lists of `rules`, with the conjunctions that they absorbed."""
        rules, sums = with_absorbed(rules)
        return Parts(rules, np.arange(rules.size, dtype=np.int32), _build(rules, sums))

    def new_scratch(self) -> Scratch:
        """Allocate list cursors, and marks for programs tried and for rules scored."""
        rules = self.rules
        tried = np.zeros(len(rules.forms.program_rule), np.uint8)
        workspace = new_cursors(self.arrays.postings), tried
        scratch = Scratch(rules, *workspace)
        scratch.top_arguments = (
            scratch.loaded,
            *workspace,
            np.zeros(rules.size, np.uint8),
            scratch.room,
            np.zeros(2, np.int64),
            scratch.stack,
        )
        return scratch


def _build(rules: EncodedRules, sums: NDArray[np.bool_]) -> KIndexArrays:
    forms = rules.forms
    conjunctions = len(forms.conjunction_start) - 1
    program, uncovered = list_numbers(forms.cover_start), empty_lists(forms.cover_start)
    covering = conjunctions + np.arange(len(program))
    conjunction = list_numbers(forms.conjunction_start)
    own = Mentions(conjunction, forms.conjunction_atom.astype(np.int64), None)
    kept, doubled = _keep_one_per_attribute(rules, own)
    mentions = kept.append(Mentions(covering, forms.cover_atom.astype(np.int64), None))
    things = conjunctions + len(program) + len(uncovered)
    is_in = rules.atoms.flags[mentions.atom] & NEGATED == 0
    size = np.bincount(mentions.thing[is_in], minlength=things)
    traits = np.full(things, LOOSE | UNBOUNDED, np.uint8)
    traits[:conjunctions] = np.where(_are_all_sums(rules, sums), 0, UNBOUNDED)
    traits[doubled] = LOOSE | UNBOUNDED
    owner_start, owner = forms.owner_start, forms.owner
    if len(owner) == 0:
        owner_start = np.arange(conjunctions + 1)
        owner = np.arange(conjunctions, dtype=np.int32)
    # The things after the conjunctions are not pruned, and need no weights.
    owner_start = np.append(owner_start, np.full(things - conjunctions, owner_start[-1]))
    return KIndexArrays(
        build_postings(rules, Things(size, traits, owner_start, owner), mentions),
        np.concatenate((program, uncovered)).astype(np.int32),
    )


def _keep_one_per_attribute(
    rules: EncodedRules, mentions: Mentions
) -> tuple[Mentions, NDArray[np.int64]]:
    """Keep one ∈ by codes for each attribute of a thing, the most selective.

    A key of the event could satisfy several of them at once. Also returns the things that lost
    some.
    """
    atoms = rules.atoms
    by_code = (atoms.flags & NEGATED == 0) & (atoms.test != TEXT)
    places = np.flatnonzero(by_code[mentions.atom])
    thing, atom = mentions.thing[places], mentions.atom[places]
    attribute = atoms.attribute[atom]
    order = np.lexsort((estimate_selectivity(rules)[atom], attribute, thing))
    again = np.zeros(len(places), np.bool_)
    again[1:] = np.diff(thing[order]) + np.abs(np.diff(attribute[order])) == 0
    dropped = places[order[again]]
    return mentions.at(np.delete(np.arange(len(mentions.thing)), dropped)), mentions.thing[dropped]


def _are_all_sums(rules: EncodedRules, sums: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether all rules of each conjunction are scored by sums."""
    forms = rules.forms
    conjunctions = len(forms.conjunction_start) - 1
    if len(forms.owner) == 0:
        return sums[:conjunctions]
    others = list_numbers(forms.owner_start)[~sums[forms.owner]]
    all_sums = np.ones(conjunctions, np.bool_)
    all_sums[others] = False
    return all_sums
