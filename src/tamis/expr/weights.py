"""The weights that rules and events give to values and predicates."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, ItemsView, Mapping
from operator import itemgetter
from typing import Any

from tamis.errors import EventError, RuleError
from tamis.expr.event import Kind, value_key
from tamis.expr.model import Expr, Op, Predicate, Value, predicates, value_of_literal
from tamis.expr.names import DERIVED
from tamis.expr.text.grammar import parse
from tamis.expr.text.write import to_sql

__all__ = ["EventWeights", "RuleWeights", "are_plain_weights"]

_Key = tuple[str, tuple[Kind, Value]]


class RuleWeights:
    """w_E: a weight for a value of a positive ``=`` or ``IN``, or for another whole predicate."""

    __slots__ = ("_by_predicate", "_by_value")

    def __init__(self, by_value: dict[_Key, float], by_predicate: dict[Predicate, float]) -> None:
        self._by_value = by_value
        self._by_predicate = by_predicate

    @classmethod
    def of(cls, weights: Mapping[Any, float] | None, expr: Expr) -> RuleWeights:
        """Check `weights` against the rule `expr`.

        A key is ``(attribute, value)`` for a value in a positive ``=`` or ``IN`` of the rule, or
        another positive predicate of the rule, as a tree or as its text. ``"x = TRUE"`` stands for
        ``("x", True)``, which as a key of a dictionary is the same as ``("x", 1)``.
        """
        by_value: dict[_Key, float] = {}
        by_predicate: dict[Predicate, float] = {}
        if weights is not None and not isinstance(weights, Mapping):
            raise RuleError(f"weights are a mapping, not {type(weights).__name__}")
        if weights:
            values, others = _weighable_keys(expr)
            for key, weight in weights.items():
                checked = _check_weight(weight, key, RuleError)
                read = _read_key(key)
                if not (isinstance(read, tuple) and len(read) == 2):
                    by_predicate[_find_predicate(read, others)] = checked
                    continue
                known = _find_value(read, values)
                if known in by_value:
                    raise RuleError(f"{read!r} has two weights")
                by_value[known] = checked
        return cls(by_value, by_predicate)

    def __bool__(self) -> bool:
        return bool(self._by_value or self._by_predicate)

    def map(self, change: Callable[[Predicate], Predicate]) -> RuleWeights:
        """The weights of the rule whose predicates were changed by `map_predicates`."""
        by_value: dict[_Key, float] = {}
        for (attribute, (_, value)), weight in self._by_value.items():
            changed = change(Predicate(attribute, Op.EQ, (value,)))
            by_value[changed.attribute, value_key(changed.values[0])] = weight
        return RuleWeights(by_value, {change(p): w for p, w in self._by_predicate.items()})

    def list_values(self) -> list[tuple[str, Value, float]]:
        """The attributes and values that have a weight, with the weight."""
        return [(name, value, weight) for (name, (_, value)), weight in self._by_value.items()]

    def extend(
        self, by_value: Mapping[tuple[str, Value], float], by_predicate: Mapping[Predicate, float]
    ) -> RuleWeights:
        """These weights and more; those that are given here count."""
        more = {(name, value_key(value)): weight for (name, value), weight in by_value.items()}
        return RuleWeights({**self._by_value, **more}, {**self._by_predicate, **by_predicate})

    def get(self, predicate: Predicate, value: Value) -> float:
        """The weight of `predicate` where the event's `value` satisfies it."""
        if predicate.op is Op.EQ or predicate.op is Op.IN:
            return self._by_value.get((predicate.attribute, value_key(value)), 1.0)
        return self._by_predicate.get(predicate, 1.0)


class EventWeights:
    """w_S: a weight for a value of an event."""

    __slots__ = ("_by_value",)

    def __init__(self, by_value: dict[_Key, float]) -> None:
        self._by_value = by_value

    @classmethod
    def of(cls, weights: Mapping[tuple[str, Any], float] | None) -> EventWeights:
        """Check `weights`; keys that an event does not have are allowed and have no effect."""
        by_value: dict[_Key, float] = {}
        for key, weight in (weights or {}).items():
            if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str)):
                raise EventError(f"an event weighs (attribute, value) pairs, not {key!r}")
            try:
                value = value_of_literal(key[1])
            except RuleError as error:
                raise EventError(f"the weight of {key!r}: {error}") from None
            by_value[key[0], value_key(value)] = _check_weight(weight, key, EventError)
        return cls(by_value)

    def __bool__(self) -> bool:
        return bool(self._by_value)

    def get(self, attribute: str, value: Value) -> float:
        """The weight of the event's `value` of `attribute`."""
        return self._by_value.get((attribute, value_key(value)), 1.0)


def are_plain_weights(weights: Mapping[tuple[str, Any], float], items: ItemsView[str, Any]) -> bool:
    """Whether weights need no closer look, given the items of an event of strings and numbers.

    `EventWeights` has to look at a key that the event does not have, at a value of another kind,
    and at a weight that may not be one.
    """
    if not weights:
        return True
    # True equals 1 as a key of a dictionary, but is another value.
    if not (weights.keys() <= items and _PLAIN.issuperset(map(type, map(_value_of, weights)))):
        return False
    given = weights.values()
    return _NUMBERS.issuperset(map(type, given)) and min(given) >= 0 and sum(given) <= _MOST


_value_of = itemgetter(1)
_PLAIN = frozenset((str, int, float))
_NUMBERS = frozenset((int, float))
_MOST = sys.float_info.max


def _weighable_keys(expr: Expr) -> tuple[set[_Key], set[Predicate]]:
    values: set[_Key] = set()
    others: set[Predicate] = set()
    for predicate in predicates(expr):
        if predicate.op is Op.EQ or predicate.op is Op.IN:
            values.update((predicate.attribute, value_key(value)) for value in predicate.values)
        else:
            others.add(predicate.positive)
    return values, others


def _read_key(key: Any) -> Any:
    """What a key weighs: a pair of an attribute and a value, or else a predicate."""
    if isinstance(key, tuple) and len(key) == 2:
        return key
    read = parse(key) if isinstance(key, str) else key
    if isinstance(read, Predicate) and read.op is Op.EQ and not read.negated:
        return read.attribute, read.values[0]
    return read


def _find_value(key: tuple[Any, Any], values: set[_Key]) -> _Key:
    attribute, value = key
    known = (attribute, value_key(value_of_literal(value)))
    if known not in values and isinstance(attribute, str):
        known = (DERIVED + attribute, known[1])
    if known not in values:
        raise RuleError(
            f"the weight of {key!r} has no effect: no = or IN of the rule names that value"
        )
    return known


def _find_predicate(predicate: Any, others: set[Predicate]) -> Predicate:
    if not isinstance(predicate, Predicate):
        raise RuleError(
            f"a weight is for an (attribute, value) pair or for a predicate, not for {predicate!r}"
        )
    if predicate not in others:
        raise RuleError(
            f"the weight of {to_sql(predicate)!r} has no effect: the rule has no such part"
        )
    return predicate


def _check_weight(weight: Any, key: Any, error: type[RuleError] | type[EventError]) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise error(f"the weight of {key!r} is {weight!r}, not a number")
    try:
        checked = float(weight)
    except OverflowError:
        checked = math.inf
    if not math.isfinite(checked) or checked < 0:
        raise error(f"the weight of {key!r} is {checked!r}; weights are finite and not negative")
    return checked
