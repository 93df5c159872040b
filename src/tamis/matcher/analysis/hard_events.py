"""Events that are hard for rules: drawn around the values at which rules change their minds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from tamis.errors import UnknownRuleError
from tamis.expr.analysis.prove import Prover, example_text
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import Event, FlatEvent, value_key
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, Value, predicates
from tamis.expr.names import JOINED, is_worked_out
from tamis.expr.patterns import mentioned_values
from tamis.matcher.rule import Rule
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["Drawer", "as_event", "sampled_rules", "without_derived"]

_VALUES: Final = 64
"""How many values are kept of an attribute; a rule may list thousands."""

_ATTRIBUTES: Final = 40
"""How many attributes beside those of one rule an event may have."""

_TRIES: Final = 8
"""How many times another value is looked for that does as well."""

_MICROSECOND = timedelta(microseconds=1)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Drawer:
    """Draws events for some rules.

    Parameters
    ----------
    trees
        The rules, in negation normal form.
    schema
        What is declared about attributes: events do not contradict it.
    random
        Where chance comes from.
    """

    def __init__(self, trees: Sequence[Expr], schema: Schema, random: Random) -> None:
        self._trees = trees
        self._schema = schema
        self._random = random
        self._prover = Prover(schema.scalars, schema.lines_of)
        self._values = {
            name: self._fitting(name, _with_neighbours(values))
            for name, values in _mentioned(trees, random).items()
        }
        self._names = list(self._values)

    def event(self) -> FlatEvent:
        """An event that satisfies a rule, more or less, or one that was made for none."""
        tree = self._random.choice(self._trees)
        made_for_it = self._random.random() < 0.8
        event = self._prover.example(tree, self._random) if made_for_it else None
        event = self._with_more(without_derived(event or {}), tree)
        if self._random.random() < 0.5:
            self._disturb(event)
        return event

    def examples(self, tree: Expr, count: int) -> Iterator[FlatEvent]:
        """Events that satisfy `tree`, at most `count`: none if none is easily found."""
        for _ in range(count):
            event = self._prover.example(tree, self._random)
            if event is None or not evaluate_flat(tree, without_derived(event), "strong"):
                return
            yield self._with_more(self._varied(without_derived(event), tree), tree)

    def _varied(self, event: FlatEvent, tree: Expr) -> FlatEvent:
        """The event with other values, as far as it still satisfies `tree`."""
        for name in list(event):
            for _ in range(_TRIES):
                values = self._some(name)
                if values and evaluate_flat(tree, {**event, name: values}, "strong"):
                    event = {**event, name: values}
                    break
        return event

    def _with_more(self, event: FlatEvent, tree: Expr) -> FlatEvent:
        """The event with some of the attributes that `tree` does not ask for."""
        around = self._names
        if len(around) > _ATTRIBUTES:
            around = self._random.sample(around, _ATTRIBUTES)
        asked = {predicate.attribute for predicate in predicates(tree)}
        for name in around:
            if name not in asked and self._random.random() < 0.5:
                self._set(event, name)
        return event

    def _disturb(self, event: FlatEvent) -> None:
        """Change an attribute or two: other values, more values, or none."""
        for name in self._random.sample(list(event), min(len(event), self._random.randint(1, 2))):
            match self._random.randrange(4):
                case 0:
                    del event[name]
                case 1 if name not in self._schema.scalars:
                    event[name] = _distinct([*event[name], *self._some(name)])
                case _:
                    self._set(event, name)

    def _set(self, event: FlatEvent, name: str) -> None:
        values = self._some(name)
        if values:
            event[name] = values

    def _some(self, name: str) -> list[Value]:
        values = self._values.get(name, [])
        several = name not in self._schema.scalars and self._random.random() < 0.2
        return self._random.sample(values, min(len(values), 2 + several if several else 1))

    def _fitting(self, name: str, values: Iterable[Value]) -> list[Value]:
        """Of these values those that the attribute may have."""
        lines = self._schema.lines_of(name)
        return [
            value
            for kind, value in {value_key(value): value for value in values}.items()
            if any(line.kind is kind[0] and line.holds(value) for line in lines)
        ]


def _mentioned(trees: Iterable[Expr], random: Random) -> dict[str, list[Value]]:
    """The values that rules mention of each attribute, or as many as are kept of them."""
    found: dict[str, dict[object, Value]] = {}
    for tree in trees:
        for predicate in predicates(tree):
            mentioned = mentioned_values(predicate)
            if predicate.op.is_text:
                mentioned = (*mentioned, example_text(predicate))
            kept = random.sample(mentioned, min(len(mentioned), _VALUES))
            # What a function is compared with is as good a guess as any of what it is given.
            for name in bases_of(predicate.attribute):
                found.setdefault(name, {}).update((value_key(value), value) for value in kept)
    return {
        name: random.sample(list(values.values()), min(len(values), _VALUES))
        for name, values in found.items()
    }


def _with_neighbours(values: Iterable[Value]) -> Iterable[Value]:
    """Each value, what lies just below and above it, and one of another kind."""
    for value in values:
        yield value
        yield from _neighbours(value)
    yield from (True, 0, "")


def _neighbours(value: Value) -> Iterable[Value]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (n for n in (value - 1, value + 1) if _INT64_MIN <= n <= _INT64_MAX)
        yield float(value)
    elif isinstance(value, float):
        yield math.nextafter(value, -math.inf)
        yield math.nextafter(value, math.inf)
    elif isinstance(value, str):
        yield value + "\0"
        yield value[:-1]
        yield value.swapcase()
    else:
        for step in (-_MICROSECOND, _MICROSECOND):
            try:
                yield value + step
            except OverflowError:
                continue


def without_derived(event: FlatEvent) -> FlatEvent:
    """What an event would hold itself, of one that was made to satisfy a rule.

    It may then not satisfy it: which values a function gives what is asked of it is not looked for.
    """
    return {name: values for name, values in event.items() if not is_worked_out(name)}


def as_event(flat: FlatEvent) -> Event:
    """The event as somebody would write it, who has no lists of one value."""
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in flat.items()
        if not name.startswith(JOINED)
    }


def sampled_rules(matcher: Matcher, count: int, random: Random) -> list[Rule]:
    """Some rules of a collection, which may change meanwhile.

    None has a join predicate: an event is not all that it depends on.
    """
    ids = list(matcher)
    rules = []
    for id in random.sample(ids, min(count, len(ids))):
        try:
            rules.append(matcher.rule(id))
        except UnknownRuleError:
            continue
    return [rule for rule in rules if not _has_joins(rule)]


def _has_joins(rule: Rule) -> bool:
    return any(predicate.attribute.startswith(JOINED) for predicate in predicates(rule.expr))


def _distinct(values: Iterable[Value]) -> list[Value]:
    return list({value_key(value): value for value in values}.values())
