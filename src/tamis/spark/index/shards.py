"""What executors do for a build or an update: shards on the shared path, and a report of each.

Matching is faster with few large shards, building with many small ones. So large shards are built
as *pieces*, for an engine that builds nothing, and merged without being parsed again.

An attempt of a task writes under names of its own, and says in its report what they are. Spark
hands the driver the reports of one attempt a task, so a task that was tried again or run twice
does no harm: what the driver does not hear of is removed with the version's folder aside, or by
the next builder. Nothing is raised for bad input, since Spark would try the task again and bury
the reason: it is in the report.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tamis
from tamis.matcher.matcher import Matcher
from tamis.matcher.merge_directories import join
from tamis.matcher.storage.atomic import write_aside
from tamis.matcher.storage.store import LOCK
from tamis.matcher.write.builder import BadRule
from tamis.spark.index.rows import ID, RULE, Refused, add_rules

__all__ = [
    "DELETED",
    "REPORT",
    "SHARD",
    "Plan",
    "Problem",
    "Report",
    "build_shards",
    "empty_shard",
    "merge_shards",
    "update_shards",
    "write_quarantine",
]

SHARD: Final = "shard"
DELETED: Final = "deleted"
REPORT: Final = "report binary"
"""The schema of what tasks return, for Spark: a `Report` in MessagePack."""

_PIECE = 1 << 22
"""How many bytes are hashed at a time."""

_ID_TYPES: Final = {"string": pa.string(), "long": pa.int64()}


class Plan(NamedTuple):
    """What every task is told."""

    folder: str
    """Where the version is written, aside."""
    engine: str
    logic: str
    schema: dict[str, str]
    id_type: str
    skip: bool
    """Whether refused rules are skipped; otherwise the first of them is the end."""
    sample: bytes
    """Events for statistics as an Arrow stream; empty if there are none."""
    parents: tuple[tuple[str, str], ...] = ()
    """Of an update, for each shard: its directory, and its part of the quarantine."""


class Problem(msgspec.Struct, frozen=True):
    """Why a shard was not built."""

    kind: str
    """``"null"``, ``"duplicate"``, ``"refused"`` or ``"unseen"``."""
    rows: int
    """How many rows there are of the kind."""
    id: str | int | None = None
    rules: tuple[str | None, ...] = ()
    """Rules of example rows."""
    position: int | None = None
    message: str = ""


class Report(msgspec.Struct, frozen=True):
    """What became of a shard."""

    shard: int
    name: str = ""
    """Its directory in the version's folder; empty if the parent's is as good."""
    quarantine: str = ""
    """The file with its refused rules, there too; empty if there are none."""
    rules: int = 0
    bytes: int = 0
    hash: str = ""
    problem: Problem | None = None


def build_shards(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: build the shards whose rules these batches hold, all of them here."""
    for number, rules in _by_shard(batches):
        yield _reported(_refusal(plan, number, rules) or _built(plan, number, rules))


def merge_shards(
    plan: Plan, pieces: Sequence[Sequence[Report]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: make the shards whose numbers these batches hold out of their pieces."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _reported(_merged(plan, number, pieces[number]))


def update_shards(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: make the changes that these batches hold to copies of the shards."""
    for number, changes in _by_shard(batches):
        yield _reported(_refusal(plan, number, changes) or _updated(plan, number, changes))


def empty_shard(plan: Plan, number: int) -> Report:
    """Write a shard without rules: no task hears of a shard that no rule belongs to."""
    return _saved(plan, number, _matcher(plan), "")


def write_quarantine(path: Path, id_type: str, refused: pa.Table | None = None) -> None:
    """Write a table of refused rules; without one, a table without rows."""
    schema = pa.schema(
        [
            (ID, _ID_TYPES[id_type]),
            (RULE, pa.string()),
            ("position", pa.int64()),
            ("message", pa.string()),
        ]
    )
    content = BytesIO()
    pq.write_table(schema.empty_table() if refused is None else refused.cast(schema), content)
    write_aside(path, [content.getbuffer()])


def _by_shard(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return
    table = pa.Table.from_batches(kept)
    numbers, rules = table[SHARD], table.drop_columns([SHARD])
    distinct = sorted(pc.unique(numbers).to_pylist())
    for number in distinct:
        # As a rule there is one, and nothing to be copied.
        whole = len(distinct) == 1
        yield number, rules if whole else rules.filter(pc.equal(numbers, number))


def _reported(report: Report) -> pa.RecordBatch:
    return pa.record_batch({"report": pa.array([msgspec.msgpack.encode(report)], pa.binary())})


def _refusal(plan: Plan, number: int, rules: pa.Table) -> Report | None:
    """Why these rows cannot be a shard, if so."""
    if not Path(plan.folder).is_dir():
        return Report(number, problem=Problem("unseen", 0, message=platform.node()))
    ids = rules[ID]
    if ids.null_count:
        example = rules.filter(pc.is_null(ids))[RULE][0].as_py()
        return Report(number, problem=Problem("null", ids.null_count, rules=(example,)))
    counts = pc.value_counts(ids)
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    if not len(several):
        return None
    id = several.field("values")[0]
    examples = rules.filter(pc.equal(ids, id))[RULE].slice(0, 2).to_pylist()
    rows = pc.sum(several.field("counts")).as_py()
    return Report(number, problem=Problem("duplicate", rows, id.as_py(), tuple(examples)))


def _built(plan: Plan, number: int, rules: pa.Table) -> Report:
    matcher = _matcher(plan)
    try:
        bad = add_rules(matcher, rules, plan.logic, skip=plan.skip)
    except Refused as refused:
        return _refused_report(number, rules, refused.bad)
    if plan.sample:
        matcher.optimize(_sample(plan))
    return _saved(plan, number, matcher, _put_aside(plan, number, _with_rules(rules, bad)))


def _merged(plan: Plan, number: int, pieces: Sequence[Report]) -> Report:
    folder = Path(plan.folder, _new_name(number))
    sample = _sample(plan) if plan.sample else None
    parts = [Path(plan.folder, piece.name) for piece in pieces]
    rules = join(parts, folder, engine=plan.engine, sample=sample)
    refused = [pq.read_table(Path(plan.folder, p.quarantine)) for p in pieces if p.quarantine]
    part = _put_aside(plan, number, pa.concat_tables(refused)) if refused else ""
    return _report(number, folder, rules, part)


def _updated(plan: Plan, number: int, changes: pa.Table) -> Report:
    is_deleted = changes[DELETED]
    deleted = changes.filter(is_deleted)[ID].to_pylist()
    upserts = changes.filter(pc.invert(is_deleted)).drop_columns([DELETED])
    shard, quarantine = plan.parents[number]
    name = _new_name(number)
    folder = Path(plan.folder, name)
    shutil.copytree(shard, folder)
    # The driver hears of the shard when all of it is closed, and so on the disk.
    with tamis.open(folder, sync=False) as matcher:
        removed = matcher.remove_many([id for id in deleted if id in matcher])
        try:
            bad = add_rules(matcher, upserts, plan.logic, skip=plan.skip, replace=True)
        except Refused as refused:
            return _refused_report(number, upserts, refused.bad)
        changed = removed + len(upserts) - len(bad)
        if changed:
            matcher.optimize(_sample(plan) if plan.sample else None)
        rules = len(matcher)
    refused_now = _with_rules(upserts, bad)
    if quarantine:
        before = pq.read_table(quarantine)
        still = before.filter(pc.invert(pc.is_in(before[ID], changes[ID].combine_chunks())))
        refused_now = pa.concat_tables([still, refused_now.cast(still.schema)])
    part = _put_aside(plan, number, refused_now)
    if not changed:
        shutil.rmtree(folder)
        return Report(number, quarantine=part)
    return _report(number, folder, rules, part)


def _matcher(plan: Plan) -> Matcher:
    return Matcher(plan.engine, plan.logic, plan.schema, documents=False)


def _sample(plan: Plan) -> pa.Table:
    return pa.ipc.open_stream(plan.sample).read_all()


def _new_name(number: int) -> str:
    return f"shard-{number:04d}-{uuid4().hex[:8]}"


def _saved(plan: Plan, number: int, matcher: Matcher, quarantine: str) -> Report:
    folder = Path(plan.folder, _new_name(number))
    with matcher:
        matcher.save(folder)
        return _report(number, folder, len(matcher), quarantine)


def _report(number: int, folder: Path, rules: int, quarantine: str) -> Report:
    size, digest = 0, blake2b(digest_size=16)
    for file in sorted(folder.iterdir()):
        # It says who had the shard open last.
        if file.name == LOCK:
            continue
        digest.update(file.name.encode() + b"\0")
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                size += len(piece)
                digest.update(piece)
    return Report(number, folder.name, quarantine, rules, size, digest.hexdigest())


def _refused_report(number: int, rules: pa.Table, bad: BadRule) -> Report:
    texts = rules.filter(pc.equal(rules[ID], pa.scalar(bad.id, rules[ID].type)))[RULE]
    return Report(
        number,
        problem=Problem("refused", 1, bad.id, (texts[0].as_py(),), bad.position, bad.message),
    )


def _with_rules(rules: pa.Table, bad: list[BadRule]) -> pa.Table:
    """The refused among `rules`, with the reasons."""
    order = {each.id: each for each in bad}
    ids = pa.array(list(order), rules[ID].type)
    refused = rules.filter(pc.is_in(rules[ID], ids)).select([ID, RULE])
    why = [order[id] for id in refused[ID].to_pylist()]
    return refused.append_column(
        "position", pa.array([each.position for each in why], pa.int64())
    ).append_column("message", pa.array([each.message for each in why], pa.string()))


def _put_aside(plan: Plan, number: int, refused: pa.Table) -> str:
    """Write refused rules, if there are any, and return the name of the file."""
    if not len(refused):
        return ""
    name = f"{_new_name(number)}.parquet"
    write_quarantine(Path(plan.folder, name), plan.id_type, refused)
    return name
