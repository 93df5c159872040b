"""KINDEX-CNF: the CNF algorithm of "Indexing Boolean Expressions" (sections 4 and 5).

Rules are divided by size K, the number of their disjunctions without ∉. An entry of a key's list
names the disjunction of the rule, too. A rule in the lists of K keys may hold. Each of its
disjunctions has a counter that begins at minus its number of ∉, is raised by 1 for each ∉ that the
event violates, and is set to 1 if a ∈ is satisfied. The rule holds unless a counter is 0.

Where we differ: `clauses.py` tells how rules become CNFs. A rule whose CNF would be too large is
verified by its tree. Where an attribute has several values, one ∉ may be violated twice, so the
disjunctions are evaluated instead of counted. A rule that could be among the best by the weights of
its entries is scored by its tree, as in every engine.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED
from tamis.encode.kernel import kernel
from tamis.encode.ragged import empty_lists, list_numbers
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Scratch
from tamis.engines.kernels.scores import keep_best, score_rule
from tamis.engines.kernels.truth import atom_holds, load_event, unload_event
from tamis.engines.papers.kindex.clauses import Clauses, build_clauses
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
    bound_thing,
    choose_lists,
    is_below,
    new_cursors,
    open_lists,
    skip_to_common,
    slot_of,
    stands_in,
    thing_of,
)

__all__ = ["CnfArrays", "CnfEngine", "CnfScratch", "KIndexCnf", "clauses_hold"]


class CnfArrays(NamedTuple):
    """The posting lists, whose things are rules, and the disjunctions."""

    postings: PostingArrays
    clause_start: NDArray[np.int64]
    """Where the disjunctions of each rule begin."""
    clause_negated: NDArray[np.int16]
    """The number of ∉ in each disjunction."""
    atom_start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each disjunction."""


class CnfScratch(Scratch):
    """Working memory of kernels that score rules and need no `seen`."""

    def __init__(self, rules: EncodedRules, *workspace: Any) -> None:
        super().__init__(rules)
        self.arguments = self.top_arguments = (self.loaded, *workspace, self.stack)


@kernel
def _counters_agree(index, cursors, lists, rule, counter):
    """Whether no counter of a rule is 0, by the current entries of the first `lists` lists."""
    postings = index.postings
    first = index.clause_start[rule]
    count = index.clause_start[rule + 1] - first
    for clause in range(count):
        counter[clause] = -np.int64(index.clause_negated[first + clause])
    for i in range(lists):
        clause = postings.disjunction[cursors.at[slot_of(cursors.head[i])]]
        if clause < 0:
            continue
        if stands_in(cursors.head[i]):
            counter[clause] = 1
        else:
            counter[clause] += 1
    trace_counters(rule, counter, count)
    satisfied = 0
    for clause in range(count):
        satisfied += counter[clause] != 0
    return satisfied == count


@kernel
def trace_counters(rule, counter, count):
    """Called when the counters of a rule are final; see `walk.trace_lists`."""


@kernel
def clauses_hold(atoms, index, events, loaded, rule):
    """Whether every disjunction of a rule holds on the loaded event."""
    table, codes = atoms
    span, text = loaded
    for clause in range(index.clause_start[rule], index.clause_start[rule + 1]):
        holds = False
        for i in range(index.atom_start[clause], index.atom_start[clause + 1]):
            if atom_holds(table, codes, events.code, span, text, index.atom[i]):
                holds = True
                break
        if not holds:
            return False
    return True


@kernel
def _match(rules, index, events, row, last, mask, loaded, cursors, counter, stack, out, counts):
    """See `Engine.kernel`; `rules` are their atoms, forms and scores."""
    atoms, forms, scores = rules
    postings = index.postings
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
            is_loose = postings.traits[partition] & LOOSE
            front, rest, target = 0, open_lists(postings, cursors, partition), 0
            while True:
                front, rest, lists = skip_to_common(
                    entry, cursors, partition, front, rest, target, needed, NO_FLOOR
                )
                if lists == 0:
                    break
                rule = thing_of(cursors.head[0])
                target = 2 * rule + 2
                if several:
                    holds = clauses_hold(atoms, index, events, loaded, rule)
                else:
                    holds = _counters_agree(index, cursors, lists, rule, counter)
                if holds and is_loose:
                    score = score_rule(atoms, forms, scores, events, loaded, row, rule, stack)
                    holds = score >= 0
                if holds and mask[rule]:
                    out[found] = rule
                    found += 1
        unload_event(events, row, loaded)
        counts[row] = found - first
        row += 1
    return row


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
    counter,
    stack,
    counts,
    best,
    best_score,
):
    """See `Engine.top_kernel`; `rules` are their atoms, forms and scores.

    The second pruning technique does not apply, since more than K disjunctions of a rule may score.
    """
    atoms, forms, scores = rules
    postings = index.postings
    entry = postings.entry
    most = best.shape[1]
    for at in range(last - row):
        event = row + at
        kept = 0
        load_event(events, event, loaded)
        several = choose_lists(postings, events, event, loaded, cursors)
        for partition in range(len(postings.size) - 1, -1, -1):
            needed = max(1, postings.size[partition])
            if cursors.start[partition + 1] - cursors.start[partition] < needed:
                continue
            is_bounded = postings.traits[partition] & UNBOUNDED == 0
            front, rest, target = 0, open_lists(postings, cursors, partition), 0
            while True:
                floor = best_score[at, most - 1] if is_bounded and kept == most else NO_FLOOR
                front, rest, lists = skip_to_common(
                    entry, cursors, partition, front, rest, target, needed, floor
                )
                if lists == 0:
                    break
                rule = thing_of(cursors.head[0])
                target = 2 * rule + 2
                if floor != NO_FLOOR and is_below(bound_thing(postings, cursors, lists), floor):
                    continue
                if mask[rule] and (
                    several or _counters_agree(index, cursors, lists, rule, counter)
                ):
                    score = score_rule(atoms, forms, scores, events, loaded, event, rule, stack)
                    if score >= 0:
                        kept = keep_best(rule, score, order, best[at], best_score[at], kept)
        unload_event(events, event, loaded)
        counts[at] = kept


class CnfEngine(Engine):
    """The base of engines over the posting lists of CNFs."""

    arrays: CnfArrays
    arrays_type: ClassVar[type[tuple[Any, ...]]] = CnfArrays

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> CnfArrays:
        """Build the CNFs of `rules` and their posting lists."""
        return _build(rules)

    def _kernel_inputs(self) -> tuple[Any, ...]:
        """The kernels also take the scores, which evaluate trees."""
        return (self.rules.atoms, self.rules.forms, self.rules.scores), self.arrays


class KIndexCnf(CnfEngine):
    """Merges the posting lists of an event's keys, and counts by disjunction."""

    name: ClassVar[str] = "kindex-cnf"
    kernel: ClassVar[Any] = staticmethod(_match)
    top_kernel: ClassVar[Any] = staticmethod(_top)

    def new_scratch(self) -> CnfScratch:
        """Allocate list cursors, and a counter for each disjunction of a rule."""
        most = int(np.diff(self.arrays.clause_start).max(initial=0))
        cursors = new_cursors(self.arrays.postings)
        return CnfScratch(self.rules, cursors, np.empty(most, np.int64))


def _build(rules: EncodedRules) -> CnfArrays:
    clauses = build_clauses(rules)
    atom_clause = list_numbers(clauses.atom_start)
    negated = np.bincount(
        atom_clause[rules.atoms.flags[clauses.atom] & NEGATED != 0],
        minlength=len(clauses.atom_start) - 1,
    )
    return CnfArrays(
        build_postings(
            rules, _measure_rules(clauses, negated), _list_mentions(clauses, atom_clause)
        ),
        clauses.start,
        negated.astype(np.int16),
        clauses.atom_start,
        clauses.atom,
    )


def _measure_rules(clauses: Clauses, negated: NDArray[np.int64]) -> Things:
    """The size of a rule is the number of its disjunctions without ∉."""
    size = np.add.reduceat(np.append(negated == 0, 0), clauses.start[:-1])
    size[empty_lists(clauses.start)] = 0
    rules = len(clauses.traits)
    owner = np.arange(rules + 1)
    return Things(size.astype(np.int64), clauses.traits, owner, owner[:-1].astype(np.int32))


def _list_mentions(clauses: Clauses, atom_clause: NDArray[np.int64]) -> Mentions:
    rule = list_numbers(clauses.start)
    first = clauses.start[rule]
    disjunction = np.arange(len(rule)) - first
    return Mentions(rule[atom_clause], clauses.atom.astype(np.int64), disjunction[atom_clause])
