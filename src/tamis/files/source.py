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

__all__ = [
    "LONGEST_LINE",
    "STDIN",
    "Bytes",
    "Format",
    "Source",
    "detect_format",
    "display_path",
    "open_source",
    "wrap_read_errors",
]

STDIN: Final = "-"
"""The name of standard input, which is read as JSON lines; for output, of standard output."""

Bytes: TypeAlias = io.BufferedIOBase

_BLOCK = 1 << 22
"""How many bytes are read at a time."""

LONGEST_LINE: Final = 1 << 26
"""How many bytes a line may have. Parsed, a line takes up to eight times as much memory."""

_BOM = b"\xef\xbb\xbf"


class Format(StrEnum):
    """The format of a file."""

    JSON_LINES = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"


_FORMATS: Final = {
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}


def display_path(path: str) -> str:
    """The name of `path` in error messages."""
    return "<stdin>" if path == STDIN else path


def detect_format(path: str) -> tuple[Format, bool]:
    """The format by the file's extension, and whether the file is compressed with gzip.

    Raises
    ------
    InputFileError
        The extension is unknown.
    """
    name = PurePath(path).name.lower()
    compressed = name.endswith(".gz")
    found = _FORMATS.get(PurePath(name.removesuffix(".gz")).suffix)
    if found is None or (compressed and found is Format.PARQUET):
        raise InputFileError(
            "unknown extension; expected .jsonl, .ndjson or .csv, each optionally followed by "
            ".gz, or .parquet",
            path=path,
        )
    return found, compressed


class Source:
    """An open input file.

    Parameters
    ----------
    path
        The file, as the caller named it.
    file_format
        Its format.
    stream
        Its bytes, decompressed.
    raw
        The file below `stream`; its position is how far it was read.
    size
        The size of `raw`; None for a pipe.
    """

    def __init__(
        self, path: str, file_format: Format, stream: Bytes, raw: Bytes, size: int | None
    ) -> None:
        self.path = display_path(path)
        self.format = file_format
        self.stream = stream
        self._raw = raw
        self._size = size

    @property
    def fraction(self) -> float | None:
        """The fraction of the file that was read; None for a pipe, whose size is unknown."""
        return None if self._size is None else min(1.0, self._raw.tell() / self._size)

    def error(self, message: str, number: int | None = None) -> InputFileError:
        """An error at the line `number`; in Parquet, at the row of that number."""
        if self.format is not Format.PARQUET:
            return InputFileError(message, path=self.path, line=number)
        where = "" if number is None else f"{self.locate(number)}: "
        return InputFileError(where + message, path=self.path)

    def locate(self, number: int) -> str:
        """``line 7``; in Parquet, ``row 7``."""
        return f"{'row' if self.format is Format.PARQUET else 'line'} {number}"

    def line_blocks(self) -> Iterator[list[bytes]]:
        """All lines, a block at a time; from a pipe, those that have arrived, without waiting.

        Raises
        ------
        InputFileError
            A line is longer than `LONGEST_LINE`.
        """
        done = 0
        for block in self.blocks():
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            done += len(lines)
            # Only the last line can be longer than a block.
            if lines and len(lines[-1]) >= LONGEST_LINE:
                raise self.too_long_error(done)
            yield lines

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, a block at a time; from a pipe, those that have arrived, without waiting.

        Of a line that is longer than `LONGEST_LINE`, only the beginning is there.
        """
        read = self.stream.read1 if self._size is None else self.stream.read
        is_first = True
        while block := read(_BLOCK):
            if not block.endswith(b"\n"):
                block += self.stream.readline(LONGEST_LINE)
            yield block.removeprefix(_BOM) if is_first else block
            is_first = False

    def read_line(self) -> bytes:
        """Everything that is left, which should be one short text.

        Raises
        ------
        InputFileError
            It is longer than `LONGEST_LINE`.
        """
        text = self.stream.read(LONGEST_LINE)
        if len(text) == LONGEST_LINE:
            raise self.too_long_error(None)
        return text

    def too_long_error(self, number: int | None) -> InputFileError:
        """The error of a line that is too long to be read."""
        return self.error(
            f"the line has more than {LONGEST_LINE >> 20} MiB; write one object a line", number
        )

    def text_lines(self) -> Iterator[str]:
        """All lines as text, each with its line end."""
        number = 0
        for lines in self.line_blocks():
            for line in lines:
                number += 1
                yield self.decode(line, number) + "\n"

    def decode(self, line: bytes, number: int) -> str:
        """Decode `line`.

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

    Errors that occur while it is open become `InputFileError`. A named pipe, such as the shell's
    ``<(…)``, is read as JSON lines.
    """
    with wrap_read_errors(display_path(path)):
        if path == STDIN:
            if sys.stdin is None:
                raise InputFileError("standard input is closed", path=display_path(path))
            stdin = cast(Bytes, sys.stdin.buffer)
            yield Source(path, Format.JSON_LINES, stdin, stdin, None)
            return
        with open(path, "rb") as raw:  # noqa: PTH123  # errors name the path as given
            status = os.fstat(raw.fileno())
            if not stat.S_ISREG(status.st_mode):
                yield Source(path, Format.JSON_LINES, raw, raw, None)
                return
            file_format, compressed = detect_format(path)
            if not status.st_size:
                raise InputFileError("the file is empty", path=path)
            stream = gzip.GzipFile(fileobj=raw) if compressed else raw
            yield Source(path, file_format, stream, raw, status.st_size)


@contextmanager
def wrap_read_errors(path: str) -> Iterator[None]:
    """Turn any error in reading the file `path` into an `InputFileError`."""
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
