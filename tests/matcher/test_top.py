"""The rules with the highest scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis import Op, Predicate
from tamis.errors import EventError, RuleError
from tests.matcher.matchers import SIZES, filled


@SIZES
def test_the_best_come_first_and_of_equals_the_oldest(size: int) -> None:
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
def test_weights_of_an_event(size: int) -> None:
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
def test_n_may_be_zero(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", "a = 1")
    assert matcher.top({"a": 1}, 0) == []
    assert matcher.top_many([{"a": 1}], 0).num_rows == 0


@pytest.mark.parametrize("n", [-1, 1.5, True, "3", None])
def test_bad_values_of_n_are_refused(n: Any) -> None:
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
        ({("a", 2): 1.0}, "no effect"),
        ({("c", 1): 1.0}, "no effect"),
        ({("b", 3): 1.0}, "no effect"),
        ({"b > 4": 1.0}, "no effect"),
        ({"a = 2": 1.0}, "no effect"),
        ({"b > 3 AND a = 1": 1.0}, "predicate"),
        ({"b >": 1.0}, "expected a value"),
        ({5: 1.0}, "predicate"),
        ({("a", None): 1.0}, "NULL"),
        ([(("a", 1), 1.0)], "mapping"),
    ],
)
@SIZES
def test_bad_weights_of_rules_are_refused(size: int, weights: Any, words: str) -> None:
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
def test_bad_weights_of_events_are_refused(weights: Any, words: str) -> None:
    matcher = filled()
    for ask in (
        lambda: matcher.top({"a": 1}, weights=weights),
        lambda: matcher.match({"a": 1}, weights=weights),
    ):
        with pytest.raises(EventError, match=words):
            ask()


def test_weights_beyond_single_precision() -> None:
    """Engines bound scores in 32 bits; no warning leaves them."""
    matcher = filled()
    matcher.add_many([(f"r{n}", "a = 1") for n in range(20)])
    matcher.add("heavy", "a = 1", weights={("a", 1): 1e308})
    matcher.optimize()
    assert matcher.top({"a": 1}, 1) == [("heavy", 1e308)]


def test_true_and_one_have_weights_of_their_own(tmp_path: Path) -> None:
    """They are one key of a dictionary, and two values of a rule."""
    entries = [["x", True, 2.0], ["x", 1, 3.0], ["x", "a", 4.0]]
    text = "x IN (TRUE, 1, 'a')"
    rule = {"id": "r", "rule": text, "weights": entries}
    matcher = tamis.Matcher()
    matcher.add_many([rule])
    matcher.save(tmp_path / "index")
    weights = matcher.rule("r").weights
    assert weights == {("x", True): 2.0, "x = 1": 3.0, ("x", "a"): 4.0}
    again = tamis.Matcher()
    again.add_many([matcher.rule("r")])
    with tamis.open(tmp_path / "index") as opened:
        for event, expected in (({"x": True}, 2.0), ({"x": 1}, 3.0), ({"x": "a"}, 4.0)):
            for each in (matcher, opened, again):
                assert each.top(event, 1) == [("r", expected)]
            assert tamis.score(text, event, weights=weights) == expected
    with pytest.raises(tamis.RuleError, match="two weights"):
        matcher.add("s", "x = 1", weights={("x", 1): 2.0, "x = 1": 3.0})
    with pytest.raises(tamis.RuleError, match="two weights"):
        matcher.add_many([{**rule, "id": "t", "weights": [["x", 1, 2.0], ["x", 1.0, 3.0]]}])


@pytest.mark.parametrize("engine", ["scan", "shared", "tiles"])
def test_each_value_that_satisfies_a_pattern_adds_its_weight(engine: str) -> None:
    texts = {"both": "s RLIKE 'a'", "one": "s LIKE 'b%'", "none": "NOT s LIKE '%a%'"}
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(f"{id} {n}", text) for n in range(10) for id, text in texts.items()])
    matcher.optimize()
    for event in ({"s": ["aab", "ba", "ca"]}, {"s": ["a"]}, {"s": ["a", "a "] * 40}, {"s": "x"}):
        expected = [(f"{id} {n}", tamis.score(texts[id], event)) for n in range(10) for id in texts]
        held = [pair for pair in expected if pair[1] is not None]
        assert matcher.top(event, 100) == sorted(held, key=lambda pair: -(pair[1] or 0.0))
