"""Semantic versions as texts whose order is theirs: 1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0.

That is the order of https://semver.org, and GrowthBook's: of what stands between dots and hyphens,
numbers compare by size and come before words, words compare by code point, and three numbers
alone come after all that have more behind them. A leading ``v`` and what follows a ``+`` do not
count. Any string is a version, if need be one that only this order knows.
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
"""How many digits are counted; of longer numbers the first digits decide."""


@lru_cache(maxsize=65_536)
def semver_key(text: str) -> str:
    """A text that orders among such texts as `text` does among semantic versions."""
    parts = _SEPARATOR.split(text.removeprefix("v").partition("+")[0])
    return "".join(map(_key, parts)) + (_RELEASE if len(parts) == 3 else "")


def _key(part: str) -> str:
    if part.isascii() and part.isdigit():
        digits = part.lstrip("0")
        return _NUMBER + chr(ord("!") + min(len(digits), _LONGEST_NUMBER)) + digits
    return _WORD + part.replace(_END, "\x01") + _END
