"""Generates predicates that a given value satisfies, to derive rules from events."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.workloads.portable_random import Ints, PortableRandom

__all__ = ["ORDERED", "Operator", "Values", "digits"]

_MAX_LIST = 6
"""The most values in an IN or NOT IN."""


class Operator(IntEnum):
    """The operator of a predicate."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    IN = 6
    NOT_IN = 7
    BETWEEN = 8


_SPELLING: Final = {
    Operator.EQ: " = ",
    Operator.NE: " <> ",
    Operator.LT: " < ",
    Operator.LE: " <= ",
    Operator.GT: " > ",
    Operator.GE: " >= ",
    Operator.IN: " IN (",
    Operator.NOT_IN: " NOT IN (",
}

ORDERED = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
"""The operators that compare by order."""


def digits(numbers: Ints) -> pa.StringArray:
    """Numbers as literals."""
    return pa.array(numbers).cast(pa.string())


class Values(NamedTuple):
    """The values of an attribute, and the width of the predicates on it."""

    cardinality: int
    """The number of values: the integers from 0."""
    range_percent: float
    """The average percentage of the values that a BETWEEN spans."""
    literals: Callable[[Ints], pa.StringArray] = digits
    """Writes values as literals, also the one before the first and the one after the last."""

    def predicates(
        self, names: pa.StringArray, operator: Ints, value: Ints, rng: PortableRandom
    ) -> pa.StringArray:
        """The text of a predicate on each name, with each operator, that `value` satisfies."""
        parts: list[pa.StringArray] = []
        rows: list[Ints] = []
        for each in Operator:
            row = np.flatnonzero(operator == each)
            operands = self._draw_operands(each, value[row], rng)
            parts.append(self._write(each, names.take(pa.array(row)), operands))
            rows.append(row)
        back = np.argsort(np.concatenate(rows))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _write(
        self, operator: Operator, names: pa.StringArray, operands: list[Ints]
    ) -> pa.StringArray:
        join: Callable[..., Any] = pc.binary_join_element_wise
        if operator is Operator.BETWEEN:
            low, high = map(self.literals, operands)
            return join(names, " BETWEEN ", low, " AND ", high, "")
        (operand,) = operands
        if operator in (Operator.IN, Operator.NOT_IN):
            length = (operand >= 0).sum(axis=1)
            members = self.literals(operand[operand >= 0])
            offsets = pa.array(np.concatenate([[0], length.cumsum()]), pa.int32())
            lists = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ", ")
            return join(names, _SPELLING[operator], lists, ")", "")
        return join(names, _SPELLING[operator], self.literals(operand), "")

    def _draw_operands(self, operator: Operator, value: Ints, rng: PortableRandom) -> list[Ints]:
        """Draw operands of `operator` such that each `value` satisfies the predicate.

        For IN and NOT IN a matrix whose rows are the lists, padded with -1; for BETWEEN both
        ends; else one operand.
        """
        match operator:
            case Operator.EQ:
                return [value]
            case Operator.NE:
                return [_skip(value, rng.below(self.cardinality - 1, value.shape))]
            case Operator.LT:
                return [value + 1 + rng.below(self.cardinality - value)]
            case Operator.LE:
                return [value + rng.below(self.cardinality - value)]
            case Operator.GT:
                return [value - 1 - rng.below(value + 1)]
            case Operator.GE:
                return [value - rng.below(value + 1)]
            case Operator.IN:
                return [self._draw_lists(value, rng, with_value=True)]
            case Operator.NOT_IN:
                return [self._draw_lists(value, rng, with_value=False)]
            case Operator.BETWEEN:
                return self._draw_ranges(value, rng)

    def _draw_lists(self, value: Ints, rng: PortableRandom, with_value: bool) -> Ints:
        """Two to six distinct values a row, in order, that include or exclude `value`."""
        others = self.cardinality - 1
        longest = min(_MAX_LIST, self.cardinality if with_value else others)
        shortest = min(2, longest)
        length = shortest + rng.below(longest - shortest + 1, value.shape)
        lists = np.full((value.size, longest), -1, dtype=np.int64)
        for count in range(shortest, longest + 1):
            rows = np.flatnonzero(length == count)
            chosen = rng.subsets(others, count - with_value, rows.size)
            members = _skip(value[rows, None], chosen)
            if with_value:
                members = np.concatenate([members, value[rows, None]], axis=1)
            lists[rows, :count] = np.sort(members, axis=1)
        return lists

    def _draw_ranges(self, value: Ints, rng: PortableRandom) -> list[Ints]:
        """Both ends of a range around each value, which spans `range_percent` on average."""
        # Spans are uniform from 2 to 2 * mean - 2. That is seldom an integer; its fraction is the
        # probability of one more.
        mean = self.range_percent / 100 * self.cardinality
        most = max(2.0, 2 * mean - 2)
        ceiling = int(most) + rng.chance(most - int(most), value.shape)
        span = np.minimum(2 + rng.below(ceiling - 1), self.cardinality)
        first = np.maximum(0, value - span + 1)
        low = first + rng.below(np.minimum(value, self.cardinality - span) - first + 1)
        return [low, low + span - 1]


def _skip(excluded: Ints, among_others: Ints) -> Ints:
    """Map positions among the values other than `excluded` to those values."""
    return among_others + (among_others >= excluded)
