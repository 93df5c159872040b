"""Templates: rules with slots for their literals.

:mod:`tamis.expr.text.shapes` derives them; filling one is much faster than parsing a text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from tamis.expr import validate
from tamis.expr.atom_table import AtomTable
from tamis.expr.functions.derive import make_comparable
from tamis.expr.model import And, Atom, Expr, Logic, Not, Op, Or, Predicate, Value
from tamis.expr.normalize import atoms_of, nnf

__all__ = ["Leaf", "NormalTemplate", "Slot", "Template"]


class Slot(NamedTuple):
    """The place of a literal among the values of a predicate."""

    literal: int
    """Which of the rule's literals, counted from the left."""
    convert: Callable[[str], Value]
    """Turns the literal's source, quotes included, into its value, or raises a RuleError."""


class Leaf:
    """A predicate of a template: its values are constants and slots.

    Attributes
    ----------
    attribute, op, negated
        As in :class:`~tamis.expr.model.Predicate`.
    values
        A :class:`Slot` for each value that is a literal, the value itself otherwise.
    """

    __slots__ = ("_is_text", "attribute", "negated", "op", "values")

    def __init__(
        self, attribute: str, op: Op, values: tuple[Value | Slot, ...], negated: bool
    ) -> None:
        self.attribute = attribute
        self.op = op
        self._is_text = op.is_text
        self.values = values
        self.negated = negated

    def fill(self, literals: Sequence[str]) -> Predicate:
        """The predicate with `literals` in its slots; raises a RuleError if one does not fit."""
        values = tuple(
            [
                value.convert(literals[value.literal]) if isinstance(value, Slot) else value
                for value in self.values
            ]
        )
        if self._is_text:
            return validate.build_predicate(self.attribute, self.op, values, self.negated)
        # The sentinels' predicate passed all checks but those of values, which `convert` makes.
        return Predicate(self.attribute, self.op, values, self.negated)


class Template:
    """A rule with slots for its literals.

    Attributes
    ----------
    expr
        The rule with sentinels for literals.
    leaves
        Its predicates in the order of :func:`tamis.expr.model.predicates`.
    """

    __slots__ = ("expr", "leaves")

    def __init__(self, expr: Expr, leaves: tuple[Leaf, ...]) -> None:
        self.expr = expr
        self.leaves = leaves

    def fill(self, literals: Sequence[str]) -> Expr:
        """The rule with `literals`, as their sources, in its slots.

        Raises
        ------
        RuleError
            A literal is out of range or a pattern invalid. Parse the text for the position.
        """
        return _replace_predicates(self.expr, iter([leaf.fill(literals) for leaf in self.leaves]))

    def normalize(
        self,
        logic: Logic,
        atoms: AtomTable,
        adapt: Callable[[Predicate], Predicate] | None = None,
    ) -> NormalTemplate | None:
        """The template in negation normal form; None if two of its predicates share an attribute.

        Parameters
        ----------
        atoms
            Numbers the atoms of the rules.
        adapt
            Applied to every predicate of a rule.
        """
        tree = nnf(self.expr, logic)
        own = list(atoms_of(tree))
        attributes = {atom.predicate.attribute for atom in own}
        if len(attributes) < len(self.leaves) or len(own) < len(self.leaves):
            return None
        places = [_Place.of(leaf, atom) for leaf, atom in zip(self.leaves, own, strict=True)]
        return NormalTemplate(tree, places, atoms, adapt)


class _Place(NamedTuple):
    """A predicate of a template, and the atoms that it became in the rules so far."""

    leaf: Leaf
    negated: bool
    if_absent: bool
    """As in its atom."""
    pick: Callable[[list[str]], Hashable]
    """Picks the literals of this predicate from all of a rule's."""
    numbers: dict[Hashable, int]
    """The numbers of the atoms by their literals."""

    @classmethod
    def of(cls, leaf: Leaf, atom: Atom) -> _Place:
        slots = [value.literal for value in leaf.values if isinstance(value, Slot)]
        pick = itemgetter(*slots) if slots else lambda literals: None
        return cls(leaf, atom.negated, atom.if_absent, pick, {})


class NormalTemplate:
    """A template in negation normal form: each of its rules is a list of atoms.

    No two of its predicates share an attribute. So nothing can be absorbed or merged, whatever the
    literals are, and the normal forms of its rules differ in their atoms only.

    Attributes
    ----------
    tree
        The rule with sentinels for literals: a tree of And, Or and Atom.
    """

    __slots__ = ("_adapt", "_atoms", "_places", "tree")

    def __init__(
        self,
        tree: Expr,
        places: list[_Place],
        atoms: AtomTable,
        adapt: Callable[[Predicate], Predicate] | None,
    ) -> None:
        self.tree = tree
        self._places = places
        self._atoms = atoms
        self._adapt = adapt

    def number_atoms(self, literals: list[str]) -> list[int]:
        """The numbers of the atoms of the rule with these `literals`, from left to right.

        Raises
        ------
        RuleError
            As :meth:`Template.fill`; then no atom was numbered.
        """
        result: list[int] = []
        new: list[tuple[int, Hashable, Predicate]] = []
        for leaf, _, _, pick, numbers in self._places:
            key = pick(literals)
            number = numbers.get(key)
            if number is None:
                predicate = leaf.fill(literals).positive
                adapted = predicate if self._adapt is None else self._adapt(predicate)
                new.append((len(result), key, adapted))
            result.append(number or 0)
        for at, key, predicate in new:
            place = self._places[at]
            atom = Atom(make_comparable(predicate), place.negated, place.if_absent)
            result[at] = place.numbers[key] = self._atoms.number(atom)
        return result

    def tree_of(self, atoms: list[Atom]) -> Expr:
        """The tree of the rule that has these atoms, from left to right."""
        return _replace_atoms(self.tree, iter(atoms))


def _replace_predicates(expr: Expr, leaves: Iterator[Predicate]) -> Expr:
    """`expr` with the next of `leaves` for each predicate."""
    if isinstance(expr, Predicate):
        return next(leaves)
    if isinstance(expr, Not):
        return Not(_replace_predicates(expr.child, leaves))
    assert isinstance(expr, And | Or)
    return type(expr)(tuple([_replace_predicates(child, leaves) for child in expr.children]))


def _replace_atoms(tree: Expr, atoms: Iterator[Atom]) -> Expr:
    """`tree` with the next of `atoms` for each of its own."""
    if isinstance(tree, Atom):
        return next(atoms)
    assert isinstance(tree, And | Or)
    return type(tree)(tuple([_replace_atoms(child, atoms) for child in tree.children]))
