"""Proves that rules never match, always match, or imply one another, and finds example events.

All of these are one question: can an event satisfy a tree? A rule that no event can satisfy never
matches; one whose negation no event can satisfy always does; and `a` implies `b` if no event can
satisfy `a` and the negation of `b`.

The prover tries the ways through the tree (:mod:`tamis.expr.analysis.ways`) and collects the
atoms of each attribute. Attributes are independent of each other. The values of one lie on lines
(:mod:`tamis.expr.value_order`), which the values in the rule cut into stretches; all values of a
stretch are equivalent. Whether a pattern such as ``LIKE '%x%'`` holds on a stretch is not known, so
a proof may be missed. A proof is never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tamis.deadline import check_time
from tamis.expr.analysis.event_expressions import is_pattern
from tamis.expr.analysis.ways import TooManyWays, walk_ways
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent, kind_of, value_key
from tamis.expr.model import And, Atom, Expr, Op, Or, Predicate, Value
from tamis.expr.patterns import like_parts, mentioned_values
from tamis.expr.satisfy import satisfies
from tamis.expr.value_order import LINES, Line

__all__ = ["Prover", "example_text", "negate"]

_Way: TypeAlias = Mapping[str, tuple[Atom, ...]]
"""The atoms that have to hold, by attribute."""

_MOST_EFFORT: Final = 300_000
"""How many pairs of an atom and a value of its attribute one proof looks at."""

_TRIES: Final = 8
"""How many ways are tried to find an event that satisfies a tree."""


def negate(tree: Expr) -> Expr:
    """The tree that holds exactly where `tree`, of And, Or and Atom, does not."""
    if isinstance(tree, Atom):
        return Atom(tree.predicate, not tree.negated, not tree.if_absent)
    assert isinstance(tree, And | Or)
    children = tuple([negate(child) for child in tree.children])
    return Or(children) if isinstance(tree, And) else And(children)


_Values: TypeAlias = list[tuple[Value, bool]]
"""A value for each stretch of an attribute's lines, and whether it is the only one."""

_MOST_KNOWN: Final = 100_000
"""How many answers are remembered. Rules of one collection repeat their predicates."""


class _Known(NamedTuple):
    """What was worked out about atoms of one attribute."""

    answers: dict[tuple[tuple[Atom, ...], bool], bool]
    """Whether atoms can hold at once, on an attribute that has one value or that may have more."""
    values: dict[tuple[Atom, ...], _Values]
    choices: dict[tuple[Atom, ...], tuple[list[Value], bool]]
    """Values for an event; see `Prover._find_choices`."""


class Prover:
    """Answers questions about trees of And, Or and Atom.

    Parameters
    ----------
    scalars
        Attributes known to have at most one value.
    lines_of
        Gives the lines of an attribute's values.
    """

    def __init__(
        self,
        scalars: Collection[str] = (),
        lines_of: Callable[[str], tuple[Line, ...]] = lambda _: LINES,
    ) -> None:
        self._scalars = scalars
        self._lines_of = lines_of
        self._known = _Known({}, {}, {})
        self._effort = 0
        """What is left for the proof that is going on."""

    def assuming(self, scalars: Collection[str]) -> Prover:
        """A prover for other `scalars`, which shares what this one has worked out."""
        other = Prover(scalars, self._lines_of)
        other._known = self._known
        return other

    def can_hold(self, tree: Expr) -> bool:
        """Whether an event may satisfy `tree`. False is certain, True is not."""
        self._effort = _MOST_EFFORT
        try:
            return any(True for _ in walk_ways(tree, _NOTHING, self._narrow))
        except TooManyWays:
            return True

    def implies(self, tree: Expr, other: Expr) -> bool:
        """Whether each event that satisfies `tree` satisfies `other`. True is certain."""
        return not self.can_hold(And((tree, negate(other))))

    def example(self, tree: Expr, random: Random) -> FlatEvent | None:
        """A random event that satisfies `tree`; None if none was found."""

        def shuffle(children: Collection[Expr]) -> list[Expr]:
            return random.sample(list(children), len(children))

        self._effort = _MOST_EFFORT
        found = walk_ways(tree, _NOTHING, self._narrow, shuffle)
        try:
            for _, way in zip(range(_TRIES), found, strict=False):
                event = self._event(way, random)
                if evaluate_flat(tree, event, "strong"):
                    return event
        except TooManyWays:
            pass
        return None

    def _narrow(self, atoms: Sequence[Atom], way: _Way) -> _Way | None:
        added: dict[str, list[Atom]] = {}
        for atom in atoms:
            added.setdefault(atom.predicate.attribute, []).append(atom)
        narrowed = {name: (*way.get(name, ()), *some) for name, some in added.items()}
        if not all(self._can_all_hold(name, some) for name, some in narrowed.items()):
            return None
        return {**way, **narrowed}

    def _can_all_hold(self, attribute: str, atoms: tuple[Atom, ...]) -> bool:
        """Whether an attribute can satisfy all of its atoms at once."""
        if all(atom.if_absent for atom in atoms):
            return True
        answers = self._known.answers
        key = atoms, attribute in self._scalars
        answer = answers.get(key)
        if answer is None:
            check_time()
            self._effort -= len(atoms) * sum(len(atom.predicate.values) + 1 for atom in atoms)
            if self._effort < 0:
                raise TooManyWays
            answer = self._decide(attribute, atoms)
            _remember(answers, key, answer)
        return answer

    def _decide(self, attribute: str, atoms: tuple[Atom, ...]) -> bool:
        asked = {atom.predicate for atom in atoms if not atom.negated}
        if any(atom.negated and atom.predicate in asked for atom in atoms):
            return False
        allowed = self._values(attribute, atoms)
        if attribute in self._scalars:
            return any(all(_may_hold(p, *value) for p in asked) for value in allowed)
        return bool(allowed) and all(any(_may_hold(p, *value) for value in allowed) for p in asked)

    def _values(self, attribute: str, atoms: tuple[Atom, ...]) -> _Values:
        """A value for each stretch that no negated atom excludes, and whether it is the only one.

        Values of kinds that the atoms mention come first.
        """
        values = self._known.values.get(atoms)
        if values is None:
            values = self._cut(attribute, atoms)
            _remember(self._known.values, atoms, values)
        return values

    def _cut(self, attribute: str, atoms: tuple[Atom, ...]) -> _Values:
        excluded = [atom.predicate for atom in atoms if atom.negated]
        mentioned = [v for atom in atoms for v in mentioned_values(atom.predicate)]
        kinds = {kind_of(value) for value in mentioned}
        return [
            (stretch.first, stretch.is_single)
            for line in sorted(self._lines_of(attribute), key=lambda line: line.kind not in kinds)
            for stretch in line.cut(mentioned)
            if not any(_must_hold(p, stretch.first, stretch.is_single) for p in excluded)
        ]

    def _event(self, way: _Way, random: Random) -> FlatEvent:
        """An event that is likely to satisfy all atoms of a way."""
        event: FlatEvent = {}
        for attribute, atoms in way.items():
            if all(atom.if_absent for atom in atoms):
                continue
            values, are_choices = self._find_choices(attribute, atoms)
            if values:
                event[attribute] = [random.choice(values)] if are_choices else list(values)
        return event

    def _find_choices(self, attribute: str, atoms: tuple[Atom, ...]) -> tuple[list[Value], bool]:
        """Values of which each satisfies all atoms, and True; else values that together may."""
        found = self._known.choices.get(atoms)
        if found is None:
            found = self._choose(attribute, atoms)
            _remember(self._known.choices, atoms, found)
        return found

    def _choose(self, attribute: str, atoms: tuple[Atom, ...]) -> tuple[list[Value], bool]:
        asked = [atom.predicate for atom in atoms if not atom.negated]
        texts = [example_text(p) for p in asked if p.op.is_text]
        values = [*texts, *(value for value, _ in self._values(attribute, atoms))]
        common = [v for v in values if all(satisfies(p, v) for p in asked)]
        if common:
            return [v for v in common if kind_of(v) is kind_of(common[0])], True
        each = [next((v for v in values if satisfies(p, v)), None) for p in asked]
        return list({value_key(v): v for v in each if v is not None}.values()), False


_NOTHING: _Way = {}

_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer")


def _remember(known: dict[_Key, _Answer], key: _Key, answer: _Answer) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = answer


def _may_hold(predicate: Predicate, value: Value, is_single: bool) -> bool:
    """Whether it may hold on a value of the stretch that `value` represents."""
    unclear = is_pattern(predicate) and isinstance(value, str) and not is_single
    return unclear or satisfies(predicate, value)


def _must_hold(predicate: Predicate, value: Value, is_single: bool) -> bool:
    """Whether it holds on all values of the stretch that `value` represents."""
    unclear = is_pattern(predicate) and isinstance(value, str) and not is_single
    return not unclear and satisfies(predicate, value)


def example_text(predicate: Predicate) -> str:
    """A text that satisfies a LIKE or an ILIKE, and may satisfy an RLIKE."""
    if predicate.op is Op.RLIKE:
        return str(predicate.values[0])
    return "".join("a" if part == "" else part or "" for part in like_parts(predicate))
