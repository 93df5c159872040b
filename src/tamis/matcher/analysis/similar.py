"""Rules that match much the same events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tamis.expr.analysis.prove import Prover
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.model import Expr
from tamis.expr.normalize import nnf
from tamis.matcher.analysis.hard_events import Drawer, as_event, sampled_rules
from tamis.matcher.inputs import event_chunks
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Similar", "similar"]

_RULES: Final = 500
"""How many rules of the collection lend their values to the events that are drawn."""

_EVENTS: Final = 400
_EVENTS_BACK: Final = 100
"""How many events are drawn for the rule asked for, and for each that may be like it."""

_CANDIDATES: Final = 4
"""How many rules are looked at more closely, for each that is wanted."""


class Similar(NamedTuple):
    """A rule that matches events which the rule asked for matches."""

    id: RuleId
    similarity: float
    """Of the events that either matches, the part that both match: 1 for rules that say the same.
    It follows from the two shares."""
    share: float
    """The part of the events of the rule asked for that this one matches too."""
    share_back: float
    """The part of this one's events that the rule asked for matches too."""
    implied: bool
    """Whether this one is proved to match wherever the rule asked for does."""
    implies: bool
    """Whether the rule asked for is proved to match wherever this one does."""


class _Shares(NamedTuple):
    id: RuleId
    share: float
    share_back: float

    @property
    def similarity(self) -> float:
        both = min(self.share, self.share_back)
        return 1 / (1 / self.share + 1 / self.share_back - 1) if both else 0.0


def similar(
    matcher: Matcher, rule: Rule, n: int, *, schema: Schema, events: Any, seed: int
) -> list[Similar]:
    """See :meth:`tamis.Matcher.similar`."""
    random = Random(seed)
    prover = Prover(schema.scalars, schema.lines_of)
    tree = _tree(rule, schema)
    if events is None:
        shares = _by_draws(matcher, rule, n, schema, random)
    else:
        shares = _on_events(matcher, rule, events, schema)
    best = sorted(shares, key=lambda one: -one.similarity)[:n]
    found = []
    for one in best:
        other = _tree(matcher.rule(one.id), schema)
        implied, implies = prover.implies(tree, other), prover.implies(other, tree)
        if implied and implies:
            one = _Shares(one.id, 1.0, 1.0)
        found.append(Similar(one.id, one.similarity, one.share, one.share_back, implied, implies))
    return found


def _tree(rule: Rule, schema: Schema) -> Expr:
    return nnf(schema.adapt_rule(rule.expr), rule.logic)


def _on_events(matcher: Matcher, rule: Rule, events: Any, schema: Schema) -> Iterator[_Shares]:
    """By what matches the events that the caller knows."""
    expr = schema.adapt_rule(rule.expr)
    own, sizes, both = 0, Counter[RuleId](), Counter[RuleId]()
    for chunk in event_chunks(events):
        rows = chunk if isinstance(chunk, list) else chunk.to_pylist()
        holds = [bool(evaluate_flat(expr, schema.read(row), rule.logic)) for row in rows]
        own += sum(holds)
        found = matcher.match_many(chunk)
        for event, id in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True):
            sizes[id] += 1
            both[id] += holds[event]
    for id, count in both.items():
        if count and id != rule.id:
            yield _Shares(id, count / own, count / sizes[id])


def _by_draws(
    matcher: Matcher, rule: Rule, n: int, schema: Schema, random: Random
) -> Iterator[_Shares]:
    """By events that are drawn for the rule, and for those that match these."""
    tree = _tree(rule, schema)
    others = [_tree(one, schema) for one in sampled_rules(matcher, _RULES, random)]
    drawer = Drawer([tree, *others], schema, random)
    events = list(drawer.examples(tree, _EVENTS))
    if not events:
        return
    found = matcher.match_many([as_event(event) for event in events])
    counts = Counter(id for id in found["rule"].to_pylist() if id != rule.id)
    for id, count in counts.most_common(_CANDIDATES * n):
        back = list(drawer.examples(_tree(matcher.rule(id), schema), _EVENTS_BACK))
        held = sum(bool(evaluate_flat(tree, event, "strong")) for event in back)
        yield _Shares(id, count / len(events), held / len(back) if back else 0.0)
