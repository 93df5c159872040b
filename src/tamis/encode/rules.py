"""Rules → flat arrays.

A rule becomes conjunctions of atoms where its DNF is small, and otherwise, or where it is an AND of
ORs with many more conjunctions than atoms, one *program*: its
atoms in the order of the text, each with two jumps, so that evaluating it needs no stack and
stops at the first atom that decides. Atoms and conjunctions are stored once, however many rules
share them. The *score code* is a rule's tree as the definition of a score needs it.

The rules of one template, which differ in their literals only, are converted once: see
`_TemplateForm`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_FALSE, GOTO_TRUE, AtomArrays, FormArrays, ScoreArrays
from tamis.encode.atoms import encode_atoms, encode_weights, number_text_predicates
from tamis.encode.dictionary import Dictionary
from tamis.encode.ragged import ListBuilder, narrow_starts
from tamis.encode.rule_forms import and_code, compact_forms, or_code, owner_arrays
from tamis.encode.text_predicates import TextIndex
from tamis.expr.model import And, Atom, Expr, Logic, Op, Or
from tamis.expr.normalize import LONGEST, atoms_of, cover, dnf, is_large_cnf, simplify
from tamis.expr.text.bulk import BulkReader, TemplateRule, TwoLevelRule
from tamis.expr.text.templates import NormalTemplate
from tamis.expr.weights import RuleWeights

__all__ = ["EncodedRules", "RuleEncoder"]


class EncodedRules(NamedTuple):
    """A set of rules, encoded: what an engine is built from."""

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
    """Instead of conjunctions, where those would be too many."""
    score: list[int]

    def renumber(self, numbers: list[int]) -> _Form:
        """A copy in which the atom i has the number numbers[i]."""
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


class _TemplateForm(NamedTuple):
    """The form of all rules of one template."""

    form: _Form
    """In terms of places: the first atoms are those of the predicates, from left to right."""
    extra: list[Atom]
    """The atoms after those: what a cover needs besides the rule's own."""


class RuleEncoder:
    """Encodes rules that are added one by one.

    A rule that is refused leaves no trace.

    Parameters
    ----------
    scalars
        Attributes known to hold at most one value.
    reader
        Reads and normalises the rules; it numbers their atoms.
    """

    def __init__(
        self, scalars: frozenset[str] = frozenset(), reader: BulkReader | None = None
    ) -> None:
        self.size = 0
        self._is_whole = True
        """Whether no exception has left a part of a rule."""
        self._scalars = scalars
        self._reader = BulkReader() if reader is None else reader
        self._atoms = self._reader.atoms.atoms
        self._number = self._reader.atoms.number
        self._template_forms: dict[NormalTemplate, _TemplateForm] = {}
        self._conjunctions: dict[tuple[int, ...], int] = {}
        """The numbers of conjunctions, by their sorted atoms."""
        self._conjunction_atoms = ListBuilder()
        self._owners = array("q")
        """Pairs of a conjunction and a rule, flat."""
        self._programs = ListBuilder()
        """Instructions, three numbers each."""
        self._program_rule = array("i")
        self._covers = ListBuilder()
        self._atom_covers: list[tuple[float, Atom | None]] = []
        """For each atom the cost and the atom of its cover; infinite and None if it has none."""
        self._scores = ListBuilder()
        self._weights: list[tuple[int, int, RuleWeights]] = []
        """Weighted score codes: their place in `_scores`, their atom, and the rule's weights."""

    def add(self, rule: Expr, logic: Logic, weights: RuleWeights | None = None) -> None:
        """Add a rule."""
        self.add_tree(self._reader.normalize(rule, logic), weights)

    def add_tree(self, tree: Expr, weights: RuleWeights | None = None) -> None:
        """Add a rule that `BulkReader.normalize` has normalised before."""
        self._append(_build_form(tree, self._number, self._scalars), weights)

    def add_text(self, text: str, logic: Logic) -> None:
        """Add a rule given as text, without weights.

        Raises
        ------
        RuleError
            The text is not a valid rule.
        """
        rule = self._reader.read(text, logic)
        if isinstance(rule, TwoLevelRule):
            self._append(self._two_level_form(rule))
        elif isinstance(rule, TemplateRule):
            self._append(self._fill_template(rule))
        else:
            self._append(_build_form(rule, self._number, self._scalars))

    def finish(self) -> EncodedRules:
        """Encode all rules that were added."""
        if not self._is_whole:
            raise RuntimeError("a rule was added in part")
        dictionary = Dictionary.of(atom.predicate for atom in self._atoms)
        dictionary.load()
        texts = number_text_predicates(self._atoms)
        encoded = EncodedRules(
            self.size,
            encode_atoms(self._atoms, dictionary, texts),
            *compact_forms(self._form_arrays(), *self._score_arrays(dictionary)),
            dictionary,
            TextIndex.of(texts, dictionary.attributes),
        )
        dictionary.unload()
        return encoded

    @property
    def leftovers(self) -> list[dict[Any, Any] | list[Any]]:
        """Containers that are not needed after `finish` and take time to free."""
        return [*self._reader.caches, self._template_forms, self._conjunctions]

    def _two_level_form(self, rule: TwoLevelRule) -> _Form:
        attributes = self._reader.atoms.attributes
        clauses = rule.clauses(attributes) if rule.outer is And else None
        if clauses is not None and is_large_cnf(map(len, clauses)):
            return _Form([], self._clause_program(clauses), _two_level_score(rule))
        conjunctions = rule.conjunctions(attributes)
        if conjunctions is not None:
            return _Form(conjunctions, None, _two_level_score(rule))
        return _build_form(rule.tree(self._atoms), self._number, self._scalars)

    def _clause_program(self, clauses: list[list[int]]) -> _Program:
        """What `_build_program` gives for an AND of ORs."""
        instructions: list[tuple[int, int, int]] = []
        for clause in clauses:
            begin = len(instructions)
            following = begin + len(clause) if clause is not clauses[-1] else GOTO_TRUE
            instructions += [(atom, following, at) for at, atom in enumerate(clause, begin + 1)]
            instructions[-1] = (clause[-1], following, GOTO_FALSE)
        return _Program(instructions, self._cover_clauses(clauses))

    def _cover_clauses(self, clauses: list[list[int]]) -> list[int]:
        """What `cover` gives for an AND of ORs."""
        known = self._atom_covers
        for atom in self._atoms[len(known) :]:
            (covering,) = cover(atom, _cost) or (None,)
            known.append((inf if covering is None else _cost(covering), covering))
        costs = [sum([known[atom][0] for atom in clause]) for clause in clauses]
        least = min(costs)
        if least == inf:
            return []
        chosen = [known[atom][1] for atom in clauses[costs.index(least)]]
        return [self._number(atom) for atom in dict.fromkeys(chosen) if atom is not None]

    def _fill_template(self, rule: TemplateRule) -> _Form:
        known = self._template_forms.get(rule.template)
        if known is None:
            known = self._template_forms[rule.template] = _build_template_form(rule.template.tree)
        extra = [self._number(atom) for atom in known.extra]
        return known.form.renumber(rule.atoms + extra)

    def _append(self, form: _Form, weights: RuleWeights | None = None) -> None:
        rule, self._is_whole = self.size, False
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
        self._is_whole = True

    def _form_arrays(self) -> FormArrays:
        conjunction_end, conjunction_atom = self._conjunction_atoms.arrays()
        program_end, program = self._programs.arrays()
        conjunction, rule = np.array(self._owners, np.int64).reshape(-1, 2).T
        return FormArrays(
            narrow_starts(conjunction_end),
            conjunction_atom,
            *owner_arrays(conjunction, rule, len(self._conjunctions), self.size),
            program_end // 3,
            program.reshape(-1, 3),
            np.array(self._program_rule, np.int32),
            *self._covers.arrays(),
        )

    def _score_arrays(
        self, dictionary: Dictionary
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """The arrays of `ScoreArrays`, with nothing left out."""
        start, code = self._scores.arrays()
        weights = np.full(len(code) if self._weights else 0, -1, np.int32)
        weight: list[float] = []
        for place, atom, rule_weights in self._weights:
            weights[place] = len(weight)
            weight += encode_weights(self._atoms[atom].predicate, rule_weights, dictionary)
        return start, code, weights, np.array(weight, np.float64)


def _build_template_form(tree: Expr) -> _TemplateForm:
    """Build the form of a template's rules from its tree."""
    atoms = list(atoms_of(tree))
    places = {atom: place for place, atom in enumerate(atoms)}
    form = _build_form(tree, lambda atom: places.setdefault(atom, len(places)), frozenset())
    return _TemplateForm(form, list(places)[len(atoms) :])


def _two_level_score(rule: TwoLevelRule) -> list[int]:
    """The score code of a two-level rule."""
    inner_code, outer_code = (or_code, and_code) if rule.outer is And else (and_code, or_code)
    code: list[int] = []
    for numbers in rule.parts:
        code += numbers
        if len(numbers) > 1:
            code.append(inner_code(len(numbers)))
    if len(rule.parts) > 1:
        code.append(outer_code(len(rule.parts)))
    return code


def _build_form(tree: Expr, number: Callable[[Atom], int], scalars: frozenset[str]) -> _Form:
    """Build the form of a rule given in negation normal form."""
    score = _postfix(tree, number)
    simple = simplify(tree, scalars)
    clauses = None if _keeps_clauses(simple) else dnf(simple, scalars=scalars)
    if clauses is not None and all(len(clause) <= LONGEST for clause in clauses):
        return _Form([[number(atom) for atom in clause] for clause in clauses], None, score)
    return _Form([], _build_program(simple, number), score)


def _keeps_clauses(tree: Expr) -> bool:
    """Whether a tree is an AND of ORs of atoms that is better kept than expanded."""
    if not isinstance(tree, And):
        return False
    sizes: list[int] = []
    for clause in tree.children:
        if isinstance(clause, Or):
            if not all(isinstance(child, Atom) for child in clause.children):
                return False
            sizes.append(len(clause.children))
        elif not isinstance(clause, Atom):
            return False
        else:
            sizes.append(1)
    return is_large_cnf(sizes)


def _postfix(tree: Expr, number: Callable[[Atom], int]) -> list[int]:
    """The score code of a rule."""
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


def _build_program(tree: Expr, number: Callable[[Atom], int]) -> _Program:
    """`tree` as instructions, which are emitted from the last to the first.

    So the start of a child's next sibling, to which an undecided child jumps, is known before the
    child is emitted.
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
    """A rough estimate of how often events satisfy an atom, without knowing any events."""
    match atom.predicate.op:
        case Op.EQ | Op.IN:
            return float(len(atom.predicate.values))
        case Op.LIKE | Op.ILIKE | Op.RLIKE:
            return 10.0
        case Op.PRESENT:
            return 200.0
        case _:
            return 50.0
