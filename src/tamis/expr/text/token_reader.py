"""A cursor over the tokens of a rule's text that reads names and literals.

The readers of terms, subqueries and whole rules build on it. Every error says what was expected,
and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr.lexemes import NUMERAL
from tamis.expr.model import FLIPPED, Op, Value, value_of_literal
from tamis.expr.names import is_computed
from tamis.expr.text.literals import read_day, read_number, read_timestamp, spell
from tamis.expr.text.tokens import (
    BOOLEAN,
    END,
    NAME,
    NUMBER,
    QUOTED_NAME,
    STRING,
)

__all__ = ["COMPARISONS", "LITERALS", "TokenReader"]

COMPARISONS: Final = {"<>": (Op.EQ, True), **{op.value: (op, False) for op in FLIPPED}}
"""The operator of each comparison sign, and whether it is negated."""

LITERALS: Final = (STRING, NUMBER, BOOLEAN, "-", ".")
"""Kinds of tokens that begin a literal; a type's name may, too."""

_TYPES: Final[dict[str, Callable[[str], Value]]] = {"DATE": read_day, "TIMESTAMP": read_timestamp}
_NUMERAL: Final = re.compile(NUMERAL)
_HINTS: Final = {
    ";": "a text holds one rule",
    "--": "a rule cannot contain comments",
    "/*": "a rule cannot contain comments",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT",
}
"""Hints for the signs of other languages."""

_T = TypeVar("_T")


class TokenReader:
    """A cursor over the tokens of a text; `at` is the index of the next one."""

    def __init__(self, text: str) -> None:
        from tamis.expr.text.tokenizer import kind_of, tokenize

        self.text = text
        self.tokens = tokenize(text)
        self.kinds = [kind_of(token) for token in self.tokens]
        self.kinds.append(END)
        self.at = 0

    # Names and values.

    def read_attribute(self) -> str:
        """Read the name of an attribute, with its dots."""
        start = self.at
        parts = [self.read_name()]
        while self.take("."):
            parts.append(self.read_name())
        name = ".".join(parts)
        if self.kinds[self.at] == "(":
            raise self.error(f"unknown function {name}", start)
        if is_computed(name):
            raise self.error("an attribute's name must not begin with a control character", start)
        return name

    def read_name(self) -> str:
        """Read a name, which may be a reserved word after a dot."""
        kind = self.kinds[self.at]
        if kind == END or not (kind == QUOTED_NAME or self.tokens[self.at].text.isidentifier()):
            raise self.expected_error("a name", 'put one with other characters in "quotes"')
        self.at += 1
        return self.tokens[self.at - 1].text

    def read_list(self) -> tuple[Value, ...]:
        """Read one or more literals in parentheses."""
        if not self.take("("):
            raise self.expected_error(f"'(' after {self.source(self.at - 1)}")
        opened_at = self.at - 1
        if self.kinds[self.at] == ")":
            raise self.expected_error("a value after '('", "an IN list has at least one")
        values = [self.read_value()]
        while self.take(","):
            values.append(self.read_value())
        if not self.take(")"):
            raise self.expected_error(f"',' or ')' in the list that starts {self.place(opened_at)}")
        return tuple(values)

    def read_operands(self, kind: str) -> tuple[Value, ...]:
        """Read the values after IN, BETWEEN, LIKE, ILIKE or RLIKE."""
        if kind == "IN":
            return self.read_list()
        first = self.read_value()
        if kind == "BETWEEN":
            if not self.take("AND"):
                raise self.expected_error("AND between the two values of BETWEEN")
            return (first, self.read_value())
        if self.kinds[self.at] == NAME and self.tokens[self.at].text.upper() == "ESCAPE":
            self.at += 1
            return (first, self.read_value())
        return (first,)

    def read_value(self) -> Value:
        """Read a literal."""
        start = self.at
        kind = self.kinds[start]
        if kind == STRING:
            self.at += 1
            return self.blame(start, value_of_literal, self.tokens[start].text)
        if kind in (NUMBER, "-", "."):
            return self.read_number()
        if kind == BOOLEAN:
            self.at += 1
            return self.tokens[start].text.upper() == "TRUE"
        if self.at_typed_literal():
            return self.read_typed_literal()
        raise self.missing_value_error()

    def read_number(self) -> Value:
        """Read a number with its sign."""
        start = self.at
        negative = self.take("-")
        first = self.at
        self.take(".")
        if not self.take(NUMBER):
            raise self.expected_error(f"a number after {self.source(start)!r}")
        numeral = self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]
        if not _NUMERAL.fullmatch(numeral):
            raise self.error(f"{numeral[:40]!r} is not a number", first)
        size = self.blame(start, read_number, numeral)
        return self.blame(start, value_of_literal, -size if negative else size)

    def at_typed_literal(self) -> bool:
        """Whether ``DATE '…'``, ``TIMESTAMP '…'`` or ``CAST(…)`` comes next."""
        if self.kinds[self.at] != NAME:
            return False
        word = self.tokens[self.at].text.upper()
        following = self.kinds[self.at + 1]
        return following == STRING if word in _TYPES else following == "(" and word == "CAST"

    def read_typed_literal(self) -> Value:
        """Read a literal that names its type."""
        word = self.tokens[self.at].text.upper()
        if word in _TYPES:
            text_at = self.at + 1
            self.at += 2
        else:
            text_at = self.at + 2
            word = self.read_cast()
        return self.blame(text_at, _TYPES[word], self.tokens[text_at].text)

    def read_cast(self) -> str:
        """Read a whole CAST, and return the type that it names."""
        words = [token.text.upper() for token in self.tokens[self.at : self.at + 6]]
        is_cast = self.kinds[self.at : self.at + 6] == [NAME, "(", STRING, NAME, NAME, ")"]
        if not is_cast or words[3] != "AS" or words[4] not in _TYPES:
            raise self.error("expected CAST('…' AS DATE) or CAST('…' AS TIMESTAMP)")
        self.at += 6
        return words[4]

    def take(self, kind: str) -> bool:
        """Step over the next token if it is of that kind."""
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def blame(self, culprit: int, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call `function`; an error that it raises gets the position of the token `culprit`."""
        try:
            return function(*arguments)
        except (PatternError, RuleTooLargeError) as error:
            error.position = self.position(culprit)
            raise
        except RuleSyntaxError:
            raise
        except RuleError as error:
            raise self.error(error.message, culprit) from None

    # Errors: what was expected, and what to write instead.

    def error(self, message: str, at: int | None = None) -> RuleSyntaxError:
        """An error about the token `at`, or the next one."""
        position = self.position(self.at if at is None else at)
        return RuleSyntaxError(message, text=self.text, position=position)

    def expected_error(self, what: str, hint: str = "") -> RuleSyntaxError:
        """An error about the next token: something else was expected."""
        message = f"expected {what}"
        if self.kinds[self.at] != END:
            message += f", not {self.source(self.at)[:40]!r}"
            start = self.position(self.at)
            hint = hint or _HINTS.get(self.text[start : start + 2], "")
            hint = hint or _HINTS.get(self.text[start], "")
        return self.error(f"{message}; {hint}" if hint else message)

    def missing_value_error(self) -> RuleSyntaxError:
        """The error for a token where a value was expected."""
        start = self.at
        kind = self.kinds[start]
        what = f"a value after {self.source(start - 1)!r}" if start else "a value"
        if kind == "NULL":
            return self.error("NULL is not a value; write IS NULL or IS NOT NULL")
        if kind in COMPARISONS:
            return self.expected_error(what, "one sign is enough")
        if kind not in (NAME, QUOTED_NAME):
            return self.expected_error(what)
        name = self.read_attribute()
        self.at = start
        if name.upper() == "SELECT":
            return self.error("write a subquery in parentheses after EXISTS, IN, ANY or ALL")
        return self.expected_error(
            what, f"an attribute is not allowed here; a string is {spell(name)}"
        )

    def place(self, at: int) -> str:
        """The position of a token, in words."""
        return f"at character {self.position(at) + 1}"

    def position(self, at: int) -> int:
        """The offset of a token."""
        return self.tokens[at].start if at < len(self.tokens) else len(self.text.rstrip())

    def source(self, at: int) -> str:
        """The text of a token as written."""
        return self.text[self.tokens[at].start : self.tokens[at].end + 1]
