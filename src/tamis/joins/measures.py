"""What the tree of an aggregate adds up for each document, and the aggregate's value from totals.

Numbers are added as integers: whole ones as they are, others in units of 10**-362, in which every
double and every decimal is whole. So no sum is rounded, and removing a document undoes adding it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, Protocol

from tamis.expr.event import Kind, kind_of
from tamis.expr.joins.aggregates import mean_of, number_of_sum
from tamis.expr.joins.predicate import Function
from tamis.expr.model import Value
from tamis.expr.numbers import Number, on_line
from tamis.joins.aggregate_tree import Reducer

__all__ = ["Measure", "Totals", "make_measure"]

Totals = tuple[int, Sequence[Any]]
"""How many documents there are, and what the reducers made of their rows."""

_DECIMALS: Final = 362
"""How many digits after its point the smallest decimal has: 324 zeros and 38 digits."""
_UNIT: Final = 10**_DECIMALS
_EXACT: Final = Context(prec=2000)
_ABOVE: Final = 1 << 40
"""Counts a positive infinity; 1 counts a negative one."""


class Measure(Protocol):
    """How an aggregate is kept: rows of documents, and the value of their totals.

    Attributes
    ----------
    reducers
        How to reduce each part of a row.
    """

    reducers: tuple[Reducer, ...]

    def rows(self, values: Sequence[Value], /) -> Iterator[tuple[Kind, tuple[Any, ...]]]:
        """The rows of a document with these values of the attribute.

        Rows of different kinds go to different trees.
        """

    def result(self, totals: Mapping[Kind, Totals]) -> list[Value] | None:
        """The value of the aggregate, given the totals of each tree."""


class _Documents:
    """``COUNT(*)``."""

    reducers: tuple[Reducer, ...] = ()

    def rows(self, _: Sequence[Value], /) -> Iterator[tuple[Kind, tuple[Any, ...]]]:
        yield Kind.NUMBER, ()

    def result(self, totals: Mapping[Kind, Totals]) -> list[Value] | None:
        return [sum(count for count, _ in totals.values())]


class _Values:
    """``COUNT(d.x)``."""

    reducers: tuple[Reducer, ...] = (sum,)

    def rows(self, values: Sequence[Value]) -> Iterator[tuple[Kind, tuple[Any, ...]]]:
        if values:
            yield Kind.NUMBER, (len(values),)

    def result(self, totals: Mapping[Kind, Totals]) -> list[Value] | None:
        return [sum(row[0] for _, row in totals.values())]


class _Ends:
    """``MIN(d.x)`` and ``MAX(d.x)``: one for each kind of values."""

    def __init__(self, choose: Reducer) -> None:
        self.reducers: tuple[Reducer, ...] = (choose,)

    def rows(self, values: Sequence[Value]) -> Iterator[tuple[Kind, tuple[Any, ...]]]:
        if len(values) == 1:
            yield kind_of(values[0]), (values[0],)
            return
        by_kind: dict[Kind, list[Value]] = {}
        for value in values:
            by_kind.setdefault(kind_of(value), []).append(value)
        for kind, some in by_kind.items():
            yield kind, (self.reducers[0](some),)

    def result(self, totals: Mapping[Kind, Totals]) -> list[Value] | None:
        return [totals[kind][1][0] for kind in sorted(totals)] or None


class _Sum:
    """``SUM(d.x)`` and ``AVG(d.x)`` of numbers.

    A row has the count of numbers, the sum of whole ones, the sum of the others in units, and the
    count of infinities.
    """

    reducers: tuple[Reducer, ...] = (sum, sum, sum, sum)

    def __init__(self, is_mean: bool) -> None:
        self._is_mean = is_mean

    def rows(self, values: Sequence[Value]) -> Iterator[tuple[Kind, tuple[Any, ...]]]:
        numbers: list[Any] = [value for value in values if kind_of(value) is Kind.NUMBER]
        if numbers:
            yield Kind.NUMBER, (len(numbers), *_add_up(numbers))

    def result(self, totals: Mapping[Kind, Totals]) -> list[Value] | None:
        if Kind.NUMBER not in totals:
            return None
        count, whole, units, infinite = totals[Kind.NUMBER][1]
        if infinite:
            above, below = divmod(infinite, _ABOVE)
            # Infinity minus infinity is NaN, which is absent.
            return None if above and below else [math.inf if above else -math.inf]
        if self._is_mean:
            return [mean_of(Fraction(whole * _UNIT + units, _UNIT), count)]
        if not units:
            return [number_of_sum(Decimal(whole))]
        scaled = Decimal(whole * _UNIT + units).scaleb(-_DECIMALS, _EXACT)
        return [number_of_sum(scaled)]


def _add_up(numbers: Iterable[Number]) -> tuple[int, int, int]:
    whole = units = infinite = 0
    for number in numbers:
        if isinstance(number, int):
            whole += number
        elif number in (math.inf, -math.inf):
            infinite += _ABOVE if number > 0 else 1
        else:
            units += int(on_line(number).scaleb(_DECIMALS, _EXACT))
    return whole, units, infinite


def make_measure(function: Function, attribute: str | None) -> Measure:
    """The measure of an aggregate, except COUNT DISTINCT."""
    match function:
        case Function.COUNT:
            return _Documents() if attribute is None else _Values()
        case Function.MIN:
            return _Ends(min)
        case Function.MAX:
            return _Ends(max)
        case _:
            return _Sum(function is Function.AVG)
