"""The matching tree of gryphon: its shape for a few rules, and both kinds of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tamis.encode.events import EventEncoder
from tamis.encode.rules import RuleEncoder
from tamis.engines.papers.gryphon import Gryphon, GryphonArrays
from tests.interpreted import interpret


def tree_of(*rules: str) -> Gryphon:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add_text(rule, "weak")
    return Gryphon(encoder.finish())


def match(engine: Gryphon, event: dict[str, Any]) -> list[int]:
    encoded = EventEncoder(engine.rules).encode(event)
    return sorted(engine.match(encoded).rule.tolist())


def edges_of(arrays: GryphonArrays) -> list[tuple[int, int, int]]:
    """For each test, how many edges hold on absence, how many others and how many equalities."""
    bounds = (arrays.edge_start[:-1], arrays.present_start, arrays.equality_start)
    steps = np.diff(np.stack([*bounds, arrays.edge_start[1:]]), axis=0)
    return [tuple(counts) for counts in steps.T.tolist()]


def test_conjunctions_share_their_first_equalities() -> None:
    """Most rules test attribute a, so it comes first; then b, then c."""
    engine = tree_of("a = 1 AND b = 2", "b = 3 AND a = 1", "a = 2 AND c = 1", "b = 2", "a = 1")
    arrays = engine.arrays
    names = {number: name for name, number in engine.rules.dictionary.attributes.items()}
    tests = [
        [names[n] for n in arrays.attribute[start:end]]
        for start, end in zip(arrays.test_start[:-1], arrays.test_start[1:], strict=True)
    ]
    # The root tests a and, by its * edge, b. Its edges lead to nodes 1 to 3: a = 1, a = 2, b = 2.
    assert tests == [["a", "b"], ["b"], ["c"], [], [], [], []]
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


def test_a_common_prefix_of_tests_is_stored_once() -> None:
    common = [f"a = 1 AND b = 2 AND c = {i}" for i in range(100)]
    assert len(tree_of(*common).arrays.edge) == 102


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
