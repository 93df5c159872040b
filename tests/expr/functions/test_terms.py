"""Functions in rules: their texts and names, errors and their positions, and explanations."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import tamis
from tamis.errors import RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr.functions.derive import read_derived_name, term_named
from tamis.expr.functions.terms import Attribute, Call, Constant, Term, call, name_of, spell_term
from tamis.expr.model import And, Expr, Op, Predicate
from tamis.expr.names import DERIVED
from tamis.expr.text.predicates import read_predicate
from tamis.expr.text.shapes import Shapes
from tamis.expr.validate import check

NAMES = ("x", "length", "user.name", "o'dd \"n", "in", "date")


def _terms() -> SearchStrategy[Term]:
    attributes: SearchStrategy[Term] = st.sampled_from(NAMES).map(Attribute)
    numbers = st.integers(-9, 9) | st.sampled_from([0.5, -2.25, 1e300])

    def above(inner: SearchStrategy[Term]) -> SearchStrategy[Term]:
        operands = st.tuples(inner, inner | numbers.map(Constant))
        return st.one_of(
            st.builds(Call, st.sampled_from("+-*/%"), operands),
            st.builds(Call, st.sampled_from("*/-"), operands.map(lambda pair: pair[::-1])),
            st.builds(Call, st.sampled_from(("abs", "negative")), st.tuples(inner)),
        )

    return st.recursive(attributes, above, max_leaves=6)


@given(_terms(), _terms(), st.booleans())
def test_a_term_has_one_text(left: Term, right: Term, negated: bool) -> None:
    assert isinstance(left, Attribute | Call)
    expr: Expr = Predicate(name_of(left), Op.GT, (3,), negated)
    assert tamis.parse(tamis.to_sql(expr)) == expr
    assert tamis.from_json(tamis.to_json(expr)) == expr
    if isinstance(left, Call):
        assert term_named(name_of(left)) == left
        assert read_derived_name(spell_term(left)) == name_of(left)
    compared = Predicate(name_of(call("<=", (left, right))), Op.EQ, (True,), negated)
    assert tamis.parse(tamis.to_sql(compared)) == compared
    assert check(compared) == compared


TEXTS = [
    "length(name) > 3",
    "length(name) NOT BETWEEN 3 AND 5",
    "x % 4 = 3",
    "(x + 1) * 2 <= 10.5",
    "x + 1 IS NULL",
    "price < list_price",
    "NOT price = list_price",
    "(price < list_price) IS NULL",
    "(price < list_price) = FALSE",
    "version(app) >= '5.7.40'",
    "version(app) NOT IN ('1', '1.0')",
    "subset(a, ('x', 'y'))",
    "NOT equalset(lower(a), ('it''s', -1.5, TRUE))",
    "superset(a, (TIMESTAMP '2020-01-31 00:00:00'))",
    "within_km(lat, lon, 52.5, -13.4, 10)",
    "address(ip) BETWEEN '10.0.0.0' AND '10.255.255.255'",
    "substring(x, -3, 2) LIKE 'a%'",
    "hour(at_zone(t, 'Asia/Kolkata')) = 3",
    "to_timestamp(x, 'yyyy-MM-dd''T''HH') > TIMESTAMP '2020-01-31 00:00:00'",
    "size(tags) >= 2",
    "-x < 3",
    "-(x + 1) < 3",
    "length = 3",
    "length(length) = length",
]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_are_canonical(text: str) -> None:
    expr = tamis.parse(text)
    assert tamis.to_sql(expr) == text
    assert tamis.from_json(tamis.to_json(expr)) == expr
    assert check(expr) == expr
    shapes = Shapes()
    assert [shapes.parse(text) for _ in range(3)] == [expr] * 3
    assert read_predicate(text) in (expr, None)


SHORT = {
    "contains(x, 'a')": "x LIKE '%a%'",
    "startswith(x, 'a')": "x LIKE 'a%'",
    "endswith(lower(x), 'a')": "lower(x) LIKE '%a'",
    "icontains(x, '5%_\\')": r"x ILIKE '%5\%\_\\%' ESCAPE '\'",
    "istartswith(x, 'a')": "x ILIKE 'a%'",
    "iendswith(x, 'a')": "x ILIKE '%a'",
    "regexp_full(x, 'a|b')": r"x RLIKE '\A(?:a|b)\z'",
    "intersects(x, (1, 2))": "x IN (1, 2)",
    "cidr(ip, '10.1.2.3/8')": "address(ip) BETWEEN '10.0.0.0' AND '10.255.255.255'",
    "within_box(a, b, 1, 2, 3, 4)": "a BETWEEN 1 AND 3 AND b BETWEEN 2 AND 4",
    "3 < length(x)": "length(x) > 3",
    "WeekOfYear(t) = 3": "week(t) = 3",
    "(x) = 3": "x = 3",
    "((x + 1)) = 3": "x + 1 = 3",
    "x-1 = 3": "x - 1 = 3",
    "NOT contains(x, 'a')": "x NOT LIKE '%a%'",
}


@pytest.mark.parametrize("text", SHORT)
def test_texts_that_are_short_for_others(text: str) -> None:
    assert tamis.to_sql(tamis.parse(text)) == SHORT[text]


def test_full_matches_and_parts_of_strings() -> None:
    for text, value, held in [
        ("regexp_full(x, 'a|bc')", "bc", True),
        ("regexp_full(x, 'a|bc')", "abc", False),
        ("regexp_full(x, 'a.c')", "a\nc", False),
        ("contains(x, '_%')", "a_%b", True),
        ("contains(x, '_%')", "ab", False),
        ("iendswith(x, 'É')", "café", True),
        ("startswith(x, '\\')", "\\a", True),
    ]:
        assert tamis.evaluate(tamis.parse(text), {"x": value}) is held, (text, value)


BAD = [
    ("lenght(x) = 3", "unknown function lenght; did you mean length?", 0),
    ("a = 1 AND foo(x) = 3", "unknown function foo", 10),
    ("length() = 3", "length takes 1 argument", 0),
    ("length(x, y) = 3", "length takes 1 argument", 0),
    ("substring(x) = 'a'", "substring takes 2 to 3 arguments", 0),
    ("substring(x, 'a') = 'a'", "expected a whole number, not 'a'", 0),
    ("length(x) = 'a'", "length(x) is a number, 'a' is not", 12),
    ("lower(x) IN ('a', 3)", "lower(x) is a string, 3 is not", 12),
    ("version(x) > 5.7", "write it in quotes", 13),
    ("version(x) > y", "do not compare", 0),
    ("address(x) = 'nowhere'", "an address", 13),
    ("year(x) LIKE '20%'", "LIKE looks into strings", 13),
    ("to_timestamp(x) > '2020-01-31'", "write TIMESTAMP", 18),
    ("to_timestamp(x, 'QQQ') IS NULL", "not supported", 0),
    ("at_zone(t, 'Nowhere/Land') IS NULL", "unknown time zone", 0),
    ("length(abs(x)) = 3", "length takes a string", 0),
    ("length(contains(x, 'a')) = 3", "is a condition, not a value", 7),
    ("contains(x)", "contains takes 2 arguments", 0),
    ("contains(x, 3)", "contains takes a string, not 3", 0),
    ("contains('x', 'y')", "neither an attribute nor", 0),
    ("cidr(ip, '10.0.0.0/99')", "is not a network", 0),
    ("within_km(a, b, 100, 0, 1)", "a latitude of -90 to 90", 0),
    ("subset(x, 'a')", "expected '(' after ,", 10),
    ("subset(x)", "',' and a list", 8),
    ("size(lower(x)) = 3", "size counts the values of an attribute", 0),
    ("1 + 2 = x", "has no attribute", 0),
    ("x = 1 -- 2", "a rule cannot contain comments", 6),
    ("length(x)", "expected a comparison after length(x)", 9),
    ("(x = 1) = TRUE", "write the comparison without parentheses", 0),
    ('"\x01length(x)" = 3', "control character", 0),
    ("(x + 1 = 3", "expected ')'", 10),
]


@pytest.mark.parametrize(("text", "message", "position"), BAD)
def test_bad_terms(text: str, message: str, position: int) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        tamis.parse(text)
    assert message in caught.value.message
    assert caught.value.position == position


def test_the_nesting_of_terms_is_limited() -> None:
    deep = "abs(" * 20 + "x" + ")" * 20
    assert tamis.evaluate(tamis.parse(f"{deep} = 3"), {"x": -3})
    for text in (
        "abs(" * 40 + "x" + ")" * 40,
        "(" * 40 + "x" + ")" * 40,
        "-" * 1 + "(-" * 40 + "x",
    ):
        with pytest.raises(RuleTooLargeError, match="32 levels"):
            tamis.parse(f"{text} = 3")


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate(DERIVED + "length( x )", Op.EQ, (3,)),
        Predicate(DERIVED + "x", Op.EQ, (3,)),
        Predicate(DERIVED + "foo(x)", Op.EQ, (3,)),
        Predicate(DERIVED + "length(x)", Op.EQ, ("a",)),
        Predicate(DERIVED + "subset(x)", Op.EQ, ("('b', 'a')",)),
        Predicate(DERIVED + "subset(x)", Op.EQ, ("x)",)),
        Predicate(DERIVED + "subset(x)", Op.PRESENT, ()),
        Predicate(DERIVED + "within_km(a, b)", Op.EQ, ("1, 2",)),
    ],
)
def test_handwritten_names_of_derived_attributes_are_refused(predicate: Predicate) -> None:
    with pytest.raises(RuleError):
        check(predicate)


def test_rules_and_events_cannot_use_marked_names() -> None:
    for bad in (
        {"attr": "\x01length(x)", "=": 3},
        {"derived": "x", "=": 3},
        {"derived": 3, "=": 3},
    ):
        with pytest.raises(RuleError):
            tamis.from_json(bad)
    with pytest.raises(tamis.EventError, match="control character"):
        tamis.evaluate(tamis.parse("length(x) = 3"), {"\x01length(x)": 3})
    assert read_predicate('"\x01length(x)" = 3') is None


def test_weights_of_derived_attributes() -> None:
    rule = tamis.parse("version(app) IN ('1.0', '2') AND length(name) > 3")
    assert isinstance(rule, And)
    weights = {("version(app)", "1.0"): 2.0, "length(name) > 3": 0.5}
    m = tamis.Matcher()
    m.add("r", rule, weights=weights)
    assert m.top({"app": "1", "name": "long"}) == [("r", 2.5)]
    assert m.top({"app": "2.0.0", "name": "long"}) == [("r", 1.5)]


def test_derived_attributes_in_explanations() -> None:
    m = tamis.Matcher()
    m.add("r", "version(app) >= '2' AND subset(tags, ('a')) AND length(name) > 3 AND x < y")
    event = {"app": "1.9", "tags": ["b"], "name": "abc", "x": 1}
    lines = str(m.explain("r", event)).splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "✗ version(app) >= '2'   [app = '1.9': did not hold]",
        "✗ subset(tags, ('a'))   [tags = 'b': did not hold]",
        "✗ length(name) > 3   [length(name) = 3: did not hold]",
        "∅ x < y   [x < y is absent: absent]",
    ]
    changes = m.why_not("r", event).changes
    assert changes is not None
    assert [change.text for change in changes] == [
        "version(app) >= '2'",
        "subset(tags, ('a'))",
        "length(name) > 3",
        "x < y",
    ]


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%"])
def test_long_chains_of_signs(sign: str) -> None:
    def chain(count: int) -> str:
        return f"x {' '.join([f'{sign} 1.5'] * count)} > 3"

    tamis.parse(chain(250))
    matcher = tamis.Matcher()
    bad = [(f"bad {count}", chain(count)) for count in (481, 490, 3000)]
    report = matcher.add_many([*bad, ("good", "x > 1")], on_error="skip")
    assert (report.added, [refused.id for refused in report.bad]) == (1, [id for id, _ in bad])
    with pytest.raises(RuleTooLargeError, match="480 levels"):
        matcher.add("bad", chain(490))
    assert matcher.match({"x": 2}) == ["good"]


def test_the_longest_chain_needs_a_frame_for_each_sign(tmp_path: Path) -> None:
    """So that rules stored before there was a limit open wherever a caller has some room left."""
    text = f"x{' + 1' * 480} = 481"
    room = sys.getrecursionlimit()

    def use_at(depth: int) -> None:
        if depth:
            return use_at(depth - 1)
        with tamis.open(tmp_path / "rules") as matcher:
            matcher.add("chain", text)
            assert matcher.match({"x": 1}) == ["chain"]
        with tamis.open(tmp_path / "rules") as matcher:
            assert matcher.rule("chain").text == text
            assert matcher.match({"x": 1}) == ["chain"]
            matcher.optimize()
            assert matcher.match_many([{"x": 1}])["rule"].to_pylist() == ["chain"]
            assert tamis.from_json(tamis.to_json(matcher.rule("chain").expr)) == tamis.parse(text)
        return None

    use_at(room - 480 - 300 - len(inspect.stack(0)) if room == 1000 else 0)
