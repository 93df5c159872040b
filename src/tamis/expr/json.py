"""The JSON form of a rule: ``{"and": [{"attr": "age", "in": [3, 4]}, …]}``.

:func:`to_json` gives plain JSON types and :func:`from_json` reads them back to an equal rule.
A predicate is an object with its attribute under ``attr`` and its operator as a key, spelled
as in the text form but in lower case::

    {"attr": "age", "in": [3, 4]}                       {"attr": "age", "not in": [3, 4]}
    {"attr": "state", "=": "CA"}                        {"attr": "state", "<>": "CA"}
    {"attr": "price", "<": 9.5}                         {"attr": "price", "not <": 9.5}
    {"attr": "price", "between": [10, 30]}              {"attr": "price", "not between": [10, 30]}
    {"attr": "name", "like": "a!%%", "escape": "!"}     {"attr": "name", "not like": "a%"}
    {"attr": "state", "present": true}                  {"attr": "state", "present": false}

A join predicate is its text: ``{"join": "EXISTS (SELECT 1 FROM seen d WHERE d.x > x)"}``, and so is
a predicate on an aggregate: ``{"join": "(SELECT COUNT(*) FROM seen d) >= 3"}``.

Predicates are combined by ``{"and": […]}``, ``{"or": […]}`` and ``{"not": …}``; ``true`` and
``false`` are rules, too. ``derived`` in place of ``attr`` takes the text of a derived attribute:
``{"derived": "length(name)", ">": 3}``, ``{"derived": "a < b", "=": true}``. A
timestamp, which JSON lacks, is ``{"timestamp": "…"}``, and a decimal of more than 15 digits
``{"decimal": "…"}``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias, TypeVar

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr import validate
from tamis.expr.functions.derive import read_derived_name
from tamis.expr.model import (
    FALSE,
    MAX_DEPTH,
    MAX_NODES,
    TRUE,
    And,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    all_of,
    any_of,
    check_size,
    value_of_literal,
)
from tamis.expr.names import DERIVED, JOINED, display_name, is_computed
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.grammar import parse
from tamis.expr.text.literals import read_timestamp
from tamis.expr.text.write import to_sql

__all__ = ["Json", "from_json", "to_json"]

Json: TypeAlias = bool | dict[str, Any]
"""A rule in its JSON form."""

_Path: TypeAlias = tuple[str | int, ...]
_T = TypeVar("_T")

_PRESENT: Final = "present"
_ESCAPE: Final = "escape"
_JOIN: Final = "join"
_DERIVED: Final = "derived"
_OPERATORS: Final[dict[str, tuple[Op, bool]]] = {
    "=": (Op.EQ, False),
    "<>": (Op.EQ, True),
    **{
        f"{'not ' if negated else ''}{op.lower()}": (op, negated)
        for op in Op
        if op not in (Op.EQ, Op.PRESENT)
        for negated in (False, True)
    },
}
_KEYS: Final = {operator: key for key, operator in _OPERATORS.items()}
_CHOICE: Final = ", ".join(key for key, (_, negated) in _OPERATORS.items() if not negated)


def to_json(expr: Expr) -> Json:
    """`expr` as plain JSON types."""
    check_size(expr)
    return _write(expr)


def from_json(obj: Any) -> Expr:
    """The rule whose JSON form is `obj`, as `json.loads` returns it.

    Raises
    ------
    RuleSyntaxError
        `obj` is not a rule; the message contains the path of the culprit, ``at and[2].in``.
    PatternError
        A LIKE pattern or a regular expression is invalid.
    RuleTooLargeError
        The rule has too many nodes or is nested too deep.
    """
    return _Reader(obj).read_expr(obj, (), 1)


def _write(expr: Expr) -> Json:
    if isinstance(expr, Predicate):
        return _write_predicate(expr)
    if isinstance(expr, Not):
        return {"not": _write(expr.child)}
    if not isinstance(expr, And | Or):
        raise RuleError(f"{type(expr).__name__} has no JSON form")
    if not expr.children:
        return isinstance(expr, And)
    key = "and" if isinstance(expr, And) else "or"
    return {key: [_write(child) for child in expr.children]}


def _write_predicate(predicate: Predicate) -> dict[str, Any]:
    op, negated = predicate.op, predicate.negated
    if predicate.attribute.startswith(JOINED):
        return {_JOIN: to_sql(predicate)}
    result: dict[str, Any] = {"attr": predicate.attribute}
    if predicate.attribute.startswith(DERIVED):
        result = {_DERIVED: display_name(predicate.attribute)}
    if op is Op.PRESENT:
        return {**result, _PRESENT: not negated}
    values = [_write_value(value) for value in predicate.values]
    key = _KEYS[op, negated]
    if op in (Op.IN, Op.BETWEEN):
        return {**result, key: values}
    result[key] = values[0]
    if len(values) > 1:
        result[_ESCAPE] = values[1]
    return result


def _write_value(value: Value) -> Any:
    value = value_of_literal(value)
    if isinstance(value, datetime):
        return {"timestamp": value.replace(tzinfo=None).isoformat() + "Z"}
    if isinstance(value, LongDecimal):
        return {"decimal": str(value)}
    return value


class _Reader:
    """Reads one JSON form; `root`, the whole of it, appears in errors."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.nodes = 0

    def read_expr(self, obj: Any, path: _Path, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            raise RuleTooLargeError(f"the rule is nested more than {MAX_DEPTH} levels deep")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise RuleTooLargeError(f"the rule has more than {MAX_NODES:,} nodes; split it")
        if isinstance(obj, bool):
            return TRUE if obj else FALSE
        if not isinstance(obj, dict):
            raise self.error(f"expected an object, true or false, not {_kind(obj)}", path)
        if "attr" in obj or _DERIVED in obj:
            return self.read_predicate(obj, path)
        if obj.keys() == {_JOIN}:
            return self.read_join(obj[_JOIN], (*path, _JOIN))
        if len(obj) != 1 or (key := next(iter(obj))) not in ("and", "or", "not"):
            keys = ", ".join(map(reprlib.repr, obj)) or "none"
            raise self.error(
                f"expected one key, 'and', 'or' or 'not', or 'attr'; found {keys}", path
            )
        below = obj[key]
        if key == "not":
            return Not(self.read_expr(below, (*path, key), depth + 1))
        children = [
            self.read_expr(child, (*path, key, index), depth + 1)
            for index, child in enumerate(self.read_array(below, (*path, key)))
        ]
        return all_of(*children) if key == "and" else any_of(*children)

    def read_predicate(self, obj: dict[Any, Any], path: _Path) -> Predicate:
        attribute = self.read_attribute(obj, path)
        keys = [key for key in obj if key not in ("attr", _DERIVED, _ESCAPE)]
        unknown = [key for key in keys if key not in _OPERATORS and key != _PRESENT]
        if unknown:
            raise self.error(
                f"unknown key {unknown[0]!r}; expected {_CHOICE}, the same after 'not ', "
                f"<> or {_PRESENT}",
                path,
            )
        if len(keys) != 1:
            raise self.error(f"expected one operator beside 'attr', found {len(keys)}", path)
        key = keys[0]
        operand = obj[key]
        if key == _PRESENT:
            if not isinstance(operand, bool):
                raise self.error(f"expected true or false, not {_kind(operand)}", (*path, key))
            op, negated, values = Op.PRESENT, not operand, []
        else:
            op, negated = _OPERATORS[key]
            values = self.read_values(op, operand, (*path, key))
        if _ESCAPE in obj:
            if op not in (Op.LIKE, Op.ILIKE):
                raise self.error(f"{_ESCAPE!r} belongs to like and ilike", (*path, _ESCAPE))
            values.append(self.read_value(obj[_ESCAPE], (*path, _ESCAPE)))
        return self.blame(path, validate.build_predicate, attribute, op, tuple(values), negated)

    def read_join(self, obj: Any, path: _Path) -> Predicate:
        if not isinstance(obj, str):
            raise self.error(f"expected the text of a join predicate, not {_kind(obj)}", path)
        read = self.blame(path, parse, obj)
        if not isinstance(read, Predicate) or not read.attribute.startswith(JOINED):
            raise self.error(
                "expected a join predicate: EXISTS, a comparison with ANY, or an aggregate", path
            )
        return read

    def read_attribute(self, obj: dict[Any, Any], path: _Path) -> Any:
        if _DERIVED not in obj:
            if isinstance(obj["attr"], str) and is_computed(obj["attr"]):
                raise self.error(
                    "an attribute's name must not begin with a control character", path
                )
            return obj["attr"]
        text = obj[_DERIVED]
        if "attr" in obj or not isinstance(text, str):
            raise self.error(f"expected 'attr' or {_DERIVED!r} with a text", path)
        return self.blame((*path, _DERIVED), read_derived_name, text)

    def read_values(self, op: Op, operand: Any, path: _Path) -> list[Value]:
        if op not in (Op.IN, Op.BETWEEN):
            return [self.read_value(operand, path)]
        return [
            self.read_value(item, (*path, index))
            for index, item in enumerate(self.read_array(operand, path))
        ]

    def read_value(self, obj: Any, path: _Path) -> Value:
        if isinstance(obj, dict) and obj.keys() == {"timestamp"}:
            obj = obj["timestamp"]
            if not isinstance(obj, str):
                raise self.error(f"a timestamp is a string, not {_kind(obj)}", path)
            return self.blame(path, read_timestamp, obj)
        if isinstance(obj, dict) and obj.keys() == {"decimal"}:
            return self.blame(path, _read_decimal, obj["decimal"])
        if obj is None:
            raise self.error('null is not a value; write "present": false', path)
        if isinstance(obj, dict | list):
            raise self.error(f"expected a value, not {_kind(obj)}", path)
        return self.blame(path, value_of_literal, obj)

    def read_array(self, obj: Any, path: _Path) -> list[Any] | tuple[Any, ...]:
        if not isinstance(obj, list | tuple):
            raise self.error(f"expected an array, not {_kind(obj)}", path)
        return obj

    def blame(self, path: _Path, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call `function`; an error that it raises gets `path` as its place."""
        try:
            return function(*arguments)
        except PatternError as error:
            raise PatternError(_locate(error.message, path)) from None
        except RuleError as error:
            raise self.error(error.message, path) from None

    def error(self, message: str, path: _Path) -> RuleSyntaxError:
        return RuleSyntaxError(_locate(message, path), text=reprlib.repr(self.root))


def _read_decimal(text: Any) -> Value:
    try:
        return value_of_literal(Decimal(text))
    except (InvalidOperation, TypeError, ValueError):
        raise RuleError(f"a decimal is a text such as '9.99', not {text!r}") from None


def _locate(message: str, path: _Path) -> str:
    if not path:
        return message
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{message}, at {steps.removeprefix('.')}"


def _kind(obj: Any) -> str:
    if obj is None:
        return "null"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(obj), "a number" if isinstance(obj, int | float) else type(obj).__name__)
