"""What all file formats share: a version and checksums."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from tamis.errors import StorageError

__all__ = ["CHECKSUM", "FORMAT", "check_format"]

FORMAT = 6
"""The version of all file formats. Every change of one of them increments it."""

CHECKSUM: Final = struct.Struct("<I")
"""A CRC-32, little-endian."""


def check_format(path: Path, version: int) -> None:
    """Raise `StorageError` if a file has a newer format than this version of Tamis reads."""
    if version > FORMAT:
        raise StorageError(
            f"it has format {version}, and this Tamis reads formats up to {FORMAT}; "
            "use a newer Tamis",
            path=str(path),
        )
