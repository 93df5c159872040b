"""JavaScript's comparison of JSON values, for systems that rely on it."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from tamis.expr.lexemes import NUMERAL
from tamis.expr.model import Op
from tamis.importers.predicates import COMPARISONS

__all__ = ["as_number", "compare", "loosely_equal", "number_text", "strictly_equal"]

_EXPONENT_FROM: Final = 1e21
_NUMERAL: Final = re.compile(rf"[+-]?{NUMERAL}")


def as_number(value: Any) -> float:
    """Convert a value to a number: null and the empty text to 0, other texts to NaN."""
    if isinstance(value, str):
        text = value.strip()
        if _NUMERAL.fullmatch(text):
            return float(text)
        return math.nan if text else 0.0
    return float(value or 0)


def number_text(number: float) -> str | None:
    """The text of a number; None where JavaScript writes an exponent, which this does not."""
    if number.is_integer() and abs(number) < _EXPONENT_FROM:
        return str(int(number))
    text = repr(number)
    return None if set(text) & set("einf") else text


def strictly_equal(left: Any, right: Any) -> bool:
    """``left === right``."""
    return left == right and isinstance(left, bool) is isinstance(right, bool)


def loosely_equal(left: Any, right: Any) -> bool:
    """``left == right``: null equals only null; texts and booleans may equal numbers."""
    if left is None or right is None:
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return as_number(left) == as_number(right)


def compare(op: Op, left: Any, right: Any) -> bool:
    """``left < right`` and the like: two texts by their characters, anything else as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return COMPARISONS[op](left, right)
    return COMPARISONS[op](as_number(left), as_number(right))
