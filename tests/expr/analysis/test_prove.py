"""Proofs about rules are never wrong, and complete for rules without patterns."""

from __future__ import annotations

from random import Random

import pytest

from tamis.expr.analysis.prove import Prover, negate
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS, Expr, Logic, Or
from tamis.expr.normalize import nnf
from tamis.expr.text.grammar import parse
from tamis.expr.value_order import INTEGERS, LINES
from tests import randoms

ANY = Prover()


def tree(text: str, logic: Logic = "strong") -> Expr:
    return nnf(parse(text), logic)


@pytest.mark.parametrize(
    ("text", "may", "may_if_single"),
    [
        ("FALSE", False, False),
        ("TRUE", True, True),
        ("x > 3 AND x < 2", True, False),
        ("x > 3 AND NOT x > 2", False, False),
        ("x > 3 AND x < 4", True, True),
        ("x = 1 AND x = 2", True, False),
        ("x = 1 AND x = 1.0", True, True),
        ("x = 1 AND x <> 1", False, False),
        ("x IN (1, 2) AND x NOT IN (2, 1, 3)", False, False),
        ("x IS NULL AND x = 1", False, False),
        ("x IS NULL AND x <> 1", False, False),
        ("x IS NULL AND y IS NOT NULL", True, True),
        ("x > 'a' AND NOT x > 'a'", False, False),
        ("x BETWEEN 5 AND 3", False, False),
        ("x < 3 AND x = 'a'", True, False),
        ("x = 'abc' AND x NOT LIKE 'a%'", False, False),
        ("x LIKE '%b%' AND x NOT LIKE '%b%'", False, False),
        ("x LIKE '%b%' AND x IN ('a', 'c')", True, False),
        ("x LIKE 'b%' AND x < 'a'", True, False),
        ("(x = 1 OR y = 2) AND x <> 1 AND y <> 2", False, False),
        ("(x = 1 OR y = 2) AND x <> 1", True, True),
    ],
)
def test_contradictions(text: str, may: bool, may_if_single: bool) -> None:
    assert ANY.can_hold(tree(text)) is may
    assert Prover({"x", "y"}).can_hold(tree(text)) is may_if_single


def test_absence_makes_a_difference() -> None:
    assert ANY.can_hold(tree("x IS NULL AND x <> 1", "weak"))
    assert not ANY.can_hold(negate(tree("x <> 1 OR x = 1", "weak")))
    assert ANY.can_hold(negate(tree("x <> 1 OR x = 1", "strong")))


def test_a_declared_kind_leaves_fewer_values() -> None:
    between = tree("x > 3 AND x < 4")
    whole = Prover({"x"}, lambda _: (INTEGERS,))
    assert Prover({"x"}, lambda _: LINES).can_hold(between)
    assert not whole.can_hold(between)


@pytest.mark.parametrize(
    ("text", "other", "answer"),
    [
        ("x = 1", "x IN (1, 2)", True),
        ("x IN (1, 2)", "x = 1", False),
        ("x > 5 AND y = 1", "x > 3", True),
        ("x = 1 OR x = 2", "x < 3", True),
        ("x = 1 OR x = 7", "x < 3", False),
        ("x = 'abc'", "x LIKE 'a%' AND x RLIKE 'b'", True),
        ("x LIKE '%b%'", "x IS NOT NULL", True),
        ("x LIKE '%b%'", "x LIKE '%b%' OR y = 1", True),
        ("x <> 1", "x IS NOT NULL", True),
        ("x NOT IN (1, 2)", "x <> 1", True),
        ("FALSE", "x = 1", True),
        ("x = 1", "TRUE", True),
        ("(a = 1 OR b = 1) AND c = 1", "(a = 1 AND c = 1) OR (b = 1 AND c = 1)", True),
    ],
)
def test_implications(text: str, other: str, answer: bool) -> None:
    assert ANY.implies(tree(text), tree(other)) is answer


def test_a_rule_with_too_many_ways_is_left_open() -> None:
    open_ways = [f"(a{n} = 1 OR b{n} = 1)" for n in range(20)]
    never = ["(z = 1 OR z = 2)", "(z = 3 OR z = 4)"]
    single = Prover({"z"})
    assert not single.can_hold(tree(" AND ".join(never + open_ways[:5])))
    assert single.can_hold(tree(" AND ".join(never + open_ways)))
    assert single.example(tree(" AND ".join(never + open_ways)), Random(0)) is None


@pytest.mark.parametrize("logic", LOGICS)
def test_proofs_are_never_wrong(logic: Logic) -> None:
    random = Random(11)
    known = randoms.MIXED
    events = [flatten(randoms.event(random, known)) for _ in range(150)]
    proved = {"never": 0, "implies": 0}
    rules = [nnf(randoms.rule(random, known, depth=2), logic) for _ in range(250)]
    for rule in rules:
        matched = [event for event in events if evaluate_flat(rule, event, logic)]
        unmatched = [event for event in events if not evaluate_flat(rule, event, logic)]
        for event in matched:
            assert not evaluate_flat(negate(rule), event, logic)
        if not ANY.can_hold(rule):
            proved["never"] += 1
            assert not matched
        if not ANY.can_hold(negate(rule)):
            assert not unmatched
        for other in (random.choice(rules), Or((rule, random.choice(rules)))):
            if ANY.implies(rule, other):
                proved["implies"] += 1
                assert all(evaluate_flat(other, event, logic) for event in matched)
    assert proved["never"] > 3
    assert proved["implies"] > 200


@pytest.mark.parametrize("logic", LOGICS)
def test_a_rule_without_patterns_has_an_example_or_never_matches(logic: Logic) -> None:
    random = Random(3)
    never = 0
    for _ in range(400):
        rule = nnf(randoms.rule(random, randoms.NUMBERED, depth=3), logic)
        event = ANY.example(rule, random)
        if event is None:
            never += 1
            assert not ANY.can_hold(rule)
        else:
            assert evaluate_flat(rule, event, logic)
    assert 0 < never < 40


def test_patterns_have_examples() -> None:
    text = "a LIKE 'x_y%' AND b ILIKE '%Abc%' AND c RLIKE 'def' AND a NOT LIKE '%q%'"
    rule = tree(text)
    event = ANY.example(rule, Random(2))
    assert event is not None
    assert evaluate_flat(rule, event, "strong")


def test_examples_differ() -> None:
    rule = tree("(a = 1 OR a = 2 OR b = 3) AND c IN ('x', 'y')")
    random = Random(1)
    assert len({str(ANY.example(rule, random)) for _ in range(40)}) == 6


def test_provers_with_other_scalars_share_what_they_know_and_still_differ() -> None:
    text = "x = 1 AND x = 2"
    prover = Prover({"y"})
    assert prover.can_hold(tree(text))
    assert not prover.assuming({"x"}).can_hold(tree(text))
    assert prover.can_hold(tree(text))
    event = prover.example(tree(text), Random(0))
    assert event is not None
    event["x"].clear()  # an event belongs to its caller
    again = prover.example(tree(text), Random(0))
    assert again is not None
    assert sorted(again["x"]) == [1, 2]
