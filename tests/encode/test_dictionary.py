"""Elementary intervals: a value's code determines which predicates the value satisfies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tamis.encode.arrays import RANGE, SET
from tamis.encode.atoms import encode_atoms
from tamis.encode.dictionary import (
    ABSENT,
    Axis,
    Dictionary,
    code_range,
)
from tamis.expr.model import Atom, Op, Predicate, Value, value_of_literal
from tamis.expr.numbers import Number
from tamis.expr.patterns import prefix_of
from tamis.expr.satisfy import satisfies
from tamis.expr.times import count_microseconds

# --- Values where comparisons go wrong --------------------------------------------------

_EDGES = (0, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**64 - 1, -1, -(2**53), -(2**63))
INTEGERS = st.one_of(
    st.builds(lambda edge, by: edge + by, st.sampled_from(_EDGES), st.integers(-3, 3)),
    st.integers(-(2**63), 2**64 - 1),
).filter(lambda value: -(2**63) <= value < 2**64)
DECIMALS = st.builds(
    lambda whole, tail, places: value_of_literal(Decimal(whole) + Decimal(tail).scaleb(-places)),
    st.sampled_from(_EDGES),
    st.sampled_from((0, 1, -1, 5, 55, 123456789)),
    st.integers(0, 18),
)


def _near(edge: float, steps: int) -> float:
    for _ in range(abs(steps)):
        edge = math.nextafter(edge, math.copysign(math.inf, steps))
    return edge


DOUBLES = st.one_of(
    st.builds(
        _near,
        st.sampled_from((0.0, 1.0, 2.0**53, 2.0**63, -(2.0**53), -(2.0**63), 0.5, 1e300)),
        st.integers(-3, 3),
    ),
    st.just(-0.0),
    st.floats(allow_nan=False, allow_infinity=False),
)
_CHARACTERS = "aAbz~\x00\x7f\x80é\u0131\ud7ff\ue000\uffff🙂\U0010ffff"
STRINGS = st.text(st.sampled_from(_CHARACTERS), max_size=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = st.one_of(
    st.integers(-3, 3).map(lambda us: _EPOCH + timedelta(microseconds=us)),
    st.sampled_from((datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))),
    st.datetimes(timezones=st.just(UTC)),
)
LITERALS: SearchStrategy[Value] = INTEGERS | DOUBLES | STRINGS | TIMES | st.booleans()
EVENT_VALUES: SearchStrategy[Value] = LITERALS | st.sampled_from((math.inf, -math.inf))
"""Values of events: also infinite numbers, which no rule can mention."""

_ONE = (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)
_PREFIXES = st.builds(lambda text, tail: text.replace("%", "") + tail, STRINGS, st.just("%"))


def predicates(literals: SearchStrategy[Value] = LITERALS) -> SearchStrategy[Predicate]:
    """Predicates that a range or a list of codes decides, all on the attribute x."""
    operands: SearchStrategy[tuple[Op, tuple[Value, ...]]] = st.one_of(
        st.tuples(st.sampled_from(_ONE), st.tuples(literals)),
        st.tuples(st.just(Op.BETWEEN), st.tuples(literals, literals)),
        st.tuples(st.just(Op.IN), st.lists(literals, min_size=1, max_size=4).map(tuple)),
        st.tuples(st.just(Op.PRESENT), st.just(())),
        st.tuples(st.just(Op.LIKE), st.tuples(STRINGS | _PREFIXES)),
    )
    drawn = operands.map(lambda pair: Predicate("x", pair[0], pair[1]))
    return drawn.filter(lambda p: p.op is not Op.LIKE or prefix_of(p) is not None)


def agree(mentioned: Sequence[Predicate], values: Sequence[Value]) -> None:
    """Every predicate's codes contain a value's code exactly if the value satisfies it."""
    dictionary = Dictionary.of(mentioned)
    (axis,) = dictionary.axes
    atoms = [Atom(predicate, negated=False, if_absent=False) for predicate in mentioned]
    arrays = encode_atoms(atoms, dictionary, {})
    for predicate, (_, test, low, high) in zip(mentioned, arrays.table.tolist(), strict=True):
        if predicate.op is Op.IN:
            assert test == SET
            codes = set(arrays.codes[low:high].tolist())
        else:
            assert test == RANGE
            assert (low, high) == code_range(predicate, axis)
            codes = set(range(low, high + 1))
        assert ABSENT not in codes
        assert all(code < axis.size for code in codes)
        for value in values:
            assert (axis.code(value) in codes) == satisfies(predicate, value), (predicate, value)


@given(st.lists(predicates(), min_size=1, max_size=6), st.lists(EVENT_VALUES, max_size=8))
def test_codes_agree_with_satisfies(mentioned: list[Predicate], values: list[Value]) -> None:
    own = [value for predicate in mentioned for value in predicate.values]
    agree(mentioned, [*values, *own])


@given(
    st.lists(predicates(INTEGERS | DOUBLES | DECIMALS), min_size=1, max_size=6),
    st.lists(INTEGERS | DOUBLES | DECIMALS, max_size=8),
)
def test_numbers_compare_exactly(mentioned: list[Predicate], values: list[Value]) -> None:
    agree(mentioned, values)


def test_neighbouring_values_at_the_limits() -> None:
    numbers: tuple[Value, ...] = (
        -0.0, 0, 2**53 - 1, 2**53, 2**53 + 1, 2.0**53, 2.0**53 + 2, 2**63 - 1, 2.0**63, -(2**63),
        -(2.0**63), math.nextafter(-(2.0**63), -math.inf), 5e-324, -5e-324,
    )  # fmt: skip
    mentioned = [Predicate("x", op, (value,)) for op in _ONE for value in numbers]
    agree(mentioned, [*numbers, math.inf, -math.inf, 2**53 + 2, 2**63 - 2, True, "0"])


def test_kinds_do_not_compare() -> None:
    values: tuple[Value, ...] = (0, False, 1, True, "1", "", datetime(1970, 1, 1, tzinfo=UTC))
    mentioned = [Predicate("x", op, (value,)) for op in _ONE for value in values]
    mentioned += [Predicate("x", Op.BETWEEN, (a, b)) for a in values for b in values]
    mentioned.append(Predicate("x", Op.IN, values))
    agree(mentioned, [*values, 0.5, 2, "0", "2", datetime(1970, 1, 2, tzinfo=UTC)])


# --- LIKE as a range --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "prefix"),
    [
        (("abc",), ("abc",)),
        (("",), ("",)),
        (("abc%",), ("abc", "abd")),
        (("a🙂%",), ("a🙂", "a\U0001f643")),
        (("%",), None),
        (("a%b",), None),
        (("a_",), None),
        (("_%",), None),
        (("%a",), None),
        (("a%%",), None),
        (("a!%", "!"), None),
        (("a\ud7ff%",), None),
        (("a\U0010ffff%",), None),
    ],
)
def test_which_patterns_are_ranges(values: tuple[str, ...], prefix: tuple[str, ...] | None) -> None:
    assert prefix_of(Predicate("x", Op.LIKE, values)) == prefix


@pytest.mark.parametrize("op", [Op.ILIKE, Op.RLIKE])
def test_other_text_predicates_are_not_ranges(op: Op) -> None:
    assert prefix_of(Predicate("x", op, ("abc",))) is None


@given(STRINGS.filter(bool), STRINGS, st.lists(STRINGS, max_size=4))
def test_prefixes_agree_with_like(prefix: str, rest: str, others: list[str]) -> None:
    like = Predicate("x", Op.LIKE, (prefix + "%",))
    if prefix_of(like) is None:
        return
    mentioned = [like, *(Predicate("x", Op.EQ, (other,)) for other in others)]
    agree(mentioned, [prefix + rest, prefix, prefix[:-1], rest, *others, 1, True])


# --- Whole arrays -----------------------------------------------------------------------


def axis_of(numbers: Sequence[Number] = (), times: Sequence[datetime] = ()) -> Axis:
    values: tuple[Value, ...] = (*numbers, *times, "a", True)
    (axis,) = Dictionary.of([Predicate("x", Op.IN, values)]).axes
    return axis


NUMBERS = st.lists(INTEGERS | DOUBLES | DECIMALS, max_size=8)


@given(NUMBERS, st.lists(INTEGERS.filter(lambda value: value < 2**63), max_size=8))
@example([], [0])
@example([2.5, 3, 3.5, -1e300, -(2**63), 1e300, 2.0**63], [2, 3, 4, -(2**63), 2**63 - 1])
def test_arrays_of_integers(numbers: list[Number], values: list[int]) -> None:
    axis = axis_of(numbers)
    values += [int(v) for v in numbers if isinstance(v, int) and v < 2**63]
    codes = axis.codes_of_ints(np.array(values, np.int64))
    assert codes.dtype == np.int32
    assert codes.tolist() == [axis.code(value) for value in values]


@given(NUMBERS, st.lists(DOUBLES | st.sampled_from((math.inf, -math.inf)), max_size=8))
@example([], [0.0, math.inf])
@example([2**53 + 1, 2**63 - 1, -(2**63), 0], [2.0**53, 2.0**53 + 2, 2.0**63, -0.0])
def test_arrays_of_doubles(numbers: list[Number], values: list[float]) -> None:
    axis = axis_of(numbers)
    values += [float(v) for v in numbers]
    codes = axis.codes_of_doubles(np.array(values, np.float64))
    assert codes.dtype == np.int32
    assert codes.tolist() == [axis.code(value) for value in values]


@given(NUMBERS)
def test_nan_is_absent(numbers: list[Number]) -> None:
    codes = axis_of(numbers).codes_of_doubles(np.array([math.nan, 1.5, -math.nan]))
    assert (codes == ABSENT).tolist() == [True, False, True]


@given(st.lists(TIMES, max_size=6), st.lists(TIMES, max_size=6))
@example([], [_EPOCH])
def test_arrays_of_timestamps(times: list[datetime], values: list[datetime]) -> None:
    axis = axis_of(times=times)
    values += times
    codes = axis.codes_of_times(np.array([count_microseconds(value) for value in values], np.int64))
    assert codes.dtype == np.int32
    assert codes.tolist() == [axis.code(value) for value in values]


def test_arrays_of_booleans() -> None:
    axis = axis_of([0, 1])
    codes = axis.codes_of_booleans(np.array([True, False]))
    assert codes.tolist() == [axis.code(True), axis.code(False)]
    assert not set(codes.tolist()) & {axis.code(0), axis.code(1)}


# --- The dictionary ---------------------------------------------------------------------


def test_attributes_are_numbered_in_order_of_appearance() -> None:
    dictionary = Dictionary.of(
        Predicate(name, Op.EQ, (value,)) for name, value in (("b", 1), ("a", 2), ("b", 3))
    )
    assert dictionary.attributes == {"b": 0, "a": 1}
    assert [axis.numbers for axis in dictionary.axes] == [[1, 3], [2]]


def test_axes_are_laid_end_to_end() -> None:
    dictionary = Dictionary.of(
        [
            Predicate("a", Op.IN, (1, 2, "x")),
            Predicate("b", Op.PRESENT),
            Predicate("c", Op.LT, (1,)),
        ]
    )
    sizes = [axis.size for axis in dictionary.axes]
    assert dictionary.base.tolist() == [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]


def test_equal_numbers_are_mentioned_once() -> None:
    (axis,) = Dictionary.of([Predicate("x", Op.IN, (1, 1.0, True, "1", 0.0, -0.0))]).axes
    assert axis.numbers == [0.0, 1]
    assert axis.strings == ["1"]


@pytest.mark.parametrize(
    ("predicate", "orders"),
    [
        (Predicate("x", Op.EQ, ("a",)), False),
        (Predicate("x", Op.IN, ("a", "b")), False),
        (Predicate("x", Op.LT, (1,)), False),
        (Predicate("x", Op.LT, ("a",)), True),
        (Predicate("x", Op.BETWEEN, ("a", "b")), True),
        (Predicate("x", Op.LIKE, ("a%",)), True),
        (Predicate("x", Op.LIKE, ("%a",)), False),
    ],
)
def test_whether_the_order_of_strings_matters(predicate: Predicate, orders: bool) -> None:
    (axis,) = Dictionary.of([predicate]).axes
    assert axis.orders_strings is orders
