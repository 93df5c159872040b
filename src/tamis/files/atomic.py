"""Outputs: files that appear only when they are complete, and standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tamis.errors import InputFileError

__all__ = ["get_stdout", "write_atomically"]


@contextmanager
def write_atomically(path: str) -> Iterator[IO[bytes]]:
    """Open a hidden file beside `path`, and rename it to `path` when the block succeeds.

    Raises
    ------
    InputFileError
        The file cannot be written.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.is_dir():
            raise InputFileError("cannot be written: this is a directory", path=path)
        with part.open("wb") as file:
            yield file
        part.replace(target)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = error.strerror or str(error)
        raise InputFileError(f"cannot be written: {reason}", path=path) from None
    finally:
        with suppress(OSError):
            part.unlink()


def get_stdout() -> IO[bytes]:
    """Standard output, for bytes.

    Raises
    ------
    InputFileError
        It is closed.
    """
    if sys.stdout is None:
        raise InputFileError("standard output is closed", path="<stdout>")
    return sys.stdout.buffer
