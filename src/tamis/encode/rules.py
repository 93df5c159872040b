"""Rules → flat arrays.

A rule becomes conjunctions of atoms where its DNF is small, and otherwise one *program*: its
atoms in the order of the text, each with two jumps, so that evaluating it needs no stack and
stops at the first atom that decides. Atoms and conjunctions are stored once, however many rules
share them. The *score code* keeps a rule's tree as the definition of a score needs it.

Rules of one shape, which differ in their literals only, are normalised once: see `_Plan`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_FALSE, GOTO_TRUE, AtomArrays, FormArrays, ScoreArrays
from tamis.encode.atoms import encode_atoms, encode_weights, text_predicates
from tamis.encode.dictionary import Dictionary
from tamis.encode.plain_rules import LONGEST, Plain, PlainTexts
from tamis.encode.rule_forms import and_code, or_code, owner_arrays, settled
from tamis.encode.text_predicates import TextIndex
from tamis.errors import RuleError
from tamis.expr.functions.derive import comparable
from tamis.expr.model import And, Atom, Expr, Logic, Op, Or, Predicate, map_predicates
from tamis.expr.normalize import atoms_of, cover, dnf, nnf, simplify
from tamis.expr.text.shapes import Leaf, Shapes, Slot, Template
from tamis.expr.text.sql import parse
from tamis.expr.weights import RuleWeights

__all__ = ["EncodedRules", "RuleEncoder"]


class EncodedRules(NamedTuple):
    """What an engine is built from."""

    size: int
    """How many rules there are."""
    atoms: AtomArrays
    forms: FormArrays
    scores: ScoreArrays
    dictionary: Dictionary
    texts: TextIndex


class _Program(NamedTuple):
    """A tree as instructions; see `FormArrays`."""

    instructions: list[tuple[int, int, int]]
    cover: list[int]


class _Form(NamedTuple):
    """A rule in terms of atom numbers."""

    conjunctions: list[list[int]]
    program: _Program | None
    """In place of conjunctions, where those were too many."""
    score: list[int]

    def renumbered(self, numbers: list[int]) -> _Form:
        """The same form with the atom i replaced by numbers[i]."""
        program = self.program
        return _Form(
            [[numbers[i] for i in conjunction] for conjunction in self.conjunctions],
            program
            and program._replace(
                instructions=[(numbers[i], yes, no) for i, yes, no in program.instructions],
                cover=[numbers[i] for i in program.cover],
            ),
            [numbers[i] if i >= 0 else i for i in self.score],
        )


class _Plan(NamedTuple):
    """How all rules of one shape and logic are made.

    There is one only for a shape in which no two predicates share an attribute: then nothing
    can be absorbed, whatever the literals are, and the form is that of any of its rules.
    """

    form: _Form
    """In terms of places: the first atoms are those of the predicates, from left to right."""
    extra: list[Atom]
    """The atoms behind those: what a cover needs beside the rule's own."""
    places: list[_Place]
    """What is known of each predicate."""


class _Place(NamedTuple):
    """A predicate of a shape."""

    leaf: Leaf
    negated: bool
    if_absent: bool
    """As in its atom."""
    literals: Callable[[list[str]], Hashable]
    """Picks the literals of this predicate from all of a rule's."""
    numbers: dict[Hashable, int]
    """The numbers of the atoms made here before, by their literals."""


class RuleEncoder:
    """Takes rules one by one and encodes them together at the end.

    A rule that is refused leaves nothing behind.

    Parameters
    ----------
    scalars
        Attributes known to hold at most one value.
    adapt
        Applied to every predicate, for example to read a text as a timestamp where a schema
        says so.
    shapes
        Shapes seen before, if any.
    """

    def __init__(
        self,
        scalars: frozenset[str] = frozenset(),
        adapt: Callable[[Predicate], Predicate] | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        self.size = 0
        self._scalars = scalars
        self._adapt = adapt
        self._shapes = Shapes() if shapes is None else shapes
        self._plans: dict[tuple[Template, Logic], _Plan | None] = {}
        self._plain = PlainTexts(self._number, adapt)
        self._atoms: list[Atom] = []
        self._attributes: list[str] = []
        """The attribute of each atom."""
        self._atom_numbers: dict[Atom, int] = {}
        self._conjunctions: dict[tuple[int, ...], int] = {}
        """The numbers of conjunctions, which are the same whatever the order of their atoms."""
        self._conjunction_atoms = _Lists()
        self._owners = array("q")
        """Pairs of a conjunction and a rule, flat."""
        self._programs = _Lists()
        """Instructions, three numbers each."""
        self._program_rule = array("i")
        self._covers = _Lists()
        self._scores = _Lists()
        self._weights: list[tuple[int, int, RuleWeights]] = []
        """Weighted score codes: their place in `_scores`, their atom, and the rule's weights."""

    def add(self, rule: Expr, logic: Logic, weights: RuleWeights | None = None) -> None:
        """Take a rule."""
        tree = nnf(self._adapted(rule), logic)
        self._append(_form(tree, self._number, self._scalars), weights)

    def add_text(self, text: str, logic: Logic) -> None:
        """Take a rule as text, without weights.

        Raises
        ------
        RuleError
            The text is no rule.
        """
        plain = self._plain.read(text, logic)
        if plain is not None:
            self._append(self._plain_form(plain))
            return
        split = self._shapes.split(text)
        if split is None:
            self.add(parse(text), logic)
            return
        template, literals = split
        plan = self._plan(template, logic)
        if plan is None:
            self.add(self._shapes.parse(text), logic)
            return
        try:
            atoms = self._planned_atoms(plan, literals)
        except RuleError:
            parse(text)  # says where in the text the culprit stands
            raise
        self._append(plan.form.renumbered(atoms))

    def finish(self) -> EncodedRules:
        """All the rules taken, encoded."""
        dictionary = Dictionary.of(atom.predicate for atom in self._atoms)
        dictionary.load()
        texts = text_predicates(self._atoms)
        encoded = EncodedRules(
            self.size,
            encode_atoms(self._atoms, dictionary, texts),
            *settled(self._form_arrays(), *self._score_arrays(dictionary)),
            dictionary,
            TextIndex.of(texts, dictionary.attributes),
        )
        dictionary.unload()
        return encoded

    @property
    def leftovers(self) -> list[dict[Any, Any] | list[Any]]:
        """What is of no use after `finish`, and takes its time to be freed."""
        return [
            *self._plain.known,
            self._plans,
            self._atom_numbers,
            self._conjunctions,
            self._atoms,
        ]

    def _adapted(self, rule: Expr) -> Expr:
        return rule if self._adapt is None else map_predicates(rule, self._adapt)

    def _adapted_predicate(self, predicate: Predicate) -> Predicate:
        return predicate if self._adapt is None else self._adapt(predicate)

    def _number(self, atom: Atom) -> int:
        number = self._atom_numbers.setdefault(atom, len(self._atoms))
        if number == len(self._atoms):
            self._atoms.append(atom)
            self._attributes.append(atom.predicate.attribute)
        return number

    def _plain_form(self, plain: Plain) -> _Form:
        conjunctions = plain.conjunctions(self._attributes)
        if conjunctions is not None:
            return _Form(conjunctions, None, plain.score)
        return _form(plain.tree(self._atoms), self._number, self._scalars)

    def _plan(self, template: Template, logic: Logic) -> _Plan | None:
        key = (template, logic)
        if key not in self._plans:
            self._plans[key] = self._make_plan(template, logic)
        return self._plans[key]

    def _make_plan(self, template: Template, logic: Logic) -> _Plan | None:
        tree = nnf(template.expr, logic)
        atoms = list(atoms_of(tree))
        attributes = {atom.predicate.attribute for atom in atoms}
        if len(attributes) < len(template.leaves) or len(atoms) < len(template.leaves):
            return None
        places = {atom: place for place, atom in enumerate(atoms)}
        form = _form(tree, lambda atom: places.setdefault(atom, len(places)), frozenset())
        described = [
            _Place(leaf, atom.negated, atom.if_absent, _picker(leaf), {})
            for leaf, atom in zip(template.leaves, atoms, strict=True)
        ]
        return _Plan(form, list(places)[len(atoms) :], described)

    def _planned_atoms(self, plan: _Plan, literals: list[str]) -> list[int]:
        result: list[int] = []
        unknown: list[tuple[int, Hashable, Predicate]] = []
        for leaf, _, _, pick, numbers in plan.places:
            key = pick(literals)
            number = numbers.get(key)
            if number is None:
                predicate = self._adapted_predicate(leaf.fill(literals).positive)
                unknown.append((len(result), key, predicate))
            result.append(number or 0)
        for at, key, predicate in unknown:
            place = plan.places[at]
            atom = Atom(comparable(predicate), place.negated, place.if_absent)
            result[at] = place.numbers[key] = self._number(atom)
        if plan.extra:
            result += [self._number(atom) for atom in plan.extra]
        return result

    def _append(self, form: _Form, weights: RuleWeights | None = None) -> None:
        rule = self.size
        for conjunction in form.conjunctions:
            known = len(self._conjunctions)
            number = self._conjunctions.setdefault(tuple(sorted(set(conjunction))), known)
            if number == known:
                self._conjunction_atoms.append(dict.fromkeys(conjunction))
            self._owners.append(number)
            self._owners.append(rule)
        if form.program is not None:
            self._programs.append(chain.from_iterable(form.program.instructions))
            self._program_rule.append(rule)
            self._covers.append(form.program.cover)
        if weights:
            first = len(self._scores.items)
            self._weights += [
                (first + i, code, weights)
                for i, code in enumerate(form.score)
                if code >= 0 and not self._atoms[code].negated
            ]
        self._scores.append(form.score)
        self.size += 1

    def _form_arrays(self) -> FormArrays:
        program_end, program = self._programs.arrays()
        conjunction, rule = np.array(self._owners, np.int64).reshape(-1, 2).T
        return FormArrays(
            *self._conjunction_atoms.arrays(),
            *owner_arrays(conjunction, rule, len(self._conjunctions), self.size),
            program_end // 3,
            program.reshape(-1, 3),
            np.array(self._program_rule, np.int32),
            *self._covers.arrays(),
        )

    def _score_arrays(
        self, dictionary: Dictionary
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """The arrays of `ScoreArrays`, written out for all rules."""
        start, code = self._scores.arrays()
        weights = np.full(len(code) if self._weights else 0, -1, np.int32)
        weight: list[float] = []
        for place, atom, rule_weights in self._weights:
            weights[place] = len(weight)
            weight += encode_weights(self._atoms[atom].predicate, rule_weights, dictionary)
        return start, code, weights, np.array(weight, np.float64)


class _Lists:
    """Lists of small integers, end to end."""

    def __init__(self) -> None:
        self.items = array("i")
        self._ends = array("q", [0])

    def append(self, items: Iterable[int]) -> None:
        self.items.extend(items)
        self._ends.append(len(self.items))

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return np.array(self._ends, np.int64), np.array(self.items, np.int32)


def _picker(leaf: Leaf) -> Callable[[list[str]], Hashable]:
    """A function that picks the literals of `leaf` from all of a rule's."""
    places = [value.literal for value in leaf.values if isinstance(value, Slot)]
    return itemgetter(*places) if places else lambda literals: None


def _form(tree: Expr, number: Callable[[Atom], int], scalars: frozenset[str]) -> _Form:
    """The form of a rule in negation normal form."""
    score = _postfix(tree, number)
    simple = simplify(tree, scalars)
    clauses = dnf(simple, scalars=scalars)
    if clauses is not None and all(len(clause) <= LONGEST for clause in clauses):
        return _Form([[number(atom) for atom in clause] for clause in clauses], None, score)
    return _Form([], _program(simple, number), score)


def _postfix(tree: Expr, number: Callable[[Atom], int]) -> list[int]:
    code: list[int] = []

    def emit(node: Expr) -> None:
        if isinstance(node, Atom):
            code.append(number(node))
            return
        assert isinstance(node, And | Or)
        for child in node.children:
            emit(child)
        operands = len(node.children)
        code.append(and_code(operands) if isinstance(node, And) else or_code(operands))

    emit(tree)
    return code


def _program(tree: Expr, number: Callable[[Atom], int]) -> _Program:
    """`tree` as instructions, written from the last to the first.

    So where a child goes when it decides nothing, the start of its next sibling, is known
    before the child is written.
    """
    instructions: list[tuple[int, int, int]] = []

    def emit(node: Expr, if_true: int, if_false: int) -> int:
        if isinstance(node, Atom):
            instructions.append((number(node), if_true, if_false))
            return len(instructions) - 1
        if isinstance(node, And):
            for child in reversed(node.children):
                if_true = emit(child, if_true, if_false)
            return if_true
        assert isinstance(node, Or)
        for child in reversed(node.children):
            if_false = emit(child, if_true, if_false)
        return if_false

    emit(tree, GOTO_TRUE, GOTO_FALSE)
    last = len(instructions) - 1

    def forward(target: int) -> int:
        return target if target < 0 else last - target

    return _Program(
        [(atom, forward(yes), forward(no)) for atom, yes, no in reversed(instructions)],
        [number(atom) for atom in cover(tree, _cost) or ()],
    )


def _cost(atom: Atom) -> float:
    """A guess at how often events satisfy an atom, knowing nothing of events."""
    match atom.predicate.op:
        case Op.EQ | Op.IN:
            return float(len(atom.predicate.values))
        case Op.LIKE | Op.ILIKE | Op.RLIKE:
            return 10.0
        case Op.PRESENT:
            return 200.0
        case _:
            return 50.0
