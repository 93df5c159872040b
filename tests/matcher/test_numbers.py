"""Decimals and unsigned integers compare exactly, in every container of events."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.expr.model import Op, Predicate, value_of_literal
from tamis.expr.numbers import on_line

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")

EDGES = (
    "0.1", "0.5", "9.99", "0.10000000000000000001", "1.000000000931322574615478515625",
    "9007199254740992.5", "9223372036854775807.5", "18446744073709551615.25",
    "99999999999999999999999999999999999999", "-12345678901234567890123456789.5",
)  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from([Decimal(text) for text in EDGES]),
    st.sampled_from([0, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]),
    st.sampled_from([0.1, 0.5, 9.99, 1 + 2**-30, 2.0**53, 2.0**63, 2.0**64, 1e300, -0.0]),
    st.decimals(-(10**6), 10**6, places=4, allow_nan=False),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)


def number(item: Any) -> Any:
    """A number as rules and events have it."""
    return value_of_literal(item)


def holds(op: str, value: Any, literal: Any) -> bool:
    """The definition: by the places of both on the line of all numbers."""
    a, b = (on_line(number(item)) for item in (value, literal))
    results = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return results[op]


def add_comparisons(matcher: tamis.Matcher, literals: list[Any]) -> dict[int, tuple[str, Any]]:
    """Add a rule for each operator and literal; half of them as texts."""
    rules: dict[int, tuple[str, Any]] = {}
    for literal in literals:
        for op in OPERATORS:
            id = len(rules)
            rules[id] = op, literal
            negated = op == "<>"
            model = Predicate(
                "x", Op.EQ if negated else Op(op), (value_of_literal(literal),), negated
            )
            matcher.add(id, tamis.to_sql(model) if id % 2 else model)
    return rules


@settings(max_examples=40, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.lists(NUMBERS, min_size=1, max_size=5))
def test_numbers_of_all_types_compare_exactly(literals: list[Any], values: list[Any]) -> None:
    tail, segment = tamis.Matcher(), tamis.Matcher()
    rules = add_comparisons(tail, literals)
    segment.add_many([(id, tail.rule(id).source) for id in rules])
    segment.optimize()
    for value in [*values, *literals]:
        wanted = [id for id, (op, literal) in rules.items() if holds(op, value, literal)]
        assert tail.match({"x": value}) == segment.match({"x": value}) == wanted
        assert wanted == [id for id in rules if tamis.evaluate(tail.rule(id).source, {"x": value})]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(NUMBERS, min_size=1, max_size=4),
    st.sampled_from(
        [(pa.decimal128(38, 9), 9), (pa.decimal128(15, 2), 2), (pa.decimal256(60, 30), 8)]
    ),
    st.data(),
)
def test_columns_of_decimals(
    literals: list[Any], typed: tuple[pa.DataType, int], data: Any
) -> None:
    kind, places = typed
    bound = 10 ** min(kind.precision - kind.scale, 28) - 1
    decimals = st.decimals(-bound, bound, places=places, allow_nan=False)
    values = data.draw(
        st.lists(decimals.filter(lambda d: len(d.as_tuple().digits) < 37), max_size=6)
    )
    column = pa.array([None, *values, None], kind).slice(1)
    matcher = tamis.Matcher()
    rules = add_comparisons(matcher, literals)
    wanted = [
        (row, id)
        for row, value in enumerate(values)
        for id, (op, literal) in rules.items()
        if holds(op, value, literal)
    ]
    for name, table in {
        "Arrow": pa.table({"x": column}),
        "dictionary": pa.table({"x": column.dictionary_encode()}),
        "lists": pa.table({"x": pa.array([[v] for v in values], pa.list_(kind))}),
        "mappings": [{"x": value} for value in values],
        "pandas": pd.DataFrame({"x": pd.Series(values, dtype=object)}),
    }.items():
        found = matcher.match_many(table).to_pydict()
        assert list(zip(found["event"], found["rule"], strict=True)) == wanted, name


def test_columns_of_unsigned_integers() -> None:
    values = [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1025, 2**64 - 1]
    matcher = tamis.Matcher()
    rules = add_comparisons(matcher, [*values, 2.0**63, 2.0**64, Decimal("9223372036854775808.5")])
    wanted = [
        (row, id)
        for row, value in enumerate(values)
        for id, (op, literal) in rules.items()
        if holds(op, value, literal)
    ]
    for table in (
        pa.table({"x": pa.array(values, pa.uint64())}),
        pd.DataFrame({"x": pd.Series(values, dtype="uint64")}),
        pl.DataFrame({"x": pl.Series(values, dtype=pl.UInt64)}),
        [{"x": value} for value in values],
    ):
        found = matcher.match_many(table).to_pydict()
        assert list(zip(found["event"], found["rule"], strict=True)) == wanted


def test_prices_mean_the_same_to_duckdb() -> None:
    """A numeral in a rule is the decimal that is written, for columns of decimals and doubles."""
    prices = [Decimal(cents).scaleb(-2) for cents in (0, 1, 10, 29, 30, 57, 998, 999, 1000, 1999)]
    literals = ["0.1", "0.29", "0.3", "0.57", "9.98", "9.99", "10", "19.990", "0.30000000000000001"]
    db = duckdb.connect()
    for kind, values in (
        ("DECIMAL(38, 2)", prices),
        ("DECIMAL(9, 4)", prices),
        ("DOUBLE", [float(price) for price in prices]),
    ):
        db.execute(f"CREATE OR REPLACE TABLE t (i INTEGER, price {kind})")
        db.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        table = db.sql("SELECT price FROM t ORDER BY i").to_arrow_table()
        matcher = tamis.Matcher()
        for literal in literals if kind != "DOUBLE" else literals[:-1]:
            for op in OPERATORS:
                matcher.add(f"price {op} {literal}", f"price {op} {literal}")
        found = matcher.match_many(table).to_pydict()
        pairs = set(zip(found["event"], found["rule"], strict=True))
        for rule in matcher:
            rows = db.execute(f"SELECT i FROM t WHERE {rule}").fetchall()
            assert {row for row, other in pairs if other == rule} == {row for (row,) in rows}, rule


def test_polars_decimals() -> None:
    matcher = tamis.Matcher()
    matcher.add("cheap", "price < 9.99")
    matcher.add("same", "price = 9.99")
    frame = pl.DataFrame({"price": pl.Series(["9.98", "9.99"]).cast(pl.Decimal(10, 2))})
    assert matcher.match_many(frame).to_pydict() == {"event": [0, 1], "rule": ["cheap", "same"]}


LONG = "12345678901234567890.123456789012345678"


def test_long_decimals_survive_storing_merging_and_every_form(tmp_path: Path) -> None:
    text = f"x = {LONG}"
    rules: dict[str, Any] = {
        "text": text,
        "model": Predicate("x", Op.EQ, (value_of_literal(Decimal(LONG)),)),
        "json": {"attr": "x", "in": [{"decimal": LONG}, 1]},
        "near": f"x > {LONG[:-1]}7 AND x < {LONG[:-1]}9",
        "whole": "x = 12345678901234567891.0",
        "int": "x = 12345678901234567890",
    }
    event, matching = {"x": Decimal(LONG)}, ["text", "model", "json", "near"]
    with tamis.open(tmp_path / "rules") as matcher:
        for id, rule in rules.items():
            matcher.add(id, rule)
            matcher.optimize()
        assert matcher.match(event) == matching
    with tamis.open(tmp_path / "rules", verify=True) as matcher:
        assert matcher.match(event) == matching
        assert matcher.match({"x": Decimal(12345678901234567891)}) == ["whole"]
        assert matcher.match({"x": 12345678901234567890}) == ["int"]
        matcher.add("more", f"x <> {LONG}")
        matcher.optimize()
        assert matcher.match(event) == matching
        for id in rules:
            form = tamis.to_json(tamis.from_json(tamis.to_json(tamis.parse(text))))
            assert form == {"attr": "x", "=": {"decimal": LONG}}
            assert tamis.evaluate(matcher.rule(id).source, event) is (id in matching)


def test_many_decimals_that_share_a_double_are_found() -> None:
    accounts = [Decimal(10**30 + n) for n in range(3000)]
    matcher = tamis.Matcher()
    matcher.add_many((n, f"account = {account}.0") for n, account in enumerate(accounts))
    for n in (0, 1, 1499, 2999):
        assert matcher.match({"account": accounts[n]}) == [n]
    assert matcher.match({"account": accounts[-1] + 1}) == []


def test_documents_hold_decimals_and_unsigned_integers(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "rules") as matcher:
        matcher.add("seen", "EXISTS (SELECT 1 FROM seen d WHERE d.x = x)")
        matcher.add("more", "x > ALL (SELECT d.x FROM seen d)")
        assert matcher.publish({"x": Decimal(LONG)}, id="long") == ["more"]
        assert matcher.documents["long"] == {"x": Decimal(LONG)}
        assert matcher.publish({"x": 2**64 - 1}) == ["more"]
    with tamis.open(tmp_path / "rules") as matcher:
        assert matcher.publish({"x": Decimal(LONG)}) == ["seen"]
        assert matcher.publish({"x": 2**64 - 1}) == ["seen"]
        assert matcher.publish({"x": 2.0**64}) == ["more"]


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, Decimal(10**38 + 1), Decimal("1E+400")])
def test_a_number_that_no_kind_can_hold_is_refused_where_a_rule_mentions_it(value: Any) -> None:
    matcher = tamis.Matcher()
    matcher.add("r", "x > 1")
    assert matcher.match({"x": 2, "y": value}) == ["r"]
    with pytest.raises(tamis.EventError, match="'x' holds"):
        matcher.match({"x": value})
    with pytest.raises(tamis.EventError, match="event 1: attribute 'x' holds"):
        matcher.match_many([{"x": 1}, {"x": value}])


def test_nan_and_infinity_of_decimals() -> None:
    matcher = tamis.Matcher()
    matcher.add("r", "x > 1")
    assert matcher.match({"x": Decimal("NaN")}) == []
    assert matcher.match({"x": Decimal("Infinity")}) == ["r"]
    with pytest.raises(tamis.RuleError, match="NaN"):
        matcher.add("n", Predicate("x", Op.EQ, (Decimal("NaN"),)))  # type: ignore[arg-type]  # refused
