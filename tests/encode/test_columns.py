"""Tests of reading Arrow data: values that no kind can hold, and what does not matter."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.errors import EventError

LAST_SECOND = 253_402_300_799
"""The last second of year 9999."""


@pytest.fixture(scope="module")
def matcher() -> tamis.Matcher:
    matcher = tamis.Matcher()
    matcher.add_many(
        {
            "late": "t >= TIMESTAMP '2024-01-01'",
            "hour": "hour(t) = 23",
            "two": "t < u",
            "s": "s = 'x'",
            "like": "s LIKE 'a%'",
            "order": "s > 'b'",
            "n": "n > 3",
            "map": "m.a = 1",
            "map too": "m.a = 2",
            "sum": "m.a + m.b = 7",
        }
    )
    return matcher


def stamps(values: list[int], unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def dates(values: list[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.date64(), len(values), [None, pa.py_buffer(np.array(values))])


MARS = pa.timestamp("s", "Mars/Olympus")
RAW = pa.array([b"ok", b"a\xff"], pa.binary())
BROKEN = RAW.view(pa.string())
VIEWS = pa.array(RAW.to_pylist(), pa.binary_view())
YEARS = "years 1 to 9999"
UTF_8 = "not valid UTF-8"

UNREADABLE: dict[str, tuple[str, pa.Array, str]] = {
    "a second beyond 9999": ("t", stamps([0, LAST_SECOND + 1], "s"), YEARS),
    "with a zone": ("t", stamps([0, LAST_SECOND + 1], "s", "UTC"), YEARS),
    "far beyond": ("t", stamps([0, 2**62], "s", "Europe/Paris"), YEARS),
    "far before": ("t", stamps([0, -(2**62)], "us", "Europe/Paris"), YEARS),
    "milliseconds": ("u", stamps([0, 2**62], "ms"), YEARS),
    "a date": ("t", pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()), YEARS),
    "a date of 64 bits": ("t", dates([0, 2**62]), YEARS),
    "an unknown zone": ("t", pa.array([None, 0], pa.int64()).cast(MARS), "zone 'Mars/Olympus'"),
    "bytes that are not UTF-8": ("s", BROKEN, UTF_8),
    "the same in large strings": ("s", RAW.cast(pa.large_binary()).view(pa.large_string()), UTF_8),
    "the same in views": ("s", VIEWS.view(pa.string_view()), UTF_8),
    "the same in a dictionary": ("s", pa.DictionaryArray.from_arrays([0, 1], BROKEN), UTF_8),
    "the same in lists": ("s", pa.ListArray.from_arrays([0, 1, 2], BROKEN), UTF_8),
    "a long decimal": ("n", pa.array([1, Decimal(10**38 + 1)], pa.decimal256(39)), "38 digits"),
    "a duration": ("n", pa.array([None, 1], pa.duration("s")), "duration"),
    "bytes": ("n", pa.array([None, b"x"]), "binary"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_value_is_refused_with_column_and_row(
    matcher: tamis.Matcher, case: str
) -> None:
    name, values, message = UNREADABLE[case]
    table = pa.table({name: values})
    for ask in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(EventError, match=f"^event 1: column '{name}' .*{message}"):
            ask(table)
    long = pa.concat_tables([table.slice(0, 1)] * 70_000 + [table.slice(1)]).combine_chunks()
    with pytest.raises(EventError, match=f"^event 70000: column '{name}' "):
        matcher.match_many(long)


@pytest.mark.parametrize("case", UNREADABLE)
def test_values_of_attributes_that_no_rule_mentions_are_ignored(
    matcher: tamis.Matcher, case: str
) -> None:
    _, values, _ = UNREADABLE[case]
    inside = pa.StructArray.from_arrays([values, pa.array([1, 2])], ["other", "a"])
    found = matcher.match_many(pa.table({"other": values, "m": inside, "n": [1, 5]}))
    assert found.to_pylist() == [
        {"event": 0, "rule": "map"},
        {"event": 1, "rule": "n"},
        {"event": 1, "rule": "map too"},
    ]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC", "+09:00", None])
def test_the_last_second_of_9999_in_any_zone(matcher: tamis.Matcher, zone: str | None) -> None:
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        table = pa.table({"t": stamps([0, LAST_SECOND * factor], unit, zone)})
        assert matcher.match_many(table)["rule"].to_pylist() == ["late", "hour"]
    both = pa.table({"t": stamps([0], "s", zone), "u": stamps([LAST_SECOND], "s", zone)})
    assert matcher.match_many(both)["rule"].to_pylist() == ["two"]


def test_nanoseconds_are_rounded_down() -> None:
    matcher = tamis.Matcher()
    matcher.add("at", "t = TIMESTAMP '1969-12-31 23:59:59.999999'")
    matcher.add("years", "year(t) = 1969 AND t < u")
    table = pa.table({"t": stamps([-1, -999, -1001], "ns"), "u": stamps([5, 5, 5], "ns")})
    assert matcher.match_many(table).to_pylist() == [
        {"event": 0, "rule": "at"},
        {"event": 0, "rule": "years"},
        {"event": 1, "rule": "at"},
        {"event": 1, "rule": "years"},
        {"event": 2, "rule": "years"},
    ]


def test_columns_without_values_may_have_any_type(matcher: tamis.Matcher) -> None:
    for kind in (pa.duration("s"), pa.binary(), pa.timestamp("s", "Mars/Olympus")):
        table = pa.table({"n": pa.nulls(2, kind), "m": [{"a": 1}, None]})
        assert matcher.match_many(table)["rule"].to_pylist() == ["map"]


def test_a_repeated_key_of_a_map_has_all_its_values(matcher: tamis.Matcher) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    items: list[Any] = [[("a", 1), ("a", 2), ("b", 6)], [("b", 5), ("a", 2)], None, []]
    table = pa.table({"m": pa.array(items, kind)})
    expected = [(0, "map"), (0, "map too"), (0, "sum"), (1, "map too"), (1, "sum")]
    found = matcher.match_many(table).to_pylist()
    assert [(match["event"], match["rule"]) for match in found] == expected
    unnamed = pa.table([pa.array([[("n", 1), ("n", 9)]], kind)], [""])
    assert matcher.match_many(unnamed)["rule"].to_pylist() == ["n"]
    joins = tamis.Matcher()
    joins.add("seen", "m.a = ANY (SELECT d.a FROM seen d)")
    joins.publish({"a": 2})
    assert joins.match_many(table)["event"].to_pylist() == [0, 1]


def test_rows_of_two_columns_with_one_name(matcher: tamis.Matcher) -> None:
    times = [datetime(2025, 1, 1, 23, tzinfo=UTC)]
    table = pa.table([pa.array(times), stamps([LAST_SECOND + 1], "s")], ["t", "t"])
    with pytest.raises(EventError, match=r"event 0: column 't' .*years 1 to 9999"):
        matcher.match_many(table)
    table = pa.table([pa.array(times), stamps([0], "s", "Asia/Tokyo")], ["t", "t"])
    assert matcher.match_many(table)["rule"].to_pylist() == ["late", "hour"]
