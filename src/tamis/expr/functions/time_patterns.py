"""The patterns of ``to_timestamp``, which are those of Spark and Java: ``yyyy-MM-dd HH:mm:ss``.

A letter names a field, and the number of letters its digits. A pattern is compiled to a regular
expression once, when a rule is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from tamis.errors import RuleError

__all__ = ["time_reader"]

_RUN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_OFFSET: Final = r"Z|[+-]\d\d(?::?\d\d)?"

_FIELDS: Final[dict[str, tuple[str, str]]] = {
    "y": ("year", r"\d{4}"),
    "yyyy": ("year", r"\d{4}"),
    "u": ("year", r"\d{4}"),
    "uuuu": ("year", r"\d{4}"),
    "yy": ("year_of_century", r"\d\d"),
    "M": ("month", r"\d\d?"),
    "MM": ("month", r"\d\d"),
    "MMM": ("month_name", "|".join(_MONTHS)),
    "d": ("day", r"\d\d?"),
    "dd": ("day", r"\d\d"),
    "H": ("hour", r"\d\d?"),
    "HH": ("hour", r"\d\d"),
    "h": ("hour_of_half", r"\d\d?"),
    "hh": ("hour_of_half", r"\d\d"),
    "a": ("half", "am|pm"),
    "m": ("minute", r"\d\d?"),
    "mm": ("minute", r"\d\d"),
    "s": ("second", r"\d\d?"),
    "ss": ("second", r"\d\d"),
    **{"S" * n: ("fraction", rf"\d{{{n}}}") for n in range(1, 10)},
    **dict.fromkeys(("X", "XX", "XXX", "Z"), ("offset", _OFFSET)),
    **dict.fromkeys(("x", "xx", "xxx"), ("offset", r"[+-]\d\d(?::?\d\d)?")),
}
"""The field of each run of one letter, and its regular expression."""


@lru_cache(maxsize=1024)
def time_reader(pattern: str) -> Callable[[str], datetime | None]:
    """A function that reads a text in the form of `pattern` as a time, in UTC without an offset.

    Raises
    ------
    RuleError
        `pattern` has a letter that is not supported.
    """
    regex = re.compile(_build_regex(pattern), re.IGNORECASE | re.ASCII)

    def read(text: str) -> datetime | None:
        match = regex.fullmatch(text)
        if match is None:
            return None
        try:
            return _build_time(match.groupdict())
        except (ValueError, OverflowError):
            return None

    return read


def _build_regex(pattern: str) -> str:
    if not pattern:
        raise RuleError("a time pattern is empty; write one like 'yyyy-MM-dd HH:mm:ss'")
    pieces: list[str] = []
    seen: set[str] = set()
    for match in _RUN.finditer(pattern):
        run, quoted, letter = match[0], match[1], match[2]
        if run == "'":
            raise RuleError(f"a quote in the time pattern {pattern!r} is not closed")
        if quoted is not None:
            pieces.append(re.escape(quoted.replace("''", "'") or "'"))
        elif letter is None:
            pieces.append(re.escape(run))
        else:
            if run not in _FIELDS:
                raise RuleError(
                    f"{run!r} in the time pattern {pattern!r} is not supported; "
                    "write one like 'yyyy-MM-dd HH:mm:ss.SSS XXX'"
                )
            field, form = _FIELDS[run]
            if field in seen:
                raise RuleError(f"the time pattern {pattern!r} names the {field} twice")
            seen.add(field)
            pieces.append(f"(?P<{field}>{form})")
    return "".join(pieces)


def _build_time(found: dict[str, str]) -> datetime:
    """The time of the fields of a text; missing fields are those of 1970-01-01 00:00."""
    year = int(found.get("year", "1970"))
    if "year_of_century" in found:
        year = 2000 + int(found["year_of_century"])
    month = int(found.get("month", "1"))
    if "month_name" in found:
        month = _MONTHS.index(found["month_name"].lower()) + 1
    hour = int(found.get("hour", "0"))
    if "hour_of_half" in found:
        half = int(found["hour_of_half"])
        if not 1 <= half <= 12:
            raise ValueError("an hour of a half day")
        hour = half % 12 + 12 * (found.get("half", "am").lower() == "pm")
    microsecond = int(found.get("fraction", "0").ljust(6, "0")[:6])
    local = datetime(
        year,
        month,
        int(found.get("day", "1")),
        hour,
        int(found.get("minute", "0")),
        int(found.get("second", "0")),
        microsecond,
        _zone(found.get("offset", "Z")),
    )
    return local.astimezone(UTC)


def _zone(offset: str) -> timezone:
    if offset in "Zz":
        return UTC
    digits = offset[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-size if offset[0] == "-" else size)
