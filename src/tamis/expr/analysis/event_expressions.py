"""Event expressions: which rules a partially known event could satisfy.

Section 3 of "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions over
High-dimensional Discrete Space" lets events be conjunctions of predicates, as rules are: a
*stabbing* query. ``price BETWEEN 20 AND 40 AND genre = 'classics'`` stands for all events that have
one price of that range and one genre, that one, and no other attribute. A rule matches when it
matches one of these events.

Where we differ: an event expression may have several predicates on one attribute, which narrow the
same value, and ORs: then it stands for the events of each of its *alternatives*. Rules may have any
form. As an attribute has only one value, one value has to satisfy all predicates on it, those of
the rule and those of the event.

Values lie on lines (:mod:`tamis.expr.value_order`), which the values in a rule and an event cut
into stretches. All values of a stretch are equivalent, so its first one represents it, and a
question about endlessly many events becomes one about a few. Only a pattern, such as
``LIKE '%x%'``, can distinguish values of a stretch. It is tested on single values, such as those of
``=`` and ``IN``; on longer stretches it may hold or not, and whether the rule matches is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from tamis.errors import EventError
from tamis.expr.analysis.ways import TooManyWays, walk_ways
from tamis.expr.atoms import value_test
from tamis.expr.model import Atom, Expr, Or, Predicate, Value, predicates
from tamis.expr.normalize import expand, nnf
from tamis.expr.patterns import mentioned_values, prefix_of
from tamis.expr.satisfy import satisfies
from tamis.expr.text.write import to_sql
from tamis.expr.value_order import Line, Stretch

__all__ = [
    "Alternative",
    "Choice",
    "Verdict",
    "find_alternative",
    "find_alternatives",
    "is_pattern",
    "stabs",
]


class Verdict(IntEnum):
    """Whether a rule matches one of the events that an expression stands for."""

    NO = 0
    MAYBE = 1
    """It is unknown."""
    YES = 2


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """The values that an event expression allows for one attribute: all atoms hold on them.

    A choice equals only itself, so that what was computed for it is found quickly.
    """

    lines: tuple[Line, ...]
    """The lines of the attribute's values."""
    atoms: tuple[Atom, ...]

    def stretches(self, also: Iterable[Value] = ()) -> list[Stretch]:
        """The allowed values, cut at the values in the event and at those of `also`."""
        cuts = [*(v for atom in self.atoms for v in mentioned_values(atom.predicate)), *also]
        tests = [value_test(atom) for atom in self.atoms]
        return [
            stretch
            for line in self.lines
            for stretch in line.cut(cuts)
            if all(test(stretch.first) for test in tests)
        ]


Alternative: TypeAlias = Mapping[str, Choice]
"""Events with one value for each of these attributes, and no others."""


def is_pattern(predicate: Predicate) -> bool:
    """Whether it looks inside a string in a way that no order of strings can answer."""
    return predicate.op.is_text and prefix_of(predicate) is None


def find_alternatives(expr: Expr, lines_of: Callable[[str], tuple[Line, ...]]) -> list[Alternative]:
    """The alternatives of the event expression `expr`; empty if no event fits it.

    Parameters
    ----------
    expr
        Predicates under AND, OR and NOT. An attribute of an alternative is present, with one
        value, unless all its predicates are IS NULL.
    lines_of
        Gives the lines of an attribute's values.

    Raises
    ------
    EventError
        There are too many alternatives, or only a pattern is known of a string.
    """
    clauses = expand(nnf(expr, "strong"), Or)
    if clauses is None:
        raise EventError("the event has too many ORs; ask for its alternatives one by one")
    found = (find_alternative(clause, lines_of) for clause in clauses)
    return [alternative for alternative in found if alternative is not None]


def find_alternative(
    clause: Iterable[Atom], lines_of: Callable[[str], tuple[Line, ...]]
) -> Alternative | None:
    """The events of a conjunction; None if it contradicts itself. See `find_alternatives`."""
    atoms: dict[str, list[Atom]] = {}
    for atom in clause:
        atoms.setdefault(atom.predicate.attribute, []).append(atom)
    choices: dict[str, Choice] = {}
    for attribute, said in atoms.items():
        absent = [atom for atom in said if atom.if_absent]
        if len(absent) == len(said):
            continue
        choice = Choice(lines_of(attribute), tuple(said))
        _check_patterns(choice)
        if absent or not choice.stretches():
            return None
        choices[attribute] = choice
    return choices


def _check_patterns(choice: Choice) -> None:
    """Refuse a pattern on strings that are not listed."""
    patterns = [atom.predicate for atom in choice.atoms if is_pattern(atom.predicate)]
    if not patterns:
        return
    others = tuple(atom for atom in choice.atoms if not is_pattern(atom.predicate))
    if any(_is_endless(stretch) for stretch in Choice(choice.lines, others).stretches()):
        raise EventError(
            f"an event cannot contain {to_sql(patterns[0])}: endlessly many strings match it; "
            f"list those of {patterns[0].attribute!r} with = or IN, or give their beginning: "
            "LIKE 'abc%'"
        )


def _is_endless(stretch: Stretch) -> bool:
    """Whether a pattern may distinguish the values of a stretch."""
    return isinstance(stretch.first, str) and not stretch.is_single


class _Witness(NamedTuple):
    """A value that represents its stretch."""

    value: Value
    is_endless: bool
    is_doubtful: bool = False
    """Whether a pattern was tested that may not hold on all values of the stretch."""


_Witnesses: TypeAlias = Mapping[str, list[_Witness]]


def stabs(tree: Expr, among: Iterable[Alternative]) -> Verdict:
    """Whether the rule `tree` matches an event of one of the alternatives `among`.

    Parameters
    ----------
    tree
        A rule in negation normal form: a tree of And, Or and Atom.
    among
        As :func:`find_alternatives` returns them.
    """
    return max((_stabs(tree, alternative) for alternative in among), default=Verdict.NO)


def _stabs(tree: Expr, alternative: Alternative) -> Verdict:
    """Try the ways through the rule, each with the values that remain possible."""
    best = Verdict.NO
    try:
        for left in walk_ways(tree, _witnesses(tree, alternative), _narrow_all):
            best = max(best, _verdict(left))
            if best is Verdict.YES:
                break
    except TooManyWays:
        best = Verdict.MAYBE
    return best


def _witnesses(tree: Expr, alternative: Alternative) -> _Witnesses:
    """A value for each stretch of the attributes in the rule."""
    mentioned: dict[str, list[Value]] = {}
    for predicate in predicates(tree):
        mentioned.setdefault(predicate.attribute, []).extend(mentioned_values(predicate))
    return {
        attribute: [
            _Witness(stretch.first, _is_endless(stretch))
            for stretch in alternative[attribute].stretches(values)
        ]
        for attribute, values in mentioned.items()
        if attribute in alternative
    }


def _narrow_all(atoms: Iterable[Atom], witnesses: _Witnesses) -> _Witnesses | None:
    """The witnesses on which all atoms may hold, too; None if there are none."""
    left: _Witnesses | None = witnesses
    for atom in atoms:
        left = None if left is None else _narrow(atom, left)
    return left


def _narrow(atom: Atom, witnesses: _Witnesses) -> _Witnesses | None:
    """The witnesses on which `atom` may hold, too; None if there are none."""
    predicate = atom.predicate
    here = witnesses.get(predicate.attribute)
    if here is None:
        return witnesses if atom.if_absent else None
    kept: list[_Witness] = []
    for witness in here:
        if witness.is_endless and is_pattern(predicate):
            kept.append(witness._replace(is_doubtful=True))
        elif satisfies(predicate, witness.value) is not atom.negated:
            kept.append(witness)
    return {**witnesses, predicate.attribute: kept} if kept else None


def _verdict(witnesses: _Witnesses) -> Verdict:
    """The verdict from the witnesses at the end of a way."""
    sure = all(any(not w.is_doubtful for w in here) for here in witnesses.values())
    return Verdict.YES if sure else Verdict.MAYBE
