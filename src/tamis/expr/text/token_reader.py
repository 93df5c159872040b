"""Reads the tokens of a rule's text from left to right: names, values and terms.

What is common to whole rules (:mod:`tamis.expr.text.sql`) and to the names of derived attributes.
Every error says what was expected, and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import ALIASES, COMPARISONS, FUNCTIONS, SIGNS
from tamis.expr.functions.terms import SIZE, Attribute, Call, Constant, Term, call, closest
from tamis.expr.model import Value, value_of_literal
from tamis.expr.names import is_worked_out
from tamis.expr.text.literals import day, number, spell, timestamp
from tamis.expr.text.tokens import (
    BOOLEAN,
    END,
    NAME,
    NUMBER,
    QUOTED_NAME,
    STRING,
    kind_of,
    tokenize,
)

__all__ = ["LITERALS", "Reader"]

LITERALS: Final = (STRING, NUMBER, BOOLEAN, "-", ".")
"""Kinds of tokens that begin a literal; so may a type's name."""

_MAX_NESTING: Final = 32
"""How deep a term may be nested. A real one has below five levels."""

_SINGLE: Final = (NAME, STRING, NUMBER)
_GOES_ON: Final = frozenset([*SIGNS, "(", ".", STRING, NUMBER])
"""What begins a term of one token, and what shows that more of it follows."""

_TYPES: Final[dict[str, Callable[[str], Value]]] = {"DATE": day, "TIMESTAMP": timestamp}
_NUMERAL: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HINTS: Final = {
    ";": "a text holds one rule",
    "--": "a rule holds no comments",
    "/*": "a rule holds no comments",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT",
}
"""What to say about the signs of other languages."""

_T = TypeVar("_T")


class Reader:
    """Reads the tokens of a text; `at` is the index of the next one."""

    conditions: frozenset[str] = frozenset()
    """Functions that make a condition and no value, to be told from unknown ones."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.kinds = [kind_of(token) for token in self.tokens]
        self.kinds.append(END)
        self.at = 0
        self.nesting = 0

    # Terms: an attribute, a literal, or a function of terms.

    def term(self) -> Term:
        """Sums of products."""
        kind = self.kinds[self.at]
        # Most terms are but one token, and rules are read by the million.
        if kind in _SINGLE and self.kinds[self.at + 1] not in _GOES_ON:
            return Attribute(self.attribute()) if kind is NAME else Constant(self.value())
        return self.chain(1)

    def chain(self, level: int) -> Term:
        """Terms with signs of a level between them, read from the left."""
        if level > 2:
            return self.factor()
        start = self.at
        result = self.chain(level + 1)
        while SIGNS.get(self.kinds[self.at]) == level:
            if self.text[self.position(self.at) :][:2] in ("--", "/*"):
                raise self.error("a rule holds no comments")
            sign = self.kinds[self.at]
            self.at += 1
            result = self.checked(start, call, sign, (result, self.chain(level + 1)))
        return result

    def factor(self) -> Term:
        """What binds tightest: a literal, an attribute, a call, or a term in parentheses."""
        start = self.at
        kind = self.kinds[start]
        if kind == "(":
            return self.parenthesised()
        if kind == "-" and self.kinds[start + 1] in (NAME, QUOTED_NAME, "(", "-"):
            self.at += 1
            return self.nested(lambda: self.checked(start, call, "negative", (self.factor(),)))
        if kind in LITERALS or self.at_typed_literal():
            return Constant(self.value())
        if kind not in (NAME, QUOTED_NAME):
            raise self.no_value()
        if kind == NAME and self.kinds[start + 1] == "(":
            return self.nested(self.call)
        return Attribute(self.attribute())

    def parenthesised(self) -> Term:
        """A term in parentheses, or a comparison of two terms in them."""
        opened_at = self.at
        self.at += 1
        result = self.nested(self.term)
        sign = self.kinds[self.at]
        if sign in COMPARISONS:
            self.at += 1
            right = self.nested(self.term)
            if isinstance(result, Constant) or isinstance(right, Constant):
                raise self.error("write the comparison without parentheses", opened_at)
            result = self.checked(opened_at, call, sign, (result, right))
        if not self.take(")"):
            raise self.expected(f"')' to close the '(' {self.place(opened_at)}")
        return result

    def nested(self, read: Callable[[], _T]) -> _T:
        """What `read` reads one level deeper."""
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise RuleTooLargeError(
                f"functions and arithmetic are nested more than {_MAX_NESTING} levels deep",
                position=self.position(self.at),
            )
        result = read()
        self.nesting -= 1
        return result

    def call(self) -> Call:
        """A function of terms and literals."""
        start = self.at
        function = self.function()
        if function in self.conditions:
            message = f"{function}(…) is a condition, no value; join conditions with AND and OR"
            raise self.error(message, start)
        if function in FUNCTIONS:
            takes = len(FUNCTIONS[function].takes)
            least, most = FUNCTIONS[function].required, len(FUNCTIONS[function].literals)
        elif function == SIZE or function in FAMILIES:
            # Without its literals, a condition of a family is the name of the family's attribute.
            takes, least, most = 1 if function == SIZE else len(FAMILIES[function].takes), 0, 0
        else:
            raise self.unknown_function(start)
        terms, literals = self.arguments(function, takes, least, most)
        return self.checked(start, call, function, terms, literals)

    def function(self) -> str:
        """The name of a function, and the parenthesis behind it."""
        name = self.tokens[self.at].text.lower()
        self.at += 2
        return ALIASES.get(name, name)

    def arguments(
        self, function: str, takes: int, least: int, most: int
    ) -> tuple[tuple[Term, ...], tuple[Value, ...]]:
        """So many terms, and then as many literals; the closing parenthesis too."""
        opened_at = self.at - 1
        terms: list[Term] = []
        literals: list[Value] = []
        while self.kinds[self.at] != ")":
            if terms and not self.take(","):
                raise self.expected(f"',' or ')' in the call that starts {self.place(opened_at)}")
            if len(terms) < takes:
                terms.append(self.term())
            elif len(literals) < most:
                literals.append(self.value())
            else:
                break
        if len(terms) < takes or len(literals) < least or not self.take(")"):
            raise self.error(f"{function} takes {_arity(takes, least, most)}", opened_at - 1)
        return tuple(terms), tuple(literals)

    def unknown_function(self, at: int) -> RuleSyntaxError:
        """The error for a call of a function that is not there."""
        name = self.tokens[at].text
        known = [*FUNCTIONS, *ALIASES, *FAMILIES, *self.conditions, SIZE]
        return self.error(f"unknown function {name}{closest(name, known)}", at)

    # Names and values.

    def attribute(self) -> str:
        """The name of an attribute, with its dots."""
        start = self.at
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        name = ".".join(parts)
        if self.kinds[self.at] == "(":
            raise self.error(f"unknown function {name}", start)
        if is_worked_out(name):
            raise self.error("an attribute's name begins with no control character", start)
        return name

    def name(self) -> str:
        """A name, which after a dot may be a reserved word."""
        kind = self.kinds[self.at]
        if kind == END or not (kind == QUOTED_NAME or self.tokens[self.at].text.isidentifier()):
            raise self.expected("a name", 'put one with other characters in "quotes"')
        self.at += 1
        return self.tokens[self.at - 1].text

    def value_list(self) -> tuple[Value, ...]:
        """Literals in parentheses, at least one."""
        if not self.take("("):
            raise self.expected(f"'(' after {self.source(self.at - 1)}")
        opened_at = self.at - 1
        if self.kinds[self.at] == ")":
            raise self.expected("a value after '('", "an IN list holds at least one")
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        if not self.take(")"):
            raise self.expected(f"',' or ')' in the list that starts {self.place(opened_at)}")
        return tuple(values)

    def value(self) -> Value:
        """A literal."""
        start = self.at
        kind = self.kinds[start]
        if kind == STRING:
            self.at += 1
            return self.checked(start, value_of_literal, self.tokens[start].text)
        if kind in (NUMBER, "-", "."):
            return self.number()
        if kind == BOOLEAN:
            self.at += 1
            return self.tokens[start].text.upper() == "TRUE"
        if self.at_typed_literal():
            return self.typed_literal()
        raise self.no_value()

    def number(self) -> Value:
        """A number with its sign."""
        start = self.at
        negative = self.take("-")
        first = self.at
        self.take(".")
        if not self.take(NUMBER):
            raise self.expected(f"a number after {self.source(start)!r}")
        numeral = self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]
        if not _NUMERAL.fullmatch(numeral):
            raise self.error(f"{numeral[:40]!r} is no number", first)
        size = self.checked(start, number, numeral)
        return self.checked(start, value_of_literal, -size if negative else size)

    def at_typed_literal(self) -> bool:
        """Whether ``DATE '…'``, ``TIMESTAMP '…'`` or ``CAST(…)`` comes next."""
        if self.kinds[self.at] != NAME:
            return False
        word = self.tokens[self.at].text.upper()
        following = self.kinds[self.at + 1]
        return following == STRING if word in _TYPES else following == "(" and word == "CAST"

    def typed_literal(self) -> Value:
        """A literal that names its type."""
        word = self.tokens[self.at].text.upper()
        if word in _TYPES:
            text_at = self.at + 1
            self.at += 2
        else:
            text_at = self.at + 2
            word = self.type_of_cast()
        return self.checked(text_at, _TYPES[word], self.tokens[text_at].text)

    def type_of_cast(self) -> str:
        """The type that a CAST names; steps over all of it."""
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

    def checked(self, culprit: int, function: Callable[..., _T], *arguments: Any) -> _T:
        """What `function` returns; its complaint is about the token `culprit`."""
        try:
            return function(*arguments)
        except PatternError as error:
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

    def expected(self, what: str, hint: str = "") -> RuleSyntaxError:
        """An error about the next token, which is not what was expected."""
        message = f"expected {what}"
        if self.kinds[self.at] != END:
            message += f", not {self.source(self.at)[:40]!r}"
            start = self.position(self.at)
            hint = hint or _HINTS.get(self.text[start : start + 2], "")
            hint = hint or _HINTS.get(self.text[start], "")
        return self.error(f"{message}; {hint}" if hint else message)

    def no_value(self) -> RuleSyntaxError:
        """The error for a token that is no value."""
        start = self.at
        kind = self.kinds[start]
        what = f"a value after {self.source(start - 1)!r}" if start else "a value"
        if kind == "NULL":
            return self.error("NULL is no value; write IS NULL or IS NOT NULL")
        if kind in COMPARISONS or kind == "<>":
            return self.expected(what, "one sign is enough")
        if kind not in (NAME, QUOTED_NAME):
            return self.expected(what)
        name = self.attribute()
        self.at = start
        if name.upper() == "SELECT":
            return self.error("a subquery stands after EXISTS, IN, ANY or ALL, in parentheses")
        return self.expected(what, f"no attribute stands here; a string is {spell(name)}")

    def place(self, at: int) -> str:
        """Where a token stands, in words."""
        return f"at character {self.position(at) + 1}"

    def position(self, at: int) -> int:
        """The offset of a token."""
        return self.tokens[at].start if at < len(self.tokens) else len(self.text.rstrip())

    def source(self, at: int) -> str:
        """A token as it is written."""
        return self.text[self.tokens[at].start : self.tokens[at].end + 1]


def _arity(terms: int, least: int, most: int) -> str:
    """How many arguments a function takes, in words."""
    fewest, highest = terms + least, terms + most
    count = str(fewest) if fewest == highest else f"{fewest} to {highest}"
    return f"{count} argument{'s' if highest > 1 else ''}"
