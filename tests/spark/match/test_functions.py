"""Rules with functions on Spark, and functions compared with those of Spark SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tamis
from tamis import spark as ts
from tamis.expr.event import flatten
from tamis.expr.functions.derive import derivation, read_derived_name
from tests.matcher.test_functions import make_events, make_rules
from tests.spark.indexes import publish_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRINGS = ["", "a", "ab", "abc", "abcdef", "Straße", "ÅÉ", "日本語", " x ", "ΑΣ", "İI", "  "]
INTEGERS = [0, 1, -1, 5, -7, 255, 2**40, -(2**63), 2**63 - 1]
TEXTS = ["2024-02-29 13:14:15", "2024-2-9", "29/02/2024 1:05 PM", "31/12/1999 12:00 AM", "x", ""]
TEXTS += ["2024-02-30 00:00:00", "2024-02-29T13:14:15.123+05:30", "Feb 9, 2024", "20240209"]
TIMES = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 3, 10, 6, 59, 59, tzinfo=UTC),
    datetime(2024, 3, 10, 7, 0, tzinfo=UTC),
    datetime(2020, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2021, 1, 3, tzinfo=UTC),
]


def nothing_if_empty(text: str) -> str:
    """An empty substring is absent."""
    return f"nullif({text}, '')"


SAME: dict[str, tuple[list[Any], list[str]]] = {
    "s string": (STRINGS, ["length(s)", "lower(s)", "upper(s)", "trim(s)", "upper(trim(s))"]),
    "n bigint": (INTEGERS, ["bin(n)", "n % 4", "n % -4", "abs(n % 100)"]),
    "t timestamp": (
        TIMES,
        """year(t) quarter(t) month(t) weekofyear(t) day(t) dayofmonth(t) dayofyear(t) dayofweek(t)
        hour(t) minute(t) second(t) from_utc_timestamp(t,'America/New_York')
        hour(from_utc_timestamp(t,'Asia/Kolkata'))""".split(),
    ),
}
"""Expressions that mean the same in both, by the column they use."""

PLACES = [(start, length) for start in (-4, -2, -1, 0, 1, 2, 4) for length in (None, 0, 3, -1)]
PATTERNS = [
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-M-d",
    "dd/MM/yyyy h:mm a",
    "dd/MM/yyyy hh:mm a",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "MMM d, yyyy",
    "yyyyMMdd",
]


def evaluate_in_tamis(text: str, values: list[Any]) -> list[Any]:
    derived = derivation(read_derived_name(text))
    (item,) = derived.inputs
    found = [derived.values(flatten({item.attribute: value})) for value in values]
    return [some[0] if some else None for some in found]


def evaluate_in_spark(
    spark: SparkSession, column: str, values: list[Any], texts: list[str]
) -> list[Any]:
    """Evaluate all expressions in one Spark query; a list of values for each."""
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(values)], f"i int, {column}")
    evaluated = frame.coalesce(1).selectExpr("i", *[f"{t} AS r{n}" for n, t in enumerate(texts)])
    rows = sorted(evaluated.collect(), key=lambda row: row["i"])
    return [list(column) for column in zip(*(row[1:] for row in rows), strict=True)]


def without_zones(values: list[Any]) -> list[Any]:
    """Drop zones: Spark gives local times, and the session's zone is UTC."""
    return [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in values]


def test_functions_equal_those_of_spark(spark: SparkSession) -> None:
    for column, (values, texts) in SAME.items():
        answers = evaluate_in_spark(spark, column, values, texts)
        for text, answer in zip(texts, answers, strict=True):
            assert without_zones(evaluate_in_tamis(text, values)) == without_zones(answer), text
    substrings = [
        f"substring(s, {start})" if length is None else f"substring(s, {start}, {length})"
        for start, length in PLACES
    ]
    answers = evaluate_in_spark(spark, "s string", STRINGS, list(map(nothing_if_empty, substrings)))
    for text, answer in zip(substrings, answers, strict=True):
        assert evaluate_in_tamis(text, STRINGS) == answer, text


def test_timestamps_are_parsed_as_in_spark(spark: SparkSession) -> None:
    escaped = [pattern.replace("'", "\\'") for pattern in PATTERNS]
    expressions = [f"try_to_timestamp(s, '{pattern}')" for pattern in escaped]
    answers = evaluate_in_spark(spark, "s string", TEXTS, expressions)
    for pattern, answer in zip(PATTERNS, answers, strict=True):
        doubled = pattern.replace("'", "''")
        assert without_zones(
            evaluate_in_tamis(f"to_timestamp(s, '{doubled}')", TEXTS)
        ) == without_zones(answer), pattern


def test_rules_with_functions_match_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that only functions use are sent to Python, too."""
    rules, events = make_rules(92), make_events(60)
    publish_rules(tmp_path / "index", rules)
    kinds = """id int, name string, x double, y double, app string, tags array<string>, ip string,
        place struct<lat: double, lon: double>, seen timestamp"""
    rows = [
        {"id": i, **event, "x": None if event["x"] is None else float(event["x"])}
        for i, event in enumerate(events)
    ]
    frame = spark.createDataFrame(rows, kinds)
    found = {
        (row["id"], row["rule"]) for row in ts.match(frame, tmp_path / "index", keys="id").collect()
    }
    parsed = [(id, tamis.parse(text), logic) for id, text, logic in rules]
    assert found == {
        (number, id)
        for number, event in enumerate(events)
        for id, rule, logic in parsed
        if tamis.evaluate(rule, event, logic)
    }
