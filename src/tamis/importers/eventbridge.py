"""Event patterns of Amazon EventBridge: ``{"source": ["aws.ec2"], "n": [{"numeric": [">", 5]}]}``.

A field holds a list of tests, of which one has to hold for one of the field's values. No test but
``exists`` holds for a field that is missing, so the rules are for the strong logic.

Three things are different here. A field that is null is missing. ``anything-but`` asks that none
of several values is named, where EventBridge is content with one that is not. And of a list of
objects, EventBridge asks that fields which stand together in the pattern hold in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tamis.errors import RuleError
from tamis.expr.model import Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.predicates import (
    Wild,
    absent,
    between,
    ends_with,
    equals_any,
    is_number,
    is_scalar,
    like,
    negation,
    present,
    starts_with,
    within_network,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["pattern", "read"]

_NUMERIC: Final = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_LOWS: Final = (Op.GT, Op.GE)
_NO_CASE: Final = "equals-ignore-case"


def read(source: RuleSource) -> Imported:
    """The patterns of `source` as rules.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to patterns, or objects with an ``id`` and a
        ``pattern``, or with a ``Name`` and an ``EventPattern`` as ``aws events list-rules`` prints
        them.
    """

    def take(id: RuleId, document: Any) -> Rule:
        return make_rule(id, pattern(document), "strong")

    contents = ("pattern", "EventPattern", "event_pattern")
    identify = identify_by(*contents, ids=("id", "Name", "name"))
    return import_entries(read_entries(source, _unpacked), identify, take)


def _unpacked(documents: Any) -> Any:
    """The rules of what ``aws events list-rules`` prints."""
    if isinstance(documents, Mapping) and isinstance(documents.get("Rules"), list):
        return documents["Rules"]
    return documents


def pattern(document: Any) -> Expr:
    """One pattern, as an object or as its JSON text, as a rule for the strong logic.

    Raises
    ------
    RuleError
        It cannot be said, and the message tells why.
    """
    if isinstance(document, str):
        try:
            document = msgspec.json.decode(document)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise RuleError(f"the pattern is no JSON: {error}") from None
    return _fields(document, "")


def _fields(document: Any, prefix: str) -> Expr:
    if not isinstance(document, Mapping) or not document:
        raise RuleError(f"expected an object of fields, not {document!r}")
    parts: list[Expr] = []
    for name, value in document.items():
        if name == "$or":
            parts.append(_alternatives(value, prefix))
        elif isinstance(value, Mapping):
            parts.append(_fields(value, f"{prefix}{name}."))
        else:
            parts.append(_field(prefix + name, value))
    return all_of(*parts)


def _alternatives(value: Any, prefix: str) -> Expr:
    if not isinstance(value, list) or len(value) < 2:
        raise RuleError("$or takes a list of two patterns or more")
    return any_of(*[_fields(part, prefix) for part in value])


def _field(attribute: str, tests: Any) -> Expr:
    if not isinstance(tests, list) or not tests:
        raise RuleError(f"the field {attribute!r} takes a list of tests, not {tests!r}")
    values = [test for test in tests if is_scalar(test)]
    parts = [_test(attribute, test) for test in tests if not is_scalar(test)]
    if values:
        parts.insert(0, equals_any(attribute, values))
    return any_of(*parts)


def _test(attribute: str, test: Any) -> Expr:
    if test is None:
        raise RuleError(f"whether {attribute!r} is null, and not missing, cannot be said")
    if not isinstance(test, Mapping) or len(test) != 1:
        raise RuleError(f"a test of {attribute!r} is a value or has one operator, not {test!r}")
    ((operator, operand),) = test.items()
    if operator not in _TESTS:
        raise RuleError(f"the operator {operator!r} cannot be said")
    return _TESTS[operator](attribute, operand)


def _exists(attribute: str, operand: Any) -> Expr:
    if not isinstance(operand, bool):
        raise RuleError(f"exists takes true or false, not {operand!r}")
    return present(attribute) if operand else absent(attribute)


def _numeric(attribute: str, operand: Any) -> Expr:
    """``["=", 5]``, or one bound or two: ``[">", 0, "<=", 5]``."""
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        raise RuleError(f"numeric takes one or two comparisons, not {operand!r}")
    names, numbers = operand[::2], operand[1::2]
    if not all(map(is_number, numbers)):
        raise RuleError(f"numeric takes numbers, not {operand!r}")
    if names == ["="]:
        return Predicate(attribute, Op.EQ, (numbers[0],))
    bounds = [
        (_NUMERIC[name], number)
        for name, number in zip(names, numbers, strict=True)
        if isinstance(name, str) and name in _NUMERIC
    ]
    lows = [bound for bound in bounds if bound[0] in _LOWS]
    highs = [bound for bound in bounds if bound[0] not in _LOWS]
    if len(bounds) != len(names) or len(lows) > 1 or len(highs) > 1:
        raise RuleError(f"numeric takes one lower and one upper bound, not {operand!r}")
    return between(attribute, lows[0] if lows else None, highs[0] if highs else None)


_Affix = Callable[..., Predicate]


def _affix(make: _Affix) -> Callable[[str, Any], Expr]:
    """A beginning or an end, as a text or ``{"equals-ignore-case": text}``."""

    def test(attribute: str, operand: Any) -> Expr:
        if isinstance(operand, Mapping) and list(operand) == [_NO_CASE]:
            return make(attribute, _text(operand[_NO_CASE]), fold=True)
        return make(attribute, _text(operand))

    return test


def _equals_without_case(attribute: str, operand: Any) -> Expr:
    return like(attribute, [_text(operand)], fold=True)


def _wildcard(attribute: str, operand: Any) -> Expr:
    r"""A text with ``*`` for any characters; ``\*`` and ``\\`` are meant literally."""
    parts: list[str | Wild] = []
    characters = iter(_text(operand))
    for character in characters:
        if character == "*":
            parts.append(Wild.ANY)
        elif character == "\\":
            literal = next(characters, "")
            if literal not in ("*", "\\"):
                raise RuleError(f"after a backslash, {operand!r} has neither * nor a backslash")
            parts.append(literal)
        else:
            parts.append(character)
    return like(attribute, parts)


def _anything_but(attribute: str, operand: Any) -> Expr:
    """A field that is there, with none of the values or patterns that `operand` names."""
    if isinstance(operand, Mapping):
        if len(operand) != 1 or (name := next(iter(operand))) not in _NEGATED:
            raise RuleError(f"anything-but of {operand!r} cannot be said")
        named_ones = operand[name] if isinstance(operand[name], list) else [operand[name]]
        tests = [_NEGATED[name](attribute, one) for one in named_ones]
        if not tests:
            raise RuleError("anything-but takes at least one value")
        return negation(any_of(*tests))
    values = operand if isinstance(operand, list) else [operand]
    if not values or not all(map(is_scalar, values)):
        raise RuleError(f"anything-but takes values, not {operand!r}")
    return negation(equals_any(attribute, values))


def _text(operand: Any) -> str:
    if not isinstance(operand, str):
        raise RuleError(f"expected a text, not {operand!r}")
    return operand


_NEGATED: Final[dict[str, Callable[[str, Any], Expr]]] = {
    "prefix": _affix(starts_with),
    "suffix": _affix(ends_with),
    _NO_CASE: _equals_without_case,
    "wildcard": _wildcard,
}

_TESTS: Final[dict[str, Callable[[str, Any], Expr]]] = {
    **_NEGATED,
    "exists": _exists,
    "numeric": _numeric,
    "cidr": lambda attribute, operand: within_network(attribute, _text(operand)),
    "anything-but": _anything_but,
}
