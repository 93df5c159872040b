"""The ordered index of an attribute of documents: the paper's augmented B-tree.

A *line* holds the values of one type, in order, each with the number of its document, in blocks of
some hundreds: a tree of two levels, whose inner nodes need not be kept. Blocks are typed arrays
where values are numbers, so an entry takes sixteen bytes. Python's bisection compares integers
with doubles exactly, so each has a line of its own and is asked about both.

A tree with bit vectors at its nodes would have to change one at each level for every document that
comes or goes. Here the bit vector of a span is made when it is asked for, from its entries.
"""

from __future__ import annotations

import math
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Op, Value
from tamis.joins.value_sets import EVERYTHING, HIGHEST, LOWEST, Span, Spans, compared

__all__ = ["AttributeIndex", "Line", "compared_with"]

_BLOCK: Final = 512
"""How many entries a block has when it is made; with twice as many it is split."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_Key: TypeAlias = Any
"""A value as its line holds it: a timestamp in microseconds, all others as they are."""


class Line:
    """Values of one type in order, each with the number of its document.

    Numbers rise: of equal values the oldest document's comes first.

    Parameters
    ----------
    typecode
        That of an array; empty for values that no array takes.
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
        """The lowest value, of which there is one."""
        return self._keys[0][0]

    @property
    def highest(self) -> _Key:
        """The highest value, of which there is one."""
        return self._lasts[-1]

    def fill(self, keys: Sequence[_Key], numbers: Sequence[int]) -> None:
        """Take many entries at once, which come in the order of their numbers."""
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

    def add(self, key: _Key, number: int) -> None:
        """Take one entry, whose number is the highest so far."""
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
        """Drop an entry that is there."""
        block, last = bisect_left(self._lasts, key), bisect_right(self._lasts, key)
        # Blocks that end with this very value have rising numbers at their ends.
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

    def holds(self, key: _Key) -> bool:
        """Whether there is an entry of that value."""
        block = bisect_left(self._lasts, key)
        if block == len(self._lasts):
            return False
        keys = self._keys[block]
        return bool(keys[bisect_left(keys, key)] == key)

    def first(self, span: Span) -> int | None:
        """The number of the first entry within a span; None where there is none."""
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

    def estimate(self, span: Span) -> int:
        """About how many entries there are within a span; 0 only where there is none."""
        (block, at), (last, end) = self._place(span[0]), self._place(span[1])
        if block >= last:
            return max(0, end - at)
        return len(self._numbers[block]) - at + (last - block - 1) * _BLOCK + end

    def _place(self, cut: tuple[Any, ...]) -> tuple[int, int]:
        """The block and the place in it of the first entry above a cut."""
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


_LINES: Final = {
    Kind.BOOLEAN: (0,),
    Kind.NUMBER: (1, 2),
    Kind.STRING: (3,),
    Kind.TIMESTAMP: (4,),
}
_TYPECODES: Final = ("b", "q", "d", "", "q")
"""The lines of an index: booleans, integers, doubles, strings, timestamps."""

_NUMBERS: Final = (1, 2)
_LINE_OF: Final[dict[type, int]] = {int: 1, float: 2, str: 3, datetime: 4}

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
"""Whether there is a value that compares with another, by the lowest and the highest there is."""

_OPPOSITE: Final = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


class AttributeIndex:
    """The values that documents have of one attribute."""

    __slots__ = ("_lines", "highest", "lowest", "others", "present", "several")

    def __init__(self) -> None:
        self._lines = [Line(typecode) for typecode in _TYPECODES]
        self.present = 0
        """How many documents have the attribute."""
        self.several: set[int] = set()
        """The documents that have more than one value of it."""
        self.lowest: float = math.nan
        self.highest: float = math.nan
        """The lowest and the highest number. NaN where there is none: it compares with nothing."""
        self.others = 0
        """How many values are no numbers."""

    def fill(self, documents: Iterable[tuple[int, Sequence[Value]]]) -> None:
        """Take many documents at once, in the order of their numbers."""
        keys: list[list[_Key]] = [[] for _ in self._lines]
        numbers: list[list[int]] = [[] for _ in self._lines]
        for number, values in documents:
            self.present += 1
            if len(values) > 1:
                self.several.add(number)
            for value in values:
                line = _line_of(value)
                keys[line].append(_key_of(value))
                numbers[line].append(number)
                self.others += line not in _NUMBERS
        for filled, keys_of, numbers_of in zip(self._lines, keys, numbers, strict=True):
            filled.fill(keys_of, numbers_of)
        self._find_ends()

    def add(self, number: int, values: Sequence[Value]) -> None:
        """Take a document, whose number is the highest so far."""
        self.present += 1
        if len(values) > 1:
            self.several.add(number)
        for value in values:
            line = _LINE_OF.get(value.__class__) or _line_of(value)
            if line in _NUMBERS:
                self._lines[line].add(value, number)
                # Whatever a NaN is compared with, the answer is no.
                if not value >= self.lowest:  # type: ignore[operator]  # it is a number
                    self.lowest = value  # type: ignore[assignment]
                if not value <= self.highest:  # type: ignore[operator]
                    self.highest = value  # type: ignore[assignment]
            else:
                self._lines[line].add(_key_of(value), number)
                self.others += 1

    def remove(self, number: int, values: Sequence[Value]) -> None:
        """Drop a document that is there."""
        self.present -= 1
        self.several.discard(number)
        for value in values:
            line = _LINE_OF.get(value.__class__) or _line_of(value)
            if line in _NUMBERS:
                self._lines[line].remove(value, number)
                if value == self.lowest or value == self.highest:
                    self._find_ends()
            else:
                self._lines[line].remove(_key_of(value), number)
                self.others -= 1

    def _find_ends(self) -> None:
        lines = [self._lines[number] for number in _NUMBERS if self._lines[number]]
        self.lowest = min((line.lowest for line in lines), default=math.nan)
        self.highest = max((line.highest for line in lines), default=math.nan)

    def any_compared(self, op: Op, news: Sequence[Value]) -> bool:
        """Whether a document has a value that compares with one of `news` as `op` says.

        For all but equality the highest or the lowest value decides: there is a d.x above x
        if the highest d.x is.
        """
        compare = _BY_END[op]
        for value in news:
            kind = value.__class__
            if kind is float or kind is int:
                if compare is None:
                    if self._lines[1].holds(value) or self._lines[2].holds(value):
                        return True
                elif compare(value, self.lowest, self.highest):
                    return True
                continue
            key = _key_of(value)
            for number in _LINES[kind_of(value)]:
                line = self._lines[number]
                if compare is None:
                    if line.holds(key):
                        return True
                elif line and compare(key, line.lowest, line.highest):
                    return True
        return False

    def number_test(self, op: Op, negated: bool = False) -> Callable[[Any], bool]:
        """Tells whether a document has a value that compares with a number so, or not so.

        The latter for documents with one value each.
        """
        ints, doubles = self._lines[1], self._lines[2]
        if op is Op.EQ:
            if negated:
                return lambda v: (
                    bool(self.others or v != self.lowest or v != self.highest)
                    and (self.present > 0)
                )
            return lambda v: ints.holds(v) or doubles.holds(v)
        sign = _SIGNS[_OPPOSITE[op] if negated else op]
        is_low = sign in (operator.lt, operator.le)
        if negated and is_low:
            return lambda v: self.others > 0 or sign(self.lowest, v)
        if negated:
            return lambda v: self.others > 0 or sign(self.highest, v)
        if is_low:
            return lambda v: sign(self.lowest, v)
        return lambda v: sign(self.highest, v)

    def any_unlike(self, op: Op, value: Value) -> bool:
        """Whether a document has a value that does not compare with `value` as `op` says.

        For documents with one value each.
        """
        if value.__class__ is float or value.__class__ is int:
            if self.others:
                return True
            if op is Op.EQ:
                return bool(value != self.lowest or value != self.highest)
            return self.any_compared(_OPPOSITE[op], (value,))
        kind, key = kind_of(value), _key_of(value)
        alike = _LINES[kind]
        if any(line for number, line in enumerate(self._lines) if number not in alike):
            return True
        if op is not Op.EQ:
            return self.any_compared(_OPPOSITE[op], (value,))
        lines = [self._lines[number] for number in alike]
        return any(line and (line.lowest != key or line.highest != key) for line in lines)

    def first(self, spans: Spans) -> int | None:
        """The number of a document with a value in `spans`."""
        for kind, span in spans:
            for number in _LINES[kind]:
                found = self._lines[number].first(_span_of_keys(span))
                if found is not None:
                    return found
        return None

    def numbers(self, spans: Spans = EVERYTHING) -> NDArray[np.int64]:
        """The numbers of all documents with a value in `spans`, some more than once."""
        parts = [
            self._lines[number].numbers(_span_of_keys(span))
            for kind, span in spans
            for number in _LINES[kind]
            if self._lines[number]
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def estimate(self, spans: Spans) -> int:
        """About how many values in `spans` there are."""
        return sum(
            self._lines[number].estimate(_span_of_keys(span))
            for kind, span in spans
            for number in _LINES[kind]
            if self._lines[number]
        )


def compared_with(op: Op, news: Sequence[Value]) -> Spans:
    """The values that compare with one of `news` as `op` says."""
    if len(news) == 1:
        return compared(op, news[0])
    return Spans.of(span for value in news for span in compared(op, value))


def _line_of(value: Value) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return 1
    if isinstance(value, float):
        return 2
    return 3 if isinstance(value, str) else 4


def _key_of(value: Value) -> _Key:
    return (value - _EPOCH) // _MICROSECOND if isinstance(value, datetime) else value


def _span_of_keys(span: Span) -> Span:
    """A span in terms of keys."""
    low, high = ((0, _key_of(cut[1]), cut[2]) if len(cut) == 3 else cut for cut in span)
    return low, high
