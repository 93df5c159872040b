"""A BE-Tree whose rules are added one at a time finds what the reference evaluator does."""

from __future__ import annotations

import sys
import threading
from random import Random

import pytest

from tamis.engines.betree.live_tree import LiveTree
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import Expr
from tamis.expr.normalize import nnf
from tamis.expr.text.grammar import parse
from tests import randoms
from tests.randoms import EVERYTHING


def find_matching(rules: list[Expr], event: FlatEvent) -> list[int]:
    return [n for n, rule in enumerate(rules) if evaluate_flat(rule, event, "strong")]


@pytest.mark.parametrize("seed", range(2))
def test_a_rule_is_found_as_soon_as_it_is_added(seed: int) -> None:
    random = Random(seed)
    tree, rules = LiveTree(), list[Expr]()
    found_in_vain = 0
    for number in range(800):
        rule = nnf(randoms.rule(random, EVERYTHING, 4), random.choice(["strong", "weak"]))
        rules.append(rule)
        tree.add(number, rule)
        if number % 20 == 0:
            event = randoms.event(random, EVERYTHING)
            flat = flatten(event)
            found = tree.match(tree.encoder.encode(event))
            assert found == tree.match(tree.encoder.encode_flat([flat]))
            truth = find_matching(rules, flat)
            assert set(found) >= set(truth)
            assert set(found) - set(truth) <= tree.doubtful
            found_in_vain += len(set(found) - set(truth))
    assert found_in_vain, "no doubtful rule was found in vain"
    assert len(tree.doubtful) < len(rules)


@pytest.mark.parametrize(
    ("text", "is_doubtful"),
    [
        ("a = 1 AND b IN ('x', 'y') AND c BETWEEN 1 AND 2.5", False),
        ("a <> 1 AND b NOT IN ('x', 2) AND c IS NULL", False),
        ("a = 1 OR (b = 2 AND c < 3)", False),
        ("TRUE", False),
        ("FALSE", False),
        ("a = 1 AND b LIKE '%x%'", True),
        ("b > 'x'", True),
        (" AND ".join(f"(a = {n} OR b > {n} OR c = {n})" for n in range(9)), True),
        (" OR ".join(f"(a NOT IN ({n}) AND b IS NULL)" for n in range(40)), True),
    ],
)
def test_which_rules_are_doubtful(text: str, is_doubtful: bool) -> None:
    rule = nnf(parse(text), "weak")
    tree = LiveTree()
    tree.add(7, rule)
    assert (7 in tree.doubtful) is is_doubtful
    for event in ({}, {"a": 1}, {"a": 5, "b": "x", "c": 2}, {"b": "zxz", "a": [1, 2]}, {"b": 9}):
        found = tree.match(tree.encoder.encode(event))
        holds = bool(evaluate_flat(rule, flatten(event), "weak"))
        assert found == [7] if holds else found == [] or is_doubtful


def test_events_are_matched_while_rules_are_added() -> None:
    """Each rule adds values, and sometimes attributes, that no rule had before."""
    tree = LiveTree()
    size, known, wrong = 1_500, [0], list[str]()
    events = [{f"a{n % 40}": n} for n in range(0, size, 7)]

    def read() -> None:
        random = Random(1)
        while known[0] < size:
            done = known[0]
            event = random.choice(events)
            (value,) = event.values()
            found = tree.match(tree.encoder.encode(event))
            truth = [n for n in range(value % 40, done, 40) if n <= value]
            if [n for n in found if n < done] != truth:
                wrong.append(f"{event}: {found}")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    readers = [threading.Thread(target=read) for _ in range(2)]
    try:
        for reader in readers:
            reader.start()
        for number in range(size):
            tree.add(number, nnf(parse(f"a{number % 40} >= {number}"), "strong"))
            known[0] = number + 1
    finally:
        known[0] = size
        for reader in readers:
            reader.join()
        sys.setswitchinterval(before)
    assert not wrong, wrong[0]


def test_a_tree_adapts_to_the_events_that_it_matches() -> None:
    """One of eight events is observed, and rules are found as before."""
    tree = LiveTree()
    for number in range(200):
        tree.add(number, nnf(parse(f"a > 0 AND b{number % 5} = {number}"), "strong"))
    events = [tree.encoder.encode({"a": 5, "b0": 5 * (i % 40)}) for i in range(600)]
    expected = [tree.match(event) for event in events]
    assert tree.adapt()
    assert not tree.adapt()
    assert tree._tree.books.presence[-1] == 600 / 8
    assert [tree.match(event) for event in events] == expected
    assert all(len(found) == 1 for found in expected)


def test_removed_rules_are_no_longer_found() -> None:
    tree = LiveTree()
    for number, text in enumerate(["a = 1 OR b = 1", "a = 1", "a = 1 AND b = 1"]):
        tree.add(number, nnf(parse(text), "strong"))
    event = tree.encoder.encode({"a": 1, "b": 1})
    assert tree.match(event) == [0, 1, 2]
    tree.remove([0, 2])
    assert tree.match(event) == [1]
