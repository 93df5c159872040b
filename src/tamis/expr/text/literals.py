"""Values and their spelling in the text of a rule, in both directions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from tamis.errors import RuleError
from tamis.expr.model import Value, value_of_literal
from tamis.expr.numbers import LongDecimal, Number, number_of_decimal

__all__ = [
    "read_day",
    "read_double",
    "read_integer",
    "read_literal",
    "read_negative",
    "read_number",
    "read_string",
    "read_timestamp",
    "spell",
]

_INT64_DIGITS: Final = 19
"""Integers of fewer digits have 64 bits."""
_MOST_DIGITS: Final = 20
"""Integers of more digits do not."""

_DOUBLE_DIGITS: Final = 15
"""A decimal of up to this number of digits is the shortest spelling of a double."""

_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]((?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r" ?(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
"""A day, optionally with a time and a zone; Python's own parser accepts far more."""


def read_number(numeral: str) -> Number:
    """The number of an unsigned `numeral`: a decimal with a point, a double with an exponent.

    The range of an integer is checked only roughly, since the sign is not known here.
    """
    if not numeral.isdigit():
        return _read_fraction(numeral)
    significant = numeral.lstrip("0") or "0"
    if len(significant) > _MOST_DIGITS:
        raise RuleError(f"the number {numeral[:30]}… is too large; integers have 64 bits")
    return int(significant)


def _read_fraction(numeral: str) -> Number:
    """The number of a numeral with a point or an exponent; beyond 38 digits the nearest double."""
    if len(numeral) > _DOUBLE_DIGITS + 1 and "." in numeral and numeral.isascii():
        whole, _, fraction = numeral.partition(".")
        if fraction.isdigit() and (whole.isdigit() or not whole):
            try:
                number = number_of_decimal(Decimal(numeral)) or 0.0
            except ValueError:
                return float(numeral)
            # With a decimal point: a double if a double represents it exactly, else a decimal.
            return float(number) if number == float(number) else number
    return float(numeral)


def read_day(text: str) -> datetime:
    """The midnight, in UTC, of a date such as ``2020-01-31``."""
    if len(text) != len("2020-01-31"):
        raise RuleError(f"{text[:60]!r} is not a date; write it like '2020-01-31'")
    return read_timestamp(text)


def read_timestamp(text: str) -> datetime:
    """The UTC time of a date, or of a date and a time with or without a zone."""
    match = _TIMESTAMP.fullmatch(text)
    if match:
        date, time, zone = match.groups()
        try:
            return datetime.fromisoformat(
                f"{date}T{time or '00:00'}{(zone or 'Z').upper()}"
            ).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise RuleError(
        f"{text[:60]!r} is not a timestamp; write it like '2020-01-31', '2020-01-31 12:00:00' "
        "or '2020-01-31T12:00:00.123456+01:00'"
    )


def spell(value: Value) -> str:
    """`value` as a literal of the text form."""
    value = value_of_literal(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    # The base classes' repr: a subclass, such as an enumeration, may print otherwise.
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, LongDecimal):
        return str(value)
    return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(' ')}'"


def read_string(source: str) -> str:
    """The string in the quoted `source`."""
    text = source[1:-1].replace("''", "'")
    if not text.isascii():
        value_of_literal(text)
    return text


def read_integer(source: str) -> Value:
    """The integer of the digits in `source`."""
    # The fast path for the most common literals: fewer digits always fit into 64 bits.
    return int(source) if len(source) < _INT64_DIGITS else value_of_literal(read_number(source))


def read_double(source: str) -> Value:
    """The double of the numeral in `source`."""
    return value_of_literal(_read_fraction(source))


def read_negative(source: str) -> Value:
    """The negated number of the unsigned numeral in `source`."""
    return value_of_literal(-read_number(source))


def read_literal(source: str) -> Value:
    """The value of any literal: quoted, signed, TRUE, FALSE, DATE '…' or TIMESTAMP '…'."""
    first = source[0]
    if first == "'":
        return read_string(source)
    if first == "-":
        return read_negative(source[1:])
    if source.isdigit():
        return read_integer(source)
    if first == "T" or first == "F" or first == "D":
        return _read_worded(source)
    return read_double(source)


def _read_worded(source: str) -> Value:
    word, _, quoted = source.partition(" ")
    if not quoted:
        return word == "TRUE"
    return (read_day if word == "DATE" else read_timestamp)(read_string(quoted))
