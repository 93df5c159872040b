"""The report about matches, counted on Spark.

Matches are counted by rule, by event and by partition, each in a pass of its own that reads the
columns it needs. Only small tables are collected, whatever the number of matches; see
`tamis.report.figures`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import SchemaError
from tamis.report import BusyRule, Distribution, Figures, SilentRule, check_plots, page

__all__ = ["report"]

_ANSWERS: Final = frozenset({"rank", "score", "matches", "index_version", "batch_id"})
"""Columns that Tamis adds to the keys of events."""

_BUSIEST = 15
_SILENT = 10
_LONGEST = 300
"""How many rules are shown, and how many characters of their texts."""


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
) -> Path:
    """Write a page about matches: one HTML file with plots and tables that needs nothing else.

    It shows how many matches rules have and how many rules events match, which part of the
    events matched at all, the busiest rules and those that never fired, skew, and throughput.

    Parameters
    ----------
    matches
        What :func:`match` gives: a row for each match. It is read three times, so write it
        down first, and give what was written.
    rules
        The table of rules, so that rules without a match are known, and texts.
    events
        The table of events, or how many there are, so that events without a match are known.
    path
        The file to write.
    title
        The heading of the page.
    keys
        The columns of `matches` that name an event; by default all but those that Tamis made.
    rule
        The column of `matches` that names the rule.
    id, text
        The columns of `rules` with its id and its text.
    seconds
        What stages took, for instance ``{"build": 21.0, "match": 34.2}``; of these two, rates
        are shown.
    facts
        What else to put on the page, by name.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    SchemaError
        A column is not there.
    """
    check_plots()
    keys = _keys(matches, keys, rule)
    if rules is not None:
        _check_columns(rules, [id, text], "rules")
    by_rule = matches.groupBy(F.col(_quoted(rule)).cast("string").alias("id")).count().persist()
    by_event = matches.groupBy(*map(_quoted, keys)).count()
    try:
        texts = None if rules is None else _texts(rules, id, text)
        silent_rules, silent = (None, ()) if texts is None else _silent(texts, by_rule)
        figures = Figures(
            matches_by_rule=_distribution(by_rule),
            rules_by_event=_distribution(by_event),
            rules=None if rules is None else rules.count(),
            events=events.count() if isinstance(events, DataFrame) else events,
            busiest=_busiest(by_rule, texts),
            silent_rules=silent_rules,
            silent=silent,
            partitions=_partitions(matches),
            seconds=seconds or {},
            facts=facts or {},
        )
    finally:
        by_rule.unpersist()
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(figures, title), "utf-8")
    return file


def _keys(matches: DataFrame, keys: Sequence[str] | None, rule: str) -> list[str]:
    if keys is None:
        keys = [name for name in matches.columns if name != rule and name not in _ANSWERS]
    _check_columns(matches, [rule, *keys], "matches")
    if not keys:
        raise SchemaError(
            "the matches have no column that names an event; match with keys=[…], "
            f"or name the column here: keys=[…]. There are: {', '.join(matches.columns)}"
        )
    return list(keys)


def _check_columns(frame: DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in frame.columns:
            raise SchemaError(
                f"the {what} have no column {name!r}; there are: {', '.join(frame.columns)}"
            )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _distribution(counted: DataFrame) -> Distribution:
    """How many rows of `counted` have which count."""
    rows = counted.groupBy("count").agg(F.count(F.lit(1))).collect()
    return Distribution.of((row[0], row[1]) for row in rows)


def _partitions(matches: DataFrame) -> tuple[int, ...]:
    by_partition = matches.groupBy(F.spark_partition_id().alias("partition")).count()
    return tuple(row["count"] for row in by_partition.collect())


def _texts(rules: DataFrame, id: str, text: str) -> DataFrame:
    return rules.select(
        F.col(_quoted(id)).cast("string").alias("id"),
        F.substring(F.col(_quoted(text)).cast("string"), 1, _LONGEST + 1).alias("text"),
    )


def _silent(texts: DataFrame, by_rule: DataFrame) -> tuple[int, tuple[SilentRule, ...]]:
    """How many rules have no match, and the first of them."""
    silent = texts.join(by_rule, "id", "left_anti")
    examples = silent.orderBy("id").limit(_SILENT).collect()
    return silent.count(), tuple(SilentRule(row["id"], _shown(row["text"])) for row in examples)


def _busiest(by_rule: DataFrame, texts: DataFrame | None) -> tuple[BusyRule, ...]:
    rows = by_rule.orderBy(F.desc("count"), F.asc("id")).limit(_BUSIEST).collect()
    found = {}
    if texts is not None:
        wanted = texts.where(F.col("id").isin([row["id"] for row in rows]))
        found = {row["id"]: _shown(row["text"]) for row in wanted.collect()}
    return tuple(BusyRule(row["id"], row["count"], found.get(row["id"])) for row in rows)


def _shown(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
