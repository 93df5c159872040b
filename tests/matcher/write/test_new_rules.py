"""Rules of `add_many` as columns: the same as one by one, whatever form they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.errors import DuplicateRuleError, RuleError
from tamis.expr.model import LOGICS, Logic
from tamis.expr.text.grammar import parse
from tamis.matcher.write import builder
from tamis.matcher.write.new_rules import NewRules, read_rules
from tests import randoms
from tests.randoms import EVERYTHING
from tests.spellings import spell_rule

Report = list[tuple[Any, int | None, str]]


def add_by_both_roads(
    monkeypatch: pytest.MonkeyPatch, rules: Any, **options: Any
) -> tuple[tamis.Matcher, tamis.Matcher, Report]:
    """Matchers whose rules were read with the kernels and without, and the equal reports."""
    made = []
    monkeypatch.setattr(builder, "is_loaded", lambda: False)
    for least in (0, 10**9):
        monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", least)
        matcher = tamis.Matcher(**options)
        made.append((matcher, matcher.add_many(rules, on_error="skip")))
    (fast, fast_report), (full, full_report) = made
    assert fast_report == full_report
    return fast, full, [tuple(bad) for bad in fast_report.bad]


def assert_alike(fast: tamis.Matcher, full: tamis.Matcher, events: Sequence[Any]) -> None:
    assert list(fast) == list(full)
    assert fast.attributes() == full.attributes()
    for id in fast:
        assert fast.rule(id) == full.rule(id)
    for event in events:
        assert fast.match(event) == full.match(event)
        assert fast.top(event, 5) == full.top(event, 5)


@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_random_texts_by_both_roads(monkeypatch: pytest.MonkeyPatch, logic: str) -> None:
    rng = Random(11)
    texts = [spell_rule(rng) for _ in range(1500)]
    # Some ids are there twice, of good and of bad rules.
    rules = [(rng.randrange(1300), text) for text in texts]
    values = [1, -2, 0, 1.5, "a", "", "it's", True, 0.1, 7, 1000]
    names = ["a", "B_1", "user.name", "in", "a b"]
    events = [{name: rng.choice(values) for name in names if rng.random() < 0.7} for _ in range(40)]
    fast, full, bad = add_by_both_roads(monkeypatch, rules, logic=logic)
    assert len(fast) > 500 < len(bad)
    assert_alike(fast, full, events)


def test_random_rules_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(12)
    rules: list[Any] = []
    for number in range(400):
        rule = randoms.rule(rng, EVERYTHING)
        rules.append((f"r{number}", rule if rng.random() < 0.5 else tamis.to_sql(rule)))
    events = [randoms.event(rng, EVERYTHING) for _ in range(40)]
    fast, full, _ = add_by_both_roads(monkeypatch, rules)
    assert_alike(fast, full, events)


def test_a_schema_by_both_roads(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"t": "timestamp", "x": "integer", "tags": "string[]"}
    texts = [
        "t >= '2024-01-01' AND x > 1 AND x < 5",
        "t = 'no time' AND x = 1",
        "t < DATE '2024-06-01' OR tags = 'a'",
        "tags = 'a' AND tags > 'b'",
    ]
    rules = [(i, texts[i % 4]) for i in range(60)]
    events = [{"t": "2024-02-03", "x": 3}, {"tags": ["a", "c"]}, {"t": "2023-01-01", "x": 1}]
    fast, full, bad = add_by_both_roads(monkeypatch, rules, schema=schema)
    assert len(bad) == 15
    assert_alike(fast, full, events)


WEIGHTS: list[dict[Any, Any]] = [
    {("a", 1): 2.0, ("b", "x"): 0.5},
    {("a", 1): 3},
    {("a", 9): 3.0},
    {("c", True): 2.0, ("a", 2): 4.0},
    {"c > 3": 2.0},
    {("a", 1): -1.0},
    {("a", 1): True},
    {("a", None): 1.0},
    {("d", 5): 2.0},
    {("missing", 5): 2.0},
    {},
]
WEIGHTED = [
    "a = 1 AND b = 'x'",
    "a IN (2, 1, 3) AND b <> 'x'",
    "(a = 1 AND c > 3) OR (b = 'x' AND a = 2)",
    "(a = 1 OR b = 'x') AND c = TRUE",
    "a = 1 AND d BETWEEN 5 AND 5",
    "d = 5 AND a = 1",
    "NOT a = 1 AND b IN ('x', 'y')",
    "lower(b) = 'x' AND a = 1",
]


@pytest.mark.parametrize("logic", LOGICS)
def test_weights_by_both_roads(monkeypatch: pytest.MonkeyPatch, logic: Logic) -> None:
    rules = [
        tamis.Rule(f"{i} {j}", text, logic, weights)
        for i, text in enumerate(WEIGHTED)
        for j, weights in enumerate(WEIGHTS)
    ]
    events: list[dict[str, Any]] = [
        {"a": 1, "b": "x", "c": 5, "d": 5},
        {"a": [1, 2, 3], "b": ["x", "y"], "c": True, "d": 5},
        {"a": 2, "b": "y", "c": 4},
        {"b": "x"},
    ]
    fast, full, bad = add_by_both_roads(monkeypatch, rules)
    assert len(bad) > 20 < len(fast)
    assert_alike(fast, full, events)
    for event in events:
        assert fast.top(event, 100) == full.top(event, 100)


def test_the_first_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    good = [(i, f"x = {i}") for i in range(30)]
    with pytest.raises(RuleError, match="at character 4") as error:
        tamis.Matcher().add_many([*good, (30, "x = "), (0, "x = 1")])
    assert error.value.rule_id == 30
    with pytest.raises(DuplicateRuleError) as error:
        tamis.Matcher().add_many([*good, (0, "x = 1"), (30, "x = ")])
    assert error.value.rule_id == 0


def test_of_equal_ids_the_first_good_rule_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    rules = [("a", "x ="), ("a", "x = 1"), ("a", "x = 2"), *((i, "x = 3") for i in range(30))]
    matcher = tamis.Matcher()
    report = matcher.add_many(rules, on_error="skip")
    assert [bad.id for bad in report.bad] == ["a", "a"]
    assert matcher.rule("a").text == "x = 1"
    assert matcher.match({"x": 1}) == ["a"]


# --- Forms of rules ---------------------------------------------------------------------

TEXTS = [f"x = {i % 7} AND y <> 'é{i}'" for i in range(40)]


def as_table(**more: Any) -> pa.Table:
    return pa.table({"id": list(range(40)), "rule": TEXTS, **more})


FORMS: dict[str, Callable[[], Any]] = {
    "pairs": lambda: list(enumerate(TEXTS)),
    "lists": lambda: [[id, text] for id, text in enumerate(TEXTS)],
    "mapping": lambda: dict(enumerate(TEXTS)),
    "iterator": lambda: iter(enumerate(TEXTS)),
    "mappings": lambda: [{"id": id, "rule": text} for id, text in enumerate(TEXTS)],
    "rules": lambda: [tamis.Rule(id, text) for id, text in enumerate(TEXTS)],
    "models": lambda: [(id, parse(text)) for id, text in enumerate(TEXTS)],
    "table": as_table,
    "batch": lambda: as_table().to_batches()[0],
    "chunks": lambda: pa.concat_tables([as_table().slice(0, 7), as_table().slice(7)]),
    "slice": lambda: pa.concat_tables([as_table()] * 2).combine_chunks().slice(40),
    "large": lambda: as_table().cast(pa.schema([("id", pa.int8()), ("rule", pa.large_string())])),
    "unsigned": lambda: as_table().cast(pa.schema([("id", pa.uint64()), ("rule", pa.string())])),
    "logics": lambda: as_table(logic=["strong", None] * 20),
    "fields": lambda: as_table(tags=[["a"]] * 40, priority=[3] * 40),
    "reader": lambda: as_table().to_reader(),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rules(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    matcher = tamis.Matcher()
    assert matcher.add_many(FORMS[form]()).added == 40
    assert list(matcher) == list(range(40))
    assert matcher.match({"x": 3, "y": "é3"}) == [10, 17, 24, 31, 38]
    assert matcher.rule(7).expr == parse(TEXTS[7])
    assert matcher.rule(7).logic == "strong"


def test_a_table_of_strings_and_logics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    ids = [f"é{i}" for i in range(40)]
    table = pa.table({"id": ids, "rule": ["x <> 1"] * 40, "logic": ["weak", "strong"] * 20})
    matcher = tamis.Matcher()
    matcher.add_many(table)
    assert matcher.match({}) == ids[::2]
    assert matcher.rule("é1").logic == "strong"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", [None, *range(1, 40)]),
        ("rule", [None, *TEXTS[1:]]),
        ("logic", ["wrong", *["weak"] * 39]),
        ("id", pa.array([2**63, *range(1, 40)], pa.uint64())),
    ],
)
def test_bad_rows_of_a_table(column: str, values: Any) -> None:
    table = pa.table({"id": list(range(40)), "rule": TEXTS, column: values})
    report = tamis.Matcher().add_many(table, on_error="skip")
    assert report.added == 39
    assert [bad.id for bad in report.bad] == [table["id"][0].as_py()]


def test_a_table_with_invalid_texts_is_refused() -> None:
    broken = pa.array([b"x = '\xff'"] * 40, pa.binary()).view(pa.string())
    table = pa.table({"id": list(range(40)), "rule": broken})
    with pytest.raises(RuleError, match="the table of rules is damaged"):
        tamis.Matcher().add_many(table)


def test_surrogates_and_large_ids_are_reported() -> None:
    rules = [*enumerate(TEXTS), (2**63, "x = 1"), ("\ud800", "x = 1"), (41, "x = '\ud800'")]
    report = tamis.Matcher().add_many(rules, on_error="skip")
    assert report.added == 40
    assert [bad.id for bad in report.bad] == [2**63, "\ud800", 41]


def test_bad_weights_spoil_no_other_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    rules: list[Any] = [tamis.Rule(id, text) for id, text in enumerate(TEXTS)]
    bad: list[Any] = [{("x", None): 1.0}, {("x", 1): object()}, {("x", 1): 10**400}, {1: 1.0}]
    rules += [tamis.Rule(f"bad {i}", "x = 1", weights=weights) for i, weights in enumerate(bad)]
    report = tamis.Matcher().add_many(rules, on_error="skip")
    assert report.added == 40
    assert [one.id for one in report.bad] == ["bad 0", "bad 1", "bad 2", "bad 3"]


def test_plain_rules_need_no_objects() -> None:
    new = read_rules(as_table(), "strong", None)
    assert isinstance(new, NewRules)
    assert new.objects == {}
    assert new.are_texts().all()
    assert np.array_equal(new.columns.ids.numbers, np.arange(40))
