"""Rules in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given

import tamis
from tests.strategies import expressions


@pytest.mark.parametrize(
    ("rule", "logic", "words"),
    [
        ("x = 1", "strong", "x is 1"),
        ("x <> 1", "strong", "x is there and is not 1"),
        ("x <> 1", "weak", "x is not 1, or is missing"),
        ("NOT x < 1", "strong", "x is there and is not below 1"),
        ("x >= 1.5", "strong", "x is at least 1.5"),
        ("x BETWEEN 1 AND 2", "strong", "x is from 1 to 2"),
        ("x IN (1, 2, 'a')", "strong", "x is 1, 2 or 'a'"),
        ("x NOT IN (1, 2)", "strong", "x is there and is none of 1 and 2"),
        ("x IS NULL", "strong", "x is missing"),
        ("NOT x IS NULL", "strong", "x is there"),
        ("x LIKE 'a%'", "strong", "x starts with 'a'"),
        ("x LIKE '%a'", "strong", "x ends with 'a'"),
        ("x ILIKE '%a%'", "strong", "x contains 'a' in any case"),
        ("x LIKE 'a_c'", "strong", "x looks like 'a_c'"),
        ("x LIKE 'a!%' ESCAPE '!'", "strong", "x looks like 'a!%' ESCAPE '!'"),
        ("x RLIKE '^a+$'", "weak", "x matches '^a+$'"),
        ("length(x) > 3", "strong", "length(x) is above 3"),
        ("cidr(ip, '10.0.0.0/8')", "strong", "address(ip) is from '10.0.0.0' to '10.255.255.255'"),
        ("price < list_price", "strong", "price < list_price holds"),
        ("TRUE", "strong", "every event matches"),
        ("FALSE", "strong", "no event matches"),
        ("x IN (1,2,3,4,5,6,7,8,9,10,11,12,13)", "strong",
         "x is 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 or 1 other values"),
    ],
)  # fmt: skip
def test_words(rule: str, logic: str, words: str) -> None:
    assert tamis.describe(rule, logic) == words  # type: ignore[arg-type]


def test_a_tree_is_indented() -> None:
    assert tamis.describe("a = 1 AND (b = 2 OR NOT (c = 3 AND d = 4))").splitlines() == [
        "all of these hold:",
        "  a is 1",
        "  at least one of these holds:",
        "    b is 2",
        "    at least one of these holds:",
        "      c is there and is not 3",
        "      d is there and is not 4",
    ]


@given(expressions())
def test_every_rule_has_words(expr: tamis.Expr) -> None:
    for logic in ("strong", "weak"):
        assert tamis.describe(expr, logic).strip()


def test_a_text_that_is_not_a_rule() -> None:
    with pytest.raises(tamis.RuleSyntaxError):
        tamis.describe("x =")
