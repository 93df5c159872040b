"""The public methods of Matcher: what each takes, returns and keeps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis import Matcher, Not, tagged
from tamis.matcher import batch_searcher as batching
from tests import randoms
from tests.matcher.matchers import MANY, SIZES, A, filled, settle
from tests.randoms import EVERYTHING

# --- The parts of a rule ----------------------------------------------------------------


@SIZES
def test_a_rule_is_returned_as_it_was_added(size: int) -> None:
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


def test_a_rule_copies_its_weights() -> None:
    """The caller may change the mapping later; a merge encodes the rule again."""
    weights = {("a", 1): 2.0}
    matcher = Matcher()
    matcher.add("r", "a = 1", weights=weights)
    weights["b", 1] = 5.0
    weights["a", 1] = 7.0
    matcher.add_many([(number, "z = 1") for number in range(MANY)])
    assert matcher.top({"a": 1}) == [("r", 2.0)]


# --- Ids --------------------------------------------------------------------------------


@SIZES
def test_strings_and_integers_as_ids(size: int) -> None:
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
def test_integer_ids_stay_integers(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([(10**6, "a = 1"), (-5, "a = 1")])
    assert matcher.match_array({"a": 1}).dtype == np.int64
    assert matcher.match_array({"a": 1}).tolist() == [10**6, -5]
    assert matcher.match_many([{"a": 1}]).schema.field("rule").type == pa.int64()
    assert matcher.match_array({"a": 2}).dtype == np.int64


@pytest.mark.parametrize("size", [1, MANY])
def test_string_ids_stay_strings(size: int) -> None:
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


# --- The set of rules -------------------------------------------------------------------


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


def test_an_iterator_stays_with_its_snapshot() -> None:
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


def test_repr() -> None:
    assert repr(filled(1_234, engine="sift")) == "<tamis.Matcher: 1,234 rules, engine 'sift'>"


def test_the_matchers_logic_is_the_default_of_its_rules() -> None:
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
    settle(matcher)
    # Each is more than 16 times as large as the next; how many there are depends on timing.
    assert matcher.stats()["segments"] <= 3
    assert matcher.stats()["tail"] == 0
    assert matcher.match({"a": 3}) == list(range(3, 1_000, 10))
    assert list(matcher) == list(range(1_000))


def test_removed_rules_are_dropped_by_merges() -> None:
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


def test_all_rules_can_be_removed() -> None:
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
    """Batches of three events; each notes in `asked` when it is read."""
    schema = pa.schema([("a", pa.int64())])

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            asked.append(number)
            yield pa.record_batch([pa.array([number, 1, None], pa.int64())], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


def test_a_reader_gives_a_reader_that_works_batch_by_batch() -> None:
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


def test_answer_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_FIRST_ROWS", 4)
    monkeypatch.setattr(batching, "_MATCHES", 30)
    matcher = tamis.Matcher()
    matcher.add_many([(number, "a >= 0") for number in range(10)])
    events = pa.table({"a": range(50)})
    batches = list(matcher.match_many(events.to_reader()))
    assert [batch.num_rows for batch in batches] == [40, *[30] * 15, 10]
    assert matcher.match_many(events).num_rows == 500


@pytest.mark.parametrize("copy", [pickle.dumps, deepcopy])
def test_a_matcher_that_cannot_be_copied_names_the_alternative(copy: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"a Matcher cannot be pickled.*save.*tamis\.open"):
        copy(Matcher())
