"""Frames of pandas and polars: what a row holds is what a mapping holds, whatever columns mix."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis
import tamis.pandas
import tamis.polars
from tamis.sklearn import RuleTransformer

NOON: Final = datetime(2024, 1, 1, 12)

POOL: Final[list[Any]] = [
    1, 2, True, False, 1.5, 1.0, float("nan"), None, "a", "b", b"a", "\ud800",
    NOON, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=timezone(timedelta(hours=3))),
    date(2024, 1, 1), time(1), timedelta(1), pd.NA, pd.NaT, pd.Timestamp(1),
    pd.Timestamp("2024-01-01", tz="Europe/Paris"), pd.Period("2024"), pd.Interval(0, 1),
    Decimal("1.5"), Decimal("nan"), Decimal("inf"), 2**63, 2**64, 2**70, 1j, UUID(int=1),
    np.float32(0.1), np.int8(1), np.bool_(True), np.str_("a"), np.datetime64("2024"),
    np.datetime64("NaT", "us"), [1, 2], [1, "a"], [1, True], ["a", b"b"], [[1], 2], [], {}, [None],
    [float("nan"), 1], [pd.NA, 1], (1, 2), {1, 2}, np.array([1, 2]), np.array(["a"]),
    {"x": 1}, {"x": "a"}, {"x": [1, True]}, {1: 2}, [date(2024, 1, 1), NOON],
]  # fmt: skip

RULES: Final = {
    "one": "a = 1",
    "true": "a = TRUE",
    "text": "a = 'a'",
    "more": "a > 1.2",
    "none": "a IS NULL",
    "some": "a IS NOT NULL",
    "noon": "a = TIMESTAMP '2024-01-01 12:00:00'",
    "day": "a >= TIMESTAMP '2024-01-01 00:00:00'",
    "inner": "a.x = 1",
    "inner text": "a.x = 'a'",
    "other": "b = 1",
}


@pytest.fixture(scope="module")
def matcher() -> tamis.Matcher:
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    return matcher


def agree(matcher: tamis.Matcher, frame: Any, events: list[dict[str, Any]]) -> None:
    """The frame has the answers of the events, and the same of them are refused."""
    expected, bad = [], []
    for number, event in enumerate(events):
        try:
            expected += [(number, id) for id in matcher.match(event)]
        except tamis.EventError:
            bad.append(number)
    skipped: list[tamis.BadEvent] = []
    found = matcher.match_many(frame, on_error="skip", skipped=skipped)
    pairs = zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)
    assert sorted(one.event for one in skipped) == bad
    assert list(pairs) == expected
    if bad:
        with pytest.raises(tamis.EventError):
            matcher.count_many(frame)


def rows(items: Any) -> list[dict[str, Any]]:
    plain = [item.tolist() if isinstance(item, np.ndarray) else item for item in items]
    return [{"a": item, "b": number} for number, item in enumerate(plain)]


def draw(seed: int) -> list[Any]:
    random = Random(seed)
    pool = random.sample(POOL, random.choice((1, 2, 2, 3, 8)))
    return [random.choice(pool) for _ in range(random.choice((1, 2, 3, 5)))]


@pytest.mark.parametrize("seed", range(80))
def test_pandas_columns_of_any_objects_match_as_mappings_do(
    matcher: tamis.Matcher, seed: int
) -> None:
    column = pd.Series(draw(seed), dtype=object)
    try:
        if seed % 4 == 1:
            column = pd.Series(column.tolist())
        elif seed % 4 == 2:
            column = pd.Series(pd.Categorical(column.tolist()))
        elif seed % 4 == 3:
            column = column.convert_dtypes()
    except (TypeError, ValueError, OverflowError, RuntimeWarning):
        pass  # pandas has no such type for these
    if any(isinstance(item, complex) and item != item for item in column.tolist()):
        pytest.skip("pandas holds this for missing")
    frame = pd.DataFrame({"a": column, "b": range(len(column))})
    agree(matcher, frame, rows(column.tolist()))


@pytest.mark.parametrize("seed", range(40))
def test_polars_columns_of_any_objects_match_as_mappings_do(
    matcher: tamis.Matcher, seed: int
) -> None:
    items = [item for item in draw(seed) if not isinstance(item, Decimal)]  # these panic in polars
    try:
        is_object = seed % 3 == 0
        column = (
            pl.Series("a", items, dtype=pl.Object)
            if is_object
            else pl.Series("a", items, strict=False)
        )
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        pytest.skip("polars has no type for these")
    frame = column.to_frame().with_columns(pl.Series("b", list(range(len(items)))))
    agree(matcher, frame, rows(column.to_list()))


def test_pandas_columns_of_every_type(matcher: tamis.Matcher) -> None:
    day = pd.to_datetime(["2024-01-01", None])
    columns: dict[str, Any] = {
        "nullable": pd.array([1, None], "Int64"),
        "string": pd.array(["a", None], "string"),
        "boolean": pd.array([True, None], "boolean"),
        "half": np.array([1.5, np.nan], np.float16),
        "zone": day.tz_localize("Europe/Paris"),
        "time": day,
        "category": pd.Categorical(["a", None]),
        "sparse": pd.arrays.SparseArray([1.0, np.nan]),
        "arrow": pd.array([Decimal("1.5"), None], pd.ArrowDtype(pa.decimal128(5, 2))),
    }
    for values in columns.values():
        frame = pd.DataFrame({"a": values, "b": [0, 1]})
        agree(matcher, frame, rows([frame["a"][0], None]))
    for refused in (pd.period_range("2024", periods=2), pd.interval_range(0, 2)):
        for frame in (pd.DataFrame({"a": refused}), pd.DataFrame({"a": pd.Categorical(refused)})):
            with pytest.raises(tamis.EventError, match="event 0: "):
                matcher.match_many(frame)
        assert matcher.count_many(pd.DataFrame({"c": refused, "b": [0, 1]}))["matches"][1].as_py()


def test_pandas_columns_of_several_levels_or_of_one_name(matcher: tamis.Matcher) -> None:
    twice = pd.DataFrame([[1, 2.0], [3, 4.0]], columns=["a", "a"])
    agree(matcher, twice, [{"a": [1, 2.0]}, {"a": [3, 4.0]}])
    mixed = pd.DataFrame({"x": [1, True], "y": ["a", 2]}, dtype=object)
    mixed.columns = pd.Index(["a", "a"])
    agree(matcher, mixed, [{"a": [1, "a"]}, {"a": [True, 2]}])
    levels = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    agree(matcher, pd.DataFrame([[1, 2]], columns=levels), [{"('a', 'x')": 1}])
    agree(matcher, pd.DataFrame(index=range(2)), [{}, {}])
    agree(matcher, pd.DataFrame({"a": []}), [])


def test_the_index_of_a_frame_is_an_attribute_of_its_name() -> None:
    matcher = tamis.Matcher()
    matcher.add_many({"name": "who = 'ann'", "mixed": "a = TRUE"})
    for values in ([1, 2], [True, "x"]):
        frame = pd.DataFrame({"a": values}, index=pd.Index(["ann", "bob"], name="who"))
        assert "name" in matcher.match_many(frame)["rule"].to_pylist()
    # The accessor leaves it out.
    assert "name" not in frame.tamis.match(matcher)["rule"].tolist()


def test_columns_of_mixed_kinds_work_with_accessors_and_the_transformer() -> None:
    rules = {"one": "a = 1", "true": "a = TRUE"}
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    items: list[Any] = [1, True, "x", [1, True]]
    frame = pd.DataFrame({"a": pd.Series(items, dtype=object)})
    assert frame.tamis.count(matcher).tolist() == [1, 1, 0, 2]
    assert frame.tamis.match(matcher)["rule"].tolist() == ["one", "true", "one", "true"]
    assert frame.tamis.matrix(matcher).to_numpy().sum() == 4
    objects = pl.DataFrame({"a": pl.Series(items, dtype=pl.Object)})
    assert objects.tamis.count(matcher).to_list() == [1, 1, 0, 2]  # type: ignore[attr-defined]
    expected = [[1, 0], [0, 1], [0, 0], [1, 1]]
    for events in (frame, objects, [{"a": item} for item in items]):
        assert RuleTransformer(rules).fit_transform(events).toarray().tolist() == expected
    reader = pa.table({"a": [1, 2]}).to_reader()
    transformer = RuleTransformer(rules).fit(frame)
    assert transformer.transform(reader).toarray().tolist() == [[1, 0], [0, 0]]


def test_polars_columns_of_every_type(matcher: tamis.Matcher) -> None:
    columns = [
        pl.Series(["a", None], dtype=pl.Categorical),
        pl.Series(["a", None], dtype=pl.Enum(["b", "a"])),
        pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
        pl.Series([[1, 2], None]),
        pl.Series([{"x": 1}, None]),
        pl.Series([Decimal("1.5"), None]),
        pl.Series([time(1), None]),
        pl.Series([timedelta(1), None]),
        pl.Series([NOON, None]),
        pl.Series([NOON.date(), None]),
        pl.Series([b"a", None]),
        pl.Series([None, None]),
        pl.Series([2**100, None], dtype=pl.Int128),
    ]
    for column in columns:
        agree(matcher, pl.DataFrame({"a": column, "b": [0, 1]}), rows(column.to_list()))


def test_series_hold_events_or_json_texts(matcher: tamis.Matcher) -> None:
    texts, events = ['{"a": 1}', None], [{"a": 1}, None]
    for series in (pd.Series(texts), pl.Series(texts), pd.Series(events), pl.Series(events)):
        found = matcher.match_many(series)["rule"].to_pylist()
        assert found == ["one", "some", "none"]
    with pytest.raises(tamis.EventError, match="a series of mappings or of JSON texts"):
        matcher.match_many(pd.Series([1, "a"]))
    with pytest.raises(tamis.EventError, match="expected a column of JSON texts"):
        matcher.match_many(pl.Series([1, 2]))


def test_rules_come_from_frames_whose_ids_are_of_two_kinds() -> None:
    matcher = tamis.Matcher()
    matcher.add_many(pd.DataFrame({"id": [1, "x"], "rule": ["a = 1", "a = 1"]}))
    assert matcher.match({"a": 1}) == [1, "x"]


def test_a_row_of_a_frame_is_given_as_a_mapping(matcher: tamis.Matcher) -> None:
    row = pd.DataFrame({"a": [1], "c": [pd.NA]}).iloc[0]
    assert matcher.match(row.to_dict()) == ["one", "some"]
    with pytest.raises(tamis.EventError, match=r"not Series; give its to_dict\(\)"):
        matcher.match(row)
    with pytest.raises(tamis.EventError, match="an event is a mapping"):
        matcher.match_many(np.array([(1,)], [("a", int)]))
