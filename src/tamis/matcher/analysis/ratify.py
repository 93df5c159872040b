"""Checks a live index against the rule language, on events that are drawn to be hard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tamis.expr.analysis.explain import values_to_json
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import Event, FlatEvent
from tamis.expr.html import write_box, write_table
from tamis.expr.model import And, Expr, Not, Or
from tamis.expr.normalize import nnf
from tamis.expr.text.write import to_sql
from tamis.matcher.analysis.evaluator_pool import EvaluatorPool
from tamis.matcher.analysis.hard_events import EventSampler, sample_rules, to_event
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Difference", "Ratification", "ratify"]

_FIRST_EVENTS: Final = 8
"""How many events are checked in the first round: few, so that a short time is enough."""

_MOST_EVENTS: Final = 1024
"""How many events are checked in one round at most."""

_SINGLE: Final = 4
"""How many events of a round are also matched one by one."""


class Difference(NamedTuple):
    """A rule and an event on which the index and the language disagree, both reduced."""

    rule: RuleId
    text: str
    """The rule, or the smallest part of it that still shows the difference."""
    event: dict[str, Any]
    method: str
    """The method with the wrong answer: ``"match"`` or ``"match_many"``."""
    found: bool
    """Whether the index finds the rule."""
    holds: bool
    """Whether the rule holds."""

    def __str__(self) -> str:
        says = "finds" if self.found else "does not find"
        does = "holds" if self.holds else "does not hold"
        return f"{self.method} {says} {self.rule!r}, which {does}: {self.text}   {self.event}"

    def to_json(self) -> dict[str, Any]:
        """The same as dicts, lists, strings, numbers and booleans."""
        event = {
            name: values_to_json(tuple(item if isinstance(item, list) else [item]))
            for name, item in self.event.items()
        }
        return {**self._asdict(), "event": event}


class Ratification(NamedTuple):
    """The result of :meth:`tamis.Matcher.ratify`."""

    rules: int
    """How many rules were checked."""
    events: int
    """How many events were checked, each against each of the rules."""
    matches: int
    """How many times a rule held. Without any match, the check shows little."""
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether no difference was found."""
        return not self.differences

    def _repr_html_(self) -> str:
        title = (
            f"{self.rules:,} rules, {self.events:,} events, {self.matches:,} matches: "
            f"{len(self.differences):,} differences"
        )
        rows = [(str(one.rule), one.text, one.method, str(one.event)) for one in self.differences]
        titles = ("rule", "text", "method", "event")
        return write_box(title, write_table(rows, titles) if rows else "")


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
    """Check a matcher; see :meth:`tamis.Matcher.ratify`.

    `fresh` creates an empty matcher with the same settings.
    """
    end = monotonic() + seconds
    random = Random(seed)
    rules = sample_rules(matcher, sample, random)
    if not rules:
        return Ratification(0, 0, 0, [])
    exprs = [schema.adapt_rule(rule.expr) for rule in rules]
    trees = [nnf(expr, rule.logic) for expr, rule in zip(exprs, rules, strict=True)]
    sampler = EventSampler(trees, schema, random)
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    reducer = _Reducer(matcher, schema, fresh)
    cores = (os.cpu_count() or 1) if processes is None else processes
    checked = matches = 0
    differences: list[Difference] = []
    pairs = [(expr, rule.logic) for expr, rule in zip(exprs, rules, strict=True)]
    with EvaluatorPool(pairs, cores if cores > 1 else 0) as pool:
        count = _FIRST_EVENTS
        while not checked or (monotonic() < end and len(differences) < limit):
            began = monotonic()
            flat = [sampler.draw() for _ in range(count)]
            pool.submit(flat)
            events = [to_event(event) for event in flat]
            answers = {method: set(search(matcher, events)) for method, search in _METHODS.items()}
            holding = pool.collect()
            for method, answer in answers.items():
                size = len(events) if method == "match_many" else _SINGLE
                found = {(event, numbers[id]) for event, id in answer if id in numbers}
                for event, rule in sorted(found ^ {pair for pair in holding if pair[0] < size}):
                    if len(differences) < limit:
                        differences += reducer.reduce(rules[rule], flat[event], method)
            checked, matches = checked + count, matches + len(holding)
            taken, left = monotonic() - began, max(0.0, end - monotonic())
            watch(checked, min(1.0, 1 - left / seconds) if seconds else 1.0)
            count = max(1, min(_MOST_EVENTS, 2 * count, int(count * left / max(taken, 1e-6))))
    return Ratification(len(rules), checked, matches, differences)


def _match_singly(matcher: Matcher, events: Sequence[Event]) -> Iterator[tuple[int, RuleId]]:
    for number, event in enumerate(events[:_SINGLE]):
        yield from ((number, id) for id in matcher.match(event))


def _match_together(matcher: Matcher, events: Sequence[Event]) -> Iterator[tuple[int, RuleId]]:
    matches = matcher.match_many(events)
    return zip(matches["event"].to_pylist(), matches["rule"].to_pylist(), strict=True)


_METHODS: Final = {"match": _match_singly, "match_many": _match_together}


class _Reducer:
    """Confirms differences, and reduces the event and the rule of each.

    A difference may go away: another thread may have changed the rule after it was sampled.
    """

    def __init__(self, matcher: Matcher, schema: Schema, fresh: Callable[[], Matcher]) -> None:
        self._matcher = matcher
        self._schema = schema
        self._fresh = fresh

    def reduce(self, rule: Rule, flat: FlatEvent, method: str) -> list[Difference]:
        """Reduce a difference as far as it goes; an empty list if it is not confirmed."""

        def differs(event: FlatEvent) -> bool:
            return self._finds(self._matcher, rule.id, event, method) is not self._holds(
                rule.expr, rule, event
            )

        if rule.id not in self._matcher or self._matcher.rule(rule.id) != rule or not differs(flat):
            return []
        event = _reduce_event(flat, differs)
        expr = _reduce_rule(rule.expr, lambda part: self._differs_alone(part, rule, event, method))
        holds = self._holds(expr, rule, event)
        return [Difference(rule.id, to_sql(expr), dict(to_event(event)), method, not holds, holds)]

    def _differs_alone(self, expr: Expr, rule: Rule, event: FlatEvent, method: str) -> bool:
        """Whether a matcher that holds only this rule gives the wrong answer."""
        alone = self._fresh()
        alone.add(rule.id, expr, logic=rule.logic)
        alone.optimize()
        return self._finds(alone, rule.id, event, method) is not self._holds(expr, rule, event)

    def _holds(self, expr: Expr, rule: Rule, event: FlatEvent) -> bool:
        return evaluate_flat(self._schema.adapt_rule(expr), event, rule.logic) is True

    def _finds(self, matcher: Matcher, id: RuleId, flat: FlatEvent, method: str) -> bool:
        return (0, id) in set(_METHODS[method](matcher, [to_event(flat)]))


def _reduce_event(event: FlatEvent, differs: Callable[[FlatEvent], bool]) -> FlatEvent:
    """Drop the attributes and values that the difference does not need."""
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


def _reduce_rule(expr: Expr, differs: Callable[[Expr], bool]) -> Expr:
    """Find a smallest part of a rule that still differs; the rule itself if no part does."""
    for part in _parts(expr):
        if differs(part):
            return _reduce_rule(part, differs)
    return expr


def _parts(expr: Expr) -> Iterator[Expr]:
    """Yield the rule with one part removed, in every possible way."""
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
