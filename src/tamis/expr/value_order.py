r"""The order of the values of each kind, and the value that comes next.

An attribute's values lie on lines, one for each kind. No line is dense: numbers have at most 38
digits, and microseconds and strings are discrete, so every value but the last has a next one. That
makes it possible to decide exactly whether a value lies between two others: there is no number
between 1 and the decimal of 38 digits above it, and no string between ``'a'`` and ``'a\0'``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Value
from tamis.expr.numbers import (
    MAX_DIGITS,
    LongDecimal,
    Number,
    next_number,
    number_of_decimal,
    on_line,
)
from tamis.expr.times import MICROSECOND

__all__ = ["BOOLEANS", "INTEGERS", "LINES", "NUMBERS", "STRINGS", "TIMES", "Line", "Stretch"]

_WHOLE_END: Final = 10**MAX_DIGITS
"""Up to here all whole numbers are on the line."""
_LAST_TIME = datetime.max.replace(tzinfo=UTC)


class Line(NamedTuple):
    """The possible values of one kind."""

    kind: Kind
    least: Value
    after: Callable[[Any], Value | None]
    """The least value of the line above a value of the kind, if there is one."""
    holds: Callable[[Any], bool] = lambda _: True
    """Whether a value of the kind is on the line."""

    def cut(self, values: Iterable[Value]) -> list[Stretch]:
        """The line, cut before and after each of `values` that is of its kind.

        So all values of a stretch compare alike with each of `values`.
        """
        starts = {self.least}
        for value in values:
            if kind_of(value) is self.kind:
                after = self.after(value)
                starts |= {value} if self.holds(value) else set()
                starts |= {after} if after is not None else set()
        rising: list[Any] = sorted(starts)
        return [Stretch(self, first, end) for first, end in pairwise([*rising, None])]


class Stretch(NamedTuple):
    """One or more values of a line without gaps."""

    line: Line
    first: Value
    end: Value | None
    """The value after the last one; None at the end of the line."""

    @property
    def is_single(self) -> bool:
        """Whether `first` is the only value."""
        return self.line.after(self.first) == self.end


def _after_integer(number: Number) -> Number | None:
    """The next whole number; beyond 38 digits, the next number of all, which is whole."""
    if -_WHOLE_END <= number < _WHOLE_END:
        return number_of_decimal(Decimal(math.floor(on_line(number)) + 1))
    after = next_number(number)
    return None if after == math.inf else after


def _after_time(time: datetime) -> datetime | None:
    return None if time == _LAST_TIME else time + MICROSECOND


def _is_whole(number: Number) -> bool:
    if isinstance(number, LongDecimal):
        return number.decimal == number.decimal.to_integral_value()
    return isinstance(number, int) or number.is_integer()


BOOLEANS: Final = Line(Kind.BOOLEAN, False, lambda flag: None if flag else True)
NUMBERS: Final = Line(Kind.NUMBER, -math.inf, next_number)
INTEGERS: Final = Line(Kind.NUMBER, -sys.float_info.max, _after_integer, _is_whole)
"""The numbers of an attribute that is declared as an integer; they may come as doubles."""
STRINGS: Final = Line(Kind.STRING, "", lambda text: text + "\0")
TIMES: Final = Line(Kind.TIMESTAMP, datetime.min.replace(tzinfo=UTC), _after_time)

LINES: Final = (BOOLEANS, NUMBERS, STRINGS, TIMES)
"""The lines of an attribute whose type is not declared."""
