"""The second evaluator, on what docs/reference/meaning.md says in so many words."""

from __future__ import annotations

from typing import Any

import pytest

from attack.oracle import Oracle, flatten, score


def holds(rule: Any, event: dict[str, Any], logic: str = "strong") -> bool:
    return Oracle([{}, event]).find(rule, logic) >> 1 == 1


@pytest.mark.parametrize(
    ("rule", "event", "strong", "weak"),
    [
        ({"attr": "x", "<>": 1}, {}, False, True),
        ({"not": {"attr": "x", "=": 1}}, {"x": [None]}, False, True),
        ({"attr": "x", "present": False}, {"x": float("nan")}, True, True),
        ({"attr": "x", ">=": 5}, {"x": [1, 9]}, True, True),
        ({"attr": "x", "not <": 5}, {"x": [1, 9]}, False, False),
        ({"attr": "x", "=": 9007199254740993}, {"x": 9007199254740992.0}, False, False),
        ({"attr": "x", "=": 1}, {"x": True}, False, False),
        ({"attr": "x", "in": [1, "a"]}, {"x": 1.0}, True, True),
        ({"attr": "a.b", "between": [1, 2]}, {"a": [{"b": 5}, {"b": 2}]}, True, True),
        ({"attr": "s", "like": "a!%_", "escape": "!"}, {"s": "a%é"}, True, True),
        ({"attr": "s", "ilike": "É%"}, {"s": "étude"}, True, True),
        ({"attr": "s", "rlike": "b$"}, {"s": "ab"}, True, True),
        ({"and": []}, {}, True, True),
        ({"or": []}, {}, False, False),
        ({"not": {"and": [{"attr": "x", "=": 1}, False]}}, {}, True, True),
    ],
)
def test_the_oracle_follows_the_page(rule: Any, event: Any, strong: bool, weak: bool) -> None:
    assert holds(rule, event) is strong
    assert holds(rule, event, "weak") is weak


def test_scores_add_up_in_an_and_and_compete_in_an_or() -> None:
    parts = [{"attr": "x", "in": [1, 2]}, {"attr": "y", "=": 3}, {"attr": "z", "<>": 9}]
    event = flatten({"x": [1, 2, 2.0], "y": 3, "z": 1})
    assert score({"and": parts}, "strong", event, lambda *_: 1.0) == 3.0
    assert score({"or": parts}, "strong", event, lambda *_: 1.0) == 2.0
    assert score({"not": {"and": parts}}, "strong", event, lambda *_: 1.0) is None
