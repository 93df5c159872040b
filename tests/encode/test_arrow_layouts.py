"""Every layout of Arrow's types: what rows hold is what mappings hold, whatever lies in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import tamis
from attack.differential.arrow import arrow, check_arrow
from tamis.encode.arrow_layouts import nesting_depth, plain, take
from tamis.encode.arrow_rows import to_mappings
from tamis.expr.event import Kind, flatten
from tamis.matcher.analysis.observed import ObservedEvents
from tamis.matcher.schema import Schema
from tests.random_arrow import LEAVES, UNREADABLE, build, draw_kind, draw_table


def find(rules: dict[str, str], table: Any) -> list[tuple[int, Any]]:
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    found = matcher.match_many(table)
    return list(zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_tables_of_random_types_match_as_mappings_do(seed: int) -> None:
    assert check_arrow(arrow(Random(f"layouts {seed}"), 0.01)) is None


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: str(leaf.type))
def test_every_type_alone_and_in_lists(leaf: Any) -> None:
    matcher = tamis.Matcher()
    matcher.add("present", "a IS NOT NULL")
    for values in (range(len(leaf.values)), [None]):
        for place in values:
            column = leaf.build(Random(0), [place, None])
            offsets = pa.array([0, 1, 2], pa.int32())
            for array in (column, pa.ListArray.from_arrays(offsets, column)):
                event = leaf.show(place)
                if event is UNREADABLE:
                    with pytest.raises(tamis.EventError, match="event 0: column 'a'"):
                        matcher.match_many(pa.table({"a": array}))
                else:
                    expected = [len(matcher.match({"a": event})), 0]
                    counts = matcher.count_many(pa.table({"a": array}))["matches"]
                    assert counts.to_pylist() == expected


@pytest.mark.parametrize("seed", range(40))
def test_values_are_taken_from_every_type(seed: int) -> None:
    random = Random(f"take {seed}")
    kind = draw_kind(random, 3)
    tokens = [kind.draw(random) for _ in range(20)]
    column = build(random, kind, tokens)
    places = pa.array([3, None, 0, 1, 2, 3, 19, None], pa.uint8())
    taken = take(plain(column), places)
    assert len(taken) == len(places)
    taken.validate()
    pairs = zip(plain(taken).is_null().to_pylist(), places.to_pylist(), strict=True)
    if not pa.types.is_union(taken.type):
        assert all(is_null for is_null, place in pairs if place is None)


def test_unions_in_missing_structs_are_missing() -> None:
    codes, numbers = pa.array([0, 1, 0], pa.int8()), pa.array([1, 2, 3])
    union = pa.UnionArray.from_sparse(codes, [numbers, pa.array(["a", "b", "c"])])
    mask = pa.array([False, True, False])
    table = pa.table({"s": pa.StructArray.from_arrays([union], ["u"], mask=mask)})
    rules = {"numbers": "s.u >= 1", "texts": "s.u LIKE '%'", "none": "s.u IS NULL"}
    assert find(rules, table) == [(0, "numbers"), (1, "none"), (2, "numbers")]


def test_dictionaries_with_nulls_and_nans_in_lists() -> None:
    values = pa.array([1.0, None, float("nan"), 2.0])
    items = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3, 3], pa.int8()), values)
    table = pa.table({"n": pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), items)})
    rules = {"one": "n = 1", "two": "n = 2", "none": "n IS NULL"}
    assert find(rules, table) == [(0, "one"), (1, "none"), (2, "two")]


def test_whole_events_are_lists_of_structs_and_columns_of_structs() -> None:
    rows: list[Any] = [[{"a": 1}, {"a": 2, "b": "x"}], None, [], [{"a": 2}, None]]
    rules = {"one": "a = 1", "two": "a = 2", "x": "b = 'x'", "size": "length(b) = 1"}
    expected = [(0, "one"), (0, "two"), (0, "x"), (0, "size"), (3, "two")]
    column = pa.array(rows)
    again = pa.table([column, pa.array([None] * 4, pa.int64())], ["", "a"])
    for events in (column, pa.chunked_array([column]), pa.table([column], [""]), again):
        assert find(rules, events) == expected
    structs = pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": None}])
    assert find(rules, structs) == [(0, "one"), (0, "x"), (0, "size"), (2, "two")]
    # A function of two attributes is computed row by row.
    assert find({"sum": "a + c = 3"}, pa.array([[{"a": 1}, {"c": 2}], None])) == [(0, "sum")]


def test_keys_of_maps_are_strings_or_integers() -> None:
    rules = {"r": "m.a = 1"}
    names = pa.array(["a", "b"], pa.large_string()).dictionary_encode()
    offsets, items = pa.array([0, 1, 2], pa.int32()), pa.array([1, 1])
    strings = pa.MapArray.from_arrays(offsets, names.dictionary_decode(), items)
    assert find(rules, pa.table({"m": strings})) == [(0, "r")]
    for keys in ([b"a", b"\xff"], [1.5, 2.5], [{"x": 1}, {"x": 2}]):
        table = pa.table({"m": pa.MapArray.from_arrays(offsets, pa.array(keys), items)})
        with pytest.raises(tamis.EventError, match="event 0: column 'm' has maps with keys of"):
            find(rules, table)
        assert find({"other": "n IS NULL"}, table) == [(0, "other"), (1, "other")]
        matcher = tamis.Matcher()
        matcher.add_many(rules)
        assert len(matcher.match_many(table, on_error="skip", skipped=[])) == 0


def test_runs_of_extensions_are_unpacked() -> None:
    if not hasattr(pa, "uuid"):
        pytest.skip("this PyArrow has no such extensions")
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), flags)
    rules = {"on": "f = TRUE", "off": "f = FALSE"}
    assert find(rules, pa.table({"f": runs.slice(1)})) == [(0, "on"), (2, "off"), (3, "off")]
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID(int=1).bytes], pa.binary(16)))
    with pytest.raises(tamis.EventError, match="event 0: column 'f' has the type"):
        find(rules, pa.table({"f": ids}))


def test_lists_repeat_half_floats_and_decimals() -> None:
    for kind, one in ((pa.float16(), np.float16(1.5)), (pa.decimal128(5, 2), Decimal("1.5"))):
        items = pa.array([one, one, None, one], kind)
        lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, 4], pa.int32()), items)
        rules = {"r": "n = 1.5", "sum": "n + 1 = 2.5"}
        expected = [(row, rule) for row in (0, 2) for rule in rules]
        assert find(rules, pa.table({"n": lists})) == expected


def test_decimals_are_checked_against_what_their_type_promises() -> None:
    # DuckDB passes integers of 128 bits so.
    words = np.array([[0, 2**63 - 1], [5, 0]], np.int64)
    column = pa.Array.from_buffers(pa.decimal128(38, 0), 2, [None, pa.py_buffer(words)])
    with pytest.raises(tamis.EventError, match="event 0: column 'n' holds a decimal of more than"):
        find({"r": "n > 3"}, pa.table({"n": column}))
    most = pa.table({"n": pa.array([Decimal("9" * 38), Decimal("-" + "9" * 38)])})
    assert find({"r": "n > 3"}, most) == [(0, "r")]


def test_types_nested_too_deep_are_refused() -> None:
    deep, flat = pa.array([1]), pa.array([1])
    for _ in range(250):
        deep = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), deep)
    assert nesting_depth(deep.type) == 251
    with pytest.raises(tamis.EventError, match="event 0: column 'a' is nested more than 200"):
        find({"r": "a = 1"}, pa.table({"a": deep}))
    with pytest.raises(tamis.EventError, match="event 0: column 'a' is nested more than 200"):
        find({"r": "a = b + 1"}, pa.table({"a": deep, "b": flat}))
    assert find({"r": "b = 1"}, pa.table({"a": deep, "b": flat})) == [(0, "r")]


def test_fields_of_a_whole_event_have_names_that_events_may_have() -> None:
    column = pa.array([{"\x01a": 1}])
    with pytest.raises(tamis.EventError, match="begins with a control character"):
        find({"r": "a = 1"}, column)


def test_rows_that_contradict_the_schema_and_unreadable_ones_are_skipped_together() -> None:
    matcher = tamis.Matcher(schema={"n": "integer"})
    matcher.add("r", "n > 0 AND d IS NULL")
    durations = pa.array([None, timedelta(1), None])
    table = pa.table({"n": ["x", None, None], "d": durations})
    skipped: list[tamis.BadEvent] = []
    matcher.match_many(table, on_error="skip", skipped=skipped)
    assert sorted(bad.event for bad in skipped) == [0, 1]


def test_a_schema_reads_dictionaries_of_all_its_types() -> None:
    matcher = tamis.Matcher(schema={"n": "integer", "when": "timestamp"})
    matcher.add("r", "n > 0 AND when > '2020-01-01'")
    numbers = pa.array([1, 0]).dictionary_encode()
    times = pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2).dictionary_encode()
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, 1]), pa.array([1.0, 0.0])]
    )
    for column in (numbers, union):
        table = pa.table({"n": column, "when": times})
        assert matcher.match_many(table).to_pylist() == [{"event": 0, "rule": "r"}]


@pytest.mark.parametrize("encode", ["dictionary", "runs", "view", "extension"])
def test_json_texts_lie_in_any_layout(encode: str) -> None:
    texts = ['{"a": 1}', '{"a": 2}', None]
    column = pa.array(texts)
    if encode == "dictionary":
        column = column.dictionary_encode()
    elif encode == "runs":
        column = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), column)
    elif encode == "view":
        column = pa.array(texts, pa.string_view())
    elif hasattr(pa, "json_"):
        column = pa.ExtensionArray.from_storage(pa.json_(), column)
    assert find({"r": "a = 2"}, column) == [(1, "r")]
    assert find({"none": "a IS NULL"}, pa.nulls(2)) == [(0, "none"), (1, "none")]
    with pytest.raises(tamis.EventError, match="expected a column of JSON texts, not of int64"):
        find({"r": "a = 2"}, pa.array([1]))


def drawn_table(seed: int) -> tuple[pa.Table, list[dict[str, Any]], set[str]]:
    random = Random(f"rows {seed}")
    table, events, attributes = draw_table(random, 12, 3, 3)
    return table, events, {one.name for one in attributes}


@pytest.mark.parametrize("seed", range(60))
def test_rows_as_mappings_hold_what_events_hold(seed: int) -> None:
    table, events, _ = drawn_table(seed)
    rows = [row for batch in table.to_batches() for row in to_mappings(batch)]
    for row, event in zip(rows, events, strict=True):
        found, expected = flatten(row), flatten(event)
        assert found == expected
        refused = [{one[0] for one in flat.unreadable} for flat in (found, expected)]  # type: ignore[attr-defined]  # of a class of its own
        assert refused[0] == refused[1]


@pytest.mark.parametrize("seed", range(40))
def test_checks_of_events_see_the_same_kinds_in_rows_and_mappings(seed: int) -> None:
    table, events, names = drawn_table(seed)
    seen = [ObservedEvents(frozenset(names), Schema({})) for _ in range(2)]
    for batch in table.to_batches():
        seen[0].add(batch)
    seen[1].add(events)
    for name in names:
        # A column has its type's kind even if no kind can hold one of its values.
        more = seen[0].kinds(name) - seen[1].kinds(name)
        assert seen[0].kinds(name) >= seen[1].kinds(name)
        assert more <= {Kind.TIMESTAMP, Kind.STRING}


@pytest.mark.parametrize("seed", range(10))
def test_analyses_of_rules_read_tables_of_any_type(seed: int) -> None:
    table, events, names = drawn_table(seed)
    with tamis.Matcher() as matcher:
        matcher.add_many({n: f"`{name}` IS NULL" for n, name in enumerate(sorted(names))})
        matcher.add("other", "nothing IS NULL")
        good = [row for row, event in enumerate(events) if can_match(matcher, event)]
        matcher.check(table)
        for row in good:
            assert matcher.similar("other", events=table.slice(row, 1)) is not None


def can_match(matcher: tamis.Matcher, event: dict[str, Any]) -> bool:
    try:
        matcher.match(event)
    except tamis.EventError:
        return False
    return True
