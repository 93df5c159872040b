"""A table of rules → a published version."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from tamis.engines.registry import load_engine
from tamis.errors import DuplicateRuleError, RuleError, RuleSyntaxError, StorageError
from tamis.expr.model import LOGICS, check_logic
from tamis.matcher.schema import Schema
from tamis.spark.index.rows import ID, LOGIC, PAYLOAD, RULE, TAGS, WEIGHTS
from tamis.spark.index.shards import (
    DELETED,
    REPORT,
    SHARD,
    Plan,
    Problem,
    Report,
    build_shards,
    empty_shard,
    merge_shards,
    update_shards,
    write_quarantine,
)
from tamis.spark.index.versions import (
    QUARANTINE,
    Draft,
    PathLike,
    Shard,
    Version,
    current,
    publish,
)

__all__ = ["build", "update"]

OnError = Literal["quarantine", "raise"]

_RULES_A_SHARD: Final = 2_000_000
"""How many rules a shard has at most, unless somebody says how many shards there are to be.

Each shard is one more call of the engine, and one more encoding, for each batch of events; but a
task has to hold a shard in memory to build it: docs/decisions/0008-shards-from-pieces.md.
"""

_RULES_A_PIECE: Final = 250_000
"""How many rules are parsed by a task."""

_UNINDEXED: Final = "scan"
"""The engine of pieces."""

_SAMPLE: Final = 10_000
"""How many events of a sample are looked at."""

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def build(
    rules: DataFrame,
    path: PathLike,
    *,
    id: str = "id",
    rule: str = "rule",
    logic: str | None = None,
    weights: str | None = None,
    payload: str | None = None,
    tags: str | None = None,
    default_logic: str = "strong",
    schema: Mapping[str, str] | None = None,
    engine: str = "auto",
    shards: int | None = None,
    sample: DataFrame | None = None,
    on_error: OnError = "quarantine",
) -> Version:
    """Build an index of a table of rules, and publish it as a new version.

    Tasks parse and build in parallel, a quarter of a million rules each. The version in force stays
    in force until the new one is complete, and is kept after that.

    Parameters
    ----------
    rules
        A row for each rule.
    path
        The folder of the index, which the driver and all executors see under this path. It is made
        if there is none.
    id
        The column with the ids, which are strings or integers: none of them null, none twice.
    rule
        The column with the rules, as texts or in the JSON form.
    logic
        A column with each rule's own logic; where it is null, `default_logic` holds.
    weights
        A column with what each rule weighs: JSON, ``[["author", "Smith", 2.0], …]``.
    payload
        A column of any JSON to keep with each rule.
    tags
        A column with an array of strings.
    default_logic
        The logic of rules that do not name their own: ``"strong"`` or ``"weak"``.
    schema, engine
        As in :class:`tamis.Matcher`.
    shards
        Into how many parts the rules go, by a hash of their ids: by default one for each two
        million, since matching is faster with few. The rows are counted first, so a table that is
        costly to compute should be cached.
    sample
        Events like those to come: the engine may put the rules in an order that is good for them.
    on_error
        ``"quarantine"`` leaves out rules that are refused, and keeps them with the reasons in a
        table beside the shards; see :attr:`Version.quarantine`. ``"raise"`` publishes nothing if
        one is refused.

    Returns
    -------
    Version
        The new version, which is in force now.

    Raises
    ------
    RuleError
        The table lacks a column, one of them is of a wrong type, ids are null or taken twice, or,
        with ``on_error="raise"``, a rule is refused.
    LockedError
        Somebody else is building there.
    StorageError
        The path holds something else, cannot be written, or is not the same everywhere.
    """
    columns = {ID: id, RULE: rule, LOGIC: logic, WEIGHTS: weights, PAYLOAD: payload, TAGS: tags}
    chosen, id_type = _chosen(rules, columns, "rules")
    _check_on_error(on_error)
    if shards is not None:
        _check_shards(shards)
    name, types = load_engine(engine).name, Schema(schema or {}).types
    check_logic(default_logic)
    events = _sampled(sample)

    def write(folder: Path, _: Version | None) -> Draft:
        plan = Plan(
            str(folder), name, default_logic, types, id_type, on_error == "quarantine", events
        )
        reports = _built(plan, chosen, shards, columns)
        made = tuple(_shard(folder, report) for report in reports)
        bad = _gather_quarantine(plan, {r.shard: r.quarantine for r in reports}, {})
        return Draft(made, bad, default_logic, name, types, id_type, _told(columns))

    return publish(path, write)


def update(
    path: PathLike,
    changes: DataFrame,
    *,
    id: str = "id",
    rule: str = "rule",
    delete: str | None = "deleted",
    logic: str | None = None,
    weights: str | None = None,
    payload: str | None = None,
    tags: str | None = None,
    sample: DataFrame | None = None,
    on_error: OnError = "quarantine",
) -> Version:
    """Publish a version that differs from the one in force by these changes.

    Only the shards that hold changed ids are made anew, from the shards themselves: rules that
    did not change are not parsed again. The other shards belong to both versions.

    Parameters
    ----------
    path
        A published index.
    changes
        A row for each rule that is new, changed or gone.
    id, rule, logic, weights, payload, tags
        The columns, as in :func:`build`. A rule replaces all of the one with its id.
    delete
        A column of booleans: whether the rule is gone. Ids that are not there are no error. None
        if there is no such column, and none is gone.
    sample
        As in :func:`build`.
    on_error
        ``"quarantine"`` leaves out changes whose rules are refused: a rule that was there stays as
        it was. ``"raise"`` publishes nothing if one is refused.

    Returns
    -------
    Version
        The new version. Its quarantine holds the rules refused now, and those refused before whose
        ids are not among the changes.

    Raises
    ------
    RuleError, LockedError, StorageError
        As in :func:`build`; there has to be a version in force.
    """
    columns = {ID: id, RULE: rule, LOGIC: logic, WEIGHTS: weights, PAYLOAD: payload, TAGS: tags}
    in_force = current(path)
    chosen, id_type = _chosen(changes, {**columns, DELETED: delete}, "changes")
    _check_same_ids(id, id_type, in_force)
    _check_on_error(on_error)
    events = _sampled(sample)

    def write(folder: Path, parent: Version | None) -> Draft:
        assert parent is not None
        # Somebody may have published another one since.
        _check_same_ids(id, id_type, parent)
        old_parts = dict(_parts(parent))
        plan = Plan(
            str(folder),
            parent.engine,
            parent.logic,
            parent.schema,
            id_type,
            on_error == "quarantine",
            events,
            tuple((str(s.path), old_parts.get(n, "")) for n, s in enumerate(parent.shards)),
        )
        reports = _run(plan, chosen, len(parent.shards), update_shards, columns)
        made = tuple(
            _shard(folder, reports[n]) if n in reports and reports[n].name else shard
            for n, shard in enumerate(parent.shards)
        )
        kept = {n: part for n, part in old_parts.items() if n not in reports}
        bad = _gather_quarantine(plan, {n: r.quarantine for n, r in reports.items()}, kept)
        return Draft(made, bad, parent.logic, parent.engine, parent.schema, id_type, _told(columns))

    return publish(path, write)


def _check_on_error(on_error: str) -> None:
    if on_error not in ("quarantine", "raise"):
        raise ValueError(f"on_error is 'quarantine' or 'raise', not {on_error!r}")


def _check_same_ids(column: str, id_type: str, version: Version) -> None:
    if id_type != version.id_type:
        raise RuleError(
            f"the column {column!r} holds ids of type {id_type}, and those of version "
            f"{version.number} are of type {version.id_type}; cast it"
        )


def _check_shards(shards: int) -> None:
    if not isinstance(shards, int) or isinstance(shards, bool) or shards < 1:
        raise ValueError(f"shards is how many shards to make, at least 1, not {shards!r}")


# --- The table ---


def _chosen(
    table: DataFrame, columns: Mapping[str, str | None], what: str
) -> tuple[DataFrame, str]:
    """The columns that are named, under our own names, and the type of the ids."""
    types = {field.name: field.dataType for field in table.schema.fields}
    for role, name in columns.items():
        if name is not None and name not in types:
            raise RuleError(_missing(role, name, list(types), what))
    named = {role: name for role, name in columns.items() if name is not None}
    for role, name in named.items():
        _check_type(role, name, types[name], what)
    id_type = "string" if isinstance(types[named[ID]], StringType) else "long"
    selected = [_expression(role, name, id_type).alias(role) for role, name in named.items()]
    if DELETED in columns and DELETED not in named:
        selected.append(F.lit(False).alias(DELETED))
    return table.select(*selected), id_type


def _missing(role: str, name: str, there: list[str], what: str) -> str:
    message = f"the table of {what} has no column {name!r}; it has {', '.join(there) or 'none'}"
    if role == LOGIC and name in LOGICS:
        return f"{message}. For a logic that all rules have, write default_logic={name!r}"
    if role == DELETED:
        return f"{message}. If no rule is to be deleted, write delete=None"
    return f"{message}; say which it is with {role}="


def _check_type(role: str, name: str, found: DataType, what: str) -> None:
    match role:
        case "id":
            fits, wanted = isinstance(found, (StringType, *_INTEGERS)), "a string or an integer"
        case "tags":
            inner = found.elementType if isinstance(found, ArrayType) else None
            fits, wanted = isinstance(inner, StringType), "an array of strings"
        case "deleted":
            fits, wanted = isinstance(found, BooleanType), "a boolean"
        case _:
            fits = isinstance(found, StringType)
            wanted = "a string; to_json() makes one of a struct, a map or a variant"
    if not fits:
        raise RuleError(
            f"the column {name!r} of the table of {what} is of type {found.simpleString()}; "
            f"{role} has to be {wanted}"
        )


def _expression(role: str, name: str, id_type: str) -> Any:
    # Backticks, so that a dot belongs to the name.
    column = F.col("`" + name.replace("`", "``") + "`")
    if role == ID:
        return column.cast(id_type)
    return F.coalesce(column, F.lit(False)) if role == DELETED else column


def _sampled(sample: DataFrame | None) -> bytes:
    """Some events as an Arrow stream."""
    if sample is None:
        return b""
    events = sample.limit(_SAMPLE).toArrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_table(events)
    return bytes(sink.getvalue())


def _told(columns: Mapping[str, str | None]) -> dict[str, Any]:
    """What the manifest says about the table."""
    return {"columns": {role: name for role, name in columns.items() if name is not None}}


# --- The jobs ---


def _built(
    plan: Plan, table: DataFrame, shards: int | None, columns: Mapping[str, str | None]
) -> list[Report]:
    """Have all shards built: at once, or in pieces that are merged."""
    rows = table.count()
    count = shards or max(1, _ceil(rows, _RULES_A_SHARD))
    pieces = max(1, _ceil(rows, count * _RULES_A_PIECE))
    first = plan if pieces == 1 else plan._replace(engine=_UNINDEXED, sample=b"")
    # Pieces divide shards: what has the number p modulo count·pieces has p modulo count.
    reports = _run(first, table, count * pieces, build_shards, columns)
    made = [reports.get(n) or empty_shard(first, n) for n in range(count * pieces)]
    if pieces == 1:
        return made
    work = partial(merge_shards, plan, [made[shard::count] for shard in range(count)])
    numbers = table.sparkSession.range(0, count, 1, count)
    merged = _collected(plan, numbers.mapInArrow(work, REPORT))
    return [merged[number] for number in range(count)]


def _ceil(rows: int, size: int) -> int:
    return -(-rows // size)


def _run(
    plan: Plan,
    table: DataFrame,
    count: int,
    work: Callable[[Plan, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: Mapping[str, str | None],
) -> dict[int, Report]:
    """Have executors do `work` for each of `count` shards, and collect what they report."""
    # Spark puts a row into the partition that has the same number as its shard.
    numbered = table.withColumn(SHARD, F.pmod(F.hash(F.col(ID)), F.lit(count)))
    done = numbered.repartition(count, F.col(ID)).mapInArrow(partial(work, plan), REPORT)
    return _collected(plan, done, columns)


def _collected(
    plan: Plan, done: DataFrame, columns: Mapping[str, str | None] | None = None
) -> dict[int, Report]:
    """The reports of all tasks by shard; those that tell of a problem raise."""
    reports = [msgspec.msgpack.decode(row["report"], type=Report) for row in done.collect()]
    _raise_problems([report.problem for report in reports if report.problem], plan, columns or {})
    by_shard = {report.shard: report for report in reports}
    assert len(by_shard) == len(reports), "the rows of a shard came to several tasks"
    for report in reports:
        if report.name and not Path(plan.folder, report.name).is_dir():
            _refuse_path(plan, "an executor")
    _remove_unnamed(plan, reports)
    return by_shard


def _raise_problems(problems: list[Problem], plan: Plan, columns: Mapping[str, str | None]) -> None:
    """Raise an error about the table, if there is one, with an example."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.kind, []).append(problem)
    rows = {kind: sum(problem.rows for problem in some) for kind, some in kinds.items()}
    if "unseen" in kinds:
        _refuse_path(plan, f"an executor on {kinds['unseen'][0].message}")
    if "null" in kinds:
        raise RuleError(
            f"the column {columns[ID]!r} is null in {_rows(rows['null'])}, "
            f"for example in that of the rule {kinds['null'][0].rules[0]!r}"
        )
    if "duplicate" in kinds:
        example = kinds["duplicate"][0]
        raise DuplicateRuleError(
            f"the column {columns[ID]!r} is to name each rule once, but "
            f"{_rows(rows['duplicate'])} share an id with another, for example the rules "
            f"{' and '.join(map(repr, example.rules))}",
            rule_id=example.id,
        )
    for problem in kinds.get("refused", [])[:1]:
        _raise_refused(problem)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _raise_refused(problem: Problem) -> NoReturn:
    text = problem.rules[0]
    if text is None or problem.position is None:
        raise RuleError(f"{problem.message} (in {text!r})", rule_id=problem.id)
    raise RuleSyntaxError(problem.message, text=text, position=problem.position, rule_id=problem.id)


def _refuse_path(plan: Plan, who: str) -> NoReturn:
    raise StorageError(
        f"the driver and {who} do not see the same files under this path; "
        "name one on a file system that all machines share",
        path=str(Path(plan.folder).parents[1]),
    )


def _remove_unnamed(plan: Plan, reports: Iterable[Report]) -> None:
    """Remove what attempts wrote that do not count."""
    named = {name for report in reports for name in (report.name, report.quarantine)}
    for entry in list(Path(plan.folder).iterdir()):
        if entry.name in named:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


# --- What becomes of it ---


def _shard(folder: Path, report: Report) -> Shard:
    # The name that counts has no part of chance in it.
    path = folder / f"shard-{report.shard:04d}"
    (folder / report.name).rename(path)
    return Shard(path, report.rules, report.bytes, report.hash)


def _parts(version: Version) -> Iterator[tuple[int, str]]:
    """The files of a version's quarantine that have rows, by shard."""
    for number in range(len(version.shards)):
        part = version.quarantine / _part_name(number)
        if part.exists():
            yield number, str(part)


def _part_name(number: int) -> str:
    return f"part-{number:04d}.parquet"


def _gather_quarantine(plan: Plan, new: Mapping[int, str], kept: Mapping[int, str]) -> int:
    """Put the refused rules of all shards in one folder, and count them."""
    folder = Path(plan.folder, QUARANTINE)
    folder.mkdir()
    for number, name in new.items():
        if name:
            Path(plan.folder, name).rename(folder / _part_name(number))
    for number, part in kept.items():
        # A hard link would do, but not on every file system; these files are small.
        copy = folder / _part_name(number)
        shutil.copyfile(part, copy)
        _sync(copy)
    rows = sum(int(pq.read_metadata(file).num_rows) for file in folder.iterdir())
    if not rows:
        # Whoever reads the folder finds its columns.
        write_quarantine(folder / "part-none.parquet", plan.id_type)
    return rows


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
