"""Compare a published index with the rule language, on a sample of rules and events.

Executors compute both answers for the same rows: one with the task that `match` runs, the other by
evaluating each rule by itself, without the index. Only differences come back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from tamis.expr.evaluate import add_joins, evaluate_flat
from tamis.expr.model import Expr, Logic
from tamis.expr.times import count_microseconds
from tamis.matcher.rule import RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.validity import Validity
from tamis.spark.index.layout import PathLike, Version
from tamis.spark.match.options import MatchOptions, Names
from tamis.spark.match.query import prepare_query
from tamis.spark.match.worker import EVENT, MatchTask, ShardName, open_shards
from tamis.spark.runtime.work import Work

__all__ = ["Difference", "Ratification", "ratify"]

_ROW = "row"
_BATCH_SIZE = 256
"""How many events to compare at a time."""


class Difference(NamedTuple):
    """A rule and an event on which the index and the language disagree."""

    rule: RuleId
    text: str
    keys: dict[str, Any]
    """The keys of the event."""
    event: dict[str, Any]
    """The attributes of the event that rules mention."""
    found: bool
    """Whether the index says that the event matches the rule."""
    holds: bool
    """Whether the rule holds."""


class Ratification(NamedTuple):
    """The result of a comparison."""

    version: int
    rules: int
    """How many rules were compared."""
    events: int
    """How many events were compared, each with all of the rules."""
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether there are no differences."""
        return not self.differences


def ratify(
    events_df: DataFrame,
    path: PathLike,
    *,
    keys: Names = None,
    events: Names = None,
    version: int | None = None,
    sample_events: int = 1_000,
    sample_rules: int = 1_000,
    seed: int = 0,
    limit: int = 20,
    ship: bool = False,
) -> Ratification:
    """Compare the answers of the index with :func:`tamis.evaluate`, on a sample.

    Parameters
    ----------
    events_df, path, keys, events, version, ship
        As in :func:`match`.
    sample_events, sample_rules
        How many of each to compare: each of the events with each of the rules.
    seed
        The seed of the samples.
    limit
        How many differences to return at most.

    Returns
    -------
    Ratification
        How much was compared, and the differences.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is missing, or has a type that rules cannot compare.
    """
    options = MatchOptions(keys, events, version, ship=ship)
    query = prepare_query(events_df.schema, path, "match", options)
    rules = _sample_rules(query.version, sample_rules, seed)
    task = query.make_task(events_df.sparkSession)
    comparison = _Comparison(task, tuple(rules.values()), query.version.schema)
    # Persisted, so that counting and comparing see the same events.
    sample = query.select_input(events_df).orderBy(F.rand(seed)).limit(sample_events).persist()
    try:
        compared = sample.count()
        schema = StructType([*query.keys, *_FIELDS])
        rows = (
            sample.mapInArrow(Work(comparison.run, "tamis_ratify"), schema).limit(limit).collect()
        )
    finally:
        sample.unpersist()
    differences = [_read_difference(tuple(row), query.schema.names[:-1], rules) for row in rows]
    return Ratification(query.version.number, len(rules), compared, differences)


_FIELDS = (
    StructField("tamis rule", StringType()),
    StructField("tamis event", StringType()),
    StructField("tamis found", BooleanType()),
    StructField("tamis holds", BooleanType()),
)
"""The columns of a difference, after the keys."""


class _SampledRule(NamedTuple):
    id: RuleId
    text: str
    tree: Expr
    logic: Logic
    validity: Validity


def _sample_rules(version: Version, count: int, seed: int) -> dict[str, _SampledRule]:
    """Sample rules by the text of their ids, from each shard in proportion to its size."""
    chosen: dict[str, _SampledRule] = {}
    random, left = Random(seed), version.rules
    for shard in version.shards:
        share = min(shard.rules, round(count * shard.rules / max(1, left)))
        count, left = count - share, left - shard.rules
        (matcher,) = open_shards((ShardName(os.fspath(shard.path), shard.hash),))
        for id in random.sample(list(matcher), share):
            rule = matcher.rule(id)
            chosen[str(id)] = _SampledRule(id, rule.text, rule.expr, rule.logic, rule.validity)
    return chosen


@dataclass(frozen=True)
class _Comparison:
    """Compares events on a worker, and outputs only differences."""

    task: MatchTask
    rules: tuple[_SampledRule, ...]
    schema: dict[str, str]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare batches of events."""
        for batch in batches:
            for first in range(0, batch.num_rows, _BATCH_SIZE):
                yield from self._compare(batch.slice(first, _BATCH_SIZE))

    def _compare(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        events = self._read_events(batch.column(EVENT))
        found, holding = self._match(batch), self._evaluate(events)
        pairs = sorted(found ^ holding)
        if not pairs:
            return
        rows = pa.array([row for row, _ in pairs], pa.int64())
        columns = [
            *(batch.column(place).take(rows) for place in range(len(self.task.keys))),
            pa.array([rule for _, rule in pairs]),
            pa.array([_encode_event(events[row]) for row, _ in pairs]),
            pa.array([pair in found for pair in pairs]),
            pa.array([pair in holding for pair in pairs]),
        ]
        names = [*self.task.keys, *(field.name for field in _FIELDS)]
        yield pa.RecordBatch.from_arrays(columns, names)

    def _read_events(self, column: pa.Array) -> list[dict[str, Any]]:
        if self.task.shape == "json":
            return [
                {} if text is None else msgspec.json.decode(text) for text in column.to_pylist()
            ]
        return [event or {} for event in column.to_pylist(maps_as_pydicts="strict")]

    def _match(self, batch: pa.RecordBatch) -> set[tuple[int, str]]:
        """Pairs of row and sampled rule that the index finds."""
        numbers = pa.array(np.arange(batch.num_rows))
        numbered = pa.RecordBatch.from_arrays([numbers, batch.column(EVENT)], [_ROW, EVENT])
        sampled = {str(rule.id) for rule in self.rules}
        found = set()
        for answer in replace(self.task, keys=(_ROW,)).answer(numbered):
            pairs = zip(
                answer.column(_ROW).to_pylist(), answer.column("rule").to_pylist(), strict=True
            )
            found |= {(row, str(rule)) for row, rule in pairs if str(rule) in sampled}
        return found

    def _evaluate(self, events: list[dict[str, Any]]) -> set[tuple[int, str]]:
        """Pairs of row and sampled rule that is valid and holds, each evaluated by itself.

        Neither side knows documents.
        """
        schema, at = Schema(self.schema), count_microseconds(self.task.at)
        valid = [rule for rule in self.rules if rule.validity.is_valid(at)]
        trees = [(str(r.id), schema.adapt_rule(r.tree), r.logic) for r in valid]
        flat = [schema.read(event) for event in events]
        return {
            (row, id)
            for row, event in enumerate(flat)
            for id, tree, logic in trees
            if evaluate_flat(tree, add_joins(tree, event, ()), logic)
        }


def _read_difference(
    row: tuple[Any, ...], keys: list[str], rules: dict[str, _SampledRule]
) -> Difference:
    *values, id, event, found, holds = row
    rule = rules[id]
    named = dict(zip(keys, values, strict=True))
    return Difference(rule.id, rule.text, named, msgspec.json.decode(event), found, holds)


def _encode_event(event: dict[str, Any]) -> str:
    """The present attributes of an event as JSON."""
    present = {name: value for name, value in event.items() if value is not None}
    return msgspec.json.encode(present, enc_hook=str).decode()
