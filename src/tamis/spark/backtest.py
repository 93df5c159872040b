"""Run draft rules over the events of a Spark table.

Each task runs the backtest of its events in process; the driver adds up what they return.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import EventError, RuleError
from tamis.matcher.analysis.backtest import Backtest, merge_backtests, read_drafts
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId
from tamis.spark.column_names import quote
from tamis.spark.index.versions import current
from tamis.spark.match.options import Names
from tamis.spark.match.worker import ShardName, open_shards
from tamis.spark.runtime.work import Work

__all__ = ["backtest"]


def backtest(
    events_df: DataFrame,
    rules: Any,
    saved: Matcher | str | Path | None = None,
    *,
    id: RuleId | None = None,
    keys: Names = None,
    time: str | None = None,
    bins: int = 24,
    samples: int = 5,
    logic: str = "strong",
) -> Backtest:
    """Run draft rules over past events: how many match, when, and what changes.

    Parameters
    ----------
    events_df
        The events, one per row; columns are attributes.
    rules, id, time, bins, samples
        As in :meth:`tamis.Matcher.backtest`.
    saved
        The saved rules to compare with: a published index, or a matcher.
    keys
        The columns that samples show, beside the attributes that rules mention.
    logic
        The logic of drafts that name none, if `saved` is not given.

    Returns
    -------
    Backtest
        It prints as a report. Samples are some of the events, in no particular order.

    Raises
    ------
    RuleError
        A draft is refused, or has join predicates, for which Spark has no documents.
    EventError
        A key or the time is not a column.
    """
    known = _SavedRules(saved, logic)
    drafts = read_drafts(rules, id, known.make_matcher())
    chosen = [rule for draft in drafts if (rule := known.find(draft.id)) is not None]
    attributes: frozenset[str] = frozenset()
    for some in (drafts, chosen):
        matcher = known.make_matcher()
        matcher.add_many(some)
        attributes |= matcher.attributes()
        if matcher._searcher.has_joins:
            raise RuleError("a rule refers to earlier documents, and Spark has none")
    names = [keys] if isinstance(keys, str) else list(keys or ())
    wanted = [*names, *([time] if time is not None else [])]
    for name in wanted:
        if name not in events_df.columns:
            raise EventError(f"there is no column {name!r}")
    roots = {attribute.partition(".")[0] for attribute in attributes} | set(attributes)
    columns = [name for name in events_df.columns if name in roots or name in wanted]
    quoted = [F.col(quote(name)) for name in columns]
    table = events_df.select(*(quoted or [F.lit(None).cast("boolean").alias("nothing")]))
    task = _Task(drafts, chosen, known.logic, known.schema, time, bins, samples)
    rows = table.mapInArrow(Work(task.run, "tamis_backtest"), "part binary").collect()
    parts = [pickle.loads(row.part) for row in rows]
    return merge_backtests([*parts, task.backtest([])], bins, samples)


class _SavedRules:
    """Finds saved rules by id."""

    def __init__(self, saved: Matcher | str | Path | None, logic: str) -> None:
        self.logic: str = logic
        self.schema: Mapping[str, str] = {}
        self._matchers: list[Matcher] = []
        if isinstance(saved, Matcher):
            self.logic, self.schema = saved.stats()["logic"], saved._schema.types
            self._matchers = [saved]
        elif saved is not None:
            version = current(saved)
            self.logic, self.schema = version.logic, version.schema
            names = (ShardName(os.fspath(shard.path), shard.hash) for shard in version.shards)
            self._matchers = open_shards(tuple(names))

    def find(self, id: RuleId) -> Rule | None:
        """The saved rule of that id."""
        return next((m.rule(id) for m in self._matchers if id in m), None)

    def make_matcher(self) -> Matcher:
        """An empty matcher with the same settings."""
        return Matcher(logic=self.logic, schema=self.schema)


@dataclass(frozen=True)
class _Task:
    """Runs on the executors."""

    drafts: list[Rule]
    saved: list[Rule]
    logic: str
    schema: Mapping[str, str]
    time: str | None
    bins: int
    samples: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The backtest of a partition, pickled."""
        part = self.backtest(_read_rows(batches))
        yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]})

    def backtest(self, events: Any) -> Backtest:
        """The backtest of some events."""
        matcher = Matcher(logic=self.logic, schema=self.schema)
        matcher.add_many(self.saved)
        return matcher.backtest(
            self.drafts, events, time=self.time, bins=self.bins, samples=self.samples
        )


def _read_rows(batches: Iterable[pa.RecordBatch]) -> Any:
    """The batches of a partition, one at a time."""
    remaining = iter(batches)
    first = next(remaining, None)
    if first is None:
        return []

    def chain() -> Iterator[pa.RecordBatch]:
        yield first
        yield from remaining

    return pa.RecordBatchReader.from_batches(first.schema, chain())
