"""An input file: its format, its bytes, and errors that point into it."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePath
from typing import Final, TypeAlias, cast

import pyarrow as pa

from tamis.errors import InputFileError

__all__ = ["STDIN", "Format", "Source", "blaming", "format_of", "open_source", "shown"]

STDIN: Final = "-"
"""The name that stands for standard input; what comes from there is JSON lines."""

Bytes: TypeAlias = io.BufferedIOBase

_BLOCK = 1 << 22
"""How many bytes are read at a time."""

_BOM = b"\xef\xbb\xbf"


class Format(StrEnum):
    """What a file holds."""

    JSON_LINES = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"


_FORMATS: Final = {
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}


def shown(path: str) -> str:
    """`path` as errors name it."""
    return "<stdin>" if path == STDIN else path


def format_of(path: str) -> tuple[Format, bool]:
    """The format that the file's name tells, and whether it is compressed with gzip.

    Raises
    ------
    InputFileError
        The extension is not known.
    """
    name = PurePath(path).name.lower()
    compressed = name.endswith(".gz")
    found = _FORMATS.get(PurePath(name.removesuffix(".gz")).suffix)
    if found is None or (compressed and found is Format.PARQUET):
        raise InputFileError(
            "unknown extension; expected .jsonl, .ndjson or .csv, each also with .gz behind it, "
            "or .parquet",
            path=path,
        )
    return found, compressed


class Source:
    """An open input file.

    Parameters
    ----------
    path
        The file as it was named.
    holds
        Its format.
    stream
        Its bytes, decompressed.
    raw
        The file below `stream`, which tells how far it was read.
    size
        The size of `raw`; None for a pipe.
    """

    def __init__(
        self, path: str, holds: Format, stream: Bytes, raw: Bytes, size: int | None
    ) -> None:
        self.path = shown(path)
        self.format = holds
        self.stream = stream
        self._raw = raw
        self._size = size

    @property
    def fraction(self) -> float | None:
        """How much of the file was read; None for a pipe, of which nobody knows."""
        return None if self._size is None else min(1.0, self._raw.tell() / self._size)

    def error(self, message: str, number: int | None = None) -> InputFileError:
        """An error at the line `number`, or at the row of that number where there are no lines."""
        if self.format is not Format.PARQUET:
            return InputFileError(message, path=self.path, line=number)
        where = "" if number is None else f"{self.place(number)}: "
        return InputFileError(where + message, path=self.path)

    def place(self, number: int) -> str:
        """What `number` counts, in words."""
        return f"{'row' if self.format is Format.PARQUET else 'line'} {number}"

    def line_blocks(self) -> Iterator[list[bytes]]:
        """All lines, some at a time; of a pipe those that have come, without waiting for more."""
        read = self.stream.read1 if self._size is None else self.stream.read
        first = True
        while block := read(_BLOCK):
            if not block.endswith(b"\n"):
                block += self.stream.readline()
            if first:
                block = block.removeprefix(_BOM)
                first = False
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            yield lines

    def text_lines(self) -> Iterator[str]:
        """All lines as text, each with its line end."""
        number = 0
        for lines in self.line_blocks():
            for line in lines:
                number += 1
                yield self.text(line, number) + "\n"

    def text(self, line: bytes, number: int) -> str:
        """`line` as text.

        Raises
        ------
        InputFileError
            It is not UTF-8.
        """
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise self.error(
                f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1} of the line", number
            ) from None


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open the file `path`; standard input is ``-``.

    While it is open, whatever goes wrong in reading it becomes an `InputFileError`. A pipe that
    has a name, such as the shell's ``<(…)``, is read as JSON lines.
    """
    with blaming(shown(path)):
        if path == STDIN:
            stdin = cast(Bytes, sys.stdin.buffer)
            yield Source(path, Format.JSON_LINES, stdin, stdin, None)
            return
        with open(path, "rb") as raw:  # noqa: PTH123  # the path is shown as it was given
            status = os.fstat(raw.fileno())
            if not stat.S_ISREG(status.st_mode):
                yield Source(path, Format.JSON_LINES, raw, raw, None)
                return
            holds, compressed = format_of(path)
            if not status.st_size:
                raise InputFileError("the file is empty", path=path)
            stream = gzip.GzipFile(fileobj=raw) if compressed else raw
            yield Source(path, holds, stream, raw, status.st_size)


@contextmanager
def blaming(path: str) -> Iterator[None]:
    """Whatever goes wrong in reading the file `path` becomes an `InputFileError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputFileError("there is no such file", path=path) from None
    except IsADirectoryError:
        raise InputFileError("this is a directory; name a file", path=path) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputFileError(f"truncated or corrupt gzip data: {error}", path=path) from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise InputFileError(f"cannot be read: {reason}", path=path) from None
