"""Join predicates: their text and JSON forms, and their meaning beyond SQL."""

from __future__ import annotations

import pytest

import tamis
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Predicate
from tamis.expr.names import JOINED

NEWER = "EXISTS (SELECT 1 FROM seen d WHERE d.x > x)"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("exists (select * from seen where x < seen.x)", NEWER),
        ("EXISTS (SELECT old.y, 3 FROM seen AS old WHERE old.x > x)", NEWER),
        (
            "EXISTS (SELECT 1 FROM seen d WHERE 5 < d.y AND d.x > x AND d.x > x)",
            "EXISTS (SELECT 1 FROM seen d WHERE d.x > x AND d.y > 5)",
        ),
        (
            "EXISTS (SELECT 1 FROM seen d WHERE NOT (d.x > x OR NOT d.y IS NULL))",
            "EXISTS (SELECT 1 FROM seen d WHERE NOT d.x > x AND d.y IS NULL)",
        ),
        ("x < SOME (SELECT d.y FROM seen d)", "x < ANY (SELECT d.y FROM seen d)"),
        ("x NOT IN (SELECT d.y FROM seen d)", "NOT x = ANY (SELECT d.y FROM seen d)"),
        ("NOT x >= ALL (SELECT d.a.b FROM seen d)", "NOT x >= ALL (SELECT d.a.b FROM seen d)"),
        (
            'EXISTS (SELECT 1 FROM seen q WHERE q."o d" = d.x AND q.d > 1)',
            'EXISTS (SELECT 1 FROM seen d WHERE d."o d" = "d.x" AND d.d > 1)',
        ),
        (
            "a = 1 AND (EXISTS (SELECT 1 FROM seen d) OR b LIKE 'x%')",
            "a = 1 AND (EXISTS (SELECT 1 FROM seen d) OR b LIKE 'x%')",
        ),
    ],
)
def test_one_text_for_all_spellings(text: str, canonical: str) -> None:
    rule = tamis.parse(text)
    assert tamis.to_sql(rule) == canonical
    assert tamis.parse(canonical) == rule
    assert tamis.from_json(tamis.to_json(rule)) == rule


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("EXISTS (SELECT 1 FROM other d)", "expected seen or received after FROM", 22),
        ("EXISTS (SELECT FROM seen d)", "expected what to select", 15),
        ("EXISTS (SELECT 1", "expected FROM seen", 16),
        ("x < ANY (SELECT y FROM seen d)", "one attribute of the old document, d.…", 16),
        ("x < ANY (SELECT d.y, d.z FROM seen d)", "one attribute of the old document", 19),
        ("x < ANY (3)", "expected (SELECT", 8),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x > d.y)", "both the old document's", 41),
        ("EXISTS (SELECT 1 FROM seen d WHERE x > y)", "both the new document's", 39),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x > 1 GROUP BY x)", "has only SELECT", 43),
        (
            "EXISTS (SELECT 1 FROM seen d WHERE x < ANY (SELECT e.x FROM seen e))",
            "cannot contain",
            39,
        ),
        ("EXISTS (SELECT 1 FROM seen d WHERE EXISTS (SELECT 1 FROM seen))", "cannot contain", 35),
        ("EXISTS (SELECT 1 FROM seen d WHERE)", "a condition in the subquery", 34),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x = NULL)", "NULL is not a value", 41),
        ("SELECT 1", "write a subquery in parentheses", 0),
        ('"\x02EXISTS (SELECT 1 FROM seen d)" = TRUE', "must not begin with", 0),
    ],
)
def test_malformed_join_predicates(text: str, message: str, position: int) -> None:
    with pytest.raises(tamis.RuleSyntaxError) as caught:
        tamis.parse(text)
    assert message in caught.value.message
    assert caught.value.position == position


def test_deep_conditions_are_refused() -> None:
    text = f"EXISTS (SELECT 1 FROM seen d WHERE {'(' * 40}d.x > x{')' * 40})"
    with pytest.raises(tamis.RuleSyntaxError, match="nested more than 32 levels"):
        tamis.parse(text)


def _alternating(levels: int) -> str:
    condition = "d.x > x"
    for _ in range(levels):
        condition = f"(d.y = y AND {condition} OR d.z = z)"
    return f"EXISTS (SELECT 1 FROM seen d WHERE {condition})"


def test_an_and_in_an_or_counts_as_a_level() -> None:
    """The text that names the predicate has parentheses around it."""
    with pytest.raises(tamis.RuleSyntaxError, match="nested more than 32 levels"):
        tamis.parse(_alternating(20))
    rule = tamis.parse(_alternating(16))
    assert isinstance(rule, Predicate)
    assert join_named(rule.attribute).olds == {"x", "y", "z"}
    assert tamis.parse(tamis.to_sql(rule)) == rule


@pytest.mark.parametrize(
    ("condition", "canonical"),
    [
        ("d.x > x OR d.x > x", "d.x > x"),
        ("(d.x > x OR x < d.x) AND d.y = y", "d.x > x AND d.y = y"),
        ("((d.x > x AND d.z = z) OR (d.z = z AND d.x > x)) AND d.y = y",
         "d.x > x AND d.y = y AND d.z = z"),
        ("NOT (NOT d.x > x AND NOT d.x > x) AND d.y = 1", "d.x > x AND d.y = 1"),
        ("d.y = 1 OR d.y = 1.0 OR d.y = TRUE", "d.y = 1 OR d.y = 1.0 OR d.y = TRUE"),
    ],
)  # fmt: skip
def test_a_condition_says_each_thing_once(condition: str, canonical: str) -> None:
    rule = tamis.parse(f"EXISTS (SELECT 1 FROM seen d WHERE {condition})")
    assert tamis.to_sql(rule) == f"EXISTS (SELECT 1 FROM seen d WHERE {canonical})"
    assert isinstance(rule, Predicate)
    join_named(rule.attribute)


@pytest.mark.parametrize("join", [3, "x > 3", "EXISTS (SELECT 1 FROM other)", None])
def test_the_json_form_is_a_text(join: object) -> None:
    with pytest.raises(tamis.RuleSyntaxError, match="at join"):
        tamis.from_json({"join": join})


def test_a_tree_may_contain_parsed_join_predicates_only() -> None:
    rule = tamis.parse(f"NOT {NEWER}")
    matcher = tamis.Matcher()
    matcher.add("r", tamis.all_of(rule, tamis.parse("a = 1")))
    assert matcher.rule("r").text == f"NOT {NEWER} AND a = 1"
    for name in (JOINED + "nothing", JOINED + NEWER.lower(), "\x01length(x)"):
        with pytest.raises(tamis.RuleError):
            matcher.add("s", Predicate(name, tamis.Op.EQ, (True,)))
    with pytest.raises(tamis.RuleError):
        matcher.add("s", Predicate(JOINED + NEWER, tamis.Op.EQ, (3,)))


def test_the_attributes_of_a_join_predicate() -> None:
    text = "x < ANY (SELECT d.y FROM seen d WHERE d.a.b = c AND e > 1 AND d.f IS NULL)"
    predicate = tamis.parse(text)
    assert isinstance(predicate, Predicate)
    join = join_named(predicate.attribute)
    assert join.news == {"x", "c", "e"}
    assert join.olds == {"y", "a.b", "f"}


def holds(text: str, event: object, documents: object, logic: str = "strong") -> bool:
    return tamis.evaluate(tamis.parse(text), event, logic, documents=documents)  # type: ignore[arg-type]


def test_unknown_in_both_logics() -> None:
    """Without documents ALL is true and ANY false; one without the attribute makes both unknown."""
    least = "x < ALL (SELECT d.x FROM seen d)"
    assert holds(least, {"x": 1}, [])
    assert holds(least, {}, [])
    assert not holds(f"{least} OR NOT {least}", {"x": 1}, [{"x": 2}, {}])
    assert holds(f"NOT {least}", {"x": 1}, [{"x": 2}, {}], "weak")
    assert holds(f"NOT {least}", {"x": 3}, [{"x": 2}, {}])
    seen = "x IN (SELECT d.x FROM seen d)"
    assert not holds(f"{seen} OR NOT {seen}", {}, [{"x": 2}])
    assert holds(f"NOT {seen}", {}, [{"x": 2}], "weak")
    assert holds(f"NOT {seen}", {}, [])


def test_several_values_need_one_pair() -> None:
    assert holds(NEWER, {"x": [1, 9]}, [{"x": [0, 2]}])
    assert not holds("x <> ANY (SELECT d.x FROM seen d)", {"x": [1, 9]}, [{"x": [9, 2]}])
    assert holds("x <> ALL (SELECT d.x FROM seen d)", {"x": [1, 9]}, [{"x": 2}, {"x": [3, 4]}])
