"""One event in all its forms: mappings, nested mappings, Arrow columns of every type, frames.

The contract suite compares `match` on mappings with `evaluate`. Here every other form of
the same events is compared with `match`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis
from tamis.errors import EventError
from tests import randoms
from tests.randoms import EVERYTHING

Row = dict[str, Any]
Rules = Sequence[str]


def matcher_of(rules: Rules, logic: str = "strong") -> tamis.Matcher:
    matcher = tamis.Matcher(logic=logic)
    matcher.add_many(list(enumerate(rules)))
    return matcher


def found_by(matcher: tamis.Matcher, events: Any, size: int) -> list[list[Any]]:
    rules: list[list[Any]] = [[] for _ in range(size)]
    table = whole(matcher.match_many(events))
    for event, rule in zip(table["event"].to_pylist(), table["rule"].to_pylist(), strict=True):
        rules[event].append(rule)
    return rules


def whole(answer: pa.Table | pa.RecordBatchReader) -> pa.Table:
    """Given a reader, the answer is a reader, too."""
    return answer.read_all() if isinstance(answer, pa.RecordBatchReader) else answer


def agree(rules: Rules, rows: Sequence[Row], events: Any) -> None:
    """Check that `events`, another form of `rows`, match, count and score the same."""
    for logic in ("strong", "weak"):
        matcher = matcher_of(rules, logic)
        expected = [matcher.match(row) for row in rows]
        assert any(expected), "no rule holds, so the test shows nothing"
        assert found_by(matcher, events, len(rows)) == expected
        counts = whole(matcher.count_many(events))["matches"].to_pylist()
        assert counts == [len(ids) for ids in expected]
        top = whole(matcher.top_many(events, n=1_000))
        assert list(zip(top["event"].to_pylist(), top["score"].to_pylist(), strict=True)) == [
            (number, score)
            for number, row in enumerate(rows)
            for _, score in matcher.top(row, n=1_000)
        ]


# --- Mappings ---------------------------------------------------------------------------


def random_rules(random: Random, count: int) -> list[str]:
    return [tamis.to_sql(randoms.rule(random, EVERYTHING, 3)) for _ in range(count)]


def nest(row: Row) -> Row:
    """``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    result: Row = {}
    for name, item in row.items():
        at = result
        *path, last = name.split(".")
        for step in path:
            at = at.setdefault(step, {})
        at[last] = item
    return result


def test_flat_and_nested_mappings() -> None:
    random = Random(11)
    rules = random_rules(random, 150)
    rows = [randoms.flat_event(random, EVERYTHING) for _ in range(60)]
    agree(rules, rows, rows)
    agree(rules, rows, [nest(row) for row in rows])
    assert matcher_of(rules).match_many(iter(rows)).equals(matcher_of(rules).match_many(rows))
    agree(rules, rows, [{name: [item, None, item] for name, item in row.items()} for row in rows])


def test_lists_of_objects_combine_their_values() -> None:
    rules = ["o.sku = 'a'", "o.sku = 'b'", "o.sku = 'a' AND o.sku = 'b'", "o.n > 2", "o.sku <> 'a'"]
    rows: list[Row] = [
        {"o": [{"sku": "a", "n": 1}, {"sku": "b", "n": 3}]},
        {"o": {"sku": "a"}},
        {"o": [{"sku": "b"}, None, {}, {"n": [1, [2, 3]]}]},
        {"o": []},
        {"o": [{"sku": "a"}], "o.sku": "b"},
    ]
    flat: list[Row] = [
        {"o.sku": ["a", "b"], "o.n": [1, 3]},
        {"o.sku": "a"},
        {"o.sku": "b", "o.n": [1, 2, 3]},
        {},
        {"o.sku": ["a", "b"]},
    ]
    agree(rules, flat, rows)


class Colour(str):
    """A subclass of str."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.int8(3), 3),
        (np.uint64(2**63 - 1), 2**63 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(math.nan), None),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Colour("a"), "a"),
        (np.datetime64("2024-02-29T12:00:00.000001", "us"), datetime(2024, 2, 29, 12, 0, 0, 1)),
        (np.datetime64("2024-02-29", "D"), datetime(2024, 2, 29)),
        (np.datetime64("NaT", "us"), None),
        (pd.Timestamp("2024-02-29 12:00"), datetime(2024, 2, 29, 12)),
        (pd.NaT, None),
        (date(2024, 2, 29), datetime(2024, 2, 29)),
        (datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 2, 29, 12)),
        ((1, 2), [1, 2]),
        ({1}, 1),
        (frozenset({"a"}), "a"),
        ([[1], [[2, None]]], [1, 2]),
    ],
)
def test_equivalent_values_of_other_types(given: Any, plain: Any) -> None:
    literals = "3, 0.5, TRUE, 'a', 1, 2, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00'"
    rules = ["x IS NULL", f"x IN ({literals}, 9223372036854775807)", "x > 1", "x > 'A'", "x <> 1"]
    rules += ["x > DATE '2024-02-29'", "x = TIMESTAMP '2024-02-29 12:00:00.000001'"]
    agree(rules, [{"x": plain}], [{"x": given}])


@pytest.mark.parametrize(
    "moment",
    [np.datetime64("2024-02-29T12:00:00.000001", "ns"), pd.Timestamp("2024-02-29 12:00:00.000001")],
)
@pytest.mark.parametrize("nanoseconds", [0, 999])
def test_nanoseconds_are_truncated(moment: Any, nanoseconds: int) -> None:
    """Timestamps have microseconds, however precise the event is."""
    given = moment + np.timedelta64(nanoseconds, "ns")
    rules = ["x = TIMESTAMP '2024-02-29 12:00:00.000001'", "x > DATE '2024-02-29'", "x > 5"]
    assert matcher_of(rules).match({"x": given}) == [0, 1]
    agree(rules, [{"x": datetime(2024, 2, 29, 12, 0, 0, 1)}], [{"x": given}])


# --- Arrow columns of one type ----------------------------------------------------------

NUMBERS = ["a = 1", "a > 1.5", "a <= 3", "a IN (2, 3.0, 5)", "a <> 2", "a IS NULL", "NOT a > 2"]
NUMBERS += ["a BETWEEN -1 AND 0", "a = 'x'", "a = TRUE"]
STRINGS = ["a = 'x'", "a > 'b'", "a <> 'c'", "a LIKE '%x%'", "a LIKE 'ax%'", "a RLIKE '^.$'"]
STRINGS += ["a IS NULL", "NOT a ILIKE 'C'", "a IN ('é', '🙂')", "a = 1"]
TIMES = ["a = DATE '2024-01-01'", "a > DATE '2024-01-01'", "a < DATE '1970-01-01'", "a IS NULL"]
TIMES += ["a = TIMESTAMP '2024-01-01 12:30:15'", "a <> DATE '2024-01-01'", "a = 19723"]
BOOLEANS = ["a = TRUE", "a = FALSE", "a <> TRUE", "a > FALSE", "a IS NULL", "a = 1"]

WHOLE = [1, 2, None, 3, 0, 100, 2]
TEXTS = ["x", "c", None, "axa", "", "é", "🙂", "x"]
MOMENTS = [datetime(2024, 1, 1), datetime(2024, 1, 2), None, datetime(1969, 12, 31)]
INSTANTS = [*MOMENTS, datetime(2024, 1, 1, 12, 30, 15)]

COLUMNS: dict[str, tuple[Rules, pa.DataType, list[Any]]] = {
    **{
        str(kind): (NUMBERS, kind, WHOLE)
        for kind in (
            pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(),
            pa.uint64(), pa.dictionary(pa.int8(), pa.int32()),
            pa.dictionary(pa.uint16(), pa.int64()),
        )
    },
    **{
        str(kind): (NUMBERS, kind, [1.0, 2.5, None, math.nan, -0.0, -0.5, math.inf, -math.inf, 5.0])
        for kind in (
            pa.float16(), pa.float32(), pa.float64(), pa.dictionary(pa.int8(), pa.float64()),
        )
    },
    **{
        str(kind): (STRINGS, kind, TEXTS)
        for kind in (
            pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.uint32(), pa.large_string()),
        )
    },
    "boolean": (BOOLEANS, pa.bool_(), [True, False, None]),
    "null": (["a IS NULL", "a = 1"], pa.null(), [None, None]),
    **{str(kind): (TIMES, kind, MOMENTS) for kind in (pa.date32(), pa.date64())},
    **{
        str(kind): (TIMES, kind, INSTANTS)
        for unit in ("s", "ms", "us", "ns")
        for kind in (pa.timestamp(unit), pa.timestamp(unit, "UTC"))
    },
}  # fmt: skip


def variants(table: pa.Table) -> list[tuple[str, pa.Table, slice]]:
    """`table` whole, sliced, in chunks and as one batch, each with its rows."""
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])
    return [
        ("whole", table, slice(None)),
        ("sliced", table.slice(1), slice(1, None)),
        ("cut on both sides", table.slice(1, 2), slice(1, 3)),
        ("chunked", chunks, slice(None)),
        ("a batch", table.combine_chunks().to_batches()[0].slice(1), slice(1, None)),
        ("a reader", table.to_reader(max_chunksize=2), slice(None)),
    ]


def agree_in_all_variants(rules: Rules, rows: Sequence[Row], table: pa.Table) -> None:
    matcher = matcher_of(rules)
    agree(rules, rows, table)
    for name, part, taken in variants(table):
        expected = [matcher.match(row) for row in rows[taken]]
        assert found_by(matcher, part, len(expected)) == expected, name


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_float16(kind):
        return pa.array([None if v is None else np.float16(v) for v in values], kind)
    return pa.array(values, kind)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_type(name: str) -> None:
    rules, kind, values = COLUMNS[name]
    rows = [{"a": value} for value in values]
    agree_in_all_variants(rules, rows, pa.table({"a": array_of(values, kind)}))


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "null"])
def test_lists_of_every_type(name: str) -> None:
    rules, kind, values = COLUMNS[name]
    lists = [values[:2], None, [], values, [None], [values[0], values[0]], values[1:]]
    inner = array_of([value for found in lists for value in found or ()], kind)
    ends = np.cumsum([0, *(len(found or ()) for found in lists)])
    offsets = pa.array(ends, pa.int32(), mask=np.array([*(f is None for f in lists), False]))
    column = pa.ListArray.from_arrays(offsets, inner)
    agree_in_all_variants(rules, [{"a": found} for found in lists], pa.table({"a": column}))


@pytest.mark.parametrize("zone", ["+02:00", "Europe/Paris", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_zone_does_not_change_the_instant(unit: str, zone: str) -> None:
    column = pa.array(INSTANTS, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    rows = [{"a": moment and moment.replace(tzinfo=UTC)} for moment in INSTANTS]
    agree_in_all_variants(TIMES, rows, pa.table({"a": column}))


VIEWS: dict[str, pa.Array] = {
    "string_view": pa.array(TEXTS, pa.string_view()),
    "dictionary of string_view": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 3, 4, 5, 0], pa.uint32()),
        pa.array(["x", "c", "axa", "", "é", "🙂"], pa.string_view()),
    ),
    "list of string_view": pa.ListArray.from_arrays(
        pa.array(range(len(TEXTS) + 1), pa.int32()), pa.array(TEXTS, pa.string_view())
    ),
    "struct of string_view": pa.StructArray.from_arrays([pa.array(TEXTS, pa.string_view())], ["b"]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_string_views(name: str) -> None:
    attribute = "a.b" if "struct" in name else "a"
    rules = [rule.replace("a ", f"{attribute} ", 1) for rule in STRINGS if rule[0] == "a"]
    rows = [{attribute: text} for text in TEXTS]
    agree_in_all_variants(rules, rows, pa.table({"a": VIEWS[name]}))


def test_nanoseconds_before_1970_are_rounded_down() -> None:
    """On either side of 1970 an instant belongs to the microsecond that began before it."""
    rules = ["a = TIMESTAMP '1969-12-31 23:59:59.999999'", "a = DATE '1970-01-01'"]
    column = pa.array([-1, -1_000, 0, 999], pa.timestamp("ns"))
    assert found_by(matcher_of(rules), pa.table({"a": column}), 4) == [[0], [0], [1], [1]]


def test_an_instant_beyond_all_timestamps_does_not_wrap_around() -> None:
    """Seconds of the year 300,000 overflow as microseconds; they must not become the past."""
    matcher = matcher_of(["a > DATE '2024-01-01'", "a < DATE '1970-01-01'"])
    column = pa.array([10**13], pa.timestamp("s"))
    with pytest.raises(EventError, match="'a'"):
        matcher.match_many(pa.table({"a": column}))


def test_a_dictionary_may_have_nulls_and_repeated_values() -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 3]), pa.array(["x", None, "x", "axa"])
    )
    rows = [{"a": value} for value in ("x", None, None, "x", "axa")]
    agree_in_all_variants(STRINGS, rows, pa.table({"a": column}))


def test_a_repeated_value_of_a_list_counts_once() -> None:
    """Repeated in a dictionary, or zero with either sign."""
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", "x"]))
    agree(STRINGS, [{"a": ["x"]}], pa.table({"a": pa.ListArray.from_arrays([0, 2], twice)}))
    agree(["a = 0", "a IN (0, 1)"], [{"a": [0.0]}], pa.table({"a": [[0.0, -0.0]]}))


# --- Nested Arrow columns ---------------------------------------------------------------

NESTED = ["a.b = 1", "a.b = 2", "a.b = 1 AND a.b = 2", "a.b IS NULL", "a.b <> 1", "a.c = 'x'"]
NESTED += ["a.c LIKE '%y'", "a IS NULL", "a.c > 'w'"]
STRUCT = pa.struct([("b", pa.int64()), ("c", pa.string())])
OBJECTS: list[Any] = [{"b": 1, "c": "x"}, None, {"b": None, "c": "xy"}, {"b": 2, "c": None}]


def test_structs() -> None:
    table = pa.table({"a": pa.array(OBJECTS, STRUCT)})
    agree_in_all_variants(NESTED, [{"a": item} for item in OBJECTS], table)


def test_structs_of_structs() -> None:
    deep = [{"d": item} for item in OBJECTS]
    table = pa.table({"q": pa.array(deep, pa.struct([("d", STRUCT)]))})
    rules = [rule.replace("a.", "q.d.").replace("a ", "q.d ") for rule in NESTED]
    agree_in_all_variants(rules, [{"q": item} for item in deep], table)


@pytest.mark.parametrize("large", [False, True])
def test_lists_of_structs(large: bool) -> None:
    kind = pa.large_list(STRUCT) if large else pa.list_(STRUCT)
    lists: list[Any] = [OBJECTS, None, [], OBJECTS[:1] * 2, [None], [OBJECTS[3], OBJECTS[0]]]
    table = pa.table({"a": pa.array(lists, kind)})
    agree_in_all_variants(NESTED, [{"a": items} for items in lists], table)


def test_lists_of_lists() -> None:
    lists: list[Any] = [[[1, 2], [2]], None, [None, [3]], [[], [None]], [[1]]]
    table = pa.table({"a": pa.array(lists, pa.list_(pa.list_(pa.int64())))})
    agree_in_all_variants(NUMBERS, [{"a": items} for items in lists], table)


def test_lists_of_fixed_size() -> None:
    lists: list[Any] = [[1, 2], None, [3, None], [2, 2]]
    table = pa.table({"a": pa.array(lists, pa.list_(pa.int64(), 2))})
    agree_in_all_variants(NUMBERS, [{"a": items} for items in lists], table)


@pytest.mark.parametrize("key", [pa.string(), pa.large_string()])
def test_maps(key: pa.DataType) -> None:
    maps: list[Any] = [{"b": 1, "q": 9}, None, {"b": None}, {}, {"q": 1}, {"b": 2}]
    column = pa.array([m and list(m.items()) for m in maps], pa.map_(key, pa.int64()))
    rules = ["a.b = 1", "a.b = 2", "a.q > 5", "a.b IS NULL", "a.b <> 1", "a.z = 1"]
    agree_in_all_variants(rules, [{"a": m} for m in maps], pa.table({"a": column}))


def test_maps_of_structs_and_of_numbers() -> None:
    column = pa.array(
        [[(1, {"c": "x"})], [(2, {"c": "y"})]], pa.map_(pa.int32(), pa.struct([("c", pa.string())]))
    )
    rows = [{"a.1.c": "x"}, {"a.2.c": "y"}]
    agree(
        ["\"a.1.c\" = 'x'", "\"a.2.c\" = 'x'", '"a.2.c" IS NOT NULL'], rows, pa.table({"a": column})
    )


COMPLETE: list[Any] = [{"a": 1, "b": {"c": 2}}, None, {"a": None, "b": None}, {"a": 2, "b": {}}]
COMPLETE_RULES = ["a = 1", "a = 2", "a IS NULL", "b.c = 2", "b.c <> 3", "a <> 2"]


def test_a_struct_without_a_name_is_the_event() -> None:
    inner = pa.struct([("c", pa.int64())])
    column = pa.array(COMPLETE, pa.struct([("a", pa.int64()), ("b", inner), ("d", pa.binary())]))
    agree_in_all_variants(COMPLETE_RULES, [m or {} for m in COMPLETE], pa.table({"": column}))


def test_a_map_without_a_name_is_the_event() -> None:
    maps: list[Any] = [{"a": 1, "b.c": 2}, None, {"a": None}, {}, {"b.c": 3, "x": 1, "a": 2}]
    column = pa.array([m and list(m.items()) for m in maps], pa.map_(pa.string(), pa.int64()))
    agree_in_all_variants(COMPLETE_RULES, [m or {} for m in maps], pa.table({"": column}))


def test_a_whole_event_and_a_column_of_one_name_combine_their_values() -> None:
    column = pa.array([{"a": 1}, {"a": 2}, None], pa.struct([("a", pa.int64())]))
    table = pa.table({"": column, "a": [2, None, 1]})
    agree(["a = 1", "a = 2", "a <> 1"], [{"a": [1, 2]}, {"a": 2}, {"a": 1}], table)


def test_a_column_and_a_field_of_one_name_combine_their_values() -> None:
    table = pa.table(
        {
            "a.b": [1, None, 2, 1],
            "a": pa.array([{"b": 2}, {"b": 1}, {"b": 2}, None], pa.struct([("b", pa.int64())])),
            "other": [Decimal(1)] * 4,
        }
    )
    rows: list[Row] = [{"a.b": [1, 2]}, {"a.b": 1}, {"a.b": 2}, {"a.b": 1}]
    agree_in_all_variants(["a.b = 1", "a.b = 2", "a.b <> 1"], rows, table)


def test_two_columns_of_one_name_combine_their_values() -> None:
    table = pa.Table.from_arrays([pa.array([1, None]), pa.array([2, 3])], ["a", "a"])
    agree(["a = 1", "a = 2", "a = 3"], [{"a": [1, 2]}, {"a": 3}], table)


def test_empty_tables() -> None:
    matcher = matcher_of(["a = 1", "b IS NULL"])
    table: Any
    for table in (
        pa.table({}),
        pa.table({"a": pa.array([], pa.int64())}),
        pa.table({"a": pa.chunked_array([], pa.string())}),
        pa.table({"a": [1]}).slice(1),
        [],
    ):
        assert matcher.match_many(table).num_rows == 0
        assert matcher.count_many(table).num_rows == 0
        assert matcher.top_many(table).num_rows == 0


def test_rows_are_numbered_through_all_chunks() -> None:
    size = 150_000
    table = pa.table({"a": np.arange(size)})
    matcher = matcher_of(["a >= 149990", "a = 70000", "a = 3"])
    found = matcher.match_many(table)
    assert found["event"].to_pylist() == [3, 70_000, *range(149_990, size)]
    assert matcher.count_many(table)["event"].to_pylist() == list(range(size))


# --- Types that rules cannot compare ----------------------------------------------------

UNREADABLE: dict[str, tuple[pa.DataType, Any]] = {
    "decimal": (pa.decimal256(40), Decimal(10**39 + 1)),
    "binary": (pa.binary(), b"x"),
    "duration": (pa.duration("s"), timedelta(1)),
    "time": (pa.time64("us"), time(1)),
    "list of binary": (pa.list_(pa.binary()), [b"x"]),
    "struct of decimal": (pa.struct([("b", pa.decimal256(40))]), {"b": Decimal(10**39 + 1)}),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_column_is_an_error_if_a_rule_mentions_it(name: str) -> None:
    kind, value = UNREADABLE[name]
    table = pa.table({"a": pa.array([value], kind), "ok": [1]})
    path = "a.b" if "struct" in name else "a"
    with pytest.raises(EventError, match=f"column '{path}'"):
        matcher_of([f"{path} = 1"]).match_many(table)
    assert found_by(matcher_of(["ok = 1"]), table, 1) == [[0]]


@pytest.mark.parametrize(
    "events",
    [
        pd.Series([1, 2]),
        pa.chunked_array([[1]]),
        pd.DataFrame({"a": [object()]}),
        {"a": 1},
        "a",
        b"a",
        5,
        None,
    ],
    ids=lambda events: type(events).__name__,
)
def test_values_that_are_not_events(events: Any) -> None:
    matcher = matcher_of(["a = 1"])
    for method in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(EventError):
            method(events)


# --- Frames -----------------------------------------------------------------------------

FRAME_RULES = ["n = 1", "n > 1", "n IS NULL", "x <> 0.5", "s = 'x'", "s LIKE '%y'", "s > 'w'"]
FRAME_RULES += ["t > DATE '2024-01-01'", "t IS NULL", "ok = TRUE", "word IN ('x', 'z')"]
FRAME_ROWS: list[Row] = [
    {"n": 1, "x": 0.5, "s": "x", "t": datetime(2024, 1, 1), "ok": True, "word": "x"},
    {"n": None, "x": None, "s": None, "t": None, "ok": None, "word": None},
    {"n": 3, "x": 1.5, "s": "xy", "t": datetime(2024, 1, 2, 3, 4, 5), "ok": False, "word": "z"},
]


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def pandas_frame(**changes: Any) -> pd.DataFrame:
    frame = pd.DataFrame(columns(FRAME_ROWS))
    return frame.astype({"word": "category", **changes})


PANDAS: dict[str, Callable[[], pd.DataFrame]] = {
    "as it comes": pandas_frame,
    "nullable types": lambda: pandas_frame(n="Int64", x="Float64", ok="boolean", s="string"),
    "arrow types": lambda: pandas_frame(n="int64[pyarrow]", s="string[pyarrow]"),
    "an index of its own": lambda: pandas_frame().set_index(pd.Index(["p", "q", "r"])),
    "times with a zone": lambda: pandas_frame().assign(t=lambda f: f.t.dt.tz_localize("UTC")),
}


@pytest.mark.parametrize("name", PANDAS)
def test_pandas_frames(name: str) -> None:
    agree(FRAME_RULES, FRAME_ROWS, PANDAS[name]())


def test_polars_frames() -> None:
    frame = pl.DataFrame(columns(FRAME_ROWS))
    agree(FRAME_RULES, FRAME_ROWS, frame)
    agree(FRAME_RULES, FRAME_ROWS, frame.with_columns(pl.col("word").cast(pl.Categorical)))
    agree(FRAME_RULES, FRAME_ROWS, frame.with_columns(pl.col("word").cast(pl.Enum(["x", "z"]))))
    agree(FRAME_RULES, FRAME_ROWS[1:], frame[1:])


def test_polars_lists_and_structs() -> None:
    rows: list[Row] = [{"a": ["x", "x"], "u": {"k": "y"}}, {"a": [], "u": {"k": None}}]
    rules = ["a = 'x'", "a LIKE 'x%'", "u.k = 'y'", "u.k IS NULL", "a IS NULL"]
    agree(rules, rows, pl.DataFrame(rows))


@pytest.mark.parametrize(
    "values",
    [
        [*range(100), 50, 2**63 - 1, -(2**63)],
        [*range(100), 2**64 - 1],
        [n / 2 for n in range(200)] + [math.nan, -0.0, math.inf],
        [f"s{n}" for n in range(100)] + ["s1", "é"],
        [f"s{n}" for n in range(100)] + ["\ud800"],
        [*range(80), *(n / 2 for n in range(80)), True, "s1", None],
        [[n] for n in range(100)],
        [math.nan] * 100,
    ],
    ids=["integers", "unsigned", "doubles", "strings", "broken", "mixed", "nested", "absent"],
)
def test_long_lists_are_encoded_as_short_ones(values: list[Any]) -> None:
    """A long list is looked up at once; its values one by one give the same answers."""
    rules = [
        "a = 50", "a IN (1, 2.5, 's1')", "a > 98.5", "a < -5", "a BETWEEN 10 AND 10.5", "a = 2.5",
        "a >= 18446744073709551615", "a LIKE 's9%'", "a LIKE '%é%'", "a > 's5'", "a <> 3",
        "a NOT IN (1000)", "a = TRUE", "a IS NULL", "size(a) > 101", "length(a) = 3", "a * 2 = 7",
    ]  # fmt: skip
    matcher = matcher_of(rules)
    event = {"a": values}
    if "\ud800" in values:
        with pytest.raises(EventError, match="surrogate"):
            matcher.match(event)
        return
    wanted = [n for n, rule in enumerate(rules) if tamis.evaluate(rule, event)]
    assert matcher.match(event) == wanted
    assert found_by(matcher, [event], 1) == [wanted]
    assert sorted(matcher.top(event, 99)) == [(n, tamis.score(rules[n], event)) for n in wanted]
