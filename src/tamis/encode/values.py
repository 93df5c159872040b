"""The values that rules mention, sorted and laid end to end in flat arrays.

They may lie in a file that is mapped into memory, so nothing here reads more of them than needed:
places are found by bisection.

A number is a 64-bit integer or a double, and the two compare exactly. It is stored as the least
double that is not below it, and its distance to that double: 0, except for an integer that no
double equals, which lies less than 1024 below.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import DictionaryArrays
from tamis.encode.ragged import starts

__all__ = [
    "Place",
    "SortedValues",
    "pack_numbers",
    "pack_texts",
    "unpack_texts",
]

_EXACT: Final = 2.0**53
"""Up to here every integer is a double."""
_INT64_END: Final = 2.0**63
"""The least double above all 64-bit integers."""


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


def pack_numbers(numbers: Collection[int | float]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The double of each number and the distance to it; -0.0 becomes 0.0."""
    double = np.array([float(number) for number in numbers], np.float64) + 0.0
    below = np.zeros(len(double), np.int64)
    if (np.abs(double) >= _EXACT).any():
        for i, number in enumerate(numbers):
            double[i], below[i] = _pack_number(number)
    return double, below


def _pack_number(number: int | float) -> tuple[float, int]:
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

    __slots__ = ("_below", "_numbers", "_text", "_text_start", "_times", "arrays")

    def __init__(self, arrays: DictionaryArrays) -> None:
        self.arrays = arrays
        self._numbers = _view(arrays.number)
        self._below = _view(arrays.number_below)
        self._text_start = _view(arrays.text_start)
        self._text = _view(arrays.text)
        self._times = _view(arrays.time)

    def place_of_number(self, number: int | float, first: int, last: int) -> Place:
        """The place of a number among those from `first` up to, not including, `last`."""
        numbers, all_below = self._numbers, self._below
        double, below = _pack_number(number)
        at = bisect_left(numbers, double, first, last)
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

    def _bytes(self, at: int) -> bytes:
        return self._text[self._text_start[at] : self._text_start[at + 1]].tobytes()

    def numbers(self, first: int, last: int) -> list[int | float]:
        """The numbers from `first` up to, not including, `last`; whole ones as integers."""
        numbers: list[int | float] = [
            int(double) if double.is_integer() else double
            for double in self.arrays.number[first:last].tolist()
        ]
        below = self.arrays.number_below[first:last]
        for i in np.flatnonzero(below).tolist():
            numbers[i] -= int(below[i])
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
        reached = int(np.count_nonzero((double < _INT64_END) | (below > 0)))
        double, below = double[:reached], below[:reached]
        whole = np.ceil(double)
        # 2**63 is not a 64-bit integer, so count down from its neighbour.
        top = whole == _INT64_END
        ceiling = np.where(top, -1.0, np.maximum(whole, -_INT64_END)).astype(np.int64)
        ceiling = np.where(top, np.iinfo(np.int64).max - (below - 1), ceiling - below)
        return ceiling, (whole == double) & (double >= -_INT64_END)
