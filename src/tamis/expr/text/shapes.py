"""The fast road for rules of the same shape: those that differ in their literals only.

Large rule sets often come from templates: ``age IN (3, 4) AND state <> 'CA'`` and a million like
it. One regular expression cuts a text into its literals and the *shape* around them. The first
rule of a shape is parsed in full. For the second, the shape is parsed with unique stand-in
literals, *sentinels*; where each appears in the tree is where the literals of later rules go.

The regular expression does not know the language. It only has to agree with the tokenizer on where
strings and quoted names end. A shape gets no template, and its rules are parsed in full, unless
each sentinel appears exactly once as a value of a predicate and no part of the tree depends on
what the literals are. A rule that is refused is parsed in full, too, for the error's position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.atom_table import AtomTable
from tamis.expr.functions.derive import make_comparable
from tamis.expr.model import (
    And,
    Atom,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    predicates,
)
from tamis.expr.normalize import atoms_of, nnf
from tamis.expr.text import literals
from tamis.expr.text.grammar import parse, parse_template

__all__ = ["Leaf", "NormalTemplate", "Shapes", "Slot", "Template"]

_PIECES: Final = re.compile(
    r"""(?=["'`0-9])(?:             # a cheap test first: it is tried at each character
        ("[^"]*+"|`[^`]*+`)         # a quoted name belongs to the shape
      | ( '[^']*+(?:''[^']*+)*+'
        | (?<![\w.])[0-9]++
          (?: (?:\.[0-9]*+(?:[eE][+-]?[0-9]++)?+|[eE][+-]?[0-9]++) ()   # marks a double
            | ()                                                        # marks an integer
          )(?![\w.])
        )
    )""",
    re.VERBOSE,
)
"""Splits a text into what is between matches, and for each match its four groups."""

_STRIDE: Final = 5
_NAME, _LITERAL, _DOUBLE, _INTEGER = 1, 2, 3, 4

_KEYWORD: Final = re.compile(r"\b(DATE|TIMESTAMP|ESCAPE)\s*\Z", re.IGNORECASE)
"""A word right before a string that restricts what the string may be."""

_MAX_TEXT: Final = 4096
_MAX_LITERALS: Final = 256
"""A longer rule is parsed in full: it is likely one of a kind, and its shape takes memory."""

_Shape: TypeAlias = tuple[str | None, ...]


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


class Shapes:
    """The shapes seen so far, and the template of each that came twice.

    Threads may share it: at worst two of them derive the same template.

    Parameters
    ----------
    limit
        How many templates to keep; rules of further shapes are parsed in full.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._seen_once: set[_Shape] = set()
        self._templates: dict[_Shape, Template | None] = {}

    def parse(self, text: str) -> Expr:
        """As :func:`tamis.expr.text.grammar.parse`, but faster for shapes seen before."""
        split = self.split(text)
        if split is None:
            return parse(text)
        template, literals = split
        try:
            return template.fill(literals)
        except RuleError:
            return parse(text)

    def split(self, text: str) -> tuple[Template, list[str]] | None:
        """The template of `text` and its literals; None if it has to be parsed in full."""
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            return None
        pieces: list[str | None] = _PIECES.split(text)
        literals = pieces[_LITERAL::_STRIDE]
        del pieces[_LITERAL::_STRIDE]
        shape = tuple(pieces)
        template = self._templates.get(shape)
        if template is None:
            template = self._derive(shape, text)
            if template is None:
                return None
        # A quoted name leaves a None in the list.
        return template, [literal for literal in literals if literal is not None]

    def _derive(self, shape: _Shape, text: str) -> Template | None:
        """The template of a shape that has none yet, if this is its second rule."""
        if shape in self._templates or len(self._templates) >= self._limit:
            return None
        if shape not in self._seen_once:
            if len(self._seen_once) >= self._limit:
                self._seen_once.clear()
            self._seen_once.add(shape)
            return None
        template = self._templates[shape] = _derive_template(text)
        self._seen_once.discard(shape)
        return template


class _Sentinel(NamedTuple):
    source: str
    value: Value
    convert: Callable[[str], Value]


def _derive_template(text: str) -> Template | None:
    """The template of the shape of `text`, or None if it cannot have one."""
    pieces: list[str | None] = _PIECES.split(text)
    sentinels: list[_Sentinel] = []
    for literal_at in range(_LITERAL, len(pieces), _STRIDE):
        if pieces[literal_at] is None:
            continue
        sentinel = _make_sentinel(len(sentinels), pieces, literal_at)
        pieces[literal_at] = sentinel.source
        sentinels.append(sentinel)
    if len(sentinels) > _MAX_LITERALS:
        return None
    try:
        expr = parse_template("".join([piece for piece in pieces if piece]))
    except RuleError:
        return None
    if expr is None:
        return None
    slots = _slots_by_value(sentinels)
    leaves = tuple([_make_leaf(predicate, slots) for predicate in predicates(expr)])
    found = [value.literal for leaf in leaves for value in leaf.values if isinstance(value, Slot)]
    return Template(expr, leaves) if sorted(found) == list(range(len(sentinels))) else None


def _make_sentinel(index: int, pieces: list[str | None], literal_at: int) -> _Sentinel:
    """A literal that rules do not use, of the same kind as the one that it stands for."""
    if pieces[literal_at - _LITERAL + _INTEGER] is not None:
        whole = 7_310_000_000_000_000 + index
        return _Sentinel(str(whole), whole, literals.read_integer)
    if pieces[literal_at - _LITERAL + _DOUBLE] is not None:
        double = 7_310_000_000_000.5 + index
        return _Sentinel(repr(double), double, literals.read_double)
    before = _KEYWORD.search(pieces[literal_at - _LITERAL] or "")
    keyword = before[1].upper() if before else ""
    if keyword == "ESCAPE":
        # One character of the private use area, which has more characters than a rule literals.
        string = chr(0xE000 + index)
    elif keyword:
        moment = datetime(1310, 1, 1, tzinfo=UTC) + timedelta(days=index)
        convert = _read_quoted_day if keyword == "DATE" else _read_quoted_timestamp
        return _Sentinel(f"'{moment.date()}'", moment, convert)
    else:
        string = f"sentinel\uf8ff{index}"
    return _Sentinel(f"'{string}'", string, literals.read_string)


def _slots_by_value(sentinels: list[_Sentinel]) -> dict[Value, Slot]:
    slots: dict[Value, Slot] = {}
    for index, (_, value, convert) in enumerate(sentinels):
        slots[value] = Slot(index, convert)
        if isinstance(value, int | float):
            slots[-value] = Slot(index, literals.read_negative)
    return slots


def _make_leaf(predicate: Predicate, slots: dict[Value, Slot]) -> Leaf:
    values = tuple([slots.get(value, value) for value in predicate.values])
    return Leaf(predicate.attribute, predicate.op, values, predicate.negated)


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


def _read_quoted_day(source: str) -> Value:
    return literals.read_day(literals.read_string(source))


def _read_quoted_timestamp(source: str) -> Value:
    return literals.read_timestamp(literals.read_string(source))
