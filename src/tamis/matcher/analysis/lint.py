"""Rules that do nothing, or nothing that another one does not do already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from tamis.expr.analysis.prove import Prover, negation
from tamis.expr.event import FlatEvent, value_key
from tamis.expr.functions.derive import derivation
from tamis.expr.model import And, Atom, Expr, Op, Or, predicates
from tamis.expr.names import DERIVED
from tamis.expr.normalize import nnf, simplify
from tamis.matcher.analysis.hard_events import as_event, without_derived
from tamis.matcher.rule import RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Finding", "FindingKind", "lint"]

FindingKind: TypeAlias = Literal["never", "always", "duplicate", "subsumed"]

_EXAMPLES: Final = 3
"""How many events are made for a rule: one that implies it has to match them all."""

_PROOFS: Final = 50
"""How many rules are tried that may imply a rule."""

_AT_ONCE: Final = 500
"""How many rules' events are matched together."""


class Finding(NamedTuple):
    """What is odd about a rule."""

    kind: FindingKind
    """``"never"`` and ``"always"``: whether it matches does not depend on the event.
    ``"duplicate"``: an older rule, `other`, says the same. ``"subsumed"``: wherever it matches,
    `other` does as well."""
    rule: RuleId
    other: RuleId | None
    message: str

    def __str__(self) -> str:
        return f"{self.rule!r} {self.message}"


class _Looked(NamedTuple):
    """A rule that is neither idle nor a copy."""

    id: RuleId
    age: int
    tree: Expr


def lint(
    matcher: Matcher,
    *,
    schema: Schema,
    single_valued: bool,
    watch: Callable[[int, float], None],
) -> list[Finding]:
    """See :meth:`tamis.Matcher.lint`."""
    ids = list(matcher)
    findings: list[Finding] = []
    looked: dict[RuleId, _Looked] = {}
    same: dict[Hashable, RuleId] = {}
    judge = _Judge(schema, single_valued)
    for number, id in enumerate(ids):
        rule = matcher.rule(id)
        tree = nnf(schema.adapt_rule(rule.expr), rule.logic)
        first = same.setdefault(_canonical(simplify(tree, judge.scalars(tree))), id)
        found = judge.finding(id, tree)
        if found is None and first != id:
            found = _duplicate(id, first)
        if found is None:
            looked[id] = _Looked(id, number, tree)
        else:
            findings.append(found)
        watch(number + 1, (number + 1) / (2 * len(ids)))
    chosen, done = list(looked.values()), len(ids) - len(looked)
    for first_place in range(0, len(chosen), _AT_ONCE):
        some = chosen[first_place : first_place + _AT_ONCE]
        findings += judge.overlaps(matcher, some, looked)
        done += len(some)
        watch(len(ids), 0.5 + done / (2 * len(ids)))
    order = {id: number for number, id in enumerate(ids)}
    return sorted(findings, key=lambda finding: order[finding.rule])


class _Judge:
    """Finds what can be proved of rules.

    Parameters
    ----------
    schema
        What is declared about attributes.
    single_valued
        Whether all attributes have one value at most.
    """

    def __init__(self, schema: Schema, single_valued: bool) -> None:
        self._schema = schema
        self._single_valued = single_valued
        self._random = Random(0)

    def scalars(self, tree: Expr) -> Collection[str]:
        """The attributes of a rule that have one value at most."""
        return _with_one_value(tree) if self._single_valued else self._schema.scalars

    def finding(self, id: RuleId, tree: Expr) -> Finding | None:
        """What is odd about a rule by itself."""
        if not self._prover(tree).can_hold(tree):
            return Finding("never", id, None, "never matches")
        if not self._prover(tree).can_hold(negation(tree)):
            return Finding("always", id, None, "matches every event")
        needed = self._needed_several(tree)
        if needed:
            names = ", ".join(map(repr, needed))
            message = f"matches only events with several values of {names}"
            return Finding("never", id, None, message)
        return None

    def _needed_several(self, tree: Expr) -> list[str]:
        """The attributes that need several values, each or, if that is not it, taken together."""
        names = _with_one_value(tree)
        if self._single_valued or self._prover(tree, names).can_hold(tree):
            return []
        each = [n for n in names if not self._prover(tree, {n}).can_hold(tree)]
        return each or sorted(names - self._schema.scalars)

    def _prover(self, tree: Expr, also: Collection[str] = ()) -> Prover:
        return Prover({*self.scalars(tree), *also}, self._schema.lines_of)

    def overlaps(
        self, matcher: Matcher, some: Sequence[_Looked], known: dict[RuleId, _Looked]
    ) -> Iterator[Finding]:
        """Rules among `some` that imply one of `known`.

        Whatever a rule implies matches all events that satisfy it. So the index says which few
        rules are worth a proof.
        """
        events, owners = [], []
        for number, rule in enumerate(some):
            prover = self._prover(rule.tree)
            made = (prover.example(rule.tree, self._random) for _ in range(_EXAMPLES))
            mine = [as_event(event) for event in made if event is not None and _is_whole(event)]
            events += mine
            owners += [number] * len(mine)
        found = matcher.match_many(events)
        hits = Counter(
            (owners[event], id)
            for event, id in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)
        )
        sizes = Counter(owners)
        candidates: dict[int, list[_Looked]] = {}
        for (number, id), count in hits.items():
            if count == sizes[number] and id != some[number].id and id in known:
                candidates.setdefault(number, []).append(known[id])
        for number, others in candidates.items():
            finding = self._overlap(some[number], others[:_PROOFS])
            if finding is not None:
                yield finding

    def _overlap(self, rule: _Looked, others: Sequence[_Looked]) -> Finding | None:
        prover = self._prover(rule.tree)
        for other in others:
            if not prover.implies(rule.tree, other.tree):
                continue
            if self._prover(other.tree).implies(other.tree, rule.tree):
                if other.age < rule.age:
                    return _duplicate(rule.id, other.id)
            else:
                message = f"matches only where {other.id!r} does"
                return Finding("subsumed", rule.id, other.id, message)
        return None


def _duplicate(id: RuleId, other: RuleId) -> Finding:
    return Finding("duplicate", id, other, f"says the same as {other!r}")


def _with_one_value(tree: Expr) -> set[str]:
    """The attributes that have one value where an event has one of each.

    Not those of families: many conditions may hold at once.
    """
    names = {predicate.attribute for predicate in predicates(tree)}
    return {n for n in names if not n.startswith(DERIVED) or derivation(n).family is None}


def _is_whole(event: FlatEvent) -> bool:
    """Whether an event that was made for a rule can be had: it derives nothing."""
    return without_derived(event) == event


def _canonical(tree: Expr) -> Hashable:
    """Equal for trees that differ in the order of their parts and of their values only."""
    if isinstance(tree, Atom):
        predicate = tree.predicate
        is_list = predicate.op in (Op.EQ, Op.IN)
        keys = map(value_key, predicate.values)
        values = frozenset(keys) if is_list else tuple(keys)
        op = Op.IN if is_list else predicate.op
        return predicate.attribute, op, values, tree.negated, tree.if_absent
    assert isinstance(tree, And | Or)
    return isinstance(tree, And), frozenset(map(_canonical, tree.children))
