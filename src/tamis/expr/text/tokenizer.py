"""Splits a rule's text into tokens, with sqlglot's tokenizer.

Strings are in single quotes, names may be in double quotes or backticks. Between quotes only the
doubled quote is special; a backslash is a character. Few words are reserved. There are no comments:
``x = 5 --3`` is more likely a slip.

sqlglot takes a tenth of a second to import, so this module is loaded with the first text to parse.
"""

from __future__ import annotations

import re
import threading
from itertools import islice
from typing import Final

from sqlglot import Token, Tokenizer, TokenType
from sqlglot.errors import TokenError

from tamis.errors import RuleSyntaxError, RuleTooLargeError
from tamis.expr.model import MAX_NODES
from tamis.expr.text.tokens import BOOLEAN, NAME, NUMBER, OTHER, QUOTED_NAME, RESERVED, STRING

__all__ = ["kind_of", "tokenize"]

_RESERVED: Final = {word: TokenType[word] for word in RESERVED}

_RESERVED_TYPES: Final = frozenset(_RESERVED.values())

_SIGNS: Final = {
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "%": TokenType.MOD,
    "*": TokenType.STAR,
    "+": TokenType.PLUS,
    ",": TokenType.COMMA,
    "-": TokenType.DASH,
    ".": TokenType.DOT,
    "/": TokenType.SLASH,
    "<": TokenType.LT,
    "<=": TokenType.LTE,
    "<>": TokenType.NEQ,
    "=": TokenType.EQ,
    ">": TokenType.GT,
    ">=": TokenType.GTE,
}

_KINDS: Final[dict[TokenType, str]] = {
    **{token_type: word for word, token_type in _RESERVED.items()},
    **{token_type: sign for sign, token_type in _SIGNS.items()},
    TokenType.TRUE: BOOLEAN,
    TokenType.FALSE: BOOLEAN,
    TokenType.VAR: NAME,
    TokenType.IDENTIFIER: QUOTED_NAME,
    TokenType.STRING: STRING,
    TokenType.NUMBER: NUMBER,
}

_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|(['"`])""")
"""A string or a quoted name up to its next quote: one with a doubled quote is several that touch.
Group 1 is a quote that is never closed."""

_WORDS: Final = re.compile(_QUOTED.pattern + r"|(\bAND\b|\bOR\b|\bNOT\b|\()", re.IGNORECASE)
_MAX_WORDS: Final = 3 * MAX_NODES
"""A node has at most three of those words, as in ``x NOT IN (1) AND``."""


class _Tokenizer(Tokenizer):
    """The lexical rules; sqlglot takes them as class attributes."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012
    COMMENTS = []  # noqa: RUF012
    SINGLE_TOKENS = {**Tokenizer.SINGLE_TOKENS, "!": TokenType.UNKNOWN}  # noqa: RUF012
    KEYWORDS = {  # noqa: RUF012
        **_RESERVED,
        **{sign: token_type for sign, token_type in _SIGNS.items() if len(sign) > 1},
        "!=": TokenType.NEQ,
    }


class _PerThread(threading.local):
    """A tokenizer for each thread: it is costly to create and keeps the text it works on."""

    def __init__(self) -> None:
        self.tokenizer = _Tokenizer()


_per_thread = _PerThread()


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, each with the offsets of its first and last character."""
    _refuse_huge(text)
    # sqlglot skips the comments of Jinja in every dialect.
    if "{#" in text:
        mark = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text).find("{#")
        if mark >= 0:
            raise RuleSyntaxError("a rule cannot contain comments", text=text, position=mark)
    try:
        return _per_thread.tokenizer.tokenize(text)
    except TokenError:
        raise _unclosed_quote_error(text) from None


def kind_of(token: Token) -> str:
    """The kind of a token, which decides how it is parsed."""
    kind = _KINDS.get(token.token_type, OTHER)
    # sqlglot reads a reserved word even if it is spelled with a dotless i.
    return NAME if token.token_type in _RESERVED_TYPES and not token.text.isascii() else kind


def _refuse_huge(text: str) -> None:
    """Refuse a rule of far too many nodes before spending time on it."""
    words = (match for match in _WORDS.finditer(text) if match[2])
    if len(text) > _MAX_WORDS and any(islice(words, _MAX_WORDS, None)):
        raise RuleTooLargeError(
            f"the rule has more than {MAX_NODES:,} nodes; split it, or put the values "
            "of one attribute into one IN list"
        )


def _unclosed_quote_error(text: str) -> RuleSyntaxError:
    start = end = 0
    for match in _QUOTED.finditer(text):
        is_doubled = match.start() == end and text[start] == match[0][0]
        start, end = start if is_doubled else match.start(), match.end()
        if match[1]:
            what = "string" if match[1] == "'" else "name"
            message = f"the {what} that starts here is not closed"
            return RuleSyntaxError(message, text=text, position=start)
    return RuleSyntaxError("the text cannot be read", text=text, position=0)
