"""Finds the fewest predicates that would have to change for a rule to match an event.

A rule holds if all atoms of one *way* through its tree hold. A way through an AND combines ways
through all children; a way through an OR is a way through one child. The obstacles of a way are its
atoms that do not hold, without those that follow from others: if an attribute has to be absent, its
weak negations hold as well. Ways that contradict themselves are dropped: they need a predicate to
hold and not to hold, or an attribute to be present and absent.

Otherwise predicates are treated as independent. Whether one value could satisfy all predicates on
an attribute is not checked, since an attribute may have several values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, Final, TypeAlias

import msgspec

from tamis.deadline import check_time
from tamis.expr.analysis.explain import format_values, values_to_json
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent
from tamis.expr.functions.derive import describe_attribute, make_comparable
from tamis.expr.html import write_box, write_text
from tamis.expr.model import And, Atom, Expr, Logic, Op, Or, Predicate, Value, predicates
from tamis.expr.normalize import atoms_of, nnf
from tamis.expr.text.write import to_sql

__all__ = ["Obstacle", "Obstacles", "find_obstacles"]

_MOST_WAYS: Final = 64
"""How many ways through a part of a rule are kept: those with the fewest obstacles."""

_Way: TypeAlias = frozenset[Atom]


class Obstacle(msgspec.Struct, frozen=True):
    """A predicate that prevents a match."""

    text: str
    """The condition that would have to hold."""
    attribute: str
    values: tuple[Value, ...]
    """The event's values of that attribute."""

    def __str__(self) -> str:
        return f"{self.text}   [{self.attribute} {format_values(self.values)}]"

    def to_json(self) -> dict[str, Any]:
        """The same as strings, numbers, booleans and lists."""
        return {
            "text": self.text,
            "attribute": self.attribute,
            "values": values_to_json(self.values),
        }


class Obstacles(msgspec.Struct, frozen=True):
    """The changes that would make a rule match.

    Prints as lines; :meth:`to_json` gives the same as plain data.
    """

    changes: tuple[Obstacle, ...] | None
    """The fewest that suffice: empty if the rule matches, None if no change would do."""
    is_fewest: bool = True
    """Whether fewer changes certainly do not suffice. This is uncertain for rules with the same
    predicate in many places."""
    invalid: str | None = None
    """When the rule is valid, if it is not valid at the time asked for."""

    def __str__(self) -> str:
        if self.invalid is None:
            return self._spell_changes()
        rest = f"\n{self._spell_changes()}" if self.changes != () else ""
        return f"it is not valid: {self.invalid}{rest}"

    def _repr_html_(self) -> str:
        first, *rest = str(self).splitlines()
        return write_box(first, *(f"<div>{write_text(line.strip())}</div>" for line in rest))

    def _spell_changes(self) -> str:
        if self.changes is None:
            return "no event could match"
        if not self.changes:
            return "it matches"
        perhaps = "" if self.is_fewest else ", or perhaps fewer"
        return "\n  ".join([f"it would match with{perhaps}:", *map(str, self.changes)])

    def to_json(self) -> dict[str, Any]:
        """The same as dicts, lists, strings, numbers and booleans."""
        changes = self.changes
        return {
            "changes": None if changes is None else [change.to_json() for change in changes],
            "is_fewest": self.is_fewest,
            "invalid": self.invalid,
        }


def find_obstacles(expr: Expr, event: FlatEvent, logic: Logic) -> Obstacles:
    """Find what keeps `expr` from matching a flat event."""
    tree = nnf(expr, logic)
    atoms = list(atoms_of(tree))
    failing = {atom: None for atom in atoms if not evaluate_flat(atom, event, logic)}
    search = _Search(failing.keys(), 1 if _are_independent(atoms) else _MOST_WAYS)
    ways = search.ways(tree)
    if not ways:
        return Obstacles(None)
    needed = _obstacles_of(ways[0], failing.keys())
    said = {make_comparable(part.positive): part.positive for part in predicates(expr)}
    changes = [_obstacle(atom, said[atom.predicate], event) for atom in failing if atom in needed]
    return Obstacles(tuple(changes), not (changes and search.has_dropped))


class _Search:
    """Finds the ways with the fewest obstacles.

    Parameters
    ----------
    failing
        The atoms that do not hold.
    most
        How many ways are kept for each part. One is enough if the atoms are independent: then the
        best way through the whole consists of the best ways through its parts.
    """

    def __init__(self, failing: Set[Atom], most: int) -> None:
        self._failing = failing
        self._most = most
        self.has_dropped = False
        """Whether ways were dropped beyond `most`."""

    def ways(self, tree: Expr) -> list[_Way]:
        """The ways through `tree`, best first."""
        if isinstance(tree, Atom):
            return [frozenset([tree])]
        assert isinstance(tree, And | Or)
        if isinstance(tree, Or):
            return self._best(way for child in tree.children for way in self.ways(child))
        found = [_Way()]
        for child in tree.children:
            some = self.ways(child)
            found = self._best(a | b for a in found for b in some if not _contradict(a, b))
        return found

    def _best(self, ways: Iterable[_Way]) -> list[_Way]:
        distinct = sorted(dict.fromkeys(ways), key=self._price)
        self.has_dropped |= len(distinct) > self._most > 1
        return distinct[: self._most]

    def _price(self, way: _Way) -> int:
        check_time()
        return len(_obstacles_of(way, self._failing))


def _are_independent(atoms: list[Atom]) -> bool:
    """Whether no two atoms can contradict or imply each other."""
    predicates = Counter(atom.predicate for atom in atoms)
    attributes = Counter(predicate.attribute for predicate in predicates)
    return all(
        count == 1 and (predicate.op is not Op.PRESENT or attributes[predicate.attribute] == 1)
        for predicate, count in predicates.items()
    )


def _obstacles_of(way: _Way, failing: Set[Atom]) -> set[Atom]:
    """The atoms of a way that have to change, each by itself."""
    lacking = _find_lacking(way)
    needed = Counter(a.predicate.attribute for a in way if not a.if_absent)
    return {
        atom
        for atom in way & failing
        if not (
            needed[atom.predicate.attribute] > 1 and not atom.negated
            if atom.predicate.op is Op.PRESENT
            else atom.if_absent and atom.predicate.attribute in lacking
        )
    }


def _contradict(some: _Way, others: _Way) -> bool:
    check_time()
    wanted = {(atom.predicate, atom.negated) for atom in some}
    return (
        any((atom.predicate, not atom.negated) in wanted for atom in others)
        or not _find_lacking(some).isdisjoint(_find_needed(others))
        or not _find_lacking(others).isdisjoint(_find_needed(some))
    )


def _find_lacking(way: _Way) -> set[str]:
    """The attributes that have to be absent."""
    return {a.predicate.attribute for a in way if a.predicate.op is Op.PRESENT and a.negated}


def _find_needed(way: _Way) -> set[str]:
    """The attributes that have to be present."""
    return {a.predicate.attribute for a in way if not a.if_absent}


def _obstacle(atom: Atom, said: Predicate, event: FlatEvent) -> Obstacle:
    """The obstacle of an atom; `said` is its predicate as the rule has it."""
    wanted = Predicate(said.attribute, said.op, said.values, atom.negated)
    return Obstacle(to_sql(wanted), *describe_attribute(said, event))
