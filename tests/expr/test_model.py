"""Tests of the model of rules."""

from __future__ import annotations

import operator

import pytest

from tamis.expr.text.grammar import parse


@pytest.mark.parametrize("text", ["x = 1", "x = 1 AND y > 2", "NOT (x = 1 OR y IS NULL)", "TRUE"])
def test_equal_rules_are_not_unequal(text: str) -> None:
    assert parse(text) == parse(text)
    assert operator.ne(parse(text), parse(text)) is False


def test_unequal_rules() -> None:
    for a, b in (("x = 1", "x = 2"), ("x = 1", "x = TRUE"), ("x = 1", "y = 1"), ("x = 1", "TRUE")):
        assert parse(a) != parse(b)
        assert operator.eq(parse(a), parse(b)) is False
    assert parse("x = 1") != "x = 1"
