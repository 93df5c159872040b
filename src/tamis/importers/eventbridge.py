"""Event patterns of Amazon EventBridge: ``{"source": ["aws.ec2"], "n": [{"numeric": [">", 5]}]}``.

A field has a list of tests, one of which must hold for one of the field's values. Only ``exists``
can hold for a missing field, so the rules use the strong logic.

Three things differ here. A field that is null is missing. ``anything-but`` requires that none of
several values is listed; EventBridge requires one that is not. And in a list of objects,
EventBridge requires that one object satisfies all fields that the pattern groups together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tamis.errors import RuleError
from tamis.expr.model import Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.predicates import (
    ORDER_SIGNS,
    Wild,
    absent,
    ends_with,
    equals_any,
    is_number,
    is_scalar,
    like,
    negate,
    present,
    starts_with,
    within_bounds,
    within_network,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["parse_pattern", "read"]

_IGNORE_CASE: Final = "equals-ignore-case"


def read(source: RuleSource) -> Imported:
    """Import the patterns of `source`.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to patterns, or objects with an ``id`` and a
        ``pattern``, or with a ``Name`` and an ``EventPattern`` as ``aws events list-rules`` prints
        them.
    """

    def build(id: RuleId, document: Any) -> Rule:
        return make_rule(id, parse_pattern(document), "strong")

    identify = identify_by("pattern", "EventPattern", "event_pattern", ids=("id", "Name", "name"))
    return import_entries(read_entries(source, _unpack), identify, build)


def _unpack(documents: Any) -> Any:
    """The rules in the output of ``aws events list-rules``."""
    if isinstance(documents, Mapping) and isinstance(documents.get("Rules"), list):
        return documents["Rules"]
    return documents


def parse_pattern(document: Any) -> Expr:
    """Turn a pattern, given as an object or as JSON text, into a rule for the strong logic.

    Raises
    ------
    RuleError
        No rule has the same meaning; the message says why.
    """
    if isinstance(document, str):
        try:
            document = msgspec.json.decode(document)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise RuleError(f"the pattern is not valid JSON: {error}") from None
    return _parse_fields(document, "")


def _parse_fields(document: Any, prefix: str) -> Expr:
    if not isinstance(document, Mapping) or not document:
        raise RuleError(f"expected an object of fields, not {document!r}")
    parts: list[Expr] = []
    for name, value in document.items():
        if name == "$or":
            parts.append(_parse_alternatives(value, prefix))
        elif isinstance(value, Mapping):
            parts.append(_parse_fields(value, f"{prefix}{name}."))
        else:
            parts.append(_parse_field(prefix + name, value))
    return all_of(*parts)


def _parse_alternatives(value: Any, prefix: str) -> Expr:
    if not isinstance(value, list) or len(value) < 2:
        raise RuleError("$or takes a list of two or more patterns")
    return any_of(*[_parse_fields(part, prefix) for part in value])


def _parse_field(attribute: str, tests: Any) -> Expr:
    if not isinstance(tests, list) or not tests:
        raise RuleError(f"the field {attribute!r} takes a list of tests, not {tests!r}")
    values = [test for test in tests if is_scalar(test)]
    parts = [_parse_test(attribute, test) for test in tests if not is_scalar(test)]
    if values:
        parts.insert(0, equals_any(attribute, values))
    return any_of(*parts)


def _parse_test(attribute: str, test: Any) -> Expr:
    if test is None:
        raise RuleError(f"a test for null is not supported: a null {attribute!r} is missing here")
    if not isinstance(test, Mapping) or len(test) != 1:
        raise RuleError(f"a test of {attribute!r} is a value or has one operator, not {test!r}")
    ((operator, operand),) = test.items()
    if operator not in _TESTS:
        raise RuleError(f"the operator {operator!r} is not supported")
    return _TESTS[operator](attribute, operand)


def _parse_exists(attribute: str, operand: Any) -> Expr:
    if not isinstance(operand, bool):
        raise RuleError(f"exists takes true or false, not {operand!r}")
    return present(attribute) if operand else absent(attribute)


def _parse_numeric(attribute: str, operand: Any) -> Expr:
    """``["=", 5]``, or one or two bounds: ``[">", 0, "<=", 5]``."""
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        raise RuleError(f"numeric takes one or two comparisons, not {operand!r}")
    signs, numbers = operand[::2], operand[1::2]
    if not all(map(is_number, numbers)):
        raise RuleError(f"numeric takes numbers, not {operand!r}")
    if signs == ["="]:
        return Predicate(attribute, Op.EQ, (numbers[0],))
    bounds = [
        (ORDER_SIGNS[sign], number)
        for sign, number in zip(signs, numbers, strict=True)
        if isinstance(sign, str) and sign in ORDER_SIGNS
    ]
    expr = within_bounds(attribute, bounds) if len(bounds) == len(signs) else None
    if expr is None:
        raise RuleError(f"numeric takes one lower and one upper bound, not {operand!r}")
    return expr


def _parse_affix(build: Callable[..., Predicate]) -> Callable[[str, Any], Expr]:
    """A test of a prefix or suffix, given as a text or ``{"equals-ignore-case": text}``."""

    def parse(attribute: str, operand: Any) -> Expr:
        if isinstance(operand, Mapping) and list(operand) == [_IGNORE_CASE]:
            return build(attribute, _require_text(operand[_IGNORE_CASE]), fold=True)
        return build(attribute, _require_text(operand))

    return parse


def _parse_ignore_case(attribute: str, operand: Any) -> Expr:
    return like(attribute, [_require_text(operand)], fold=True)


def _parse_wildcard(attribute: str, operand: Any) -> Expr:
    r"""A text in which ``*`` stands for any characters; ``\*`` and ``\\`` are literal."""
    parts: list[str | Wild] = []
    characters = iter(_require_text(operand))
    for character in characters:
        if character == "*":
            parts.append(Wild.ANY)
        elif character == "\\":
            literal = next(characters, "")
            if literal not in ("*", "\\"):
                raise RuleError(f"in {operand!r}, a backslash must precede * or a backslash")
            parts.append(literal)
        else:
            parts.append(character)
    return like(attribute, parts)


def _parse_anything_but(attribute: str, operand: Any) -> Expr:
    """A present field with none of the values or patterns in `operand`."""
    if isinstance(operand, Mapping):
        if len(operand) != 1 or (name := next(iter(operand))) not in _NEGATABLE:
            raise RuleError(f"anything-but of {operand!r} is not supported")
        patterns = operand[name] if isinstance(operand[name], list) else [operand[name]]
        tests = [_NEGATABLE[name](attribute, pattern) for pattern in patterns]
        if not tests:
            raise RuleError("anything-but takes at least one value")
        return negate(any_of(*tests))
    values = operand if isinstance(operand, list) else [operand]
    if not values or not all(map(is_scalar, values)):
        raise RuleError(f"anything-but takes values, not {operand!r}")
    return negate(equals_any(attribute, values))


def _require_text(operand: Any) -> str:
    if not isinstance(operand, str):
        raise RuleError(f"expected a text, not {operand!r}")
    return operand


_NEGATABLE: Final[dict[str, Callable[[str, Any], Expr]]] = {
    "prefix": _parse_affix(starts_with),
    "suffix": _parse_affix(ends_with),
    _IGNORE_CASE: _parse_ignore_case,
    "wildcard": _parse_wildcard,
}
"""The tests that ``anything-but`` takes."""

_TESTS: Final[dict[str, Callable[[str, Any], Expr]]] = {
    **_NEGATABLE,
    "exists": _parse_exists,
    "numeric": _parse_numeric,
    "cidr": lambda attribute, operand: within_network(attribute, _require_text(operand)),
    "anything-but": _parse_anything_but,
}
