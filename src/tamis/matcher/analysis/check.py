"""Finds why rules match nothing: attributes that no event has, and kinds that never compare.

A comparison of values of different kinds is not true and not an error, and an attribute that is
misspelt is just absent. So a wrong rule gives no row and no message. This check compares what rules
mention with what events have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from tamis.deadline import check_time
from tamis.expr.event import Kind, kind_of
from tamis.expr.functions.derive import term_named
from tamis.expr.functions.scalar import COMPARISONS, Type
from tamis.expr.functions.terms import (
    Attribute,
    Call,
    Constant,
    Term,
    attributes_of,
    spell_term,
    takes_of,
    type_of,
)
from tamis.expr.html import write_box, write_table
from tamis.expr.joins.predicate import Test
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import And, Atom, Expr, Op, Or, Predicate, Value
from tamis.expr.names import DERIVED, JOINED
from tamis.expr.normalize import atoms_of
from tamis.expr.text.bulk import SharedReader
from tamis.expr.text.literals import spell
from tamis.matcher.analysis.near_names import find_near, list_near
from tamis.matcher.analysis.observed import ObservedEvents
from tamis.matcher.inputs import split_events
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.snapshot import Snapshot

__all__ = ["CheckFinding", "CheckFindingKind", "CheckReport", "check"]

CheckFindingKind: TypeAlias = Literal["unknown", "quoted", "kind"]

_NEAR: Final = 200
"""For how many findings near names are searched, those with the most rules first."""

_REMEMBERED: Final = 65_536
"""How many atoms' verdicts are remembered before the memory starts anew."""

_WATCHED: Final = 1_000
"""After how many rules progress is reported."""


class CheckFinding(NamedTuple):
    """A reason why rules find nothing."""

    kind: CheckFindingKind
    """``"unknown"``: no event has the attribute. ``"quoted"``: rules compare it with an attribute
    that no event has, as in ``country = "FR"``, where a text was meant. ``"kind"``: its values are
    of another kind than what rules compare it with, so no comparison holds."""
    attribute: str
    rules: int
    """How many rules are affected."""
    example: RuleId
    """One of these rules."""
    near: tuple[str, ...]
    """Attributes of events whose names resemble that of the missing one, the nearest first."""
    message: str
    """What is wrong, and how to change it."""

    def __str__(self) -> str:
        count = "1 rule:" if self.rules == 1 else f"{self.rules:,} rules, such as"
        return f"{self.message} ({count} {self.example!r})"


class CheckReport(NamedTuple):
    """The result of :meth:`tamis.Matcher.check`. It prints as lines."""

    rules: int
    """How many rules were checked."""
    events: int
    """How many events were read. Without any, nothing is found."""
    possible: int
    """How many rules can match, as far as attributes and kinds decide it."""
    findings: list[CheckFinding]
    """Those that affect the most rules first."""

    @property
    def share(self) -> float:
        """The share of rules that can match; 1 if there are no rules."""
        return self.possible / self.rules if self.rules else 1.0

    def __str__(self) -> str:
        if not self.events:
            return "there are no events to check the rules against"
        events = "1 event" if self.events == 1 else f"{self.events:,} events"
        summary = f"{self.possible:,} of {self.rules:,} rules can match; compared with {events}"
        return "\n".join([*map(str, self.findings), summary])

    def _repr_html_(self) -> str:
        *_, summary = str(self).splitlines()
        rows = [(one.attribute, one.message, one.rules, str(one.example)) for one in self.findings]
        titles = ("attribute", "finding", "rules", "such as")
        return write_box(summary, write_table(rows, titles) if rows else "")


class _Doubt(NamedTuple):
    """What a finding is about; rules with equal doubts share one."""

    kind: CheckFindingKind
    attribute: str
    compared: str = ""
    """What an attribute of another kind is compared with, or the function that takes it."""


class _Verdict(NamedTuple):
    """What the events say about an atom."""

    possible: bool
    """Whether it can hold."""
    doubts: tuple[tuple[_Doubt, str], ...]
    """What is wrong with it. Beside a ``"kind"`` stands the message; beside a ``"quoted"`` and an
    ``"unknown"``, the name of the attribute that no event has."""


class _Count:
    """The rules that share a doubt; see `_Verdict` about the detail, which is the first one's."""

    __slots__ = ("detail", "example", "rules")

    def __init__(self, example: RuleId, detail: str) -> None:
        self.rules = 0
        self.example = example
        self.detail = detail


def check(
    snapshot: Snapshot,
    events: Any,
    *,
    mentioned: frozenset[str],
    schema: Schema,
    watch: Callable[[int, float | None], None],
) -> CheckReport:
    """Compare the rules of a snapshot with events; see :meth:`tamis.Matcher.check`.

    `mentioned` are the attributes that the rules mention.
    """
    observed = ObservedEvents(mentioned, schema)
    for chunk in split_events(events):
        observed.add(chunk)
        watch(observed.size, None)
    if not observed.size:
        return CheckReport(snapshot.size, 0, snapshot.size, [])
    judge = _Judge(observed)
    reader = SharedReader(schema.adapt)
    counts: dict[_Doubt, _Count] = {}
    possible = 0
    for number, rule in enumerate(snapshot.rules(), 1):
        tree = _read_tree(reader, rule)
        possible += judge.can_hold(tree)
        for doubt, detail in dict(judge.find_doubts(tree)).items():
            if doubt not in counts:
                counts[doubt] = _Count(rule.id, detail)
            counts[doubt].rules += 1
        if number % _WATCHED == 0:
            watch(number, number / snapshot.size)
    return CheckReport(snapshot.size, observed.size, possible, _rank(counts, observed))


def _read_tree(reader: SharedReader, rule: Rule) -> Expr:
    if isinstance(rule.source, str):
        return reader.read_tree(rule.source, rule.logic)
    return reader.normalize(rule.source, rule.logic)


def _rank(counts: dict[_Doubt, _Count], observed: ObservedEvents) -> list[CheckFinding]:
    """Turn doubts into findings, those that affect the most rules first."""
    findings = []
    ranked = sorted(counts.items(), key=lambda item: -item[1].rules)
    for number, (doubt, count) in enumerate(ranked):
        near: tuple[str, ...] = ()
        if doubt.kind != "kind" and number < _NEAR:
            near = find_near(count.detail, observed.attributes)
        message = _describe(doubt, count.detail, near)
        findings.append(
            CheckFinding(doubt.kind, doubt.attribute, count.rules, count.example, near, message)
        )
    return findings


def _describe(doubt: _Doubt, detail: str, near: tuple[str, ...]) -> str:
    match doubt.kind:
        case "unknown":
            return f"no event has {detail!r}{list_near(near)}"
        case "quoted":
            return (
                f'{doubt.attribute!r} is compared with the attribute "{detail}", which no event '
                f"has; a text is {spell(detail)}, in single quotes{list_near(near)}"
            )
        case "kind":
            return detail


class _Judge:
    """Decides what can hold on events with the observed attributes and kinds."""

    def __init__(self, observed: ObservedEvents) -> None:
        self._observed = observed
        self._verdicts: dict[Atom, _Verdict] = {}

    def can_hold(self, tree: Expr) -> bool:
        """Whether a rule in negation normal form can hold."""
        if isinstance(tree, Atom):
            return self._judge(tree).possible
        if isinstance(tree, And):
            return all(map(self.can_hold, tree.children))
        assert isinstance(tree, Or)
        return any(map(self.can_hold, tree.children))

    def find_doubts(self, tree: Expr) -> Iterator[tuple[_Doubt, str]]:
        """Find what is wrong with a rule; the same may come more than once."""
        for atom in atoms_of(tree):
            yield from self._judge(atom).doubts

    def _judge(self, atom: Atom) -> _Verdict:
        verdict = self._verdicts.get(atom)
        if verdict is None:
            check_time()
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            verdict = self._verdicts[atom] = self._judge_anew(atom)
        return verdict

    def _judge_anew(self, atom: Atom) -> _Verdict:
        predicate = atom.predicate
        if predicate.attribute.startswith(JOINED):
            # Which documents will have been seen is open.
            return _Verdict(True, tuple(self._doubt_join(predicate.attribute)))
        if predicate.attribute.startswith(DERIVED):
            term = term_named(predicate.attribute)
            doubts = tuple(self._doubt_term(term))
            present = not any(doubt.kind != "kind" for doubt, _ in doubts)
            if term.function in COMPARISONS:
                # Values of different kinds compare as false, which a negation may want.
                holds = not doubts
            else:
                present = holds = not doubts
        else:
            doubts = tuple(self._doubt_predicate(predicate))
            present = bool(self._observed.kinds(predicate.attribute))
            holds = present and not doubts
        if atom.negated:
            return _Verdict(atom.if_absent or present, _tolerate_absence(atom, doubts))
        return _Verdict(holds, doubts)

    def _doubt_predicate(self, predicate: Predicate) -> Iterator[tuple[_Doubt, str]]:
        """What is wrong with a predicate on an attribute of events."""
        name = predicate.attribute
        if name not in self._observed:
            yield _Doubt("unknown", name), name
            return
        kinds = self._observed.kinds(name)
        if not kinds or predicate.op is Op.PRESENT:
            return
        wanted = {Kind.STRING} if predicate.op.is_text else set(map(kind_of, predicate.values))
        if kinds.isdisjoint(wanted):
            literal = predicate.values[0]
            other = _KINDS[kind_of(literal)]
            message = (
                f"{self._show(name)}; rules compare it with {other}, such as {_shorten(literal)}; "
                f"{self._advise(name, predicate.op, literal)}"
            )
            yield _Doubt("kind", name, other), message

    def _doubt_term(self, term: Term) -> Iterator[tuple[_Doubt, str]]:
        """What is wrong with the attributes in a term."""
        if not isinstance(term, Call):
            return
        if term.function in COMPARISONS:
            yield from self._doubt_comparison(*term.terms)
            return
        for inner, wanted in zip(term.terms, takes_of(term.function), strict=True):
            if not isinstance(inner, Attribute):
                yield from self._doubt_term(inner)
            elif inner.name not in self._observed:
                yield _Doubt("unknown", inner.name), inner.name
            else:
                kinds = self._observed.kinds(inner.name)
                if kinds and kinds.isdisjoint(_TAKEN[wanted]):
                    shown = spell_term(term)
                    yield (
                        _Doubt("kind", inner.name, term.function),
                        f"{self._show(inner.name)}; {shown} takes {wanted}",
                    )

    def _doubt_comparison(self, left: Term, right: Term) -> Iterator[tuple[_Doubt, str]]:
        """What is wrong with a comparison of two terms."""
        for side, other in ((left, right), (right, left)):
            if not isinstance(side, Attribute):
                yield from self._doubt_term(side)
            elif side.name not in self._observed:
                # `contry = "FR"`: the left side is an attribute in most rules.
                is_known = all(name in self._observed for name in attributes_of(other))
                if is_known or side is right:
                    yield _Doubt("quoted", spell_term(other)), side.name
                else:
                    yield _Doubt("unknown", side.name), side.name
        kinds, others = self._kinds_of(left), self._kinds_of(right)
        if kinds and others and kinds.isdisjoint(others):
            named, other = (left, right) if isinstance(left, Attribute) else (right, left)
            if isinstance(named, Attribute):
                shown = spell_term(other)
                what = " and ".join(_KINDS[kind] for kind in sorted(self._kinds_of(other)))
                has = f"{self._show(named.name)}; rules compare it with {shown}, which has {what}"
                yield _Doubt("kind", named.name, shown), has

    def _doubt_join(self, name: str) -> Iterator[tuple[_Doubt, str]]:
        """What is wrong with a join predicate; documents are earlier events."""
        join = join_named(name)
        for attribute in sorted(join.news | join.olds):
            if attribute not in self._observed:
                yield _Doubt("unknown", attribute), attribute
        for leaf in join.leaves():
            if isinstance(leaf, Test) and leaf.predicate.attribute in self._observed:
                yield from self._doubt_predicate(leaf.predicate)

    def _kinds_of(self, term: Term) -> frozenset[Kind]:
        """The kinds of values that a term can have; empty if that is open."""
        if isinstance(term, Attribute):
            return self._observed.kinds(term.name)
        if isinstance(term, Constant):
            return frozenset([kind_of(term.value)])
        given = _GIVEN.get(type_of(term))
        return frozenset() if given is None else frozenset([given])

    def _show(self, name: str) -> str:
        """The kinds of an attribute's values, for people: ``'age' has numbers, such as 30``."""
        examples = self._observed.attributes[name].examples
        kinds = self._observed.kinds(name)
        shown = []
        for kind in sorted(kinds):
            example = examples.get(kind)
            such = "" if example is None else f", such as {_shorten(example)}"
            shown.append(f"{_KINDS[kind]}{such}")
        return f"{name!r} has {' and '.join(shown)}"

    def _advise(self, name: str, op: Op, literal: Value) -> str:
        """How to change a predicate so that it compares."""
        has, given = min(self._observed.kinds(name)), kind_of(literal)
        text = literal if isinstance(literal, str) and not op.is_text else None
        match has:
            case Kind.TIMESTAMP:
                stamp = text if text is not None and _is_time(text) else "2024-01-31"
                write = f"write TIMESTAMP '{stamp}'"
                if given is Kind.STRING and not op.is_text:
                    return f"{write}, or declare {_declare_time(name)}"
                return f"{write}, or a function such as year({name})"
            case Kind.NUMBER:
                if given is Kind.TIMESTAMP:
                    return f"write timestamp_seconds({name}) or timestamp_millis({name})"
                return f"write {text} without quotes" if _is_number(text) else "write a number"
            case Kind.BOOLEAN:
                return "write TRUE or FALSE"
            case Kind.STRING:
                if given is Kind.TIMESTAMP:
                    return f"write to_timestamp({name}), or declare {_declare_time(name)}"
                return f"write {spell(spell(literal))}, as a text in quotes"


def _tolerate_absence(
    atom: Atom, doubts: tuple[tuple[_Doubt, str], ...]
) -> tuple[tuple[_Doubt, str], ...]:
    """Drop doubts about the attribute of ``IS NULL``, which is about absent ones."""
    return () if atom.predicate.op is Op.PRESENT else doubts


def _declare_time(name: str) -> str:
    return f"schema={{{name!r}: 'timestamp'}}"


def _shorten(value: Value) -> str:
    text = spell(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_number(text: str | None) -> bool:
    if text is None:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and not text.strip().lower().strip("+-").startswith(("inf", "nan"))


_LONGEST: Final = 40
"""How many characters of a value are shown."""

_KINDS: Final = {
    Kind.BOOLEAN: "booleans",
    Kind.NUMBER: "numbers",
    Kind.STRING: "texts",
    Kind.TIMESTAMP: "timestamps",
}

_TEXTS: Final = frozenset([Kind.STRING])
_TAKEN: Final[dict[Type, frozenset[Kind]]] = {
    Type.ANY: frozenset(Kind),
    Type.NUMBER: frozenset([Kind.NUMBER]),
    Type.STRING: _TEXTS,
    Type.BOOLEAN: frozenset([Kind.BOOLEAN]),
    Type.TIMESTAMP: frozenset([Kind.TIMESTAMP, Kind.STRING]),
    Type.VERSION: _TEXTS,
    Type.SEMVER: _TEXTS,
    Type.ADDRESS: _TEXTS,
}
"""The kinds of values that a function takes as an argument of a type."""

_GIVEN: Final = {
    Type.NUMBER: Kind.NUMBER,
    Type.STRING: Kind.STRING,
    Type.BOOLEAN: Kind.BOOLEAN,
    Type.TIMESTAMP: Kind.TIMESTAMP,
}
"""The kind of a function's values, where rules compare them as they are."""
