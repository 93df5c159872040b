"""A BE-Tree whose rules are added one at a time finds what the reference evaluator does."""

from __future__ import annotations

import sys
import threading
from random import Random

import pytest

from tamis.engines.betree import live_tree, tree
from tamis.engines.betree.live_tree import LiveTree
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import LOGICS, Expr, Logic
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


@pytest.mark.parametrize("seed", range(2))
def test_live_tree_keeps_its_answers_as_it_adapts_and_rules_come_and_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_CAPACITY", 3)
    monkeypatch.setattr(tree, "choose_capacity", lambda _: 3)
    monkeypatch.setattr(live_tree, "_EVERY", 1)
    random, live = Random(seed), LiveTree()
    rules: dict[int, tuple[Expr, Logic]] = {}
    for number in range(600):
        # The events of each phase like other attributes.
        among = EVERYTHING[3 * (number // 200) : 3 * (number // 200) + 4]
        rule, logic = randoms.conjunction(random, EVERYTHING, 3), random.choice(LOGICS)
        rules[number] = rule, logic
        live.add(number, nnf(rule, logic))
        if random.random() < 0.4:
            gone = random.sample(sorted(rules), min(len(rules), random.choice((1, 2, 5))))
            live.remove(gone)
            for one in gone:
                del rules[one]
        event = randoms.event(random, among, 0.9, random.choice((0, 0.3)))
        found = set(live.match(live.encoder.encode(event)))
        if number % 5 == 0:
            flat = flatten(event)
            expected = {n for n, rule in rules.items() if evaluate_flat(rule[0], flat, rule[1])}
            assert expected <= found
            assert found - expected <= live.doubtful
        if number % 70 == 69:
            assert live.adapt()
    assert live._tree.recycled > 0
