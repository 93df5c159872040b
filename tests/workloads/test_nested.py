"""Nested rules hold on the events they are derived from."""

from __future__ import annotations

import hashlib
import re

import pytest

from tamis.expr.evaluate import evaluate
from tamis.expr.model import And, Expr, Not, Or, Predicate, predicates
from tamis.expr.normalize import dnf, nnf, simplify
from tamis.expr.text.grammar import parse
from tamis.matcher.matcher import Matcher
from tamis.workloads.nested import Workload


def parse_rules(workload: Workload) -> list[Expr]:
    return [parse(text) for _, text in workload.rules()]


def depth(rule: Expr) -> int:
    if isinstance(rule, Predicate):
        return 0
    if isinstance(rule, Not):
        return depth(rule.child)
    assert isinstance(rule, And | Or)
    return 1 + max(map(depth, rule.children))


def conjunctions(rule: Expr) -> int | None:
    """The number of conjunctions of its DNF; None if there are too many."""
    clauses = dnf(simplify(nnf(rule, "strong"), frozenset()), scalars=frozenset())
    return None if clauses is None else len(clauses)


@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_every_rule_holds_on_the_event_it_is_derived_from(logic) -> None:
    workload = Workload(size=600, match_probability=1, large=0.2, seed=3)
    (event,) = workload.events(1)
    for rule in parse_rules(workload):
        assert evaluate(rule, event, logic)


def test_an_event_matches_the_requested_share_of_the_rules() -> None:
    workload = Workload(size=2_000, match_probability=0.02)
    rules, events = parse_rules(workload), workload.events(15)
    found = sum(evaluate(rule, event) for rule in rules for event in events)
    assert found / (len(rules) * len(events)) == pytest.approx(0.02, rel=0.03)


def test_rules_have_the_requested_depth() -> None:
    workload = Workload(size=1_000, large=0)
    assert {depth(rule) for rule in parse_rules(workload)} == {3, 4, 5}
    flat = Workload(size=300, shallowest=2, deepest=2, large=0)
    assert {depth(rule) for rule in parse_rules(flat)} == {2}


def test_all_operators_occur() -> None:
    rules = parse_rules(Workload(size=500))
    assert len({(leaf.op, leaf.negated) for rule in rules for leaf in predicates(rule)}) >= 9
    assert any("NOT (" in text for _, text in Workload(size=100).rules())


def test_large_rules_exceed_the_budget_and_others_stay_far_below() -> None:
    ordinary = [conjunctions(rule) for rule in parse_rules(Workload(size=300, large=0))]
    assert all(count is not None and count <= 64 for count in ordinary)
    large = [conjunctions(rule) for rule in parse_rules(Workload(size=50, large=1))]
    assert set(large) == {None}
    some = [conjunctions(rule) for rule in parse_rules(Workload(size=600, large=0.1))]
    assert some.count(None) == pytest.approx(60, abs=25)


def test_a_matcher_agrees_with_direct_evaluation() -> None:
    workload = Workload(size=300, large=0.1, match_probability=0.2)
    matcher = Matcher()
    matcher.add_many(workload.rules_table())
    assert matcher.stats()["programs"] > 0
    rules = parse_rules(workload)
    for event in workload.events(5):
        expected = [i for i, rule in enumerate(rules) if evaluate(rule, event)]
        assert matcher.match(event) == expected


def test_rules_are_the_same_one_by_one_and_as_a_table() -> None:
    workload = Workload(size=66_000)
    table = workload.rules_table()
    assert list(workload.rules()) == list(zip(*table.to_pydict().values(), strict=True))
    assert table.num_rows == 66_000
    assert Workload(size=0).rules_table().num_rows == 0


def test_events_are_the_same_as_dicts_and_as_a_table() -> None:
    workload = Workload(size=10)
    rows = workload.events_table(20).to_pylist()
    assert [{k: v for k, v in row.items() if v is not None} for row in rows] == workload.events(20)


def test_a_seed_gives_the_same_workload_everywhere() -> None:
    workload = Workload(size=300, large=0.1, seed=7)
    text = repr((list(workload.rules()), workload.events(5)))
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "b4865a0b4f95cc963a212064f7d42ed69fe19d226bd85bde551c1e57500c7859"
    )
    assert list(Workload(size=5, seed=8).rules()) != list(Workload(size=5, seed=9).rules())


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"shallowest": 1},
        {"shallowest": 6},
        {"deepest": 7},
        {"large": 2},
        {"match_probability": 0},
        {"event_size": 401},
    ],
)
def test_impossible_parameters_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=re.escape(next(iter(wrong)))):
        Workload(**wrong)
