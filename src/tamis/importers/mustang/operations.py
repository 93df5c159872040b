"""Applies Mustang's preoperations to an attribute.

Mustang leaves a value unchanged if an operation is for another type: 8.95 has no substring, and
stays 8.95. So a chain of operations is followed separately for each type of value. Each gives a
subject, which a predicate then tests. Of the operations only ``SIZE`` is for lists, and it leaves
everything else unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from tamis.errors import RuleError
from tamis.expr.functions.terms import Attribute, Call, Constant, call, name_of
from tamis.importers.predicates import is_number

__all__ = ["Kind", "Subject", "build_size", "build_subjects"]


class Kind(Enum):
    """The type of a subject's values."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    BITS = auto()
    """The digits of a binary number."""
    MOMENT = auto()
    """A time; in Mustang, a number of milliseconds."""
    QUOTIENT = auto()
    """A number that is still to be divided and truncated."""


class Subject(NamedTuple):
    """The result of a chain of operations on values of one type."""

    term: Attribute | Call
    kind: Kind
    divisor: int = 1
    """The divisor of a quotient."""

    @property
    def name(self) -> str:
        """The attribute that rules name."""
        return name_of(self.term)


_Operation = Mapping[str, Any]
_Term = Attribute | Call
_Apply = Callable[[_Term, _Operation], Subject | None]
"""Applies an operation to a term; returns None if Mustang leaves the value unchanged."""

_TIME_PARTS: Final = {
    "YEAR": "year",
    "MONTH": "month",
    "DATE": "day",
    "DAY_OF_MONTH": "day",
    "DAY_OF_YEAR": "dayofyear",
    "DAY_OF_WEEK": "dayofweek",
    "HOUR_OF_DAY": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}

_JAVA_LETTERS: Final = frozenset("GuyDMLdQqYwWEecFaBhKkHmsSAnNVvzOXxZp")
"""The letters with a meaning in a Java time pattern; others make it invalid."""


def build_subjects(attribute: str, operations: Sequence[Any], zone: str) -> list[Subject]:
    """Apply `operations` to texts, numbers and booleans, in this order.

    Raises
    ------
    RuleError
        An operation is unknown, or not supported.
    """
    steps = [step for step in operations if _type(step) not in ("IDENTITY", "SIZE")]
    start = Attribute(attribute)
    kinds = (Kind.TEXT, Kind.NUMBER, Kind.BOOLEAN)
    return [_apply_all(Subject(start, kind), steps, zone) for kind in kinds]


def build_size(size: Attribute | Call, operations: Sequence[Any], zone: str) -> Subject | None:
    """Apply to the size of a list what follows ``SIZE``; None if `operations` have no ``SIZE``.

    Raises
    ------
    RuleError
        An operation is unknown, or not supported.
    """
    types = [_type(step) for step in operations]
    if "SIZE" not in types:
        return None
    steps = [step for step in operations[types.index("SIZE") + 1 :] if _type(step) != "IDENTITY"]
    return _apply_all(Subject(size, Kind.NUMBER), steps, zone)


def _type(operation: Any) -> str:
    if not isinstance(operation, Mapping) or "type" not in operation:
        raise RuleError(f"a preoperation needs a type; {operation!r} has none")
    return str(operation["type"])


def _apply_all(subject: Subject, operations: Sequence[_Operation], zone: str) -> Subject:
    for operation in operations:
        name = _type(operation)
        if name == "SIZE":
            continue
        if subject.kind in (Kind.BITS, Kind.QUOTIENT):
            raise RuleError(
                f"the preoperation {name} after DIVISION or BINARY_CONVERSION is not supported"
            )
        if name == "DATETIME":
            subject = _extract(subject, operation, zone)
        elif name in _OPERATIONS:
            kind, apply = _OPERATIONS[name]
            if subject.kind is kind:
                subject = apply(subject.term, operation) or subject
        else:
            raise RuleError(f"the preoperation {name} is not supported here")
    return subject


def _apply_arithmetic(sign: str) -> _Apply:
    return lambda term, operation: Subject(
        call(sign, (term, Constant(_read_number(operation)))), Kind.NUMBER
    )


def _apply_modulo(term: _Term, operation: _Operation) -> Subject | None:
    divisor = _read_integer(operation)
    return Subject(call("%", (term, Constant(divisor))), Kind.NUMBER) if divisor else None


def _apply_division(term: _Term, operation: _Operation) -> Subject | None:
    divisor = _read_integer(operation)
    return Subject(term, Kind.QUOTIENT, divisor) if divisor else None


def _apply_substring(term: _Term, operation: _Operation) -> Subject | None:
    begin, end = operation.get("beginIndex", 0), operation.get("endIndex", 0)
    if not isinstance(begin, int) or not isinstance(end, int) or begin < 0:
        raise RuleError(f"a substring from {begin!r} to {end!r} is not supported")
    if begin > end:
        return None
    return Subject(call("substring", (term,), (begin + 1, end - begin)), Kind.TEXT)


def _apply_to_datetime(term: _Term, operation: _Operation) -> Subject:
    pattern = str(operation.get("dateTimeFormat", ""))
    letters = set(re.sub(r"'[^']*'|[^A-Za-z]", "", pattern))
    # Mustang reads times in the ISO form if the pattern is invalid in Java.
    literals = () if not pattern or letters - _JAVA_LETTERS else (pattern,)
    return Subject(call("to_timestamp", (term,), literals), Kind.MOMENT)


def _extract(subject: Subject, operation: _Operation, zone: str) -> Subject:
    if subject.kind not in (Kind.NUMBER, Kind.MOMENT):
        return subject
    part = str(operation.get("extract"))
    if part not in _TIME_PARTS:
        raise RuleError(f"the part {part!r} of a time is not supported")
    moment = subject.term
    if subject.kind is Kind.NUMBER:
        moment = call("timestamp_millis", (moment,))
    if zone != "UTC":
        moment = call("at_zone", (moment,), (zone,))
    return Subject(call(_TIME_PARTS[part], (moment,)), Kind.NUMBER)


_OPERATIONS: Final[dict[str, tuple[Kind, _Apply]]] = {
    "ADDITION": (Kind.NUMBER, _apply_arithmetic("+")),
    "SUBTRACTION": (Kind.NUMBER, _apply_arithmetic("-")),
    "MULTIPLICATION": (Kind.NUMBER, _apply_arithmetic("*")),
    "MODULO": (Kind.NUMBER, _apply_modulo),
    "DIVISION": (Kind.NUMBER, _apply_division),
    "BINARY_CONVERSION": (
        Kind.NUMBER,
        lambda term, operation: Subject(call("bin", (term,)), Kind.BITS),
    ),
    "LENGTH": (
        Kind.TEXT,
        lambda term, operation: Subject(call("length", (term,)), Kind.NUMBER),
    ),
    "SUBSTRING": (Kind.TEXT, _apply_substring),
    "TO_DATETIME": (Kind.TEXT, _apply_to_datetime),
}
"""The type of value that each operation is for, and how to apply it."""


def _read_number(operation: _Operation) -> int | float:
    value = operation.get("rhs")
    if not is_number(value):
        raise RuleError(f"the preoperation {_type(operation)} takes a number, not {value!r}")
    assert isinstance(value, int | float)
    return value


def _read_integer(operation: _Operation) -> int:
    value = _read_number(operation)
    if not float(value).is_integer():
        raise RuleError(f"a division by {value!r} is not supported; Mustang divides by integers")
    return int(value)
