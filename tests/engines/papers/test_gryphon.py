"""The matching tree of gryphon: its shape for a few rules, its edges and its optimizations."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.events import EventEncoder
from tamis.encode.rules import RuleEncoder
from tamis.engines.papers import gryphon
from tamis.engines.papers.gryphon import Gryphon, GryphonArrays
from tamis.expr.evaluate import evaluate
from tamis.expr.text.grammar import parse
from tests.interpreted import interpret


def tree_of(*rules: str) -> Gryphon:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add_text(rule, "weak")
    return Gryphon(encoder.finish())


def attributes_of(engine: Gryphon) -> list[list[str]]:
    """The names of the attributes that each node tests."""
    names = {number: name for name, number in engine.rules.dictionary.attributes.items()}
    arrays = engine.arrays
    return [
        [names[n] for n in arrays.attribute[start:end]]
        for start, end in zip(arrays.test_start[:-1], arrays.test_start[1:], strict=True)
    ]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees without factoring and without delayed branches."""
    monkeypatch.setattr(gryphon, "_FACTORED_SPACE", 0)
    monkeypatch.setattr(gryphon, "_DELAYED_SPACE", 0)


def match(engine: Gryphon, event: dict[str, Any]) -> list[int]:
    encoded = EventEncoder(engine.rules).encode(event)
    return sorted(engine.match(encoded).rule.tolist())


def edges_of(arrays: GryphonArrays) -> list[tuple[int, int, int]]:
    """For each test, how many edges hold on absence, how many others and how many equalities."""
    bounds = (arrays.edge_start[:-1], arrays.present_start, arrays.equality_start)
    steps = np.diff(np.stack([*bounds, arrays.edge_start[1:]]), axis=0)
    return [tuple(counts) for counts in steps.T.tolist()]


@pytest.mark.usefixtures("plain")
def test_conjunctions_share_their_first_equalities() -> None:
    """Most rules test attribute a, so it comes first; then b, then c."""
    engine = tree_of("a = 1 AND b = 2", "b = 3 AND a = 1", "a = 2 AND c = 1", "b = 2", "a = 1")
    arrays = engine.arrays
    # The root tests a and, by its * edge, b. Its edges lead to nodes 1 to 3: a = 1, a = 2, b = 2.
    assert attributes_of(engine) == [["a", "b"], ["b"], ["c"], [], [], [], []]
    assert edges_of(arrays) == [(0, 0, 2), (0, 0, 1), (0, 0, 2), (0, 0, 1)]
    ends = np.repeat(np.arange(7), np.diff(arrays.done_start))
    assert dict(zip(ends.tolist(), arrays.done.tolist(), strict=True)) == {
        1: 4,
        3: 3,
        4: 0,
        5: 1,
        6: 2,
    }


def test_other_predicates_are_tested_one_by_one() -> None:
    engine = tree_of(
        "a = 1", "a > 3", "a IN (1, 7)", "a <> 1", "a IS NULL", "a LIKE '%x'", "a = 2", "a < 9"
    )
    # In the weak logic <> holds on absence, as IS NULL does.
    assert edges_of(engine.arrays) == [(2, 4, 2)]
    assert match(engine, {"a": 1}) == [0, 2, 7]
    assert match(engine, {"a": 7}) == [1, 2, 3, 7]
    assert match(engine, {"a": "ax"}) == [3, 5]
    assert match(engine, {}) == [3, 4]


def test_an_attribute_may_be_tested_twice() -> None:
    engine = tree_of("x > 3 AND x < 9", "x > 3 AND x <> 5 AND x < 9", "x > 3 AND x = 7")
    assert match(engine, {"x": 5}) == [0]
    assert match(engine, {"x": 7}) == [0, 1, 2]
    assert match(engine, {"x": [1, 20]}) == [0, 1]
    assert match(engine, {"x": [1, 20, 5]}) == [0]
    assert match(engine, {"x": 20}) == []


def test_values_with_the_same_code_follow_an_edge_once() -> None:
    """X > 9 holds on a single code, the gap above 9, so it is stored as an equality."""
    engine = tree_of("x > 9 AND y = 1", "x > 9")
    assert edges_of(engine.arrays)[0] == (0, 0, 1)
    assert match(engine, {"x": [10, 11, 12], "y": 1}) == [0, 1]


def test_different_spellings_of_an_equality_are_one_test() -> None:
    engine = tree_of(
        "s = 'a' AND n = 1", "s LIKE 'a' AND n BETWEEN 1 AND 1", "s = 'a' AND s LIKE 'a'"
    )
    assert match(engine, {"s": "a", "n": 1}) == [0, 1, 2]
    assert match(engine, {"s": "a"}) == [2]


@pytest.mark.usefixtures("plain")
def test_a_common_prefix_of_tests_is_stored_once() -> None:
    common = [f"a = 1 AND b = 2 AND c = {i}" for i in range(100)]
    assert len(tree_of(*common).arrays.edge) == 102


def test_an_attribute_of_most_rules_is_factored_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value of a has a tree of its own, in which the rule without a is repeated."""
    monkeypatch.setattr(gryphon, "_DELAYED_SPACE", 0)
    rules = ["a = 1 AND b = 2", "a = 2 AND c = 1", "a = 1 AND c > 4", "a = 2", "b = 2"]
    engine = tree_of(*rules)
    assert engine.arrays.factor.tolist() == [engine.rules.dictionary.attributes["a"]]
    # Below the root: all other values of a; a = 1; a = 2. No node tests a any more.
    assert attributes_of(engine)[:4] == [["a"], ["b"], ["b", "c"], ["b", "c"]]
    assert all("a" not in tests for tests in attributes_of(engine)[1:])
    assert match(engine, {"a": 1, "b": 2, "c": 5}) == [0, 2, 4]
    assert match(engine, {"a": 3, "b": 2}) == match(engine, {"b": 2}) == [4]
    # Trees of several values: the repeated rule is found once.
    assert match(engine, {"a": [2, 1, 2, 9, 7], "b": 2, "c": 1}) == [0, 1, 3, 4]
    assert match(engine, {"a": [2, 1], "b": 2}) == [0, 3, 4]


def test_factoring_that_repeats_too_much_is_not_done() -> None:
    rare = [f"a = {i} AND b = 1" for i in range(10)]
    common = [f"c = {i}" for i in range(9)]
    assert not len(tree_of(*rare, *common).arrays.factor)


def test_a_branch_is_delayed_by_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node of a = 1 tests b for the rules without a as well."""
    monkeypatch.setattr(gryphon, "_FACTORED_SPACE", 0)
    rules = ["a = 1 AND b = 2 AND c = 1", "a = 1 AND b = 4", "b = 2 AND c = 3", "b = 3", "a = 2"]
    rules += ["a = 2 AND d = 1", "a = 3"]
    engine = tree_of(*rules)
    arrays = engine.arrays
    assert attributes_of(engine)[:4] == [["a", "b"], ["b"], ["d"], []]
    assert arrays.delays.tolist()[:4] == [0, 1, 0, 0]
    # The edges of node 1, b = 2, 3 and 4, link to where the * edge of the root would lead.
    assert arrays.link.tolist()[5:8] == [4, 5, -1]
    assert match(engine, {"a": 1, "b": 2, "c": [1, 3]}) == [0, 2]
    assert match(engine, {"a": 1, "b": [3, 4, 2]}) == [1, 3]
    assert match(engine, {"a": 2, "b": 3}) == [3, 4]
    assert match(engine, {"b": 3}) == [3]


def test_several_values_follow_a_delayed_branch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gryphon, "_FACTORED_SPACE", 0)
    engine = tree_of("a = 1 AND b = 1", "a = 2 AND b = 1", "b = 1 AND c = 1", "a = 3", "a = 4")
    assert engine.arrays.delays.sum() == 2
    assert match(engine, {"a": [1, 2], "b": 1, "c": 1}) == [0, 1, 2]


@pytest.mark.parametrize("space", [(0, 0), (0, 4), (9, 0), (9, 4)])
def test_optimizations_change_no_answer(
    space: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gryphon, "_FACTORED_SPACE", space[0])
    monkeypatch.setattr(gryphon, "_DELAYED_SPACE", space[1])
    random = Random(5)
    factored = delayed = 0
    for turn in range(30):
        # Where every rule is one conjunction, nothing but the tree keeps it from being found twice.
        rules = [draw_rule(random, turn % 2 > 0) for _ in range(random.randint(1, 40))]
        engine = tree_of(*rules)
        factored += len(engine.arrays.factor)
        delayed += int(engine.arrays.delays.sum())
        for _ in range(15):
            event = draw_event(random)
            held = [i for i, rule in enumerate(rules) if evaluate(parse(rule), event, "weak")]
            assert match(engine, event) == held, event
    assert (factored > 0) == (space[0] > 0)
    assert (delayed > 0) == (space[1] > 0)


def draw_rule(random: Random, may_be_or: bool) -> str:
    names = random.sample("abcd", random.randint(1, 4))
    if random.random() < 0.7 and "a" not in names:
        names.append("a")
    tests = ("{} = {}", "{} = {}", "{} = {}", "{} = {}", "{} > {}", "{} <> {}", "{0} IN ({1}, 0)")
    parts = [random.choice(tests).format(name, random.randint(0, 2)) for name in names]
    return (" OR " if may_be_or and random.random() < 0.3 else " AND ").join(parts)


def draw_event(random: Random) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for name in random.sample("abcd", random.randint(0, 4)):
        many = random.random() < 0.3
        event[name] = random.choices(range(5), k=3) if many else random.randint(0, 3)
    return event


def test_a_tree_without_tests() -> None:
    engine = tree_of("TRUE", "FALSE")
    assert len(engine.arrays.edge) == 0
    assert match(engine, {"a": 1}) == match(engine, {}) == [0]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_rule_that_is_encoded_as_a_program(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        interpret(monkeypatch)
    large = " AND ".join(f"(a = {i} OR b > {i} OR c = {i})" for i in range(12))
    lacking = " AND ".join(f"(d{i} IS NULL OR e{i} = 1)" for i in range(12))
    engine = tree_of(large, lacking, "a = 3")
    assert len(engine.rules.forms.program_rule) == 2
    assert match(engine, {"b": 12}) == [0, 1]
    assert match(engine, {"a": [3, 0], "b": 12, "d1": 1}) == [0, 2]
    assert match(engine, {"a": 3, "c": 1}) == [1, 2]
