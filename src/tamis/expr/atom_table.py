"""Distinct atoms and their numbers, shared by reading rules and encoding them."""

from __future__ import annotations

from tamis.expr.model import Atom

__all__ = ["AtomTable"]


class AtomTable:
    """Numbers atoms in the order in which they come; equal atoms have the same number.

    Attributes
    ----------
    atoms
        The atoms by number.
    attributes
        The attribute of each atom.
    """

    __slots__ = ("atoms", "attributes", "numbers")

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.attributes: list[str] = []
        self.numbers: dict[Atom, int] = {}

    def number(self, atom: Atom) -> int:
        """The number of `atom`, a new one if it has none."""
        number = self.numbers.setdefault(atom, len(self.atoms))
        if number == len(self.atoms):
            self.atoms.append(atom)
            self.attributes.append(atom.predicate.attribute)
        return number
