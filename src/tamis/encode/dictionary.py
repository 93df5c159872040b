"""Attributes and values as small integers: elementary intervals.

The values that rules mention for an attribute cut the line of all values into elementary
intervals: each mentioned value is one, and so is each gap between two neighbours. Two event
values in one interval satisfy exactly the same predicates, so an interval's number, its
*code*, is all that an engine needs. Any comparison is then a run of codes, and 64-bit integers,
doubles and timestamps of any cardinality need no enumeration.

An attribute's codes, lowest first: 0 for "absent"; FALSE; TRUE; the numbers; the strings; the
timestamps. A sorted list of n mentioned values takes 2n + 1 codes: gap, value, gap, …, gap.
A value that no rule mentions falls into a gap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Op, Predicate, Value

__all__ = [
    "ABSENT",
    "Axis",
    "CodeRange",
    "Dictionary",
    "code_range",
    "microseconds",
    "prefix_of",
]

ABSENT: Final = 0
_FALSE: Final = 1
_TRUE: Final = 2
_FIRST: Final = 3
"""The first code of the numbers."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_MAX_CODES = 2**31 - 1


class CodeRange(NamedTuple):
    """The codes from `low` to `high`, both in; none when `low` is above `high`."""

    low: int
    high: int


NOTHING: Final = CodeRange(1, 0)


def microseconds(timestamp: datetime) -> int:
    """A UTC timestamp as microseconds since 1970."""
    return (timestamp - _EPOCH) // _MICROSECOND


class _Numbers(NamedTuple):
    """The mentioned numbers, for comparing whole arrays of integers or doubles exactly.

    A number v is at most the integer x when ceil(v) is, and at most the double d when the
    least double that is not below v is. So each list below, searched for x or d, tells how
    many numbers are not above it.
    """

    as_int: NDArray[np.int64]
    """ceil(v) of the numbers that some 64-bit integer reaches."""
    is_int: NDArray[np.bool_]
    """Whether v equals its entry in `as_int`."""
    as_double: NDArray[np.float64]
    is_double: NDArray[np.bool_]

    @classmethod
    def of(cls, numbers: list[int | float]) -> _Numbers:
        ceilings = [math.ceil(v) for v in numbers]
        reachable = [max(c, _INT64_MIN) for c in ceilings if c <= _INT64_MAX]
        doubles = [_double_not_below(v) for v in numbers]
        return cls(
            np.array(reachable, np.int64),
            np.array([c == v for c, v in zip(reachable, numbers, strict=False)], np.bool_),
            np.array(doubles, np.float64),
            np.array([d == v for d, v in zip(doubles, numbers, strict=True)], np.bool_),
        )


def _double_not_below(number: int | float) -> float:
    nearest = float(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


class Axis:
    """The codes of one attribute."""

    __slots__ = (
        "_numbers",
        "exact",
        "numbers",
        "orders_strings",
        "size",
        "strings",
        "strings_at",
        "times",
        "times_at",
    )

    def __init__(
        self,
        numbers: Iterable[int | float],
        strings: Iterable[str],
        times: Iterable[int],
        orders_strings: bool,
    ) -> None:
        self.numbers = sorted(numbers)
        self.strings = sorted(strings)
        self.times = sorted(times)
        self.strings_at = _FIRST + 2 * len(self.numbers) + 1
        """The first code of the strings."""
        self.times_at = self.strings_at + 2 * len(self.strings) + 1
        """The first code of the timestamps."""
        self.size = self.times_at + 2 * len(self.times) + 1
        """How many codes there are."""
        self.exact: dict[int | float | str, int] = {
            v: _FIRST + 2 * i + 1 for i, v in enumerate(self.numbers)
        }
        """The codes of the mentioned numbers and strings."""
        self.exact.update((v, self.strings_at + 2 * i + 1) for i, v in enumerate(self.strings))
        self.orders_strings = orders_strings
        """Whether some rule asks more of strings than to equal a mentioned one."""
        self._numbers: _Numbers | None = None

    def code(self, value: Value) -> int:
        """The code of one value."""
        if isinstance(value, bool):
            return _TRUE if value else _FALSE
        if isinstance(value, datetime):
            return self._time_code(microseconds(value))
        code = self.exact.get(value)
        return self.gap(value) if code is None else code

    def gap(self, value: int | float | str) -> int:
        """The code of a number or a string that no rule mentions."""
        if isinstance(value, str):
            return self.strings_at + 2 * bisect_left(self.strings, value)
        return _FIRST + 2 * bisect_left(self.numbers, value)

    def _time_code(self, time: int) -> int:
        at = bisect_left(self.times, time)
        found = at < len(self.times) and self.times[at] == time
        return self.times_at + 2 * at + found

    def codes_of_ints(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of an array of integers."""
        numbers = self._number_arrays()
        return _codes(values, numbers.as_int, numbers.is_int, _FIRST)

    def codes_of_doubles(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """The codes of an array of doubles; NaN is absent."""
        numbers = self._number_arrays()
        codes = _codes(values, numbers.as_double, numbers.is_double, _FIRST)
        codes[np.isnan(values)] = ABSENT
        return codes

    def codes_of_times(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of an array of timestamps, in microseconds since 1970."""
        times = np.array(self.times, np.int64)
        return _codes(values, times, np.ones(len(times), np.bool_), self.times_at)

    @staticmethod
    def codes_of_booleans(values: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The codes of an array of booleans."""
        return np.where(values, np.int32(_TRUE), np.int32(_FALSE))

    def _number_arrays(self) -> _Numbers:
        if self._numbers is None:
            self._numbers = _Numbers.of(self.numbers)
        return self._numbers


def _codes(
    values: NDArray[np.int64] | NDArray[np.float64],
    points: NDArray[np.int64] | NDArray[np.float64],
    equals: NDArray[np.bool_],
    first: int,
) -> NDArray[np.int32]:
    """Codes of `values` on a list whose `points` lie at every second code after `first`."""
    not_above = np.searchsorted(points, values, side="right").astype(np.int32)
    codes = first + 2 * not_above
    if len(points):
        last = np.maximum(not_above - 1, 0)
        codes -= (not_above > 0) & equals[last] & (points[last] == values)
    return codes


class Dictionary:
    """The axes of all attributes that a set of rules mentions."""

    __slots__ = ("attributes", "axes", "base")

    def __init__(self, axes: dict[str, Axis]) -> None:
        self.attributes = {name: i for i, name in enumerate(axes)}
        """Attribute names and their ids."""
        self.axes = list(axes.values())
        """The axis of each attribute id."""
        sizes = [axis.size for axis in self.axes]
        self.base = np.cumsum([0, *sizes], dtype=np.int64)
        """Where each attribute's codes begin when all are laid end to end."""
        if self.base[-1] > _MAX_CODES:
            raise OverflowError("the rules mention more than a billion distinct values")

    @classmethod
    def of(cls, predicates: Iterable[Predicate]) -> Dictionary:
        """The dictionary of the values that `predicates` mention."""
        mentioned: dict[str, _Mentioned] = {}
        for predicate in predicates:
            seen = mentioned.get(predicate.attribute)
            if seen is None:
                seen = mentioned[predicate.attribute] = _Mentioned()
            seen.add(predicate)
        return cls({name: seen.axis() for name, seen in mentioned.items()})


class _Mentioned:
    """The values that predicates mention for one attribute."""

    __slots__ = ("numbers", "orders_strings", "strings", "times")

    def __init__(self) -> None:
        self.numbers: set[int | float] = set()
        self.strings: set[str] = set()
        self.times: set[int] = set()
        self.orders_strings = False

    def add(self, predicate: Predicate) -> None:
        is_list = predicate.op is Op.EQ or predicate.op is Op.IN
        values = (prefix_of(predicate) or ()) if predicate.op.is_text else predicate.values
        for value in values:
            if isinstance(value, str):
                self.strings.add(value)
                self.orders_strings = self.orders_strings or not is_list
            elif isinstance(value, datetime):
                self.times.add(microseconds(value))
            elif not isinstance(value, bool):
                self.numbers.add(value)

    def axis(self) -> Axis:
        return Axis(self.numbers, self.strings, self.times, self.orders_strings)


def prefix_of(predicate: Predicate) -> tuple[str] | tuple[str, str] | None:
    """What a LIKE asks of the order of strings, if it asks nothing else.

    A LIKE without wildcards is an equality, (text,); one whose only wildcard is a last ``%``
    is the range [first, after) of the strings with that beginning.
    """
    if predicate.op is not Op.LIKE or len(predicate.values) != 1:
        return None
    pattern = predicate.values[0]
    assert isinstance(pattern, str)
    text = pattern.removesuffix("%")
    if "%" in text or "_" in text:
        return None
    if text == pattern:
        return (text,)
    after = _after(text)
    return None if after is None else (text, after)


def _after(prefix: str) -> str | None:
    """The least string above all that begin with `prefix`; None where it is hard to name."""
    if not prefix or ord(prefix[-1]) in (0xD7FF, 0x10FFFF):
        return None
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def code_range(predicate: Predicate, axis: Axis) -> CodeRange:
    """The run of codes that satisfy the positive form of `predicate`; not for IN lists."""
    match predicate.op:
        case Op.PRESENT:
            return CodeRange(ABSENT + 1, axis.size - 1)
        case Op.EQ:
            code = axis.code(predicate.values[0])
            return CodeRange(code, code)
        case Op.LIKE:
            return _prefix_range(predicate, axis)
    first, last = predicate.values[0], predicate.values[-1]
    if kind_of(first) is not kind_of(last):
        return NOTHING
    whole = _codes_of_kind(kind_of(first), axis)
    low, high = axis.code(first), axis.code(last)
    match predicate.op:
        case Op.LT:
            return CodeRange(whole.low, high - 1)
        case Op.LE:
            return CodeRange(whole.low, high)
        case Op.GT:
            return CodeRange(low + 1, whole.high)
        case Op.GE:
            return CodeRange(low, whole.high)
        case Op.BETWEEN:
            return CodeRange(low, high) if low <= high else NOTHING
        case op:
            raise ValueError(f"{op} is no run of codes")


def _prefix_range(predicate: Predicate, axis: Axis) -> CodeRange:
    prefix = prefix_of(predicate)
    assert prefix is not None, "only a LIKE with a plain beginning is a run of codes"
    low = axis.code(prefix[0])
    return CodeRange(low, low) if len(prefix) == 1 else CodeRange(low, axis.code(prefix[1]) - 1)


def _codes_of_kind(kind: Kind, axis: Axis) -> CodeRange:
    match kind:
        case Kind.BOOLEAN:
            return CodeRange(_FALSE, _TRUE)
        case Kind.NUMBER:
            return CodeRange(_FIRST, axis.strings_at - 1)
        case Kind.STRING:
            return CodeRange(axis.strings_at, axis.times_at - 1)
        case Kind.TIMESTAMP:
            return CodeRange(axis.times_at, axis.size - 1)
