"""Reads events batch by batch: objects or texts of JSON lines, Arrow data from CSV and Parquet."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tamis.encode.json.texts import JsonTexts
from tamis.errors import InputFileError
from tamis.files.csv_records import CsvRecord, locate_open_quote, read_records
from tamis.files.json_lines import parse_object, read_texts
from tamis.files.source import (
    STDIN,
    Bytes,
    Format,
    Paths,
    Source,
    find_files,
    join_fractions,
    open_source,
)
from tamis.matcher.analysis.backtest import PastChunk

__all__ = [
    "EventBatch",
    "EventFile",
    "UndecodedBatch",
    "read_event",
    "read_events",
    "read_undecoded",
]

_ROWS = 65_536
_CSV_BLOCK = 1 << 22
"""How many bytes of CSV are read at a time; the first block decides the types of columns."""

_LONGEST_MESSAGE = 200

_ROW = re.compile(r"Row #(\d+): ")
_CONVERSION = re.compile(r"In CSV column #(\d+): CSV conversion error to (.+?): (.*)", re.DOTALL)


class EventBatch(NamedTuple):
    """Consecutive events of a file, in a form that `Matcher.match_many` takes."""

    events: list[Mapping[str, Any]] | pa.RecordBatch
    numbers: NDArray[np.int64]
    """The 1-based number of each event: its line in JSON lines, its row in CSV and Parquet."""
    fraction: float | None
    """The fraction of the files that was read; None for a pipe."""
    path: str
    """The file that the events are from."""


class UndecodedBatch(NamedTuple):
    """Consecutive events of a file; the texts of JSON lines are objects, but not decoded."""

    events: JsonTexts | pa.RecordBatch
    numbers: NDArray[np.int64]
    fraction: float | None
    path: str


def read_events(path: Paths, bad: list[InputFileError] | None = None) -> Iterator[EventBatch]:
    """Read the events of one or more files, batch by batch.

    Parameters
    ----------
    path
        A file of JSON lines, JSON, CSV or Parquet, a folder of such files, or a list of both;
        ``-`` is standard input, as JSON lines. From a pipe, a batch is what has arrived.
    bad
        Takes the errors of JSON lines that are not objects, which are then skipped.

    Raises
    ------
    InputFileError
        The file cannot be read; the error names the file and, where there is one, the line.
    """
    for events, numbers, fraction, file in read_undecoded(path, bad):
        decoded = events.events() if isinstance(events, JsonTexts) else events
        yield EventBatch(decoded, numbers, fraction, file)


def read_undecoded(
    path: Paths, bad: list[InputFileError] | None = None
) -> Iterator[UndecodedBatch]:
    """Read the events of files like `read_events`, and leave JSON lines as texts."""
    files = find_files(path)
    for done, file in enumerate(files):
        for batch in _read_file(file, bad):
            yield batch._replace(fraction=join_fractions(batch.fraction, done, len(files)))


def _read_file(path: str, bad: list[InputFileError] | None) -> Iterator[UndecodedBatch]:
    with open_source(path) as source:
        match source.format:
            case Format.JSON_LINES | Format.JSON:
                for numbers, texts in read_texts(source, bad):
                    yield UndecodedBatch(texts, numbers, source.fraction, path)
            case Format.CSV:
                yield from _number_batches(_read_csv(source), source, path)
            case Format.PARQUET:
                yield from _read_parquet(source, path)


class EventFile:
    """The events of a file, for :meth:`tamis.Matcher.backtest`.

    Parameters
    ----------
    path
        As in :func:`read_events`.
    """

    def __init__(self, path: Paths) -> None:
        self._path = path

    def read_chunks(self, attributes: frozenset[str], exact: frozenset[str]) -> Iterator[PastChunk]:
        """Read all events; see `tamis.matcher.analysis.backtest.PastEvents`."""
        del attributes, exact  # The file is read as a whole.
        number = 0
        for batch in read_events(self._path):
            size = len(batch.numbers)
            yield PastChunk(batch.events, np.arange(number, number + size))
            number += size


def read_event(text: str) -> dict[str, Any]:
    """Read one event: a JSON object, ``FILE:NUMBER``, or ``-`` for an object on standard input.

    Raises
    ------
    InputFileError
        The text is not a JSON object, or the file has no such event.
    """
    if text == STDIN:
        with open_source(STDIN) as source:
            return parse_object(source.read_line(), source)
    if text.lstrip().startswith(("{", "[", '"')):
        stream = io.BytesIO(text.encode(errors="surrogateescape"))
        return parse_object(stream.read(), Source("EVENT", Format.JSON_LINES, stream, stream, None))
    path, _, number = text.rpartition(":")
    if not path or not number.isdecimal():
        raise InputFileError(
            "expected a JSON object, FILE:NUMBER, or - for standard input", path=text
        )
    return _read_event_at(path, int(number))


def _read_event_at(path: str, number: int) -> dict[str, Any]:
    """The event that `tamis match` prints as `number`; events count from 0."""
    offset = number
    for events, numbers, *_ in read_undecoded(path):
        if offset < len(numbers):
            is_json = isinstance(events, JsonTexts)
            return events.event(offset) if is_json else _row_to_dict(events, offset)
        offset -= len(numbers)
    raise InputFileError(f"there is no event {number}", path=path)


def _row_to_dict(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = batch.slice(row, 1).to_pylist(maps_as_pydicts="strict")
    return rows[0]


def _number_batches(
    batches: Iterator[pa.RecordBatch], source: Source, path: str
) -> Iterator[UndecodedBatch]:
    first = 1
    for batch in batches:
        numbers = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        yield UndecodedBatch(batch, numbers, source.fraction, path)


def _read_parquet(source: Source, path: str) -> Iterator[UndecodedBatch]:
    file = pq.ParquetFile(source.stream)
    _check_names(source, file.schema_arrow.names)
    rows = file.metadata.num_rows
    for batch in _number_batches(file.iter_batches(_ROWS), source, path):
        # The footer is read first, so the position in the file says nothing about progress.
        yield batch._replace(fraction=int(batch.numbers[-1]) / rows)


def _read_csv(source: Source) -> Iterator[pa.RecordBatch]:
    names: list[str] = []
    try:
        schema = _read_csv_schema(source)
        names = schema.names
        _check_names(source, names)
        if any(pa.types.is_binary(kind) for kind in schema.types):
            raise _utf8_error(source)
        # Rules cannot compare times of day, but can compare their ISO texts.
        times = {f.name: pa.string() for f in schema if pa.types.is_time(f.type)}
        source.stream.seek(0)
        stream = _CsvStream(source, _empty_row(len(names)))
        previous: pa.RecordBatch | None = None
        for batch in _check_quotes(_open_csv(stream, times), source.path):
            if batch.num_rows:
                if previous is not None:
                    yield previous
                previous = _nullify_empty(batch)
        last = _drop_empty_row(previous)
        if last is None:
            raise locate_open_quote(source, _CSV_BLOCK)
        if last.num_rows:
            yield last
    except UnicodeDecodeError:
        raise _utf8_error(source) from None
    except pa.ArrowInvalid as error:
        raise _explain_csv_error(source, str(error), names) from None


def _check_quotes(batches: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    """The batches of a file, whose values of several lines are in quotes as RFC 4180 has them.

    To pyarrow, a value whose quote is not closed ends at the next quote, however many rows later.
    That quote opens another value, so no comma follows it, which Python's reader refuses. It reads
    as far as the last row with such a value, and nothing of a file without one.
    """
    rows = read = 0
    with ExitStack() as opened:
        records: Iterator[CsvRecord] | None = None
        for batch in batches:
            rows += batch.num_rows
            if _has_lines_in_values(batch):
                if records is None:
                    records = read_records(opened.enter_context(open_source(path)))
                for _ in islice(records, rows + 1 - read):  # the header is a record, too
                    read += 1
            yield batch


def _has_lines_in_values(batch: pa.RecordBatch) -> bool:
    columns = (column for column in batch.columns if pa.types.is_string(column.type))
    return any(pc.any(pc.match_substring(column, "\n")).as_py() for column in columns)


class _CsvStream(io.RawIOBase):
    """The bytes of `source`, and then those of `end`.

    pyarrow takes the end of the file for the end of a quoted value. A row of empty values after the
    last one shows whether the value was still open: then the row is part of it.
    """

    def __init__(self, source: Source, end: bytes = b"") -> None:
        super().__init__()
        self._stream: Bytes | None = source.stream
        self._end = end
        # pyarrow reads ahead in a thread of its own.
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; none after `stop`."""
        with self._lock:
            if self._stream is None:
                return b""
            data = self._stream.read(size)
            if not data:
                data, self._end = self._end, b""
            return data

    def stop(self) -> None:
        """Leave the rest of the source to others."""
        with self._lock:
            self._stream = None


def _read_csv_schema(source: Source) -> pa.Schema:
    stream = _CsvStream(source)
    try:
        return _open_csv(stream, {}).schema
    finally:
        stream.stop()


def _empty_row(columns: int) -> bytes:
    return b"\n" + (b"," * (columns - 1) or b'""') + b"\n"


def _drop_empty_row(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """`batch` without its last row; None if that row is not empty."""
    if batch is None or any(column[-1].is_valid for column in batch.columns):
        return None
    return batch.slice(0, batch.num_rows - 1)


def _open_csv(stream: _CsvStream, types: dict[str, pa.DataType]) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        # Errors name the row only without threads.
        pa_csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
        pa_csv.ParseOptions(newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=types),
    )


def _nullify_empty(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        pc.if_else(pc.equal(column, ""), None, column) if pa.types.is_string(kind) else column
        for kind, column in zip(batch.schema.types, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_names(source: Source, names: list[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise source.error(f"two columns have the name {name!r}")
        seen.add(name)


def _explain_csv_error(source: Source, message: str, names: list[str]) -> InputFileError:
    """The error that pyarrow raised, with the column's name and the line."""
    if "Empty CSV" in message:
        return source.error("the file is empty")
    if "invalid UTF8" in message:
        return _utf8_error(source)
    if "straddles two block boundaries" in message:
        return locate_open_quote(source, _CSV_BLOCK)
    row = _ROW.search(message)
    line = None if row is None else _find_line(source, int(row[1]))
    message = _ROW.sub("", message)
    conversion = _CONVERSION.match(message)
    if conversion is None:
        return source.error(
            f"malformed CSV: {_shorten(message.removeprefix('CSV parse error: '))}", line
        )
    column, kind, reason = conversion.groups()
    return source.error(
        f"column {names[int(column)]!r} was {kind} so far: {_shorten(reason)}; "
        "use JSON lines for a column of mixed values",
        line,
    )


def _shorten(message: str) -> str:
    """`message` on one line; it may quote a value of any length."""
    message = message[: _LONGEST_MESSAGE + 1].replace("\n", r"\n").replace("\r", r"\r")
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"


def _utf8_error(source: Source) -> InputFileError:
    """The error that names the first line that is not UTF-8."""
    source.stream.seek(0)
    try:
        for _ in source.text_lines():
            pass
    except InputFileError as error:
        return error
    return source.error("not UTF-8")


def _find_line(source: Source, row: int) -> int | None:
    """The line of a 1-based row; rows count the header, but not blank lines."""
    source.stream.seek(0)
    try:
        records = read_records(source, strict=False)
        return next(islice(records, row - 1, None)).line
    except (InputFileError, StopIteration):
        return None
