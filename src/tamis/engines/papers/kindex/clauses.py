"""The CNF of encoded rules.

Rules are encoded as DNFs or programs, but their trees are kept in postfix order for scoring
(`ScoreArrays`). A tree that is a CNF is taken as it is. The others are converted, once for each
*shape*: a tree without the numbers of its atoms. A rule whose CNF would be too large gets a single
disjunction that covers it, which is necessary but not sufficient; a rule without a cover gets none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED
from tamis.encode.ragged import concatenate_lists, starts, take_lists
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.engines.normal_forms import AND, OR, are_normal, take_parts
from tamis.engines.papers.kindex.postings import LOOSE, UNBOUNDED
from tamis.expr.model import And, Atom, Expr, Op, Or, Predicate
from tamis.expr.normalize import cnf, cover

__all__ = ["Clauses", "build_clauses"]


class Clauses(NamedTuple):
    """The disjunctions of all rules."""

    start: NDArray[np.int64]
    """Where the disjunctions of each rule begin."""
    atom_start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each disjunction."""
    traits: NDArray[np.uint8]
    """For each rule, whether its disjunctions are necessary but not sufficient (LOOSE), and whether
    they do not bound its score (UNBOUNDED)."""


_POSITIVE, _NEGATED = 1, 0
"""In place of an atom in a shape; operators are negative numbers."""


class _Plan(NamedTuple):
    """The CNF of all rules of a shape."""

    sizes: NDArray[np.int64]
    """The number of atoms of each disjunction."""
    place: NDArray[np.int64]
    """The places of the disjunctions' atoms in the rule's code."""
    traits: int


class _RuleClauses(NamedTuple):
    """Disjunctions, rule by rule."""

    sizes: tuple[NDArray[np.int64], NDArray[np.int64]]
    """The number of atoms of each disjunction, by rule."""
    atoms: tuple[NDArray[np.int64], NDArray[np.int32]]
    """The atoms of all disjunctions, by rule."""
    traits: NDArray[np.uint8]


def build_clauses(rules: EncodedRules) -> Clauses:
    """Build the CNF of each rule."""
    scores = expand_scores(rules.forms, rules.scores)
    normal = are_normal(scores.start, scores.code, outer=AND)
    order = np.argsort(~normal, kind="stable")
    as_it_is, others = np.split(order, [int(normal.sum())])
    parts = take_parts(*take_lists(scores.start, scores.code, as_it_is), inner=OR)
    first = _RuleClauses(*parts, np.zeros(len(as_it_is), np.uint8))
    second = _apply_plans(rules, *take_lists(scores.start, scores.code, others))
    place = np.argsort(order)
    start, sizes = take_lists(*concatenate_lists([first.sizes, second.sizes]), place)
    _, atom = take_lists(*concatenate_lists([first.atoms, second.atoms]), place)
    traits = np.concatenate((first.traits, second.traits))[place]
    return Clauses(start, starts(sizes), atom, traits)


def _apply_plans(
    rules: EncodedRules, start: NDArray[np.int64], code: NDArray[np.int32]
) -> _RuleClauses:
    """The disjunctions of other trees, by the plan of each shape."""
    negated = np.where(rules.atoms.flags & NEGATED, _NEGATED, _POSITIVE)
    shapes = code.copy()
    shapes[code >= 0] = negated[code[code >= 0]]
    members = _group_by_shape(start, shapes)
    plans = [_plan_shape(np.frombuffer(shape, np.int32).tolist()) for shape in members]
    number = np.empty(len(start) - 1, np.int64)
    for plan, own in enumerate(members.values()):
        number[own] = plan
    return _lay_out(start, code, plans, number)


def _group_by_shape(start: NDArray[np.int64], shapes: NDArray[np.int32]) -> dict[bytes, list[int]]:
    """List the rules of each shape."""
    members: dict[bytes, list[int]] = {}
    buffer, bounds = shapes.tobytes(), (4 * start).tolist()
    for rule in range(len(bounds) - 1):
        members.setdefault(buffer[bounds[rule] : bounds[rule + 1]], []).append(rule)
    return members


def _plan_shape(shape: list[int]) -> _Plan:
    tree = _build_tree(shape)
    clauses = cnf(tree)
    traits = 0
    if clauses is None:
        covering = cover(tree, lambda atom: 1.0)
        clauses = [] if covering is None else [covering]
        traits = LOOSE | UNBOUNDED
    places = [_place(atom) for clause in clauses for atom in clause]
    atoms = sum(code >= 0 for code in shape)
    if len(set(places)) < atoms:
        # An atom beside a TRUE may score, but is in no disjunction.
        traits |= UNBOUNDED
    sizes = np.array([len(clause) for clause in clauses], np.int64)
    return _Plan(sizes, np.array(places, np.int64), traits)


def _build_tree(shape: list[int]) -> Expr:
    """The tree of a shape, with a distinct atom for each place."""
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


def _lay_out(
    start: NDArray[np.int64],
    code: NDArray[np.int32],
    plans: list[_Plan],
    number: NDArray[np.int64],
) -> _RuleClauses:
    """The disjunctions of rules; rule i has the plan number[i]."""
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
    return _RuleClauses((clause_start, sizes), (rule_start, atom), traits[number])
