"""Build an index from a table of rules, and update it from a table of changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame

from tamis.engines.registry import load_engine
from tamis.errors import RuleError
from tamis.expr.model import check_logic
from tamis.matcher.rule import OPTIONAL_FIELDS
from tamis.matcher.schema import Schema
from tamis.spark.index.jobs import run_build, run_update
from tamis.spark.index.layout import Draft, PathLike, Place, Shard, Version
from tamis.spark.index.publish import publish
from tamis.spark.index.quarantine import gather_quarantine, list_parts, show_examples
from tamis.spark.index.rows import DELETED, ID, RULE
from tamis.spark.index.rules_table import (
    ColumnName,
    Columns,
    encode_sample,
    find_columns,
    select_columns,
)
from tamis.spark.index.shards import BuildSpec, ParentShard, Report
from tamis.spark.index.versions import current

__all__ = ["build", "update"]

OnError = Literal["quarantine", "raise"]


def build(
    rules: DataFrame,
    path: PathLike,
    *,
    id: str = "id",
    rule: str = "rule",
    logic: ColumnName = ...,
    weights: ColumnName = ...,
    payload: ColumnName = ...,
    tags: ColumnName = ...,
    priority: ColumnName = ...,
    valid_from: ColumnName = ...,
    valid_until: ColumnName = ...,
    subscription: ColumnName = ...,
    default_logic: str = "strong",
    schema: Mapping[str, str] | None = None,
    engine: str = "auto",
    shards: int | None = None,
    sample: DataFrame | None = None,
    on_error: OnError = "quarantine",
    max_bad: float | None = None,
    source: Mapping[str, Any] | None = None,
) -> Version:
    """Build an index from a table of rules, and publish it as a new version.

    Tasks parse and build in parallel, a quarter of a million rules each. The current version stays
    current until the new one is complete, and is kept after that.

    Parameters
    ----------
    rules
        One row per rule.
    path
        The folder of the index, created if it does not exist, which the driver and all executors
        see under this path; or an address in a bucket: ``"s3://bucket/index"``.
    id
        The column with the ids: strings or integers, unique and not null.
    rule
        The column with the rules, as text or in the JSON form.
    logic
        A column with the logic of each rule; where it is null, `default_logic` applies. This and
        the columns below are by default those of the same names, as far as the table has them;
        None leaves a column out.
    weights
        A column with the weights of each rule as JSON, ``[["author", "Smith", 2.0], …]``.
    payload
        A column of any JSON to keep with each rule.
    tags
        A column of arrays of strings.
    priority
        A column of integers, for :func:`first`.
    valid_from, valid_until
        Columns of timestamps, dates or ISO texts: when each rule begins and ends. A time without a
        zone is in UTC, and a date is its midnight.
    subscription
        A column with the subscription that each rule belongs to.
    default_logic
        The logic of rules that do not name their own: ``"strong"`` or ``"weak"``.
    schema, engine
        As in :class:`tamis.Matcher`.
    shards
        How many shards to divide the rules into, by a hash of their ids. By default one for each
        two million rules, since matching is faster with few. Tamis then counts the rows first, so
        cache a table that is costly to compute.
    sample
        Events like those to come. The engine may order the rules to suit them.
    on_error
        ``"quarantine"`` leaves out rules that are refused, and writes them with the reasons to a
        table beside the shards; see :attr:`Version.quarantine`. ``"raise"`` publishes nothing if
        a rule is refused.
    max_bad
        How many rules may be refused, or which share of them if it is a float, such as 0.01; if
        there are more, nothing is published. By default a version without a single rule is not
        published if rules were refused; ``1.0`` publishes even that.
    source
        Where the rules come from, as JSON to keep in ``Version.parameters["source"]``;
        :func:`follow` uses it.

    Returns
    -------
    Version
        The new version, which is now current.

    Raises
    ------
    RuleError
        The table lacks a column, a column has the wrong type, ids are null or not unique, more
        rules are refused than `max_bad` allows, or, with ``on_error="raise"``, one is.
    LockedError
        Another process is building there. In a bucket both build, and the one that ends first
        wins: the version of the other is kept, but is not current.
    StorageError
        The path holds something else, cannot be written, or is not the same on all machines.
    """
    named = (logic, weights, payload, tags, priority, valid_from, valid_until, subscription)
    columns = _name_columns(rules, id, rule, named)
    table, id_type = select_columns(rules, columns, "rules")
    _check_on_error(on_error)
    check_max_bad(max_bad)
    if shards is not None:
        _check_shards(shards)
    engine_name, types = load_engine(engine).name, Schema(schema or {}).types
    check_logic(default_logic)
    events, count = encode_sample(sample), shards

    def write(folder: Place, _: Version | None) -> Draft:
        skip = on_error == "quarantine"
        spec = BuildSpec(
            os.fspath(folder), engine_name, default_logic, types, id_type, skip, events
        )
        reports = run_build(spec, table, count, id)
        bad = gather_quarantine(folder, id_type, {r.shard: r.quarantine for r in reports}, {})
        shards = tuple(_name_shard(folder, report) for report in reports)
        return _make_draft(spec, shards, bad, columns, max_bad, source)

    return publish(path, write)


def update(
    path: PathLike,
    changes: DataFrame,
    *,
    id: str = "id",
    rule: str = "rule",
    delete: str | None = "deleted",
    logic: ColumnName = ...,
    weights: ColumnName = ...,
    payload: ColumnName = ...,
    tags: ColumnName = ...,
    priority: ColumnName = ...,
    valid_from: ColumnName = ...,
    valid_until: ColumnName = ...,
    subscription: ColumnName = ...,
    sample: DataFrame | None = None,
    on_error: OnError = "quarantine",
    max_bad: float | None = None,
    source: Mapping[str, Any] | None = None,
) -> Version:
    """Publish a new version: the current one with these changes.

    Only shards with changed ids are built, from copies of the current ones, so unchanged rules are
    not parsed again. Both versions share the other shards.

    Parameters
    ----------
    path
        A published index.
    changes
        One row per rule that is new, changed or deleted.
    id, rule, logic, weights, payload, tags, priority, valid_from, valid_until, subscription
        The columns, as in :func:`build`. A row replaces everything about the rule with its id.
    delete
        A column of booleans: whether to delete the rule. Deleting an unknown id is not an error.
        None if the table has no such column, and no rule is deleted.
    sample, source
        As in :func:`build`.
    on_error
        ``"quarantine"`` leaves out changes whose rules are refused: an existing rule stays as it
        was. ``"raise"`` publishes nothing if a rule is refused.
    max_bad
        As in :func:`build`, of all rules of the new version and its quarantine.

    Returns
    -------
    Version
        The new version. Its quarantine has the rules refused now, and those refused earlier whose
        ids are not among the changes.

    Raises
    ------
    RuleError, LockedError, StorageError
        As in :func:`build`; also if there is no current version.
    """
    named = (logic, weights, payload, tags, priority, valid_from, valid_until, subscription)
    columns = _name_columns(changes, id, rule, named)
    latest = current(path)
    table, id_type = select_columns(changes, {**columns, DELETED: delete}, "changes")
    _check_same_ids(id, id_type, latest)
    _check_on_error(on_error)
    check_max_bad(max_bad)
    events = encode_sample(sample)

    def write(folder: Place, parent: Version | None) -> Draft:
        assert parent is not None
        # Another process may have published a version since `current` was read.
        _check_same_ids(id, id_type, parent)
        old_parts = dict(list_parts(parent))
        spec = BuildSpec(
            os.fspath(folder),
            parent.engine,
            parent.logic,
            parent.schema,
            id_type,
            on_error == "quarantine",
            events,
            tuple(
                ParentShard(os.fspath(shard.path), shard.hash, old_parts.get(n, ""))
                for n, shard in enumerate(parent.shards)
            ),
        )
        reports = run_update(spec, table, len(parent.shards), id)
        shards = tuple(
            _name_shard(folder, reports[n]) if n in reports and reports[n].name else shard
            for n, shard in enumerate(parent.shards)
        )
        new = {n: report.quarantine for n, report in reports.items()}
        kept = {n: part for n, part in old_parts.items() if n not in reports}
        bad = gather_quarantine(folder, id_type, new, kept)
        return _make_draft(spec, shards, bad, columns, max_bad, source)

    return publish(path, write, "apply the changes again, to the version that is current now")


def _name_columns(table: DataFrame, id: str, rule: str, optional: Sequence[ColumnName]) -> Columns:
    """The columns of a table of rules; `optional` are those of `OPTIONAL_FIELDS`."""
    return find_columns(
        table, {ID: id, RULE: rule, **dict(zip(OPTIONAL_FIELDS, optional, strict=True))}
    )


def _check_on_error(on_error: str) -> None:
    if on_error not in ("quarantine", "raise"):
        raise ValueError(f"on_error is 'quarantine' or 'raise', not {on_error!r}")


def _check_shards(shards: int) -> None:
    if not isinstance(shards, int) or isinstance(shards, bool) or shards < 1:
        raise ValueError(f"shards is how many shards to build, at least 1, not {shards!r}")


def _check_same_ids(column: str, id_type: str, version: Version) -> None:
    if id_type != version.id_type:
        raise RuleError(
            f"the column {column!r} has ids of type {id_type}, but those of version "
            f"{version.number} are of type {version.id_type}; cast it"
        )


def _name_shard(folder: Place, report: Report) -> Shard:
    """Replace the unique name that a task chose by the shard's own; in a bucket it stays."""
    path = folder / report.name
    if isinstance(path, Path):
        path = path.rename(path.with_name(f"shard-{report.shard:04d}"))
    return Shard(path, report.rules, report.bytes, report.hash)


def _make_draft(
    spec: BuildSpec,
    shards: tuple[Shard, ...],
    bad: int,
    columns: Columns,
    max_bad: float | None,
    source: Mapping[str, Any] | None,
) -> Draft:
    rules = sum(shard.rules for shard in shards)
    if exceeds(max_bad, bad, rules):
        allowed = "" if max_bad is None else f"max_bad={max_bad!r} allows fewer; "
        raise RuleError(
            f"{bad:,} of {rules + bad:,} rules are refused, so nothing is published; {allowed}"
            f"for example {show_examples(spec.place)}"
        )
    named: dict[str, Any] = {role: name for role, name in columns.items() if name is not None}
    parameters = {"columns": named, **({} if source is None else {"source": dict(source)})}
    return Draft(shards, bad, spec.logic, spec.engine, spec.schema, spec.id_type, parameters)


def check_max_bad(max_bad: float | None) -> None:
    """Check the argument `max_bad` of functions that have it."""
    if max_bad is None:
        return
    is_number = isinstance(max_bad, int | float) and not isinstance(max_bad, bool)
    if not is_number or max_bad < 0 or (isinstance(max_bad, float) and max_bad > 1):
        raise ValueError(
            f"max_bad is a number of rules, or a share of them from 0.0 to 1.0, not {max_bad!r}"
        )


def exceeds(max_bad: float | None, bad: int, rules: int) -> bool:
    """Whether more rules were refused than may be, of `bad` refused ones and `rules` others."""
    if max_bad is None:
        return bad > 0 and rules == 0
    return bad > (max_bad * (bad + rules) if isinstance(max_bad, float) else max_bad)
