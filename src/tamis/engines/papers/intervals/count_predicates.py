"""Counts the predicates that an engine evaluates for an event, as in the paper's figures 7 and 8.

This repeats the matching of `match.py` in plain Python, so that the kernels need not count. A
predicate evaluation is a comparison of a value with the key or interval of a node, or with the
endpoint of a listed interval, or the verification of an atom. A leaf of a Cluster Index or Segment
Tree compares nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_TRUE, Events
from tamis.engines.kernels.truth import atom_holds, load_event, new_loaded_event
from tamis.engines.papers.intervals.arrays import (
    LISTED,
    NO_NODE,
    PASS,
    TreeArrays,
    VectorArrays,
)
from tamis.engines.papers.intervals.engine import IntervalEngine

__all__ = ["Evaluation", "count_evaluations", "evaluate_event", "members", "search_tree"]


class Evaluation(NamedTuple):
    """Conjunctions or rules found, and how many predicates were evaluated to find them."""

    found: list[int]
    evaluations: int


def count_evaluations(engine: IntervalEngine, events: Events) -> NDArray[np.int64]:
    """Count the predicates that `engine` evaluates for each event."""
    rows = range(len(events.start) - 1)
    return np.array([evaluate_event(engine, events, row).evaluations for row in rows], np.int64)


def evaluate_event(engine: IntervalEngine, events: Events, row: int) -> Evaluation:
    """Find the rules that an event matches, rising."""
    event = _Event(engine, events, row)
    alive = event.narrow()
    conjunctions = [event.verify(conjunction) for conjunction in alive.found]
    programs = [event.run(program) for program in range(len(engine.rules.forms.program_rule))]
    parts = [*conjunctions, *programs]
    return Evaluation(
        sorted({rule for part in parts for rule in part.found}),
        alive.evaluations + sum(part.evaluations for part in parts),
    )


def search_tree(trees: TreeArrays, attribute: int, code: int) -> Evaluation:
    """Find the conjunctions for a code in an attribute's tree, in the order of the search."""
    found: list[int] = []
    evaluations = 0
    node = int(trees.root[attribute])
    while node != NO_NODE:
        kind, low, high, left, right = trees.node[node].tolist()
        evaluations += kind != PASS or left != NO_NODE
        is_within = kind != PASS and low <= code <= high
        if kind == LISTED:
            listed = _search_list(trees, node, code)
            found += listed.found
            evaluations += listed.evaluations if not is_within else 0
        elif kind == PASS or is_within:
            found += members(trees.vector, node)
        node = NO_NODE if is_within else (left if code < low else right)
    return Evaluation(found, evaluations)


def members(vectors: VectorArrays, number: int) -> list[int]:
    """The conjunctions in a bit vector, rising."""
    run = slice(*vectors.start[number : number + 2])
    places, words = vectors.place[run].tolist(), vectors.word[run].tolist()
    return [
        64 * place + bit
        for place, word in zip(places, words, strict=True)
        for bit in range(64)
        if word >> bit & 1
    ]


def _search_list(trees: TreeArrays, node: int, code: int) -> Evaluation:
    """Find the listed intervals that contain a code; one more is compared, if there is one."""
    run = slice(*trees.list_start[node : node + 2])
    if code <= trees.node[node, 1]:
        conjunction, contains = trees.rising[run, 0], trees.rising[run, 1] <= code
    else:
        conjunction, contains = trees.falling[run, 0], trees.falling[run, 1] >= code
    count = int(contains.sum())
    return Evaluation(conjunction[:count].tolist(), min(count + 1, len(contains)))


class _Event:
    """One event, loaded for one engine."""

    def __init__(self, engine: IntervalEngine, events: Events, row: int) -> None:
        self._arrays, self._forms, self._atoms = (
            engine.arrays,
            engine.rules.forms,
            engine.rules.atoms,
        )
        self._code = events.code
        self._loaded = new_loaded_event(len(engine.rules.dictionary.axes), engine.rules.texts.size)
        load_event(events, row, self._loaded)

    def narrow(self) -> Evaluation:
        """Find the conjunctions that no tree rules out."""
        alive = np.ones(len(self._forms.conjunction_start) - 1, np.bool_)
        evaluations = 0
        for attribute, (begin, end) in enumerate(self._loaded.span.tolist()):
            reached = np.ones_like(alive)
            reached[members(self._arrays.mention, attribute)] = False
            for code in self._code[begin:end].tolist():
                part = search_tree(self._arrays.trees, attribute, code)
                reached[part.found] = True
                evaluations += part.evaluations
            alive &= reached
        return Evaluation(np.flatnonzero(alive).tolist(), evaluations)

    def verify(self, conjunction: int) -> Evaluation:
        """Find the rules of a conjunction, if its remaining atoms hold."""
        run = slice(*self._arrays.test_start[conjunction : conjunction + 2])
        truth = [self._holds(atom) for atom in self._arrays.test_atom[run].tolist()]
        if all(truth):
            return Evaluation(self._rules_of(conjunction), len(truth))
        to_the_end = self._arrays.to_the_end
        return Evaluation([], len(truth) if to_the_end else truth.index(False) + 1)

    def run(self, program: int) -> Evaluation:
        """Find the rule of a program, if it holds."""
        instructions = self._forms.program[self._forms.program_start[program] :]
        at, evaluations = 0, 0
        while at >= 0:
            atom, if_true, if_false = instructions[at].tolist()
            at = if_true if self._holds(atom) else if_false
            evaluations += 1
        rule = int(self._forms.program_rule[program])
        return Evaluation([rule] if at == GOTO_TRUE else [], evaluations)

    def _holds(self, atom: int) -> bool:
        return bool(atom_holds(*self._atoms, self._code, *self._loaded, atom))

    def _rules_of(self, conjunction: int) -> list[int]:
        if len(self._forms.owner) == 0:
            return [conjunction]
        run = slice(*self._forms.owner_start[conjunction : conjunction + 2])
        owners: list[int] = self._forms.owner[run].tolist()
        return owners
