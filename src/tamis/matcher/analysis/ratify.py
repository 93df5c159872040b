"""Whether a live index answers as the language says, on events that are drawn to be hard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tamis.expr.analysis.explain import json_values
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import Event, FlatEvent
from tamis.expr.model import And, Expr, Not, Or
from tamis.expr.normalize import nnf
from tamis.expr.text.sql import to_sql
from tamis.matcher.analysis.hard_events import Drawer, as_event, sampled_rules
from tamis.matcher.analysis.parallel_evaluate import Evaluators
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Difference", "Ratification", "ratify"]

_FIRST_EVENTS: Final = 8
_MOST_EVENTS: Final = 1024
"""How many events are looked at together: few at first, so that little time is enough."""

_SINGLE: Final = 4
"""How many events of those are also asked one by one."""


class Difference(NamedTuple):
    """A rule and an event on which the index and the language disagree, both made small."""

    rule: RuleId
    text: str
    """The rule, or the part of it that does for a disagreement."""
    event: dict[str, Any]
    method: str
    """What disagrees: ``"match"`` or ``"match_many"``."""
    found: bool
    """Whether the index says that the event matches the rule."""
    holds: bool
    """Whether the rule holds."""

    def __str__(self) -> str:
        says = "finds" if self.found else "does not find"
        does = "holds" if self.holds else "does not hold"
        return f"{self.method} {says} {self.rule!r}, which {does}: {self.text}   {self.event}"

    def to_json(self) -> dict[str, Any]:
        """The same as dicts, lists, strings, numbers and booleans."""
        event = {
            name: json_values(tuple(item if isinstance(item, list) else [item]))
            for name, item in self.event.items()
        }
        return {**self._asdict(), "event": event}


class Ratification(NamedTuple):
    """What came of comparing."""

    rules: int
    """How many rules were looked at."""
    events: int
    """How many events were looked at, each with each of the rules."""
    matches: int
    """How many times a rule held: with none, little was shown."""
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether no difference was found."""
        return not self.differences


def ratify(
    matcher: Matcher,
    *,
    schema: Schema,
    fresh: Callable[[], Matcher],
    sample: int,
    seconds: float,
    seed: int,
    processes: int | None,
    limit: int,
    watch: Callable[[int, float], None],
) -> Ratification:
    """See :meth:`tamis.Matcher.ratify`; `fresh` makes an empty matcher of the same settings."""
    end = monotonic() + seconds
    random = Random(seed)
    rules = sampled_rules(matcher, sample, random)
    if not rules:
        return Ratification(0, 0, 0, [])
    exprs = [schema.adapt_rule(rule.expr) for rule in rules]
    trees = [nnf(expr, rule.logic) for expr, rule in zip(exprs, rules, strict=True)]
    drawer = Drawer(trees, schema, random)
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    judge = _Judge(matcher, schema, fresh)
    cores = (os.cpu_count() or 1) if processes is None else processes
    looked = matches = 0
    differences: list[Difference] = []
    each = [(expr, rule.logic) for expr, rule in zip(exprs, rules, strict=True)]
    with Evaluators(each, cores if cores > 1 else 0) as evaluators:
        count = _FIRST_EVENTS
        while not looked or (monotonic() < end and len(differences) < limit):
            began = monotonic()
            flat = [drawer.event() for _ in range(count)]
            evaluators.begin(flat)
            events = [as_event(one) for one in flat]
            found = {method: set(ask(matcher, events)) for method, ask in _METHODS.items()}
            holding = evaluators.end()
            for method, pairs in found.items():
                asked = len(events) if method == "match_many" else _SINGLE
                known = {(event, numbers[id]) for event, id in pairs if id in numbers}
                for event, rule in sorted(known ^ {p for p in holding if p[0] < asked}):
                    if len(differences) < limit:
                        differences += judge.difference(rules[rule], flat[event], method)
            looked, matches = looked + count, matches + len(holding)
            taken, left = monotonic() - began, max(0.0, end - monotonic())
            watch(looked, min(1.0, 1 - left / seconds) if seconds else 1.0)
            count = max(1, min(_MOST_EVENTS, 2 * count, int(count * left / max(taken, 1e-6))))
    return Ratification(len(rules), looked, matches, differences)


def _by_match(matcher: Matcher, events: Sequence[Event]) -> Iterator[tuple[int, RuleId]]:
    for number, event in enumerate(events[:_SINGLE]):
        yield from ((number, id) for id in matcher.match(event))


def _by_match_many(matcher: Matcher, events: Sequence[Event]) -> Iterator[tuple[int, RuleId]]:
    found = matcher.match_many(events)
    return zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)


_METHODS: Final = {"match": _by_match, "match_many": _by_match_many}


class _Judge:
    """Looks at differences once more: they may stem from rules that were changed meanwhile."""

    def __init__(self, matcher: Matcher, schema: Schema, fresh: Callable[[], Matcher]) -> None:
        self._matcher = matcher
        self._schema = schema
        self._fresh = fresh

    def difference(self, rule: Rule, flat: FlatEvent, method: str) -> list[Difference]:
        """The difference, if it is still there, with less of the event and of the rule."""

        def differs(event: FlatEvent) -> bool:
            return self._is_found(self._matcher, rule.id, event, method) is not self._holds(
                rule.expr, rule, event
            )

        if rule.id not in self._matcher or self._matcher.rule(rule.id) != rule or not differs(flat):
            return []
        event = _smaller_event(flat, differs)
        expr = _smaller_rule(rule.expr, lambda part: self._differs_alone(part, rule, event, method))
        holds = self._holds(expr, rule, event)
        return [Difference(rule.id, to_sql(expr), dict(as_event(event)), method, not holds, holds)]

    def _differs_alone(self, expr: Expr, rule: Rule, event: FlatEvent, method: str) -> bool:
        """Whether a rule is answered wrongly where it is the only one."""
        alone = self._fresh()
        alone.add(rule.id, expr, logic=rule.logic)
        alone.optimize()
        return self._is_found(alone, rule.id, event, method) is not self._holds(expr, rule, event)

    def _holds(self, expr: Expr, rule: Rule, event: FlatEvent) -> bool:
        return evaluate_flat(self._schema.adapt_rule(expr), event, rule.logic) is True

    def _is_found(self, matcher: Matcher, id: RuleId, flat: FlatEvent, method: str) -> bool:
        return (0, id) in set(_METHODS[method](matcher, [as_event(flat)]))


def _smaller_event(event: FlatEvent, differs: Callable[[FlatEvent], bool]) -> FlatEvent:
    """The event without the attributes and values that are not needed."""
    for name in list(event):
        rest = {other: values for other, values in event.items() if other != name}
        if differs(rest):
            event = rest
            continue
        for value in list(event[name]):
            fewer = [other for other in event[name] if other is not value]
            if fewer and differs({**event, name: fewer}):
                event = {**event, name: fewer}
    return event


def _smaller_rule(expr: Expr, differs: Callable[[Expr], bool]) -> Expr:
    """The least part of a rule that still differs; the rule itself if no part does."""
    for part in _parts(expr):
        if differs(part):
            return _smaller_rule(part, differs)
    return expr


def _parts(expr: Expr) -> Iterator[Expr]:
    """The rule with a part taken away, in each of the ways that there are."""
    if isinstance(expr, Not):
        yield expr.child
        yield from (Not(part) for part in _parts(expr.child))
    elif isinstance(expr, And | Or):
        yield from expr.children
        for place in range(len(expr.children)):
            before, after = expr.children[:place], expr.children[place + 1 :]
            if len(expr.children) > 2:
                yield type(expr)(before + after)
            for part in _parts(expr.children[place]):
                yield type(expr)((*before, part, *after))
