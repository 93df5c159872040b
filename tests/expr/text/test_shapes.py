"""The road for rules of one shape: the same rules and errors as from the full parse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import RuleError
from tamis.expr.model import Expr, Op, Predicate, predicates
from tamis.expr.text.grammar import parse
from tamis.expr.text.literals import spell
from tamis.expr.text.shapes import Shapes
from tamis.expr.text.templates import Slot
from tamis.expr.text.write import to_sql
from tests.strategies import attributes, expressions, values


def outcome(read: Any, text: Any) -> tuple[object, ...]:
    """The rule that `read` returns for `text`, to the last detail, or its error."""
    try:
        return (repr(read(text)),)
    except RuleError as error:
        return (type(error), str(error), error.position)


def agree(*texts: str) -> None:
    """Compare each of `texts`, repeatedly, with the full parse."""
    shapes = Shapes()
    for text in (*texts, *texts, *texts):
        assert outcome(shapes.parse, text) == outcome(parse, text)


# --- Equal to the full parse ------------------------------------------------------------


@given(expressions(wild=True))
def test_random_rules(expr: Expr) -> None:
    agree(to_sql(expr))


FORMS = ["= {}", "<> {}", "< -{}", "IN ({}, {})", "BETWEEN {} AND {}", "LIKE {}", "RLIKE {}"]


@given(st.data())
def test_rules_of_one_shape(data: st.DataObject) -> None:
    """One form with several sets of values, some of which are refused."""
    name = to_sql(Predicate(data.draw(attributes(wild=True)), Op.PRESENT))
    operators = data.draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=3))
    form = "{} OR " + " AND NOT ".join(f"a {operator}" for operator in operators)
    literals = st.lists(
        values(wild=True).map(spell), min_size=form.count("{}"), max_size=form.count("{}")
    )
    agree(*[form.format(name, *data.draw(literals)) for _ in range(3)])


PIECES = [*"'\"`.-+()0 ", "''", "1", "5", "1e", "e5", "x", " AND ", "DATE ", "ESCAPE ", "{#", "é"]


@given(
    expressions(),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES), st.integers(0, 3)), max_size=4),
)
def test_mutated_texts(expr: Expr, edits: list[tuple[float, str, int]]) -> None:
    text = to_sql(expr)
    texts = [text]
    for where, piece, removed in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + removed :]
        texts.append(text)
    agree(*texts)


@given(st.text("x1.5e-+'\"`=() \\{#\u00e9\u00b7", max_size=24))
def test_any_text(text: str) -> None:
    agree(text, text.replace("1", "2"), text.replace("5", "15"))


@pytest.mark.parametrize(
    "texts",
    [
        ("x1 = 1", "x2 = 2", "x1 = 2", "x1 = x2"),
        ("x = 5", "x = -5", "x=-5", "x = - 5", "x - 5 = 3", "x = 5 - 3"),
        (
            "x = 18446744073709551615",
            "x = 18446744073709551616",
            "x = 1",
            "x = 00000000000000000001",
        ),
        ("x = -9223372036854775808", "x = -9223372036854775809", "x = -1"),
        ("x = 1.0", "x = 1", "x = 1.", "x = .5", "x = 1e5", "x = 1E-5", "x = 1e", "x = 1e999"),
        ("x = 1.5.2", "x = 1..2", "x = 1a", "x = 1_000", "x = 0x10", "x.1 = 2"),
        ('"0ad@v" = 1', '"0ad@v" = 2', '"1ad@v" = 2', "`0ad@v` = 3"),
        ("\"it's\" = 'a'", "\"it's\" = 'b'", '"a" = "b"', "\"it's = 'a'"),
        ('"a""1" = 1', '"a""1" = 2', '"a" "1" = 2'),
        ("x = 'a'", "x = 'it''s'", "x = ''", "x = ''''", "x = 'a", "x = 'a''", "x = 'a' 'b'"),
        ("x = '\"'", "x = '`'", 'x = \'"\' AND "y" = 1', "x = '{#'", "x = 'a' {#"),
        ("x = '\ud800'", "x = 'a'", "x = '\u00e9'"),
        ("x = DATE '2020-01-31'", "x = DATE '2020-02-30'", "x = DATE '2020-01-31 12:00'"),
        ("x = timestamp'2020-01-31'", "x = timestamp'2020-01-31 12:00+01:00'", "x = timestamp'a'"),
        ("x = CAST('2020-01-31' AS DATE)", "x = CAST('2020-02-01' AS DATE)"),
        ("x LIKE 'a!%' ESCAPE '!'", "x LIKE 'a!' ESCAPE '!'", "x LIKE 'a' ESCAPE 'bc'"),
        ("x RLIKE '('", "x RLIKE 'a'", "x RLIKE '[a'", "x RLIKE 5"),
        ("x LIKE 5", "x LIKE 6", "x LIKE 'a'"),
        ("x IN (1, 2)", "x IN (1, 'a')", "x IN (1, 2, 3)", "x IN (1, TRUE)", "x IN ()"),
        ("3 < x", "4 < x", "'a' < x", "3 < 4"),
        ("TRUE", "FALSE", "", " "),
        ("a\u00b71 = 1", "a\u00b72 = 1", "e\u03011 = 1"),
        ("NOT x = 1 AND NOT (y = 2)", "NOT x = 3 AND NOT (y = 4)"),
        ("(" * 300 + "x = 1" + ")" * 300, "(" * 300 + "x = 2" + ")" * 300),
    ],
)
def test_texts_by_hand(texts: tuple[str, ...]) -> None:
    agree(*texts)


@pytest.mark.parametrize("text", [None, 3, b"x = 1"])
def test_what_is_not_a_string(text: object) -> None:
    assert outcome(Shapes().parse, text) == outcome(parse, text)


# --- Templates --------------------------------------------------------------------------

RULE = 'age IN ({}, {}) AND NOT (s <> {}) AND "p 1" BETWEEN -{} AND .5 AND d > DATE {}'


def test_a_shape_has_a_template_from_its_second_rule_on() -> None:
    shapes = Shapes()
    assert shapes.split(RULE.format(3, 4, "'CA'", 1.5, "'2020-01-31'")) is None
    found = shapes.split(RULE.format(5, 6, "'N''Y'", 2.5, "'2020-02-01'"))
    assert found is not None
    template, literals = found
    assert literals == ["5", "6", "'N''Y'", "2.5", "'2020-02-01'"]
    assert [leaf.attribute for leaf in template.leaves] == ["age", "s", "p 1", "d"]
    assert [leaf.op for leaf in template.leaves] == [Op.IN, Op.EQ, Op.BETWEEN, Op.GT]
    assert [leaf.negated for leaf in template.leaves] == [False, True, False, False]
    assert [
        [value.literal if isinstance(value, Slot) else value for value in leaf.values]
        for leaf in template.leaves
    ] == [[0, 1], [2], [3, 0.5], [4]]

    other = ["7", "8", "'TX'", "0.5", "'2020-03-01'"]
    expr = parse(RULE.format(*other))
    assert repr(template.fill(other)) == repr(expr)
    assert [leaf.fill(other) for leaf in template.leaves] == list(predicates(expr))


@pytest.mark.parametrize(
    "text",
    [
        "x = CAST('2020-01-31' AS DATE)",  # the sentinel is not a date
        "a\u00b71 = 1",  # the first sentinel ends up in the name
        "x = 'a",
        "x = 1 AND",
        f"x IN ({', '.join('1' * 300)})",
        f"x = '{'a' * 5000}'",
    ],
)
def test_some_shapes_have_no_template(text: str) -> None:
    shapes = Shapes()
    assert [shapes.split(text) for _ in range(4)] == [None] * 4


def test_a_literal_that_does_not_fit_is_refused() -> None:
    shapes = Shapes()
    assert shapes.split("x = 1") is None
    found = shapes.split("x = 2")
    assert found is not None
    with pytest.raises(RuleError, match="too large"):
        found[0].fill(["18446744073709551616"])


def test_the_number_of_templates_is_bounded() -> None:
    shapes = Shapes(limit=2)
    for name in "abcd":
        for _ in range(3):
            assert shapes.parse(f"{name} = 1") == Predicate(name, Op.EQ, (1,))
    assert [shapes.split(f"{name} = 1") is not None for name in "abcd"] == [
        True,
        True,
        False,
        False,
    ]
