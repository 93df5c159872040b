"""The value of an aggregate over documents: COUNT, SUM, MIN, MAX and AVG, as SQL defines them.

Sums are exact, whatever the order of the documents: a double counts as the decimal that it is
written as (:mod:`tamis.expr.numbers`). AVG is the double nearest to the exact mean. Values that are
not numbers have no sum. MIN and MAX have a value for each kind of values, since values of different
kinds do not compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

from tamis.expr.event import FlatEvent, Kind, kind_of, value_key
from tamis.expr.joins.predicate import Aggregate, Function
from tamis.expr.model import Value
from tamis.expr.numbers import Number, number_of_decimal, on_line

__all__ = ["aggregate_documents", "mean_of", "number_of_sum"]

_EXACT: Final = Context(prec=2000)
"""Digits for all sums: doubles have up to 309 before the point, and decimals 362 after it."""


def aggregate_documents(aggregate: Aggregate, documents: Iterable[FlatEvent]) -> list[Value] | None:
    """The value of an aggregate over documents; None if it is unknown."""
    function, attribute = aggregate.function, aggregate.attribute
    if attribute is None:
        return [sum(1 for _ in documents)]
    values = [value for document in documents for value in document.get(attribute, ())]
    match function:
        case Function.COUNT:
            return [len(values)]
        case Function.COUNT_DISTINCT:
            return [len({value_key(value) for value in values})]
        case Function.MIN | Function.MAX:
            return _ends(values, function is Function.MIN) or None
        case _:
            return _total(values, function is Function.AVG)


def _ends(values: Sequence[Value], lowest: bool) -> list[Value]:
    by_kind: dict[Kind, list[Value]] = {}
    for value in values:
        by_kind.setdefault(kind_of(value), []).append(value)
    choose = min if lowest else max
    return [choose(by_kind[kind]) for kind in sorted(by_kind)]


def _total(values: Sequence[Value], mean: bool) -> list[Value] | None:
    numbers: list[Number] = [v for v in values if kind_of(v) is Kind.NUMBER]  # type: ignore[misc]
    if not numbers:
        return None
    infinite = {number for number in numbers if number in (math.inf, -math.inf)}
    if infinite:
        # Infinity minus infinity is NaN, which is absent.
        return None if len(infinite) == 2 else [infinite.pop()]
    total = sum((Fraction(on_line(number)) for number in numbers), Fraction(0))
    if mean:
        return [mean_of(total, len(numbers))]
    scaled = _EXACT.divide(Decimal(total.numerator), Decimal(total.denominator))
    return [number_of_sum(scaled)]


def number_of_sum(total: Decimal) -> Number:
    """A sum as a number; one of more than 38 digits as the nearest double."""
    try:
        number = number_of_decimal(total)
        assert number is not None
        return number
    except ValueError:
        return float(total)


def mean_of(total: Fraction, count: int) -> float:
    """The double nearest to a mean."""
    try:
        return float(total / count)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
