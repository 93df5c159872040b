"""An input file: its format, its bytes, and errors that point into it."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Final, TypeAlias, cast

import msgspec
import pyarrow as pa

from tamis.encode.json.texts import describe_json_error
from tamis.errors import InputFileError
from tamis.files.compression import Compression, compression_of, decompress
from tamis.matcher.analysis.near_names import find_near, list_near

__all__ = [
    "LONGEST_LINE",
    "STDIN",
    "Bytes",
    "Format",
    "Paths",
    "Source",
    "detect_format",
    "display_path",
    "find_files",
    "join_fractions",
    "open_source",
    "wrap_read_errors",
]

STDIN: Final = "-"
"""The name of standard input, which is read as JSON lines; for output, of standard output."""

Bytes: TypeAlias = io.BufferedIOBase

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One or more files or folders."""

_BLOCK = 1 << 22
"""How many bytes are read at a time."""

LONGEST_LINE: Final = 1 << 26
"""How many bytes a line may have. Parsed, a line takes up to eight times as much memory."""

_LARGEST_DOCUMENT: Final = 1 << 30
"""How many bytes a .json file may have, decompressed; it is read as a whole."""

_BOM = b"\xef\xbb\xbf"


class Format(StrEnum):
    """The format of a file."""

    JSON = "JSON"
    """One array of objects, or one object; a file of several lines of objects is JSON lines."""
    JSON_LINES = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"


_PLACES: Final = {Format.PARQUET: "row", Format.JSON: "object"}

_FORMATS: Final = {
    ".json": Format.JSON,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}


def display_path(path: str) -> str:
    """The name of `path` in error messages."""
    return "<stdin>" if path == STDIN else path


def detect_format(path: str) -> tuple[Format, Compression | None]:
    """The format by the file's extension, and how the file is compressed.

    Raises
    ------
    InputFileError
        The extension is unknown.
    """
    name = PurePath(path).name.lower()
    compression = compression_of(name)
    found = _FORMATS.get(PurePath(name.removesuffix(compression or "")).suffix)
    if found is None or (compression and found is Format.PARQUET):
        raise InputFileError(
            "unknown extension; expected .jsonl, .ndjson, .json or .csv, each optionally followed "
            "by .gz or .zst, or .parquet",
            path=path,
        )
    return found, compression


def find_files(paths: Paths) -> list[str]:
    """List files: those named, and in place of a folder the files in it that can be read, sorted.

    Raises
    ------
    InputFileError
        A folder has no such file.
    """
    files: list[str] = []
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    for one in named:
        path = os.fspath(one)
        if path == STDIN or not Path(path).is_dir():
            files.append(path)
            continue
        found = sorted(str(file) for file in Path(path).rglob("*") if _is_readable(file))
        if not found:
            raise InputFileError(
                "the folder has no file whose name ends in .jsonl, .ndjson, .json, .csv or "
                ".parquet",
                path=path,
            )
        files += found
    return files


def join_fractions(fraction: float | None, done: int, files: int) -> float | None:
    """How much of several files was read: `done` of them, and a fraction of the next one."""
    return None if fraction is None else (done + fraction) / files


def _is_readable(file: Path) -> bool:
    if file.name.startswith((".", "_")) or not file.is_file():
        return False
    try:
        detect_format(file.name)
    except InputFileError:
        return False
    return True


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
        """An error at the line `number`; in Parquet at the row, in JSON at the object."""
        if self.format not in (Format.PARQUET, Format.JSON):
            return InputFileError(message, path=self.path, line=number)
        where = "" if number is None else f"{self.locate(number)}: "
        return InputFileError(where + message, path=self.path)

    def locate(self, number: int) -> str:
        """``line 7``; in Parquet ``row 7``, in an array of JSON ``object 7``."""
        return f"{_PLACES.get(self.format, 'line')} {number}"

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
            file_format, compression = detect_format(path)
            if not status.st_size:
                raise InputFileError("the file is empty", path=path)
            stream = raw if compression is None else decompress(raw, compression)
            if file_format is Format.JSON:
                file_format, text = _split_json(path, stream)
                stream = io.BytesIO(text)
            yield Source(path, file_format, stream, raw, status.st_size)


def _split_json(path: str, stream: Bytes) -> tuple[Format, bytes]:
    """The objects of a JSON text, one a line, and the format that numbers them.

    A text that begins with an object and goes on after it is taken for JSON lines.
    """
    text = stream.read(_LARGEST_DOCUMENT).removeprefix(_BOM)
    if len(text) == _LARGEST_DOCUMENT:
        raise InputFileError(
            f"the array has more than {_LARGEST_DOCUMENT >> 20} MiB; write JSON lines", path=path
        )
    try:
        if not text.lstrip().startswith(b"["):
            document = msgspec.json.decode(text, type=msgspec.Raw)
            return Format.JSON, msgspec.json.format(document, indent=-1)
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if text.lstrip().startswith(b"{"):
            return Format.JSON_LINES, text
        raise InputFileError(f"not valid JSON: {describe_json_error(error)}", path=path) from None
    return Format.JSON, b"\n".join(msgspec.json.format(item, indent=-1) for item in items)


@contextmanager
def wrap_read_errors(path: str) -> Iterator[None]:
    """Turn any error in reading the file `path` into an `InputFileError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputFileError(f"there is no such file{_suggest(path)}", path=path) from None
    except IsADirectoryError:
        raise InputFileError("this is a directory; name a file", path=path) from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise InputFileError(f"cannot be read: {reason}", path=path) from None


def _suggest(path: str) -> str:
    """Files of a similar name in the same folder, as part of a message."""
    folder = Path(path).parent
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        return ""
    return list_near([str(folder / name) for name in find_near(Path(path).name, names)])
