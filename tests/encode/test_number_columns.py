"""Columns of plain numbers, encoded in one pass, against the same columns value by value."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.encode import number_columns
from tamis.encode.columns import ColumnEncoder
from tamis.encode.compiler.plain import run_plainly
from tamis.encode.number_columns import NumberColumn
from tamis.encode.rules import RuleEncoder

RULES = [
    "x > 3 AND y = 2.5",
    "x IN (-1, 0, 7, 127) OR y BETWEEN -0.5 AND 1e300",
    "x = 9007199254740993 OR x < -9223372036854775807 OR x >= 18446744073709551615",
    "y = 0.1 OR y > 9007199254740993 OR y < 12345678901234567890.125",
]

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]


def encoder() -> ColumnEncoder:
    rules = RuleEncoder()
    for text in RULES:
        rules.add_text(text, "strong")
    return ColumnEncoder(rules.finish())


def by_value(encoder: ColumnEncoder, monkeypatch: pytest.MonkeyPatch, batch: pa.RecordBatch):
    with monkeypatch.context() as patch:
        patch.setattr(NumberColumn, "of", lambda *_: None)
        return encoder.encode(batch)


def rows_of(events) -> list[set[tuple[int, int]]]:
    pairs = list(zip(events.attribute.tolist(), events.code.tolist(), strict=True))
    return [set(pairs[a:b]) for a, b in zip(events.start[:-1], events.start[1:], strict=True)]


NUMBERS = st.one_of(
    st.none(), st.sampled_from([-1, 0, 3, 4, 7, 127]), st.integers(-128, 127), st.none()
)
DOUBLES = st.one_of(
    st.none(),
    st.sampled_from([0.1, -0.0, 2.5, -0.5, float("nan"), float("inf"), 9007199254740992.0]),
    st.floats(),
)


@given(
    st.lists(st.tuples(NUMBERS, DOUBLES), min_size=0, max_size=40),
    st.sampled_from(INTEGERS),
    st.sampled_from([pa.float64(), pa.float32()]),
    st.integers(0, 12),
)
def test_one_pass_gives_the_codes_of_single_values(rows, whole, double, skip):
    integers = [None if x is None or (x < 0 and str(whole)[0] == "u") else x for x, _ in rows]
    floats = np.array([0.0 if y is None else y for _, y in rows])
    if double == pa.float32():
        floats = np.clip(floats, -3e38, 3e38)
    missing = np.array([y is None for _, y in rows], bool)
    batch = pa.record_batch(
        {"x": pa.array(integers, whole), "y": pa.array(floats, mask=missing).cast(double)}
    ).slice(min(skip, len(rows)))
    both = encoder()
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = by_value(both, monkeypatch, batch)
    assert rows_of(both.encode(batch)) == rows_of(expected)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("nulls", [0, 0.1, 0.97])
def test_long_columns_have_the_codes_of_single_values(nulls, plain, monkeypatch):
    if plain:
        for name in ("count_numbers", "fill_numbers"):
            found = getattr(number_columns, name)
            monkeypatch.setattr(f"tamis.encode.columns.{name}", run_plainly(found))
    random = np.random.default_rng(4)
    size, both = 2_500, encoder()

    def column(values, kind):
        return pa.array(values, kind, mask=random.random(size) < nulls)

    whole = pa.record_batch(
        {
            "x": column(random.integers(-3, 130, size), pa.int32()),
            "y": column(random.choice([0.1, 2.5, -0.5, 1e300, np.nan, 7.0], size), pa.float64()),
        }
    )
    for first, rows in ((0, size), (0, 64), (1, 63), (3, 1_029), (1_023, 1_100), (2_437, 63)):
        batch = whole.slice(first, rows)
        assert rows_of(both.encode(batch)) == rows_of(by_value(both, monkeypatch, batch))


def test_integers_next_to_all_that_rules_mention(monkeypatch):
    rules = RuleEncoder()
    for text in ("x > 5 AND x < 9.5", "z = 4611686018427387904", "u > 5000 OR u < 1"):
        rules.add_text(text, "strong")
    both, values = ColumnEncoder(rules.finish()), [4, 5, 6, 8, 9, 10, 11, 0, 1, 2, 4999, 5000, 5001]
    edges = [2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), None]
    numbers = pa.array(values + edges, pa.int64())
    batch = pa.record_batch({"x": numbers, "z": numbers, "u": numbers})
    assert rows_of(both.encode(batch)) == rows_of(by_value(both, monkeypatch, batch))


def test_integers_beyond_the_doubles_keep_their_codes(monkeypatch):
    edge = [2**53, 2**53 + 1, -(2**63), -(2**63) + 1, 2**63 - 1, None]
    batch = pa.record_batch({"x": pa.array(edge, pa.int64())})
    both = encoder()
    assert rows_of(both.encode(batch)) == rows_of(by_value(both, monkeypatch, batch))


def test_plain_columns_take_the_one_pass(monkeypatch):
    taken = []
    of = NumberColumn.of

    def note(attribute, values):
        column = of(attribute, values)
        taken.append(column is not None)
        return column

    monkeypatch.setattr(NumberColumn, "of", note)
    batch = pa.record_batch({"x": pa.array([1, None], pa.int16()), "y": pa.array([0.5, None])})
    encoder().encode(batch)
    assert taken == [True, True]
