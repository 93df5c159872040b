"""The fewest predicates that prevent a match."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest

from tamis.expr.analysis.why_not import Obstacles, find_obstacles
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import LOGICS, And, Atom, Expr, Logic, Not, Op, Or, Predicate
from tamis.expr.normalize import nnf
from tamis.expr.text.grammar import parse

POOL = [Predicate(name, Op.EQ, (value,)) for name in "abc" for value in (1, 2)]


def obstacles(text: str, event: dict[str, object], logic: Logic = "strong") -> Obstacles:
    return find_obstacles(parse(text), flatten(event), logic)


def changes(text: str, event: dict[str, object], logic: Logic = "strong") -> list[str] | None:
    found = obstacles(text, event, logic).changes
    return None if found is None else [change.text for change in found]


def random_tree(random: Random, depth: int) -> Expr:
    if depth == 0 or random.random() < 0.2:
        predicate = random.choice(POOL)
        return Not(predicate) if random.random() < 0.4 else predicate
    children = tuple(random_tree(random, depth - 1) for _ in range(random.randint(1, 3)))
    return And(children) if random.random() < 0.5 else Or(children)


def holds(tree: Expr, event: FlatEvent, changed: dict[Predicate, bool]) -> bool:
    """Whether a rule holds if the predicates in `changed` have the given truth."""
    if isinstance(tree, Atom):
        if tree.predicate in changed:
            return changed[tree.predicate] is not tree.negated
        return bool(evaluate_flat(tree, event, "strong"))
    assert isinstance(tree, And | Or)
    return (all if isinstance(tree, And) else any)(
        holds(child, event, changed) for child in tree.children
    )


def fewest(tree: Expr, event: FlatEvent) -> int | None:
    """By trying everything."""
    for size in range(len(POOL) + 1):
        for some in combinations(POOL, size):
            for truth in product([False, True], repeat=size):
                if holds(tree, event, dict(zip(some, truth, strict=True))):
                    return size
    return None


@pytest.mark.parametrize("logic", LOGICS)
def test_fewer_changes_do_not_suffice(logic: Logic) -> None:
    random = Random(5)
    seen = set()
    for _ in range(400):
        rule = random_tree(random, 3)
        event = flatten({name: random.choice([1, 2, 3]) for name in "abc" if random.random() < 0.7})
        found = find_obstacles(rule, event, logic)
        wanted = fewest(nnf(rule, logic), event)
        assert found.is_fewest
        assert (None if found.changes is None else len(found.changes)) == wanted
        seen.add(wanted)
    assert {None, 0, 1, 2, 3} <= seen


def test_the_conditions_that_would_have_to_hold() -> None:
    text = "age IN (3, 4) AND state <> 'CA' AND NOT (a = 1 OR b > 2) AND vip = TRUE"
    event = {"age": 5, "state": "CA", "a": [1, 7], "vip": True}
    assert changes(text, event) == ["age IN (3, 4)", "state <> 'CA'", "a <> 1", "NOT b > 2"]
    assert changes(text, event, "weak") == ["age IN (3, 4)", "state <> 'CA'", "a <> 1"]
    assert changes(text, {"age": 3, "state": "NY", "a": 2, "b": 0, "vip": True}) == []


def test_the_cheapest_alternative_counts() -> None:
    assert changes("(a = 1 AND b = 1) OR c = 1", {}) == ["c = 1"]
    assert changes("(a = 1 AND b = 1) OR (c = 1 AND d = 1)", {"a": 1}) == ["b = 1"]
    # One change serves both disjunctions.
    assert changes("(a = 1 OR b = 1) AND (a = 1 OR c = 1)", {}) == ["a = 1"]


def test_some_rules_match_nothing() -> None:
    assert changes("FALSE", {}) is None
    assert changes("a = 1 AND NOT a = 1", {"a": 1}) is None
    assert changes("a IS NULL AND a > 5", {"a": 1}) is None
    assert changes("a > 5 AND a IS NULL", {}) is None
    assert str(obstacles("FALSE", {})) == "no event could match"


def test_presence_and_absence_imply_other_predicates() -> None:
    # Weak negations hold on an event without the attribute.
    assert changes("a IS NULL AND a <> 5", {"a": 5}, "weak") == ["a IS NULL"]
    assert changes("a IS NULL AND a <> 5 AND b <> 5", {"a": 5, "b": 5}, "weak") == [
        "a IS NULL",
        "b <> 5",
    ]
    assert changes("a IS NOT NULL AND a > 5", {}) == ["a > 5"]
    assert changes("a IS NOT NULL AND b = 1", {}) == ["a IS NOT NULL", "b = 1"]
    assert changes("a IS NULL OR a > 5", {"a": 1}) == ["a IS NULL"]


def test_it_prints_with_the_events_values() -> None:
    found = obstacles("a > 5 AND b = 'x' AND c = 1", {"a": [1, 2], "c": 1})
    assert str(found).splitlines() == [
        "it would match with:",
        "  a > 5   [a = [1, 2]]",
        "  b = 'x'   [b is absent]",
    ]
    assert found.to_json() == {
        "changes": [
            {"text": "a > 5", "attribute": "a", "values": [1, 2]},
            {"text": "b = 'x'", "attribute": "b", "values": []},
        ],
        "is_fewest": True,
        "invalid": None,
    }
    assert str(obstacles("a = 1", {"a": 1})) == "it matches"


def test_not_all_of_many_ways_are_tried() -> None:
    """The fewest changes are certain if no predicate repeats, and marked uncertain otherwise."""
    large = " AND ".join(f"(a{i} = 1 OR b{i} = 1 OR c{i} = 1)" for i in range(30))
    found = obstacles(large, {})
    assert found.changes is not None
    assert (len(found.changes), found.is_fewest) == (30, True)
    shared = large + " AND (a0 = 1 OR b7 = 1)"
    found = obstacles(shared, {})
    assert found.changes is not None
    assert len(found.changes) in (30, 31)
    assert not found.is_fewest
    assert str(found).startswith("it would match with, or perhaps fewer:")
