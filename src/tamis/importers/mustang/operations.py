"""Mustang's preoperations: what a chain of them makes of a value.

Mustang leaves a value as it is where an operation is not for its kind: 8.95 has no substring, and
stays 8.95. So a chain is followed for each kind of value by itself, and gives a subject for each,
which a predicate then asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from tamis.errors import RuleError
from tamis.expr.functions.terms import Attribute, Call, Constant, call, name_of
from tamis.importers.predicates import is_number

__all__ = ["Kind", "Subject", "subjects"]


class Kind(Enum):
    """What a subject's values are."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    BITS = auto()
    """The digits of a binary number."""
    MOMENT = auto()
    """A time, which is a number of milliseconds to Mustang."""
    QUOTIENT = auto()
    """A number that is still to be divided, and cut off behind the point."""


class Subject(NamedTuple):
    """What a chain makes of the values of one kind."""

    term: Attribute | Call
    kind: Kind
    divisor: int = 1
    """What a quotient is divided by."""

    @property
    def name(self) -> str:
        """The attribute that rules speak of."""
        return name_of(self.term)


_Operation = Mapping[str, Any]
_Term = Attribute | Call
_Apply = Callable[[_Term, _Operation], Subject | None]
"""Applies an operation to a term; gives None where Mustang leaves the value as it is."""

_EXTRACTED: Final = {
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
"""The letters that mean something in a Java pattern of time; others make it invalid."""


def subjects(attribute: str, operations: Sequence[Any], zone: str) -> list[Subject]:
    """What `operations` make of texts, numbers and booleans, in this order.

    With ``SIZE`` among them it is one subject, the number of values in a list.

    Raises
    ------
    RuleError
        An operation is unknown, or cannot be said.
    """
    steps = [step for step in operations if _type(step) != "IDENTITY"]
    if steps and _type(steps[0]) == "SIZE":
        size = Subject(call("size", (Attribute(attribute),)), Kind.NUMBER)
        return [_applied(size, steps[1:], zone)]
    start = Attribute(attribute)
    kinds = (Kind.TEXT, Kind.NUMBER, Kind.BOOLEAN)
    return [_applied(Subject(start, kind), steps, zone) for kind in kinds]


def _type(operation: Any) -> str:
    if not isinstance(operation, Mapping) or "type" not in operation:
        raise RuleError(f"a preoperation has a type, and {operation!r} has none")
    return str(operation["type"])


def _applied(subject: Subject, operations: Sequence[_Operation], zone: str) -> Subject:
    for operation in operations:
        name = _type(operation)
        if subject.kind in (Kind.BITS, Kind.QUOTIENT):
            raise RuleError(f"the preoperation {name} after a division or in binary cannot be said")
        if name == "DATETIME":
            subject = _extracted(subject, operation, zone)
        elif name in _OPERATIONS:
            kind, apply = _OPERATIONS[name]
            if subject.kind is kind:
                subject = apply(subject.term, operation) or subject
        else:
            raise RuleError(f"the preoperation {name} cannot be said here")
    return subject


def _arithmetic(sign: str) -> _Apply:
    return lambda term, operation: Subject(
        call(sign, (term, Constant(_number(operation)))), Kind.NUMBER
    )


def _modulo(term: _Term, operation: _Operation) -> Subject | None:
    divisor = _whole(operation)
    return Subject(call("%", (term, Constant(divisor))), Kind.NUMBER) if divisor else None


def _division(term: _Term, operation: _Operation) -> Subject | None:
    divisor = _whole(operation)
    return Subject(term, Kind.QUOTIENT, divisor) if divisor else None


def _substring(term: _Term, operation: _Operation) -> Subject | None:
    begin, end = operation.get("beginIndex", 0), operation.get("endIndex", 0)
    if not isinstance(begin, int) or not isinstance(end, int) or begin < 0:
        raise RuleError(f"a substring from {begin!r} to {end!r} cannot be said")
    if begin > end:
        return None
    return Subject(call("substring", (term,), (begin + 1, end - begin)), Kind.TEXT)


def _to_datetime(term: _Term, operation: _Operation) -> Subject:
    pattern = str(operation.get("dateTimeFormat", ""))
    letters = set(re.sub(r"'[^']*'|[^A-Za-z]", "", pattern))
    # What Java cannot read as a pattern, Mustang takes for the ISO form.
    literals = () if not pattern or letters - _JAVA_LETTERS else (pattern,)
    return Subject(call("to_timestamp", (term,), literals), Kind.MOMENT)


def _extracted(subject: Subject, operation: _Operation, zone: str) -> Subject:
    if subject.kind not in (Kind.NUMBER, Kind.MOMENT):
        return subject
    part = str(operation.get("extract"))
    if part not in _EXTRACTED:
        raise RuleError(f"the part {part!r} of a time cannot be said")
    moment = subject.term
    if subject.kind is Kind.NUMBER:
        moment = call("timestamp_millis", (moment,))
    if zone != "UTC":
        moment = call("at_zone", (moment,), (zone,))
    return Subject(call(_EXTRACTED[part], (moment,)), Kind.NUMBER)


_OPERATIONS: Final[dict[str, tuple[Kind, _Apply]]] = {
    "ADDITION": (Kind.NUMBER, _arithmetic("+")),
    "SUBTRACTION": (Kind.NUMBER, _arithmetic("-")),
    "MULTIPLICATION": (Kind.NUMBER, _arithmetic("*")),
    "MODULO": (Kind.NUMBER, _modulo),
    "DIVISION": (Kind.NUMBER, _division),
    "BINARY_CONVERSION": (
        Kind.NUMBER,
        lambda term, operation: Subject(call("bin", (term,)), Kind.BITS),
    ),
    "LENGTH": (
        Kind.TEXT,
        lambda term, operation: Subject(call("length", (term,)), Kind.NUMBER),
    ),
    "SUBSTRING": (Kind.TEXT, _substring),
    "TO_DATETIME": (Kind.TEXT, _to_datetime),
}
"""For which kind of value an operation is, and what it does."""


def _number(operation: _Operation) -> int | float:
    value = operation.get("rhs")
    if not is_number(value):
        raise RuleError(f"the preoperation {_type(operation)} takes a number, not {value!r}")
    assert isinstance(value, int | float)
    return value


def _whole(operation: _Operation) -> int:
    value = _number(operation)
    if not float(value).is_integer():
        raise RuleError(f"a division by {value!r} cannot be said; Mustang divides by whole numbers")
    return int(value)
