"""What a subquery adds to a value of the new document: ``d.at > at - INTERVAL '5 minutes'``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from tamis.errors import RuleError
from tamis.expr.event import Kind, kind_of
from tamis.expr.functions.scalar import FUNCTIONS
from tamis.expr.model import Value
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.literals import spell
from tamis.expr.times import MICROSECOND

__all__ = ["Shift", "add_shifts", "interval_of", "negate_shift", "shift_text", "shift_values"]

Shift: TypeAlias = int | float | LongDecimal | timedelta
"""A number, which is added to numbers, or an interval, which is added to timestamps."""

_UNITS: Final = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
    "microsecond": MICROSECOND,
}
"""From the longest to the shortest. Months and years have no fixed length."""

_SHORT: Final = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "m": "minute",
    "min": "minute",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "us": "microsecond",
}
_PART: Final = re.compile(r"\s*(-?[0-9]+)\s*([A-Za-z]+)")
_ADD: Final = FUNCTIONS["+"].bind()


def interval_of(text: str) -> timedelta:
    """The interval that a text such as ``5 minutes`` or ``1 hour 30 minutes`` names.

    Raises
    ------
    RuleError
        It names none, or one of months or years, whose lengths differ.
    """
    total, at = timedelta(0), 0
    while (part := _PART.match(text, at)) is not None:
        word = part[2].lower()
        unit = _UNITS.get(_SHORT.get(word, word.removesuffix("s")))
        if unit is None:
            known = ", ".join(f"{name}s" for name in _UNITS)
            raise RuleError(f"{part[2]!r} is not a unit of time; expected {known}")
        try:
            total += int(part[1]) * unit
        except OverflowError:
            raise RuleError(f"the interval {text[:40]!r} is too long") from None
        at = part.end()
    if not at or text[at:].strip():
        raise RuleError(f"{text[:40]!r} is not an interval such as '5 minutes'")
    return total


def shift_values(values: Sequence[Value], shift: Shift | None) -> Sequence[Value]:
    """The values with `shift` added; those that it cannot be added to are left out."""
    if shift is None:
        return values
    shifted = (_shift_value(value, shift) for value in values)
    return [value for value in shifted if value is not None]


def _shift_value(value: Value, shift: Shift) -> Value | None:
    if isinstance(shift, timedelta):
        try:
            return value + shift if isinstance(value, datetime) else None
        except OverflowError:
            return None
    return _ADD(value, shift) if kind_of(value) is Kind.NUMBER else None


def negate_shift(shift: Shift) -> Shift:
    """What undoes `shift`."""
    return -shift


def add_shifts(first: Shift | None, second: Shift | None) -> Shift | None:
    """The shift by one and then by the other.

    Raises
    ------
    RuleError
        One is a number, and the other an interval.
    """
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, timedelta) is not isinstance(second, timedelta):
        raise RuleError("a number and an interval cannot be added")
    if isinstance(first, timedelta) and isinstance(second, timedelta):
        return first + second
    total = _ADD(first, second)
    if not isinstance(total, int | float | LongDecimal):
        raise RuleError("the sum of these numbers is too large")
    return total


def shift_text(shift: Shift | None) -> str:
    """The text that follows an attribute; empty for none."""
    if shift is None:
        return ""
    if not isinstance(shift, timedelta):
        return f" - {spell(-shift)}" if shift < 0 else f" + {spell(shift)}"
    sign, size = ("-", -shift) if shift < timedelta(0) else ("+", shift)
    name, unit = next((n, u) for n, u in _UNITS.items() if not size % u)
    count = size // unit
    return f" {sign} INTERVAL '{count} {name}{'' if count == 1 else 's'}'"
