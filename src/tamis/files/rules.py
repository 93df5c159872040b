"""Rules from a file.

A line of JSON lines is an object with an ``id``, a ``rule`` (as text or in the JSON form) and, if
need be, ``logic``, ``weights``, ``payload``, ``tags``, ``priority``, ``valid_from`` and
``valid_until``, times in the ISO form. CSV has the columns id, rule and, if need be, logic,
priority, valid_from and valid_until; all are texts. Parquet has them too, with times as texts or
timestamps, and may have a list of tags.

How weights are written is told in :func:`tamis.matcher.rule.read_weights`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow.parquet as pq

from tamis.errors import (
    DuplicateRuleError,
    InputFileError,
    RuleError,
    RuleSyntaxError,
    UnknownRuleError,
)
from tamis.files.jsonlines import object_blocks
from tamis.files.source import Format, Source, open_source
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId, make_rule, read_weights
from tamis.matcher.validity import Life

__all__ = ["LoadReport", "load_rule", "load_rules"]

Watch: TypeAlias = Callable[[int, float | None], None]
"""Told how many rules were read, and how much of the file; None when that cannot be told."""

_NEEDED: Final = ("id", "rule")
_CSV_COLUMNS: Final = ("id", "rule", "logic", "priority", "valid_from", "valid_until")
_PARQUET_COLUMNS: Final = (*_CSV_COLUMNS, "tags")
_ROWS = 65_536


class LoadReport(NamedTuple):
    """What came of a file of rules."""

    rules: list[Rule]
    """The rules of the file, also those that were refused."""
    bad: list[InputFileError]
    """What was refused and skipped, and why."""


class _Record(NamedTuple):
    """A rule as a file holds it."""

    number: int
    """Its 1-based line; in Parquet, its row."""
    fields: dict[str, Any]


def load_rules(
    matcher: Matcher,
    path: str,
    *,
    logic: str = "strong",
    skip_bad: bool = False,
    watch: Watch = lambda count, fraction: None,
) -> LoadReport:
    """Add the rules of a file: all of them, or none if one is refused.

    Parameters
    ----------
    matcher
        Takes the rules.
    path
        A file of rules; ``-`` is standard input.
    logic
        The logic of rules that do not name their own.
    skip_bad
        Whether rules that are refused are left out and reported. A line that is no JSON object is
        an error all the same: such a file is broken.
    watch
        Called again and again with how many rules were read, and how much of the file.

    Raises
    ------
    InputFileError
        The file cannot be read, or one of its rules is refused.
    """
    bad: list[InputFileError] = []
    numbers: dict[RuleId, int] = {}
    rules: list[Rule] = []
    with open_source(path) as source:
        for records in _record_blocks(source):
            for record in records:
                try:
                    rules.append(_new_rule(source, record, logic, numbers))
                except RuleError as error:
                    refused = _refused(source, error, record.number)
                    if not skip_bad:
                        raise refused from error
                    bad.append(refused)
            watch(len(rules), source.fraction)
    watch(len(rules), None)
    try:
        report = matcher.add_many(rules, on_error="skip" if skip_bad else "raise")
    except RuleError as error:
        raise _refused(source, error, _number_of(error.rule_id, numbers)) from error
    for id, position, message in report.bad:
        skipped = RuleSyntaxError(message, text="", position=position, rule_id=id)
        bad.append(_refused(source, skipped, numbers[id]))
    return LoadReport(rules, sorted(bad, key=lambda error: error.line or 0))


def load_rule(matcher: Matcher, path: str, id: str, *, logic: str = "strong") -> Rule:
    """Add the one rule of a file whose id reads `id`; the other rules are not looked at.

    Raises
    ------
    InputFileError
        The file cannot be read, or the rule is refused.
    UnknownRuleError
        There is no rule of that id.
    """
    with open_source(path) as source:
        for records in _record_blocks(source):
            for record in records:
                if str(record.fields.get("id")) == id:
                    try:
                        rule = _rule(record.fields, logic)
                        matcher.add_many([rule])
                    except RuleError as error:
                        raise _refused(source, error, record.number) from error
                    return rule
    raise UnknownRuleError(f"{source.path}: there is no rule {id!r}")


def _number_of(id: RuleId | None, numbers: dict[RuleId, int]) -> int | None:
    return None if id is None else numbers.get(id)


def _refused(source: Source, error: RuleError, number: int | None) -> InputFileError:
    message = error.summary if isinstance(error, RuleSyntaxError) else str(error)
    return source.error(message, number)


def _new_rule(source: Source, record: _Record, logic: str, numbers: dict[RuleId, int]) -> Rule:
    """The rule of a record, whose id is not among `numbers`; it is added there."""
    rule = _rule(record.fields, logic)
    first = numbers.setdefault(rule.id, record.number)
    if first != record.number:
        raise DuplicateRuleError(f"the id is taken by {source.place(first)}", rule_id=rule.id)
    return rule


def _rule(fields: dict[str, Any], logic: str) -> Rule:
    for name in _NEEDED:
        if fields.get(name) is None:
            raise RuleError(f"the rule has no {name!r}")
    try:
        return make_rule(
            fields["id"],
            fields["rule"],
            fields.get("logic") or logic,
            read_weights(fields.get("weights")),
            fields.get("payload"),
            _tags(fields.get("tags")),
            Life.of(_priority(fields), fields.get("valid_from"), fields.get("valid_until")),
        )
    except RuleError as error:
        error.rule_id = fields["id"]
        raise


def _priority(fields: dict[str, Any]) -> Any:
    priority = fields.get("priority") or 0
    if isinstance(priority, str):  # from CSV
        try:
            return int(priority)
        except ValueError:
            return priority
    return priority


def _tags(tags: Any) -> list[str]:
    if tags is None or isinstance(tags, list):
        return tags or []
    raise RuleError(f"tags are a list of strings, not {tags!r}")


def _record_blocks(source: Source) -> Iterator[Iterable[_Record]]:
    match source.format:
        case Format.JSON_LINES:
            for block in object_blocks(source):
                yield map(_Record, block.lines, block.objects)
        case Format.CSV:
            yield _csv_records(source)
        case Format.PARQUET:
            yield from _parquet_records(source)


def _csv_records(source: Source) -> Iterator[_Record]:
    """Rules from CSV, by Python's reader: it knows the line, and guesses no types."""
    reader = csv.reader(source.text_lines(), strict=True)
    try:
        with _long_fields():
            header = next(reader, [])
            if not header:
                raise source.error("the file is empty")
            _check_columns(source, header)
            line = reader.line_num + 1
            for row in reader:
                if row and len(row) != len(header):
                    raise source.error(f"expected {len(header)} columns, found {len(row)}", line)
                if row:
                    pairs = zip(header, row, strict=True)
                    yield _Record(line, {k: v for k, v in pairs if v and k in _CSV_COLUMNS})
                line = reader.line_num + 1
    except csv.Error as error:
        raise source.error(f"malformed CSV: {error}", reader.line_num) from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Python's reader refuses fields of more than 128 KiB unless it is told otherwise."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parquet_records(source: Source) -> Iterator[Iterator[_Record]]:
    file = pq.ParquetFile(source.stream)
    names = file.schema_arrow.names
    _check_columns(source, names)
    columns = [name for name in _PARQUET_COLUMNS if name in names]
    first = 1
    for batch in file.iter_batches(_ROWS, columns=columns):
        yield map(_Record, range(first, first + batch.num_rows), batch.to_pylist())
        first += batch.num_rows


def _check_columns(source: Source, names: Sequence[str]) -> None:
    for name in _NEEDED:
        if name not in names:
            raise source.error(f"the file has no column {name!r}; it has {', '.join(names)}")
