"""Count matches on Spark, and write the report about them.

Matches are counted by rule, by event and by partition, each in one pass that reads only the columns
it needs. The collected tables are small, however many matches there are; see
`tamis.report.figures`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import SchemaError
from tamis.report import (
    BusyRule,
    Distribution,
    Figures,
    SilentRule,
    Story,
    check_plots,
    page,
    summarize,
)
from tamis.spark.column_names import quote

__all__ = ["report"]

_ANSWER_COLUMNS: Final = frozenset({"rank", "score", "matches", "index_version", "batch_id"})
"""Columns that Tamis adds to the keys of events."""

_BUSIEST: Final = 15
_SILENT: Final = 10
"""How many rules to show of each kind."""

_TEXT_LENGTH: Final = 300
"""How many characters of a rule's text to show."""


def report(
    matches: DataFrame,
    *,
    rules: DataFrame | None = None,
    events: DataFrame | int | None = None,
    path: str | os.PathLike[str] = "report.html",
    title: str = "Rules and their matches",
    keys: Sequence[str] | None = None,
    rule: str = "rule",
    id: str = "id",
    text: str = "rule",
    seconds: Mapping[str, float] | None = None,
    facts: Mapping[str, str] | None = None,
    story: Story | None = None,
) -> Path:
    """Write a report about matches: one self-contained HTML file with plots and tables.

    It shows how many matches rules have, how many rules events match, which share of the events
    matched, the busiest rules and those that never matched, skew, and throughput.

    Parameters
    ----------
    matches
        The result of :func:`match`, one row per match. It is read three times, so write it to
        files first, and pass these.
    rules
        The table of rules; without it, texts and rules without a match are unknown.
    events
        The table of events, or their number; without it, events without a match are unknown.
    path
        The file to write.
    title
        The heading of the page.
    keys
        The columns of `matches` that identify an event; by default all that Tamis did not add.
    rule
        The column of `matches` with the id of the rule.
    id, text
        The columns of `rules` with the id and the text.
    seconds
        The time of each stage, for instance ``{"build": 21.0, "match": 34.2}``; for these two, the
        report also shows rates.
    facts
        Further facts to show, by name.
    story
        What else to tell: matches over time and by kind, an event explained, a baseline. What the
        last report at `path` said is kept beside it, and the next one shows what changed.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    SchemaError
        A column is missing.
    """
    check_plots()
    keys = _choose_keys(matches, keys, rule)
    if rules is not None:
        _check_columns(rules, [id, text], "rules")
    by_rule = matches.groupBy(F.col(quote(rule)).cast("string").alias("id")).count().persist()
    by_event = matches.groupBy(*map(quote, keys)).count()
    try:
        texts = None if rules is None else _select_texts(rules, id, text)
        silent_rules, silent = (None, ()) if texts is None else _find_silent(texts, by_rule)
        figures = Figures(
            matches_by_rule=_count_counts(by_rule),
            rules_by_event=_count_counts(by_event),
            rules=None if rules is None else rules.count(),
            events=events.count() if isinstance(events, DataFrame) else events,
            busiest=_find_busiest(by_rule, texts),
            silent_rules=silent_rules,
            silent=silent,
            partitions=_count_by_partition(matches),
            seconds=seconds or {},
            facts=facts or {},
        )
    finally:
        by_rule.unpersist()
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = file.with_suffix(".json")
    story = (story or Story())._replace(previous=_read_previous(kept))
    file.write_text(page(figures, title, story=story), "utf-8")
    kept.write_text(json.dumps(summarize(figures)), "utf-8")
    return file


def _read_previous(path: Path) -> dict[str, float]:
    """What the last report said; nothing if there is none, or it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _choose_keys(matches: DataFrame, keys: Sequence[str] | None, rule: str) -> list[str]:
    if keys is None:
        keys = [name for name in matches.columns if name != rule and name not in _ANSWER_COLUMNS]
    _check_columns(matches, [rule, *keys], "matches")
    if not keys:
        raise SchemaError(
            "the matches have no column that identifies an event; match with keys=[…], or pass "
            f"keys=[…] here. The columns are {', '.join(matches.columns)}"
        )
    return list(keys)


def _check_columns(frame: DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in frame.columns:
            raise SchemaError(
                f"the {what} have no column {name!r}; the columns are {', '.join(frame.columns)}"
            )


def _count_counts(counted: DataFrame) -> Distribution:
    """Count how often each count occurs."""
    rows = counted.groupBy("count").agg(F.count(F.lit(1))).collect()
    return Distribution.of((row[0], row[1]) for row in rows)


def _count_by_partition(matches: DataFrame) -> tuple[int, ...]:
    by_partition = matches.groupBy(F.spark_partition_id().alias("partition")).count()
    return tuple(row["count"] for row in by_partition.collect())


def _select_texts(rules: DataFrame, id: str, text: str) -> DataFrame:
    return rules.select(
        F.col(quote(id)).cast("string").alias("id"),
        F.substring(F.col(quote(text)).cast("string"), 1, _TEXT_LENGTH + 1).alias("text"),
    )


def _find_silent(texts: DataFrame, by_rule: DataFrame) -> tuple[int, tuple[SilentRule, ...]]:
    """Count the rules without a match, and take the first of them as examples."""
    silent = texts.join(by_rule, "id", "left_anti")
    examples = silent.orderBy("id").limit(_SILENT).collect()
    return silent.count(), tuple(SilentRule(row["id"], _shorten(row["text"])) for row in examples)


def _find_busiest(by_rule: DataFrame, texts: DataFrame | None) -> tuple[BusyRule, ...]:
    rows = by_rule.orderBy(F.desc("count"), F.asc("id")).limit(_BUSIEST).collect()
    found = {}
    if texts is not None:
        wanted = texts.where(F.col("id").isin([row["id"] for row in rows]))
        found = {row["id"]: _shorten(row["text"]) for row in wanted.collect()}
    return tuple(BusyRule(row["id"], row["count"], found.get(row["id"])) for row in rows)


def _shorten(text: str | None) -> str | None:
    return text if text is None or len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"
