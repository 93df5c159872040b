"""Finds rules that have no effect of their own: never true, always true, or covered by another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from tamis.expr.analysis.prove import Prover, negate
from tamis.expr.event import FlatEvent, value_key
from tamis.expr.functions.derive import derivation
from tamis.expr.model import And, Atom, Expr, Op, Or, predicates
from tamis.expr.names import DERIVED
from tamis.expr.normalize import nnf, simplify
from tamis.matcher.analysis.hard_events import drop_derived, to_event
from tamis.matcher.rule import RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Finding", "FindingKind", "lint"]

FindingKind: TypeAlias = Literal["never", "always", "duplicate", "subsumed"]

_EXAMPLES: Final = 3
"""How many events are constructed for a rule: every rule that it implies matches them all."""

_PROOFS: Final = 50
"""How many rules are tried that a rule may imply."""

_AT_ONCE: Final = 500
"""How many rules' events are matched together."""


class Finding(NamedTuple):
    """A rule without an effect of its own."""

    kind: FindingKind
    """``"never"`` and ``"always"``: whether it matches does not depend on the event.
    ``"duplicate"``: it is equivalent to an older rule, `other`. ``"subsumed"``: wherever it
    matches, `other` matches as well."""
    rule: RuleId
    other: RuleId | None
    message: str

    def __str__(self) -> str:
        return f"{self.rule!r} {self.message}"


class _Candidate(NamedTuple):
    """A rule that depends on the event and is not an exact copy of an older one."""

    id: RuleId
    age: int
    tree: Expr
    subscription: str | None


def lint(
    matcher: Matcher,
    *,
    schema: Schema,
    single_valued: bool,
    watch: Callable[[int, float], None],
) -> list[Finding]:
    """Check all rules of a matcher; see :meth:`tamis.Matcher.lint`."""
    ids = list(matcher)
    findings: list[Finding] = []
    candidates: dict[RuleId, _Candidate] = {}
    first_with: dict[Hashable, RuleId] = {}
    linter = _Linter(schema, single_valued)
    for number, id in enumerate(ids):
        rule = matcher.rule(id)
        tree = nnf(schema.adapt_rule(rule.bound_expr), rule.logic)
        key = _canonical_key(simplify(tree, linter.find_scalars(tree)))
        first = first_with.setdefault((key, rule.subscription), id)
        if first in candidates:
            finding: Finding | None = _report_duplicate(id, first)
        else:
            finding = linter.check_rule(id, tree)
        if finding is None:
            candidates[id] = _Candidate(id, number, tree, rule.subscription)
        else:
            findings.append(finding)
        watch(number + 1, (number + 1) / (2 * len(ids)))
    remaining, done = list(candidates.values()), len(ids) - len(candidates)
    for start in range(0, len(remaining), _AT_ONCE):
        batch = remaining[start : start + _AT_ONCE]
        findings += linter.find_implications(matcher, batch, candidates)
        done += len(batch)
        watch(len(ids), 0.5 + done / (2 * len(ids)))
    order = {id: number for number, id in enumerate(ids)}
    return sorted(findings, key=lambda finding: order[finding.rule])


class _Linter:
    """Proves properties of rules.

    Parameters
    ----------
    schema
        The declared types of attributes.
    single_valued
        Whether every attribute has at most one value.
    """

    def __init__(self, schema: Schema, single_valued: bool) -> None:
        self._schema = schema
        self._single_valued = single_valued
        self._random = Random(0)
        self._proofs = Prover((), schema.lines_of)

    def find_scalars(self, tree: Expr) -> Collection[str]:
        """Find the attributes of a rule that have at most one value."""
        return _single_by_nature(tree) if self._single_valued else self._schema.scalars

    def check_rule(self, id: RuleId, tree: Expr) -> Finding | None:
        """Check whether a rule depends on the event at all."""
        if not self._prover(tree).can_hold(tree):
            return Finding("never", id, None, "never matches")
        if not self._prover(tree).can_hold(negate(tree)):
            return Finding("always", id, None, "matches every event")
        names = self._find_multivalued(tree)
        if names:
            shown = ", ".join(map(repr, names))
            message = f"matches only events with several values of {shown}"
            return Finding("never", id, None, message)
        return None

    def _find_multivalued(self, tree: Expr) -> list[str]:
        """Find the attributes of which a match needs several values.

        Each of them by itself; if there is none, all those that together need several values.
        """
        names = _single_by_nature(tree)
        if self._single_valued or self._prover(tree, names).can_hold(tree):
            return []
        each = [n for n in names if not self._prover(tree, {n}).can_hold(tree)]
        return each or sorted(names - self._schema.scalars)

    def _prover(self, tree: Expr, scalars: Collection[str] = ()) -> Prover:
        return self._proofs.assuming({*self.find_scalars(tree), *scalars})

    def find_implications(
        self,
        matcher: Matcher,
        batch: Sequence[_Candidate],
        candidates: dict[RuleId, _Candidate],
    ) -> Iterator[Finding]:
        """Find the rules of `batch` that imply another one of `candidates`.

        A rule that is implied matches all events that satisfy the rule which implies it. So the
        index selects the few pairs that are worth a proof.
        """
        events, owners = [], []
        for number, rule in enumerate(batch):
            prover = self._prover(rule.tree)
            examples = (prover.example(rule.tree, self._random) for _ in range(_EXAMPLES))
            own = [to_event(e) for e in examples if e is not None and _is_underived(e)]
            events += own
            owners += [number] * len(own)
        matches = matcher.match_many(events)
        pairs = zip(matches["event"].to_pylist(), matches["rule"].to_pylist(), strict=True)
        hits = Counter((owners[event], id) for event, id in pairs)
        sizes = Counter(owners)
        implied: dict[int, list[_Candidate]] = {}
        for (number, id), count in hits.items():
            if count == sizes[number] and id != batch[number].id and id in candidates:
                implied.setdefault(number, []).append(candidates[id])
        for number, others in implied.items():
            finding = self._prove_implication(batch[number], others[:_PROOFS])
            if finding is not None:
                yield finding

    def _prove_implication(self, rule: _Candidate, others: Sequence[_Candidate]) -> Finding | None:
        prover = self._prover(rule.tree)
        for other in others:
            # What another subscription receives makes no rule of this one redundant.
            if other.subscription != rule.subscription:
                continue
            if not prover.implies(rule.tree, other.tree):
                continue
            if self._prover(other.tree).implies(other.tree, rule.tree):
                if other.age < rule.age:
                    return _report_duplicate(rule.id, other.id)
            else:
                message = f"matches only where {other.id!r} does"
                return Finding("subsumed", rule.id, other.id, message)
        return None


def _report_duplicate(id: RuleId, other: RuleId) -> Finding:
    return Finding("duplicate", id, other, f"says the same as {other!r}")


def _single_by_nature(tree: Expr) -> set[str]:
    """The attributes that have one value in an event with one value per attribute.

    All but those of families of conditions: several conditions may hold at once.
    """
    names = {predicate.attribute for predicate in predicates(tree)}
    return {n for n in names if not n.startswith(DERIVED) or derivation(n).family is None}


def _is_underived(event: FlatEvent) -> bool:
    """Whether an event has no derived attributes, so that a user could send it."""
    return drop_derived(event) == event


def _canonical_key(tree: Expr) -> Hashable:
    """A key that is equal for trees that differ only in the order of parts and values."""
    if isinstance(tree, Atom):
        predicate = tree.predicate
        is_list = predicate.op in (Op.EQ, Op.IN)
        keys = map(value_key, predicate.values)
        values = frozenset(keys) if is_list else tuple(keys)
        op = Op.IN if is_list else predicate.op
        return predicate.attribute, op, values, tree.negated, tree.if_absent
    assert isinstance(tree, And | Or)
    return isinstance(tree, And), frozenset(map(_canonical_key, tree.children))
