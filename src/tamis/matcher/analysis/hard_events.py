"""Draws events that are hard for rules: around the values at which the truth of a rule changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from tamis.errors import UnknownRuleError
from tamis.expr.analysis.prove import Prover, example_text
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import Event, FlatEvent, value_key
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, Value, predicates
from tamis.expr.names import JOINED, is_computed
from tamis.expr.numbers import INT_MAX, INT_MIN, LongDecimal, Number, next_number
from tamis.expr.patterns import mentioned_values
from tamis.expr.times import MICROSECOND
from tamis.matcher.rule import Rule
from tamis.matcher.schema import Schema

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["EventSampler", "drop_derived", "sample_rules", "to_event"]

_VALUES: Final = 64
"""How many values are kept per attribute; a rule may list thousands."""

_ATTRIBUTES: Final = 40
"""How many attributes an event may have besides those of one rule, and how many of its own vary."""

_TRIES: Final = 8
"""How many other values are tried in the place of one."""


class EventSampler:
    """Draws events for some rules.

    Parameters
    ----------
    trees
        The rules, in negation normal form.
    schema
        The declared types of attributes; events conform to it.
    random
        The source of randomness.
    """

    def __init__(self, trees: Sequence[Expr], schema: Schema, random: Random) -> None:
        self._trees = trees
        self._schema = schema
        self._random = random
        self._prover = Prover(schema.scalars, schema.lines_of)
        self._values = {
            name: self._keep_allowed(name, _add_neighbours(values))
            for name, values in _collect_values(trees, random).items()
        }
        self._names = list(self._values)

    def draw(self) -> FlatEvent:
        """Draw an event that satisfies, or nearly satisfies, some rule, or one for no rule."""
        tree = self._random.choice(self._trees)
        is_for_tree = self._random.random() < 0.8
        event = self._prover.example(tree, self._random) if is_for_tree else None
        event = self._add_others(drop_derived(event or {}), tree)
        if self._random.random() < 0.5:
            self._disturb(event)
        return event

    def draw_satisfying(self, tree: Expr, count: int) -> Iterator[FlatEvent]:
        """Draw at most `count` events that satisfy `tree`; fewer if they are hard to find."""
        for _ in range(count):
            event = self._prover.example(tree, self._random)
            if event is None or not evaluate_flat(tree, drop_derived(event), "strong"):
                return
            yield self._add_others(self._vary(drop_derived(event), tree), tree)

    def _vary(self, event: FlatEvent, tree: Expr) -> FlatEvent:
        """Replace values of the event as far as it still satisfies `tree`."""
        for name in self._random.sample(list(event), min(len(event), _ATTRIBUTES)):
            for _ in range(_TRIES):
                values = self._draw_values(name)
                if values and evaluate_flat(tree, {**event, name: values}, "strong"):
                    event = {**event, name: values}
                    break
        return event

    def _add_others(self, event: FlatEvent, tree: Expr) -> FlatEvent:
        """Set some of the attributes that `tree` does not mention."""
        others = self._names
        if len(others) > _ATTRIBUTES:
            others = self._random.sample(others, _ATTRIBUTES)
        mentioned = {predicate.attribute for predicate in predicates(tree)}
        for name in others:
            if name not in mentioned and self._random.random() < 0.5:
                self._set(event, name)
        return event

    def _disturb(self, event: FlatEvent) -> None:
        """Change one or two attributes: other values, more values, or none."""
        for name in self._random.sample(list(event), min(len(event), self._random.randint(1, 2))):
            match self._random.randrange(4):
                case 0:
                    del event[name]
                case 1 if name not in self._schema.scalars:
                    event[name] = _distinct([*event[name], *self._draw_values(name)])
                case _:
                    self._set(event, name)

    def _set(self, event: FlatEvent, name: str) -> None:
        values = self._draw_values(name)
        if values:
            event[name] = values

    def _draw_values(self, name: str) -> list[Value]:
        values = self._values.get(name, [])
        several = name not in self._schema.scalars and self._random.random() < 0.2
        return self._random.sample(values, min(len(values), 2 + several if several else 1))

    def _keep_allowed(self, name: str, values: Iterable[Value]) -> list[Value]:
        """Keep the distinct values that the schema allows for an attribute."""
        lines = self._schema.lines_of(name)
        return [
            value
            for kind, value in {value_key(value): value for value in values}.items()
            if any(line.kind is kind[0] and line.holds(value) for line in lines)
        ]


def _collect_values(trees: Iterable[Expr], random: Random) -> dict[str, list[Value]]:
    """Collect the values that rules mention of each attribute; a random sample if they are many."""
    by_name: dict[str, dict[object, Value]] = {}
    for tree in trees:
        for predicate in predicates(tree):
            mentioned = mentioned_values(predicate)
            if predicate.op.is_text:
                mentioned = (*mentioned, example_text(predicate))
            kept = random.sample(mentioned, min(len(mentioned), _VALUES))
            # A value that a function is compared with is a fair guess at a value to apply it to.
            for name in bases_of(predicate.attribute):
                by_name.setdefault(name, {}).update((value_key(value), value) for value in kept)
    return {
        name: random.sample(list(values.values()), min(len(values), _VALUES))
        for name, values in by_name.items()
    }


def _add_neighbours(values: Iterable[Value]) -> Iterable[Value]:
    """Yield each value with its neighbours, then a few values of other kinds."""
    for value in values:
        yield value
        yield from _neighbours(value)
    yield from (True, 0, "")


def _neighbours(value: Value) -> Iterable[Value]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (n for n in (value - 1, value + 1) if INT_MIN <= n <= INT_MAX)
        yield float(value)
    elif isinstance(value, float):
        yield math.nextafter(value, -math.inf)
        yield math.nextafter(value, math.inf)
        yield from _nearest_decimals(value)
    elif isinstance(value, LongDecimal):
        yield from _nearest_decimals(value)
        yield float(value)
    elif isinstance(value, str):
        yield value + "\0"
        yield value[:-1]
        yield value.swapcase()
    else:
        for step in (-MICROSECOND, MICROSECOND):
            try:
                yield value + step
            except OverflowError:
                continue


def _nearest_decimals(value: Number) -> Iterable[Value]:
    above = next_number(value)
    # The line of numbers is symmetric about 0.
    below = next_number(-value)
    yield from (n for n in (above, None if below is None else -below) if n is not None)


def drop_derived(event: FlatEvent) -> FlatEvent:
    """Drop the derived attributes of an event that was constructed to satisfy a rule.

    The rest need not satisfy the rule: its values were not chosen to yield the derived ones.
    """
    return {name: values for name, values in event.items() if not is_computed(name)}


def to_event(flat: FlatEvent) -> Event:
    """Write the event as a user would: a single value without a list."""
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in flat.items()
        if not name.startswith(JOINED)
    }


def sample_rules(matcher: Matcher, count: int, random: Random) -> list[Rule]:
    """Draw rules of a matcher, which other threads may change meanwhile.

    Rules with join predicates are left out: they depend on more than the event.
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
