"""Tests of the model of rules."""

from __future__ import annotations

import operator

import pytest

from tamis.errors import RuleTooLargeError
from tamis.expr.model import Expr, all_of
from tamis.expr.text.grammar import parse
from tamis.expr.validate import check


@pytest.mark.parametrize("text", ["x = 1", "x = 1 AND y > 2", "NOT (x = 1 OR y IS NULL)", "TRUE"])
def test_equal_rules_are_not_unequal(text: str) -> None:
    assert parse(text) == parse(text)
    assert operator.ne(parse(text), parse(text)) is False


def test_unequal_rules() -> None:
    for a, b in (("x = 1", "x = 2"), ("x = 1", "x = TRUE"), ("x = 1", "y = 1"), ("x = 1", "TRUE")):
        assert parse(a) != parse(b)
        assert operator.eq(parse(a), parse(b)) is False
    assert parse("x = 1") != "x = 1"


def test_parts_in_many_places_count_in_each() -> None:
    rule: Expr = parse("x = 1")
    for _ in range(60):
        rule = all_of(rule, rule)
    with pytest.raises(RuleTooLargeError, match="more than 250,000 nodes"):
        check(rule)
