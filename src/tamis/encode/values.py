"""The values that rules mention, sorted and laid end to end in flat arrays.

They may lie in a file that is mapped into memory, so nothing here reads more of them than needed:
places are found by bisection.

A number is a 64-bit integer, a double or a decimal, and all compare exactly. It is stored as the
least double that is not below it, and its distance to that double: 0, except for an integer that no
double equals, which lies less than 2048 below. Of a decimal that no integer or double equals, the
digits are stored as a text; there are few of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import LONG, DictionaryArrays
from tamis.encode.ragged import starts
from tamis.expr.numbers import LongDecimal, Number, double_above, on_line

__all__ = [
    "PackedNumbers",
    "Place",
    "SortedValues",
    "pack_longs",
    "pack_numbers",
    "pack_texts",
    "unpack_longs",
    "unpack_texts",
]

_EXACT: Final = 2.0**53
"""Up to here every integer is a double."""
_INT64_END: Final = 2.0**63
"""The least double above all 64-bit integers with a sign."""
_INT64_MAX: Final = 2**63 - 1


class Place(NamedTuple):
    """The place of a value among sorted ones, or the place where it would be inserted."""

    at: int
    """How many values are before it, those of other attributes included."""
    found: bool


def pack_texts(texts: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Strings as UTF-8, end to end; UTF-8 bytes sort as code points do."""
    encoded = [text.encode() for text in texts]
    return starts(map(len, encoded)), np.frombuffer(b"".join(encoded), np.uint8)


def unpack_texts(
    start: NDArray[np.int64], text: NDArray[np.uint8], first: int = 0, last: int | None = None
) -> list[str]:
    """The strings from `first` up to, not including, `last`."""
    bounds = start[first : None if last is None else last + 1].tolist()
    base = bounds[0]
    encoded = text[base : bounds[-1]].tobytes()
    return [encoded[a - base : b - base].decode() for a, b in pairwise(bounds)]


class PackedNumbers(NamedTuple):
    """Numbers as in `DictionaryArrays`."""

    double: NDArray[np.float64]
    below: NDArray[np.uint16]
    longs: dict[int, LongDecimal]
    """The long decimals by place, rising."""


def pack_numbers(numbers: Collection[Number]) -> PackedNumbers:
    """The double of each number and the distance to it; -0.0 becomes 0.0."""
    double = np.array([float(number) for number in numbers], np.float64) + 0.0
    below = np.zeros(len(double), np.uint16)
    longs = {i: n for i, n in enumerate(numbers) if n.__class__ is LongDecimal}
    if longs or (np.abs(double) >= _EXACT).any():
        for i, number in enumerate(numbers):
            double[i], below[i] = _pack_number(number)
    return PackedNumbers(double, below if below.any() else below[:0].copy(), longs)


def pack_longs(longs: Mapping[int, LongDecimal]) -> dict[str, NDArray[Any]]:
    """The fields of `DictionaryArrays` for long decimals, given by place."""
    if not longs:
        return {}
    start, text = pack_texts([str(long.decimal) for long in longs.values()])
    places = np.fromiter(longs, np.int64, len(longs))
    return {"long_place": places, "long_start": start, "long_text": text}


def unpack_longs(arrays: DictionaryArrays) -> dict[int, LongDecimal]:
    """The long decimals of a dictionary, by place."""
    if not len(arrays.long_place):
        return {}
    texts = unpack_texts(arrays.long_start, arrays.long_text)
    return {
        place: LongDecimal(Decimal(text))
        for place, text in zip(arrays.long_place.tolist(), texts, strict=True)
    }


def _pack_number(number: Number) -> tuple[float, int]:
    if isinstance(number, LongDecimal):
        return double_above(number), LONG
    nearest = float(number)
    if isinstance(number, float):
        return nearest, 0
    double = nearest if nearest >= number else math.nextafter(nearest, math.inf)
    return double, int(double) - number


def _view(array: NDArray[Any]) -> memoryview[Any]:
    """An array as a memoryview, which returns Python numbers much faster than NumPy."""
    return memoryview(array)  # type: ignore[arg-type]  # NumPy's stubs for older Pythons lack it


class SortedValues:
    """The mentioned values of all attributes.

    An attribute's numbers, strings and timestamps are ranges of the arrays, which callers pass.
    """

    __slots__ = ("_below", "_longs", "_numbers", "_text", "_text_start", "_times", "arrays")

    def __init__(self, arrays: DictionaryArrays) -> None:
        self.arrays = arrays
        self._numbers = _view(arrays.number)
        self._below = _view(arrays.number_below)
        self._text_start = _view(arrays.text_start)
        self._text = _view(arrays.text)
        self._times = _view(arrays.time)
        self._longs = unpack_longs(arrays)

    def place_of_number(self, number: Number, first: int, last: int) -> Place:
        """The place of a number among those from `first` up to, not including, `last`."""
        numbers, all_below = self._numbers, self._below
        double, below = _pack_number(number)
        at = bisect_left(numbers, double, first, last)
        if self._longs or below == LONG:
            # Many long decimals may share one double.
            end = bisect_right(numbers, double, at, last)
            at = bisect_left(range(end), number, at, end, key=self.number)
            return Place(at, at < end and self.number(at) == number)
        if all_below:
            while at < last and numbers[at] == double and all_below[at] > below:
                at += 1
        found = at < last and numbers[at] == double
        return Place(at, found and below == (all_below[at] if all_below else 0))

    def place_of_text(self, text: str, first: int, last: int) -> Place:
        """The place of a string among those from `first` up to, not including, `last`."""
        sought = text.encode()
        at = bisect_left(range(last), sought, first, last, key=self._bytes)
        return Place(at, at < last and self._bytes(at) == sought)

    def place_of_time(self, time: int, first: int, last: int) -> Place:
        """The place of a timestamp, in microseconds; `last` is not included."""
        at = bisect_left(self._times, time, first, last)
        return Place(at, at < last and self._times[at] == time)

    def number(self, at: int) -> Number:
        """The number at a place; a whole one as an integer."""
        long = self._longs.get(at)
        if long is not None:
            return long
        double = self._numbers[at]
        if not double.is_integer():
            return double  # type: ignore[no-any-return]  # the view of an array of doubles
        return int(double) - (self._below[at] if self._below else 0)

    def _bytes(self, at: int) -> bytes:
        return self._text[self._text_start[at] : self._text_start[at + 1]].tobytes()

    def numbers(self, first: int, last: int) -> list[Number]:
        """The numbers from `first` up to, not including, `last`; whole ones as integers."""
        numbers: list[Number] = [
            int(double) if double.is_integer() else double
            for double in self.arrays.number[first:last].tolist()
        ]
        for i in np.flatnonzero(self.arrays.number_below[first:last]).tolist():
            numbers[i] = self.number(first + i)
        return numbers

    def texts(self, first: int, last: int) -> list[str]:
        """The strings from `first` up to, not including, `last`."""
        return unpack_texts(self.arrays.text_start, self.arrays.text, first, last)

    def times(self, first: int, last: int) -> list[int]:
        """The timestamps from `first` up to, not including, `last`, in microseconds."""
        times: list[int] = self.arrays.time[first:last].tolist()
        return times

    def is_double(self, first: int, last: int) -> NDArray[np.bool_] | None:
        """Which of the numbers equal their doubles; None if all do."""
        below = self.arrays.number_below[first:last]
        return below == 0 if below.any() else None

    def ceilings(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """ceil(v) of the numbers v that a 64-bit integer reaches, and whether it equals v.

        A number v is at most the integer x if ceil(v) is.
        """
        double = self.arrays.number[first:last]
        below = self.arrays.number_below[first:last].astype(np.int64)
        below = below if len(below) else np.zeros(len(double), np.int64)
        if self._longs and (below == LONG).any():
            return self._exact_ceilings(first, last)
        at_end = (double == _INT64_END) & (below > 0)
        reached = int(np.count_nonzero((double < _INT64_END) | at_end))
        double, below = double[:reached], below[:reached]
        whole = np.ceil(double)
        # 2**63 is not a 64-bit integer, so count down from its neighbour.
        top = whole == _INT64_END
        ceiling = np.where(top, -1.0, np.maximum(whole, -_INT64_END)).astype(np.int64)
        ceiling = np.where(top, np.iinfo(np.int64).max - (below - 1), ceiling - below)
        return ceiling, (whole == double) & (double >= -_INT64_END)

    def _exact_ceilings(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """As `ceilings`, number by number."""
        ceilings: list[int] = []
        equals: list[bool] = []
        for number in self.numbers(first, last):
            if number > _INT64_MAX:
                break
            if number < -_INT64_END:
                ceilings.append(-(2**63))
                equals.append(False)
            else:
                line = on_line(number)
                ceilings.append(math.ceil(line))
                equals.append(ceilings[-1] == line)
        return np.array(ceilings, np.int64), np.array(equals, np.bool_)
