"""Events from a file, batch by batch: objects from JSON lines, Arrow data from CSV and Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tamis.errors import InputFileError
from tamis.files.jsonlines import json_object, object_blocks
from tamis.files.source import STDIN, Format, Source, open_source

__all__ = ["EventBatch", "read_event", "read_events"]

_ROWS = 65_536
_CSV_BLOCK = 1 << 22
"""How many bytes of CSV are read at a time; the types of columns are guessed from the first."""

_ROW = re.compile(r"Row #(\d+): ")
_CONVERSION = re.compile(r"In CSV column #(\d+): CSV conversion error to (.+?): (.*)", re.DOTALL)


class EventBatch(NamedTuple):
    """Some of a file's events, as `Matcher.match_many` takes them."""

    events: list[dict[str, Any]] | pa.RecordBatch
    numbers: NDArray[np.int64]
    """The 1-based number of each event: its line in JSON lines, its row in CSV and Parquet."""
    fraction: float | None
    """How much of the file was read; None for a pipe."""


def read_events(path: str) -> Iterator[EventBatch]:
    """The events of a file, as many at a time as fit well in memory.

    Parameters
    ----------
    path
        A file of JSON lines, CSV or Parquet; ``-`` is standard input, as JSON lines. A pipe is
        not waited for: what has come is a batch.

    Raises
    ------
    InputFileError
        The file cannot be read; the error names the file and, where there is one, the line.
    """
    with open_source(path) as source:
        match source.format:
            case Format.JSON_LINES:
                for lines, objects in object_blocks(source):
                    yield EventBatch(objects, np.array(lines, np.int64), source.fraction)
            case Format.CSV:
                yield from _numbered(_csv_batches(source), source)
            case Format.PARQUET:
                yield from _parquet_batches(source)


def read_event(text: str) -> dict[str, Any]:
    """One event: a JSON object as text, ``FILE:NUMBER``, or ``-`` for an object on standard input.

    Raises
    ------
    InputFileError
        The text is no JSON object, or the file has no such event.
    """
    if text == STDIN:
        with open_source(STDIN) as source:
            return json_object(source.stream.read(), source)
    if text.lstrip().startswith(("{", "[", '"')):
        given = io.BytesIO(text.encode(errors="surrogateescape"))
        return json_object(given.read(), Source("EVENT", Format.JSON_LINES, given, given, None))
    path, _, number = text.rpartition(":")
    if not path or not number.isdecimal():
        raise InputFileError(
            "an event is a JSON object, FILE:NUMBER, or - for standard input", path=text
        )
    return _event_numbered(path, int(number))


def _event_numbered(path: str, number: int) -> dict[str, Any]:
    """The event at a place that `tamis match` prints: they count from 0."""
    place = number
    for events, numbers, _ in read_events(path):
        if place < len(numbers):
            return events[place] if isinstance(events, list) else _row(events, place)
        place -= len(numbers)
    raise InputFileError(f"there is no event {number}", path=path)


def _row(batch: pa.RecordBatch, place: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = batch.slice(place, 1).to_pylist(maps_as_pydicts="strict")
    return rows[0]


def _numbered(batches: Iterator[pa.RecordBatch], source: Source) -> Iterator[EventBatch]:
    first = 1
    for batch in batches:
        numbers = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        yield EventBatch(batch, numbers, source.fraction)


def _parquet_batches(source: Source) -> Iterator[EventBatch]:
    file = pq.ParquetFile(source.stream)
    _check_names(source, file.schema_arrow.names)
    rows = file.metadata.num_rows
    for batch in _numbered(file.iter_batches(_ROWS), source):
        # The footer is read first, so the place in the file tells nothing.
        yield batch._replace(fraction=int(batch.numbers[-1]) / rows)


def _csv_batches(source: Source) -> Iterator[pa.RecordBatch]:
    names: list[str] = []
    try:
        reader = _open_csv(source, {})
        names = reader.schema.names
        _check_names(source, names)
        if any(pa.types.is_binary(kind) for kind in reader.schema.types):
            raise _not_utf8(source)
        times = {f.name: pa.string() for f in reader.schema if pa.types.is_time(f.type)}
        if times:
            # No rule can compare times of day; as texts in ISO form they compare well.
            source.stream.seek(0)
            reader = _open_csv(source, times)
        for batch in reader:
            if batch.num_rows:
                yield _empty_as_null(batch)
    except UnicodeDecodeError:
        raise _not_utf8(source) from None
    except pa.ArrowInvalid as error:
        raise _csv_error(source, str(error), names) from None


def _open_csv(source: Source, types: dict[str, pa.DataType]) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        source.stream,
        # Errors tell the row only without threads.
        pa_csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
        pa_csv.ParseOptions(newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=types),
    )


def _empty_as_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        pc.if_else(pc.equal(column, ""), None, column) if pa.types.is_string(kind) else column
        for kind, column in zip(batch.schema.types, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_names(source: Source, names: list[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise source.error(f"two columns are called {name!r}")
        seen.add(name)


def _csv_error(source: Source, message: str, names: list[str]) -> InputFileError:
    """What pyarrow says of a CSV file, with the names of columns and the line."""
    if "Empty CSV" in message:
        return source.error("the file is empty")
    if "invalid UTF8" in message:
        return _not_utf8(source)
    row = _ROW.search(message)
    line = None if row is None else _line_of_row(source, int(row[1]))
    message = _ROW.sub("", message)
    conversion = _CONVERSION.match(message)
    if conversion is None:
        return source.error(f"malformed CSV: {message.removeprefix('CSV parse error: ')}", line)
    column, kind, reason = conversion.groups()
    return source.error(
        f"column {names[int(column)]!r} held {kind} so far: {reason}; "
        "a column of mixed values needs JSON lines",
        line,
    )


def _not_utf8(source: Source) -> InputFileError:
    """The error that names the first line that is not UTF-8."""
    source.stream.seek(0)
    try:
        for _ in source.text_lines():
            pass
    except InputFileError as error:
        return error
    return source.error("not UTF-8")


def _line_of_row(source: Source, row: int) -> int | None:
    """The line of a 1-based row, which counts the header, but not blank lines."""
    source.stream.seek(0)
    reader = csv.reader(source.text_lines())
    line = 1
    try:
        for cells in reader:
            row -= bool(cells)
            if not row:
                return line
            line = reader.line_num + 1
    except csv.Error:
        pass
    return None
