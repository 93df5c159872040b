"""The distinct values that predicates mention for each attribute, and their codes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrays import DictionaryArrays
from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.dictionary import FIRST, Dictionary
from tamis.encode.kernel import kernel
from tamis.encode.plain.piece_table import grow
from tamis.encode.plain.predicates import BOOLEAN, NUMBER, STRING, TIME
from tamis.encode.ragged import run_places, starts

__all__ = ["Coded", "ValueTable"]

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_PRIME: Final = np.uint64(0x100000001B3)
_HALF: Final = np.uint64(32)


class Coded(NamedTuple):
    """A dictionary, and the codes of the values that it was made of."""

    dictionary: Dictionary
    code: NDArray[np.int32]
    """The code of each value of the table; undefined for those left out."""


class ValueTable:
    """Numbers values: equal values of one attribute have the same number."""

    def __init__(self) -> None:
        self.size = 0
        self._attribute = np.empty(1 << 12, np.int32)
        self._kind = np.empty(1 << 12, np.uint8)
        self._value = np.empty(1 << 12, np.int64)
        self._extra = np.empty(1 << 12, np.int64)
        self._slots = np.full(1 << 13, -1, np.int32)

    def number(
        self,
        data: NDArray[np.uint8],
        attribute: NDArray[np.int32],
        kind: NDArray[np.uint8],
        value: NDArray[np.int64],
        extra: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """The numbers of values as `Predicates` has them, whose strings lie in `data`."""
        numbers = np.empty(len(value), np.int32)
        done = 0
        while True:
            table = (self._attribute, self._kind, self._value, self._extra)
            done, self.size = _number(
                data, attribute, kind, value, extra, done, self._slots, table, self.size, numbers
            )
            if done == len(value):
                return numbers
            self._make_room(data)

    def kinds(self, numbers: NDArray[np.int32]) -> NDArray[np.uint8]:
        """The kinds of the values with these numbers."""
        return self._kind[numbers]

    def encode(
        self,
        data: NDArray[np.uint8],
        used: NDArray[np.bool_],
        names: tuple[NDArray[np.int64], NDArray[np.uint8]],
        number_of: NDArray[np.int32],
        orders_strings: NDArray[np.uint8],
    ) -> Coded:
        """The dictionary of the `used` values.

        Parameters
        ----------
        data
            Where strings lie.
        names
            The names of the attributes of the dictionary, end to end.
        number_of
            The number in the dictionary of each attribute here.
        orders_strings
            As in `DictionaryArrays`.
        """
        attributes = len(names[0]) - 1
        code = np.zeros(self.size, np.int32)
        kind = np.where(used, self._kind[: self.size], 255)
        attribute = number_of[self._attribute[: self.size]]

        booleans = kind == BOOLEAN
        code[booleans] = 1 + self._value[: self.size][booleans]

        # Of two integers with the same double the one further below it comes first.
        chosen = np.flatnonzero(kind == NUMBER)
        double, below = self._value[chosen].view(np.float64), self._extra[chosen]
        numbers = chosen[np.lexsort((-below, double, attribute[chosen]))]
        number_start, number_rank = _rank(attribute[numbers], attributes)
        code[numbers] = FIRST + 2 * number_rank + 1
        strings_at = FIRST + 2 * np.diff(number_start) + 1

        chosen = np.flatnonzero(kind == STRING)
        strings = chosen[_sort_strings(data, attribute, self._value, self._extra, chosen)]
        string_start, string_rank = _rank(attribute[strings], attributes)
        code[strings] = strings_at[attribute[strings]] + 2 * string_rank + 1
        times_at = strings_at + 2 * np.diff(string_start) + 1

        chosen = np.flatnonzero(kind == TIME)
        times = chosen[np.lexsort((self._value[chosen], attribute[chosen]))]
        time_start, time_rank = _rank(attribute[times], attributes)
        code[times] = times_at[attribute[times]] + 2 * time_rank + 1

        below = self._extra[numbers]
        arrays = DictionaryArrays(
            *names,
            number_start,
            self._value[numbers].view(np.float64),
            below.astype(np.uint16) if below.any() else np.empty(0, np.uint16),
            string_start,
            starts(self._extra[strings]),
            data[run_places(self._value[strings], self._extra[strings])],
            time_start,
            self._value[times],
            orders_strings,
        )
        return Coded(Dictionary(arrays), code)

    def _make_room(self, data: NDArray[np.uint8]) -> None:
        """Enlarge whatever is full."""
        if self.size == len(self._value):
            room = 2 * self.size
            self._attribute, self._kind = grow(self._attribute, room), grow(self._kind, room)
            self._value, self._extra = grow(self._value, room), grow(self._extra, room)
        if 3 * self.size >= 2 * len(self._slots):
            self.enlarge(data)

    def enlarge(self, data: NDArray[np.uint8]) -> None:
        """Make more slots, given the data in which strings lie."""
        self._slots = np.full(4 * len(self._slots), -1, np.int32)
        table = (self._attribute, self._kind, self._value, self._extra)
        _fill_slots(data, table, self.size, self._slots)


def _rank(
    attribute: NDArray[np.int32], attributes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the values of each attribute begin, and the rank of each value in its attribute."""
    start = starts(np.bincount(attribute, minlength=attributes))
    return start, np.arange(len(attribute)) - start[attribute]


def _sort_strings(
    data: NDArray[np.uint8],
    attribute: NDArray[np.int32],
    value: NDArray[np.int64],
    extra: NDArray[np.int64],
    chosen: NDArray[np.int64],
) -> Any:
    """The order of strings by attribute and bytes."""
    start, places = starts(extra[chosen]), run_places(value[chosen], extra[chosen])
    buffers = [None, pa.py_buffer(start), pa.py_buffer(data[places])]
    strings = pa.Array.from_buffers(pa.large_binary(), len(chosen), buffers)
    table = pa.table({"attribute": to_arrow(attribute[chosen]), "string": strings})
    keys = [("attribute", "ascending"), ("string", "ascending")]
    return to_numpy(pc.sort_indices(table, sort_keys=keys))


@kernel
def _hash(data, attribute, kind, value, extra):
    state = (np.uint64(attribute) ^ (np.uint64(kind) << _HALF)) * _MIX
    if kind == STRING:
        for at in range(value, value + extra):
            state = (state ^ np.uint64(data[at])) * _PRIME
    else:
        state = (state ^ np.uint64(value) ^ (np.uint64(extra) * _PRIME)) * _MIX
    state = (state ^ (state >> _HALF)) * _MIX
    return state >> _HALF


@kernel
def _number(data, attribute, kind, value, extra, done, slots, table, count, numbers):
    """Number the values from `done` on. Stops where there is no room for another one."""
    known_attribute, known_kind, known_value, known_extra = table
    mask = np.uint64(len(slots) - 1)
    for i in range(done, len(value)):
        at = _hash(data, attribute[i], kind[i], value[i], extra[i]) & mask
        while True:
            known = slots[at]
            if known < 0:
                if count == len(known_value) or 3 * count >= 2 * len(slots):
                    return i, count
                known_attribute[count], known_kind[count] = attribute[i], kind[i]
                known_value[count], known_extra[count] = value[i], extra[i]
                slots[at] = count
                numbers[i] = count
                count += 1
                break
            if (
                known_attribute[known] == attribute[i]
                and known_kind[known] == kind[i]
                and known_extra[known] == extra[i]
            ):
                first = known_value[known]
                is_same = first == value[i]
                if kind[i] == STRING and not is_same:
                    same = 0
                    while same < extra[i] and data[first + same] == data[value[i] + same]:
                        same += 1
                    is_same = same == extra[i]
                if is_same:
                    numbers[i] = known
                    break
            at = (at + np.uint64(1)) & mask
    return len(value), count


@kernel
def _fill_slots(data, table, count, slots):
    attribute, kind, value, extra = table
    mask = np.uint64(len(slots) - 1)
    for i in range(count):
        at = _hash(data, attribute[i], kind[i], value[i], extra[i]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i
