"""Whether a published index answers as the language says, on a sample of rules and events.

Both answers are made on the executors for the same rows: one by the task that `match` runs there,
the other by evaluating each rule by itself, which needs no index. Only differences come back.
"""

from __future__ import annotations

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

from tamis.expr.evaluate import evaluate_flat
from tamis.expr.model import Expr, Logic
from tamis.matcher.rule import RuleId
from tamis.matcher.schema import Schema
from tamis.spark.index.versions import PathLike, Version
from tamis.spark.match.event_columns import Names
from tamis.spark.match.query import prepare
from tamis.spark.match.worker import EVENT, Task, opened

__all__ = ["Difference", "Ratification", "ratify"]

_ROW = "row"
_ROWS = 256
"""How many events are looked at together."""


class Difference(NamedTuple):
    """A rule and an event on which the index and the language disagree."""

    rule: RuleId
    text: str
    keys: dict[str, Any]
    """What the event is known by."""
    event: dict[str, Any]
    """What of it rules look at."""
    found: bool
    """Whether the index says that the event matches the rule."""
    holds: bool
    """Whether the rule holds."""


class Ratification(NamedTuple):
    """What came of comparing."""

    version: int
    rules: int
    """How many rules were looked at."""
    events: int
    """How many events were looked at, each with each of the rules."""
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether no difference was found."""
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
    """Compare what the index says with :func:`tamis.evaluate`, on a sample.

    Parameters
    ----------
    events_df, path, keys, events, version, ship
        As in :func:`match`.
    sample_events, sample_rules
        How many of each are looked at: each of the events with each of the rules.
    seed
        Which ones.
    limit
        How many differences are returned at most.

    Returns
    -------
    Ratification
        How much was looked at, and the differences.

    Raises
    ------
    StorageError
        There is no such index or version, or it cannot be read.
    EventError, SchemaError
        A column is not there, or has a type that rules cannot compare.
    """
    query = prepare(events_df.schema, path, "match", keys=keys, events=events, version=version)
    rules = _sampled_rules(query.version, sample_rules, seed)
    task = query.task(events_df.sparkSession, (query.version.shards,), ship)
    compare = _Comparison(task, tuple(rules.values()), query.version.schema)
    # Kept, so that all looks at it see the same events.
    sample = query.sent(events_df).orderBy(F.rand(seed)).limit(sample_events).persist()
    try:
        compared = sample.count()
        schema = StructType([*query.keys, *_FIELDS])
        rows = sample.mapInArrow(compare.run, schema).limit(limit).collect()
    finally:
        sample.unpersist()
    differences = [_difference(tuple(row), query.schema.names[:-1], rules) for row in rows]
    return Ratification(query.version.number, len(rules), compared, differences)


_FIELDS = (
    StructField("tamis rule", StringType()),
    StructField("tamis event", StringType()),
    StructField("tamis found", BooleanType()),
    StructField("tamis holds", BooleanType()),
)
"""What executors say of a difference, behind the keys."""


class _SampledRule(NamedTuple):
    id: RuleId
    text: str
    tree: Expr
    logic: Logic


def _sampled_rules(version: Version, count: int, seed: int) -> dict[str, _SampledRule]:
    """Rules by what their ids read as: of each shard its share."""
    chosen: dict[str, _SampledRule] = {}
    random, left = Random(seed), version.rules
    for shard in version.shards:
        share = min(shard.rules, round(count * shard.rules / max(1, left)))
        count, left = count - share, left - shard.rules
        (matcher,) = opened((str(shard.path),))
        for id in random.sample(list(matcher), share):
            rule = matcher.rule(id)
            chosen[str(id)] = _SampledRule(id, rule.text, rule.expr, rule.logic)
    return chosen


@dataclass(frozen=True)
class _Comparison:
    """What workers do: nothing but differences comes out."""

    task: Task
    rules: tuple[_SampledRule, ...]
    schema: dict[str, str]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The differences among some events."""
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS):
                yield from self._differences(batch.slice(first, _ROWS))

    def _differences(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        events = self._events(batch.column(EVENT))
        found, holding = self._found(batch), self._holding(events)
        pairs = sorted(found ^ holding)
        if not pairs:
            return
        rows = pa.array([row for row, _ in pairs], pa.int64())
        columns = [
            *(batch.column(place).take(rows) for place in range(len(self.task.keys))),
            pa.array([rule for _, rule in pairs]),
            pa.array([_as_json(events[row]) for row, _ in pairs]),
            pa.array([pair in found for pair in pairs]),
            pa.array([pair in holding for pair in pairs]),
        ]
        names = [*self.task.keys, *(field.name for field in _FIELDS)]
        yield pa.RecordBatch.from_arrays(columns, names)

    def _events(self, column: pa.Array) -> list[dict[str, Any]]:
        if self.task.shape == "json":
            return [
                {} if text is None else msgspec.json.decode(text) for text in column.to_pylist()
            ]
        return [event or {} for event in column.to_pylist(maps_as_pydicts="strict")]

    def _found(self, batch: pa.RecordBatch) -> set[tuple[int, str]]:
        """The rows, and the ids of sampled rules that the index finds for them."""
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

    def _holding(self, events: list[dict[str, Any]]) -> set[tuple[int, str]]:
        """The rows, and the ids of sampled rules that hold for them, each evaluated by itself."""
        schema = Schema(self.schema)
        trees = [(str(r.id), schema.adapt_rule(r.tree), r.logic) for r in self.rules]
        flat = [schema.read(event) for event in events]
        return {
            (row, id)
            for row, event in enumerate(flat)
            for id, tree, logic in trees
            if evaluate_flat(tree, event, logic)
        }


def _difference(
    row: tuple[Any, ...], keys: list[str], rules: dict[str, _SampledRule]
) -> Difference:
    *values, id, event, found, holds = row
    rule = rules[id]
    named = dict(zip(keys, values, strict=True))
    return Difference(rule.id, rule.text, named, msgspec.json.decode(event), found, holds)


def _as_json(event: dict[str, Any]) -> str:
    """An event without what it does not have."""
    there = {name: value for name, value in event.items() if value is not None}
    return msgspec.json.encode(there, enc_hook=str).decode()
