"""CSV as Python's own reader sees it: records with their lines, and all values as texts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tamis.errors import InputFileError
from tamis.files.source import LONGEST_LINE, Source

__all__ = ["CsvRecord", "locate_open_quote", "read_records"]


class CsvRecord(NamedTuple):
    """A record that is not blank."""

    line: int
    """The 1-based line on which the record begins."""
    cells: list[str]


def read_records(
    source: Source, *, strict: bool = True, longest: int = LONGEST_LINE
) -> Iterator[CsvRecord]:
    """Read the records of `source`, the header among them.

    Parameters
    ----------
    source
        The file.
    strict
        Refuse quotes that RFC 4180 does not allow.
    longest
        How many characters a value may have.

    Raises
    ------
    InputFileError
        A quote is wrong, or a value is too long; the error names the line where the record begins.
    """
    reader = csv.reader(source.text_lines(), strict=strict)
    line = 1
    with _limit_values(longest):
        try:
            for cells in reader:
                if cells:
                    yield CsvRecord(line, cells)
                line = reader.line_num + 1
        except csv.Error as error:
            raise _explain(source, error, line, longest) from None


def locate_open_quote(source: Source, longest: int) -> InputFileError:
    """The error of a record that does not end, or that has a value of `longest` characters."""
    source.stream.seek(0)
    line = 1
    try:
        for record in read_records(source, strict=False, longest=longest):
            line = record.line
    except InputFileError as error:
        return error
    return source.error("malformed CSV: the record ends in a quote that is not closed", line)


def _explain(source: Source, error: csv.Error, line: int, longest: int) -> InputFileError:
    match str(error):
        case "unexpected end of data":
            reason = "the record ends in a quote that is not closed"
        case text if text.startswith("field larger than field limit"):
            reason = f"a value has more than {longest:,} characters; is a quote not closed?"
        case text:
            reason = text
    return source.error(f"malformed CSV: {reason}", line)


@contextmanager
def _limit_values(longest: int) -> Iterator[None]:
    """Set the limit of Python's reader, which is 128 KiB otherwise."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)
