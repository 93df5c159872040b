"""Explain on Spark why rules match events, or what keeps them from matching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack, get_args

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

import tamis
from tamis.encode.arrow_rows import read_rows
from tamis.errors import EventError, TamisError
from tamis.expr.analysis.explain import Explanation
from tamis.expr.analysis.why_not import Obstacles
from tamis.matcher.rule import RuleId
from tamis.spark.index.layout import PathLike
from tamis.spark.match.options import Explain, MatchKeywords, MatchOptions, Style, list_keywords
from tamis.spark.match.query import Query, attributes_of, prepare_query
from tamis.spark.match.worker import AT, EVENT, MatchTask, open_shards, to_moments, to_texts

__all__ = ["RULE", "ExplainTask", "check_style", "explain", "why", "why_not"]

RULE = "rule"
"""The column with the id of the rule to explain, after the keys."""


@list_keywords(MatchKeywords)
def explain(
    events_df: DataFrame,
    path: PathLike,
    pairs: DataFrame,
    *,
    style: Style = "text",
    **options: Unpack[MatchKeywords],
) -> DataFrame:
    """Explain why chosen rules match chosen events or do not.

    Parameters
    ----------
    events_df
        The events, one per row.
    path
        A published index.
    pairs
        Which rules to explain for which events: a table with the keys and a column ``rule``, such
        as the result of :func:`match`.
    style
        ``"text"`` to read, or ``"json"``: what :meth:`tamis.Explanation.to_json` returns.
    **options
        As in :func:`match`, which also says what it raises. With ``on_error="skip"`` events that
        are refused and rules that do not exist are left out.

    Returns
    -------
    DataFrame
        The keys, rule, matches (whether the rule holds for the event, valid or not) and
        explanation.
    """
    return _explain_pairs(events_df, path, "explain", pairs, style, MatchOptions(**options))


@list_keywords(MatchKeywords)
def why_not(
    events_df: DataFrame,
    path: PathLike,
    pairs: DataFrame,
    *,
    style: Style = "text",
    **options: Unpack[MatchKeywords],
) -> DataFrame:
    """Find the fewest predicates that would have to change for chosen rules to match chosen events.

    Parameters
    ----------
    events_df, path, pairs, style, **options
        As in :func:`explain`.

    Returns
    -------
    DataFrame
        The keys, rule, matches (whether it matches as it is) and explanation:
        :meth:`tamis.Matcher.why_not`, as text or as JSON.
    """
    return _explain_pairs(events_df, path, "why_not", pairs, style, MatchOptions(**options))


@list_keywords(MatchKeywords)
def why(
    events_df: DataFrame,
    path: PathLike,
    *,
    style: Style = "text",
    **options: Unpack[MatchKeywords],
) -> DataFrame:
    """Explain each rule that an event satisfies.

    Parameters
    ----------
    events_df, path, style, **options
        As in :func:`explain`.

    Returns
    -------
    DataFrame
        The keys, rule and explanation: one row per match.
    """
    check_style(style)
    query = prepare_query(events_df.schema, path, "why", MatchOptions(**options))
    task = ExplainTask.of(query, query.make_task(events_df.sparkSession), style)
    work = query.name_work(task.run, events_df.sparkSession)
    return query.select_input(events_df).mapInArrow(work, query.schema)


def check_style(style: Style) -> None:
    """Check the argument `style` of functions that have it."""
    if style not in get_args(Style):
        raise ValueError(f"style is 'text' or 'json', not {style!r}")


def _explain_pairs(
    table: DataFrame,
    path: PathLike,
    ask: Explain,
    pairs: DataFrame,
    style: Style,
    options: MatchOptions,
) -> DataFrame:
    check_style(style)
    query = prepare_query(table.schema, path, ask, options)
    task = ExplainTask.of(query, query.make_task(table.sparkSession), style)
    joined, rule = _join_pairs(query, table, pairs)
    work = query.name_work(task.run, table.sparkSession)
    return query.select_input(joined, rule).mapInArrow(work, query.schema)


def _join_pairs(query: Query, table: DataFrame, pairs: DataFrame) -> tuple[DataFrame, Column]:
    """Put the rules of pairs after the columns of their events; the columns stay at their places.

    Returns the table, and the column of rules by the name that `Query.select_input` gives it.
    """
    wanted = [*(key.name for key in query.keys), RULE]
    for name in wanted:
        if pairs.columns.count(name) != 1:
            raise EventError(
                f"the table of pairs has no column {name!r}, or several; the columns are "
                f"{', '.join(pairs.columns)}"
            )
    of_pairs = pairs.toDF(*(f"p{place}" for place in range(len(pairs.columns))))
    of_events = table.toDF(*(f"e{place}" for place in range(len(table.columns))))
    places = [pairs.columns.index(name) for name in wanted]
    id_type = StringType() if query.version.id_type == "string" else LongType()
    rules = of_pairs.select(
        *(F.col(f"p{place}") for place in places[:-1]),
        F.col(f"p{places[-1]}").cast(id_type).alias("r"),
    ).distinct()
    same = F.lit(True)
    for mine, place in zip(query.columns.keys, places[:-1], strict=True):
        same = same & F.col(f"e{mine}").eqNullSafe(F.col(f"p{place}"))
    joined = of_events.join(rules, same).select(*of_events.columns, "r")
    return joined, F.col(f"c{len(of_events.columns)}").alias(RULE)


@dataclass(frozen=True)
class ExplainTask:
    """Explains the events of batches: with all rules, or with that of the column `RULE`."""

    task: MatchTask
    """Says what to explain, for which columns."""
    attributes: tuple[str, ...]
    """The attributes that rules mention."""
    style: Style
    skip: bool

    @classmethod
    def of(cls, query: Query, task: MatchTask, style: Style) -> ExplainTask:
        """The task of a query that was prepared for explanations."""
        names = tuple(sorted(attributes_of(query.version)))
        return cls(task, names, style, query.options.on_error == "skip")

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Explain all events."""
        for batch in batches:
            yield from self.answer(batch)

    def answer(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Explain the events of a batch."""
        rows: list[int] = []
        answers: list[tuple[Any, ...]] = []
        for row in range(batch.num_rows):
            try:
                found = self._explain_row(batch.slice(row, 1))
            except TamisError:
                if self.skip:
                    continue
                raise
            rows += [row] * len(found)
            answers += found
        keys = [key.take(pa.array(rows, pa.int64())) for key in batch.columns[: self.n_keys]]
        columns = [
            pa.array(column, kind)
            for column, kind in zip(
                zip(*answers, strict=True) if answers else [()] * len(self.task.answers),
                self.task.answers.types,
                strict=True,
            )
        ]
        names = [*self.task.keys, *self.task.answers.names]
        yield pa.RecordBatch.from_arrays([*keys, *columns], names)

    @property
    def n_keys(self) -> int:
        """How many columns of a batch are keys."""
        return len(self.task.keys)

    def _explain_row(self, row: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The answers for one event, without its keys."""
        matchers = open_shards(self.task.groups[0], self.task.shipped)
        event = self._read_event(row.column(EVENT))
        at = self._read_time(row)
        if self.task.ask == "why":
            return [
                (id, self._write(explanation))
                for matcher in matchers
                for id, explanation in matcher.why(event, only=self.task.only, at=at).items()
            ]
        id: RuleId = row.column(RULE)[0].as_py()
        matcher = _find_shard(matchers, id)
        if self.task.ask == "explain":
            explanation = matcher.explain(id, event)
            return [(id, explanation.held, self._write(explanation))]
        obstacles = matcher.why_not(id, event, at=at)
        matches = obstacles.changes == () and obstacles.invalid is None
        return [(id, matches, self._write(obstacles))]

    def _read_event(self, column: pa.Array) -> dict[str, Any]:
        if self.task.shape == "json":
            return to_texts(column).event(0)
        return read_rows(pa.RecordBatch.from_arrays([column], [""]), self.attributes)[0]

    def _read_time(self, row: pa.RecordBatch) -> datetime:
        if AT not in row.schema.names:
            return self.task.at
        return to_moments(row.column(AT), self.task.at)[0]

    def _write(self, explanation: Explanation | Obstacles) -> str:
        if self.style == "json":
            return msgspec.json.encode(explanation.to_json()).decode()
        return str(explanation)


def _find_shard(matchers: Sequence[tamis.Matcher], id: RuleId) -> tamis.Matcher:
    """The shard that has a rule; if none has it, one that says so."""
    return next((matcher for matcher in matchers if id in matcher), matchers[0])
