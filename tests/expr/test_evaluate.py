"""Tests of the reference evaluator as users call it."""

from __future__ import annotations

from typing import Any

import pytest

import tamis
from tamis.errors import RuleError, RuleSyntaxError


@pytest.mark.parametrize(
    "rule", ["x = 1", tamis.parse("x = 1"), {"attr": "x", "=": 1}, tamis.parse("x = 1 AND TRUE")]
)
def test_a_rule_may_have_every_form(rule: Any) -> None:
    assert tamis.evaluate(rule, {"x": 1}) is True
    assert tamis.evaluate(rule, {"x": 2}) is False
    assert tamis.score(rule, {"x": 1}) == 1.0
    assert tamis.score(rule, {"x": 2}) is None


def test_what_is_not_a_rule_is_refused() -> None:
    for rule in (5, None, b"x = 1"):
        with pytest.raises(RuleError, match="a rule is a text, a model or the JSON form"):
            tamis.evaluate(rule, {})  # type: ignore[arg-type]
    with pytest.raises(RuleSyntaxError):
        tamis.evaluate("x =", {})
