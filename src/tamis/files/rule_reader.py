"""Reads rules from a file and adds them to a collection.

A line of JSON lines is an object with an ``id``, a ``rule`` (as text or in the JSON form) and
optionally the `OPTIONAL_FIELDS`; times are in the ISO form. CSV has the same columns without tags;
all are texts, and weights and payloads are JSON in texts. Parquet has all columns, with times as
texts or timestamps.

:func:`tamis.matcher.rule.read_weights` describes the form of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow.parquet as pq

from tamis.errors import (
    DuplicateRuleError,
    InputFileError,
    RuleError,
    RuleSyntaxError,
    SchemaError,
    UnknownRuleError,
    refusal_of,
)
from tamis.files.csv_records import read_records
from tamis.files.json_lines import read_objects
from tamis.files.source import (
    Format,
    Paths,
    Source,
    display_path,
    find_files,
    join_fractions,
    open_source,
)
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import (
    OPTIONAL_FIELDS,
    Rule,
    RuleId,
    read_texts,
    read_weights,
    rule_of_fields,
)

__all__ = ["LoadReport", "load_rule", "load_rules"]

Watch: TypeAlias = Callable[[int, float | None], None]
"""Takes the number of rules, and the fraction of the file that was read; None if unknown."""

_REQUIRED: Final = ("id", "rule")
_CSV_COLUMNS: Final = (*_REQUIRED, *(name for name in OPTIONAL_FIELDS if name != "tags"))
_PARQUET_COLUMNS: Final = (*_CSV_COLUMNS, "tags")
_ROWS = 65_536


class LoadReport(NamedTuple):
    """The result of loading a file of rules."""

    rules: list[Rule]
    """The rules that could be read; the collection may have refused some of them."""
    bad: list[InputFileError]
    """One error for each rule that was skipped."""


class _Record(NamedTuple):
    """The fields of a rule in a file."""

    number: int
    """The 1-based line; in Parquet, the row."""
    fields: dict[str, Any]


class _Place(NamedTuple):
    """Where a rule was read."""

    source: Source
    number: int

    def tell(self, source: Source) -> str:
        """The place, seen from another rule in `source`: ``line 7``, or ``more.jsonl, line 7``."""
        where = self.source.locate(self.number)
        return where if self.source is source else f"{self.source.path}, {where}"


def load_rules(
    matcher: Matcher,
    path: Paths,
    *,
    logic: str = "strong",
    skip_bad: bool = False,
    watch: Watch = lambda count, fraction: None,
) -> LoadReport:
    """Add the rules of one or more files: all of them, or none if one is invalid.

    Parameters
    ----------
    matcher
        The collection that the rules are added to.
    path
        A file of rules, a folder of such files, or a list of both; ``-`` is standard input.
    logic
        The logic of rules that name none.
    skip_bad
        Skip and report invalid rules, instead of raising. A line that is not a JSON object is still
        an error, because the file is broken.
    watch
        Called repeatedly with the number of rules, and the fraction of the file that was read.

    Raises
    ------
    InputFileError
        The file cannot be read, or one of its rules is invalid.
    """
    bad: list[InputFileError] = []
    places: dict[RuleId, _Place] = {}
    rules: list[Rule] = []
    files = find_files(path)
    for done, file in enumerate(files):
        with open_source(file) as source:
            for records in _read_records(source):
                for record in records:
                    try:
                        rules.append(_build_unique_rule(source, record, logic, places))
                    except Exception as error:
                        refusal = refusal_of(error, record.fields.get("rule"))
                        located = _locate_error(source, refusal, record.number)
                        if not skip_bad:
                            raise located from error
                        bad.append(located)
                watch(len(rules), join_fractions(source.fraction, done, len(files)))
    watch(len(rules), None)
    try:
        report = matcher.add_many(rules, on_error="skip" if skip_bad else "raise")
    except RuleError as error:
        place = None if error.rule_id is None else places.get(error.rule_id)
        known, number = (source, None) if place is None else place
        raise _locate_error(known, error, number) from error
    for id, position, message in report.bad:
        skipped = RuleSyntaxError(message, text="", position=position, rule_id=id)
        bad.append(_locate_error(places[id].source, skipped, places[id].number))
    order = {display_path(file): number for number, file in enumerate(files)}
    return LoadReport(rules, sorted(bad, key=lambda e: (order.get(str(e.path), 0), e.line or 0)))


def load_rule(matcher: Matcher, path: str, id: str, *, logic: str = "strong") -> Rule:
    """Add the one rule of a file whose id is written `id`, without checking the other rules.

    Raises
    ------
    InputFileError
        The file cannot be read, or the rule is invalid.
    UnknownRuleError
        No rule has that id.
    """
    for file in find_files(path):
        with open_source(file) as source:
            for records in _read_records(source):
                for record in records:
                    if str(record.fields.get("id")) == id:
                        try:
                            rule = _build_rule(record.fields, logic)
                            matcher.add_many([rule])
                        except RuleError as error:
                            raise _locate_error(source, error, record.number) from error
                        return rule
    raise UnknownRuleError(f"{display_path(path)}: there is no rule {id!r}")


def _locate_error(
    source: Source, error: RuleError | SchemaError, number: int | None
) -> InputFileError:
    message = error.summary if isinstance(error, RuleSyntaxError) else str(error)
    return source.error(message, number)


def _build_unique_rule(
    source: Source, record: _Record, logic: str, places: dict[RuleId, _Place]
) -> Rule:
    """Build the rule of a record, and note its place; raise if `places` already has its id."""
    rule = _build_rule(record.fields, logic)
    place = _Place(source, record.number)
    first = places.setdefault(rule.id, place)
    if first is not place:
        raise DuplicateRuleError(f"the id is taken by {first.tell(source)}", rule_id=rule.id)
    return rule


def _build_rule(fields: dict[str, Any], logic: str) -> Rule:
    try:
        read = {"weights": read_weights(fields.get("weights"))}
    except RuleError as error:
        error.rule_id = fields.get("id")
        raise
    return rule_of_fields({**fields, **read}, logic)


def _read_records(source: Source) -> Iterator[Iterable[_Record]]:
    match source.format:
        case Format.JSON_LINES | Format.JSON:
            for block in read_objects(source):
                yield map(_Record, block.lines, block.objects)
        case Format.CSV:
            yield _read_csv(source)
        case Format.PARQUET:
            yield from _read_parquet(source)


def _read_csv(source: Source) -> Iterator[_Record]:
    """Read CSV with Python's own reader, which knows the line and guesses no types."""
    records = read_records(source)
    first = next(records, None)
    if first is None:
        raise source.error("the file is empty")
    header = first.cells
    _check_columns(source, header)
    for line, cells in records:
        if len(cells) != len(header):
            raise source.error(f"expected {len(header)} columns, found {len(cells)}", line)
        pairs = zip(header, cells, strict=True)
        texts = {k: v for k, v in pairs if v and k in _CSV_COLUMNS}
        yield _Record(line, read_texts(texts))


def _read_parquet(source: Source) -> Iterator[Iterator[_Record]]:
    file = pq.ParquetFile(source.stream)
    names = file.schema_arrow.names
    _check_columns(source, names)
    columns = [name for name in _PARQUET_COLUMNS if name in names]
    first = 1
    for batch in file.iter_batches(_ROWS, columns=columns):
        rows = map(read_texts, batch.to_pylist())
        yield map(_Record, range(first, first + batch.num_rows), rows)
        first += batch.num_rows


def _check_columns(source: Source, names: Sequence[str]) -> None:
    for name in _REQUIRED:
        if name not in names:
            raise source.error(f"the file has no column {name!r}; it has {', '.join(names)}")
