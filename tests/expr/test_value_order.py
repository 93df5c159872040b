"""Lines of values: the next value, and where a line is cut."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.expr.model import Value, value_of_literal
from tamis.expr.value_order import BOOLEANS, INTEGERS, LINES, NUMBERS, STRINGS, TIMES, Line

_EDGES = (0, 1, -1, 2**53, -(2**53), 2**63 - 1, -(2**63))
INTEGER = st.builds(lambda edge, by: edge + by, st.sampled_from(_EDGES), st.integers(-3, 3)).filter(
    lambda number: -(2**63) <= number < 2**64
)
DECIMAL = st.builds(
    lambda whole, tail: value_of_literal(Decimal(f"{whole}.{tail:018}")),
    INTEGER,
    st.integers(0, 10**18 - 1),
)
DOUBLE = st.floats(allow_nan=False) | INTEGER.map(float)
TIME = st.datetimes(timezones=st.just(UTC))
STRING = st.text(st.sampled_from("a\0b\U0010ffff"), max_size=3)

_BIG = sys.float_info.max


@pytest.mark.parametrize(
    ("line", "value", "after"),
    [
        (BOOLEANS, False, True),
        (BOOLEANS, True, None),
        (NUMBERS, 1, value_of_literal(Decimal(f"1.{'0' * 36}1"))),
        (NUMBERS, 2**53, value_of_literal(Decimal(f"{2**53}.{'0' * 21}1"))),
        (NUMBERS, value_of_literal(Decimal(10**37)), value_of_literal(Decimal(10**37 + 1))),
        (NUMBERS, 0, 5e-324),
        (NUMBERS, _BIG, math.inf),
        (NUMBERS, math.inf, None),
        (INTEGERS, 3, 4),
        (INTEGERS, 3.5, 4),
        (INTEGERS, -0.5, 0),
        (INTEGERS, 2**63 - 1, 2**63),
        (INTEGERS, 2**64 - 1, 2.0**64),
        (INTEGERS, 2.0**64, value_of_literal(Decimal(2**64 + 1))),
        (INTEGERS, -(2.0**63) - 2048, value_of_literal(Decimal(-(2**63) - 2047))),
        (INTEGERS, _BIG, None),
        (STRINGS, "a", "a\0"),
        (TIMES, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, UTC)),
        (TIMES, datetime.max.replace(tzinfo=UTC), None),
    ],
)
def test_the_value_that_comes_next(line: Line, value: Value, after: Value | None) -> None:
    assert line.after(value) == after


@given(
    st.tuples(st.just(NUMBERS), INTEGER | DOUBLE | DECIMAL, INTEGER | DOUBLE | DECIMAL)
    | st.tuples(st.just(INTEGERS), INTEGER | DOUBLE, INTEGER)
    | st.tuples(st.just(STRINGS), STRING, STRING)
    | st.tuples(st.just(TIMES), TIME, TIME)
)
def test_nothing_lies_between_a_value_and_the_next(case: tuple[Line, Any, Any]) -> None:
    line, value, other = case
    after: Any = line.after(value)
    if after is None:
        assert not other > value
    else:
        assert after > value
        assert other <= value or other >= after


@given(st.lists(INTEGER | DOUBLE | DECIMAL | STRING | TIME | st.booleans(), max_size=6))
def test_stretches_make_up_the_line(values: list[Value]) -> None:
    for line in LINES:
        stretches = line.cut(values)
        assert stretches[0].first == line.least
        assert stretches[-1].end is None
        assert [s.end for s in stretches[:-1]] == [s.first for s in stretches[1:]]


def test_a_value_that_is_not_on_the_line_cuts_it_too() -> None:
    assert [s.first for s in INTEGERS.cut([3.5])] == [INTEGERS.least, 4]
    assert [s.first for s in INTEGERS.cut([3])] == [INTEGERS.least, 3, 4]


def test_single_values() -> None:
    hour = datetime(2026, 1, 1, tzinfo=UTC)
    cuts: list[Value] = ["a", "a\0", 1, hour, hour + timedelta(microseconds=1), True]
    singles = [s.first for line in LINES for s in line.cut(cuts) if s.is_single]
    assert singles == [False, True, 1, "a", "a\0", hour, hour + timedelta(microseconds=1)]


def test_whole_numbers_beyond_38_digits_have_a_next_one() -> None:
    """There all numbers are whole, and the last one has nothing after it."""
    for number in (1e300, -1e300):
        assert INTEGERS.after(number) is not None
        assert INTEGERS.after(number) == NUMBERS.after(number)
    assert INTEGERS.after(sys.float_info.max) is None
