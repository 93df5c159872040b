"""The CNF of encoded rules.

Rules are encoded as DNFs or programs. What they looked like is kept for their scores: the tree of
each in postfix order (`ScoreArrays`). A CNF is made of that, once for each *shape*, which is a tree
without the numbers of its atoms; a set of a million rules has few. A rule whose CNF is too large
gets one disjunction that covers it, which is necessary and no more; one that nothing covers gets
none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED
from tamis.encode.forms import spelled_out
from tamis.encode.lists import starts
from tamis.encode.rules import EncodedRules
from tamis.engines.kindex.postings import LOOSE, UNBOUNDED
from tamis.expr.model import And, Atom, Expr, Op, Or, Predicate
from tamis.expr.normalize import cnf, cover

__all__ = ["Clauses", "clauses_of"]


class Clauses(NamedTuple):
    """The disjunctions of all rules."""

    start: NDArray[np.int64]
    """Where those of each rule begin."""
    atom_start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each disjunction."""
    traits: NDArray[np.uint8]
    """For each rule, whether its disjunctions are no more than necessary (LOOSE), and whether they
    do not bound its score (UNBOUNDED)."""


_POSITIVE, _NEGATED = 1, 0
"""What stands for an atom in a shape; operators are negative numbers."""


class _Plan(NamedTuple):
    """The CNF of all rules of a shape."""

    sizes: NDArray[np.int64]
    """How many atoms each disjunction has."""
    place: NDArray[np.int64]
    """The atoms of the disjunctions: their places in the rule's code."""
    traits: int


def clauses_of(rules: EncodedRules) -> Clauses:
    """The CNF of each rule."""
    scores = spelled_out(rules.forms, rules.scores)
    negated = np.where(rules.atoms.flags & NEGATED, _NEGATED, _POSITIVE)
    shapes = scores.code.copy()
    is_atom = shapes >= 0
    shapes[is_atom] = negated[shapes[is_atom]]
    members = _by_shape(scores.start, shapes)
    plans = [_plan(np.frombuffer(shape, np.int32).tolist()) for shape in members]
    number = np.empty(rules.size, np.int64)
    for plan, own in enumerate(members.values()):
        number[own] = plan
    return _laid_out(scores.start, scores.code, plans, number)


def _by_shape(start: NDArray[np.int64], shapes: NDArray[np.int32]) -> dict[bytes, list[int]]:
    """The rules of each shape."""
    members: dict[bytes, list[int]] = {}
    buffer, bounds = shapes.tobytes(), (4 * start).tolist()
    for rule in range(len(bounds) - 1):
        members.setdefault(buffer[bounds[rule] : bounds[rule + 1]], []).append(rule)
    return members


def _plan(shape: list[int]) -> _Plan:
    tree = _tree(shape)
    clauses = cnf(tree)
    traits = 0
    if clauses is None:
        covering = cover(tree, lambda atom: 1.0)
        clauses = [] if covering is None else [covering]
        traits = LOOSE | UNBOUNDED
    places = [_place(atom) for clause in clauses for atom in clause]
    atoms = sum(code >= 0 for code in shape)
    if len(set(places)) < atoms:
        # Some atom may score, but is in no disjunction: it stands beside a TRUE.
        traits |= UNBOUNDED
    sizes = np.array([len(clause) for clause in clauses], np.int64)
    return _Plan(sizes, np.array(places, np.int64), traits)


def _tree(shape: list[int]) -> Expr:
    """The tree of a shape, with an atom of its own for each place."""
    stack: list[Expr] = []
    for place, code in enumerate(shape):
        if code >= 0:
            predicate = Predicate(str(place), Op.EQ, (0,))
            stack.append(Atom(predicate, code == _NEGATED, if_absent=code == _NEGATED))
            continue
        operands, is_or = divmod(-code - 1, 2)
        children = tuple(stack[len(stack) - operands :])
        del stack[len(stack) - operands :]
        stack.append(Or(children) if is_or else And(children))
    return stack[0]


def _place(atom: Atom) -> int:
    return int(atom.predicate.attribute)


def _laid_out(
    start: NDArray[np.int64],
    code: NDArray[np.int32],
    plans: list[_Plan],
    number: NDArray[np.int64],
) -> Clauses:
    """The disjunctions of all rules, where rule i has the plan number[i]."""
    clause_counts = np.array([len(plan.sizes) for plan in plans], np.int64)
    atom_counts = np.array([len(plan.place) for plan in plans], np.int64)
    clause_start, rule_start = starts(clause_counts[number]), starts(atom_counts[number])
    sizes = np.empty(clause_start[-1], np.int64)
    atom = np.empty(rule_start[-1], np.int32)
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(len(plans) + 1))
    for at, plan in enumerate(plans):
        own = order[bounds[at] : bounds[at + 1]]
        sizes[clause_start[own][:, None] + np.arange(len(plan.sizes))] = plan.sizes
        atom[rule_start[own][:, None] + np.arange(len(plan.place))] = code[
            start[own][:, None] + plan.place
        ]
    traits = np.array([plan.traits for plan in plans], np.uint8)
    return Clauses(clause_start, starts(sizes), atom, traits[number])
