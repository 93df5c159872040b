"""The ordered index of an attribute of documents: the paper's augmented B-tree.

The values of one type are sorted, each with the number of its document, in blocks of some hundreds:
a tree of two levels without stored inner nodes. Blocks are typed arrays where values are numbers,
so an entry takes sixteen bytes. Python's bisection compares integers with doubles exactly, so each
type has sorted values of its own, and all are searched.

A tree with bit vectors at its nodes would have to change one at each level for every document that
is added or removed. Here the bit vector of a span is built from its entries when it is needed.
"""

from __future__ import annotations

import math
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain, compress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Op, Value
from tamis.expr.numbers import LongDecimal
from tamis.expr.times import count_microseconds
from tamis.joins.value_sets import EVERYTHING, HIGHEST, LOWEST, Span, ValueSet

__all__ = ["AttributeIndex", "SortedEntries", "key_of"]

_BLOCK: Final = 512
"""How many entries a new block has; a block of more than twice as many is split."""

_Key: TypeAlias = Any
"""A value as it is sorted: a timestamp in microseconds, all others unchanged."""


class SortedEntries:
    """Values of one type in order, each with the number of its document.

    Among equal values numbers rise: the oldest document comes first.

    Parameters
    ----------
    typecode
        The typecode of arrays; empty for values that no array takes.
    """

    __slots__ = ("_keys", "_lasts", "_numbers", "_typecode")

    def __init__(self, typecode: str) -> None:
        self._typecode = typecode
        self._keys: list[Any] = []
        self._numbers: list[array[int]] = []
        self._lasts: list[_Key] = []
        """The last value of each block."""

    def __len__(self) -> int:
        return sum(map(len, self._numbers))

    def __bool__(self) -> bool:
        return bool(self._lasts)

    @property
    def lowest(self) -> _Key:
        """The lowest value; there must be one."""
        return self._keys[0][0]

    @property
    def highest(self) -> _Key:
        """The highest value; there must be one."""
        return self._lasts[-1]

    def fill(self, keys: Sequence[_Key], numbers: Sequence[int]) -> None:
        """Add many entries, given in the order of their numbers."""
        if self:
            for key, number in zip(keys, numbers, strict=True):
                self.add(key, number)
            return
        order = sorted(range(len(keys)), key=keys.__getitem__)
        for start in range(0, len(order), _BLOCK):
            some = order[start : start + _BLOCK]
            self._keys.append(self._block([keys[i] for i in some]))
            self._numbers.append(array("q", [numbers[i] for i in some]))
            self._lasts.append(keys[some[-1]])

    def restrict(self, renumbered: NDArray[np.int64], oldest: int) -> SortedEntries:
        """The entries of some documents, as in :meth:`AttributeIndex.restrict`."""
        restricted = SortedEntries(self._typecode)
        if not self:
            return restricted
        numbers = np.concatenate([np.frombuffer(some, np.int64) for some in self._numbers])
        numbers = renumbered[numbers - oldest]
        kept = numbers >= 0
        numbers = numbers[kept]
        keys = list(compress(chain.from_iterable(self._keys), kept.tolist()))
        for start in range(0, len(keys), _BLOCK):
            some = keys[start : start + _BLOCK]
            restricted._keys.append(self._block(some))
            restricted._numbers.append(array("q", numbers[start : start + _BLOCK].tolist()))
            restricted._lasts.append(some[-1])
        return restricted

    def add(self, key: _Key, number: int) -> None:
        """Add one entry, whose number is the highest so far."""
        lasts = self._lasts
        block = bisect_right(lasts, key)
        if block == len(lasts):
            if not lasts:
                self._keys.append(self._block([key]))
                self._numbers.append(array("q", [number]))
                lasts.append(key)
                return
            block -= 1
            lasts[block] = key
        keys = self._keys[block]
        at = bisect_right(keys, key)
        keys.insert(at, key)
        self._numbers[block].insert(at, number)
        if len(keys) > 2 * _BLOCK:
            self._split(block)

    def remove(self, key: _Key, number: int) -> None:
        """Remove an entry; it must be there."""
        block, last = bisect_left(self._lasts, key), bisect_right(self._lasts, key)
        # Of the blocks that end with this value, the last numbers rise.
        while block < last:
            middle = (block + last) // 2
            if self._numbers[middle][-1] < number:
                block = middle + 1
            else:
                last = middle
        keys, numbers = self._keys[block], self._numbers[block]
        at = bisect_left(numbers, number, bisect_left(keys, key), bisect_right(keys, key))
        del keys[at], numbers[at]
        if not keys:
            del self._keys[block], self._numbers[block], self._lasts[block]
        else:
            self._lasts[block] = keys[-1]

    def blocks(self) -> list[Any]:
        """The values, in arrays or lists that must not be changed."""
        return self._keys

    def has(self, key: _Key) -> bool:
        """Whether there is an entry of that value."""
        block = bisect_left(self._lasts, key)
        if block == len(self._lasts):
            return False
        keys = self._keys[block]
        return bool(keys[bisect_left(keys, key)] == key)

    def first(self, span: Span) -> int | None:
        """The number of the first entry within a span; None if there is none."""
        block, at = self._place(span[0])
        if block == len(self._lasts) or (block, at) >= self._place(span[1]):
            return None
        return self._numbers[block][at]

    def numbers(self, span: Span) -> NDArray[np.int64]:
        """The numbers of all entries within a span."""
        (block, at), (last, end) = self._place(span[0]), self._place(span[1])
        parts = [
            np.frombuffer(numbers, np.int64)[
                at if i == block else 0 : end if i == last else len(numbers)
            ]
            for i, numbers in enumerate(self._numbers[block : last + 1], block)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def some_numbers(self, span: Span, count: int) -> list[int]:
        """The numbers of up to `count` entries at the start of a span; one if there is any."""
        (block, at), (last, end) = self._place(span[0]), self._place(span[1])
        if block >= last and at >= end:
            return []
        return self._numbers[block][
            at : min(end, at + count) if block == last else at + count
        ].tolist()

    def estimate(self, span: Span) -> int:
        """About how many entries there are within a span; 0 only if there are none."""
        (block, at), (last, end) = self._place(span[0]), self._place(span[1])
        if block >= last:
            return max(0, end - at)
        return len(self._numbers[block]) - at + (last - block - 1) * _BLOCK + end

    def _place(self, cut: tuple[Any, ...]) -> tuple[int, int]:
        """The block of the first entry above a cut, and its place there."""
        if cut == LOWEST:
            return 0, 0
        if cut == HIGHEST:
            return len(self._lasts), 0
        bisect = bisect_right if cut[2] else bisect_left
        block = bisect(self._lasts, cut[1])
        return block, bisect(self._keys[block], cut[1]) if block < len(self._lasts) else 0

    def _block(self, keys: list[_Key]) -> Any:
        return array(self._typecode, keys) if self._typecode else keys

    def _split(self, block: int) -> None:
        keys, numbers = self._keys[block], self._numbers[block]
        half = len(keys) // 2
        self._keys[block : block + 1] = [keys[:half], keys[half:]]
        self._numbers[block : block + 1] = [numbers[:half], numbers[half:]]
        self._lasts.insert(block, keys[half - 1])


_PLACES_OF_KIND: Final = {
    Kind.BOOLEAN: (0,),
    Kind.NUMBER: (1, 2, 5),
    Kind.STRING: (3,),
    Kind.TIMESTAMP: (4,),
}
_TYPECODES: Final = ("b", "q", "d", "", "q", "")
"""An index has sorted booleans, integers, doubles, strings, timestamps, and numbers that fit in
neither an integer with a sign nor a double, in this order."""

_NUMBERS: Final = (1, 2, 5)
_LONG_NUMBERS: Final = 5
_PLACE_OF_CLASS: Final[dict[type, int]] = {float: 2, str: 3, datetime: 4}
_INT64_END: Final = 2**63

_SIGNS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}

_BY_END: Final[dict[Op, Callable[[Any, Any, Any], bool] | None]] = {
    Op.EQ: None,
    Op.LT: lambda value, lowest, _: lowest < value,
    Op.LE: lambda value, lowest, _: lowest <= value,
    Op.GT: lambda value, _, highest: highest > value,
    Op.GE: lambda value, _, highest: highest >= value,
}
"""Whether some indexed value compares with `value`, by the lowest and the highest of them."""

_OPPOSITE: Final = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


class AttributeIndex:
    """The values of one attribute in all documents."""

    __slots__ = ("_entries", "highest", "lowest", "others", "present", "several")

    def __init__(self) -> None:
        self._entries = [SortedEntries(typecode) for typecode in _TYPECODES]
        self.present = 0
        """How many documents have the attribute."""
        self.several: set[int] = set()
        """The numbers of the documents with more than one value."""
        self.lowest: float = math.nan
        self.highest: float = math.nan
        """The lowest and the highest number; NaN, which compares with nothing, without numbers."""
        self.others = 0
        """How many values are not numbers."""

    def fill(self, documents: Iterable[tuple[int, Sequence[Value]]]) -> None:
        """Add the values of many documents, given in the order of their numbers."""
        keys: list[list[_Key]] = [[] for _ in self._entries]
        numbers: list[list[int]] = [[] for _ in self._entries]
        for number, values in documents:
            self.present += 1
            if len(values) > 1:
                self.several.add(number)
            for value in values:
                place = _place_of(value)
                keys[place].append(key_of(value))
                numbers[place].append(number)
                self.others += place not in _NUMBERS
        for filled, keys_of, numbers_of in zip(self._entries, keys, numbers, strict=True):
            filled.fill(keys_of, numbers_of)
        self._find_ends()

    def restrict(self, renumbered: NDArray[np.int64], oldest: int) -> AttributeIndex:
        """The index of some of the documents.

        Parameters
        ----------
        renumbered
            The number of each document in the new index, -1 for those that are left out. The
            numbers must rise.
        oldest
            The number of the first of these documents in this index.
        """
        restricted = AttributeIndex()
        restricted._entries = [entries.restrict(renumbered, oldest) for entries in self._entries]
        several = renumbered[np.array(sorted(self.several), np.int64) - oldest]
        restricted.several = set(several[several >= 0].tolist())
        restricted.present = len(np.unique(restricted.numbers()))
        restricted.others = sum(
            len(entries)
            for place, entries in enumerate(restricted._entries)
            if place not in _NUMBERS
        )
        restricted._find_ends()
        return restricted

    def add(self, number: int, values: Sequence[Value]) -> None:
        """Add the values of a document, whose number is the highest so far."""
        self.present += 1
        if len(values) > 1:
            self.several.add(number)
        for value in values:
            place = _PLACE_OF_CLASS.get(value.__class__) or _place_of(value)
            if place in _NUMBERS:
                self._entries[place].add(value, number)
                # A comparison with NaN is always false.
                if not value >= self.lowest:  # type: ignore[operator]  # it is a number
                    self.lowest = value  # type: ignore[assignment]
                if not value <= self.highest:  # type: ignore[operator]
                    self.highest = value  # type: ignore[assignment]
            else:
                self._entries[place].add(key_of(value), number)
                self.others += 1

    def remove(self, number: int, values: Sequence[Value]) -> None:
        """Remove the values of a document; they must be there."""
        self.present -= 1
        self.several.discard(number)
        for value in values:
            place = _PLACE_OF_CLASS.get(value.__class__) or _place_of(value)
            if place in _NUMBERS:
                self._entries[place].remove(value, number)
                if value == self.lowest or value == self.highest:
                    self._find_ends()
            else:
                self._entries[place].remove(key_of(value), number)
                self.others -= 1

    def all_values(self) -> dict[Kind, list[Any]]:
        """All values of each kind, in no order: arrays of numbers, or lists.

        Timestamps are microseconds since 1970.
        """
        return {
            kind: [block for place in places for block in self._entries[place].blocks()]
            for kind, places in _PLACES_OF_KIND.items()
        }

    def _find_ends(self) -> None:
        both = [self._entries[place] for place in _NUMBERS if self._entries[place]]
        self.lowest = min((entries.lowest for entries in both), default=math.nan)
        self.highest = max((entries.highest for entries in both), default=math.nan)

    def any_satisfies(self, op: Op, others: Sequence[Value]) -> bool:
        """Whether ``v OP other`` holds for an indexed value v and one of `others`.

        Except for equality the highest or the lowest value decides: some d.x is above x if the
        highest d.x is.
        """
        compare = _BY_END[op]
        for value in others:
            kind = value.__class__
            if kind is float or kind is int:
                if compare is None:
                    if any(self._entries[place].has(value) for place in _NUMBERS):
                        return True
                elif compare(value, self.lowest, self.highest):
                    return True
                continue
            key = key_of(value)
            for place in _PLACES_OF_KIND[kind_of(value)]:
                entries = self._entries[place]
                if compare is None:
                    if entries.has(key):
                        return True
                elif entries and compare(key, entries.lowest, entries.highest):
                    return True
        return False

    def number_test(self, op: Op, negated: bool = False) -> Callable[[Any], bool]:
        """A function of a number n: whether ``v OP n`` holds, or fails, for an indexed value v.

        With `negated`, all documents must have a single value.
        """
        ints, doubles, longs = (self._entries[place] for place in _NUMBERS)
        if op is Op.EQ:
            if negated:
                return lambda v: (
                    bool(self.others or v != self.lowest or v != self.highest)
                    and (self.present > 0)
                )
            return lambda v: ints.has(v) or doubles.has(v) or longs.has(v)
        sign = _SIGNS[_OPPOSITE[op] if negated else op]
        is_low = sign in (operator.lt, operator.le)
        if negated and is_low:
            return lambda v: self.others > 0 or sign(self.lowest, v)
        if negated:
            return lambda v: self.others > 0 or sign(self.highest, v)
        if is_low:
            return lambda v: sign(self.lowest, v)
        return lambda v: sign(self.highest, v)

    def any_violates(self, op: Op, value: Value) -> bool:
        """Whether ``v OP value`` fails for an indexed value v.

        All documents must have a single value.
        """
        if value.__class__ is float or value.__class__ is int:
            if self.others:
                return True
            if op is Op.EQ:
                return bool(value != self.lowest or value != self.highest)
            return self.any_satisfies(_OPPOSITE[op], (value,))
        kind, key = kind_of(value), key_of(value)
        places = _PLACES_OF_KIND[kind]
        if any(entries for place, entries in enumerate(self._entries) if place not in places):
            return True
        if op is not Op.EQ:
            return self.any_satisfies(_OPPOSITE[op], (value,))
        alike = [self._entries[place] for place in places]
        return any(some and (some.lowest != key or some.highest != key) for some in alike)

    def first(self, values: ValueSet) -> int | None:
        """The number of a document with one of `values`; None if there is none."""
        for kind, span in values:
            for place in _PLACES_OF_KIND[kind]:
                found = self._entries[place].first(_span_of_keys(span))
                if found is not None:
                    return found
        return None

    def numbers(self, values: ValueSet = EVERYTHING) -> NDArray[np.int64]:
        """The numbers of all documents with one of `values`, some more than once."""
        parts = [
            self._entries[place].numbers(_span_of_keys(span))
            for kind, span in values
            for place in _PLACES_OF_KIND[kind]
            if self._entries[place]
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def some_numbers(self, values: ValueSet, count: int) -> list[int]:
        """The numbers of up to `count` documents with one of `values`; one if there is any."""
        found: list[int] = []
        for kind, span in values:
            for place in _PLACES_OF_KIND[kind]:
                if self._entries[place] and len(found) < count:
                    keys = _span_of_keys(span)
                    found += self._entries[place].some_numbers(keys, count - len(found))
        return found

    def estimate(self, values: ValueSet) -> int:
        """About how many indexed values are among `values`."""
        return sum(
            self._entries[place].estimate(_span_of_keys(span))
            for kind, span in values
            for place in _PLACES_OF_KIND[kind]
            if self._entries[place]
        )


def _place_of(value: Value) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return 1 if value < _INT64_END else _LONG_NUMBERS
    if isinstance(value, float):
        return 2
    if isinstance(value, LongDecimal):
        return _LONG_NUMBERS
    return 3 if isinstance(value, str) else 4


def key_of(value: Value) -> _Key:
    """A value as it is sorted among its kind: a timestamp in microseconds, others unchanged."""
    return count_microseconds(value) if isinstance(value, datetime) else value


def _span_of_keys(span: Span) -> Span:
    """A span in terms of keys."""
    low, high = ((0, key_of(cut[1]), cut[2]) if len(cut) == 3 else cut for cut in span)
    return low, high
