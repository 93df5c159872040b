"""What a rule is: a tree of AND, OR and NOT over predicates.

The tree is immutable, hashable and comparable. Two trees are equal when they have the same
form and the same values; as everywhere in Tamis ``1`` equals ``1.0`` but never ``True``.

There is no node for the constants: TRUE is an AND of nothing and FALSE an OR of nothing.

Nodes are not tracked by the garbage collector: they cannot form cycles, and there may be millions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, Never, TypeAlias

import msgspec

from tamis.errors import RuleError, RuleTooLargeError
from tamis.expr.numbers import INT_MAX, INT_MIN, MAX_DIGITS, LongDecimal, Number, number_of_decimal

__all__ = [
    "FALSE",
    "FLIPPED",
    "LOGICS",
    "MAX_DEPTH",
    "MAX_NODES",
    "TRUE",
    "And",
    "Atom",
    "Expr",
    "Logic",
    "Not",
    "Op",
    "Or",
    "Predicate",
    "Value",
    "all_of",
    "any_of",
    "check_logic",
    "check_size",
    "is_unicode",
    "map_predicates",
    "predicates",
    "refuse_size",
    "value_of_literal",
]

Value: TypeAlias = bool | Number | str | datetime
"""A string, a number, a boolean, or a timestamp (a UTC ``datetime``)."""

Logic: TypeAlias = Literal["strong", "weak"]
"""Whether a negated predicate on an absent attribute is unknown ("strong") or true ("weak")."""

LOGICS: Final[tuple[Logic, ...]] = ("strong", "weak")

MAX_DEPTH: Final = 128
"""The deepest nesting a rule may have. A real rule has below ten levels."""

MAX_NODES: Final = 250_000
"""The most nodes a rule may have; a list of values is one node, however long."""


class Op(StrEnum):
    """The positive form of a predicate; the value is its spelling in the text."""

    EQ = "="
    IN = "IN"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    BETWEEN = "BETWEEN"
    PRESENT = "IS NOT NULL"
    LIKE = "LIKE"
    ILIKE = "ILIKE"
    RLIKE = "RLIKE"

    # Enum hashes its name in Python; predicates are hashed by the million.
    __hash__ = str.__hash__

    @property
    def is_text(self) -> bool:
        """Whether it looks inside a string, which no order of values can answer."""
        return self in _TEXT_OPS


_TEXT_OPS = frozenset({Op.LIKE, Op.ILIKE, Op.RLIKE})

FLIPPED: Final = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""Each comparison, and the one that says the same with its sides exchanged."""


class Predicate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A test of one attribute: ``age IN (3, 4)``, or with `negated` ``age NOT IN (3, 4)``.

    `values` holds what the operator takes: one value for a comparison, two for BETWEEN, any
    number but none for IN, none for PRESENT, the pattern for RLIKE, and for LIKE and ILIKE the
    pattern and, if there is one, the escape character.
    """

    attribute: str
    op: Op
    values: tuple[Value, ...] = ()
    negated: bool = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Predicate)
            and self.attribute == other.attribute
            and self.op is other.op
            and self.negated is other.negated
            and self.values == other.values
            and all(
                (a.__class__ is bool) is (b.__class__ is bool)
                for a, b in zip(self.values, other.values, strict=True)
            )
        )

    def __ne__(self, other: object) -> bool:
        # Without its own method, a struct compares by identity here.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.attribute, self.op, self.values, self.negated))

    @property
    def positive(self) -> Predicate:
        """The predicate without its negation."""
        if not self.negated:
            return self
        return Predicate(self.attribute, self.op, self.values)


class Atom(msgspec.Struct, frozen=True, gc=False):
    """A predicate that either holds or does not: what remains once every NOT is pushed down.

    Only :mod:`tamis.expr.normalize` builds atoms; a parsed rule contains none. `if_absent` decides
    what happens if the attribute is absent, so an atom does not depend on a logic.
    """

    predicate: Predicate
    """The positive form."""
    negated: bool
    """Whether none of the event's values may satisfy `predicate`."""
    if_absent: bool
    """Whether the atom holds on an event without the attribute."""


class And(msgspec.Struct, frozen=True, gc=False):
    """True when all of its children are; without children, TRUE."""

    children: tuple[Expr, ...] = ()


class Or(msgspec.Struct, frozen=True, gc=False):
    """True when one of its children is; without children, FALSE."""

    children: tuple[Expr, ...] = ()


class Not(msgspec.Struct, frozen=True, gc=False):
    """True when its child is false."""

    child: Expr


Expr: TypeAlias = And | Or | Not | Predicate | Atom
"""A rule."""

TRUE: Final = And()
FALSE: Final = Or()


def all_of(*children: Expr) -> Expr:
    """The AND of `children`; one child stands for itself."""
    return children[0] if len(children) == 1 else And(children)


def any_of(*children: Expr) -> Expr:
    """The OR of `children`; one child stands for itself."""
    return children[0] if len(children) == 1 else Or(children)


def predicates(expr: Expr) -> Iterator[Predicate]:
    """All predicates of `expr` from left to right, including repeated ones."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Predicate):
            yield node
        elif isinstance(node, Atom):
            yield node.predicate
        elif isinstance(node, Not):
            stack.append(node.child)
        else:
            stack.extend(reversed(node.children))


def map_predicates(expr: Expr, change: Callable[[Predicate], Expr]) -> Expr:
    """`expr` with every predicate changed."""
    match expr:
        case Predicate():
            return change(expr)
        case Not():
            return Not(map_predicates(expr.child, change))
        case And() | Or():
            return type(expr)(tuple([map_predicates(child, change) for child in expr.children]))
        case Atom():
            raise TypeError("a rule has no atoms before it is normalised")


def check_size(expr: Expr) -> None:
    """Refuse a tree with more than `MAX_NODES` nodes or `MAX_DEPTH` levels.

    All other functions rely on this when they recurse.
    """
    level: list[Expr] = [expr]
    depth = nodes = 0
    while level:
        depth += 1
        nodes += len(level)
        if nodes > MAX_NODES:
            refuse_size()
        if depth > MAX_DEPTH:
            raise RuleTooLargeError(f"the rule is nested more than {MAX_DEPTH} levels deep")
        below: list[Expr] = []
        for node in level:
            if isinstance(node, And | Or):
                below.extend(node.children)
            elif isinstance(node, Not):
                below.append(node.child)
        level = below


def refuse_size() -> Never:
    """Raise the error of a tree with more than `MAX_NODES` nodes."""
    raise RuleTooLargeError(
        f"the rule has more than {MAX_NODES:,} nodes; split it, or put the values "
        "of one attribute into one IN list"
    )


def check_logic(logic: str) -> Logic:
    """Return `logic` if it is one of the two; raise a RuleError otherwise."""
    for known in LOGICS:
        if logic == known:
            return known
    raise RuleError(f"unknown logic {logic!r}; expected 'strong' or 'weak'")


def is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8: it contains no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def value_of_literal(value: Any) -> Value:
    """A rule's literal as a `Value`; raises a RuleError for what no event can have.

    A ``date`` becomes its midnight and a ``datetime`` without a zone is taken as UTC.
    """
    if value is None:
        raise RuleError("NULL is not a value; write IS NULL or IS NOT NULL")
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not is_unicode(value):
            raise RuleError("a string contains half a surrogate pair; it is not valid Unicode")
        return value
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise RuleError(f"the number {value} is too large; integers have 64 bits")
        return value
    if isinstance(value, float):
        if math.isnan(value):
            raise RuleError("NaN is not a value; it equals nothing")
        if math.isinf(value):
            raise RuleError("the number is too large for a double")
        return value
    if isinstance(value, Decimal | LongDecimal):
        return _number_of_literal(value)
    if isinstance(value, datetime):
        try:
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError:
            raise RuleError(f"the timestamp {value} lies outside the years 1 to 9999") from None
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise RuleError(
        f"a value of type {type(value).__name__} is not supported; expected a string, "
        "an integer, a double, a decimal, a boolean or a timestamp"
    )


def _number_of_literal(value: Decimal | LongDecimal) -> Number:
    if isinstance(value, LongDecimal):
        return value
    try:
        number = number_of_decimal(value)
    except ValueError:
        raise RuleError(
            f"the decimal {value} is too long; decimals have up to {MAX_DIGITS} digits"
        ) from None
    if number is None:
        raise RuleError("NaN is not a value; it equals nothing")
    if isinstance(number, float) and math.isinf(number):
        raise RuleError("the number is too large for a double")
    return number
