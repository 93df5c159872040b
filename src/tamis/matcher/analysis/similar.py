"""Finds rules that match nearly the same events as a given rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tamis.encode.arrow_rows import to_mappings
from tamis.expr.analysis.prove import Prover
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.model import Expr
from tamis.expr.normalize import atoms_of, nnf
from tamis.matcher.analysis.hard_events import EventSampler, sample_rules, to_event
from tamis.matcher.inputs import split_events
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Similar", "find_similar"]

_RULES: Final = 500
"""How many rules of the matcher contribute values to the events that are drawn."""

_EVENTS: Final = 400
"""How many events are drawn for the given rule."""

_EVENTS_BACK: Final = 100
"""How many events are drawn for each candidate."""

_ATOMS: Final = 40
"""Rules with more atoms than this get fewer events: each takes longer to draw."""

_LEAST_EVENTS: Final = 10

_CANDIDATES: Final = 4
"""How many candidates are examined per rule wanted."""


class Similar(NamedTuple):
    """A rule that matches some of the events of the given rule."""

    id: RuleId
    similarity: float
    """The share of events that both rules match among those that either matches, computed from the
    two shares below; 1 for equivalent rules."""
    share: float
    """The share of the given rule's events that this rule matches, too."""
    share_back: float
    """The share of this rule's events that the given rule matches, too."""
    implied: bool
    """Whether it is proved that this rule matches wherever the given rule does."""
    implies: bool
    """Whether it is proved that the given rule matches wherever this rule does."""


class _Shares(NamedTuple):
    id: RuleId
    share: float
    share_back: float

    @property
    def similarity(self) -> float:
        both = min(self.share, self.share_back)
        return 1 / (1 / self.share + 1 / self.share_back - 1) if both else 0.0


def find_similar(
    matcher: Matcher, rule: Rule, n: int, *, schema: Schema, events: Any, seed: int
) -> list[Similar]:
    """Find the `n` rules that are most similar to `rule`; see :meth:`tamis.Matcher.similar`."""
    random = Random(seed)
    prover = Prover(schema.scalars, schema.lines_of)
    tree = _normalize(rule, schema)
    if events is None:
        shares = _estimate_shares(matcher, rule, n, schema, random)
    else:
        shares = _count_shares(matcher, rule, events, schema)
    best = sorted((one for one in shares if one.similarity), key=lambda one: -one.similarity)[:n]
    similar = []
    for one in best:
        other = _normalize(matcher.rule(one.id), schema)
        implied, implies = prover.implies(tree, other), prover.implies(other, tree)
        if implied and implies:
            one = _Shares(one.id, 1.0, 1.0)
        similar.append(Similar(one.id, one.similarity, one.share, one.share_back, implied, implies))
    return similar


def _normalize(rule: Rule, schema: Schema) -> Expr:
    return nnf(schema.adapt_rule(rule.bound_expr), rule.logic)


def _count_shares(matcher: Matcher, rule: Rule, events: Any, schema: Schema) -> Iterator[_Shares]:
    """Compute shares from the caller's events."""
    expr = schema.adapt_rule(rule.bound_expr)
    own, sizes, both = 0, Counter[RuleId](), Counter[RuleId]()
    for chunk in split_events(events):
        rows = chunk if isinstance(chunk, list) else to_mappings(chunk)
        holds = [bool(evaluate_flat(expr, schema.read(row), rule.logic)) for row in rows]
        own += sum(holds)
        matches = matcher.match_many(chunk)
        pairs = zip(matches["event"].to_pylist(), matches["rule"].to_pylist(), strict=True)
        for event, id in pairs:
            sizes[id] += 1
            both[id] += holds[event]
    for id, count in both.items():
        if count and id != rule.id:
            yield _Shares(id, count / own, count / sizes[id])


def _estimate_shares(
    matcher: Matcher, rule: Rule, n: int, schema: Schema, random: Random
) -> Iterator[_Shares]:
    """Estimate shares from events drawn for the rule, and for the rules that match these."""
    tree = _normalize(rule, schema)
    others = [_normalize(other, schema) for other in sample_rules(matcher, _RULES, random)]
    sampler = EventSampler([tree, *others], schema, random)
    events = list(sampler.draw_satisfying(tree, _affordable(_EVENTS, tree)))
    if not events:
        return
    matches = matcher.match_many([to_event(event) for event in events])
    counts = Counter(id for id in matches["rule"].to_pylist() if id != rule.id)
    for id, count in counts.most_common(_CANDIDATES * n):
        other = _normalize(matcher.rule(id), schema)
        back = list(sampler.draw_satisfying(other, _affordable(_EVENTS_BACK, other)))
        matched = sum(bool(evaluate_flat(tree, event, "strong")) for event in back)
        yield _Shares(id, count / len(events), matched / len(back) if back else 0.0)


def _affordable(events: int, tree: Expr) -> int:
    """How many of so many events to draw for a rule."""
    atoms = sum(1 for _ in atoms_of(tree))
    return max(_LEAST_EVENTS, events * _ATOMS // max(atoms, _ATOMS))
