"""The fast road for rules of two levels: their predicates are read one by one, each once.

``a37 = 39 AND a348 BETWEEN 28 AND 35``, an OR of several such, ``(a = 1 OR b > 2) AND c = 3``: most
rules of large sets look like that. Over hundreds of attributes a million of them have as many
shapes, but far fewer distinct predicates. So a text is cut at each OR and each AND. A piece that is
a complete predicate by itself means the same in the whole rule, and is read only once
(:mod:`tamis.expr.text.predicates`); from then on its text stands for the number of its atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from tamis.expr.atom_table import AtomTable
from tamis.expr.model import LOGICS, And, Atom, Expr, Logic, Or, Predicate
from tamis.expr.normalize import BUDGET, LONGEST, absorb, atom_of
from tamis.expr.text.predicates import is_half_between, read_predicate

__all__ = ["TwoLevelReader", "TwoLevelRule"]

_AND: Final = " AND "
_OR: Final = " OR "
"""Where a text is cut. A rule that spells them otherwise takes another road."""

_MOST_PARTS: Final = 64
"""The most operands of the outer AND or OR; fewer than the atoms of a conjunction."""

_HALF: Final = -1
"""In place of an atom's number: the piece is a BETWEEN that was cut at its AND."""


class TwoLevelRule(NamedTuple):
    """An OR of ANDs or an AND of ORs, in negation normal form, by the numbers of its atoms."""

    outer: type[And] | type[Or]
    parts: list[list[int]]
    """The operands of `outer`; one atom stands for itself."""

    def tree(self, atoms: Sequence[Atom]) -> Expr:
        """The tree of the rule."""
        inner = Or if self.outer is And else And
        parts = [[atoms[number] for number in numbers] for numbers in self.parts]
        trees = [inner(tuple(part)) if len(part) > 1 else part[0] for part in parts]
        return self.outer(tuple(trees)) if len(trees) > 1 else trees[0]

    def clauses(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """The clauses of an AND of ORs that `simplify` would leave, single atoms first.

        None where it would have to compare atoms: two of one attribute in a clause, or alone.
        """
        single, several = _split_by_size(self.parts)
        for numbers in ([number for (number,) in single], *several):
            if len(numbers) > 1 and len({attributes[n] for n in numbers}) < len(numbers):
                return None
        return single + [list(numbers) for numbers in dict.fromkeys(map(tuple, several))]

    def conjunctions(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """The DNF that `simplify` and `dnf` would give; None where they have to compare atoms.

        Parameters
        ----------
        attributes
            The attribute of each atom.
        """
        return self._expand(attributes) if self.outer is And else self._absorb(attributes)

    def _absorb(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """The parts, if none has two atoms of an attribute and at most one has a single atom."""
        for numbers in self.parts:
            if len({attributes[number] for number in numbers}) < len(numbers):
                return None
        if len(self.parts) == 1:
            return self.parts
        single, several = _split_by_size(self.parts)
        return None if len(single) > 1 else absorb([*single, *several])

    def _expand(self, attributes: Sequence[str]) -> list[list[int]] | None:
        """All choices of an atom from each part, if the rule has one atom of each attribute."""
        distinct = {number for numbers in self.parts for number in numbers}
        if len({attributes[number] for number in distinct}) < len(distinct):
            return None
        if any(len(set(numbers)) < len(numbers) for numbers in self.parts):
            return None
        single, several = _split_by_size(self.parts)
        parts = [list(numbers) for numbers in dict.fromkeys(map(tuple, [*single, *several]))]
        clauses, atoms = prod(map(len, parts)), sum(map(len, parts))
        if clauses * len(parts) > max(BUDGET, 2 * atoms):
            return None
        return absorb([list(dict.fromkeys(choice)) for choice in product(*parts)])


class TwoLevelReader:
    """Reads rules of two levels.

    Parameters
    ----------
    atoms
        Numbers the atoms.
    adapt
        Applied to every predicate.
    """

    def __init__(
        self, atoms: AtomTable, adapt: Callable[[Predicate], Predicate] | None = None
    ) -> None:
        self._atoms = atoms
        self._adapt = adapt
        self._known: dict[Logic, dict[str, int]] = {logic: {} for logic in LOGICS}

    @property
    def known(self) -> list[dict[str, int]]:
        """For each logic the atoms' numbers by the texts of their predicates; _HALF for a half."""
        return list(self._known.values())

    def read(self, text: str, logic: Logic) -> TwoLevelRule | None:
        """The rule; None if the text has other levels, or is not a rule.

        Atoms are numbered only once the whole rule was read.
        """
        known = self._known[logic]
        pending: _Pending = []
        roads = [self._or_of_ands, self._and_of_ors]
        if _has_or_in_parentheses(text):
            roads.reverse()
        rule = roads[0](text, known, pending)
        if rule is None:
            pending.clear()
            rule = roads[1](text, known, pending)
            if rule is None:
                return None
        for numbers, place, piece, predicate in pending:
            numbers[place] = known[piece] = self._atoms.number(atom_of(predicate, logic))
        return rule

    def _or_of_ands(
        self, text: str, known: dict[str, int], pending: _Pending
    ) -> TwoLevelRule | None:
        parts: list[list[int]] = []
        cuts = text.split(_OR, _MOST_PARTS)
        if len(cuts) > _MOST_PARTS:
            return None
        for cut in cuts:
            inner = cut[1:-1] if cut[:1] == "(" and cut[-1:] == ")" else cut
            numbers = self._conjunction(inner, known, pending)
            if numbers is None:
                return None
            parts.append(numbers)
        return TwoLevelRule(Or, parts)

    def _conjunction(self, text: str, known: dict[str, int], pending: _Pending) -> list[int] | None:
        numbers: list[int] = []
        half = ""
        cuts = text.split(_AND, 2 * LONGEST)
        if len(cuts) > 2 * LONGEST:
            return None
        for cut in cuts:
            piece = half + cut
            number = known.get(piece)
            if number is None:
                number = self._read_piece(piece, known, pending, numbers)
                if number is None:
                    return None
            if number == _HALF:
                half = piece + _AND
            else:
                half = ""
                numbers.append(number)
        return None if half or len(numbers) > LONGEST else numbers

    def _and_of_ors(
        self, text: str, known: dict[str, int], pending: _Pending
    ) -> TwoLevelRule | None:
        parts: list[list[int]] = []
        half = ""
        cuts = text.split(_AND, 2 * _MOST_PARTS)
        if len(cuts) > 2 * _MOST_PARTS:
            return None
        for cut in _rejoin_in_parentheses(cuts):
            part = half + cut
            numbers = self._disjunction(part, known, pending)
            if numbers is None:
                return None
            if numbers == [_HALF]:
                half = part + _AND
            else:
                half = ""
                parts.append(numbers)
        return None if half or len(parts) > _MOST_PARTS else TwoLevelRule(And, parts)

    def _disjunction(self, text: str, known: dict[str, int], pending: _Pending) -> list[int] | None:
        numbers: list[int] = []
        in_parentheses = text[:1] == "(" and text[-1:] == ")"
        for piece in text[1:-1].split(_OR) if in_parentheses else (text,):
            number = known.get(piece)
            if number is None:
                number = self._read_piece(piece, known, pending, numbers)
            if number is None or (number == _HALF and in_parentheses):
                return None
            numbers.append(number)
        return numbers

    def _read_piece(
        self, piece: str, known: dict[str, int], pending: _Pending, numbers: list[int]
    ) -> int | None:
        """A stand-in for the number of an atom that becomes `pending`; None for no predicate."""
        predicate = read_predicate(piece)
        if predicate is not None:
            adapted = predicate if self._adapt is None else self._adapt(predicate)
            pending.append((numbers, len(numbers), piece, adapted))
            return 0
        if is_half_between(piece):
            known[piece] = _HALF
            return _HALF
        return None


_Pending: TypeAlias = list[tuple[list[int], int, str, Predicate]]
"""Predicates without a number yet: the list and place it goes to, the text, the predicate."""


def _has_or_in_parentheses(text: str) -> bool:
    """Whether the first OR seems to be in parentheses, which an AND of ORs has."""
    at = text.find(_OR)
    return at >= 0 and text.count("(", 0, at) > text.count(")", 0, at)


def _rejoin_in_parentheses(cuts: list[str]) -> Iterator[str]:
    """`cuts`, joined again where the cut was inside of parentheses."""
    opened: list[str] = []
    depth = 0
    for cut in cuts:
        opened.append(cut)
        depth += cut.count("(") - cut.count(")")
        if depth == 0:
            yield _AND.join(opened)
            opened.clear()
    if opened:
        yield _AND.join(opened)


def _split_by_size(parts: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The parts of one atom, which `simplify` puts first, and those of several."""
    single = [numbers for numbers in parts if len(numbers) == 1]
    return single, [numbers for numbers in parts if len(numbers) > 1]
