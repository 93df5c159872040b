"""Events published on workers have the answers of `Matcher.publish`, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

import tamis
from tamis.errors import EventError
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import predicates
from tamis.expr.names import JOINED
from tamis.joins.document_store import encode_flat
from tamis.spark.documents.grouping import find_equated
from tamis.spark.documents.processor import PublishProcessor
from tamis.spark.documents.publisher import FlattenTask, PublishTask, Retained, open_publisher
from tamis.spark.match.worker import EVENT, MatchTask, ShardName
from tests.joins import random_joins
from tests.spark.indexes import publish_rules

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


def make_rules(random: Random, grouped: bool) -> list[tamis.Rule]:
    """Random rules about earlier events; `grouped` ones equate the attribute s."""
    texts: list[str] = []
    while len(texts) < 6:
        where, _ = random_joins.condition(random)
        same = f"d.s = s AND ({where})" if grouped else where
        texts.append(
            random.choice(
                [
                    f"EXISTS (SELECT 1 FROM seen d WHERE {same})",
                    f"n < 2 AND NOT EXISTS (SELECT 1 FROM received d WHERE {same})",
                    f"n <= ALL (SELECT d.m FROM seen d WHERE {same})",
                    f"NOT x > ANY (SELECT d.n FROM received d WHERE {same})",
                    f"(SELECT COUNT(*) FROM seen d WHERE {same}) BETWEEN 1 AND 2",
                    f"(SELECT SUM(d.n) FROM seen d WHERE {same}) > 1 OR m = 1",
                ]
            )
        )
    if not grouped:
        texts += [random_joins.rule(random)[0] for _ in range(3)]
    owners = ("ann", "bob")
    return [tamis.Rule(f"r{n}", text, subscription=owners[n % 2]) for n, text in enumerate(texts)]


def make_events(random: Random, ordered: bool, size: int = 40) -> list[dict[str, Any]]:
    """Random events, each with a time; `ordered` ones come in the order of their times."""
    minutes: list[int | None] = [random.randrange(100) for _ in range(size)]
    minutes[:3] = [None] * 3
    random.shuffle(minutes)
    if ordered:
        minutes.sort(key=lambda minute: -1 if minute is None else minute)
    events = [random_joins.document(random) for _ in range(size)]
    return [
        e if m is None else {**e, "t": NOW + timedelta(minutes=m)}
        for e, m in zip(events, minutes, strict=True)
    ]


def expect(
    rules: list[tamis.Rule], events: list[dict[str, Any]], retained: Retained
) -> list[list[str]]:
    """What `Matcher.publish` answers."""
    retention = tamis.Retention(retained.most, retained.age, retained.by)
    matcher = tamis.Matcher(documents=retention)
    matcher.add_many(rules)
    return [sorted(map(str, matcher.publish(event, at=NOW))) for event in events]


class World:
    """An index of random rules, random events, and their flattened form."""

    def __init__(self, tmp_path: Path, seed: int, grouped: bool) -> None:
        self.random = random = Random(seed)
        self.rules = make_rules(random, grouped)
        self.retained = random.choice(
            [
                Retained(),
                Retained(age=1800.0, by="t"),
                *([] if grouped else [Retained(most=5), Retained(7, 1800.0, "t")]),
            ]
        )
        # In a group, time is that of its own newest event.
        self.events = make_events(random, ordered=grouped)
        version = publish_rules(tmp_path / "index", self.rules, shards=2)
        shards = tuple(ShardName(str(shard.path), shard.hash) for shard in version.shards)
        answers = pa.schema([("rule", pa.string())])
        self.task = MatchTask(
            (shards,), False, "match", 0, None, NOW, "columns", ("id",), answers
        )  # fmt: skip
        self.expected = expect(self.rules, self.events, self.retained)

    def flatten(self) -> pa.RecordBatch:
        """The events with their numbers as keys and order, and s as the group."""
        whole = pa.Table.from_pylist(self.events, SCHEMA).to_struct_array().combine_chunks()
        numbers = pa.array(range(len(self.events)), pa.int64())
        groups = pa.array([event.get("s") for event in self.events], pa.string())
        batch = pa.record_batch([numbers, groups, numbers, whole], ["id", "g0", "o0", EVENT])
        (flat,) = FlattenTask(self.task, tuple(SCHEMA.names), skip=False).run([batch])
        return flat


def collect(pairs: list[tuple[int, str]], size: int) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in range(size)]
    for number, rule in pairs:
        found[number].append(rule)
    return [sorted(rules) for rules in found]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("grouped", [False, True])
def test_a_sorted_table_has_the_answers_of_publish(
    tmp_path: Path, seed: int, grouped: bool
) -> None:
    world = World(tmp_path, seed, grouped)
    flat = world.flatten()
    order = [("g0", "ascending")] if grouped else []
    flat = flat.sort_by([*order, ("o0", "ascending")])
    names = ["id", "g0", EVENT] if grouped else ["id", EVENT]
    task = PublishTask(world.task, world.retained, int(grouped))
    pairs: list[tuple[int, str]] = []
    size = world.random.choice([1, 7, 100])
    batches = [flat.select(names).slice(i, size) for i in range(0, flat.num_rows, size)]
    for answer in task.run(batches):
        pairs += zip(answer["id"].to_pylist(), answer["rule"].to_pylist(), strict=True)
    assert collect(pairs, len(world.events)) == world.expected
    assert any(world.expected)


class State:
    """The state of a stream: of each group, a value and a list."""

    def __init__(self) -> None:
        self.values: dict[Any, dict[str, Any]] = {}
        self.key: Any = None

    def getValueState(self, name: str, _schema: str, _ttl: Any) -> Variable:
        return Variable(self, name)

    def getListState(self, name: str, _schema: str, _ttl: Any) -> Variable:
        return Variable(self, name, [])


class Variable:
    """A variable of the state."""

    def __init__(self, state: State, name: str, empty: Any = None) -> None:
        self.state, self.name, self.empty = state, name, empty

    def get(self) -> Any:
        return self.state.values.get(self.state.key, {}).get(self.name, self.empty)

    def update(self, value: Any) -> None:
        self.state.values.setdefault(self.state.key, {})[self.name] = value

    put = update

    def appendValue(self, value: Any) -> None:
        self.update([*self.get(), value])


def run_batch(processor: PublishProcessor, state: State, rows: list[Row]) -> Iterator[Row]:
    """Publish a batch as Spark does: group by group."""
    for key in {row["g0"] for row in rows}:
        state.key = key
        yield from processor.handleInputRows(
            (key,), iter([row for row in rows if row["g0"] == key]), None
        )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("grouped", [False, True])
def test_a_stream_has_the_answers_of_publish(tmp_path: Path, seed: int, grouped: bool) -> None:
    """Whatever the batches, and whichever of them fail and are repeated."""
    world = World(tmp_path, 100 + seed, grouped)
    random = world.random
    rows = [
        Row(id=row["id"], g0=row["g0"] if grouped else 0, o0=row["o0"], event=row[EVENT])
        for row in world.flatten().to_pylist()
    ]
    processor = PublishProcessor(world.task, world.retained, NOW, 1, grouped)
    state = State()
    processor.init(state)  # type: ignore[arg-type]
    pairs: list[tuple[int, str]] = []
    at = 0
    while at < len(rows):
        size = random.randrange(1, 12)
        batch = rows[at : at + size]
        random.shuffle(batch)
        before = deepcopy(state.values)
        found = list(run_batch(processor, state, batch))
        kind = random.random()
        if kind < 0.3:
            # The batch fails after its events were published, and is repeated.
            state.values = before
            continue
        if kind < 0.5:
            # Another worker takes over.
            open_publisher(world.task, world.retained).holds = None
        pairs += [(row["id"], row["rule"]) for row in found]
        at += size
    assert collect(pairs, len(world.events)) == world.expected


def test_a_stream_forgets_documents_of_batches_with_a_wrong_clock(tmp_path: Path) -> None:
    """Also where each batch is another worker's."""
    world = World(tmp_path, 1, grouped=False)
    retained = Retained(age=60.0)
    processor = PublishProcessor(world.task, retained, NOW, 1, groups=False)
    state = State()
    processor.init(state)  # type: ignore[arg-type]
    event = encode_flat({"s": ["x"]})
    for number, now in enumerate((4_000_000_000, 1_000, 1_030, 1_070)):
        row = Row(id=number, g0=0, o0=number, now=now * 1_000_000, event=event)
        open_publisher(world.task, retained).holds = None
        list(run_batch(processor, state, [row]))
    open_publisher(world.task, retained).holds = None
    assert [d.number for d in open_publisher(world.task, retained).list_documents()] == [2, 3]


def test_chunks_are_written_anew_when_most_of_their_documents_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path, 1, grouped=False)
    processor = PublishProcessor(world.task, Retained(most=2), NOW, 1, groups=False)
    state = State()
    processor.init(state)  # type: ignore[arg-type]
    event = encode_flat({"s": ["x" * 5_000]})
    for number in range(60):
        row = Row(id=number, g0=0, o0=number, event=event)
        list(run_batch(processor, state, [row]))
    stored = sum(len(chunk) for (chunk,) in state.values[0]["documents"])
    assert stored < 40 * 5_000


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["EXISTS (SELECT 1 FROM seen d WHERE d.a = a AND d.b = b)"], {"a", "b"}),
        (["x < ANY (SELECT d.x FROM seen d WHERE d.a = a AND d.c > c)"], {"a"}),
        (["a = ANY (SELECT d.a FROM seen d)"], set()),
        (["EXISTS (SELECT 1 FROM seen d WHERE d.a = a OR d.b = b)"], set()),
        (["EXISTS (SELECT 1 FROM seen d WHERE d.a = b)"], set()),
        (["EXISTS (SELECT 1 FROM seen d WHERE d.a = a + 1)"], set()),
        (["EXISTS (SELECT 1 FROM seen d WHERE NOT d.a = a)"], set()),
        (
            [
                "(SELECT COUNT(*) FROM seen d WHERE d.a = a AND d.b = b) > 2",
                "EXISTS (SELECT 1 FROM seen d WHERE d.b = b)",
            ],
            {"b"},
        ),
        ([], set()),
    ],
)
def test_equated_attributes(texts: list[str], expected: set[str]) -> None:
    names = {p.attribute for text in texts for p in predicates(tamis.parse(text))}
    joins = [join_named(name) for name in names if name.startswith(JOINED)]
    assert find_equated(joins) == expected


def test_refused_events_raise_or_are_left_out(tmp_path: Path) -> None:
    world = World(tmp_path, 3, grouped=False)
    texts = pa.array(['{"n": 1}', "no JSON", None])
    batch = pa.record_batch([pa.array([1, 2, 3]), texts], ["id", EVENT])
    task = replace(world.task, shape="json")
    with pytest.raises(EventError, match="not JSON"):
        list(FlattenTask(task, ("n",), skip=False).run([batch]))
    (flat,) = FlattenTask(task, ("n",), skip=True).run([batch])
    assert flat["id"].to_pylist() == [1, 3]
