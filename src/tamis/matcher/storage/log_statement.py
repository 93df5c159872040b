"""Statements at the start of a log: how long it is at least, and which log continues it.

A statement says only what is true already: it is written after the records that it covers, without
waiting for the disk, and a later `fsync` of the log takes it along. So a statement may lag behind
its log, and is never ahead of it. There are two, written in turn: where one is damaged, the other
holds. A log that is shorter than its statement says has lost records.

A record that only the operating system has may be lost by a crash of the machine, and by nothing
else. So the length with such records counts as long as the machine has not booted again since.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from tamis.matcher.storage.file_format import CHECKSUM

__all__ = [
    "STATEMENTS_LENGTH",
    "Statement",
    "pack_statement",
    "pack_twice",
    "read_boot",
    "unpack_newest",
]

_STATEMENT: Final = struct.Struct("<QQ16sQ")
"""The fields of a `Statement`; a checksum follows."""

_LENGTH: Final = _STATEMENT.size + CHECKSUM.size

STATEMENTS_LENGTH: Final = 2 * _LENGTH
"""The bytes of both statements."""

_NO_BOOT: Final = bytes(16)
"""Where the system does not say when it was booted."""

_BOOT_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


class Statement(NamedTuple):
    """What a log says about itself."""

    safe: int
    """How many bytes were on the disk."""
    written: int
    """How many bytes the operating system had."""
    boot: bytes
    """Between which boots of which machine, as random bytes."""
    successor: int = 0
    """The number of the log that continues this one; 0 if there is none yet."""

    def least_length(self) -> int:
        """How long the log must be now."""
        is_same_boot = self.boot != _NO_BOOT and self.boot == read_boot()
        return self.written if is_same_boot else self.safe


def read_boot() -> bytes:
    """What the system calls the time since it was booted; zeros where it has no name for it."""
    try:
        return bytes.fromhex(_BOOT_FILE.read_text("ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return _NO_BOOT


def pack_statement(statement: Statement) -> bytes:
    """A statement as bytes."""
    data = _STATEMENT.pack(*statement)
    return data + CHECKSUM.pack(zlib.crc32(data))


def pack_twice(statement: Statement) -> bytes:
    """Both statements of a log that has only this one to make."""
    return 2 * pack_statement(statement)


def unpack_newest(data: bytes) -> Statement | None:
    """The statement that was made last; None if both are damaged."""
    pieces = (data[:_LENGTH], data[_LENGTH:])
    return max(filter(None, map(_unpack, pieces)), key=_age, default=None)


def _unpack(data: bytes) -> Statement | None:
    fields, checksum = data[: _STATEMENT.size], data[_STATEMENT.size :]
    if len(data) != _LENGTH or CHECKSUM.pack(zlib.crc32(fields)) != checksum:
        return None
    return Statement(*_STATEMENT.unpack(fields))


def _age(statement: Statement) -> tuple[int, int, int]:
    """Rises from each statement of a log to the next."""
    return statement.written, statement.successor, statement.safe
