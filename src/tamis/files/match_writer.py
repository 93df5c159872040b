"""Writes matches to a file: JSON lines with a line an event, CSV and Parquet with a row a match."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.encode.arrow_arrays import to_numpy
from tamis.errors import InputFileError
from tamis.files.atomic import get_stdout, write_atomically
from tamis.files.compression import compress
from tamis.files.details import add_detail_columns
from tamis.files.matching import MatchBatch
from tamis.files.source import STDIN, Format, detect_format
from tamis.files.unprintable import escape_json

__all__ = ["MatchWriter", "open_match_writer"]

_ENCODER = msgspec.json.Encoder()


class MatchWriter(ABC):
    """Writes batches of matches to `stream`, which belongs to the file `path`."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream = stream
        self._path = path

    @abstractmethod
    def write(self, matches: MatchBatch) -> None:
        """Write a batch."""

    def close(self) -> None:  # noqa: B027  # JSON lines need no footer
        """Write what the format needs at the end."""


@contextmanager
def open_match_writer(path: str | None) -> Iterator[MatchWriter]:
    """Open a file for matches; its extension decides the format. None and ``-`` mean stdout.

    The file appears when it is complete.

    Raises
    ------
    InputFileError
        The extension is unknown, or the file cannot be written.
    """
    if path is None or path == STDIN:
        yield _JsonLinesWriter(get_stdout(), STDIN)
        return
    file_format, compression = detect_format(path)
    if file_format not in _WRITERS:
        raise InputFileError("matches are written as .jsonl, .ndjson, .csv or .parquet", path=path)
    with write_atomically(path) as file, ExitStack() as stack:
        stream = stack.enter_context(compress(file, compression))
        writer = _WRITERS[file_format](stream, path)
        stack.callback(writer.close)
        yield writer


class _JsonLinesWriter(MatchWriter):
    def write(self, matches: MatchBatch) -> None:
        lines = _ENCODER.encode_lines(list(_to_objects(matches)))
        self._stream.write(escape_json(lines) if self._path == STDIN else lines)
        self._stream.flush()


def _to_objects(matches: MatchBatch) -> Iterator[dict[str, Any]]:
    """An object for each event, also for events without matches."""
    keys, table = matches.keys, matches.table
    details = matches.details
    if "matches" in table.column_names:
        for key, count in zip(keys, table["matches"].to_pylist(), strict=True):
            yield {"event": key, "matches": count}
        return
    rules: list[Any] = table["rule"].to_pylist()
    bounds = np.searchsorted(to_numpy(table["event"]), np.arange(len(keys) + 1)).tolist()
    if "score" not in table.column_names:
        if details is not None:
            rules = [{"rule": id, **details.of(id)} for id in rules]
        for i, key in enumerate(keys):
            yield {"event": key, "rules": rules[bounds[i] : bounds[i + 1]]}
        return
    scores = table["score"].to_pylist()
    best = [
        {"rule": rule, "score": score, **(details.of(rule) if details else {})}
        for rule, score in zip(rules, scores, strict=True)
    ]
    for i, key in enumerate(keys):
        yield {"event": key, "top": best[bounds[i] : bounds[i + 1]]}


class _CsvWriter(MatchWriter):
    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__(stream, path)
        self._text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._has_header = False

    def write(self, matches: MatchBatch) -> None:
        table = add_detail_columns(matches)
        if not self._has_header:
            self._writer.writerow(table.column_names)
            self._has_header = True
        events, *others = (column.to_pylist() for column in table.columns)
        keys = (matches.keys[event] for event in events)
        self._writer.writerows(zip(keys, *others, strict=True))

    def close(self) -> None:
        self._text.detach()


class _ParquetWriter(MatchWriter):
    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__(stream, path)
        self._writer: pq.ParquetWriter | None = None

    def write(self, matches: MatchBatch) -> None:
        events = self._event_column(matches)
        found = add_detail_columns(matches)
        columns = [events, *(_storable_column(column) for column in found.columns[1:])]
        table = pa.table(columns, names=found.column_names)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, table.schema)
        elif table.schema != self._writer.schema:
            raise self._mixed_ids_error()
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _event_column(self, matches: MatchBatch) -> pa.Array:
        kind = pa.string() if matches.keys and isinstance(matches.keys[0], str) else pa.int64()
        try:
            return pa.array(matches.keys, kind).take(matches.table["event"].combine_chunks())
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise self._mixed_ids_error() from None

    def _mixed_ids_error(self) -> InputFileError:
        return InputFileError(
            "some event ids are integers and some are strings, and a Parquet column has one type "
            "only; write JSON lines instead",
            path=self._path,
        )


def _storable_column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column that Parquet can store; a mix of integer and string ids becomes strings."""
    if not pa.types.is_union(column.type):
        return column
    return pa.array([str(id) for id in column.to_pylist()], pa.string())


_WRITERS: dict[Format, Callable[[IO[bytes], str], MatchWriter]] = {
    Format.JSON_LINES: _JsonLinesWriter,
    Format.CSV: _CsvWriter,
    Format.PARQUET: _ParquetWriter,
}
