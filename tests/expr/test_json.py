"""The JSON form: it round-trips through real JSON, and errors say where."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr.json import from_json, to_json
from tamis.expr.model import MAX_DEPTH, MAX_NODES, TRUE, And, Atom, Expr, Not, Op, Predicate
from tamis.expr.text.grammar import parse
from tests.strategies import expressions

A = Predicate("a", Op.EQ, (1,))
A_JSON = {"attr": "a", "=": 1}


@given(expressions(wild=True))
def test_round_trip(expr: Expr) -> None:
    again = from_json(json.loads(json.dumps(to_json(expr))))
    assert again == expr
    assert repr(again) == repr(expr)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("TRUE", True),
        ("FALSE", False),
        ("a = 1", A_JSON),
        ("a <> 1.0", {"attr": "a", "<>": 1.0}),
        ("a >= 1", {"attr": "a", ">=": 1}),
        ("NOT a >= 1", {"attr": "a", "not >=": 1}),
        ("a IN (1, 'b', TRUE)", {"attr": "a", "in": [1, "b", True]}),
        ("a NOT IN (1)", {"attr": "a", "not in": [1]}),
        ("a BETWEEN 1 AND 2", {"attr": "a", "between": [1, 2]}),
        ("a NOT BETWEEN 1 AND 2", {"attr": "a", "not between": [1, 2]}),
        ("a LIKE 'b%'", {"attr": "a", "like": "b%"}),
        ("a NOT ILIKE 'b!%%' ESCAPE '!'", {"attr": "a", "not ilike": "b!%%", "escape": "!"}),
        ("a RLIKE '^b'", {"attr": "a", "rlike": "^b"}),
        ("a IS NOT NULL", {"attr": "a", "present": True}),
        ("a IS NULL", {"attr": "a", "present": False}),
        (
            "a < TIMESTAMP '2020-01-31 12:00:00'",
            {"attr": "a", "<": {"timestamp": "2020-01-31T12:00:00Z"}},
        ),
        (
            "a = 1 AND (a = 1 OR NOT (a = 1))",
            {"and": [A_JSON, {"or": [A_JSON, {"not": A_JSON}]}]},
        ),
    ],
)
def test_form(text: str, form: Any) -> None:
    assert to_json(parse(text)) == form
    assert repr(from_json(form)) == repr(parse(text))


def test_what_may_be_written_by_hand() -> None:
    assert from_json({"and": []}) == TRUE
    assert from_json({"or": [A_JSON]}) == A
    assert from_json({"=": 1, "attr": "a"}) == A
    midnight = Predicate("a", Op.EQ, (datetime(2020, 1, 31, tzinfo=UTC),))
    assert from_json({"attr": "a", "=": {"timestamp": "2020-01-31"}}) == midnight
    assert from_json({"attr": "a", "=": date(2020, 1, 31)}) == midnight


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, "expected an object, true or false, not null"),
        ("a = 1", "not a string"),
        ([A_JSON], "not an array"),
        (1, "not a number"),
        ({}, "expected one key, 'and', 'or' or 'not', or 'attr'; found none"),
        ({"xor": []}, "found 'xor'"),
        ({"and": [], "or": []}, "found 'and', 'or'"),
        ({"and": A_JSON}, "expected an array, not an object, at and"),
        ({"and": [A_JSON, True, {"or": [None]}]}, "not null, at and[2].or[0]"),
        ({"not": {"not": 3}}, "not a number, at not.not"),
        ({"attr": "a"}, "expected one operator beside 'attr', found 0"),
        ({"attr": "a", "=": 1, "<": 2}, "expected one operator beside 'attr', found 2"),
        ({"attr": "a", "eq": 1}, "unknown key 'eq'; expected =, in, <"),
        ({"or": [{"attr": "a", "is": 1}]}, "unknown key 'is'"),
        ({"attr": "", "=": 1}, "an attribute's name is a non-empty string"),
        ({"attr": 3, "=": 1}, "an attribute's name is a non-empty string"),
        ({"attr": "a", "=": None}, 'null is not a value; write "present": false, at ='),
        ({"attr": "a", "=": [1]}, "expected a value, not an array, at ="),
        ({"attr": "a", "=": {"a": 1}}, "expected a value, not an object, at ="),
        ({"attr": "a", "=": 2**64}, "is too large; integers have 64 bits, at ="),
        ({"attr": "a", "=": float("nan")}, "NaN is not a value"),
        ({"attr": "a", "=": b"1"}, "a value of type bytes is not supported"),
        ({"attr": "a", "in": 1}, "expected an array, not a number, at in"),
        ({"attr": "a", "in": []}, "IN takes at least one value"),
        ({"not": {"attr": "a", "in": [1, None]}}, "null is not a value"),
        ({"not": {"attr": "a", "in": [1, None]}}, "at not.in[1]"),
        ({"attr": "a", "between": [1]}, "BETWEEN takes two values, not 1"),
        ({"attr": "a", "present": 1}, "expected true or false, not a number, at present"),
        ({"attr": "a", "=": "b", "escape": "!"}, "'escape' belongs to like and ilike, at escape"),
        ({"attr": "a", "=": {"timestamp": "soon"}}, "'soon' is not a timestamp"),
        ({"attr": "a", "=": {"timestamp": 3}}, "a timestamp is a string, not a number, at ="),
    ],
)
def test_bad_form(form: Any, message: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        from_json(form)
    assert message in str(caught.value)


def test_a_bad_pattern_is_located() -> None:
    with pytest.raises(PatternError, match=r"at and\[1\]$"):
        from_json({"and": [True, {"attr": "a", "rlike": "("}]})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["and", "or", "not", "attr", "=", "in", "like", "escape", "present"]
                ),
                below,
                max_size=3,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(form: Any) -> None:
    try:
        expr = from_json(form)
    except RuleError as error:
        assert str(error)
    else:
        assert from_json(to_json(expr)) == expr


def test_limits() -> None:
    form: Any = A_JSON
    for _ in range(10_000):
        form = {"not": form}
    with pytest.raises(RuleTooLargeError, match=f"nested more than {MAX_DEPTH} levels deep"):
        from_json(form)
    with pytest.raises(RuleTooLargeError, match="more than 250,000 nodes"):
        from_json({"or": [A_JSON] * MAX_NODES})
    endless: dict[str, Any] = {}
    endless["and"] = [endless, endless]
    with pytest.raises(RuleTooLargeError):
        from_json(endless)


def test_the_deepest_rule_far_down_the_stack() -> None:
    expr: Expr = A
    for level in range(1, MAX_DEPTH):
        expr = Not(expr) if level % 2 else And((A, expr))

    def deeper(frames: int) -> Expr:
        return deeper(frames - 1) if frames else from_json(to_json(expr))

    assert deeper(200) == expr
    with pytest.raises(RuleTooLargeError):
        to_json(Not(expr))


def test_an_atom_has_no_form() -> None:
    with pytest.raises(RuleError, match="Atom has no JSON form"):
        to_json(Atom(A, negated=False, if_absent=False))
