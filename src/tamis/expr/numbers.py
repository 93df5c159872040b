"""Numbers: 64-bit integers with and without a sign, doubles, and decimals of up to 38 digits.

All numbers lie on one line and compare exactly. A double with a fraction lies where the shortest
decimal lies that reads as it: 0.1 is one tenth, as people mean it, so that a rule `price < 9.99`
is right for prices in doubles and for prices in decimals. Whole doubles are taken as they are.

A decimal that is a 64-bit integer, or the shortest spelling of a double, becomes that integer or
that double. What is left, with 16 to 38 digits, is a `LongDecimal`; it equals no other number.
"""

from __future__ import annotations

import math
import sys
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "MAX_DIGITS",
    "LongDecimal",
    "Number",
    "double_above",
    "next_number",
    "number_of_decimal",
    "on_line",
]

INT_MIN: Final = -(2**63)
"""The least integer that an event or a rule may have."""
INT_MAX: Final = 2**64 - 1
"""The greatest one: that of 64 bits without a sign."""

MAX_DIGITS: Final = 38
"""How many digits a decimal may have."""

_LEAST: Final = Decimal(math.ulp(0.0))
_LARGEST: Final = Decimal(sys.float_info.max)
"""The sizes between which decimals lie, as doubles do."""
_EXACT: Final = Context(prec=1000)
_DIGITS: Final = Context(prec=MAX_DIGITS)


class LongDecimal:
    """A decimal that is neither a 64-bit integer nor the shortest spelling of a double.

    Build it with `number_of_decimal`. It is ordered among all numbers but NaN.
    """

    __slots__ = ("decimal",)

    def __init__(self, decimal: Decimal) -> None:
        self.decimal = decimal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongDecimal) and self.decimal == other.decimal

    def __hash__(self) -> int:
        return hash(self.decimal)

    def __lt__(self, other: Any) -> bool:
        return other == other and self.decimal < on_line(other)

    def __le__(self, other: Any) -> bool:
        return other == other and self.decimal <= on_line(other)

    def __gt__(self, other: Any) -> bool:
        return other == other and self.decimal > on_line(other)

    def __ge__(self, other: Any) -> bool:
        return other == other and self.decimal >= on_line(other)

    def __neg__(self) -> LongDecimal:
        return LongDecimal(self.decimal.copy_negate())  # the minus sign would round

    def __float__(self) -> float:
        """The nearest double."""
        return float(self.decimal)

    def __str__(self) -> str:
        """All digits, with a point, so that the text is read as a decimal again."""
        text = f"{self.decimal:f}"
        return text if "." in text else f"{text}.0"

    def __repr__(self) -> str:
        return f"Decimal('{self.decimal}')"


Number: TypeAlias = int | float | LongDecimal


def on_line(number: Number) -> Decimal:
    """Where a number lies on the line of all numbers."""
    if isinstance(number, LongDecimal):
        return number.decimal
    if isinstance(number, int) or number.is_integer() or number - number != 0:
        return Decimal(number)
    # The base class's: a subclass may print otherwise.
    return Decimal(float.__repr__(number))


def number_of_decimal(decimal: Decimal) -> Number | None:
    """A decimal as the number that lies where it lies; None for NaN.

    Raises
    ------
    ValueError
        It has more than 38 digits, or is too large or too close to 0 for a double.
    """
    if decimal.is_nan():
        return None
    if decimal.is_infinite():
        return float(decimal)
    exact = decimal.normalize(_EXACT)
    _, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    size = exact.copy_abs()
    if len(digits) > MAX_DIGITS or size > _LARGEST or 0 < size < _LEAST:
        raise ValueError(f"{decimal} has more than {MAX_DIGITS} digits, or is beyond all doubles")
    if exponent >= 0 and INT_MIN <= exact <= INT_MAX:
        return int(exact)
    nearest = float(exact)
    return nearest if on_line(nearest) == exact else LongDecimal(exact)


def double_above(number: LongDecimal) -> float:
    """The least double that lies above a decimal."""
    nearest = float(number)
    return nearest if number < nearest else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=4096, typed=True)
def next_number(number: Number) -> Number | None:
    """The next number on the line; infinity is the last."""
    if number == math.inf:
        return None
    if number == -math.inf:
        return math.nextafter(-math.inf, 0)
    nearest = float(number)
    double = nearest if nearest > number else math.nextafter(nearest, math.inf)
    try:
        decimal = number_of_decimal(_DIGITS.next_plus(on_line(number)))
    except ValueError:  # next to 0, or above the largest decimal
        decimal = None
    return double if decimal is None else min(double, decimal)
