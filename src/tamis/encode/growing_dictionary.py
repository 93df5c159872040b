"""Codes that stay what they are while rules still come.

The dictionary of a segment (`dictionary.py`) is made when all of its rules are known, and numbers
the values that they mention. Here rules come one by one, and what was encoded before must stay
right, so a code is given once and for all:

- a number or a timestamp that a rule mentions gets a code between those of its neighbours, with
  room left beside it. A value that no rule mentions has the code just above its neighbour's. Codes
  are as good as values then: every comparison is a run of codes, whatever comes later;
- where no room is left, a value gets no code, and what asks for it asks for all codes between
  those of its neighbours: too much, so the answer is to be checked;
- strings get codes in no order, since they are hardly ever compared but for being equal. All
  strings that no rule mentions share a code. What asks for their order, or for what is in them,
  asks for any string;
- an attribute that is worked out from others has no codes. What asks for it is to be checked.

One thread has rules encoded; others may encode events meanwhile, without a lock. An event is right
for all rules that were encoded before it was.
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
from tamis.expr.names import is_worked_out

__all__ = ["CODES", "GrowingDictionary"]

_Row: TypeAlias = tuple[int, int, int, int]
"""A row of `AtomArrays.table`."""

CODES = (1 << 31) - 1
"""How many codes every attribute has; 0 is an absent attribute."""

_ANYTHING = (1, CODES - 1)
_BOOLEANS = (1, 2)
_NUMBERS = (3, 1 << 29)
_TIMES = ((1 << 29) + 1, (1 << 30) - 1)
_STRINGS = (1 << 30, CODES - 1)
"""The codes of each kind, so that a tree which halves them tells kinds apart first."""

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
    str: _STRINGS,
    datetime: _TIMES,
}

_OTHER_STRING = _STRINGS[0]

_SPREAD, _SPREAD_OVER = 0x9E3779B1, 1 << 29
"""Strings are spread over their codes: an odd factor, modulo a power of two, never repeats."""

_FIRST_STEP = 2048
"""The second value of a line is put a 2048th of the room away from the first one, …"""

_FARTHEST = 64
"""… and what lies beyond all others at most a 64th of the room away from them: more may come."""

_NEAREST = 1 / 64
"""How near a value may come to a neighbour, as a share of the room between its neighbours."""

_LONG_LIST = 256
"""A list of more values is too long to be carried about."""


_Run: TypeAlias = tuple[int, int, bool]
"""The first and the last of some codes, and whether no other values have them."""


class _Line:
    """The numbers or the timestamps of an attribute that rules mention, in order.

    Parameters
    ----------
    codes
        The codes of all values of the attribute; those of this line are added to it.
    first, last
        Between which the codes of this line lie. The first one is for what is below all values.
    """

    __slots__ = ("_after_last", "_before_first", "_codes", "_values")

    def __init__(self, codes: dict[Any, int], first: int, last: int) -> None:
        self._codes = codes
        self._before_first, self._after_last = first - 1, last + 1
        self._values: list[Any] = []

    def around(self, value: Any) -> tuple[int, int]:
        """The codes of the values next to one that has none itself, below and above."""
        values = self._values
        while True:
            at = bisect_right(values, value)
            below = values[at - 1] if at else None
            above = values[at] if at < len(values) else None
            # If a value came in between these three lines, one of the neighbours is none.
            if (below is None or below <= value) and (above is None or value < above):
                return (
                    self._before_first if below is None else self._codes[below],
                    self._after_last if above is None else self._codes[above],
                )

    def mention(self, value: Any) -> _Run:
        """The codes of a value that a rule mentions first: its own one, or all where it may be."""
        below, above = self.around(value)
        if above - below < 4:
            return below + 1, above - 1, False
        code = min(max(self._ideal(value, below, above), below + 2), above - 2)
        self._codes[value] = code
        insort(self._values, value)
        return code, code, True

    def _ideal(self, value: Any, below: int, above: int) -> int:
        """Where a value would stand best: codes are to be as far apart as values are."""
        values, room = self._values, above - below
        if not values:
            return below + room // 2
        lowest, highest = values[0], values[-1]
        if lowest < value < highest:
            at = bisect_right(values, value)
            share = _share(value - values[at - 1], values[at] - values[at - 1])
            return below + int(room * min(max(share, _NEAREST), 1 - _NEAREST))
        span = self._codes[highest] - self._codes[lowest]
        distance = value - highest if value > highest else lowest - value
        step = room / _FIRST_STEP if span == 0 else span * _share(distance, highest - lowest)
        step = int(min(step, room / _FARTHEST))
        return below + step if value > highest else above - step


def _share(part: Any, whole: Any) -> float:
    # Numbers may lie too near each other, or too far apart, for their distance to be a double.
    share = float(part / whole) if whole else math.inf
    return share if math.isfinite(share) else 0.5


class _GrowingAxis:
    """The codes of one attribute."""

    __slots__ = ("_lines", "_strings", "exact", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.exact: dict[Any, int] = {}
        """The codes of numbers, strings and timestamps that rules mention."""
        self._lines = {
            kind: _Line(self.exact, *_REGIONS[kind]) for kind in (Kind.NUMBER, Kind.TIMESTAMP)
        }
        self._strings = 0

    def code(self, value: Value) -> int:
        """The code of an event's value."""
        if value.__class__ is bool:
            return _BOOLEANS[0] + value
        known = self.exact.get(value)
        if known is not None:
            return known
        if isinstance(value, str):
            return _OTHER_STRING
        return self._lines[kind_of(value)].around(value)[0] + 1

    def mention(self, value: Value) -> _Run:
        """The codes of a value that a rule mentions; not exact if other values may have them."""
        if value.__class__ is bool:
            return _BOOLEANS[0] + value, _BOOLEANS[0] + value, True
        code = self.exact.get(value)
        if code is None:
            if not isinstance(value, str):
                return self._lines[kind_of(value)].mention(value)
            code = _OTHER_STRING + 1 + self._strings * _SPREAD % _SPREAD_OVER
            self._strings += 1
            self.exact[value] = code
        return code, code, True


_Encoded: TypeAlias = tuple[Atom, _Row | None, Sequence[int], bool]
"""An atom; what an event must have for it to hold, or None where nothing can be said; the codes of
a SET; and whether the atom holds wherever an event has that."""


class GrowingDictionary:
    """Attributes and the codes of their values."""

    def __init__(self) -> None:
        self.axes: dict[str, KnownAxis] = {}
        """What events are encoded by; see `AxesEncoder`."""
        self._encoded: dict[int, _Encoded] = {}
        """Atoms by their identity: rules that were read piece by piece share them."""

    def encode(self, atoms: Iterable[Atom], table: list[int], codes: list[int]) -> bool:
        """Write what an event must have for all of `atoms` to hold, as far as that can be said.

        `table`, row after row, and `codes` become those of `AtomArrays`. Tells whether the atoms
        hold wherever an event has that.
        """
        known, is_exact = self._encoded, True
        for atom in atoms:
            found = known.get(id(atom))
            if found is None:
                found = known[id(atom)] = self._encode(atom)
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
        if is_worked_out(predicate.attribute):
            return atom, None, (), False
        axis = self._axis(predicate.attribute)
        flags = (NEGATED if negated else 0) | (IF_ABSENT if atom.if_absent else 0)
        listed = _list_codes(predicate, axis) if predicate.op is Op.IN else None
        if listed is not None:
            return atom, (axis.number, SET | flags, 0, 0), listed, True
        low, high, is_exact = _run(predicate, axis)
        if is_exact or not negated:
            if low > high:
                return atom, (axis.number, SET | flags, 0, 0), (), True
            return atom, (axis.number, RANGE | flags, low, high), (), is_exact
        # The run is too wide, so its negation would be too narrow.
        present = None if atom.if_absent else (axis.number, RANGE, *_ANYTHING)
        return atom, present, (), False

    def _axis(self, name: str) -> _GrowingAxis:
        found = self.axes.get(name)
        if found is None:
            axis = _GrowingAxis(len(self.axes))
            self.axes[name] = axis.number, axis.exact.get, axis
            return axis
        return found[2]  # type: ignore[return-value]  # all axes are made here


def _list_codes(predicate: Predicate, axis: _GrowingAxis) -> list[int] | None:
    """The codes of a list, rising; None where some have no code of their own, or they are many."""
    if len(predicate.values) > _LONG_LIST:
        return None
    codes: set[int] = set()
    for value in predicate.values:
        low, _, is_exact = axis.mention(value)
        if not is_exact:
            return None
        codes.add(low)
    return sorted(codes)


def _run(predicate: Predicate, axis: _GrowingAxis) -> _Run:
    """The codes that satisfy the positive form of a predicate, and perhaps more."""
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
    # Where the value shares its codes with others, they may satisfy the predicate, too.
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
