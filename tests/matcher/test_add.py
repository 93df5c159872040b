"""Adding, replacing and removing rules: what a matcher takes, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tamis import And, BadRule, Matcher, Rule
from tamis.errors import DuplicateRuleError, RuleError, RuleSyntaxError, UnknownRuleError
from tests.matcher.matchers import MANY, SIZES, A, filled

# --- Adding -----------------------------------------------------------------------------


@SIZES
def test_an_added_rule_is_found(size: int) -> None:
    matcher = filled(size)
    assert matcher.match({"a": 1}) == []
    matcher.add("text", "a = 1")
    matcher.add("model", A)
    matcher.add("json", {"attr": "a", "=": 1})
    matcher.add("constant", True)
    assert matcher.match({"a": 1}) == ["text", "model", "json", "constant"]
    assert matcher.match({"a": 2}) == ["constant"]
    assert len(matcher) == size + 4


@SIZES
def test_a_taken_id_is_refused(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1")
    with pytest.raises(DuplicateRuleError, match=r"'r'.*replace=True") as caught:
        matcher.add("r", "a = 2")
    assert caught.value.rule_id == "r"
    assert matcher.match({"a": [1, 2]}) == ["r"]
    assert matcher.rule("r").text == "a = 1"


@SIZES
def test_a_replacement_counts_as_the_newest_rule(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1")])
    matcher.add("r", "a = 1 OR a = 2", replace=True, payload="new")
    assert matcher.match({"a": 1}) == ["s", "r"]
    assert matcher.match({"a": 2}) == ["r"]
    assert matcher.rule("r").payload == "new"
    assert list(matcher)[-2:] == ["s", "r"]
    assert len(matcher) == size + 2


@SIZES
def test_replacing_an_unknown_rule_adds_it(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1", replace=True)
    assert matcher.match({"a": 1}) == ["r"]


@SIZES
@pytest.mark.parametrize("bad", ["a = ", "a RLIKE '('", And((A,)), {"attr": "a"}])
def test_a_bad_rule_does_not_replace_a_good_one(size: int, bad: Any) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1", payload=7)
    with pytest.raises(RuleError) as caught:
        matcher.add("r", bad, replace=True)
    assert caught.value.rule_id == "r"
    with pytest.raises(RuleError):
        matcher.add_many([("q", "a = 1"), ("r", bad)], replace=True)
    report = matcher.add_many([("q", "a = 1"), ("r", bad)], replace=True, on_error="skip")
    assert (report.added, [skipped.id for skipped in report.bad]) == (1, ["r"])
    assert matcher.match({"a": 1}) == ["r", "q"]
    assert matcher.rule("r").payload == 7


@SIZES
def test_a_removed_rule_is_not_found_and_can_be_added_again(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1")])
    for _ in range(3):
        matcher.remove("r")
        assert matcher.match({"a": 1}) == ["s"]
        assert "r" not in matcher
        matcher.add("r", "a = 1")
        assert matcher.match({"a": 1}) == ["s", "r"]
    assert len(matcher) == size + 2


@pytest.mark.parametrize("id", ["unknown", 7, -1, None, [], True, 1.5])
def test_removing_an_unknown_rule_fails(id: Any) -> None:
    matcher = Matcher()
    matcher.add("r", "a = 1")
    for method in (matcher.remove, matcher.rule, lambda id: matcher.explain(id, {})):
        with pytest.raises(UnknownRuleError, match="no rule") as caught:
            method(id)
        assert isinstance(caught.value, KeyError)
        assert str(caught.value) == f"there is no rule {id!r}"
    assert id not in matcher
    assert len(matcher) == 1


@pytest.mark.parametrize("id", [True, None, 1.5, b"r", ["r"], ("r",), 2**63, -(2**63) - 1])
def test_bad_ids_are_refused(id: Any) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match="id"):
        matcher.add(id, "a = 1")
    report = matcher.add_many([(id, "a = 1"), ("r", "a = 1")], on_error="skip")
    assert [skipped.id for skipped in report.bad] == [id]
    assert list(matcher) == ["r"]


# --- Adding many ------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("more", [0, MANY])
def test_a_batch_is_added_completely_or_not_at_all(size: int, more: int) -> None:
    matcher = filled(size)
    good: list[tuple[Any, ...]] = [(f"g{i}", "a = 1") for i in range(more)]
    with pytest.raises(RuleSyntaxError, match="'bad'") as caught:
        matcher.add_many([*good, ("r", "a = 1"), ("bad", "a ="), ("s", "a = 1")])
    assert caught.value.rule_id == "bad"
    assert caught.value.position == 3
    assert len(matcher) == size
    assert matcher.match({"a": 1}) == []
    assert "r" not in matcher
    matcher.add_many([*good, ("r", "a = 1")])
    assert len(matcher) == size + more + 1


@SIZES
@pytest.mark.parametrize("more", [0, MANY])
def test_bad_rules_are_skipped_and_reported_on_request(size: int, more: int) -> None:
    matcher = filled(size)
    matcher.add("taken", "b = 1")
    rules: list[Any] = [
        *((f"g{i}", "b = 2") for i in range(more)),
        ("first", "a = 1"),
        ("syntax", "a = 1 AND"),
        ("null", "a = NULL"),
        ("taken", "a = 1"),
        ("first", "a = 1"),
        ("pattern", "a RLIKE '('"),
        ("model", And((A,))),
        (None, "a = 1"),
        "no pair",
        ("logic", "a = 1", "odd"),
        ("weak", "b <> 1", "weak"),
        ("last", "a = 1", None),
    ]
    report = matcher.add_many(rules, on_error="skip")
    assert report.added == more + 3
    assert all(isinstance(bad, BadRule) for bad in report.bad)
    by_id = {bad.id: bad for bad in report.bad}
    assert set(by_id) == {
        "syntax", "null", "taken", "first", "pattern", "model", None, "logic",
    }  # fmt: skip
    assert len(report.bad) == 9
    assert (by_id["syntax"].position, by_id["null"].position) == (9, 4)
    assert by_id["pattern"].position is not None
    assert by_id["taken"].position is None
    for id, words in {
        "syntax": "expected a condition",
        "null": "IS NULL",
        "taken": "taken",
        "first": "twice",
        "pattern": "invalid pattern",
        "model": "one child",
        "logic": "'strong' or 'weak'",
    }.items():
        assert words in by_id[id].message
    assert matcher.match({"a": 1}) == ["first", "weak", "last"]
    assert matcher.match({"b": 1}) == ["taken"]


def test_a_repeated_id_in_a_batch_is_refused() -> None:
    matcher = Matcher()
    for replace in (False, True):
        with pytest.raises(DuplicateRuleError, match=r"'r'.*twice"):
            matcher.add_many([("r", "a = 1"), ("r", "a = 2")], replace=replace)
    assert len(matcher) == 0


@SIZES
def test_a_batch_replaces_rules(size: int) -> None:
    matcher = filled(size)
    matcher.add_many({f"r{i}": "a = 1" for i in range(100)})
    with pytest.raises(DuplicateRuleError):
        matcher.add_many([("new", "a = 2"), ("r5", "a = 2")])
    report = matcher.add_many({f"r{i}": "a = 2" for i in range(50, 150)}, replace=True)
    assert report == (100, [])
    assert matcher.match({"a": 1}) == [f"r{i}" for i in range(50)]
    assert matcher.match({"a": 2}) == [f"r{i}" for i in range(50, 150)]
    assert len(matcher) == size + 150


def test_batches_in_every_form() -> None:
    rules = {"r": "a = 1", "s": "a <> 1"}
    logics = ["strong", None]
    table = pa.table({"rule": list(rules.values()), "id": list(rules), "logic": logics})
    forms: list[Any] = [
        rules,
        list(rules.items()),
        (pair for pair in rules.items()),
        [list(pair) for pair in rules.items()],
        [(id, rule, "strong") for id, rule in rules.items()],
        [Rule(id, rule, "strong") for id, rule in rules.items()],
        [Rule(id, rule) for id, rule in rules.items()],
        [{"id": id, "rule": rule} for id, rule in rules.items()],
        [{"id": id, "rule": rule, "logic": None, "note": 1} for id, rule in rules.items()],
        table,
        table.select(["id", "rule"]),
        table.to_batches()[0],
        table.to_reader(),
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        pd.DataFrame({"id": list(rules), "rule": list(rules.values())}),
        pl.DataFrame({"id": list(rules), "rule": list(rules.values())}),
    ]
    for form in forms:
        matcher = Matcher()
        assert matcher.add_many(form) == (2, [])
        assert matcher.match({"a": 1}) == ["r"]
        assert matcher.match({"a": 2}) == ["s"]


def test_a_table_may_have_a_logic_column() -> None:
    table = pa.table({"id": [1, 2, 3], "rule": ["a <> 1"] * 3, "logic": ["weak", "strong", None]})
    for logic, expected in (("strong", [1]), ("weak", [1, 3])):
        matcher = Matcher(logic=logic)
        matcher.add_many(table)
        assert matcher.match({}) == expected


def test_the_complete_form_of_a_rule_in_mappings_and_tables() -> None:
    start, end = datetime(2024, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {
            "id": "full",
            "rule": "a IN (1, 2)",
            "logic": "weak",
            "weights": [["a", 1, 2.5]],
            "payload": {"to": ["x", 1]},
            "tags": ["gold", "eu"],
            "priority": -3,
            "valid_from": start,
            "valid_until": end,
        },
        {"id": "bare", "rule": "a = 1"},
    ]
    as_text = [
        {
            **row,
            "weights": json.dumps(row["weights"]) if "weights" in row else None,
            "payload": json.dumps(row["payload"]) if "payload" in row else None,
        }
        for row in rows
    ]
    names = list(rows[0])
    table = pa.table({name: [row.get(name) for row in as_text] for name in names})
    structs = table.set_column(names.index("payload"), "payload", [[{"to": ["x"]}, None]])
    mapped = [{**rows[0], "weights": {("a", 1): 2.5}}, rows[1]]
    for form in (rows, mapped, table, table.to_reader(), structs, pl.from_arrow(table)):
        matcher = Matcher()
        assert matcher.add_many(form) == (2, [])
        full, bare = matcher.rule("full"), matcher.rule("bare")
        assert (full.logic, sorted(full.tags), full.priority) == ("weak", ["eu", "gold"], -3)
        assert (full.valid_from, full.valid_until) == (start, end)
        assert full.payload == {"to": ["x"] if form is structs else ["x", 1]}
        assert bare == Rule("bare", "a = 1")
        assert matcher.top({"a": 1}, at=start) == [("full", 2.5), ("bare", 1.0)]


def test_bad_fields_of_rules_are_skipped_and_reported() -> None:
    bad: list[dict[str, Any]] = [
        {"id": "no rule"},
        {"rule": "a = 1"},
        {"id": "tags", "rule": "a = 1", "tags": "gold"},
        {"id": "priority", "rule": "a = 1", "priority": "high"},
        {"id": "time", "rule": "a = 1", "valid_until": "soon"},
        {"id": "weights", "rule": "a = 1", "weights": "?"},
    ]
    report = Matcher().add_many([*bad, {"id": "good", "rule": "a = 1"}], on_error="skip")
    assert report.added == 1
    assert [refused.id for refused in report.bad] == [row.get("id") for row in bad]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (pa.table({"id": [1]}), "no column 'rule'"),
        (pa.table({"rule": ["a = 1"]}), "no column 'id'"),
        (pa.table({"id": [1], "rule": pa.array([None], pa.string())}), "rule 1.*NoneType"),
        (pa.table({"id": pa.array([None], pa.int64()), "rule": ["a = 1"]}), "id.*NoneType"),
        ("a = 1", "str"),
        (5, "int"),
        ([5], "pair"),
        ([("r",)], "pair"),
        ([("r", "a = 1", "weak", 4)], "pair"),
        ([("r", 5)], "'r'.*int"),
        ([("r", None)], "'r'.*NoneType"),
    ],
)
def test_bad_containers_of_rules_are_refused(rules: Any, words: str) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match=words):
        matcher.add_many(rules)
    assert len(matcher) == 0


def test_an_empty_batch_adds_nothing() -> None:
    matcher = Matcher()
    nothing: Any
    for nothing in (
        [],
        {},
        pa.table({"id": pa.array([], pa.int64()), "rule": pa.array([], "str")}),
    ):
        assert matcher.add_many(nothing) == (0, [])


def test_an_unknown_on_error_is_refused() -> None:
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        Matcher().add_many([], on_error="ignore")  # type: ignore[arg-type]
