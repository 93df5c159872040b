"""The advertising workload has the statistics of the k-index paper."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tamis.expr.evaluate import evaluate
from tamis.expr.model import And, Expr, Or, Predicate, predicates
from tamis.expr.text.grammar import parse
from tamis.expr.weights import EventWeights, RuleWeights
from tamis.matcher.matcher import Matcher
from tamis.workloads.ads import Workload


def parse_rules(workload: Workload) -> list[Expr]:
    return [parse(text) for _, text in workload.rules()]


def children(expr: Expr, kind: type[And] | type[Or]) -> list[Expr]:
    return list(expr.children) if isinstance(expr, kind) else [expr]


def conjunctions(rule: Expr) -> list[list[Expr]]:
    return [children(part, And) for part in children(rule, Or)]


def mean(numbers: Any) -> float:
    return float(np.mean(list(numbers)))


@pytest.mark.parametrize(
    ("parameters", "logic", "share"),
    [
        ({}, "weak", 0.12),
        ({}, "strong", 0.08),
        ({"months": 12}, "weak", 0.01),
        ({"form": "cnf", "months": 6}, "weak", 0.05),
    ],
)
def test_an_event_matches_as_many_rules_as_the_paper_says(parameters, logic, share) -> None:
    workload = Workload(size=3_000, **parameters)
    matcher = Matcher(engine="scan", logic=logic)
    matcher.add_many(workload.rules_table())
    found = matcher.count_many(workload.events_table(60))["matches"].to_pylist()
    assert mean(found) == pytest.approx(share * workload.size, rel=0.15)


@pytest.mark.parametrize("form", ["dnf", "cnf"])
@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_a_matcher_agrees_with_direct_evaluation(form, logic) -> None:
    workload = Workload(size=200, form=form)
    matcher = Matcher(engine="scan", logic=logic)
    matcher.add_many(workload.rules_table())
    rules = parse_rules(workload)
    for event in workload.events(4):
        expected = [i for i, rule in enumerate(rules) if evaluate(rule, event, logic)]
        assert matcher.match(event) == expected
        assert expected


@pytest.mark.parametrize(("exponent", "size"), [(3, 1.63), (2.5, 2.25), (2, 3.5)])
def test_sizes_are_those_of_table_1(exponent, size) -> None:
    rules = [conjunctions(rule) for rule in parse_rules(Workload(size=3_000, exponent=exponent))]
    assert mean(map(len, rules)) == pytest.approx(size, rel=0.05)
    assert {1, 2, 3} <= set(map(len, rules)) <= set(range(1, 21))
    parts = [part for rule in rules for part in rule]
    assert mean(map(len, parts)) == pytest.approx(3.65, rel=0.02)
    assert {len(part) for part in parts} == set(range(2, 10))


def test_a_conjunction_has_distinct_attributes_and_ends_in_the_month_of_its_rule() -> None:
    months: Counter[Expr] = Counter()
    for rule in parse_rules(Workload(size=1_000, months=12)):
        ends = {part[-1] for part in conjunctions(rule)}
        assert len(ends) == 1
        months[ends.pop()] += 1
        for part in conjunctions(rule):
            names = [leaf.attribute for leaf in part if isinstance(leaf, Predicate)]
            assert len(set(names)) == len(part)
            assert names[-1] == "month"
    assert len(months) == 12
    assert min(months.values()) > 50


def test_a_cnf_has_disjunctions_and_a_month() -> None:
    rules = [children(rule, And) for rule in parse_rules(Workload(size=3_000, form="cnf"))]
    assert mean(map(len, rules)) == pytest.approx(3.3, rel=0.05)
    assert {rule[-1] for rule in rules} == {parse("month = 1")}
    parts = [children(part, Or) for rule in rules for part in rule[:-1]]
    assert mean(map(len, parts)) == pytest.approx(2.65, rel=0.02)


def test_a_tenth_of_the_predicates_is_negated() -> None:
    rules = parse_rules(Workload(size=3_000))
    leaves = [leaf for rule in rules for leaf in predicates(rule) if leaf.attribute != "month"]
    assert mean(leaf.negated for leaf in leaves) == pytest.approx(0.1, rel=0.1)
    sizes = Counter(len(leaf.values) for leaf in leaves)
    assert set(sizes) == set(range(1, 7))
    assert all(len(set(leaf.values)) == len(leaf.values) for leaf in leaves)


def test_half_of_the_conjunctions_copy_half_of_the_one_before() -> None:
    def count_shared(copying: float = 0.5) -> float:
        """The mean number of predicates that a conjunction shares with the one before it."""
        workload = Workload(size=2_000, exponent=2, copying=copying)
        rules = [conjunctions(rule) for rule in parse_rules(workload)]
        pairs = [pair for rule in rules for pair in pairwise(rule)]
        return mean(len(set(before[:-1]) & set(after[:-1])) for before, after in pairs)

    by_chance = count_shared(copying=0)
    assert by_chance < 0.1
    # Half of 2.65, limited by the size of the conjunction that copies.
    assert count_shared(copying=1) - by_chance == pytest.approx(1.1, abs=0.15)
    assert count_shared() - by_chance == pytest.approx(0.55, abs=0.1)


def test_frequent_attributes_are_frequent_in_rules_and_in_events() -> None:
    workload = Workload(size=2_000)
    used = Counter(leaf.attribute for rule in parse_rules(workload) for leaf in predicates(rule))
    assert used["a0"] > 2 * used["a5"] > 4 * used["a50"] > 0
    events = workload.events(300)
    assert mean(map(len, events)) == pytest.approx(91, rel=0.02)
    present = Counter(name for event in events for name in event)
    assert present["month"] == 300
    assert present["a0"] > present["a50"] > present["a500"] > 0
    assert 1_400 < len(present) <= 1_461


def test_fewer_dimensions_are_the_most_frequent_ones() -> None:
    workload = Workload(size=500, dimensions=11)
    used = {leaf.attribute for rule in parse_rules(workload) for leaf in predicates(rule)}
    assert used == {"month", *(f"a{i}" for i in range(10))}
    assert workload.events(5) == Workload().events(5)


def test_conjunctions_repeat() -> None:
    found = Counter(
        tuple(part) for r in parse_rules(Workload(size=5_000)) for part in conjunctions(r)
    )
    assert len(found) < 0.9 * found.total()


def test_events_are_the_same_as_dicts_and_as_a_table() -> None:
    workload = Workload(months=12)
    table = workload.events_table(1_030)
    assert table.num_columns == 1_461
    rows = [
        {k: v for k, v in row.items() if v is not None} for row in table.slice(1_020).to_pylist()
    ]
    assert rows == workload.events(1_030)[1_020:]
    assert workload.events(10) == workload.events(1_030)[:10]
    assert workload.events_table(0).num_rows == 0


def test_rules_are_the_same_one_by_one_and_as_a_table_and_fewer_are_a_prefix() -> None:
    workload = Workload(size=66_000)
    table = workload.rules_table()
    rules = list(workload.rules())
    assert rules == list(zip(*table.to_pydict().values(), strict=True))
    assert len(rules) == 66_000
    assert list(Workload(size=300).rules()) == rules[:300]
    assert Workload(size=0).rules_table().num_rows == 0


def test_rule_weights_lie_below_the_upper_bound() -> None:
    workload = Workload(size=400)
    seen = Counter(key for event in workload.events(1_000) for key in event.items())
    assert [(id, text) for id, text, _ in workload.weighted_rules()] == list(workload.rules())
    relative = []
    for _, text, weights in workload.weighted_rules():
        rule = parse(text)
        assert RuleWeights.of(weights, rule)
        assert set(weights) == {
            (leaf.attribute, value)
            for leaf in predicates(rule)
            if not leaf.negated
            for value in leaf.values
        }
        relative += [weight * max(seen[key], 1) for key, weight in weights.items()]
    assert mean(relative) == pytest.approx(0.8, rel=0.01)
    assert np.std(relative) == pytest.approx(0.05, rel=0.1)
    assert max(relative) <= 1 + 1e-12


def test_event_weights_lie_between_0_and_1() -> None:
    workload = Workload()
    found = list(workload.weighted_events(1_030))
    assert [event for event, _ in found] == workload.events(1_030)
    for event, weights in found[:50]:
        assert EventWeights.of(weights)
        assert set(weights) == set(event.items())
    assert mean(w for _, weights in found for w in weights.values()) == pytest.approx(0.5, abs=0.01)
    assert list(workload.weighted_events(3)) == found[:3]


def test_a_seed_gives_the_same_workload_everywhere() -> None:
    workload = Workload(size=200, months=3, seed=7)
    text = repr((list(workload.weighted_rules()), list(workload.weighted_events(5))))
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "996783fd823f3b1db6aa37db8c849889d217d355ed80d5d6e552c9e1a22b3370"
    )
    assert list(Workload(size=5, seed=8).rules()) != list(Workload(size=5, seed=9).rules())


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"form": "nnf"},
        {"exponent": 0},
        {"copied": 2},
        {"copying": -1},
        {"negated": 1.5},
        {"months": 13},
        {"dimensions": 8},
        {"dimensions": 2_000},
        {"event_size": 1},
    ],
)
def test_impossible_parameters_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=re.escape(next(iter(wrong)))):
        Workload(**wrong)
