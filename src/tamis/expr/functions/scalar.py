"""The scalar functions of rules: what they take and what they return.

They have the names of Spark SQL where it has them. A function returns None, and the derived
attribute is absent, for a value that it cannot take: of the wrong kind, too short, out of range.
No function raises at match time.
"""

from __future__ import annotations

import ipaddress
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from tamis.errors import RuleError
from tamis.expr.event import Kind, kind_of
from tamis.expr.functions.semver import semver_key
from tamis.expr.functions.time_patterns import time_reader
from tamis.expr.functions.versions import version_key
from tamis.expr.lexemes import NUMERAL
from tamis.expr.model import Value
from tamis.expr.numbers import LongDecimal
from tamis.expr.text import literals
from tamis.expr.times import EPOCH

__all__ = [
    "ALIASES",
    "COMPARISONS",
    "FUNCTIONS",
    "SIGNS",
    "Check",
    "Function",
    "Type",
    "address_key",
    "check_value",
    "key_of",
]


class Type(StrEnum):
    """The type of a term; the value is its description in errors."""

    ANY = "a value"
    NUMBER = "a number"
    STRING = "a string"
    BOOLEAN = "true or false"
    TIMESTAMP = "a timestamp"
    VERSION = "a version"
    SEMVER = "a semantic version"
    ADDRESS = "an address"


Check: TypeAlias = Callable[[Value], Any]
"""Converts a literal to what a function takes; raises a RuleError for others."""

Scalar: TypeAlias = Callable[..., Value | None]
"""Takes a value for each term."""


class Function(NamedTuple):
    """A function of terms, followed by literals."""

    takes: tuple[Type, ...]
    """The types of the terms."""
    gives: Type
    bind: Callable[..., Scalar]
    """Takes the literals and returns the function of the terms' values."""
    literals: tuple[Check, ...] = ()
    required: int = 0
    """How many of the literals are required."""


# --- Literals ---------------------------------------------------------------------------


def _integer(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RuleError(f"expected a whole number, not {literals.spell(value)}")
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise RuleError(f"expected a string, not {literals.spell(value)}")
    return value


def _time_pattern(value: Value) -> Callable[[str], datetime | None]:
    return time_reader(_text(value))


def _time_zone(value: Value) -> ZoneInfo:
    name = _text(value)
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise RuleError(f"unknown time zone {name!r}; write one like 'Asia/Kolkata'") from None


# --- Numbers ----------------------------------------------------------------------------

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
"""The integers that functions return; beyond them, doubles."""


def _exact(value: Value) -> int | Fraction | None:
    """The exact number of the shortest decimal spelling; None if it is not a finite number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value - value == 0:
        return Fraction(Decimal(repr(value)))
    if isinstance(value, LongDecimal):
        return Fraction(value.decimal)
    return None


def _number(exact: int | Fraction) -> Value | None:
    """The value nearest to an exact number; None beyond the largest double."""
    if isinstance(exact, Fraction) and exact.denominator == 1:
        exact = exact.numerator
    if isinstance(exact, int) and _INT64_MIN <= exact <= _INT64_MAX:
        return exact
    try:
        return float(exact)
    except OverflowError:
        return None


def _arithmetic(compute: Callable[[Any, Any], int | Fraction | None]) -> Callable[[], Scalar]:
    def scalar(left: Value, right: Value) -> Value | None:
        a, b = _exact(left), _exact(right)
        if a is None or b is None:
            return None
        result = compute(a, b)
        return None if result is None else _number(result)

    return lambda: scalar


def _quotient(a: int | Fraction, b: int | Fraction) -> Fraction | None:
    return Fraction(a) / Fraction(b) if b else None


def _remainder(a: int | Fraction, b: int | Fraction) -> Fraction | None:
    """The remainder of a division towards zero, which has the sign of `a`."""
    if not b:
        return None
    rest = abs(Fraction(a)) % abs(Fraction(b))
    return -rest if a < 0 else rest


def _of_number(compute: Callable[[Any], int | Fraction]) -> Callable[[], Scalar]:
    def scalar(value: Value) -> Value | None:
        exact = _exact(value)
        return None if exact is None else _number(compute(exact))

    return lambda: scalar


_NUMERAL: Final = re.compile(rf"\s*(?:(?P<whole>[+-]?[0-9]{{1,19}})|[+-]?{NUMERAL})\s*")
"""Decimal digits; up to 19 of them may be an integer of 64 bits, which a double would round."""


def _read_number(value: Value) -> Value | None:
    """The number itself, or the one that a text spells in decimal digits."""
    if not isinstance(value, str):
        return value if kind_of(value) is Kind.NUMBER else None
    spelled = _NUMERAL.fullmatch(value)
    if spelled is None:
        return None
    if spelled["whole"]:
        return _number(int(spelled["whole"]))
    number = float(value)
    return None if math.isinf(number) else number


def _bin() -> Scalar:
    def scalar(value: Value) -> Value | None:
        exact = _exact(value)
        if exact is None or exact.denominator != 1:
            return None
        whole = int(exact)
        return f"{whole & (2**64 - 1):b}" if _INT64_MIN <= whole <= _INT64_MAX else None

    return scalar


# --- Strings ----------------------------------------------------------------------------


def _of_string(compute: Callable[[str], Value | None]) -> Callable[[], Scalar]:
    return lambda: lambda value: compute(value) if isinstance(value, str) else None


def _substring(start: int, length: int | None = None) -> Scalar:
    """As in Spark, `start` counts from 1, or from the end if negative; "" is absent."""

    def compute(text: str) -> str | None:
        first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
        last = len(text) if length is None else first + length
        return text[max(first, 0) : max(last, 0)] or None

    return _of_string(compute)()


def address_key(text: str) -> str | None:
    """A text that sorts like the address, version 4 first; None if `text` is not an address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 6 and address.scope_id is not None:
        return None
    return f"{address.version}{address.packed.hex()}"


# --- Times ------------------------------------------------------------------------------


def _as_time(value: Value) -> datetime | None:
    """A timestamp, or a text in ISO form as one; None for other values."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return literals.read_timestamp(value)
    except RuleError:
        return None


def _of_time(compute: Callable[[datetime], Value]) -> Callable[[], Scalar]:
    def scalar(value: Value) -> Value | None:
        moment = _as_time(value)
        return None if moment is None else compute(moment)

    return lambda: scalar


def _to_timestamp(read: Callable[[str], datetime | None] | None = None) -> Scalar:
    if read is None:
        return _as_time
    return _of_string(read)()


def _at_zone(zone: ZoneInfo) -> Scalar:
    def scalar(value: Value) -> Value | None:
        moment = _as_time(value)
        try:
            return None if moment is None else moment.astimezone(zone).replace(tzinfo=UTC, fold=0)
        except (OverflowError, ValueError):
            return None

    return scalar


def _since_1970(seconds: Fraction) -> Callable[[], Scalar]:
    def scalar(value: Value) -> Value | None:
        exact = _exact(value)
        if exact is None:
            return None
        try:
            return EPOCH + timedelta(microseconds=int(exact * seconds * 1_000_000))
        except OverflowError:
            return None

    return lambda: scalar


# --- Comparisons ------------------------------------------------------------------------


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[], Scalar]:
    return lambda: lambda a, b: kind_of(a) is kind_of(b) and compare(a, b)


COMPARISONS: Final = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SIGNS: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
"""The signs of arithmetic and their precedence."""

_NUMBERS = (Type.NUMBER, Type.NUMBER)
_TIME = (Type.TIMESTAMP,)

FUNCTIONS: Final[dict[str, Function]] = {
    "+": Function(_NUMBERS, Type.NUMBER, _arithmetic(operator.add)),
    "-": Function(_NUMBERS, Type.NUMBER, _arithmetic(operator.sub)),
    "*": Function(_NUMBERS, Type.NUMBER, _arithmetic(operator.mul)),
    "/": Function(_NUMBERS, Type.NUMBER, _arithmetic(_quotient)),
    "%": Function(_NUMBERS, Type.NUMBER, _arithmetic(_remainder)),
    **{
        sign: Function((Type.ANY, Type.ANY), Type.BOOLEAN, _comparison(compare))
        for sign, compare in COMPARISONS.items()
    },
    "negative": Function((Type.NUMBER,), Type.NUMBER, _of_number(operator.neg)),
    "abs": Function((Type.NUMBER,), Type.NUMBER, _of_number(abs)),
    "bin": Function((Type.NUMBER,), Type.STRING, _bin),
    "number": Function((Type.ANY,), Type.NUMBER, lambda: _read_number),
    "length": Function((Type.STRING,), Type.NUMBER, _of_string(len)),
    "lower": Function((Type.STRING,), Type.STRING, _of_string(str.lower)),
    "upper": Function((Type.STRING,), Type.STRING, _of_string(str.upper)),
    "trim": Function((Type.STRING,), Type.STRING, _of_string(lambda text: text.strip(" "))),
    "substring": Function((Type.STRING,), Type.STRING, _substring, (_integer, _integer), 1),
    "version": Function((Type.STRING,), Type.VERSION, _of_string(version_key)),
    "semver": Function((Type.STRING,), Type.SEMVER, _of_string(semver_key)),
    "address": Function((Type.STRING,), Type.ADDRESS, _of_string(address_key)),
    "to_timestamp": Function((Type.STRING,), Type.TIMESTAMP, _to_timestamp, (_time_pattern,)),
    "timestamp_seconds": Function((Type.NUMBER,), Type.TIMESTAMP, _since_1970(Fraction(1))),
    "timestamp_millis": Function((Type.NUMBER,), Type.TIMESTAMP, _since_1970(Fraction(1, 1000))),
    "at_zone": Function(_TIME, Type.TIMESTAMP, _at_zone, (_time_zone,), 1),
    "year": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.year)),
    "quarter": Function(_TIME, Type.NUMBER, _of_time(lambda t: (t.month + 2) // 3)),
    "month": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.month)),
    "week": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.isocalendar().week)),
    "day": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.day)),
    "dayofyear": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.timetuple().tm_yday)),
    "dayofweek": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.isoweekday() % 7 + 1)),
    "hour": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.hour)),
    "minute": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.minute)),
    "second": Function(_TIME, Type.NUMBER, _of_time(lambda t: t.second)),
}
"""All scalar functions; `size`, which counts a whole list, is not one of them."""

ALIASES: Final = {
    "char_length": "length",
    "dayofmonth": "day",
    "from_utc_timestamp": "at_zone",
    "lcase": "lower",
    "substr": "substring",
    "ucase": "upper",
    "weekofyear": "week",
}
"""Other names that Spark has for some functions."""


# --- Values that derived attributes are compared with -----------------------------------

_KINDS: Final[dict[Type, tuple[type, ...]]] = {
    Type.NUMBER: (int, float, LongDecimal),
    Type.STRING: (str,),
    Type.BOOLEAN: (bool,),
    Type.TIMESTAMP: (datetime,),
    Type.VERSION: (str,),
    Type.SEMVER: (str,),
    Type.ADDRESS: (str,),
}
_HINTS: Final = {
    Type.TIMESTAMP: "; write TIMESTAMP '2020-01-31 12:00:00'",
    Type.VERSION: "; write it in quotes, '5.7.40'",
    Type.SEMVER: "; write it in quotes, '1.0.0-rc.1'",
    Type.ADDRESS: "; write it in quotes, '10.0.0.1'",
}


def check_value(value: Value, given: Type, what: str) -> None:
    """Refuse a literal that the term `what`, of the type `given`, can never equal."""
    if given is Type.ANY:
        return
    fits = isinstance(value, _KINDS[given]) and isinstance(value, bool) is (given is Type.BOOLEAN)
    if fits and given is Type.ADDRESS:
        assert isinstance(value, str)
        fits = address_key(value) is not None
    if not fits:
        hint = _HINTS.get(given, "")
        raise RuleError(f"{what} is {given}, {literals.spell(value)} is not{hint}")


def key_of(value: Value, given: Type) -> Value:
    """A literal as it is compared with values of the type `given`."""
    if given is Type.VERSION and isinstance(value, str):
        return version_key(value)
    if given is Type.SEMVER and isinstance(value, str):
        return semver_key(value)
    if given is Type.ADDRESS and isinstance(value, str):
        return address_key(value) or value
    return value
