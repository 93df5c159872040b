"""The distinct pieces of many rules, numbered in the order in which they come."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.encode.hashes import read_only
from tamis.encode.kernel import kernel

__all__ = ["PieceTable", "grow"]

_PRIME: Final = np.uint64(0x100000001B3)
_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_NUMBER: Final = np.uint64(0xFFFFFFFF)

_AHEAD: Final = 32
"""How many pieces are looked up together, so that their cache misses overlap."""


class PieceTable:
    """Numbers pieces: equal texts in the same logic have the same number.

    The table has a copy of each distinct piece, so the texts that pieces come from may be freed.

    Attributes
    ----------
    size
        How many distinct pieces there are.
    data
        The pieces, end to end, and room for more.
    start
        Where each piece begins in `data`, and where the last one ends.
    weak
        Whether each piece is from a rule in the weak logic.
    """

    def __init__(self) -> None:
        self.size = 0
        self.data = np.empty(1 << 16, np.uint8)
        self.start = np.zeros(1 << 12, np.int64)
        self.weak = np.empty(1 << 12, np.uint8)
        self._slots = np.zeros(1 << 13, np.uint64)
        """Open addressing; 32 bits of a piece's hash and its number plus 1, or 0 if free."""

    def number(
        self,
        data: NDArray[np.uint8],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        weak: NDArray[np.uint8],
    ) -> NDArray[np.int32]:
        """The numbers of the pieces data[begin[i]:end[i]]."""
        numbers = np.empty(len(begin), np.int32)
        data, weak = read_only(data), read_only(weak)
        begin, end = read_only(begin), read_only(end)
        tags, loaded = np.empty((2, _AHEAD), np.uint64)
        done = 0
        while True:
            done, self.size = _number(
                data,
                begin,
                end,
                weak,
                done,
                self._slots,
                self.data,
                self.start,
                self.weak,
                self.size,
                numbers,
                tags,
                loaded,
            )
            if done == len(begin):
                return numbers
            self._make_room(int(end[done] - begin[done]))

    def append(self, text: bytes) -> tuple[int, int]:
        """Store bytes of no piece, and return where they begin and end.

        No more pieces may be numbered afterwards.
        """
        used = int(self.start[self.size])
        if used + len(text) > len(self.data):
            self.data = grow(self.data, 2 * len(self.data) + len(text))
        self.data[used : used + len(text)] = np.frombuffer(text, np.uint8)
        self.start[self.size] = used + len(text)
        return used, used + len(text)

    def text(self, number: int) -> str:
        """The text of a piece."""
        return self.data[self.start[number] : self.start[number + 1]].tobytes().decode()

    def _make_room(self, piece: int) -> None:
        """Enlarge whatever is full; the next piece has so many bytes."""
        if int(self.start[self.size]) + piece > len(self.data):
            self.data = grow(self.data, len(self.data) * 3 // 2 + piece)
        if self.size + 1 >= len(self.start):
            room = len(self.start) * 3 // 2
            self.start, self.weak = grow(self.start, room), grow(self.weak, room)
        if 3 * self.size >= 2 * len(self._slots):
            self.enlarge()

    def enlarge(self) -> None:
        """Double the slots."""
        slots, self._slots = self._slots, np.zeros(2 * len(self._slots), np.uint64)
        _move_slots(slots, self._slots)


def grow(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy of an array with room for `size` items."""
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _number(
    data, begin, end, weak, done, slots, known_data, known_start, known_weak, count, numbers,
    tags, loaded,
):  # fmt: skip
    """Number the pieces from `done` on. Stops where there is no room for another one."""
    for first in range(done, len(begin), _AHEAD):
        last = min(first + _AHEAD, len(begin))
        _hash_pieces(data, begin, end, weak, first, last, tags)
        _load_ahead(slots, known_data, known_start, tags, loaded, last - first)
        for piece in range(first, last):
            known = _find_piece(
                data, begin[piece], end[piece], weak[piece], tags[piece - first], slots,
                known_data, known_start, known_weak, count,
            )  # fmt: skip
            if known < 0:
                return piece, count
            numbers[piece] = known
            count = max(count, known + 1)
    return len(begin), count


@kernel
def _hash_pieces(data, begin, end, weak, first, last, tags):
    for piece in range(first, last):
        state = _OFFSET ^ np.uint64(weak[piece])
        for i in range(begin[piece], end[piece]):
            state = (state ^ np.uint64(data[i])) * _PRIME
        tags[piece - first] = ((state ^ (state >> _HALF)) * _MIX) >> _HALF


@kernel
def _load_ahead(slots, known_data, known_start, tags, loaded, size):
    """Read what the table has for some pieces.

    The reads of a loop do not wait for each other, so most of their cache misses overlap.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(size):
        slot = slots[tags[i] & mask]
        loaded[i] = slot & _NUMBER if slot >> _HALF == tags[i] else np.uint64(0)
    for i in range(size):
        loaded[i] = known_start[loaded[i] - np.uint64(1)] if loaded[i] else 0
    for i in range(size):
        loaded[i] = known_data[loaded[i]]


@kernel
def _find_piece(
    data, first, last, weak, tag, slots, known_data, known_start, known_weak, count
):  # fmt: skip
    """The number of a piece, `count` if it is a new one; -1 if there is no room for it."""
    mask = np.uint64(len(slots) - 1)
    size = last - first
    at = tag & mask
    while slots[at] != 0:
        if slots[at] >> _HALF == tag:
            known = np.int64(slots[at] & _NUMBER) - 1
            start = known_start[known]
            if known_start[known + 1] - start == size and known_weak[known] == weak:
                same = 0
                while same < size and known_data[start + same] == data[first + same]:
                    same += 1
                if same == size:
                    return known
        at = (at + np.uint64(1)) & mask
    used = known_start[count]
    if (
        used + size > len(known_data)
        or count + 1 >= len(known_start)
        or 3 * count >= 2 * len(slots)
    ):
        return -1
    for i in range(size):
        known_data[used + i] = data[first + i]
    known_start[count + 1] = used + size
    known_weak[count] = weak
    slots[at] = (tag << _HALF) | np.uint64(count + 1)
    return count


@kernel
def _move_slots(slots, larger):
    mask = np.uint64(len(larger) - 1)
    for i in range(len(slots)):
        if slots[i] != 0:
            at = (slots[i] >> _HALF) & mask
            while larger[at] != 0:
                at = (at + np.uint64(1)) & mask
            larger[at] = slots[i]
