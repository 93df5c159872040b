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
from tamis.joins import evaluate, ordered_index
from tamis.joins.document_store import DocumentStore

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


@pytest.mark.parametrize("seed", range(8))
def test_truths_agree_with_the_reference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    # Documents are checked one by one or by bit vectors, over few or many blocks.
    monkeypatch.setattr(evaluate, "_FEW", random.choice([0, 2, 128]))
    monkeypatch.setattr(ordered_index, "_BLOCK", random.choice([1, 2, 512]))
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
            assert store.evaluate_join(name, event) is expected, (name, event, kept)


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
        assert store.evaluate_join(predicate.attribute, flatten(event)) is truth


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
