"""Schemas: scalars, timestamps given as text, and declared types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import tamis
from tamis import Matcher
from tamis.errors import RuleError, SchemaError
from tamis.expr.model import Op, Predicate
from tests import randoms
from tests.randoms import BOOLEANS, DOUBLES, INTEGERS, STRINGS, TIMESTAMPS, attribute

SCHEMA = {
    "price": "double",
    "count": "integer",
    "name": "string",
    "ok": "boolean",
    "when": "timestamp",
    "tags": "string[]",
    "sizes": "double[]",
    "days": "timestamp[]",
    "user.age": "integer",
}
MANY = 200


def matcher_of(rules: list[str], schema: dict[str, str] = SCHEMA, fill: int = 0) -> Matcher:
    """A matcher with `rules`; `fill` more rules put them all into a segment."""
    matcher = Matcher(schema=schema)
    matcher.add_many([*enumerate(rules), *((f"fill {i}", "zz = 1") for i in range(fill))])
    return matcher


FILLS = pytest.mark.parametrize("fill", [0, MANY])


# --- The schema itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"price": "decimal"}, "'price' as 'decimal'.*string, integer, double, boolean, timestamp"),
        ({"price": "double[][]"}, "'price'"),
        ({"price": None}, "'price'"),
        ({"price": ["double"]}, "'price'"),
        ({"price": float}, "'price'"),
        ({"": "double"}, "non-empty"),
        ({5: "double"}, "5"),
        ([("price", "double")], "list"),
        ("price", "str"),
    ],
)
def test_bad_schemas_are_refused(schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Matcher(schema=schema)


def test_an_empty_schema_is_like_none() -> None:
    matcher = Matcher(schema={})
    matcher.add("r", "a = 1 AND a = 2")
    assert matcher.match({"a": [1, 2]}) == ["r"]


# --- Events -----------------------------------------------------------------------------

GOOD: list[dict[str, Any]] = [
    {},
    {"price": 1, "count": 1, "name": "x", "ok": True, "when": "2024-01-01", "tags": ["a", "b"]},
    {"price": 1.5, "count": 2.0, "when": "2024-01-01T12:00:00+02:00", "tags": "a", "sizes": [1, 2]},
    {"when": datetime(2024, 1, 1, 12), "days": ["2024-01-01", date(2024, 1, 2)], "undeclared": [1]},
    {"price": None, "count": float("nan"), "name": [], "ok": [None], "user": {"age": 5}},
    {"user.age": 5, "sizes": 1.5, "days": "2024-01-01 00:00"},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"price": [1, 2]}, "'price' is declared as one double, but the event holds a list"),
    ({"price": [1]}, "'price' is declared as one double"),
    ({"name": ("x",)}, "'name' is declared as one string"),
    ({"user": {"age": [1, 2]}}, "'user.age' is declared as one integer"),
    ({"user": [{"age": 1}, {"age": 2}]}, "'user.age'"),
    ({"price": "1"}, "'price' is declared as double, but the event holds '1'"),
    ({"price": True}, "'price'"),
    ({"count": 1.5}, "'count' is declared as integer, but the event holds 1.5"),
    ({"name": 1}, "'name'"),
    ({"ok": 1}, "'ok'"),
    ({"when": "yesterday"}, "'when' is declared as a timestamp; 'yesterday' is not an ISO"),
    ({"when": 1704067200}, "'when' is declared as timestamp"),
    ({"when": "0001-01-01T00:00:00+05:00"}, "'when'"),
    ({"tags": ["a", 1]}, "'tags' is declared as string, but the event holds 1"),
    ({"days": ["2024-01-01", "x"]}, "'days'"),
]
RULES = [
    "price = 1", "price > 1", "count = 2", "name = 'x'", "ok = TRUE", "when = '2024-01-01'",
    "when > '2024-01-01'", "when = TIMESTAMP '2024-01-01 10:00:00'", "tags = 'a' AND tags = 'b'",
    "sizes > 1", "days = DATE '2024-01-02'", "undeclared = 1", "user.age = 5", "price IS NULL",
    "when IN ('2024-01-01', '2024-01-01 12:00:00')", "when BETWEEN '2023-12-31' AND '2024-01-01'",
    "when <> '2024-01-01'", "when LIKE '2024%'",
]  # fmt: skip


@FILLS
def test_events_that_conform(fill: int) -> None:
    matcher = matcher_of(RULES, fill=fill)
    held = [[RULES[id] for id in matcher.match(event) if isinstance(id, int)] for event in GOOD]
    assert held == [
        ["price IS NULL"],
        [
            "price = 1", "name = 'x'", "ok = TRUE", "when = '2024-01-01'",
            "tags = 'a' AND tags = 'b'", "when IN ('2024-01-01', '2024-01-01 12:00:00')",
            "when BETWEEN '2023-12-31' AND '2024-01-01'",
        ],
        [
            "price > 1", "count = 2", "when > '2024-01-01'",
            "when = TIMESTAMP '2024-01-01 10:00:00'", "sizes > 1", "when <> '2024-01-01'",
        ],
        [
            "when > '2024-01-01'", "days = DATE '2024-01-02'", "undeclared = 1", "price IS NULL",
            "when IN ('2024-01-01', '2024-01-01 12:00:00')", "when <> '2024-01-01'",
        ],
        ["user.age = 5", "price IS NULL"],
        ["sizes > 1", "user.age = 5", "price IS NULL"],
    ]  # fmt: skip
    found = matcher.match_many(GOOD)
    assert found["rule"].to_pylist() == [id for event in GOOD for id in matcher.match(event)]


@FILLS
@pytest.mark.parametrize(("event", "words"), BAD)
def test_events_that_contradict_the_schema_are_refused(
    fill: int, event: dict[str, Any], words: str
) -> None:
    matcher = matcher_of(RULES, fill=fill)
    for ask in (
        lambda: matcher.match(event),
        lambda: matcher.match_array(event),
        lambda: matcher.top(event),
        lambda: matcher.explain(0, event),
    ):
        with pytest.raises(SchemaError, match=words):
            ask()
    for ask_many in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(SchemaError, match=f"event 1: .*{words}"):
            ask_many([{}, event])


# --- Arrow columns ----------------------------------------------------------------------

TIME_RULES = ["when > '2024-01-01'", "when = DATE '2024-01-01'", "when IS NULL"]
STAMPS = ["2024-01-01", None, "2024-01-02T00:00:00+01:00", "2024-01-01"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(STAMPS),
        pa.array(STAMPS, pa.large_string()),
        pa.array(STAMPS, pa.string_view()),
        pa.array(STAMPS).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, 0]), pa.array(["2024-01-01", None, "2024-01-02 00:00+01", "unused"])
        ),
        pa.array(
            [datetime(2024, 1, 1), None, datetime(2024, 1, 1, 23), datetime(2024, 1, 1)],
            pa.timestamp("ms"),
        ),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_timestamps(column: pa.Array) -> None:
    matcher = matcher_of(TIME_RULES)
    found = matcher.match_many(pa.table({"when": column}))
    assert found.to_pylist() == [
        {"event": 0, "rule": 1},
        {"event": 1, "rule": 2},
        {"event": 2, "rule": 0},
        {"event": 3, "rule": 1},
    ]


def test_columns_of_lists() -> None:
    rules = ["days = '2024-01-02'", "tags = 'a' AND tags = 'b'", "sizes > 1", "days IS NULL"]
    matcher = matcher_of(rules)
    rows: list[dict[str, Any]] = [
        {"days": ["2024-01-01", "2024-01-02"], "tags": ["a", "b"], "sizes": [1, 2]},
        {"days": None, "tags": [], "sizes": [1]},
        {"days": ["2024-01-02", None], "tags": ["b"], "sizes": None},
    ]
    expected = [id for row in rows for id in matcher.match(row)]
    table = pa.Table.from_pylist(rows)
    fixed = pa.array(
        [row["sizes"] and (row["sizes"] * 2)[:2] for row in rows], pa.list_(pa.int64(), 2)
    )
    large = pa.array([row["tags"] for row in rows], pa.large_list(pa.string()))
    for other in (
        table,
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        table.set_column(2, "sizes", fixed),
        table.set_column(1, "tags", large),
        pl.DataFrame(rows),
    ):
        assert matcher.match_many(other)["rule"].to_pylist() == expected
    later = matcher.match_many(table.slice(1))["rule"].to_pylist()
    assert later == [id for row in rows[1:] for id in matcher.match(row)]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"price": [[1.5]]}, "'price' is declared as one double, but the column holds lists"),
        ({"price": ["1"]}, "'price' is declared as double, but the column is string"),
        ({"price": [True]}, "'price'"),
        ({"count": [1.0, 1.5]}, "'count' is declared as integer.*1.5"),
        ({"name": [1]}, "'name'"),
        ({"ok": [1]}, "'ok'"),
        ({"when": [5]}, "'when'"),
        ({"when": ["yesterday"]}, "'when'.*'yesterday'"),
        ({"when": ["0001-01-01T00:00:00+05:00"]}, "'when'"),
        ({"tags": [[1]]}, "'tags'"),
        ({"days": [["x"]]}, "'days'.*'x'"),
    ],
)
def test_columns_that_contradict_the_schema_are_refused(column: dict[str, Any], words: str) -> None:
    matcher = matcher_of(RULES)
    for ask in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(SchemaError, match=words):
            ask(pa.table(column))


def test_whole_doubles_conform_to_integers() -> None:
    """As pandas stores integers with gaps; in a mapping, the same values conform."""
    matcher = matcher_of(["count = 2", "count IS NULL"])
    found = matcher.match_many(pa.table({"count": [2.0, None, float("nan"), 3.0]}))
    assert found.to_pylist() == [
        {"event": 0, "rule": 0},
        {"event": 1, "rule": 1},
        {"event": 2, "rule": 1},
    ]


def test_declared_attributes_inside_a_struct() -> None:
    schema = {"u.when": "timestamp", "u.n": "integer"}
    matcher = matcher_of(["u.when > '2024-01-01'", "u.n > 3 AND u.n < 2"], schema)
    rows = [{"u": {"when": "2024-01-02", "n": 1}}, {"u": {"when": "2023-12-31", "n": 1}}]
    assert matcher.match(rows[0]) == [0]
    assert matcher.match_many(pa.Table.from_pylist(rows)).to_pylist() == [{"event": 0, "rule": 0}]
    with pytest.raises(SchemaError, match=r"'u\.n'"):
        matcher.match_many(pa.table({"u": [{"n": [1, 9]}]}))


def test_columns_of_nulls_conform() -> None:
    table = pa.table({name: pa.nulls(2) for name in SCHEMA if "." not in name})
    assert matcher_of(["price IS NULL"]).match_many(table)["rule"].to_pylist() == [0, 0]


# --- Rules ------------------------------------------------------------------------------


@FILLS
@pytest.mark.parametrize("rule", ["when = 'soon'", "when IN ('2024-01-01', '')", "days < '24'"])
def test_a_rule_with_a_bad_timestamp_is_refused(fill: int, rule: str) -> None:
    matcher = matcher_of([], fill=fill)
    with pytest.raises(RuleError, match="declared as a timestamp") as caught:
        matcher.add("r", rule)
    assert caught.value.rule_id == "r"
    report = matcher.add_many([("r", rule), ("s", "ok = TRUE")], on_error="skip")
    assert [bad.id for bad in report.bad] == ["r"]
    assert (len(matcher), "r" in matcher) == (fill + 1, False)


def test_a_rule_with_a_timestamp_out_of_range_is_refused() -> None:
    matcher = matcher_of([])
    with pytest.raises(RuleError, match="declared as a timestamp"):
        matcher.add("r", "when = '0001-01-01T00:00:00+05:00'")


def test_a_schema_does_not_change_the_text_of_a_rule() -> None:
    matcher = matcher_of(["when = '2024-01-01'"])
    assert matcher.rule(0).expr == Predicate("when", Op.EQ, ("2024-01-01",))
    explanation = matcher.explain(0, {"when": "2024-01-01"})
    assert explanation.held
    assert explanation.values == (datetime(2024, 1, 1, tzinfo=UTC),)


@FILLS
def test_weights_apply_to_converted_timestamps(fill: int) -> None:
    matcher = matcher_of([], fill=fill)
    weights = {("when", "2024-01-01"): 5.0, "when > '2023-01-01'": 7.0}
    matcher.add(
        "r", "when IN ('2024-01-01', '2025-01-01') AND when > '2023-01-01'", weights=weights
    )
    assert matcher.top({"when": "2024-01-01"}) == [("r", 12.0)]
    assert matcher.top({"when": "2025-01-01"}) == [("r", 8.0)]
    matcher.add_many([(f"more {i}", "zz = 1") for i in range(MANY)])
    assert matcher.top({"when": "2024-01-01"}) == [("r", 12.0)]


# --- Simplification of scalars ----------------------------------------------------------


def test_contradictions_on_scalars_are_simplified_away() -> None:
    rules = ["price > 3 AND price < 2", "count = 1 AND count = 2", "name = 'a' AND name <> 'a'"]
    declared, free = matcher_of(rules, fill=MANY), matcher_of(rules, {}, fill=MANY)
    filler = 1
    assert declared.stats()["conjunctions"] == filler
    assert free.stats()["conjunctions"] == filler + len(rules)
    event: dict[str, Any] = {"price": [1, 9], "count": [1, 2]}
    assert free.match(event) == [0, 1]
    with pytest.raises(SchemaError):
        declared.match(event)


def test_lists_are_not_simplified() -> None:
    matcher = matcher_of(["tags = 'a' AND tags = 'b'", "sizes > 3 AND sizes < 2"], fill=MANY)
    assert matcher.match({"tags": ["a", "b"], "sizes": [1, 9]}) == [0, 1]


AMONG = [
    attribute("price", DOUBLES, INTEGERS),
    attribute("count", INTEGERS),
    attribute("name", STRINGS),
    attribute("ok", BOOLEANS),
    attribute("when", TIMESTAMPS),
    attribute("free", INTEGERS, STRINGS),
]


@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_a_schema_does_not_change_answers_for_single_values(logic: str) -> None:
    random = Random(logic)
    declared, free = Matcher(schema=SCHEMA, logic=logic), Matcher(logic=logic)
    few = [*AMONG[:1] * 3, *AMONG]
    rules = [(number, randoms.rule(random, few, 4)) for number in range(300)]
    rules += [(number + 300, randoms.conjunction(random, few, 5)) for number in range(300)]
    texts = [(number, tamis.to_sql(rule)) for number, rule in rules]
    declared.add_many(texts)
    free.add_many(texts)
    events = [randoms.flat_event(random, AMONG) for _ in range(60)]
    for event in events:
        assert declared.match(event) == free.match(event)
    assert declared.match_many(events).equals(free.match_many(events))
    assert declared.top_many(events, 50).equals(free.top_many(events, 50))


def test_a_column_without_values_contradicts_the_schema_by_its_type() -> None:
    m = tamis.Matcher(schema={"price": "double"})
    m.add("cheap", "price < 3")
    empty = pa.table({"price": pa.array([None], pa.string())})
    with pytest.raises(tamis.SchemaError, match="'price' is declared as double"):
        m.match_many(empty)
    assert m.match_many(pa.table({"price": pa.array([None], pa.null())})).num_rows == 0
