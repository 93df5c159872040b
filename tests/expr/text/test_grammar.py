"""The text form: `parse` and `to_sql` are inverse, and errors have a message and a position."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr.model import (
    FALSE,
    MAX_DEPTH,
    MAX_NODES,
    TRUE,
    And,
    Atom,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    Value,
)
from tamis.expr.text.grammar import parse
from tamis.expr.text.write import to_sql
from tests.strategies import expressions

A, B, C = (Predicate(name, Op.EQ, (1,)) for name in "abc")


def x(op: Op, *values: Value, negated: bool = False) -> Predicate:
    return Predicate("x", op, values, negated)


# --- Inverse ----------------------------------------------------------------------------


@given(expressions(wild=True))
@example(x(Op.EQ, -0.0))
@example(x(Op.EQ, -(2**63)))
@example(x(Op.EQ, 1e22))
@example(x(Op.EQ, 1e14))
@example(x(Op.EQ, 5e-324))
@example(x(Op.EQ, datetime.min.replace(tzinfo=UTC)))
@example(x(Op.EQ, datetime.max.replace(tzinfo=UTC)))
@example(x(Op.EQ, "'"))
@example(x(Op.EQ, "{# '' #} -- /* \\' \" ` \n\r\x00 \ue000"))
@example(Predicate('"."', Op.EQ, ("a",)))
@example(Predicate("null", Op.PRESENT, ()))
@example(Predicate("\u0131n", Op.PRESENT, ()))
def test_parse_undoes_to_sql(expr: Expr) -> None:
    # The representation tells 1 from 1.0 and 0.0 from -0.0, which are equal values.
    assert repr(parse(to_sql(expr))) == repr(expr)
    assert parse(to_sql(expr)) == expr


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("x = 1", x(Op.EQ, 1)),
        ("x <> 1", x(Op.EQ, 1, negated=True)),
        ("x IN (1)", x(Op.IN, 1)),
        ("x NOT IN (1, 'a', TRUE)", x(Op.IN, 1, "a", True, negated=True)),
        ("x < 1", x(Op.LT, 1)),
        ("NOT x < 1", x(Op.LT, 1, negated=True)),
        ("x BETWEEN 1 AND 2.5", x(Op.BETWEEN, 1, 2.5)),
        ("x NOT BETWEEN 1 AND 2", x(Op.BETWEEN, 1, 2, negated=True)),
        ("x IS NULL", x(Op.PRESENT, negated=True)),
        ("x IS NOT NULL", x(Op.PRESENT)),
        ("x LIKE 'a!%' ESCAPE '!'", x(Op.LIKE, "a!%", "!")),
        ("x NOT ILIKE 'a%'", x(Op.ILIKE, "a%", negated=True)),
        ("x RLIKE '^a'", x(Op.RLIKE, "^a")),
        ("TRUE", TRUE),
        ("FALSE", FALSE),
        ("NOT TRUE", Not(TRUE)),
        ("NOT (x = 1)", Not(x(Op.EQ, 1))),
        ("NOT (x <> 1)", Not(x(Op.EQ, 1, negated=True))),
        ("NOT NOT (x = 1)", Not(Not(x(Op.EQ, 1)))),
        ("NOT (a = 1 AND b = 1)", Not(And((A, B)))),
        ("a = 1 AND b = 1 AND c = 1", And((A, B, C))),
        ("(a = 1 AND b = 1) AND c = 1", And((And((A, B)), C))),
        ("a = 1 AND (b = 1 AND c = 1)", And((A, And((B, C))))),
        ("(a = 1 AND b = 1) OR c = 1", Or((And((A, B)), C))),
        ("a = 1 AND (b = 1 OR c = 1)", And((A, Or((B, C))))),
        ("TRUE AND FALSE", And((TRUE, FALSE))),
        ("x = 'it''s'", x(Op.EQ, "it's")),
        (r"x = 'a\'", x(Op.EQ, "a\\")),
        ("x = -5", x(Op.EQ, -5)),
        ("x = 1.0", x(Op.EQ, 1.0)),
        (
            "x = TIMESTAMP '2020-01-31 12:00:00.123456'",
            x(Op.EQ, datetime(2020, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)),
        ),
        ("user.name = 1", Predicate("user.name", Op.EQ, (1,))),
        ('"0ad-data@v" = 1', Predicate("0ad-data@v", Op.EQ, (1,))),
        ('"say ""hi""" = 1', Predicate('say "hi"', Op.EQ, (1,))),
        ('"user.in" = 1', Predicate("user.in", Op.EQ, (1,))),
    ],
)
def test_canonical_text(text: str, expr: Expr) -> None:
    assert repr(parse(text)) == repr(expr)
    assert to_sql(expr) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x != 1", "x <> 1"),
        ("NOT x = 1", "x <> 1"),
        ("NOT x <> 1", "NOT (x <> 1)"),
        ("NOT NOT x = 1", "NOT (x <> 1)"),
        ("NOT x IN (1)", "x NOT IN (1)"),
        ("NOT x NOT IN (1)", "NOT (x NOT IN (1))"),
        ("NOT x IS NOT NULL", "x IS NULL"),
        ("NOT x LIKE 'a'", "x NOT LIKE 'a'"),
        ("NOT ((x = 1))", "NOT (x = 1)"),
        ("not a = 1 and b = 1", "a <> 1 AND b = 1"),
        ("((a = 1)) and ((b = 1 and (c = 1)))", "a = 1 AND (b = 1 AND c = 1)"),
        ("a = 1 AND b = 1 OR c = 1", "(a = 1 AND b = 1) OR c = 1"),
        ("a = 1 OR b = 1 AND c = 1", "a = 1 OR (b = 1 AND c = 1)"),
        ("3 < x", "x > 3"),
        ("3 >= x", "x <= 3"),
        ("'a' <> x", "x <> 'a'"),
        ("TRUE = x", "x = TRUE"),
        ("DATE '2020-01-31' <= x", "x >= TIMESTAMP '2020-01-31 00:00:00'"),
        ("x=-  5", "x = -5"),
        ("x>-.5", "x > -0.5"),
        ("x = 1.", "x = 1.0"),
        ("x = 1E3", "x = 1000.0"),
        ("x = 1e+3", "x = 1000.0"),
        ("x = 007", "x = 7"),
        ("x\n=\t1\r\nAND\u00a0y = 2", "x = 1 AND y = 2"),
        ("x IN(1,2)AND y='a'OR z=3", "(x IN (1, 2) AND y = 'a') OR z = 3"),
        ("`a.b` = 1", "a.b = 1"),
        ('"a.b" = 1', "a.b = 1"),
        ('"a"."b" = 1', "a.b = 1"),
        ('a . "b".`c`.d.e.f.g = 1', "a.b.c.d.e.f.g = 1"),
        ("a.is.null IS NULL", '"a.is.null" IS NULL'),
        ("`a``b` = 1", '"a`b" = 1'),
        ("from = 1 AND select = 2 AND date = 3", "from = 1 AND select = 2 AND date = 3"),
        ("escape LIKE 'a' escape '!'", "escape LIKE 'a' ESCAPE '!'"),
        ("timestamp > timestamp '2020-01-31'", "timestamp > TIMESTAMP '2020-01-31 00:00:00'"),
        ("x = cast('2020-01-31' as date)", "x = TIMESTAMP '2020-01-31 00:00:00'"),
        ("x = CAST('2020-01-31 01:00' AS TIMESTAMP)", "x = TIMESTAMP '2020-01-31 01:00:00'"),
        ("x = TIMESTAMP '2020-01-31T12:00:00Z'", "x = TIMESTAMP '2020-01-31 12:00:00'"),
        ("x = TIMESTAMP '2020-01-31 12:00:00 +01:30'", "x = TIMESTAMP '2020-01-31 10:30:00'"),
        ("x = TIMESTAMP '2020-01-31 12:00:00.5'", "x = TIMESTAMP '2020-01-31 12:00:00.500000'"),
        ("x = TIMESTAMP '2020-01-01 00:00-01'", "x = TIMESTAMP '2020-01-01 01:00:00'"),
        ("été = 1", '"été" = 1'),
    ],
)  # fmt: skip
def test_other_spellings(text: str, canonical: str) -> None:
    assert to_sql(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_names_are_case_sensitive() -> None:
    assert parse("State = 1") != parse("state = 1")


def test_to_sql_accepts_what_check_accepts() -> None:
    class State(StrEnum):
        CALIFORNIA = "CA"

    zone = timezone(timedelta(hours=1))
    assert to_sql(x(Op.EQ, State.CALIFORNIA)) == "x = 'CA'"
    assert to_sql(x(Op.EQ, datetime(2020, 1, 31, 1, tzinfo=zone))).endswith("2020-01-31 00:00:00'")
    assert to_sql(Predicate("x", Op.EQ, (date(2020, 1, 31),))) == (  # type: ignore[arg-type]
        "x = TIMESTAMP '2020-01-31 00:00:00'"
    )


def test_an_atom_has_no_text() -> None:
    with pytest.raises(RuleError, match="Atom has no text form"):
        to_sql(Atom(A, negated=False, if_absent=False))


# --- Errors -----------------------------------------------------------------------------

BAD = [
    # An incomplete rule
    ("", "the rule is empty", 0),
    (" \n ", "the rule is empty", 0),
    ("x =", "expected a value after '='", 3),
    ("x = ", "expected a value after '='", 3),
    ("x = 1 AND", "expected a condition after 'AND'", 9),
    ("NOT", "expected a condition after 'NOT'", 3),
    ("x IN (1", "expected ',' or ')' in the list that starts at character 6", 7),
    ("a = 1 (", "expected AND, OR or the end, not '('", 6),
    ("a = 1 AND (b = 2", "expected ')' to close the '(' at character 11", 16),
    ("((a = 1) OR b = 2", "expected ')' to close the '(' at character 1", 17),
    ("(a = 1 b = 2)", "expected AND, OR or ')', not 'b'", 7),
    ("a = 1)", "this ')' closes nothing", 5),
    ("()", "expected a condition after '(', not ')'", 1),
    ("AND x = 1", "expected a condition, not 'AND'", 0),
    ("x = 'abc", "the string that starts here is not closed", 4),
    ("x = 'it''s", "the string that starts here is not closed", 4),
    ('x = 1 AND "y = 1', "the name that starts here is not closed", 10),
    ("`x = 1", "the name that starts here is not closed", 0),
    # Operators
    ("active", "expected a comparison after the attribute 'active'; write active = TRUE", 6),
    ("active AND x = 1", "write active = TRUE", 7),
    ("x IS TRUE", "expected NULL or NOT NULL after IS, not 'TRUE'; compare with = instead", 5),
    ("x IS NOT 3", "expected NULL or NOT NULL after IS", 9),
    ("x NOT = 3", "expected IN, BETWEEN, LIKE, ILIKE or RLIKE after NOT", 6),
    ("x IN 3", "expected '(' after IN", 5),
    ("x IN ()", "an IN list has at least one", 6),
    ("x IN (1,)", "expected a value after ','", 8),
    ("x IN (1 2)", "expected ',' or ')' in the list", 8),
    ("x BETWEEN 1 2", "expected AND between the two values of BETWEEN", 12),
    ("x BETWEEN 1 AND", "expected a value after 'AND'", 15),
    ("1 < x < 5", "unexpected '<' after a comparison; join two with AND", 6),
    ("x == 1", "expected a value after '=', not '='; one sign is enough", 3),
    ("3 IN (3)", "expected a comparison after the value", 2),
    ("3 = 3", "expected an attribute on one side of '='", 4),
    ("3 < DATE '2020-01-31'", "expected an attribute on one side of '<'", 4),
    ("'a'", "expected a comparison after the value", 3),
    ("x = 'a' 'b'", "expected AND, OR or the end, not \"'b'\"", 8),
    ("x LIKE 'a' ESCAPE", "expected a value after 'ESCAPE'", 17),
    # Other languages
    ("x = NULL", "NULL is not a value; write IS NULL or IS NOT NULL", 4),
    ("x IN (1, NULL)", "NULL is not a value; write IS NULL or IS NOT NULL", 9),
    ("NULL = x", "NULL is not a value", 0),
    ("x IN (y)", "not 'y'; an attribute is not allowed here; a string is 'y'", 6),
    ('x IN ("y")', "a string is 'y'", 6),
    ("foo(x) = 'a'", "unknown function foo", 0),
    ("x = now()", "unknown function now", 4),
    ("EXISTS (SELECT 1)", "expected FROM seen, not ')'", 16),
    ("EXISTS (x)", "unknown function EXISTS", 0),
    ("x IN (SELECT y FROM z)", "expected seen or received after FROM, not 'z'", 20),
    ("(SELECT 1)", "write a subquery in parentheses after EXISTS, IN, ANY or ALL", 1),
    ("x + = 3", "expected a value after '+'", 4),
    ("x = 1 - 3", "1 - 3 has no attribute", 4),
    ("x = 1 || 'a'", "write OR", 6),
    ("a && b", "write AND", 2),
    ("!x", "write NOT", 0),
    ("x = 1; y = 2", "a text holds one rule", 5),
    ("x = 1 -- why", "a rule cannot contain comments", 6),
    ("x = 1 /* why */", "a rule cannot contain comments", 6),
    ("x = 1 {# why #}", "a rule cannot contain comments", 6),
    ("x = @p", "expected a value after '=', not '@'", 4),
    ("x = N'a'", "expected a value after '='", 4),
    ("x = CAST(1 AS DATE)", "expected CAST('…' AS DATE)", 4),
    ("x = CAST('1' AS INT)", "expected CAST('…' AS DATE)", 4),
    # Names and values
    ("0ad = 1", "expected a comparison after the value", 1),
    ("a→b = 1", 'put one with other characters in "quotes"', 0),
    ("a. = 1", "expected a name, not '='", 3),
    ("a.", "expected a name", 2),
    ("a.1 = 1", "expected a name, not '1'", 2),
    ('"" = 1', "an attribute's name is a non-empty string", 0),
    ('"\ud800" = 1', "half a surrogate pair", 0),
    ("x = '\ud800'", "half a surrogate pair", 4),
    ("x = 18446744073709551616", "is too large; integers have 64 bits", 4),
    ("x = -9223372036854775809", "is too large; integers have 64 bits", 4),
    ("x = 1" + "0" * 5000, "is too large; integers have 64 bits", 4),
    ("x IN (1, 1e999)", "too large for a double", 9),
    ("x = 1e", "'1e' is not a number", 4),
    ("x = . 5", "'. 5' is not a number", 4),
    ("x = -'a'", "expected a number after '-'", 5),
    ("x = 0x1F", "expected AND, OR or the end, not 'x1F'", 5),
    ("x = DATE '2020-02-30'", "'2020-02-30' is not a timestamp", 9),
    ("x = DATE '2020-01-31 12:00:00'", "is not a date", 9),
    ("x = TIMESTAMP 'soon'", "'soon' is not a timestamp", 14),
    ("x = TIMESTAMP '2020-01-31 24:00:00'", "is not a timestamp", 14),
    ("x = TIMESTAMP '2020-01-31 12:00:00.1234567'", "is not a timestamp", 14),
    ("x = TIMESTAMP '0001-01-01 00:00:00+01:00'", "is not a timestamp", 14),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "position"), BAD)
def test_bad_text(text: str, message: str, position: int) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.position == position
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("text", "position"),
    [("a = 1 AND x RLIKE '('", 18), ("x LIKE 5", 7), ("x LIKE 'a!' ESCAPE '!'", 7)],
)
def test_bad_pattern(text: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text)
    assert caught.value.position == position


@pytest.mark.parametrize("text", [None, 3, b"x = 1", ["x = 1"]])
def test_what_is_not_a_string(text: object) -> None:
    with pytest.raises(RuleError, match="a rule's text is a string, not"):
        parse(text)  # type: ignore[arg-type]


def test_the_caret_is_under_the_culprit() -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        parse("a = 1 AND\nb = NULL")
    assert str(caught.value).splitlines()[1:] == ["  b = NULL", "      ^"]


WORDS = (
    "x a.b \"q\" `q` 'a' 1 -1 .5 1e3 ( ) , . = <> != < <= > >= - + ; * / ! {# #} -- AND OR NOT IN "
    "BETWEEN LIKE ILIKE RLIKE IS NULL TRUE FALSE ESCAPE DATE TIMESTAMP CAST AS SELECT '2020-01-31'"
).split()


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["", " "]))
def test_any_words_parse_or_are_refused(words: list[str], space: str) -> None:
    _parses_or_is_refused(space.join(words))


@given(st.text(max_size=20) | st.text("xin '\"`.=<>!(),-0e{#}\\\n\x00\u0131é", max_size=20))
def test_any_text_parses_or_is_refused(text: str) -> None:
    _parses_or_is_refused(text)


def _parses_or_is_refused(text: str) -> None:
    try:
        expr = parse(text)
    except RuleError as error:
        assert error.position is not None
        assert 0 <= error.position <= len(text)
        assert str(error)
    else:
        assert parse(to_sql(expr)) == expr


# --- Limits -----------------------------------------------------------------------------


def nest(depth: int, step: Callable[[Expr, int], Expr]) -> Expr:
    expr: Expr = A
    for level in range(1, depth):
        expr = step(expr, level)
    return expr


DEEP: list[Callable[[Expr, int], Expr]] = [
    lambda below, level: Not(below),
    lambda below, level: And((below, B)),
    lambda below, level: Or((B, below)) if level % 2 else And((B, below)),
    lambda below, level: Not(below) if level % 2 else Or((B, below, C)),
]


@pytest.mark.parametrize("step", DEEP)
def test_the_deepest_rule_parses_far_down_the_stack(step: Callable[[Expr, int], Expr]) -> None:
    def deeper(frames: int) -> Expr:
        return deeper(frames - 1) if frames else parse(to_sql(expr))

    expr = nest(MAX_DEPTH, step)
    assert deeper(200) == expr
    with pytest.raises(RuleTooLargeError, match="nested more than"):
        parse(to_sql(step(expr, MAX_DEPTH)))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a = 1" + ")" * 10_000,
        "(" * 10_000,
        "NOT " * 10_000 + "a = 1",
        "NOT (" * 10_000 + "a = 1" + ")" * 10_000,
        "(a = 1 AND " * 10_000 + "a = 1" + ")" * 10_000,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(RuleTooLargeError, match=f"nested more than {MAX_DEPTH} levels deep"):
        parse(text)


def test_redundant_parentheses_do_not_count_as_levels() -> None:
    assert parse("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH) == A
    assert parse(" AND ".join(["(NOT (a = 1))"] * 1000)) == And((Not(A),) * 1000)


def test_long_chains_do_not_nest() -> None:
    assert parse(" OR ".join(["a = 1"] * 20_000)) == Or((A,) * 20_000)


@pytest.mark.parametrize("count", [MAX_NODES, 1_000_000])
def test_too_many_nodes(count: int) -> None:
    with pytest.raises(RuleTooLargeError, match="more than 250,000 nodes"):
        parse(" OR ".join(["a=1"] * count))


def test_a_list_of_values_is_one_node() -> None:
    text = f"x IN ({', '.join(map(str, range(MAX_NODES + 1)))})"
    expr = parse(text)
    assert isinstance(expr, Predicate)
    assert expr.values == tuple(range(MAX_NODES + 1))


def test_words_in_strings_are_not_counted_as_nodes() -> None:
    string = "and or not ((( " * 100_000
    assert parse(f"x = '{string}'") == x(Op.EQ, string)


def test_threads_do_not_disturb_each_other() -> None:
    texts = [f"x{i} = '{i}' AND y IN ({i}, {i + 1})" for i in range(500)]
    expected = [parse(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(parse, texts)) == expected
