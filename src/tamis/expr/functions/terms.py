"""Terms, the sides of a comparison: attributes, literals, and functions of terms.

``length(name)``, ``x % 4``, ``(price + tax) * 2``, ``price < list_price``. A function of attributes
is a *derived attribute* whose name is its text (:mod:`tamis.expr.names`). So each term has exactly
one text: :func:`spell_term` writes it, and the reader of terms reads it back.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from tamis.errors import RuleError, RuleTooLargeError
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import COMPARISONS, FUNCTIONS, SIGNS, Type
from tamis.expr.model import Value
from tamis.expr.names import DERIVED
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.literals import spell
from tamis.expr.text.tokens import RESERVED

__all__ = [
    "SIZE",
    "Attribute",
    "Call",
    "Constant",
    "Term",
    "attributes_of",
    "call",
    "check_type",
    "name_of",
    "name_text",
    "spell_term",
    "suggest",
    "type_of",
]

SIZE: Final = "size"
"""The function that counts the values of a list."""

_MAX_LEVELS: Final = 480
"""How many levels of calls a term may have; all functions here rely on this when they recurse.

Stored rules may have chains of this length, from before there was a limit.
"""

_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_COMPARED, _UNARY, _ATOMIC = 0, 3, 4
"""Precedence; the signs of arithmetic lie in between."""


class Attribute(msgspec.Struct, frozen=True):
    """An attribute of the event."""

    name: str


class Constant(msgspec.Struct, frozen=True):
    """A literal."""

    value: Value


class Call(msgspec.Struct, frozen=True):
    """A function of terms; signs are functions, too."""

    function: str
    terms: tuple[Term, ...]
    literals: tuple[Value, ...] = ()


Term: TypeAlias = Attribute | Constant | Call


def call(function: str, terms: tuple[Term, ...], literals: tuple[Value, ...] = ()) -> Call:
    """Build a call of `function`; the caller has checked the number of arguments.

    Raises
    ------
    RuleError
        The type of a term or a literal does not fit.
    RuleTooLargeError
        The call has too many levels of calls.
    """
    _check_levels(terms)
    takes = takes_of(function)
    for term, wanted in zip(terms, takes, strict=True):
        check_type(function, term, wanted)
    if not any(True for term in terms for _ in attributes_of(term)):
        raise RuleError(f"{_spell_call(function, terms)} has no attribute; write its value instead")
    if function in FUNCTIONS:
        for literal, check in zip(literals, FUNCTIONS[function].literals, strict=False):
            check(literal)
    if function in COMPARISONS:
        _check_comparable(*terms)
    return Call(function, terms, literals)


def _check_levels(terms: tuple[Term, ...]) -> None:
    """Refuse the terms of a call that has too many levels."""
    levels = 1
    level = [term for term in terms if isinstance(term, Call)]
    while level:
        levels += 1
        if levels > _MAX_LEVELS:
            raise RuleTooLargeError(
                f"functions and arithmetic have more than {_MAX_LEVELS} levels; each sign of a "
                "chain such as a + b + c is one; compute a part of it in the event"
            )
        level = [inner for term in level for inner in term.terms if isinstance(inner, Call)]


def takes_of(function: str) -> tuple[Type, ...]:
    """The types of the terms of a function."""
    if function == SIZE:
        return (Type.ANY,)
    return FUNCTIONS[function].takes if function in FUNCTIONS else FAMILIES[function].takes


def type_of(term: Term) -> Type:
    """The type of a term, as far as it is known without an event."""
    if isinstance(term, Attribute):
        return Type.ANY
    if isinstance(term, Constant):
        return _type_of_value(term.value)
    if term.function == SIZE:
        return Type.NUMBER
    return FUNCTIONS[term.function].gives if term.function in FUNCTIONS else Type.BOOLEAN


def attributes_of(term: Term) -> Iterator[str]:
    """The names of the attributes in a term, including repeated ones."""
    if isinstance(term, Attribute):
        yield term.name
    elif isinstance(term, Call):
        for inner in term.terms:
            yield from attributes_of(inner)


def name_of(term: Attribute | Call) -> str:
    """The name of the attribute that a term is or derives."""
    return term.name if isinstance(term, Attribute) else DERIVED + spell_term(term)


def suggest(word: str, known: list[str]) -> str:
    """A hint for an unknown function: the known name that is closest, if any."""
    near = difflib.get_close_matches(word.lower(), known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def check_type(function: str, term: Term, wanted: Type) -> None:
    """Refuse a term whose type a function cannot take."""
    given = type_of(term)
    if function == SIZE:
        if not isinstance(term, Attribute):
            raise RuleError(f"size counts the values of an attribute, not of {spell_term(term)}")
        return
    if wanted is Type.ANY or given in (wanted, Type.ANY):
        return
    if wanted is Type.TIMESTAMP and given is Type.STRING:
        return
    raise RuleError(f"{function} takes {wanted}, and {spell_term(term)} is {given}")


def _check_comparable(left: Term, right: Term) -> None:
    a, b = type_of(left), type_of(right)
    keys = (Type.VERSION, Type.SEMVER, Type.ADDRESS)
    if a is b or (Type.ANY in (a, b) and a not in keys and b not in keys):
        return
    raise RuleError(
        f"{spell_term(left)} is {a} and {spell_term(right)} is {b}, which do not compare"
    )


def _type_of_value(value: Value) -> Type:
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, int | float | LongDecimal):
        return Type.NUMBER
    return Type.STRING if isinstance(value, str) else Type.TIMESTAMP


# --- Spelling ---------------------------------------------------------------------------


def name_text(name: str) -> str:
    """The name of an attribute as a rule writes it."""
    if _BARE_NAME.fullmatch(name) and RESERVED.isdisjoint(name.upper().split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


def spell_term(term: Term) -> str:
    """The text of a term; equal terms have equal texts."""
    if isinstance(term, Attribute):
        return name_text(term.name)
    if isinstance(term, Constant):
        return spell(term.value)
    if term.function == "negative":
        return "-" + _operand(term.terms[0], _ATOMIC)
    if _level(term) < _UNARY:
        return _spell_chain(term)
    return _spell_call(term.function, term.terms, term.literals)


def _spell_chain(term: Call) -> str:
    """The text of a sign between two terms, the left of which may be a chain of hundreds."""
    parts: list[str] = []
    while True:
        level = _level(term)
        left, right = term.terms
        # Signs of one level associate to the left.
        parts.append(f" {term.function} {_operand(right, level + 1)}")
        if not isinstance(left, Call) or not max(level, _COMPARED + 1) <= _level(left) < _UNARY:
            return _operand(left, level) + "".join(reversed(parts))
        term = left


def _spell_call(function: str, terms: tuple[Term, ...], literals: tuple[Value, ...] = ()) -> str:
    if function in SIGNS or function in COMPARISONS:
        return f" {function} ".join(map(spell_term, terms))
    return f"{function}({', '.join([*map(spell_term, terms), *map(spell, literals)])})"


def _operand(term: Term, level: int) -> str:
    text = spell_term(term)
    return text if _level(term) >= max(level, _COMPARED + 1) else f"({text})"


def _level(term: Term) -> int:
    if not isinstance(term, Call):
        return _ATOMIC
    if term.function in COMPARISONS:
        return _COMPARED
    if term.function == "negative":
        return _UNARY
    return SIGNS.get(term.function, _ATOMIC)
