"""Answers into a file: JSON lines with a line for each event, CSV and Parquet with one a match.

A file is written aside, under a hidden name, and renamed when it is whole.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.errors import InputFileError
from tamis.files.match import Answer
from tamis.files.source import STDIN, Format, format_of

__all__ = ["Output", "open_output", "written_aside"]

_ENCODER = msgspec.json.Encoder()


class Output(ABC):
    """Takes answers, and writes them to `stream`, which belongs to the file `path`."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream = stream
        self._path = path

    @abstractmethod
    def write(self, answer: Answer) -> None:
        """Write an answer."""

    def close(self) -> None:  # noqa: B027  # JSON lines have no end to write
        """Write what must stand at the end."""


@contextmanager
def open_output(path: str | None) -> Iterator[Output]:
    """A file for answers in the format that its name tells; None and ``-`` are standard output.

    Raises
    ------
    InputFileError
        The extension is not known, or the file cannot be written.
    """
    if path is None or path == STDIN:
        yield _JsonLines(sys.stdout.buffer, path or STDIN)
        return
    holds, compressed = format_of(path)
    with written_aside(path) as file, ExitStack() as stack:
        stream = stack.enter_context(gzip.open(file, "wb")) if compressed else file
        output = _WRITERS[holds](cast(IO[bytes], stream), path)
        stack.callback(output.close)
        yield output


@contextmanager
def written_aside(path: str) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is whole."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.is_dir():
            raise InputFileError("cannot be written: this is a directory", path=path)
        with aside.open("wb") as file:
            yield file
        aside.replace(target)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = error.strerror or str(error)
        raise InputFileError(f"cannot be written: {reason}", path=path) from None
    finally:
        with suppress(OSError):
            aside.unlink()


class _JsonLines(Output):
    def write(self, answer: Answer) -> None:
        self._stream.write(_ENCODER.encode_lines(list(_objects(answer))))
        self._stream.flush()


def _objects(answer: Answer) -> Iterator[dict[str, Any]]:
    """An object for each event, also for those that match nothing."""
    keys, table = answer.keys, answer.table
    if "matches" in table.column_names:
        for key, matches in zip(keys, table["matches"].to_pylist(), strict=True):
            yield {"event": key, "matches": matches}
        return
    rules = table["rule"].to_pylist()
    bounds = np.searchsorted(table["event"].to_numpy(), np.arange(len(keys) + 1)).tolist()
    if "score" not in table.column_names:
        for i, key in enumerate(keys):
            yield {"event": key, "rules": rules[bounds[i] : bounds[i + 1]]}
        return
    scores = table["score"].to_pylist()
    best = [{"rule": rule, "score": score} for rule, score in zip(rules, scores, strict=True)]
    for i, key in enumerate(keys):
        yield {"event": key, "top": best[bounds[i] : bounds[i + 1]]}


class _Csv(Output):
    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__(stream, path)
        self._text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._begun = False

    def write(self, answer: Answer) -> None:
        if not self._begun:
            self._writer.writerow(answer.table.column_names)
            self._begun = True
        events, *others = (column.to_pylist() for column in answer.table.columns)
        self._writer.writerows(zip((answer.keys[event] for event in events), *others, strict=True))

    def close(self) -> None:
        self._text.detach()


class _Parquet(Output):
    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__(stream, path)
        self._writer: pq.ParquetWriter | None = None

    def write(self, answer: Answer) -> None:
        events = self._event_column(answer)
        columns = [events, *(_storable(column) for column in answer.table.columns[1:])]
        table = pa.table(columns, names=answer.table.column_names)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, table.schema)
        elif table.schema != self._writer.schema:
            raise self._mixed_ids()
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _event_column(self, answer: Answer) -> pa.Array:
        kind = pa.string() if answer.keys and isinstance(answer.keys[0], str) else pa.int64()
        try:
            return pa.array(answer.keys, kind).take(answer.table["event"].combine_chunks())
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise self._mixed_ids() from None

    def _mixed_ids(self) -> InputFileError:
        return InputFileError(
            "some event ids are integers and some are strings, and a Parquet column holds one "
            "kind only; write JSON lines instead",
            path=self._path,
        )


def _storable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column as Parquet can hold it; ids of both kinds become texts."""
    if not pa.types.is_union(column.type):
        return column
    return pa.array([str(id) for id in column.to_pylist()], pa.string())


_WRITERS: dict[Format, Callable[[IO[bytes], str], Output]] = {
    Format.JSON_LINES: _JsonLines,
    Format.CSV: _Csv,
    Format.PARQUET: _Parquet,
}
