"""Sort keys for versions, in Maven's order: 1-rc < 1 = 1.0.0 < 1-sp < 1.1.

A version is a sequence of numbers and words, each after a dot or a hyphen; between a digit and a
letter there is an implicit hyphen. Zeros at the end and before a hyphen or a word do not count, nor
do ``ga``, ``final`` and ``release``. Well-known words have an order: alpha, beta, milestone, rc,
snapshot, the release itself, sp. Other words come after these, and numbers after all words. This is
the order that the reference of Maven's POM describes. Maven's own code has no order for some
versions (it can have a < b < c < a for words between numbers); this is the nearest one. Every
string has a key.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest
from typing import Final, NamedTuple

__all__ = ["version_key"]

_TOKEN: Final = re.compile(r"[0-9]+|[^0-9.\-]+|[.\-]")
_ALIASES: Final = {"cr": "rc", "ga": "", "final": "", "release": ""}
_BEFORE_DIGIT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}

_WORDS: Final = {
    "alpha": "A",
    "beta": "B",
    "milestone": "C",
    "rc": "D",
    "snapshot": "E",
    "": "F",
    "sp": "G",
}
_RELEASE, _OTHER_WORD, _HYPHEN_NUMBER, _DOT_NUMBER = "F", "H", "I", "J"
"""How each part of a key begins. The end of a version sorts like the release itself."""

_END_OF_WORD: Final = "\x00"
_LONGEST_NUMBER: Final = 5000
"""Longer numbers compare by their first digits only."""


class _Part(NamedTuple):
    follows_hyphen: bool
    text: str

    @property
    def is_number(self) -> bool:
        return "0" <= self.text[:1] <= "9"

    @property
    def is_null(self) -> bool:
        """Whether it does not count at the end of a sequence."""
        return not self.text.strip("0") if self.is_number else not self.text


_ZERO: Final = _Part(False, "0")


@lru_cache(maxsize=65_536)
def version_key(text: str) -> str:
    """A key that sorts as `text` does among versions."""
    return "".join([_key(part) for part in _trim(_split(text))]) + _RELEASE


def _split(text: str) -> list[_Part]:
    parts: list[_Part] = []
    follows_hyphen, is_open = False, True
    tokens = _TOKEN.findall(text.lower())
    for token, following in zip_longest(tokens, tokens[1:], fillvalue=""):
        if token in ".-":
            if is_open:
                parts.append(_Part(follows_hyphen, "0"))
            follows_hyphen, is_open = token == "-", True
            continue
        if not is_open:
            follows_hyphen = True
        part = _Part(follows_hyphen, token)
        if not part.is_number:
            word = _BEFORE_DIGIT.get(token, token) if following[:1].isdigit() else token
            part = _Part(True, _ALIASES.get(word, word))
        parts.append(part)
        is_open = False
    return parts


def _trim(parts: list[_Part]) -> list[_Part]:
    """`parts` without those that do not count, at the end and before each hyphen."""
    kept: list[_Part] = []
    at_end = True
    for part in reversed(parts):
        if at_end and part.is_null:
            continue
        kept.append(part)
        at_end = part.follows_hyphen
    kept.reverse()
    begins_with_number = not parts or parts[0].is_null or parts[0].is_number
    # A version that begins with a number comes after all that begin with a word.
    return kept if kept[:1] == parts[:1] or not begins_with_number else [_ZERO, *kept]


def _key(part: _Part) -> str:
    if part.is_number:
        digits = part.text.lstrip("0")
        length = chr(ord("!") + min(len(digits), _LONGEST_NUMBER))
        return (_HYPHEN_NUMBER if part.follows_hyphen else _DOT_NUMBER) + length + digits
    known = _WORDS.get(part.text)
    if known is not None:
        return known
    return _OTHER_WORD + part.text.replace(_END_OF_WORD, "\x01") + _END_OF_WORD
