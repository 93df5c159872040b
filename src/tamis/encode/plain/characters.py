"""The bytes of a rule's text: their classes, and the words of the language."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.encode.kernel import kernel

__all__ = [
    "CLASSES",
    "CLOSE",
    "DIGIT",
    "NAME_QUOTE",
    "OPEN",
    "QUOTE",
    "SIGN",
    "SPACE",
    "WORD",
    "keyword",
    "skip_quoted",
    "skip_spaces",
    "skip_word",
    "word_code",
]

OTHER, SPACE, WORD, DIGIT, QUOTE, NAME_QUOTE, OPEN, CLOSE, SIGN = range(9)
"""Classes of bytes. Plain rules have no OTHER byte outside of quotes."""


def _classify() -> bytes:
    classes = bytearray(256)
    members = {
        SPACE: " \t\n\r",
        WORD: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
        DIGIT: "0123456789",
        QUOTE: "'",
        NAME_QUOTE: '"`',
        OPEN: "(",
        CLOSE: ")",
        SIGN: "=<>!,-.",
    }
    for number, characters in members.items():
        for character in characters:
            classes[ord(character)] = number
    return bytes(classes)


CLASSES: Final = np.frombuffer(_classify(), np.uint8)
"""The class of each byte."""

_LOWER: Final = np.uint8(0x20)
"""The bit that tells a small letter from its capital."""
_BEFORE_A: Final = ord("a") - 1
_LETTERS: Final = 26
_MOST_LETTERS: Final = 12
"""How many letters fit into a code, five bits each."""


@kernel
def skip_spaces(data, at, end):
    """The place of the first byte from `at` on that is no space."""
    while at < end and CLASSES[data[at]] == SPACE:
        at += 1
    return at


@kernel
def skip_word(data, at, end):
    """Where the word that begins at `at` ends."""
    while at < end and (CLASSES[data[at]] == WORD or CLASSES[data[at]] == DIGIT):
        at += 1
    return at


@kernel
def skip_quoted(data, at, end):
    """Where the text ends whose opening quote is at `at`; -1 if it is not closed.

    A doubled quote counts as the end of one text and the beginning of the next.
    """
    quote = data[at]
    at += 1
    while at < end:
        if data[at] == quote:
            return at + 1
        at += 1
    return -1


@kernel
def word_code(data, begin, end):
    """The code of the word data[begin:end], whatever its case; 0 if it is not a keyword."""
    if end - begin > _MOST_LETTERS:
        return 0
    code = 0
    for at in range(begin, end):
        letter = np.int64(data[at] | _LOWER) - _BEFORE_A
        if letter < 1 or letter > _LETTERS:
            return 0
        code = (code << 5) | letter
    return code


def keyword(word: str) -> int:
    """The code of a keyword, which is written in small letters."""
    code = 0
    for letter in word:
        code = (code << 5) | (ord(letter) - _BEFORE_A)
    return code
