"""Sizes that users write: a number of bytes, or a text such as ``8g``."""

from __future__ import annotations

import re

__all__ = ["read_byte_size"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)


def read_byte_size(size: object) -> int | None:
    """A number of bytes, at least 1; None if `size` is none."""
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return None
    return size
