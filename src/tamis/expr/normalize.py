"""Rules in the forms that engines index: NNF, DNF and CNF under a budget, and covers.

:func:`nnf` pushes every NOT down to the predicates, which become atoms: they hold or not,
independent of the logic. It keeps everything that a score depends on.

:func:`simplify` is for matching only: it merges and drops atoms without changing the answer, but
may change a score. Attributes may have several values, so `x > 3 AND x < 2` and `a = 1 AND a = 2`
can hold, unless the attribute is one of the `scalars` that a schema declares single-valued.

:func:`dnf` and :func:`cnf` expand under a budget and return None past it. Such a rule keeps its
tree, and :func:`cover` finds the atoms to index it by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import chain, product
from math import prod
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tamis.deadline import check_time
from tamis.expr.atoms import implies, intersect, unite
from tamis.expr.functions.derive import make_comparable
from tamis.expr.model import (
    FALSE,
    TRUE,
    And,
    Atom,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    all_of,
    any_of,
)

__all__ = [
    "BUDGET",
    "LONGEST",
    "MULTIPLE",
    "Clause",
    "absorb",
    "atom_of",
    "atoms_of",
    "cnf",
    "cover",
    "dnf",
    "expand",
    "is_large_cnf",
    "nnf",
    "simplify",
]

Clause: TypeAlias = tuple[Atom, ...]
"""A conjunction of a DNF, or a disjunction of a CNF."""

BUDGET: Final = 256
"""How many atoms an expansion may have, or twice the atoms of the tree if that is more."""

MULTIPLE: Final = 4
"""How many times as many conjunctions as atoms an AND of ORs may have that is expanded."""

LONGEST: Final = 200
"""The most atoms of a conjunction that is indexed as one; engines count them in bytes."""

_Atoms = TypeVar("_Atoms", bound=Collection[Hashable])

_PAIRWISE = 16
"""Up to how many atoms of one attribute are compared in pairs."""


def nnf(expr: Expr, logic: Logic) -> Expr:
    """`expr` as a tree of And, Or and Atom. De Morgan's laws hold in both logics."""
    return _nnf(expr, logic, negated=False)


def _nnf(expr: Expr, logic: Logic, negated: bool) -> Expr:
    match expr:
        case Predicate():
            return atom_of(expr, logic, negated)
        case Not():
            return _nnf(expr.child, logic, not negated)
        case Atom():
            assert not negated, "an atom's negation depends on a logic it no longer knows"
            return expr
    children = [_nnf(child, logic, negated) for child in expr.children]
    return _connect(And if isinstance(expr, And) is not negated else Or, children)


def atoms_of(tree: Expr) -> Iterator[Atom]:
    """The atoms of a tree of And, Or and Atom, from left to right."""
    if isinstance(tree, Atom):
        yield tree
    else:
        assert isinstance(tree, And | Or)
        for child in tree.children:
            yield from atoms_of(child)


def atom_of(predicate: Predicate, logic: Logic, negated: bool = False) -> Atom:
    """The atom of `predicate`, or of its negation, in a logic."""
    negated = predicate.negated is not negated
    if_absent = negated and (logic == "weak" or predicate.op is Op.PRESENT)
    return Atom(make_comparable(predicate.positive), negated, if_absent)


def _connect(kind: type[And] | type[Or], children: Iterable[Expr]) -> Expr:
    """An And or an Or of `children`, with nested ones of the same kind flattened.

    A FALSE makes an AND false. A TRUE in an OR stays: it decides the match, but not the score,
    which is the maximum over the children that hold.
    """
    check_time()
    flat: list[Expr] = []
    for child in children:
        if kind is And and child == FALSE:
            return FALSE
        if isinstance(child, kind):
            flat.extend(child.children)
        else:
            flat.append(child)
    return all_of(*flat) if kind is And else any_of(*flat)


def simplify(expr: Expr, scalars: Collection[str] = ()) -> Expr:
    """A smaller tree that matches the same events as `expr` (a tree of And, Or and Atom).

    Parameters
    ----------
    scalars
        Attributes known to have at most one value.
    """
    if isinstance(expr, Atom):
        return expr
    assert isinstance(expr, And | Or)
    kind, decisive = (And, FALSE) if isinstance(expr, And) else (Or, TRUE)
    connected = _connect(kind, [simplify(child, scalars) for child in expr.children])
    if not isinstance(connected, kind):
        return connected
    if decisive in connected.children:
        return decisive
    atoms = [child for child in connected.children if isinstance(child, Atom)]
    trees = [child for child in connected.children if not isinstance(child, Atom)]
    reduced = _reduce_all(atoms, scalars) if kind is And else _reduce_any(atoms)
    if reduced is None:
        return decisive
    return _connect(kind, [*reduced, *dict.fromkeys(trees)])


def _by_attribute(atoms: Iterable[Atom]) -> list[list[Atom]]:
    groups: dict[str, dict[Atom, None]] = {}
    for atom in atoms:
        groups.setdefault(atom.predicate.attribute, {})[atom] = None
    return [list(group) for group in groups.values()]


def _reduce_all(atoms: Iterable[Atom], scalars: Collection[str]) -> list[Atom] | None:
    """Fewer atoms with the same AND as `atoms`; None if they contradict each other."""
    result: list[Atom] = []
    for group in _by_attribute(atoms):
        if len(group) > 1:
            group = _drop_implied(unite(group, negated=True))
            if group[0].predicate.attribute in scalars:
                narrowed = intersect(group)
                if narrowed is None:
                    return None
                group = narrowed
        result += group
    return result


def _reduce_any(atoms: Iterable[Atom]) -> list[Atom]:
    """Fewer atoms with the same OR as `atoms`."""
    result: list[Atom] = []
    for group in _by_attribute(atoms):
        if len(group) > 1:
            group = _drop_implying(unite(_allow_absent(group), negated=False))
        result += group
    return result


def _allow_absent(group: list[Atom]) -> list[Atom]:
    """Store `x IS NULL OR x NOT IN (…)` as one atom: the negated one, true on absence."""
    is_null = [a for a in group if a.predicate.op is Op.PRESENT and a.negated]
    negated = [a for a in group if a.predicate.op is not Op.PRESENT and a.negated]
    if not is_null or not negated:
        return group
    allowed = [Atom(a.predicate, negated=True, if_absent=True) for a in negated]
    return [*(a for a in group if not a.negated), *allowed]


def _drop_implied(group: list[Atom]) -> list[Atom]:
    """Drop the atoms of an AND that another atom implies.

    `x IS NOT NULL AND x NOT IN (…)`, read in the weak logic, becomes one atom first: the
    negated one, false on absence.
    """
    if any(a.predicate.op is Op.PRESENT and not a.negated for a in group):
        group = list(
            dict.fromkeys(
                Atom(a.predicate, a.negated, if_absent=False)
                if a.predicate.op is not Op.PRESENT
                else a
                for a in group
            )
        )
    return _keep_strongest(group, lambda a, b: implies(a, b))


def _drop_implying(group: list[Atom]) -> list[Atom]:
    """Drop the atoms of an OR that imply another atom."""
    return _keep_strongest(group, lambda a, b: implies(b, a))


def _keep_strongest(group: list[Atom], beats: Callable[[Atom, Atom], bool]) -> list[Atom]:
    """`group` without the atoms that another one beats; of two equal ones the first stays."""
    if len(group) > _PAIRWISE:
        return group
    kept: list[Atom] = []
    for atom in group:
        check_time()
        if not any(beats(other, atom) for other in kept):
            kept = [other for other in kept if not beats(atom, other)]
            kept.append(atom)
    return kept


class _Size(NamedTuple):
    clauses: int
    atoms: int


def dnf(expr: Expr, budget: int = BUDGET, scalars: Collection[str] = ()) -> list[Clause] | None:
    """The conjunctions whose OR is `expr` (simplified); None if they are too many.

    They may have `budget` atoms in all, or twice as many as the tree if that is more, so the
    result is linear in the size of any rule. TRUE is one empty conjunction.
    """
    clauses = expand(expr, Or, budget)
    if clauses is None:
        return None
    reduced = (_reduce_all(clause, scalars) for clause in clauses)
    return absorb([tuple(clause) for clause in reduced if clause is not None])


def is_large_cnf(sizes: Iterable[int]) -> bool:
    """Whether an AND of ORs of these sizes is kept, since it has many more conjunctions than atoms.

    Engines find a few conjunctions faster than one program, but not any number of them.
    """
    listed = list(sizes)
    atoms, conjunctions = sum(listed), prod(listed)
    return len(listed) > 1 and (
        conjunctions > MULTIPLE * atoms or conjunctions * len(listed) > max(BUDGET, 2 * atoms)
    )


def cnf(expr: Expr, budget: int = BUDGET) -> list[Clause] | None:
    """The disjunctions whose AND is `expr` (simplified); None if they are too many.

    FALSE is one empty disjunction.
    """
    clauses = expand(expr, And, budget)
    if clauses is None:
        return None
    return absorb([tuple(_reduce_any(clause)) for clause in clauses])


def expand(expr: Expr, outer: type[And] | type[Or], budget: int = BUDGET) -> list[Clause] | None:
    """The clauses of a DNF (`outer` is Or) or a CNF, before any are merged or dropped."""
    limit = max(budget, 2 * _atom_count(expr))
    if _estimate_expansion(expr, outer, limit).atoms > limit:
        return None
    return _clauses(expr, outer)


def _atom_count(expr: Expr) -> int:
    if isinstance(expr, Atom):
        return 1
    assert isinstance(expr, And | Or)
    return sum(_atom_count(child) for child in expr.children)


def _estimate_expansion(expr: Expr, outer: type[And] | type[Or], limit: int) -> _Size:
    """How large the expansion would be; past `limit` the numbers are not exact."""
    if isinstance(expr, Atom):
        return _Size(1, 1)
    assert isinstance(expr, And | Or)
    sizes = [_estimate_expansion(child, outer, limit) for child in expr.children]
    if isinstance(expr, outer):
        return _Size(sum(s.clauses for s in sizes), sum(s.atoms for s in sizes))
    clauses, atoms = 1, 0
    for size in sizes:
        clauses, atoms = clauses * size.clauses, atoms * size.clauses + size.atoms * clauses
        if clauses > limit or atoms > limit:
            return _Size(limit + 1, limit + 1)
    return _Size(clauses, atoms)


def _clauses(expr: Expr, outer: type[And] | type[Or]) -> list[Clause]:
    if isinstance(expr, Atom):
        return [(expr,)]
    assert isinstance(expr, And | Or)
    parts = [_clauses(child, outer) for child in expr.children]
    if isinstance(expr, outer):
        return [clause for part in parts for clause in part]
    return [tuple(chain.from_iterable(choice)) for choice in product(*parts)]


def absorb(clauses: list[_Atoms]) -> list[_Atoms]:
    """Drop clauses that contain all the atoms of another: `a OR (a AND b)` is `a`.

    Atoms may be represented by anything hashable, such as their numbers.
    """
    unique = list({frozenset(clause): clause for clause in clauses}.items())
    if len(unique) > 4 * _PAIRWISE:
        return [clause for _, clause in unique]
    return [clause for atoms, clause in unique if not any(other < atoms for other, _ in unique)]


def cover(expr: Expr, cost: Callable[[Atom], float]) -> Clause | None:
    """The cheapest set of atoms such that an event that satisfies `expr` satisfies one of them.

    All of them need their attribute to be present, so an event finds them by its own values.
    None if there are no such atoms: an event may match the rule by lacking attributes.

    Parameters
    ----------
    expr
        A tree of And, Or and Atom.
    cost
        The cost of indexing a rule by an atom, for example how often events satisfy it.
    """
    found = _cover(expr, cost)
    return None if found is None else tuple(dict.fromkeys(found.atoms))


class _Cover(NamedTuple):
    cost: float
    atoms: list[Atom]


def _cover(expr: Expr, cost: Callable[[Atom], float]) -> _Cover | None:
    if isinstance(expr, Atom):
        if expr.if_absent:
            return None
        if expr.negated:
            # A negated atom is found by the presence of its attribute.
            expr = Atom(Predicate(expr.predicate.attribute, Op.PRESENT), False, False)
        return _Cover(cost(expr), [expr])
    assert isinstance(expr, And | Or)
    covers = [_cover(child, cost) for child in expr.children]
    if isinstance(expr, And):
        known = [c for c in covers if c is not None]
        return min(known, key=lambda c: c.cost, default=None)
    total = 0.0
    atoms: list[Atom] = []
    for child in covers:
        if child is None:
            return None
        total += child.cost
        atoms += child.atoms
    return _Cover(total, atoms)
