"""Sort keys for semantic versions: 1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0.

This is the order of https://semver.org and of GrowthBook. Between dots and hyphens, numbers compare
by size and come before words, and words compare by code point. Three numbers alone come after the
same numbers with more parts. A leading ``v`` and everything after a ``+`` are ignored. Every string
has a key.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["semver_key"]

_SEPARATOR: Final = re.compile(r"[-.]")
_NUMBER, _WORD, _RELEASE = "A", "B", "C"
"""How each part of a key begins."""

_END: Final = "\x00"
_LONGEST_NUMBER: Final = 5000
"""Longer numbers compare by their first digits only."""


@lru_cache(maxsize=65_536)
def semver_key(text: str) -> str:
    """A key that sorts as `text` does among semantic versions."""
    parts = _SEPARATOR.split(text.removeprefix("v").partition("+")[0])
    return "".join(map(_key, parts)) + (_RELEASE if len(parts) == 3 else "")


def _key(part: str) -> str:
    if part.isascii() and part.isdigit():
        digits = part.lstrip("0")
        return _NUMBER + chr(ord("!") + min(len(digits), _LONGEST_NUMBER)) + digits
    return _WORD + part.replace(_END, "\x01") + _END
