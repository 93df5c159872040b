"""How JavaScript compares values that JSON has, where a source leaves it to that."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from tamis.expr.model import Op
from tamis.importers.predicates import COMPARISONS

__all__ = ["as_number", "loosely_equal", "ordered", "strictly_equal"]

_NUMERAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def as_number(value: Any) -> float:
    """A value as a number; NaN if it is none. Null and the empty text are 0."""
    if isinstance(value, str):
        text = value.strip()
        if _NUMERAL.fullmatch(text):
            return float(text)
        return math.nan if text else 0.0
    return float(value or 0)


def strictly_equal(left: Any, right: Any) -> bool:
    """``left === right``."""
    return left == right and isinstance(left, bool) is isinstance(right, bool)


def loosely_equal(left: Any, right: Any) -> bool:
    """``left == right``: null equals only null, and texts and booleans may equal numbers."""
    if left is None or right is None:
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return as_number(left) == as_number(right)


def ordered(op: Op, left: Any, right: Any) -> bool:
    """``left < right`` and its like: texts by their characters, all else as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return COMPARISONS[op](left, right)
    return COMPARISONS[op](as_number(left), as_number(right))
