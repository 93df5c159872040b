"""A dictionary that grows: codes never change while rules are added.

The dictionary of a segment (`dictionary.py`) is built when all of its rules are known, and numbers
the values that they mention. Here rules come one by one and earlier codes must stay valid, so each
code is final:

- a number or a timestamp that a rule mentions gets a code between those of its neighbours, with
  room left on either side. A value that no rule mentions has the code just above its lower
  neighbour's. So codes are ordered like values: every comparison is a range of codes for good;
- where no room is left, a value gets no code, and a predicate on it is encoded as all codes between
  those of its neighbours. That is too wide, so matches must be verified;
- strings get codes in no order, since nearly all predicates on them are equalities. All strings
  that no rule mentions share a code. A predicate on their order or their text is encoded as any
  string, and matches must be verified;
- an attribute that is computed from others has no codes. Predicates on it must be verified.

One thread encodes rules; others may encode events meanwhile, without a lock. An encoded event is
valid for all rules that were encoded before it.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET
from tamis.encode.events import KnownAxis
from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Atom, Op, Predicate, Value
from tamis.expr.names import is_computed
from tamis.expr.numbers import INT_MAX, INT_MIN, LongDecimal

__all__ = ["CODES", "GrowingDictionary"]

_Row: TypeAlias = tuple[int, int, int, int]
"""A row of `AtomArrays.table`."""

CODES = (1 << 31) - 1
"""How many codes every attribute has; 0 means absent."""

_ANYTHING = (1, CODES - 1)
_BOOLEANS = (1, 2)
_NUMBERS = (3, 1 << 29)
_TIMES = ((1 << 29) + 1, (1 << 30) - 1)
_STRINGS = (1 << 30, CODES - 1)
"""The codes of each kind; a tree that halves the range of codes separates kinds first."""

_REGIONS = {
    Kind.BOOLEAN: _BOOLEANS,
    Kind.NUMBER: _NUMBERS,
    Kind.STRING: _STRINGS,
    Kind.TIMESTAMP: _TIMES,
}
_REGION_OF_CLASS = {
    bool: _BOOLEANS,
    int: _NUMBERS,
    float: _NUMBERS,
    LongDecimal: _NUMBERS,
    str: _STRINGS,
    datetime: _TIMES,
}

_OTHER_STRING = _STRINGS[0]

_SPREAD, _SPREAD_OVER = 0x9E3779B1, 1 << 29
"""Spreads strings over their codes: multiples of an odd factor are distinct modulo 2**29."""

_FIRST_STEP = 2048
"""The second value gets a code that is a 2048th of the room away from the first one's."""

_FARTHEST = 64
"""A value beyond all others is at most a 64th of the room away from them: more may come."""

_NEAREST = 1 / 64
"""How near a value may come to a neighbour, as a share of the room between its neighbours."""

_LONG_LIST = 256
"""The codes of longer lists are not stored."""


_Range: TypeAlias = tuple[int, int, bool]
"""The first and the last code of a range, and whether it is exact: no other values have them."""


class _OrderedCodes:
    """The numbers or the timestamps that rules mention for an attribute, in order.

    Parameters
    ----------
    codes
        The codes of all values of the attribute, to which new ones are added.
    first, last
        The range of codes. The first one is for what is below all mentioned values.
    """

    __slots__ = ("_after_last", "_before_first", "_beyond", "_codes", "values")

    def __init__(self, codes: dict[Any, int], first: int, last: int) -> None:
        self._codes = codes
        # Events with integers of more than 64 bits, which equal such doubles, must not find them.
        self._beyond: dict[Any, int] = {}
        self._before_first, self._after_last = first - 1, last + 1
        self.values: list[Any] = []

    def code(self, value: Any) -> int | None:
        """The code of a value that rules mention; None for all others."""
        code = self._codes.get(value)
        return self._beyond.get(value) if code is None else code

    def around(self, value: Any) -> tuple[int, int]:
        """The codes of the neighbours, below and above, of a value that has no code."""
        values = self.values
        while True:
            at = bisect_right(values, value)
            below = values[at - 1] if at else None
            above = values[at] if at < len(values) else None
            # Another thread may insert a value between these lines; then the neighbours are wrong.
            if (below is None or below <= value) and (above is None or value < above):
                return (
                    self._before_first if below is None else self._known(below),
                    self._after_last if above is None else self._known(above),
                )

    def mention(self, value: Any) -> _Range:
        """Give a value its own code; without room, return the whole gap in which it lies."""
        below, above = self.around(value)
        if above - below < 4:
            return below + 1, above - 1, False
        code = min(max(self._ideal_code(value, below, above), below + 2), above - 2)
        (self._beyond if _is_beyond(value) else self._codes)[value] = code
        insort(self.values, value)
        return code, code, True

    def _known(self, value: Any) -> int:
        code = self.code(value)
        assert code is not None
        return code

    def _ideal_code(self, value: Any, below: int, above: int) -> int:
        """The best code for a value: distances of codes should reflect distances of values."""
        values, room = self.values, above - below
        if not values:
            return below + room // 2
        lowest, highest = values[0], values[-1]
        if lowest < value < highest:
            at = bisect_right(values, value)
            share = _share(_distance(value, values[at - 1]), _distance(values[at], values[at - 1]))
            return below + int(room * min(max(share, _NEAREST), 1 - _NEAREST))
        span = self._known(highest) - self._known(lowest)
        is_above = value > highest
        distance = _distance(value, highest) if is_above else _distance(lowest, value)
        widest = _distance(highest, lowest)
        step = room / _FIRST_STEP if span == 0 else span * _share(distance, widest)
        step = int(min(step, room / _FARTHEST))
        return below + step if is_above else above - step


def _is_beyond(value: Any) -> bool:
    return isinstance(value, float) and not INT_MIN <= value <= INT_MAX


def _distance(a: Any, b: Any) -> Any:
    """About how far `a` is above `b`."""
    if a.__class__ is LongDecimal or b.__class__ is LongDecimal:
        return float(a) - float(b)
    return a - b


def _share(part: Any, whole: Any) -> float:
    # The distance of two numbers may underflow or overflow a double.
    share = float(part / whole) if whole else math.inf
    return share if math.isfinite(share) else 0.5


class _GrowingAxis:
    """The codes of one attribute."""

    __slots__ = ("_ordered", "_strings", "exact", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.exact: dict[Any, int] = {}
        """The codes of numbers, strings and timestamps that rules mention."""
        self._ordered = {
            Kind.NUMBER: _OrderedCodes(self.exact, *_NUMBERS),
            Kind.TIMESTAMP: _OrderedCodes(self.exact, *_TIMES),
        }
        self._strings = 0

    def containers(self) -> list[list[Any] | dict[Any, Any]]:
        """What holds an item for each value."""
        return [self.exact, *(ordered.values for ordered in self._ordered.values())]

    def code(self, value: Value) -> int:
        """The code of an event's value."""
        if value.__class__ is bool:
            return _BOOLEANS[0] + value
        known = self.exact.get(value)
        if known is not None:
            return known
        if isinstance(value, str):
            return _OTHER_STRING
        ordered = self._ordered[kind_of(value)]
        code = ordered.code(value)
        return ordered.around(value)[0] + 1 if code is None else code

    def mention(self, value: Value) -> _Range:
        """The codes of a value that a rule mentions, which gets one if possible."""
        if value.__class__ is bool:
            return _BOOLEANS[0] + value, _BOOLEANS[0] + value, True
        code = self.exact.get(value)
        if code is None and not isinstance(value, str):
            ordered = self._ordered[kind_of(value)]
            code = ordered.code(value)
            if code is None:
                return ordered.mention(value)
        if code is None:
            code = _OTHER_STRING + 1 + self._strings * _SPREAD % _SPREAD_OVER
            self._strings += 1
            self.exact[value] = code
        return code, code, True


_Encoded: TypeAlias = tuple[Atom, _Row | None, Sequence[int], bool]
"""An atom; its row, which is None where codes decide nothing; the codes of a SET; and whether the
row is exact rather than too wide."""


class GrowingDictionary:
    """The attributes and codes of a growing set of rules."""

    def __init__(self) -> None:
        self.axes: dict[str, KnownAxis] = {}
        """The axes of all attributes, as `AxesEncoder` takes them."""
        self._encoded: dict[int, _Encoded] = {}
        """Encoded atoms by identity; rules that were read by the fast text reader share atoms."""

    def containers(self) -> list[list[Any] | dict[Any, Any] | set[Any]]:
        """What holds many objects; freeing all at once takes milliseconds."""
        axes: list[_GrowingAxis] = [found[2] for found in self.axes.values()]  # type: ignore[misc]
        return [self._encoded, *(container for axis in axes for container in axis.containers())]

    def encode(self, atoms: Iterable[Atom], table: list[int], codes: list[int]) -> bool:
        """Append the rows of a conjunction of atoms to `table`, flat, and their codes to `codes`.

        Both are as in `AtomArrays`. Returns whether the rows are exact; if not, an event that
        satisfies them may still violate the atoms.
        """
        encoded, is_exact = self._encoded, True
        for atom in atoms:
            found = encoded.get(id(atom))
            if found is None:
                found = encoded[id(atom)] = self._encode(atom)
            _, row, listed, atom_is_exact = found
            is_exact = is_exact and atom_is_exact
            if row is None:
                continue
            if listed:
                row = (row[0], row[1], len(codes), len(codes) + len(listed))
                codes += listed
            table += row
        return is_exact

    def _encode(self, atom: Atom) -> _Encoded:
        predicate, negated = atom.predicate, atom.negated
        if is_computed(predicate.attribute):
            return atom, None, (), False
        axis = self._axis(predicate.attribute)
        flags = (NEGATED if negated else 0) | (IF_ABSENT if atom.if_absent else 0)
        listed = _list_codes(predicate, axis) if predicate.op is Op.IN else None
        if listed is not None:
            return atom, (axis.number, SET | flags, 0, 0), listed, True
        low, high, is_exact = _code_range(predicate, axis)
        if is_exact or not negated:
            if low > high:
                return atom, (axis.number, SET | flags, 0, 0), (), True
            return atom, (axis.number, RANGE | flags, low, high), (), is_exact
        # The range is too wide, so its negation would be too narrow.
        present = None if atom.if_absent else (axis.number, RANGE, *_ANYTHING)
        return atom, present, (), False

    def _axis(self, name: str) -> _GrowingAxis:
        found = self.axes.get(name)
        if found is None:
            axis = _GrowingAxis(len(self.axes))
            self.axes[name] = axis.number, axis.exact.get, axis
            return axis
        return found[2]  # type: ignore[return-value]  # all axes are created here


def _list_codes(predicate: Predicate, axis: _GrowingAxis) -> list[int] | None:
    """The codes of a list, rising; None if it is long or some value has no code of its own."""
    if len(predicate.values) > _LONG_LIST:
        return None
    codes: set[int] = set()
    for value in predicate.values:
        low, _, is_exact = axis.mention(value)
        if not is_exact:
            return None
        codes.add(low)
    return sorted(codes)


def _code_range(predicate: Predicate, axis: _GrowingAxis) -> _Range:
    """The codes that satisfy the positive form of a predicate, perhaps too many."""
    op, values = predicate.op, predicate.values
    if op not in _COMPARISONS:
        if op is Op.PRESENT:
            return *_ANYTHING, True
        return *(_STRINGS if op.is_text else _ANYTHING), False
    value = values[0]
    region = _region(value)
    if region is _STRINGS and op is not Op.EQ:
        both = all(isinstance(value, str) for value in values)
        return (*_STRINGS, False) if both else _NOTHING
    low, high, is_exact = axis.mention(value)
    # Without its own code, the value shares a range with others that may satisfy the predicate.
    beside = 1 if is_exact else 0
    if op is Op.EQ:
        return low, high, is_exact
    if op is Op.LT:
        return region[0], high - beside, is_exact
    if op is Op.LE:
        return region[0], high, is_exact
    if op is Op.GT:
        return low + beside, region[1], is_exact
    if op is Op.GE:
        return low, region[1], is_exact
    if _region(values[1]) is not region:
        return _NOTHING
    _, high, last_is_exact = axis.mention(values[1])
    return low, high, is_exact and last_is_exact


def _region(value: Value) -> tuple[int, int]:
    """The codes of all values of the same kind."""
    return _REGION_OF_CLASS.get(value.__class__) or _REGIONS[kind_of(value)]


_COMPARISONS = frozenset((Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN))
_NOTHING = (1, 0, True)
