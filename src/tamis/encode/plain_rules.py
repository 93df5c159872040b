"""Plain rules: two levels of AND and OR over common predicates, read without a parse.

``a = 1 AND b > 2``, an OR of several such, ``(a = 1 OR b > 2) AND c = 3``: most rules of large sets
are like that. `tamis.expr.text.pieces` says why their predicates can be read one by one, and what
they look like. Where no atoms can be merged, numbers are all that it takes to have a rule's form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from tamis.encode.rule_forms import and_code, or_code
from tamis.expr.model import LOGICS, And, Atom, Expr, Logic, Or, Predicate
from tamis.expr.normalize import BUDGET, absorb, atom_of
from tamis.expr.text.pieces import AND, OR, is_half, piece_predicate

__all__ = ["LONGEST", "Plain", "PlainTexts"]

LONGEST = 200
"""The most atoms a conjunction may have; engines count them in bytes."""

_MOST_PARTS = 64
"""The most parts that a plain rule has; fewer than the atoms of a conjunction."""

_HALF = -1
"""In place of an atom's number: the text is a BETWEEN that was cut at its AND."""


class Plain(NamedTuple):
    """An OR of ANDs or an AND of ORs, by the numbers of its atoms."""

    outer: type[And] | type[Or]
    parts: list[list[int]]
    """The operands of `outer`; one atom stands for itself."""

    @property
    def score(self) -> list[int]:
        """The score code of the rule."""
        inner_code, outer_code = (or_code, and_code) if self.outer is And else (and_code, or_code)
        code: list[int] = []
        for numbers in self.parts:
            code += numbers
            if len(numbers) > 1:
                code.append(inner_code(len(numbers)))
        if len(self.parts) > 1:
            code.append(outer_code(len(self.parts)))
        return code

    def tree(self, atoms: Sequence[Atom]) -> Expr:
        """The rule in negation normal form."""
        inner = Or if self.outer is And else And
        parts = [[atoms[number] for number in numbers] for numbers in self.parts]
        trees = [inner(tuple(part)) if len(part) > 1 else part[0] for part in parts]
        return self.outer(tuple(trees)) if len(trees) > 1 else trees[0]

    def conjunctions(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """The DNF, as `simplify` and `dnf` have it; None where that takes a look at the atoms.

        Parameters
        ----------
        attributes
            The attribute of each atom.
        """
        return self._expanded(attributes) if self.outer is And else self._absorbed(attributes)

    def _absorbed(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """The parts, if none has two atoms of an attribute and at most one has but one atom."""
        for numbers in self.parts:
            if len({attributes[number] for number in numbers}) < len(numbers):
                return None
        if len(self.parts) == 1:
            return self.parts
        single, several = _by_size(self.parts)
        return None if len(single) > 1 else absorb([*single, *several])

    def _expanded(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """An atom of each part, in all ways, if the rule has but one atom of each attribute."""
        distinct = {number for numbers in self.parts for number in numbers}
        if len({attributes[number] for number in distinct}) < len(distinct):
            return None
        if any(len(set(numbers)) < len(numbers) for numbers in self.parts):
            return None
        single, several = _by_size(self.parts)
        parts = [list(numbers) for numbers in dict.fromkeys(map(tuple, [*single, *several]))]
        clauses, atoms = prod(map(len, parts)), sum(map(len, parts))
        if clauses * len(parts) > max(BUDGET, 2 * atoms):
            return None
        return absorb([list(dict.fromkeys(choice)) for choice in product(*parts)])


class PlainTexts:
    """Reads plain rules, each distinct predicate once.

    Parameters
    ----------
    number
        Gives an atom its number.
    adapt
        Applied to every predicate.
    """

    def __init__(
        self, number: Callable[[Atom], int], adapt: Callable[[Predicate], Predicate] | None
    ) -> None:
        self._number = number
        self._adapt = adapt
        self._known: dict[Logic, dict[str, int]] = {logic: {} for logic in LOGICS}
        """The numbers of the atoms of predicates by their text; _HALF for half a BETWEEN."""

    @property
    def known(self) -> list[dict[str, int]]:
        """What was remembered."""
        return list(self._known.values())

    def read(self, text: str, logic: Logic) -> Plain | None:
        """The rule, or None if it is not plain. Nothing is numbered unless it is a rule."""
        known = self._known[logic]
        unknown: _Unknown = []
        plain = self._or_of_ands(text, known, unknown)
        if plain is None:
            unknown.clear()
            plain = self._and_of_ors(text, known, unknown)
            if plain is None:
                return None
        for numbers, place, piece, predicate in unknown:
            numbers[place] = known[piece] = self._number(atom_of(predicate, logic))
        return plain

    def _or_of_ands(self, text: str, known: dict[str, int], unknown: _Unknown) -> Plain | None:
        parts: list[list[int]] = []
        cuts = text.split(OR, _MOST_PARTS)
        if len(cuts) > _MOST_PARTS:
            return None
        for cut in cuts:
            inner = cut[1:-1] if cut[:1] == "(" and cut[-1:] == ")" else cut
            numbers = self._conjunction(inner, known, unknown)
            if numbers is None:
                return None
            parts.append(numbers)
        return Plain(Or, parts)

    def _conjunction(self, text: str, known: dict[str, int], unknown: _Unknown) -> list[int] | None:
        numbers: list[int] = []
        half = ""
        cuts = text.split(AND, 2 * LONGEST)
        if len(cuts) > 2 * LONGEST:
            return None
        for cut in cuts:
            piece = half + cut
            number = known.get(piece)
            if number is None:
                number = self._read(piece, known, unknown, numbers)
                if number is None:
                    return None
            if number == _HALF:
                half = piece + AND
            else:
                half = ""
                numbers.append(number)
        return None if half or len(numbers) > LONGEST else numbers

    def _and_of_ors(self, text: str, known: dict[str, int], unknown: _Unknown) -> Plain | None:
        parts: list[list[int]] = []
        half = ""
        cuts = text.split(AND, 2 * _MOST_PARTS)
        if len(cuts) > 2 * _MOST_PARTS:
            return None
        for cut in _closed(cuts):
            part = half + cut
            numbers = self._disjunction(part, known, unknown)
            if numbers is None:
                return None
            if numbers == [_HALF]:
                half = part + AND
            else:
                half = ""
                parts.append(numbers)
        return None if half or len(parts) > _MOST_PARTS else Plain(And, parts)

    def _disjunction(self, text: str, known: dict[str, int], unknown: _Unknown) -> list[int] | None:
        numbers: list[int] = []
        in_parentheses = text[:1] == "(" and text[-1:] == ")"
        for piece in text[1:-1].split(OR) if in_parentheses else (text,):
            number = known.get(piece)
            if number is None:
                number = self._read(piece, known, unknown, numbers)
            if number is None or (number == _HALF and in_parentheses):
                return None
            numbers.append(number)
        return numbers

    def _read(
        self, piece: str, known: dict[str, int], unknown: _Unknown, numbers: list[int]
    ) -> int | None:
        """A number in place of that of the atom, which is then `unknown`; None for no predicate."""
        predicate = piece_predicate(piece)
        if predicate is not None:
            adapted = predicate if self._adapt is None else self._adapt(predicate)
            unknown.append((numbers, len(numbers), piece, adapted))
            return 0
        if is_half(piece):
            known[piece] = _HALF
            return _HALF
        return None


_Unknown: TypeAlias = list[tuple[list[int], int, str, Predicate]]
"""Where the number of an atom goes, and the predicate that was not seen before."""


def _closed(cuts: list[str]) -> Iterator[str]:
    """`cuts`, joined again where the cut was inside of parentheses."""
    opened: list[str] = []
    depth = 0
    for cut in cuts:
        opened.append(cut)
        depth += cut.count("(") - cut.count(")")
        if depth == 0:
            yield AND.join(opened)
            opened.clear()
    if opened:
        yield AND.join(opened)


def _by_size(parts: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The parts of one atom, which `simplify` puts first, and those of several."""
    single = [numbers for numbers in parts if len(numbers) == 1]
    return single, [numbers for numbers in parts if len(numbers) > 1]
