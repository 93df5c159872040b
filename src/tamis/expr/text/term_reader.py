"""Reads terms, the sides of a comparison: ``(price + tax) * 2``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tamis.errors import RuleSyntaxError, RuleTooLargeError
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import ALIASES, COMPARISONS, FUNCTIONS, SIGNS
from tamis.expr.functions.terms import SIZE, Attribute, Call, Constant, Term, call, suggest
from tamis.expr.model import Value
from tamis.expr.text.token_reader import LITERALS, TokenReader
from tamis.expr.text.tokens import NAME, NUMBER, QUOTED_NAME, STRING

__all__ = ["TermReader"]

_MAX_NESTING: Final = 32
"""How deep a term may be nested. A real one has below five levels."""

_SINGLE: Final = (NAME, STRING, NUMBER)
_GOES_ON: Final = frozenset([*SIGNS, "(", ".", STRING, NUMBER])
"""The tokens that begin a term of one token, and those that continue a term."""

_T = TypeVar("_T")


class TermReader(TokenReader):
    """Reads terms: an attribute, a literal, or a function of terms."""

    conditions: frozenset[str] = frozenset()
    """Functions that are conditions, not values, for a better error than "unknown function"."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nesting = 0

    def read_term(self) -> Term:
        """Read a term."""
        kind = self.kinds[self.at]
        # The fast path: most terms are one token.
        if kind in _SINGLE and self.kinds[self.at + 1] not in _GOES_ON:
            return Attribute(self.read_attribute()) if kind is NAME else Constant(self.read_value())
        return self.read_chain(1)

    def read_chain(self, level: int) -> Term:
        """Read terms with signs of one level between them; signs associate to the left."""
        if level > 2:
            return self.read_factor()
        start = self.at
        result = self.read_chain(level + 1)
        while SIGNS.get(self.kinds[self.at]) == level:
            if self.text[self.position(self.at) :][:2] in ("--", "/*"):
                raise self.error("a rule cannot contain comments")
            sign = self.kinds[self.at]
            self.at += 1
            result = self.blame(start, call, sign, (result, self.read_chain(level + 1)))
        return result

    def read_factor(self) -> Term:
        """Read a literal, an attribute, a call, or a term in parentheses."""
        start = self.at
        kind = self.kinds[start]
        if kind == "(":
            return self.read_parenthesised()
        if kind == "-" and self.kinds[start + 1] in (NAME, QUOTED_NAME, "(", "-"):
            self.at += 1
            return self.read_nested(
                lambda: self.blame(start, call, "negative", (self.read_factor(),))
            )
        if kind in LITERALS or self.at_typed_literal():
            return Constant(self.read_value())
        if kind not in (NAME, QUOTED_NAME):
            raise self.missing_value_error()
        if kind == NAME and self.kinds[start + 1] == "(":
            return self.read_nested(self.read_call)
        return Attribute(self.read_attribute())

    def read_parenthesised(self) -> Term:
        """Read a term, or a comparison of two terms, in parentheses."""
        opened_at = self.at
        self.at += 1
        result = self.read_nested(self.read_term)
        sign = self.kinds[self.at]
        if sign in COMPARISONS:
            self.at += 1
            right = self.read_nested(self.read_term)
            if isinstance(result, Constant) or isinstance(right, Constant):
                raise self.error("write the comparison without parentheses", opened_at)
            result = self.blame(opened_at, call, sign, (result, right))
        if not self.take(")"):
            raise self.expected_error(f"')' to close the '(' {self.place(opened_at)}")
        return result

    def read_nested(self, read: Callable[[], _T]) -> _T:
        """Call `read` one level deeper."""
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise RuleTooLargeError(
                f"functions and arithmetic are nested more than {_MAX_NESTING} levels deep",
                position=self.position(self.at),
            )
        result = read()
        self.nesting -= 1
        return result

    def read_call(self) -> Call:
        """Read a call of a function."""
        start = self.at
        function = self.read_function()
        if function in self.conditions:
            message = f"{function}(…) is a condition, not a value; join conditions with AND and OR"
            raise self.error(message, start)
        if function in FUNCTIONS:
            takes = len(FUNCTIONS[function].takes)
            least, most = FUNCTIONS[function].required, len(FUNCTIONS[function].literals)
        elif function == SIZE or function in FAMILIES:
            # Without literals, a condition of a family names the family's attribute.
            takes, least, most = 1 if function == SIZE else len(FAMILIES[function].takes), 0, 0
        else:
            raise self.unknown_function(start)
        terms, literals = self.read_arguments(function, takes, least, most)
        return self.blame(start, call, function, terms, literals)

    def read_function(self) -> str:
        """Read the name of a function and the opening parenthesis."""
        name = self.tokens[self.at].text.lower()
        self.at += 2
        return ALIASES.get(name, name)

    def read_arguments(
        self, function: str, takes: int, least: int, most: int
    ) -> tuple[tuple[Term, ...], tuple[Value, ...]]:
        """Read `takes` terms, `least` to `most` literals and the closing parenthesis."""
        opened_at = self.at - 1
        terms: list[Term] = []
        literals: list[Value] = []
        while self.kinds[self.at] != ")":
            if terms and not self.take(","):
                raise self.expected_error(
                    f"',' or ')' in the call that starts {self.place(opened_at)}"
                )
            if len(terms) < takes:
                terms.append(self.read_term())
            elif len(literals) < most:
                literals.append(self.read_value())
            else:
                break
        if len(terms) < takes or len(literals) < least or not self.take(")"):
            raise self.error(f"{function} takes {_arity(takes, least, most)}", opened_at - 1)
        return tuple(terms), tuple(literals)

    def unknown_function(self, at: int) -> RuleSyntaxError:
        """The error for a call of an unknown function."""
        name = self.tokens[at].text
        known = [*FUNCTIONS, *ALIASES, *FAMILIES, *self.conditions, SIZE]
        return self.error(f"unknown function {name}{suggest(name, known)}", at)


def _arity(terms: int, least: int, most: int) -> str:
    """How many arguments a function takes, in words."""
    fewest, highest = terms + least, terms + most
    count = str(fewest) if fewest == highest else f"{fewest} to {highest}"
    return f"{count} argument{'s' if highest > 1 else ''}"
