"""Say what a pipeline would do, with sizes: ``tamis pipeline run --dry-run``.

Rules are counted, since that decides about shards. Events are not: Spark's estimate of their bytes
has to do, because counting them may cost as much as matching them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from tamis.errors import StorageError
from tamis.spark.index.jobs import RULES_PER_PIECE, RULES_PER_SHARD
from tamis.spark.index.layout import Version
from tamis.spark.index.versions import current
from tamis.spark.job.pipeline import start_session
from tamis.spark.job.settings import Config, describe_place, describe_source
from tamis.spark.job.sources import read_events, read_rules
from tamis.spark.match.options import MatchOptions
from tamis.spark.match.shard_groups import group_shards

__all__ = ["describe_run"]

_BYTES_PER_RULE: Final = 130
"""What a rule takes in an index, if no earlier version tells: docs/reference/sizing.md."""


def describe_run(config: Config, spark: SparkSession | None = None) -> Iterator[tuple[str, str]]:
    """Describe a run of a pipeline in rows of a name and a text; nothing is built or written.

    Parameters
    ----------
    config
        The file.
    spark
        The session; by default the one that the file describes.

    Raises
    ------
    TamisError
        An input cannot be read, or a column is missing.
    """
    spark = spark or start_session(config)
    pipeline = config.pipeline
    index = config.resolve_path(pipeline.index.path)
    version = _find_version(index)
    yield "index", index if version is None else f"{index}, {_describe(version)}"
    if pipeline.rules is not None:
        rules = read_rules(spark, config, pipeline.rules).frame
        if rules is None:
            yield "rules", f"changes of {describe_source(pipeline.rules)} since the last run"
        else:
            yield "rules", _describe_build(rules.count(), pipeline.index.shards, version)
    if pipeline.events is not None:
        events = read_events(spark, config, pipeline.events)
        yield "events", _describe_events(events)
        if version is not None:
            options = MatchOptions(plan=pipeline.index.plan, memory=pipeline.index.memory)
            groups = len(group_shards(version, options))
            each = "all rules" if groups == 1 else f"one of {groups} groups of shards"
            yield "plan", f"a task has {each}; each event goes to {groups} tasks"
    for what in ("matches", "counts", "top", "dead_letters", "report"):
        place = getattr(pipeline.output, what)
        if place is not None:
            yield what.replace("_", " "), f"written to {describe_place(place)}"


def _find_version(index: str) -> Version | None:
    try:
        return current(index)
    except StorageError:
        return None


def _describe(version: Version) -> str:
    size = sum(shard.bytes for shard in version.shards)
    return (
        f"version {version.number}: {version.rules:,} rules, {version.bad:,} refused, "
        f"{len(version.shards):,} shards, {size / 1e6:,.1f} MB"
    )


def _describe_build(rows: int, shards: int | None, version: Version | None) -> str:
    count = shards or max(1, -(-rows // RULES_PER_SHARD))
    pieces = count * max(1, -(-rows // (count * RULES_PER_PIECE)))
    each: float = _BYTES_PER_RULE
    if version is not None and version.rules:
        each = sum(shard.bytes for shard in version.shards) / version.rules
    tasks = f"{pieces:,} tasks parse" + (f", {count:,} merge" if pieces > count else "")
    return f"{rows:,}: {count:,} shards, about {rows * each / 1e6:,.1f} MB; {tasks}"


def _describe_events(events: DataFrame) -> str:
    columns = f"{len(events.columns):,} columns"
    if events.isStreaming:
        return f"a stream of {columns}"
    if is_remote():
        return columns
    plan: Any = events._jdf.queryExecution().optimizedPlan()
    size = int(plan.stats().sizeInBytes())
    return f"{columns}, {events.rdd.getNumPartitions():,} partitions, about {size / 1e6:,.1f} MB"
