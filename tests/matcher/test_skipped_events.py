"""Events that are refused: skipped and reported, in every container; and answers in lists."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis
from tamis import BadEvent, EventError, Matcher, SchemaError


def make_matcher(**options: Any) -> Matcher:
    """Rules on every kind of values."""
    matcher = Matcher(**options)
    matcher.add_many({"number": "n > 1", "text": "s LIKE 'a%'", "time": "t IS NOT NULL"})
    matcher.add("both", "n + m > 5")
    return matcher


GOOD: dict[str, Any] = {"n": 2, "s": "ab", "m": 9}
BAD: list[Any] = [
    {"n": 2**64},
    {"n": b"x"},
    {"s": "\ud800"},
    {"t": timedelta(1)},
    {"m": [1, Decimal(10**38 + 1)]},
    {1: 2},
    "text",
]


def test_mappings_that_are_refused_are_skipped_and_reported() -> None:
    matcher = make_matcher()
    events = [item for bad in BAD for item in (GOOD, bad)]
    skipped: list[BadEvent] = []
    found = matcher.match_many(events, on_error="skip", skipped=skipped)
    rules = matcher.match(GOOD)
    assert rules == ["number", "text", "both"]
    assert found.to_pydict() == {
        "event": [2 * i for i in range(len(BAD)) for _ in rules],
        "rule": rules * len(BAD),
    }
    assert [bad.event for bad in skipped] == [2 * i + 1 for i in range(len(BAD))]
    for bad, event in zip(skipped, BAD, strict=True):
        with pytest.raises(EventError) as caught:
            matcher.match(event)
        assert bad.message == str(caught.value)


def test_counts_and_best_rules_skip_too() -> None:
    matcher = make_matcher()
    events, skipped = [BAD[0], GOOD, BAD[1]], list[BadEvent]()
    counted = matcher.count_many(events, on_error="skip", skipped=skipped)
    assert counted.to_pydict() == {"event": [1], "matches": [3]}
    best = matcher.top_many(events, 1, on_error="skip", skipped=skipped)
    assert best["event"].to_pylist() == [1]
    assert [bad.event for bad in skipped] == [0, 2, 0, 2]


def test_rows_of_columns_are_skipped_for_all_their_reasons() -> None:
    matcher = make_matcher()
    far = pa.array([0, 2**62, None, 0], pa.timestamp("s"))
    table = pa.table(
        {
            "t": far,
            "s": pa.array([b"ab", b"ab", b"\xff", b"ab"]).view(pa.string()),
            "n": pa.array([2, 2, 2, 10**38 + 1], pa.decimal256(39)),
            "unmentioned": [b"x"] * 4,
        }
    )
    skipped: list[BadEvent] = []
    found = matcher.match_many(table, on_error="skip", skipped=skipped)
    assert found.to_pydict() == {"event": [0, 0, 0], "rule": ["number", "text", "time"]}
    assert sorted(bad.event for bad in skipped) == [1, 2, 3]
    with pytest.raises(EventError, match="event 1: column 't'") as caught:
        matcher.match_many(table)
    assert list(caught.value.refused) == [1]


def test_a_column_that_rules_cannot_compare_skips_the_rows_that_have_values() -> None:
    matcher = make_matcher()
    table = pa.table({"n": pa.array([None, timedelta(1)], pa.duration("s")), "s": ["a", "a"]})
    skipped: list[BadEvent] = []
    assert matcher.match_many(table, on_error="skip", skipped=skipped)["event"].to_pylist() == [0]
    assert [bad.event for bad in skipped] == [1]


def test_events_that_contradict_the_schema_are_skipped() -> None:
    matcher = Matcher(schema={"when": "timestamp", "n": "integer"})
    matcher.add("r", "when > '2020-01-01' AND n > 0")
    rows = [
        {"when": "2024-01-01", "n": 1.0},
        {"when": "yesterday", "n": 1.0},
        {"when": "2024-01-01", "n": 1.5},
        {"when": datetime(2024, 1, 1), "n": 2},
    ]
    texts = [{**row, "when": str(row["when"])} for row in rows]
    for events in (rows, pa.Table.from_pylist(texts), pd.DataFrame(texts), pl.DataFrame(texts)):
        skipped: list[BadEvent] = []
        found = matcher.match_many(events, on_error="skip", skipped=skipped)
        assert found["event"].to_pylist() == [0, 3]
        assert [bad.event for bad in skipped] == [1, 2]
        with pytest.raises(SchemaError):
            matcher.match_many(events)


def test_rules_that_refer_to_documents_skip_too() -> None:
    matcher = Matcher()
    matcher.add("new", "NOT EXISTS (SELECT 1 FROM seen d WHERE d.n = n)")
    for events in ([{"n": 1}, {"n": b"x"}], pa.table({"n": pa.array([b"x", None])})):
        skipped: list[BadEvent] = []
        matcher.match_many(events, on_error="skip", skipped=skipped)
        assert len(skipped) == 1


def test_without_a_list_a_warning_reports_what_was_skipped() -> None:
    matcher = make_matcher()
    with pytest.warns(UserWarning, match="2 events were skipped; event 0: .*skipped="):
        matcher.match_many([BAD[0], GOOD, BAD[1]], on_error="skip")
    reader = pa.RecordBatchReader.from_batches(
        pa.schema([("n", pa.binary())]), [pa.record_batch({"n": [b"x"]})]
    )
    answers = matcher.count_many(reader, on_error="skip")
    with pytest.warns(UserWarning, match="1 events were skipped"):
        assert answers.read_all().num_rows == 0


def test_too_large_events_are_skipped_in_every_container() -> None:
    matcher = make_matcher(limits=tamis.Limits(event_values=3, event_characters=10))
    events: list[dict[str, Any]] = [
        {"n": 2, "s": ["a", "b"]},
        {"n": 2, "s": ["a", "b", "c"]},
        {"n": 2, "s": ["a" * 11]},
        {"n": None, "s": ["é" * 10]},
    ]
    for container in (events, pa.Table.from_pylist(events), pl.DataFrame(events)):
        skipped: list[BadEvent] = []
        counted = matcher.count_many(container, on_error="skip", skipped=skipped)
        assert counted["event"].to_pylist() == [0, 3]
        assert [bad.message.rpartition(" ")[2] for bad in skipped] == [
            "event_values",
            "event_characters",
        ]
    nested = pa.table(
        {"m": [{"x": [{"y": "abcdefghijk"}]}], "d": pa.array(["a"]).dictionary_encode()}
    )
    with pytest.raises(EventError, match=r"event 0: .*event_characters"):
        matcher.match_many(nested)


def test_bad_options_are_refused() -> None:
    matcher = make_matcher()
    with pytest.raises(ValueError, match="on_error is 'raise' or 'skip'"):
        matcher.match_many([], on_error="ignore")  # type: ignore[arg-type]  # refused
    with pytest.raises(ValueError, match="pass on_error='skip'"):
        matcher.match_many([], skipped=[])
    with pytest.raises(ValueError, match="form is 'pairs' or 'lists'"):
        matcher.match_many([], form="rows")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize("ids", ["texts", "numbers", "both"])
@pytest.mark.parametrize("segments", [1, 3])
def test_lists_have_the_same_rules_as_pairs(ids: str, segments: int) -> None:
    matcher = Matcher()
    for part in range(segments):
        rules = [
            (
                f"r{part}-{i}" if ids == "texts" or (ids == "both" and i % 2) else part * 100 + i,
                f"n % {i + 1} = 0",
            )
            for i in range(20)
        ]
        matcher.add_many(rules)
    events: list[Any] = [{"n": n} for n in range(30)] + [{}, {"n": b"x"}, {"n": 5}]
    skipped: list[BadEvent] = []
    lists = matcher.match_many(events, form="lists", on_error="skip", skipped=skipped)
    lists.validate(full=True)
    assert lists["event"].to_pylist() == [n for n in range(33) if n != 31]
    wanted = [matcher.match(event) for n, event in enumerate(events) if n != 31]
    assert lists["rules"].to_pylist() == wanted
    assert pa.types.is_dictionary(lists.schema.field("rules").type.value_type) == (ids == "texts")


def test_lists_without_rules_or_events() -> None:
    matcher = Matcher()
    assert matcher.match_many([{}, {"n": 1}], form="lists").to_pydict() == {
        "event": [0, 1],
        "rules": [[], []],
    }
    matcher.add("r", "n = 1")
    assert matcher.match_many([], form="lists").num_rows == 0
    reader = pa.RecordBatchReader.from_batches(
        pa.schema([("n", pa.int64())]), [pa.record_batch({"n": [1, 2]})]
    )
    assert matcher.match_many(reader, form="lists").read_all()["rules"].to_pylist() == [["r"], []]
