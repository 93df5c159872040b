"""The pre-filter a profile at a time, what it replaces, and the order of the two phases."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tamis
from tamis.matcher.join_predicates import CostModel

SAME = "EXISTS (SELECT 1 FROM seen d WHERE d.price = price)"


def ruled_out(m: tamis.Matcher) -> int:
    m.match({})
    return m.documents.stats()["ruled_out_rules"]


def test_each_rule_has_its_own_constraint() -> None:
    m = tamis.Matcher()
    m.add_many({n: f"price BETWEEN {10 * n} AND {10 * n + 5} AND {SAME}" for n in range(40)})
    assert ruled_out(m) == 40
    m.publish({"price": 52})
    m.publish({"price": 52.5})
    m.publish({"price": 57})  # in no rule's range
    m.publish({"price": "x"})
    assert ruled_out(m) == 39
    assert m.match({"price": 52}) == [5]
    m.documents.add({"price": 300}, id="high")
    assert ruled_out(m) == 38
    assert m.match({"price": 300}) == [30]
    m.documents.remove("high")
    assert ruled_out(m) == 39
    m.documents.clear()
    assert m.match({"price": 52}) == []


def test_an_alternative_keeps_a_rule() -> None:
    m = tamis.Matcher()
    m.add_many({n: f"price = {n} AND {SAME} OR other = {n}" for n in range(40)})
    assert ruled_out(m) == 0
    assert m.match({"other": 3, "price": 3}) == [3]
    m.publish({"price": 3})
    assert m.match({"price": 3}) == [3]


def test_a_constraint_of_one_value_replaces_the_join_predicate() -> None:
    """Example 6: price = 10 AND ∃d (d.price = price)."""
    m = tamis.Matcher()
    m.add_many({n: f"price = {n} AND {SAME}" for n in range(40)})
    m.publish({"price": 10})
    before = m.documents.stats()["evaluated"]
    assert m.match({"price": 10}) == [10]
    assert m.match({"price": 11}) == []
    assert m.documents.stats()["evaluated"] == before
    # Of several values one may satisfy the constant, and another the join predicate.
    assert m.match({"price": [10, 11]}) == [10, 11]
    assert m.documents.stats()["evaluated"] > before


def test_a_rule_of_two_such_constraints_is_not_replaced() -> None:
    """The mask keeps the rule for one of them, and must not stand for the other."""
    m = tamis.Matcher()
    m.add_many({n: f"price = {n} AND {SAME} OR price = {n + 1} AND {SAME}" for n in range(40)})
    m.publish({"price": 11})
    assert m.match({"price": 10}) == []
    assert m.match({"price": 11}) == [10, 11]


def test_ranges_do_not_replace_it() -> None:
    """Example 7: price < 10 AND ∃d (d.price = price)."""
    m = tamis.Matcher()
    m.add_many({n: f"price < {n} AND {SAME}" for n in range(40)})
    m.publish({"price": 10})
    assert m.match({"price": 5}) == []
    assert ruled_out(m) == 11
    assert m.match({"price": 10}) == list(range(11, 40))


def test_rules_in_the_tail_take_part() -> None:
    m = tamis.Matcher()
    m.add("cheap", f"price < 10 AND {SAME}")
    m.publish({"price": 20})
    before = m.documents.stats()
    assert m.match({"price": 5}) == []
    after = m.documents.stats()
    assert (after["evaluated"] - before["evaluated"], after["ruled_out"]) == (0, 1)


def test_a_negation_in_the_tail_is_not_forgotten() -> None:
    """One rule negates a predicate that a later one does not: then unknown is not false."""
    m = tamis.Matcher()
    m.add("not", "NOT (x = ANY (SELECT d.x FROM seen d))")
    m.add("is", "x = ANY (SELECT d.x FROM seen d) AND y = 1")
    m.documents.add({"other": 1})
    assert m.match({"x": 1, "y": 1}) == []  # the document lacks x, so both are unknown


@pytest.mark.parametrize("seed", range(4))
def test_random_rules_and_documents_agree_with_evaluate(seed: int) -> None:
    random = Random(seed)
    rules = {n: _rule(random) for n in range(120)}
    exprs = {n: tamis.parse(text) for n, text in rules.items()}
    m = tamis.Matcher()
    m.add_many({n: rules[n] for n in range(60)})
    m.add_many({n: rules[n] for n in range(60, 110)})
    for n in range(110, 120):
        m.add(n, rules[n])
    documents: dict[Any, dict[str, Any]] = {}
    for _ in range(60):
        document = _document(random)
        documents[m.documents.add(document)] = document
        if documents and random.random() < 0.5:
            id = random.choice(list(documents))
            m.documents.remove(id)
            del documents[id]
        event = _document(random)
        expected = [
            n for n, e in exprs.items() if tamis.evaluate(e, event, documents=documents.values())
        ]
        assert m.match(event) == expected, (event, documents)
        assert m.match_many([event])["rule"].to_pylist() == expected
        only = [n for n in expected if n % 2]
        assert m.match(event, only=range(1, 120, 2)) == only


def _document(random: Random) -> dict[str, Any]:
    values = [0, 1, 2, 2.5, 3, 5, "a", "b", True]
    document: dict[str, Any] = {}
    for name in "xyz":
        if random.random() < 0.8:
            value = random.choice(values[:6] if random.random() < 0.8 else values)
            document[name] = [value, random.choice(values)] if random.random() < 0.1 else value
    return document


def _rule(random: Random) -> str:
    def constant() -> str:
        name = random.choice("xyz")
        form = random.choice(["{} = {}", "{} < {}", "{} >= {}", "{} IN ({}, 2)", "{} <> {}"])
        return form.format(name, random.choice(["1", "2", "3", "2.5", "'a'"]))

    def join() -> str:
        op = random.choice(["=", "<", "<=", ">", ">="])
        old, new = random.choice("xyz"), random.choice("xyz")
        where = f"d.{old} {op} {new}"
        if random.random() < 0.3:
            where += f" AND d.{random.choice('xyz')} > 1"
        kinds = [f"EXISTS (SELECT 1 FROM seen d WHERE {where})"] * 3
        kinds.append(f"{new} {op} ANY (SELECT d.{old} FROM seen d)")
        return random.choice(["", "", "", "NOT "]) + random.choice(kinds)

    parts = [constant(), join()]
    if random.random() < 0.4:
        parts.append(random.choice([constant, join])())
    text = " AND ".join(parts)
    return f"({text}) OR ({constant()} AND {join()})" if random.random() < 0.25 else text


def test_the_cost_model_of_the_paper() -> None:
    model = CostModel(joins=8, rules=2**20 - 2)
    joins_first, constants_first = model.estimate(attributes=5, documents=2**10 - 2)
    assert (joins_first, constants_first) == (8 * 10, 5 * 20)
    assert not model.constants_first(5, 2**10 - 2)
    assert model.constants_first(5, 2**20)
    for _ in range(200):
        model.learn(1.0)
    assert not model.constants_first(5, 2**20)  # every event needs all join predicates
