"""The evaluator against the reference: several values, mixed kinds, small blocks."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

import tamis
from tamis.expr.evaluate import join_truth
from tamis.expr.event import flatten
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Predicate
from tamis.joins import evaluate, ordered_index, selected_documents
from tamis.joins.document_store import DocumentStore
from tamis.joins.prefilter import JoinUsage

VALUES = [1, 2, 3, 2.5, 2.0, -1, True, "a", "b", 2**53 + 1, float(2**53), float("inf")]
VALUES.append(datetime(2020, 1, 1, tzinfo=UTC))
LITERALS = ["1", "2", "2.5", "-1", "TRUE", "'a'", "9007199254740993", "DATE '2020-01-01'"]
OPS = ["=", "<>", "<", "<=", ">", ">="]


def document(random: Random, several: bool) -> dict[str, Any]:
    def value() -> Any:
        return random.choice(VALUES[:5]) if random.random() < 0.7 else random.choice(VALUES)

    def values() -> Any:
        is_list = several and random.random() < 0.3
        return [value() for _ in range(random.randrange(4))] if is_list else value()

    return {name: values() for name in "xyz" if random.random() < 0.75}


def condition(random: Random, depth: int = 0) -> str:
    if depth < 2 and random.random() < 0.4:
        parts = (condition(random, depth + 1) for _ in range(random.randrange(2, 4)))
        return f"({random.choice([' AND ', ' OR ']).join(parts)})"
    old, new = random.choice("xyz"), random.choice("xyz")
    literals = random.sample(LITERALS, 2)
    return random.choice(
        [
            f"d.{old} {random.choice(OPS)} {new}",
            f"NOT d.{old} {random.choice(OPS)} {new}",
            f"d.{old} {random.choice(OPS)} {literals[0]}",
            f"NOT {new} {random.choice(OPS)} {literals[0]}",
            f"d.{old} NOT IN ({', '.join(literals)})",
            f"d.{old} BETWEEN {literals[0]} AND {literals[1]}",
            f"d.{old} IS NULL",
            f"d.{old} LIKE 'a%'",
            f"NOT d.{old} LIKE 'a%'",
        ]
    )


def name_of(random: Random) -> str:
    where = f" WHERE {condition(random)}" if random.random() < 0.7 else ""
    text = f"EXISTS (SELECT 1 FROM seen d{where})"
    if random.random() < 0.6:
        op, many = random.choice(OPS), random.choice(["ANY", "ALL"])
        new, old = random.choice("xyz"), random.choice("xyz")
        text = f"{new} {op} {many} (SELECT d.{old} FROM seen d{where})"
    predicate = tamis.parse(text)
    assert isinstance(predicate, Predicate)
    return predicate.attribute


@pytest.mark.parametrize("seed", range(12))
def test_truths_agree_with_the_reference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    # Documents are checked one by one or by bit vectors, over few or many blocks.
    monkeypatch.setattr(evaluate, "_FEW", random.choice([0, 2, 128]))
    monkeypatch.setattr(ordered_index, "_BLOCK", random.choice([1, 2, 512]))
    # There is room for selections, for one, or for some while documents are few.
    room, small = random.choice([(8, 100), (0, 0), (1, 2)])
    monkeypatch.setattr(selected_documents, "_ROOM", room)
    monkeypatch.setattr(selected_documents, "_SMALL", small)
    names = [name_of(random) for _ in range(40)]
    store, several = DocumentStore(), seed % 2 == 0
    kept: dict[Any, Any] = {}
    for _ in range(25):
        for _ in range(random.randrange(4)):
            flat = flatten(document(random, several))
            kept[store.add(flat)] = flat
        if kept and random.random() < 0.5:
            id = random.choice(list(kept))
            store.remove(id)
            del kept[id]
        event = flatten(document(random, several))
        for name in names:
            expected = join_truth(join_named(name), event, kept.values())
            found = store.evaluate_joins([name], event)
            assert found == ({} if expected is None else {name: [expected]}), (name, event, kept)


def attribute_of(text: str) -> str:
    predicate = tamis.parse(text)
    assert isinstance(predicate, Predicate)
    return predicate.attribute


def test_rules_with_the_same_constants_share_a_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first event few documents are read, for equality, and no bit vector is built."""
    store = DocumentStore(tamis.Retention(count=2_000))
    for number in range(2_000):
        store.add(flatten({"kind": "ab"[number % 2], "x": number, "y": -number}))
    names = [
        attribute_of(f"EXISTS (SELECT 1 FROM seen d WHERE d.kind = 'a' AND d.{old} {op} x)")
        for old in "xy"
        for op in OPS
    ]
    names += [
        attribute_of(f"x {op} {many} (SELECT d.x FROM seen d WHERE d.kind = 'a')")
        for op in OPS
        for many in ("ANY", "ALL")
    ]
    event = flatten({"x": 700})
    first = store.evaluate_joins(names, event)
    assert len(store._selections) == 1
    read: list[int] = []
    plain = DocumentStore.document

    def note(store: DocumentStore, number: int) -> Any:
        read.append(number)
        return plain(store, number)

    monkeypatch.setattr(DocumentStore, "document", note)
    monkeypatch.delattr(evaluate.JoinEvaluator, "_bits")
    assert store.evaluate_joins(names, flatten({"x": 700})) == first
    store.add(flatten({"kind": "a", "x": 3_000, "y": 0}))
    store.add(flatten({"kind": "b", "x": 5_000, "y": 0}))
    above = attribute_of("EXISTS (SELECT 1 FROM seen d WHERE d.kind = 'a' AND d.x > x)")
    assert store.evaluate_joins([above], flatten({"x": 2_999})) == {above: [True]}
    assert store.evaluate_joins([above], flatten({"x": 3_000})) == {above: [False]}
    assert len(read) < 10


def test_selections_that_no_rule_needs_any_more_are_dropped() -> None:
    store = DocumentStore()
    for number in range(1_000):
        store.add(flatten({"kind": "a", "x": number}))
    kinds = [
        attribute_of(f"x < ALL (SELECT d.x FROM seen d WHERE d.kind IN ('a', '{kind}'))")
        for kind in "bc"
    ]
    event = flatten({"x": 500})
    for _ in range(2):
        assert store.evaluate_joins(kinds, event) == {kind: [False] for kind in kinds}
        assert len(store._selections) == 2
        store.watch({kinds[0]: JoinUsage(kinds[0])})
        assert len(store._selections) == 1


def test_few_documents_with_numbers_far_apart() -> None:
    """Bit vectors would be long, so documents are checked one by one."""
    store = DocumentStore(tamis.Retention(count=10_000))
    store.add(flatten({"x": 1, "y": 1}))
    for number in range(6_000):
        store.remove(store.add(flatten({"x": number})))
    event = {"x": 2, "y": [2, 3]}
    for text, truth in (
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x < x AND d.y < y)", True),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.y <> y)", True),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.x < x AND d.y > y)", False),
    ):
        predicate = tamis.parse(text)
        assert isinstance(predicate, Predicate)
        name = predicate.attribute
        assert store.evaluate_joins([name], flatten(event)) == {name: [truth]}


def test_entries_stay_sorted_while_documents_come_and_go() -> None:
    random = Random(3)
    entries, kept = ordered_index.SortedEntries("q"), []
    for number in range(6_000):
        key = random.randrange(50)
        entries.add(key, number)
        kept.append((key, number))
        if random.random() < 0.45:
            entries.remove(*kept.pop(random.randrange(len(kept))))
    kept.sort()
    everything = ((-1,), (1,))
    assert entries.numbers(everything).tolist() == [number for _, number in kept]
    assert len(entries) == len(kept)
    for low, high in ((5, 9), (49, 60), (-3, 0), (20, 20)):
        inside = [number for key, number in kept if low <= key < high]
        span = ((0, low, 0), (0, high, 0))
        assert entries.numbers(span).tolist() == inside
        assert entries.first(span) == (inside[0] if inside else None)
        assert bool(entries.estimate(span)) is bool(inside)
