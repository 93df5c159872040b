"""Run the Spark jobs of a build or an update, and check what the executors report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import DuplicateRuleError, RuleError, RuleSyntaxError, StorageError
from tamis.spark.index.layout import BUILDER, Place
from tamis.spark.index.places import remove
from tamis.spark.index.rows import ID, SHARD
from tamis.spark.index.shards import (
    REPORT,
    BuildSpec,
    Problem,
    Report,
    build_shards,
    decode_report,
    merge_shards,
    update_shards,
    write_empty_shard,
)
from tamis.spark.runtime.work import Work, describe_jobs

__all__ = ["raise_problems", "run_build", "run_update"]

RULES_PER_SHARD: Final = 2_000_000
"""How many rules a shard has at most, unless the user chooses the number of shards.

Each shard costs one more encoding and one more call of the engine for each batch of events, but a
task has to hold a shard in memory to build it: docs/decisions/0008-shards-from-pieces.md.
"""

RULES_PER_PIECE: Final = 250_000
"""How many rules a task parses."""

_PIECE_ENGINE: Final = "scan"
"""The engine of pieces; it builds nothing."""


def run_build(
    spec: BuildSpec, table: DataFrame, shards: int | None, id_column: str
) -> list[Report]:
    """Build all shards: directly, or in pieces that are then merged.

    Parameters
    ----------
    spec
        How to build them.
    table
        The rules.
    shards
        How many shards to build; by default as many as the number of rules asks for.
    id_column
        The user's name of the column with the ids, for error messages.

    Returns
    -------
    list of Report
        A report for each shard.
    """
    spark = table.sparkSession
    with describe_jobs(spark, "tamis build: count the rules"):
        rows = table.count()
    count = shards or max(1, _ceil_divide(rows, RULES_PER_SHARD))
    pieces = max(1, _ceil_divide(rows, count * RULES_PER_PIECE))
    first = spec if pieces == 1 else spec._replace(engine=_PIECE_ENGINE, sample=b"")
    # Pieces divide shards: a row of piece p, modulo count·pieces, is of shard p modulo count.
    doing = f"tamis build: parse {rows:,} rules in {count * pieces:,} tasks"
    with describe_jobs(spark, doing):
        reports = _run(first, table, count * pieces, build_shards, id_column)
    built = [reports.get(n) or write_empty_shard(first, n) for n in range(count * pieces)]
    if pieces == 1:
        return built
    merge = partial(merge_shards, spec, [built[shard::count] for shard in range(count)])
    numbers = spark.range(0, count, 1, count)
    with describe_jobs(
        spark, f"tamis build: merge {count * pieces:,} pieces into {count:,} shards"
    ):
        done = numbers.mapInArrow(Work(merge, "tamis_merge_shards"), REPORT)
        merged = _collect_reports(spec, done, id_column)
    return [merged[number] for number in range(count)]


def run_update(
    spec: BuildSpec, changes: DataFrame, shards: int, id_column: str
) -> dict[int, Report]:
    """Apply changes to copies of the shards; the reports of those that have changes, by number."""
    with describe_jobs(changes.sparkSession, f"tamis update: change {shards:,} shards"):
        return _run(spec, changes, shards, update_shards, id_column)


def _ceil_divide(rows: int, size: int) -> int:
    return -(-rows // size)


def _run(
    spec: BuildSpec,
    table: DataFrame,
    count: int,
    work: Callable[[BuildSpec, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    id_column: str,
) -> dict[int, Report]:
    """Run `work` on executors for each of `count` shards, and collect the reports."""
    # Spark's hash puts the rows of shard n into partition n.
    numbered = table.withColumn(SHARD, F.pmod(F.hash(F.col(ID)), F.lit(count)))
    named = Work(partial(work, spec), f"tamis_{work.__name__}")
    done = numbered.repartition(count, F.col(ID)).mapInArrow(named, REPORT)
    return _collect_reports(spec, done, id_column)


def _collect_reports(spec: BuildSpec, done: DataFrame, id_column: str) -> dict[int, Report]:
    """Collect the reports of all tasks by shard; problems raise."""
    reports = [decode_report(row["report"]) for row in done.collect()]
    problems = [report.problem for report in reports if report.problem]
    raise_problems(problems, spec.folder, id_column)
    by_shard = {report.shard: report for report in reports}
    assert len(by_shard) == len(reports), "the rows of a shard came to several tasks"
    for report in reports:
        if report.name and not (spec.place / report.name).is_dir():
            _refuse_path(spec.folder, "an executor")
    _remove_unreported(spec.place, reports)
    return by_shard


def raise_problems(problems: list[Problem], folder: str, id_column: str) -> None:
    """Raise an error about the most serious kind of problem, with an example, if there is one."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.kind, []).append(problem)
    rows = {kind: sum(problem.rows for problem in some) for kind, some in kinds.items()}
    if "unseen" in kinds:
        _refuse_path(folder, f"an executor on {kinds['unseen'][0].message}")
    if "null" in kinds:
        raise RuleError(
            f"the column {id_column!r} is null in {_count_rows(rows['null'])}, "
            f"for example in that of the rule {kinds['null'][0].rules[0]!r}"
        )
    if "duplicate" in kinds:
        example = kinds["duplicate"][0]
        raise DuplicateRuleError(
            f"the ids in the column {id_column!r} have to be unique, but "
            f"{_count_rows(rows['duplicate'])} share an id with another, for example the rules "
            f"{' and '.join(map(repr, example.rules))}",
            rule_id=example.id,
        )
    for problem in kinds.get("refused", [])[:1]:
        _raise_refused(problem)


def _count_rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _raise_refused(problem: Problem) -> NoReturn:
    text = problem.rules[0]
    if text is None or problem.position is None:
        raise RuleError(f"{problem.message} (in {text!r})", rule_id=problem.id)
    raise RuleSyntaxError(problem.message, text=text, position=problem.position, rule_id=problem.id)


def _refuse_path(folder: str, who: str) -> NoReturn:
    raise StorageError(
        f"the driver and {who} do not see the same files under this path; "
        "name one on a file system that all machines share",
        path=str(Path(folder).parents[1]),
    )


def _remove_unreported(folder: Place, reports: Iterable[Report]) -> None:
    """Remove the files of attempts whose reports Spark dropped, and of pieces that are merged."""
    named = {name for report in reports for name in (report.name, report.quarantine)}
    entries: list[Place] = [*folder.iterdir()]
    for entry in entries:
        if entry.name not in named and entry.name != BUILDER:
            remove(entry)
