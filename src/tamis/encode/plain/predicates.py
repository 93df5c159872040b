"""Reads the texts of common predicates: attribute, operator and values.

What these kernels do not read is OTHER; :mod:`tamis.expr.text` reads it, or refuses it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.encode.plain.characters import (
    CLASSES,
    CLOSE,
    DIGIT,
    NAME_QUOTE,
    OPEN,
    QUOTE,
    SPACE,
    WORD,
    keyword,
    skip_quoted,
    skip_spaces,
    skip_word,
    word_code,
)
from tamis.expr.model import Op

__all__ = [
    "BETWEEN",
    "BOOLEAN",
    "EQ",
    "GE",
    "GT",
    "IN",
    "LE",
    "LT",
    "NUMBER",
    "OPERATORS",
    "OTHER",
    "PRESENT",
    "STRING",
    "TIME",
    "Predicates",
    "read_predicates",
]

OTHER, EQ, IN, LT, LE, GT, GE, BETWEEN, PRESENT = range(9)
"""Operators."""

OPERATORS: Final = {
    Op.EQ: EQ,
    Op.IN: IN,
    Op.LT: LT,
    Op.LE: LE,
    Op.GT: GT,
    Op.GE: GE,
    Op.BETWEEN: BETWEEN,
    Op.PRESENT: PRESENT,
}

BOOLEAN, NUMBER, STRING, TIME = range(4)
"""Kinds of values."""

_NOT: Final = keyword("not")
_AND: Final = keyword("and")
_OR: Final = keyword("or")
_IN: Final = keyword("in")
_IS: Final = keyword("is")
_NULL: Final = keyword("null")
_TRUE: Final = keyword("true")
_FALSE: Final = keyword("false")
_LIKE: Final = keyword("like")
_ILIKE: Final = keyword("ilike")
_RLIKE: Final = keyword("rlike")
_BETWEEN: Final = keyword("between")
_DATE: Final = keyword("date")
_TIMESTAMP: Final = keyword("timestamp")

_ZERO, _DOT, _MINUS, _COMMA, _COLON = (ord(character) for character in "0.-,:")
_EQUALS, _LESS, _GREATER, _EXCLAMATION = (ord(character) for character in "=<>!")
_FIRST_UNMARKED: Final = 3
"""Names that begin with a lower byte are those of computed attributes."""

_MOST_NOTS: Final = 8
_MOST_DIGITS: Final = 18
_DECIMAL: Final = 16
"""The most characters of a decimal that is the shortest spelling of a double."""
_EXACT: Final = 2**53
_MOST_EXPONENT: Final = 22
"""A decimal of a mantissa and a power of ten that are both exact is rounded only once."""
_POWERS: Final = 10.0 ** np.arange(_MOST_EXPONENT + 1)

_DAYS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DAYS_BEFORE: Final = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
_DAYS_TO_1970: Final = 719_162
_SECOND: Final = 1_000_000


class Predicates(NamedTuple):
    """Some predicates, one for each piece."""

    name_begin: NDArray[np.int64]
    name_end: NDArray[np.int64]
    """Where the name of the attribute begins and ends."""
    op: NDArray[np.uint8]
    negated: NDArray[np.uint8]
    value_end: NDArray[np.int64]
    """How many values there are up to the last one of each predicate."""
    kind: NDArray[np.uint8]
    """The kind of each value."""
    value: NDArray[np.int64]
    """0 or 1; the bits of a double; where a string begins; microseconds since 1970."""
    extra: NDArray[np.int64]
    """The length of a string in bytes; how far an integer lies below its double."""


def read_predicates(
    data: NDArray[np.uint8], start: NDArray[np.int64], first: int, last: int
) -> Predicates:
    """Read the pieces data[start[i]:start[i + 1]] from `first` to `last` (exclusive)."""
    size = last - first
    # A value has a byte, and so has the comma or the space before it.
    room = int(start[last] - start[first]) // 2 + 1
    predicates = Predicates(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.uint8),
        np.empty(size, np.uint8),
        np.empty(size, np.int64),
        np.empty(room, np.uint8),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    values = _read_all(data, start, first, predicates, np.empty(1, np.float64))
    return predicates._replace(
        kind=predicates.kind[:values],
        value=predicates.value[:values],
        extra=predicates.extra[:values],
    )


@kernel
def _read_all(data, start, first, predicates, scratch):
    name_begin, name_end, all_ops, all_negated, value_end, kind, value, extra = predicates
    values = 0
    for i in range(len(name_begin)):
        at, end = start[first + i], start[first + i + 1]
        at, negated = _skip_nots(data, at, end)
        name_begin[i], name_end[i], at = _find_name(data, at, end)
        op = OTHER
        if at >= 0:
            op, at, is_not = _read_operator(data, at, end)
            negated ^= is_not
        before = values
        if op == IN:
            while at >= 0:
                at = skip_spaces(data, at, end)
                at, kind[values], value[values], extra[values] = _read_value(data, at, end, scratch)
                if at < 0:
                    break
                values += 1
                at = skip_spaces(data, at, end)
                if at == end:
                    at = -1
                elif data[at] == _COMMA:
                    at += 1
                else:
                    at = at + 1 if CLASSES[data[at]] == CLOSE else -1
                    break
        elif op != OTHER and op != PRESENT:
            at, kind[values], value[values], extra[values] = _read_value(data, at, end, scratch)
            values += 1
            if op == BETWEEN and at >= 0:
                at = _skip_and(data, at, end)
                if at >= 0:
                    at, kind[values], value[values], extra[values] = _read_value(
                        data, at, end, scratch
                    )
                    values += 1
        if at != end:
            op, values = OTHER, before
        all_ops[i], all_negated[i], value_end[i] = op, negated, values
    return values


@kernel
def _skip_nots(data, at, end):
    """Skip each NOT before a predicate. Returns where to go on, and whether they negate it."""
    negated = False
    count = 0
    word_end = skip_word(data, at, end)
    while word_code(data, at, word_end) == _NOT and word_end < end and data[word_end] == 32:
        negated = not negated
        count += 1
        if count > _MOST_NOTS:
            return end, negated  # The parser limits how deep a rule is nested.
        at = skip_spaces(data, word_end, end)
        word_end = skip_word(data, at, end)
    return at, negated


@kernel
def _find_name(data, at, end):
    """Where a name begins and ends, and where to go on; -1 if it needs the parser."""
    if at == end:
        return at, at, -1
    if CLASSES[data[at]] == NAME_QUOTE:
        after = skip_quoted(data, at, end)
        if after < 0 or after - at < 3 or data[at + 1] < _FIRST_UNMARKED:
            return at, at, -1
        if after < end and (CLASSES[data[after]] == NAME_QUOTE or data[after] == _DOT):
            return at, at, -1
        return at + 1, after - 1, skip_spaces(data, after, end)
    if CLASSES[data[at]] != WORD:
        return at, at, -1
    after = skip_word(data, at, end)
    if _is_reserved(word_code(data, at, after)):
        return at, at, -1
    while after < end and data[after] == _DOT:
        if after + 1 == end or CLASSES[data[after + 1]] != WORD:
            return at, at, -1
        after = skip_word(data, after + 1, end)
    return at, after, skip_spaces(data, after, end)


@kernel
def _is_reserved(code):
    """Whether a word names an attribute only in quotes or after a dot."""
    return code in (
        _AND,
        _BETWEEN,
        _FALSE,
        _ILIKE,
        _IN,
        _IS,
        _LIKE,
        _NOT,
        _NULL,
        _OR,
        _RLIKE,
        _TRUE,
    )


@kernel
def _read_operator(data, at, end):
    """Read an operator. Returns it, where its values begin, and whether it is negated.

    The values of IN begin after the parenthesis. A predicate without values ends where its
    operator ends.
    """
    if at == end:
        return OTHER, at, False
    first = data[at]
    second = data[at + 1] if at + 1 < end else np.uint8(0)
    if first == _EQUALS:
        return EQ, skip_spaces(data, at + 1, end), False
    if first == _LESS:
        if second == _EQUALS:
            return LE, skip_spaces(data, at + 2, end), False
        if second == _GREATER:
            return EQ, skip_spaces(data, at + 2, end), True
        return LT, skip_spaces(data, at + 1, end), False
    if first == _GREATER:
        if second == _EQUALS:
            return GE, skip_spaces(data, at + 2, end), False
        return GT, skip_spaces(data, at + 1, end), False
    if first == _EXCLAMATION and second == _EQUALS:
        return EQ, skip_spaces(data, at + 2, end), True
    # A word right after a quoted name is left to the parser.
    if CLASSES[first] != WORD or CLASSES[data[at - 1]] != SPACE:
        return OTHER, at, False
    word_end = skip_word(data, at, end)
    if word_code(data, at, word_end) == _IS:
        return _read_is(data, skip_spaces(data, word_end, end), end)
    negated = word_code(data, at, word_end) == _NOT
    if negated:
        at = skip_spaces(data, word_end, end)
        word_end = skip_word(data, at, end)
    after = skip_spaces(data, word_end, end)
    if after == end:
        return OTHER, at, False
    code = word_code(data, at, word_end)
    if code == _IN and CLASSES[data[after]] == OPEN:
        return IN, after + 1, negated
    if code == _BETWEEN and after > word_end:
        return BETWEEN, after, negated
    return OTHER, at, False


@kernel
def _read_is(data, at, end):
    """Read what follows IS: NULL or NOT NULL."""
    word_end = skip_word(data, at, end)
    is_null = word_code(data, at, word_end) != _NOT
    if not is_null:
        at = skip_spaces(data, word_end, end)
        word_end = skip_word(data, at, end)
    if word_code(data, at, word_end) == _NULL:
        return PRESENT, word_end, is_null
    return OTHER, at, False


@kernel
def _skip_and(data, at, end):
    """Where the second value of a BETWEEN begins; -1 if there is none."""
    begin = skip_spaces(data, at, end)
    word_end = skip_word(data, begin, end)
    after = skip_spaces(data, word_end, end)
    if begin > at and after > word_end and word_code(data, begin, word_end) == _AND:
        return after
    return -1


@kernel
def _read_value(data, at, end, scratch):
    """Read a literal. Returns where it ends (-1 if it needs the parser), its kind and value."""
    if at < end:
        kind = CLASSES[data[at]]
        if kind == DIGIT or data[at] == _MINUS:
            return _read_number(data, at, end, scratch)
        if kind == QUOTE:
            after = skip_quoted(data, at, end)
            # A doubled quote stands for one.
            if after >= 0 and (after == end or CLASSES[data[after]] != QUOTE):
                return after, STRING, at + 1, after - at - 2
        elif kind == WORD:
            word_end = skip_word(data, at, end)
            code = word_code(data, at, word_end)
            if code in (_TRUE, _FALSE):
                return word_end, BOOLEAN, np.int64(code == _TRUE), 0
            is_date = code == _DATE
            if is_date or code == _TIMESTAMP:
                quote = skip_spaces(data, word_end, end)
                if quote < end and CLASSES[data[quote]] == QUOTE:
                    after = skip_quoted(data, quote, end)
                    if after >= 0:
                        is_time, time = _read_time(data, quote + 1, after - 1, is_date)
                        if is_time:
                            return after, TIME, time, 0
    return -1, BOOLEAN, 0, 0


@kernel
def _read_number(data, at, end, scratch):
    """Read an integer that is exact as a double, or a decimal that one rounding makes a double."""
    is_negative = data[at] == _MINUS
    at += is_negative
    mantissa, digits, exponent = 0, 0, 0
    begin = at
    while at < end and CLASSES[data[at]] == DIGIT and digits < _MOST_DIGITS:
        mantissa = 10 * mantissa + np.int64(data[at] - _ZERO)
        digits += mantissa > 0
        at += 1
    is_good = at > begin
    first = begin
    if at < end and data[at] == _DOT:
        at += 1
        begin = at
        while at < end and CLASSES[data[at]] == DIGIT and digits < _MOST_DIGITS:
            mantissa = 10 * mantissa + np.int64(data[at] - _ZERO)
            digits += mantissa > 0
            at += 1
        # A longer decimal may have more digits than a double.
        is_good &= at > begin and at - first <= _DECIMAL
        exponent = begin - at
    if at < end and (data[at] | 0x20) == 101:
        at += 1
        is_small = at < end and data[at] == _MINUS
        at += is_small
        begin = at
        shift = 0
        while at < end and CLASSES[data[at]] == DIGIT and at < begin + 3:
            shift = 10 * shift + np.int64(data[at] - _ZERO)
            at += 1
        is_good &= at > begin
        exponent += -shift if is_small else shift
    if at < end and (CLASSES[data[at]] == DIGIT or CLASSES[data[at]] == WORD or data[at] == _DOT):
        is_good = False
    if not is_good or mantissa > _EXACT:
        return -1, BOOLEAN, 0, 0
    if exponent > _MOST_EXPONENT or exponent < -_MOST_EXPONENT:
        return -1, BOOLEAN, 0, 0
    double = np.float64(mantissa)
    double = double * _POWERS[exponent] if exponent >= 0 else double / _POWERS[-exponent]
    # Zero has no sign here.
    scratch[0] = -double if is_negative and mantissa > 0 else double
    return at, NUMBER, scratch.view(np.int64)[0], 0


@kernel
def _read_digits(data, at, count, end):
    """The number of `count` digits; -1 if they are not all there."""
    if at + count > end:
        return -1
    number = 0
    for i in range(at, at + count):
        if CLASSES[data[i]] != DIGIT:
            return -1
        number = 10 * number + np.int64(data[i] - _ZERO)
    return number


@kernel
def _read_time(data, at, end, is_date):
    """Read a day, or a day and a time in UTC. Returns whether it is one, and its microseconds."""
    year, month = _read_digits(data, at, 4, end), _read_digits(data, at + 5, 2, end)
    day = _read_digits(data, at + 8, 2, end)
    if year < 1 or month < 1 or month > 12 or day < 1:
        return False, 0
    if data[at + 4] != _MINUS or data[at + 7] != _MINUS:
        return False, 0
    is_leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if day > _DAYS[month - 1] + (is_leap and month == 2):
        return False, 0
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400
    days += _DAYS_BEFORE[month - 1] + (is_leap and month > 2) + day - 1 - _DAYS_TO_1970
    time = 86_400 * _SECOND * days
    at += 10
    if at == end:
        return True, time
    if is_date or (data[at] != 32 and data[at] != 84):
        return False, 0
    hour, minute = _read_digits(data, at + 1, 2, end), _read_digits(data, at + 4, 2, end)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or data[at + 3] != _COLON:
        return False, 0
    time += (3_600 * hour + 60 * minute) * _SECOND
    at += 6
    if at < end and data[at] == _COLON:
        second = _read_digits(data, at + 1, 2, end)
        if second < 0 or second > 59:
            return False, 0
        time += second * _SECOND
        at += 3
        if at < end and data[at] == _DOT:
            at += 1
            unit = _SECOND
            while at < end and CLASSES[data[at]] == DIGIT and unit > 1:
                unit //= 10
                time += unit * np.int64(data[at] - _ZERO)
                at += 1
            if unit == _SECOND:
                return False, 0
    at += at < end and data[at] == 32
    if at < end and (data[at] | 0x20) == 122:
        at += 1
    elif at == end and data[at - 1] == 32:
        return False, 0
    return at == end, time
