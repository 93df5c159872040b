"""The public face of a Matcher: what each method takes, gives and keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis
import tamis.matcher.matcher as matcher_module
from tamis import And, BadRule, Matcher, Not, Op, Predicate, Rule, tagged
from tamis.errors import (
    DuplicateRuleError,
    EventError,
    RuleError,
    RuleSyntaxError,
    UnknownRuleError,
)
from tests import randoms
from tests.randoms import EVERYTHING

A = Predicate("a", Op.EQ, (1,))
MANY = 200
"""More rules than wait in the tail, so that they lie in a segment."""


def settle(matcher: Matcher) -> None:
    """Do all that the tidying thread would do in time."""
    while matcher._collection.tidy(quiet=True):
        pass


def filled(count: int = MANY, **options: Any) -> Matcher:
    """A matcher that holds `count` rules of its own, numbered from 0, which match ``z = 1``."""
    matcher = Matcher(**options)
    matcher.add_many([(number, "z = 1") for number in range(count)])
    return matcher


SIZES = pytest.mark.parametrize("size", [0, 10, MANY])
"""Nothing before, all in the tail, and all in a segment."""


# --- Adding -----------------------------------------------------------------------------


@SIZES
def test_a_rule_is_found_from_then_on(size: int) -> None:
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
def test_a_replaced_rule_is_as_young_as_a_new_one(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1")])
    matcher.add("r", "a = 1 OR a = 2", replace=True, payload="new")
    assert matcher.match({"a": 1}) == ["s", "r"]
    assert matcher.match({"a": 2}) == ["r"]
    assert matcher.rule("r").payload == "new"
    assert list(matcher)[-2:] == ["s", "r"]
    assert len(matcher) == size + 2


@SIZES
def test_to_replace_what_is_not_there_is_to_add(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1", replace=True)
    assert matcher.match({"a": 1}) == ["r"]


@SIZES
@pytest.mark.parametrize("bad", ["a = ", "a RLIKE '('", And((A,)), {"attr": "a"}])
def test_a_rule_is_not_replaced_by_a_bad_one(size: int, bad: Any) -> None:
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
def test_a_removed_rule_is_not_found_and_may_come_back(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1")])
    for _ in range(3):
        matcher.remove("r")
        assert matcher.match({"a": 1}) == ["s"]
        assert "r" not in matcher
        matcher.add("r", "a = 1")
        assert matcher.match({"a": 1}) == ["s", "r"]
    assert len(matcher) == size + 2


@pytest.mark.parametrize("id", ["nobody", 7, -1, None, [], True, 1.5])
def test_an_unknown_rule(id: Any) -> None:
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
def test_what_is_no_id(id: Any) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match="id"):
        matcher.add(id, "a = 1")
    report = matcher.add_many([(id, "a = 1"), ("r", "a = 1")], on_error="skip")
    assert [skipped.id for skipped in report.bad] == [id]
    assert list(matcher) == ["r"]


# --- Adding many ------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("more", [0, MANY])
def test_many_are_all_or_nothing(size: int, more: int) -> None:
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
def test_bad_ones_may_be_skipped_and_are_reported(size: int, more: int) -> None:
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


def test_an_id_twice_in_a_batch() -> None:
    matcher = Matcher()
    for replace in (False, True):
        with pytest.raises(DuplicateRuleError, match=r"'r'.*twice"):
            matcher.add_many([("r", "a = 1"), ("r", "a = 2")], replace=replace)
    assert len(matcher) == 0


@SIZES
def test_many_are_replaced_at_once(size: int) -> None:
    matcher = filled(size)
    matcher.add_many({f"r{i}": "a = 1" for i in range(100)})
    with pytest.raises(DuplicateRuleError):
        matcher.add_many([("new", "a = 2"), ("r5", "a = 2")])
    report = matcher.add_many({f"r{i}": "a = 2" for i in range(50, 150)}, replace=True)
    assert report == (100, [])
    assert matcher.match({"a": 1}) == [f"r{i}" for i in range(50)]
    assert matcher.match({"a": 2}) == [f"r{i}" for i in range(50, 150)]
    assert len(matcher) == size + 150


def test_many_in_every_form() -> None:
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


def test_a_table_names_the_logic_of_each_rule() -> None:
    table = pa.table({"id": [1, 2, 3], "rule": ["a <> 1"] * 3, "logic": ["weak", "strong", None]})
    for logic, expected in (("strong", [1]), ("weak", [1, 3])):
        matcher = Matcher(logic=logic)
        matcher.add_many(table)
        assert matcher.match({}) == expected


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
def test_what_holds_no_rules(rules: Any, words: str) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match=words):
        matcher.add_many(rules)
    assert len(matcher) == 0


def test_nothing_to_add() -> None:
    matcher = Matcher()
    nothing: Any
    for nothing in (
        [],
        {},
        pa.table({"id": pa.array([], pa.int64()), "rule": pa.array([], "str")}),
    ):
        assert matcher.add_many(nothing) == (0, [])


def test_an_unknown_way_to_handle_errors() -> None:
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        Matcher().add_many([], on_error="ignore")  # type: ignore[arg-type]


# --- What a rule carries ----------------------------------------------------------------


@SIZES
def test_a_rule_comes_back_as_it_was_given(size: int) -> None:
    matcher = filled(size)
    payload = {"mail": ["x@example.org", None, 1.5]}
    weights = {("a", 1): 2.0}
    matcher.add("r", " a=1 ", logic="weak", weights=weights, payload=payload, tags=["t", "u", "t"])
    rule = matcher.rule("r")
    assert (rule.id, rule.source, rule.text, str(rule)) == ("r", " a=1 ", " a=1 ", " a=1 ")
    assert (rule.expr, rule.logic, rule.weights) == (A, "weak", weights)
    assert (rule.payload, rule.tags) == (payload, frozenset("tu"))
    other = Matcher()
    other.add_many([rule])
    assert other.rule("r") == rule
    matcher.add("model", Not(A))
    model = matcher.rule("model")
    assert (model.expr, tamis.parse(model.text), model.logic) == (Not(A), Not(A), "strong")
    matcher.add("json", {"attr": "a", "=": 1})
    assert matcher.rule("json").expr == A


@SIZES
def test_rules_go_from_one_matcher_to_another(size: int) -> None:
    random = Random(size)
    matcher = filled(size)
    for number in range(100):
        rule = randoms.rule(random, EVERYTHING, 3)
        logic = random.choice(["strong", "weak"])
        matcher.add(f"r{number}", rule, logic=logic, payload=number, tags=[f"t{number % 3}"])
    copy = Matcher()
    copy.add_many(matcher.rule(id) for id in matcher)
    assert list(copy) == list(matcher)
    for _ in range(20):
        event = randoms.event(random, EVERYTHING)
        assert copy.match(event) == matcher.match(event)
        only = tagged("t1")
        assert copy.match(event, only=only) == matcher.match(event, only=only)


def test_the_weights_of_a_rule_are_its_own() -> None:
    """A caller may go on using the mapping; the rule is encoded again when segments merge."""
    weights = {("a", 1): 2.0}
    matcher = Matcher()
    matcher.add("r", "a = 1", weights=weights)
    weights["b", 1] = 5.0
    weights["a", 1] = 7.0
    matcher.add_many([(number, "z = 1") for number in range(MANY)])
    assert matcher.top({"a": 1}) == [("r", 2.0)]


# --- Either kind of id ------------------------------------------------------------------


@SIZES
def test_ids_of_both_kinds(size: int) -> None:
    matcher = filled(size)
    ids: list[Any] = ["one", 10**6, "1", -(2**63), 2**63 - 1, "", "é"]
    matcher.add_many([(id, "a = 1") for id in ids])
    events = [{"a": 1}, {"b": 1}, {"a": 1}]
    found = matcher.match_many(events)
    assert pa.types.is_union(found.schema.field("rule").type)
    assert found["rule"].to_pylist() == ids * 2
    assert found["event"].to_pylist() == [0] * len(ids) + [2] * len(ids)
    assert matcher.top_many(events, n=3)["rule"].to_pylist() == ids[:3] * 2
    array = matcher.match_array({"a": 1})
    assert array.dtype == object
    assert array.tolist() == ids
    assert [type(id) for id in array] == [type(id) for id in ids]
    for id in ids:
        assert id in matcher
        assert matcher.rule(id).id == id


@SIZES
def test_integers_stay_integers(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([(10**6, "a = 1"), (-5, "a = 1")])
    assert matcher.match_array({"a": 1}).dtype == np.int64
    assert matcher.match_array({"a": 1}).tolist() == [10**6, -5]
    assert matcher.match_many([{"a": 1}]).schema.field("rule").type == pa.int64()
    assert matcher.match_array({"a": 2}).dtype == np.int64


@pytest.mark.parametrize("size", [1, MANY])
def test_strings_stay_strings(size: int) -> None:
    matcher = Matcher()
    matcher.add_many([(f"r{i}", "a = 1") for i in range(size)])
    assert matcher.match_array({"a": 1}).dtype == object
    assert matcher.match_array({"a": 1}).tolist() == matcher.match({"a": 1})
    assert matcher.match_many([{"a": 1}]).schema.field("rule").type == pa.string()


def test_strings_of_one_segment_and_integers_of_another() -> None:
    matcher = filled(1_000)
    matcher.add_many([(f"r{i}", "z = 1") for i in range(MANY)])
    matcher.add("tail", "z = 1")
    expected = [*range(1_000), *(f"r{i}" for i in range(MANY)), "tail"]
    assert matcher.match({"z": 1}) == expected
    assert matcher.match_array({"z": 1}).tolist() == expected
    assert matcher.match_many([{"z": 1}])["rule"].to_pylist() == expected


# --- Looking at some rules only ---------------------------------------------------------


@SIZES
def test_only_ids(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1"), (5_000, "a = 1"), ("no", "a = 2")])
    event = {"a": 1}
    only: Any
    expected: list[Any]
    for only, expected in (
        (["s", "r"], ["r", "s"]),
        ({5_000}, [5_000]),
        (iter(["s"]), ["s"]),
        (["no"], []),
        (["nobody", None, [], "r"], ["r"]),
        ([], []),
        (None, ["r", "s", 5_000]),
    ):
        kept: Any = None if only is None else list(only)
        assert matcher.match(event, only=kept) == expected
        assert matcher.match_array(event, only=kept).tolist() == expected
        assert matcher.match_many([event], only=kept)["rule"].to_pylist() == expected
        assert matcher.count_many([event], only=kept)["matches"].to_pylist() == [len(expected)]
        assert matcher.top(event, only=kept) == [(id, 1.0) for id in expected]
        assert matcher.top_many([event], only=kept)["rule"].to_pylist() == expected
    matcher.remove("r")
    assert matcher.match(event, only=["r", "s"]) == ["s"]


@SIZES
def test_only_tags(size: int) -> None:
    matcher = filled(size)
    matcher.add("gold", "a = 1", tags=["gold"])
    matcher.add("both", "a = 1", tags={"gold", "silver"})
    matcher.add("none", "a = 1")
    matcher.add("no match", "a = 2", tags=("gold",))
    event = {"a": 1}
    for only, expected in (
        (tagged("gold"), ["gold", "both"]),
        (tagged("silver"), ["both"]),
        (tagged("silver", "gold"), ["gold", "both"]),
        (tagged("lead"), []),
        (tagged(), []),
    ):
        assert matcher.match(event, only=only) == expected
        assert matcher.match_array(event, only=only).tolist() == expected
        assert matcher.match_many([event], only=only)["rule"].to_pylist() == expected
        assert matcher.count_many([event], only=only)["matches"].to_pylist() == [len(expected)]
        assert matcher.top(event, only=only) == [(id, 1.0) for id in expected]
    matcher.remove("gold")
    matcher.add("both", "a = 1", replace=True)
    assert matcher.match(event, only=tagged("gold", "silver")) == []


@pytest.mark.parametrize("tags", ["gold", [5], [None], 5, [["gold"]]])
def test_what_are_no_tags(tags: Any) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match="tag"):
        matcher.add("r", "a = 1", tags=tags)
    assert len(matcher) == 0


def test_a_string_is_no_list_of_ids() -> None:
    matcher = filled()
    for ask in (
        lambda: matcher.match({}, only="r"),
        lambda: matcher.match_array({}, only="r"),
        lambda: matcher.top({}, only="r"),
        lambda: matcher.match_many([{}], only="r"),
        lambda: matcher.count_many([{}], only="r"),
        lambda: matcher.top_many([{}], only="r"),
    ):
        with pytest.raises(RuleError, match="only= takes a list of ids or tagged"):
            ask()


# --- Scores -----------------------------------------------------------------------------


@SIZES
def test_the_best_come_first_and_the_oldest_of_equals(size: int) -> None:
    matcher = filled(size)
    matcher.add("light", "a = 1", weights={("a", 1): 0.5})
    matcher.add("plain", "a = 1")
    matcher.add("equal", "a IN (1, 2)")
    matcher.add("heavy", "a = 1 AND b > 3", weights={("a", 1): 2.0, "b > 3": 4.0})
    matcher.add("range", "b > 3", weights={Predicate("b", Op.GT, (3,)): 1.0})
    event = {"a": 1, "b": 7}
    expected = [("heavy", 6.0), ("plain", 1.0), ("equal", 1.0), ("range", 1.0), ("light", 0.5)]
    for n in range(1, 7):
        assert matcher.top(event, n) == expected[:n]
        found = matcher.top_many([event, {}], n)
        assert found["rule"].to_pylist() == [id for id, _ in expected[:n]]
        assert found["rank"].to_pylist() == list(range(1, min(n, 5) + 1))
        assert found["score"].to_pylist() == [score for _, score in expected[:n]]
        assert set(found["event"].to_pylist()) == {0}


@SIZES
def test_an_event_weighs_its_values(size: int) -> None:
    matcher = filled(size)
    matcher.add("a", "a IN (1, 2)", weights={("a", 1): 3.0})
    matcher.add("b", "b LIKE '%x%'", weights={"b LIKE '%x%'": 2.0})
    event = {"a": [1, 2], "b": ["x", "xx", "y"]}
    assert matcher.top(event) == [("a", 4.0), ("b", 4.0)]
    weights = {("a", 1): 0.5, ("a", 2): 10, ("b", "xx"): 0.0, ("nowhere", "idle"): 3.0}
    assert matcher.top(event, weights=weights) == [("a", 11.5), ("b", 2.0)]
    assert matcher.match(event, weights=weights) == ["a", "b"]
    heavy = {("a", 1.0): 100.0, ("b", "x"): 0.1}
    assert matcher.top(event, n=1, weights=heavy) == [("a", 301.0)]


@SIZES
def test_the_best_none(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1")
    assert matcher.top({"a": 1}, 0) == []
    assert matcher.top_many([{"a": 1}], 0).num_rows == 0


@pytest.mark.parametrize("n", [-1, 1.5, True, "3", None])
def test_what_is_no_number_of_rules(n: Any) -> None:
    matcher = filled()
    for ask in (lambda: matcher.top({}, n), lambda: matcher.top_many([], n)):
        with pytest.raises(ValueError, match="whole number"):
            ask()


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({("a", 1): -1.0}, "negative"),
        ({("a", 1): float("nan")}, "finite"),
        ({("a", 1): float("inf")}, "finite"),
        ({("a", 1): 10**400}, "finite"),
        ({("a", 1): True}, "not a number"),
        ({("a", 1): "2"}, "not a number"),
        ({("a", 2): 1.0}, "idle"),
        ({("c", 1): 1.0}, "idle"),
        ({("b", 3): 1.0}, "idle"),
        ({"b > 4": 1.0}, "idle"),
        ({"a = 1": 1.0}, "idle"),
        ({"b > 3 AND a = 1": 1.0}, "predicate"),
        ({"b >": 1.0}, "expected a value"),
        ({5: 1.0}, "predicate"),
        ({("a", None): 1.0}, "NULL"),
        ([(("a", 1), 1.0)], "mapping"),
    ],
)
@SIZES
def test_weights_of_rules_that_are_refused(size: int, weights: Any, words: str) -> None:
    matcher = filled(size)
    with pytest.raises(RuleError, match=words) as caught:
        matcher.add("r", "a = 1 AND b > 3", weights=weights)
    assert caught.value.rule_id == "r"
    assert len(matcher) == size


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({("a", 1): -0.5}, "negative"),
        ({("a", 1): float("nan")}, "finite"),
        ({("a", 1): 10**400}, "finite"),
        ({("a", 1): None}, "not a number"),
        ({("a", None): 1.0}, "NULL"),
        ({"a": 1.0}, "pairs"),
        ({(1, "a"): 1.0}, "pairs"),
    ],
)
def test_weights_of_events_that_are_refused(weights: Any, words: str) -> None:
    matcher = filled()
    for ask in (
        lambda: matcher.top({"a": 1}, weights=weights),
        lambda: matcher.match({"a": 1}, weights=weights),
    ):
        with pytest.raises(EventError, match=words):
            ask()


# --- Explaining -------------------------------------------------------------------------

EXPLAINED = "age IN (3, 4) AND (state <> 'CA' OR NOT (a = 1 AND b = 1)) AND tags LIKE 'x%'"


@SIZES
def test_an_explanation_prints_as_a_tree(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", EXPLAINED)
    explanation = matcher.explain("r", {"age": 3, "a": 1, "tags": ["y", "xz"]})
    assert not explanation.held
    assert str(explanation).splitlines() == [
        "? AND   [unknown]",
        "  ✓ age IN (3, 4)   [age = 3: held]",
        "  ? OR   [unknown]",
        "    ∅ state <> 'CA'   [state is absent: absent]",
        "    ? NOT   [unknown]",
        "      ? AND   [unknown]",
        "        ✓ a = 1   [a = 1: held]",
        "        ∅ b = 1   [b is absent: absent]",
        "  ✓ tags LIKE 'x%'   [tags = ['y', 'xz']: held]",
    ]


def test_an_explanation_as_json() -> None:
    matcher = Matcher()
    matcher.add("r", "a = 1 AND t > DATE '2024-01-01' AND TRUE")
    explanation = matcher.explain("r", {"a": [2, 3], "t": datetime(2024, 1, 2)})
    assert json.loads(json.dumps(explanation.to_json())) == {
        "text": "AND",
        "status": "did not hold",
        "children": [
            {"text": "a = 1", "status": "did not hold", "attribute": "a", "values": [2, 3]},
            {
                "text": "t > TIMESTAMP '2024-01-01 00:00:00'",
                "status": "held",
                "attribute": "t",
                "values": ["2024-01-02T00:00:00+00:00"],
            },
            {"text": "TRUE", "status": "held"},
        ],
    }


@pytest.mark.parametrize(
    ("text", "logic", "event", "status"),
    [
        ("a = 1", "strong", {"a": 1}, "held"),
        ("a = 1", "strong", {"a": 2}, "did not hold"),
        ("a = 1", "strong", {}, "absent"),
        ("a = 1", "weak", {}, "absent"),
        ("a <> 1", "strong", {}, "absent"),
        ("a <> 1", "weak", {}, "held"),
        ("a <> 1", "weak", {"a": [1, 2]}, "did not hold"),
        ("a IS NULL", "strong", {}, "held"),
        ("a IS NOT NULL", "strong", {}, "absent"),
        ("NOT (a = 1)", "strong", {}, "unknown"),
        ("NOT (a = 1)", "weak", {}, "held"),
        ("NOT (a = 1 OR b = 1)", "strong", {"a": 1}, "did not hold"),
        ("TRUE", "strong", {}, "held"),
        ("FALSE", "weak", {}, "did not hold"),
    ],
)
def test_what_a_part_came_to(text: str, logic: str, event: Any, status: str) -> None:
    matcher = Matcher(logic=logic)
    matcher.add("r", text)
    explanation = matcher.explain("r", event)
    assert explanation.status == status
    assert explanation.held == (matcher.match(event) == ["r"])


def test_explanations_agree_with_matches() -> None:
    random = Random(9)
    matcher = Matcher()
    for number in range(100):
        rule = randoms.rule(random, EVERYTHING, 4)
        matcher.add(number, rule, logic=random.choice(["strong", "weak"]))
    for _ in range(15):
        event = randoms.event(random, EVERYTHING)
        held = [id for id in matcher if matcher.explain(id, event).held]
        assert held == matcher.match(event)


def test_a_long_list_of_values_is_cut_short_in_print_only() -> None:
    matcher = Matcher()
    matcher.add("r", "a = 99")
    explanation = matcher.explain("r", {"a": list(range(100))})
    assert str(explanation).endswith("[a = [0, 1, 2, 3, 4, 5, 6, 7, … 92 more]: held]")
    assert explanation.to_json()["values"] == list(range(100))


# --- The collection ---------------------------------------------------------------------


def test_length_membership_and_order() -> None:
    matcher = Matcher()
    ids: list[Any] = list(range(300))
    Random(1).shuffle(ids)
    for start in range(0, 300, 7):
        matcher.add_many([(id, "a = 1") for id in ids[start : start + 7]])
    assert list(matcher) == ids
    for id in ids[::3]:
        matcher.remove(id)
    kept = [id for position, id in enumerate(ids) if position % 3]
    assert list(matcher) == kept == matcher.match({"a": 1})
    assert len(matcher) == len(kept)
    assert [id in matcher for id in ids] == [id in kept for id in ids]
    assert "0" not in matcher
    assert [] not in matcher


def test_an_iterator_goes_on_over_what_it_began_with() -> None:
    matcher = filled(100)
    seen = []
    for id in matcher:
        seen.append(id)
        matcher.remove(id)
        matcher.add(f"new {id}", "a = 1")
    assert seen == list(range(100))
    assert list(matcher) == [f"new {id}" for id in range(100)]


def test_stats() -> None:
    matcher = Matcher(engine="scan", logic="weak")
    empty = matcher.stats()
    assert (empty["engine"], empty["logic"], empty["rules"]) == ("scan", "weak", 0)
    assert (empty["segments"], empty["tail"], empty["bytes"]) == (0, 0, 0)
    matcher.add_many([(i, f"a = {i} AND b LIKE '%{i}%'") for i in range(100)])
    matcher.add("t", "c = 1")
    stats = matcher.stats()
    assert (stats["rules"], stats["segments"] + stats["tail"]) == (101, 2)
    assert (stats["attributes"], stats["atoms"], stats["conjunctions"]) == (3, 201, 101)
    assert (stats["programs"], stats["text_predicates"]) == (0, 100)
    assert stats["bytes"] > 0
    json.dumps(stats)


def test_how_a_matcher_shows_itself() -> None:
    assert repr(filled(1_234, engine="sift")) == "<tamis.Matcher: 1,234 rules, engine 'sift'>"


def test_the_default_logic_is_that_of_rules_which_name_none() -> None:
    matcher = Matcher(logic="weak")
    matcher.add("weak", "a <> 1")
    matcher.add("strong", "a <> 1", logic="strong")
    assert matcher.match({}) == ["weak"]
    assert matcher.rule("weak").logic == "weak"


# --- Segments and merges ----------------------------------------------------------------


def test_rules_added_one_by_one_end_up_in_few_segments() -> None:
    matcher = Matcher()
    for number in range(1_000):
        matcher.add(number, f"a = {number % 10}")
        assert matcher.stats()["tail"] <= 64
    settle(matcher)
    # Each is more than 16 times as large as the next: which ones there are is a matter of time.
    assert matcher.stats()["segments"] <= 3
    assert matcher.stats()["tail"] == 0
    assert matcher.match({"a": 3}) == list(range(3, 1_000, 10))
    assert list(matcher) == list(range(1_000))


def test_dead_rules_take_no_room_for_long() -> None:
    matcher = filled(1_000)
    before = matcher.stats()["bytes"]
    for number in range(0, 1_000, 3):
        matcher.remove(number)
    assert matcher.match({"z": 1}) == [n for n in range(1_000) if n % 3]
    for number in range(1, 1_000, 3):
        matcher.remove(number)
    assert matcher.match({"z": 1}) == list(range(2, 1_000, 3))
    settle(matcher)
    assert matcher.match({"z": 1}) == list(range(2, 1_000, 3))
    assert matcher.stats()["bytes"] < before
    assert matcher.stats()["rules"] == 333


def test_everything_may_be_removed() -> None:
    matcher = filled(300)
    for number in range(300):
        matcher.remove(number)
    assert (len(matcher), list(matcher), matcher.match({"z": 1})) == (0, [], [])
    assert matcher.match_many([{"z": 1}]).num_rows == 0
    matcher.add("r", "z = 1")
    assert matcher.match({"z": 1}) == ["r"]


def test_a_removed_rule_stays_removed_through_merges() -> None:
    matcher = filled(100)
    matcher.remove(5)
    for batch in range(5):
        matcher.add_many([(f"{batch}.{i}", "z = 1") for i in range(80)])
        assert 5 not in matcher.match({"z": 1})
    settle(matcher)
    assert 5 not in matcher.match({"z": 1})
    assert len(matcher.match({"z": 1})) == len(matcher) == 499
    matcher.add(5, "z = 1")
    assert matcher.match({"z": 1})[-1] == 5


# --- Readers ----------------------------------------------------------------------------


def _stream(batches: int, asked: list[int]) -> pa.RecordBatchReader:
    """Batches of three events, which note when they are asked for."""
    schema = pa.schema([("a", pa.int64())])

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            asked.append(number)
            yield pa.record_batch([pa.array([number, 1, None], pa.int64())], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


def test_a_reader_is_answered_by_a_reader_batch_by_batch() -> None:
    matcher = tamis.Matcher()
    matcher.add_many([("one", "a = 1"), ("many", "a >= 0"), ("none", "a IS NULL")])
    table = _stream(5, []).read_all()
    for ask in (matcher.match_many, matcher.count_many, matcher.top_many):
        asked: list[int] = []
        answer = ask(_stream(5, asked))
        assert isinstance(answer, pa.RecordBatchReader)
        assert asked == []
        first = answer.read_next_batch()
        assert len(asked) < 5
        rest = answer.read_all().to_batches()
        found = pa.Table.from_batches([first, *rest])
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, ask(table).to_pylist()))


def test_a_batch_of_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "_FIRST_ROWS", 4)
    monkeypatch.setattr(matcher_module, "_PAIRS", 30)
    matcher = tamis.Matcher()
    matcher.add_many([(number, "a >= 0") for number in range(10)])
    events = pa.table({"a": range(50)})
    batches = list(matcher.match_many(events.to_reader()))
    assert [batch.num_rows for batch in batches] == [40, *[30] * 15, 10]
    assert matcher.match_many(events).num_rows == 500
