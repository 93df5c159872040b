"""Attributes and values as small integers: elementary intervals.

The values that rules mention for an attribute cut the ordered values into elementary intervals:
each mentioned value is one, and so is each gap between two neighbours. Two event values in one
interval satisfy exactly the same predicates, so an interval's number, its *code*, is all that an
engine needs. Every comparison is a range of codes, and 64-bit integers, doubles and timestamps of
any cardinality need no enumeration.

An attribute's codes, lowest first: 0 for "absent"; FALSE; TRUE; the numbers; the strings; the
timestamps. A sorted list of n mentioned values takes 2n + 1 codes: gap, value, gap, …, gap.
A value that no rule mentions falls into a gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import DictionaryArrays
from tamis.encode.ragged import starts
from tamis.encode.values import (
    SortedValues,
    pack_longs,
    pack_numbers,
    pack_texts,
    unpack_texts,
)
from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Op, Predicate, Value
from tamis.expr.numbers import INT_MAX, INT_MIN, Number
from tamis.expr.patterns import mentioned_values, prefix_of
from tamis.expr.times import count_microseconds, to_timestamp

__all__ = [
    "ABSENT",
    "FIRST",
    "Axis",
    "CodeRange",
    "Dictionary",
    "code_range",
    "count_codes",
]

ABSENT: Final = 0
_FALSE: Final = 1
_TRUE: Final = 2
FIRST: Final = 3
"""The first code of the numbers."""

_MAX_CODES = 2**31 - 1


class CodeRange(NamedTuple):
    """The codes from `low` to `high`, inclusive; none if `low` is above `high`."""

    low: int
    high: int


NOTHING: Final = CodeRange(1, 0)


_SMALL: Final = 1024
"""Up to how many mentioned values are all read into a dict when the first one is looked up."""
_MOST_CACHED: Final = 10_000
"""How many looked-up values of a larger axis are cached."""


class Axis:
    """The codes of one attribute; its values are ranges of the dictionary's.

    Safe to use from several threads: a race only looks up a value twice.
    """

    __slots__ = (
        "_double_points",
        "_int_points",
        "_lists",
        "_numbers",
        "_strings",
        "_times",
        "_values",
        "exact",
        "orders_strings",
        "size",
        "strings_at",
        "times_at",
    )

    def __init__(
        self, values: SortedValues, numbers: range, strings: range, times: range, orders: bool
    ) -> None:
        self._values = values
        self._numbers, self._strings, self._times = numbers, strings, times
        self.strings_at = FIRST + 2 * len(numbers) + 1
        """The first code of the strings."""
        self.times_at = self.strings_at + 2 * len(strings) + 1
        """The first code of the timestamps."""
        self.size = self.times_at + 2 * len(times) + 1
        """How many codes there are."""
        self.orders_strings = orders
        """Whether some rule does more with strings than test them for equality."""
        self.exact: dict[Number | str, int] = {}
        """The codes of the numbers and strings that were read so far. Always the same dict; `find`
        looks up the others."""
        self._lists: tuple[list[Number], list[str]] | None = None
        """All mentioned numbers and strings, once they are in `exact`."""
        self._int_points: tuple[NDArray[np.int64], NDArray[np.bool_]] | None = None
        self._double_points: tuple[NDArray[np.float64], NDArray[np.bool_]] | None = None

    @property
    def numbers(self) -> list[Number]:
        """The mentioned numbers, rising."""
        return self._values.numbers(self._numbers.start, self._numbers.stop)

    @property
    def strings(self) -> list[str]:
        """The mentioned strings, rising."""
        return self._values.texts(self._strings.start, self._strings.stop)

    @property
    def times(self) -> list[int]:
        """The mentioned timestamps, rising."""
        return self._values.times(self._times.start, self._times.stop)

    def list_values(self, kind: Kind) -> list[Any]:
        """The values of one kind that have a code of their own, rising."""
        match kind:
            case Kind.BOOLEAN:
                return [False, True]
            case Kind.NUMBER:
                return self.numbers
            case Kind.STRING:
                return self.strings
            case Kind.TIMESTAMP:
                return [to_timestamp(time) for time in self.times]

    def count_values(self, kind: Kind) -> int:
        """How many values of one kind have a code of their own."""
        codes = self.codes_of_kind(kind)
        return 2 if kind is Kind.BOOLEAN else (codes.high - codes.low) // 2

    def value_below(self, kind: Kind, gap: int) -> Value:
        """The mentioned value right below a gap, which must not be the lowest of its kind."""
        at = (gap - self.codes_of_kind(kind).low) // 2 - 1
        match kind:
            case Kind.NUMBER:
                return self._values.numbers(self._numbers[at], self._numbers[at] + 1)[0]
            case Kind.STRING:
                return self._values.texts(self._strings[at], self._strings[at] + 1)[0]
            case Kind.TIMESTAMP:
                return to_timestamp(self._values.times(self._times[at], self._times[at] + 1)[0])
            case Kind.BOOLEAN:
                raise ValueError("there are no gaps among booleans")

    def codes_of_kind(self, kind: Kind) -> CodeRange:
        """The codes of one kind of values."""
        match kind:
            case Kind.BOOLEAN:
                return CodeRange(_FALSE, _TRUE)
            case Kind.NUMBER:
                return CodeRange(FIRST, self.strings_at - 1)
            case Kind.STRING:
                return CodeRange(self.strings_at, self.times_at - 1)
            case Kind.TIMESTAMP:
                return CodeRange(self.times_at, self.size - 1)

    def string_array(self) -> pa.Array:
        """The mentioned strings as an Arrow array, which shares their memory."""
        bounds = self._values.arrays.text_start[self._strings.start : self._strings.stop + 1]
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._values.arrays.text)]
        return pa.Array.from_buffers(pa.large_string(), len(self._strings), buffers)

    def code(self, value: Value) -> int:
        """The code of one value."""
        if isinstance(value, bool):
            return _TRUE if value else _FALSE
        if isinstance(value, datetime):
            return self._time_code(count_microseconds(value))
        code = self.exact.get(value)
        return self.find(value) if code is None else code

    def find(self, value: Number | str) -> int:
        """The code of a number or a string that is not in `exact`."""
        if self._lists is None:
            return self._find_first(value)
        values: list[Any]
        if isinstance(value, str):
            first, values = self.strings_at, self._lists[1]
        else:
            first, values = FIRST, self._lists[0]
        at = bisect_left(values, value)
        if at < len(values) and values[at] == value:
            # Another thread has filled `exact` since, or it is a double that `exact` leaves out.
            return first + 2 * at + 1
        return first + 2 * at

    def _find_first(self, value: Number | str) -> int:
        if len(self._numbers) + len(self._strings) > _SMALL:
            return self._look_up(value)
        self.load()
        return self.find(value)

    def load(self) -> None:
        """Read all mentioned numbers and strings into `exact`."""
        numbers, strings = self.numbers, self.strings
        # An integer of more than 64 bits equals one of the doubles left out, and must not be found.
        exact: dict[Number | str, int] = {
            v: FIRST + 2 * i + 1 for i, v in enumerate(numbers) if INT_MIN <= v <= INT_MAX
        }
        exact.update((v, self.strings_at + 2 * i + 1) for i, v in enumerate(strings))
        self.exact.update(exact)
        self._lists = numbers, strings

    def unload(self) -> None:
        """Free what `load` read, unless it is small."""
        if len(self.exact) > _SMALL:
            self._lists = None
            self.exact.clear()

    def _look_up(self, value: Number | str) -> int:
        if isinstance(value, str):
            span = self._strings
            at, found = self._values.place_of_text(value, span.start, span.stop)
            code = self.strings_at + 2 * (at - span.start) + found
        else:
            span = self._numbers
            at, found = self._values.place_of_number(value, span.start, span.stop)
            code = FIRST + 2 * (at - span.start) + found
        if isinstance(value, str) or INT_MIN <= value <= INT_MAX:
            if len(self.exact) >= _MOST_CACHED:
                self.exact.clear()
            self.exact[value] = code
        return code

    def _time_code(self, time: int) -> int:
        span = self._times
        at, found = self._values.place_of_time(time, span.start, span.stop)
        return self.times_at + 2 * (at - span.start) + found

    def codes_of_ints(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of an array of integers."""
        return _codes(values, *self.points_of_ints(), FIRST)

    def points_of_ints(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The least integer that is not below each mentioned number, and whether it equals it."""
        if self._int_points is None:
            ceilings, equals = self._values.ceilings(self._numbers.start, self._numbers.stop)
            self._int_points = _read_only(ceilings), _read_only(equals)
        return self._int_points

    def codes_of_numbers(self, values: Sequence[Number]) -> NDArray[np.int32]:
        """The codes of numbers of any type."""
        return np.fromiter(map(self.code, values), np.int32, len(values))

    def codes_of_doubles(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """The codes of an array of doubles; NaN is absent."""
        codes = _codes(values, *self.points_of_doubles(), FIRST)
        codes[np.isnan(values)] = ABSENT
        return codes

    def points_of_doubles(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The least double that is not below each mentioned number, and whether it equals it."""
        if self._double_points is None:
            span = self._numbers
            points = self._values.arrays.number[span.start : span.stop]
            equals = self._values.is_double(span.start, span.stop)
            equals = np.ones(len(points), np.bool_) if equals is None else equals
            self._double_points = _read_only(points), _read_only(equals)
        return self._double_points

    def codes_of_times(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of an array of timestamps, in microseconds since 1970."""
        times = self._values.arrays.time[self._times.start : self._times.stop]
        return _codes(values, times, None, self.times_at)

    @staticmethod
    def codes_of_booleans(values: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The codes of an array of booleans."""
        return np.where(values, np.int32(_TRUE), np.int32(_FALSE))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that kernels take as the same type, whether the array is mapped from a file or not."""
    view = array[:]
    view.flags.writeable = False
    return view


def _codes(
    values: NDArray[np.int64] | NDArray[np.float64],
    points: NDArray[np.int64] | NDArray[np.float64],
    equals: NDArray[np.bool_] | None,
    first: int,
) -> NDArray[np.int32]:
    """The codes of `values`, where `points` have every second code after `first`.

    A point is the least item of the array's type that is not below a mentioned value. `equals` says
    where it equals that value; without `equals` all points do.
    """
    not_above = np.searchsorted(points, values, side="right").astype(np.int32)
    codes = first + 2 * not_above
    if len(points):
        last = np.maximum(not_above - 1, 0)
        is_point = (not_above > 0) & (points[last] == values)
        codes -= is_point if equals is None else is_point & equals[last]
    return codes


class Dictionary:
    """The axes of all attributes that a set of rules mentions."""

    __slots__ = ("arrays", "attributes", "axes", "base")

    def __init__(self, arrays: DictionaryArrays) -> None:
        self.arrays = arrays
        names = unpack_texts(arrays.name_start, arrays.name)
        self.attributes = {name: i for i, name in enumerate(names)}
        """The numbers of the attributes, by name."""
        values = SortedValues(arrays)
        numbers, strings, times = map(
            _ranges, (arrays.number_start, arrays.string_start, arrays.time_start)
        )
        orders = (arrays.orders_strings != 0).tolist()
        self.axes = [
            Axis(values, *ranges) for ranges in zip(numbers, strings, times, orders, strict=True)
        ]
        """The axis of each attribute."""
        self.base = starts(count_codes(arrays))
        """Where each attribute's codes begin when those of all attributes are laid end to end."""
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
        return cls(_arrays(mentioned))

    def load(self) -> None:
        """Read all mentioned values, before many look-ups."""
        for axis in self.axes:
            axis.load()

    def unload(self) -> None:
        """Free what `load` read of large axes."""
        for axis in self.axes:
            axis.unload()


def count_codes(arrays: DictionaryArrays) -> NDArray[np.int64]:
    """How many codes each attribute has."""
    numbers, strings, times = arrays.number_start, arrays.string_start, arrays.time_start
    # Of each kind the values, the gaps between them, and a gap at either end.
    return FIRST + 3 + 2 * (np.diff(numbers) + np.diff(strings) + np.diff(times))


def _ranges(start: NDArray[np.int64]) -> list[range]:
    bounds = start.tolist()
    return [range(first, last) for first, last in pairwise(bounds)]


class _Mentioned:
    """The values that predicates mention for one attribute."""

    __slots__ = ("numbers", "orders_strings", "strings", "times")

    def __init__(self) -> None:
        self.numbers: set[Number] = set()
        self.strings: set[str] = set()
        self.times: set[int] = set()
        self.orders_strings = False

    def add(self, predicate: Predicate) -> None:
        is_list = predicate.op is Op.EQ or predicate.op is Op.IN
        for value in mentioned_values(predicate):
            if isinstance(value, str):
                self.strings.add(value)
                self.orders_strings = self.orders_strings or not is_list
            elif isinstance(value, datetime):
                self.times.add(count_microseconds(value))
            elif not isinstance(value, bool):
                self.numbers.add(value)


def _arrays(mentioned: dict[str, _Mentioned]) -> DictionaryArrays:
    all_of = mentioned.values()
    numbers = pack_numbers([v for seen in all_of for v in sorted(seen.numbers)])
    times = [time for seen in all_of for time in sorted(seen.times)]
    return DictionaryArrays(
        *pack_texts(mentioned),
        starts(len(seen.numbers) for seen in all_of),
        numbers.double,
        numbers.below,
        starts(len(seen.strings) for seen in all_of),
        *pack_texts([text for seen in all_of for text in sorted(seen.strings)]),
        starts(len(seen.times) for seen in all_of),
        np.array(times, np.int64),
        np.array([seen.orders_strings for seen in all_of], np.uint8),
        **pack_longs(numbers.longs),
    )


def code_range(predicate: Predicate, axis: Axis) -> CodeRange:
    """The codes that satisfy the positive form of `predicate`; not for IN lists."""
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
    whole = axis.codes_of_kind(kind_of(first))
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
            raise ValueError(f"{op} is not a range of codes")


def _prefix_range(predicate: Predicate, axis: Axis) -> CodeRange:
    prefix = prefix_of(predicate)
    assert prefix is not None, "only a LIKE with a literal prefix is a range of codes"
    low = axis.code(prefix[0])
    return CodeRange(low, low) if len(prefix) == 1 else CodeRange(low, axis.code(prefix[1]) - 1)
