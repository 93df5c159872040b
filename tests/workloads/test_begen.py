"""BEGen has the statistics of the BE-Tree paper."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tamis.expr.evaluate import evaluate
from tamis.expr.model import And, Expr, Op, Predicate, predicates
from tamis.expr.text.grammar import parse
from tamis.workloads.begen import OPERATOR_CLASSES, Workload
from tamis.workloads.registry import make_workload


def parse_rules(workload: Workload) -> list[Expr]:
    return [parse(text) for _, text in workload.rules()]


def leaves(workload: Workload) -> Iterator[Predicate]:
    for rule in parse_rules(workload):
        yield from predicates(rule)


def test_an_event_matches_the_requested_share_of_the_rules() -> None:
    workload = Workload(size=2_000, match_probability=0.02)
    rules = parse_rules(workload)
    events = workload.events(50)
    share = sum(evaluate(rule, event) for rule in rules for event in events)
    assert share / (len(rules) * len(events)) == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("operators", OPERATOR_CLASSES)
@pytest.mark.parametrize("cardinality", [2, 3, 48, 150_000])
def test_every_rule_holds_on_the_event_it_is_derived_from(operators, cardinality) -> None:
    workload = Workload(
        size=200, operators=operators, cardinality=cardinality, match_probability=1, seed=5
    )
    (event,) = workload.events(1)
    for rule in parse_rules(workload):
        assert evaluate(rule, event)


def test_sizes_are_those_of_table_3() -> None:
    workload = Workload(size=3_000)
    sizes = [len(rule.children) if isinstance(rule, And) else 1 for rule in parse_rules(workload)]
    assert sum(sizes) / len(sizes) == pytest.approx(7, rel=0.02)
    assert min(sizes) >= 1
    assert {len(event) for event in workload.events(100)} == {15}
    assert len({leaf.attribute for leaf in leaves(workload)}) > 380


TABLE_3: dict[str, list[dict[str, Any]]] = {
    "number of dimensions": [{"dimensions": 50}, {"dimensions": 1_400}],
    "dimension cardinality": [{"cardinality": 48}, {"cardinality": 150_000}],
    "predicate selectivity": [{"range_percent": 6}, {"range_percent": 50}],
    "dimension selectivity": [
        {"cardinality": 2, "equality": 1.0, "operators": "min"},
        {"cardinality": 10, "equality": 1.0, "operators": "min"},
    ],
    "rule and event size": [
        {"rule_size": 5, "event_size": 13},
        {"rule_size": 66, "event_size": 81},
    ],
    "equality": [{"equality": 0.2}, {"equality": 1.0}],
    "match probability": [{"match_probability": 0.0001}, {"match_probability": 0.09}],
    "operators": [{"operators": "low"}, {"operators": "high"}],
}
"""Both ends of the range of each column of the paper's Table 3, except the number of rules."""


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
@pytest.mark.parametrize("column", TABLE_3)
def test_every_column_of_table_3_can_be_generated(column: str, distribution: str) -> None:
    for varied in TABLE_3[column]:
        texts = {name: str(value) for name, value in varied.items()}
        workload = make_workload("begen", {"size": "600", "distribution": distribution, **texts})
        assert isinstance(workload, Workload)
        found = list(leaves(workload))
        assert len(found) / 600 == pytest.approx(workload.rule_size, rel=0.06)
        assert {len(event) for event in workload.events(5)} == {workload.event_size}
        assert len({leaf.attribute for leaf in found}) <= workload.dimensions
        # <> is not an equality, though the model writes it as a negated =.
        equal = sum(leaf.op is Op.EQ and not leaf.negated for leaf in found)
        assert equal / len(found) == pytest.approx(workload.equality, abs=0.04)
        ranges: list[Any] = [leaf.values for leaf in found if leaf.op is Op.BETWEEN]
        spans = [100 * (high - low + 1) / workload.cardinality for low, high in ranges]
        if spans:
            assert sum(spans) / len(spans) == pytest.approx(workload.range_percent, rel=0.2)


@pytest.mark.parametrize("cardinality", [2, 10])
def test_the_selectivity_of_a_dimension_is_that_of_its_equalities(cardinality: int) -> None:
    """The paper varies it from 0.5, for two values, to 0.9, for ten."""
    workload = Workload(cardinality=cardinality, dimensions=15, operators="min", clustered=False)
    events = workload.events(2_000)
    share = sum(event["a3"] != 1 for event in events) / len(events)
    assert share == pytest.approx(1 - 1 / cardinality, abs=0.04)


def test_a_rule_is_never_empty() -> None:
    sizes = Counter(
        len(list(predicates(r))) for r in parse_rules(Workload(size=500, rule_size=0.5))
    )
    assert 0 not in sizes
    assert sizes[1] > 250


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ("min", {Op.EQ: 1.0}),
        ("low", {Op.EQ: 0.3, Op.IN: 0.7}),
        ("med", {Op.EQ: 0.3, Op.LT: 0.7 / 6, Op.IN: 0.7 / 6, Op.BETWEEN: 0.7 / 6}),
        ("high", {Op.EQ: 0.3 + 0.7 / 8, Op.GE: 0.7 / 8, Op.IN: 2 * 0.7 / 8}),
    ],
)
def test_operators_have_their_share(operators, expected) -> None:
    found = Counter(leaf.op for leaf in leaves(Workload(size=3_000, operators=operators)))
    for op, share in expected.items():
        assert found[op] / found.total() == pytest.approx(share, rel=0.06)


def test_lists_and_ranges_are_as_wide_as_the_paper_says() -> None:
    found = list(leaves(Workload(size=3_000, operators="high")))
    ranges: list[Any] = [leaf.values for leaf in found if leaf.op is Op.BETWEEN]
    spans = [high - low + 1 for low, high in ranges]
    assert sum(spans) / len(spans) == pytest.approx(0.12 * 48, rel=0.03)
    assert all(0 <= low <= high < 48 for low, high in ranges)
    lists = [leaf.values for leaf in found if leaf.op is Op.IN]
    assert {len(values) for values in lists} == {2, 3, 4, 5, 6}
    assert all(len(set(values)) == len(values) for values in lists)


def test_zipf_prefers_the_first_attributes() -> None:
    workload = Workload(distribution="zipf", match_probability=0.005)
    found = Counter(name for event in workload.events(400) for name in event)
    assert found["a0"] > 2 * found["a9"] > 4 * found["a99"] > 0
    assert sum(found.values()) == 400 * 15


def test_events_are_the_same_as_dicts_and_as_a_table() -> None:
    workload = Workload(match_probability=0.05)
    table = workload.events_table(30)
    assert table.column_names == [f"a{i}" for i in range(400)]
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    assert rows == workload.events(30)
    assert workload.events(10) == workload.events(30)[:10]


def test_rules_are_the_same_one_by_one_and_as_a_table() -> None:
    workload = Workload(size=300)
    table = workload.rules_table()
    assert list(workload.rules()) == list(zip(*table.to_pydict().values(), strict=True))


def test_rules_of_one_base_are_spread_out() -> None:
    workload = Workload(size=1_000, match_probability=0.5, operators="min")
    first = workload.events(1)[0]
    hits = [evaluate(rule, first) for rule in parse_rules(workload)]
    assert sum(hits[:500]) == pytest.approx(250, abs=60)


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_unclustered_rules_are_independent_of_events(distribution) -> None:
    workload = Workload(size=3_000, clustered=False, distribution=distribution)
    rules = [list(predicates(rule)) for rule in parse_rules(workload)]
    assert sum(map(len, rules)) / len(rules) == pytest.approx(7, rel=0.02)
    for rule in rules:
        assert len({leaf.attribute for leaf in rule}) == len(rule)
    events = workload.events(50)
    assert len({repr(event) for event in events}) == 50
    assert {len(event) for event in events} == {15}
    found = sum(evaluate(rule, event) for rule in parse_rules(workload) for event in events[:3])
    assert found < 0.001 * 3 * len(rules)


def test_unclustered_rules_match_by_accident() -> None:
    workload = Workload(size=3_000, clustered=False, dimensions=15, rule_size=1.5, operators="high")
    events = workload.events(3)
    found = [evaluate(rule, event) for rule in parse_rules(workload) for event in events]
    assert 0.1 < sum(found) / len(found) < 0.9


def test_a_seed_gives_the_same_workload_everywhere() -> None:
    workload = Workload(size=1_000, operators="high", distribution="zipf", seed=7)
    text = repr((list(workload.rules()), workload.events(20)))
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "a47fb142c6c5ee7f1d84705b84870c2b6c111fe58bf52014bf1c42821fa5e71c"
    )
    assert list(Workload(size=5, seed=8).rules()) != list(Workload(size=5, seed=9).rules())


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"cardinality": 1},
        {"event_size": 401},
        {"rule_size": 16},
        {"rule_size": 0},
        {"range_percent": 0},
        {"equality": 1.5},
        {"operators": "all"},
        {"match_probability": 0},
        {"distribution": "normal"},
    ],
)
def test_impossible_parameters_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=re.escape(next(iter(wrong)))):
        Workload(**wrong)
