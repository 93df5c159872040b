"""Build, merge and update shards on executors, and report each of them to the driver.

Matching is faster with few large shards, building with many small ones. So large shards are built
as *pieces*, for an engine that builds nothing, and then merged without parsing their rules again.

Every attempt of a task writes files under unique names, and its reports say which. Spark gives the
driver the reports of one attempt per task, so a task that fails and runs again, or runs twice, does
no harm: the driver removes the files that no report names.

Bad input is reported, not raised. Spark would run the task again, and bury the reason.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

import tamis
from tamis.matcher.matcher import Matcher
from tamis.matcher.merge_directories import merge_directories
from tamis.matcher.published.shard_files import hash_shard
from tamis.matcher.write.bad_rules import BadRule
from tamis.spark.index.layout import Place, resolve_place
from tamis.spark.index.places import is_shared, new_folder, read_folder
from tamis.spark.index.quarantine import concat_refused, read_part, select_refused, write_part
from tamis.spark.index.rows import DELETED, ID, RULE, SHARD, RefusedRuleError, add_rows

__all__ = [
    "REPORT",
    "BuildSpec",
    "ParentShard",
    "Problem",
    "Report",
    "build_shards",
    "decode_report",
    "merge_shards",
    "update_shards",
    "write_empty_shard",
]

REPORT: Final = "report binary"
"""The schema of the tasks' output, for Spark: a `Report` in MessagePack."""


class ParentShard(NamedTuple):
    """A shard of the version that an update begins with."""

    path: str
    hash: str
    quarantine: str
    """The file with its refused rules; empty if there are none."""


class BuildSpec(NamedTuple):
    """How to build the shards of a version; the same for all tasks."""

    folder: str
    """Where the version is written, aside: a path or an address."""
    engine: str
    logic: str
    schema: dict[str, str]
    id_type: str
    skip: bool
    """Whether to skip refused rules; otherwise the first one ends the build."""
    sample: bytes
    """Events for statistics as an Arrow stream; empty if there are none."""
    parents: tuple[ParentShard, ...] = ()
    """The shards to update."""

    @property
    def place(self) -> Place:
        """The folder as a path or an address."""
        return resolve_place(self.folder)


class Problem(msgspec.Struct, frozen=True):
    """Why a shard was not built."""

    kind: str
    """``"null"``, ``"duplicate"``, ``"refused"`` or ``"unseen"``."""
    rows: int
    """How many rows have the problem."""
    id: str | int | None = None
    rules: tuple[str | None, ...] = ()
    """The rules of example rows."""
    position: int | None = None
    message: str = ""


class Report(msgspec.Struct, frozen=True):
    """A shard that was built, or the problem that prevented it."""

    shard: int
    name: str = ""
    """Its directory in the version's folder; empty if the parent's shard is unchanged."""
    quarantine: str = ""
    """The file with its refused rules in the same folder; empty if there are none."""
    rules: int = 0
    bytes: int = 0
    hash: str = ""
    problem: Problem | None = None


def decode_report(data: bytes) -> Report:
    """Read a row of a task's output."""
    return msgspec.msgpack.decode(data, type=Report)


def build_shards(spec: BuildSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: build shards from batches that hold all of their rules."""
    for number, rules in _split_by_shard(batches):
        yield _encode_report(_find_problem(spec, number, rules) or _build(spec, number, rules))


def merge_shards(
    spec: BuildSpec, pieces: Sequence[Sequence[Report]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: merge the pieces of the shards whose numbers the batches hold."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _encode_report(_merge(spec, number, pieces[number]))


def update_shards(spec: BuildSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: apply the changes in the batches to copies of the shards."""
    for number, changes in _split_by_shard(batches):
        yield _encode_report(_find_problem(spec, number, changes) or _update(spec, number, changes))


def write_empty_shard(spec: BuildSpec, number: int) -> Report:
    """Write a shard without rules, which no task gets to see."""
    return _save(spec, number, _new_matcher(spec), "")


def _split_by_shard(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return
    table = pa.Table.from_batches(kept)
    numbers, rules = table[SHARD], table.drop_columns([SHARD])
    distinct = sorted(pc.unique(numbers).to_pylist())
    for number in distinct:
        # Usually there is one shard, and its rows need no copy.
        is_whole = len(distinct) == 1
        yield number, rules if is_whole else rules.filter(pc.equal(numbers, number))


def _encode_report(report: Report) -> pa.RecordBatch:
    return pa.record_batch({"report": pa.array([msgspec.msgpack.encode(report)], pa.binary())})


def _find_problem(spec: BuildSpec, number: int, rules: pa.Table) -> Report | None:
    """Report why these rows cannot become a shard; None if they can."""
    if not is_shared(spec.place):
        return Report(number, problem=Problem("unseen", 0, message=platform.node()))
    ids = rules[ID]
    if ids.null_count:
        example = rules.filter(pc.is_null(ids))[RULE][0].as_py()
        return Report(number, problem=Problem("null", ids.null_count, rules=(example,)))
    counts = pc.value_counts(ids)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if not len(repeated):
        return None
    id = repeated.field("values")[0]
    examples = rules.filter(pc.equal(ids, id))[RULE].slice(0, 2).to_pylist()
    rows = pc.sum(repeated.field("counts")).as_py()
    return Report(number, problem=Problem("duplicate", rows, id.as_py(), tuple(examples)))


def _build(spec: BuildSpec, number: int, rules: pa.Table) -> Report:
    matcher = _new_matcher(spec)
    try:
        bad = add_rows(matcher, rules, spec.logic, skip=spec.skip)
    except RefusedRuleError as refused:
        return _report_refused(number, rules, refused.bad)
    if spec.sample:
        matcher.optimize(_read_sample(spec))
    return _save(spec, number, matcher, _write_refused(spec, number, select_refused(rules, bad)))


def _merge(spec: BuildSpec, number: int, pieces: Sequence[Report]) -> Report:
    name = _unique_name(number)
    sample = _read_sample(spec) if spec.sample else None
    with ExitStack() as stack:
        parts = [
            stack.enter_context(read_folder(spec.place / piece.name, piece.hash))
            for piece in pieces
        ]
        folder = stack.enter_context(new_folder(spec.place / name))
        rules = merge_directories(parts, folder, engine=spec.engine, sample=sample)
        report = _report_shard(number, folder, rules)
    refused = [read_part(spec.place / p.quarantine) for p in pieces if p.quarantine]
    quarantine = (
        _write_refused(spec, number, concat_refused(refused, spec.id_type)) if refused else ""
    )
    return replace(report, quarantine=quarantine)


def _update(spec: BuildSpec, number: int, changes: pa.Table) -> Report:
    upserts = changes.filter(pc.invert(changes[DELETED])).drop_columns([DELETED])
    parent = spec.parents[number]
    with new_folder(spec.place / _unique_name(number)) as folder:
        with read_folder(resolve_place(parent.path), parent.hash) as before:
            shutil.copytree(before, folder, dirs_exist_ok=True)
        try:
            rules, bad = _apply_changes(spec, folder, changes, upserts)
        except RefusedRuleError as refused:
            shutil.rmtree(folder)
            return _report_refused(number, upserts, refused.bad)
        if rules is None:
            shutil.rmtree(folder)
        report = Report(number) if rules is None else _report_shard(number, folder, rules)
    all_refused = select_refused(upserts, bad)
    if parent.quarantine:
        earlier = read_part(resolve_place(parent.quarantine))
        is_changed = pc.is_in(earlier[ID], changes[ID].combine_chunks())
        still = earlier.filter(pc.invert(is_changed))
        all_refused = concat_refused([still, all_refused], spec.id_type)
    return replace(report, quarantine=_write_refused(spec, number, all_refused))


def _apply_changes(
    spec: BuildSpec, folder: Path, changes: pa.Table, upserts: pa.Table
) -> tuple[int | None, list[BadRule]]:
    """Change a shard: how many rules it has then, None if nothing changes; and refused rules."""
    deleted = changes.filter(changes[DELETED])[ID].to_pylist()
    # The report is sent after the matcher is closed, when all of the shard is on disk.
    with tamis.open(folder, sync=False) as matcher:
        removed = matcher.remove_many([id for id in deleted if id in matcher])
        bad = add_rows(matcher, upserts, spec.logic, skip=spec.skip, replace=True)
        if not removed + len(upserts) - len(bad):
            return None, bad
        matcher.optimize(_read_sample(spec) if spec.sample else None)
        return len(matcher), bad


def _new_matcher(spec: BuildSpec) -> Matcher:
    return Matcher(spec.engine, spec.logic, spec.schema)


def _read_sample(spec: BuildSpec) -> pa.Table:
    return pa.ipc.open_stream(spec.sample).read_all()


def _unique_name(number: int) -> str:
    return f"shard-{number:04d}-{uuid4().hex[:8]}"


def _save(spec: BuildSpec, number: int, matcher: Matcher, quarantine: str) -> Report:
    with new_folder(spec.place / _unique_name(number)) as folder, matcher:
        matcher.save(folder)
        report = _report_shard(number, folder, len(matcher))
    return replace(report, quarantine=quarantine)


def _report_shard(number: int, folder: Path, rules: int) -> Report:
    size, digest = hash_shard(folder)
    return Report(number, folder.name, "", rules, size, digest)


def _report_refused(number: int, rules: pa.Table, bad: BadRule) -> Report:
    texts = rules.filter(pc.equal(rules[ID], pa.scalar(bad.id, rules[ID].type)))[RULE]
    return Report(
        number,
        problem=Problem("refused", 1, bad.id, (texts[0].as_py(),), bad.position, bad.message),
    )


def _write_refused(spec: BuildSpec, number: int, refused: pa.Table) -> str:
    """Write refused rules, if there are any, and return the name of the file."""
    if not len(refused):
        return ""
    name = f"{_unique_name(number)}.parquet"
    write_part(spec.place / name, spec.id_type, refused)
    return name
