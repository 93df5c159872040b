"""The kinds of tokens that a rule's text is split into; `tamis.expr.text.tokenizer` splits it."""

from __future__ import annotations

from typing import Final

__all__ = ["BOOLEAN", "END", "NAME", "NUMBER", "OTHER", "QUOTED_NAME", "RESERVED", "STRING"]

RESERVED: Final = frozenset("AND BETWEEN FALSE ILIKE IN IS LIKE NOT NULL OR RLIKE TRUE".split())
"""Words that name an attribute only in quotes or after a dot."""

NAME: Final = "name"
QUOTED_NAME: Final = "quoted name"
STRING: Final = "string"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
OTHER: Final = "other"
END: Final = "end"
"""Kinds of tokens. Every reserved word but TRUE and FALSE, and every sign, is its own kind."""
