"""JsonLogic: ``{"and": [{"<": [{"var": "temp"}, 110]}, {"==": [{"var": "pie"}, "apple"]}]}``.

A missing variable is null, and null is less than 1, equals only null, and counts as false. The
rules use the weak logic and spell out the rest. JsonLogic compares as JavaScript does: ``==`` and
``<`` convert between texts, booleans and numbers. Rules here do not, so a comparison that depends
on it is refused, unless the caller says that events hold numbers as numbers and texts as texts.

A variable stands for one value; lists occur in ``some``, ``none`` and as the second operand of
``in``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tamis.errors import RuleError
from tamis.expr.functions.terms import Attribute, Call, Constant, Term, call, name_of
from tamis.expr.model import FALSE, TRUE, And, Expr, Not, Op, Or, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.javascript import as_number, compare, loosely_equal, strictly_equal
from tamis.importers.predicates import (
    COMPARISONS,
    ORDER_SIGNS,
    absent,
    contains,
    equals_any,
    is_number,
    is_scalar,
    negate,
    or_absent,
    present,
    require_one_value,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["parse_logic", "read"]

_SWAPPED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_FALSY: Final = (False, 0, "")
_ORDER: Final = "<, <=, > and >="

_FREE_COPIES: Final = 256
"""How many nodes a rule may have twice, besides four for each node of its document."""


class _Variable(NamedTuple):
    """A variable, or arithmetic on one."""

    term: Attribute | Call
    default: Any
    """The value of a missing variable: null or a scalar; NaN equals nothing."""

    @property
    def attribute(self) -> str:
        return name_of(self.term)


_Operand: TypeAlias = _Variable | str | int | float | bool | None


def read(source: RuleSource, *, typed: bool = False) -> Imported:
    """Import the rules of `source`.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to rules, or objects with an ``id`` and a ``rule``.
    typed
        Whether a variable always has the type that it is compared with: no event has a number as a
        text, or a text as a list.
    """

    def build(id: RuleId, document: Any) -> Rule:
        return make_rule(id, parse_logic(document, typed=typed), "weak")

    return import_entries(read_entries(source), identify_by("rule", "logic"), build)


def parse_logic(document: Any, *, typed: bool = False) -> Expr:
    """Turn a document into a rule for the weak logic that holds when the document is truthy.

    Raises
    ------
    RuleError
        No rule has the same meaning; the message says why.
    """
    return _Reader(typed, _Copies(document)).read_truth(document)


class _Copies:
    """Counts the nodes of conditions that the rule has twice.

    An ``if`` tests its condition for both results. Nested in one another, conditions would double
    the rule at each level.
    """

    def __init__(self, document: Any) -> None:
        self._left = _FREE_COPIES + 4 * _count_nodes(document)

    def note(self, condition: Expr) -> None:
        """Note that a condition is copied.

        Raises
        ------
        RuleError
            The rule becomes too large.
        """
        stack = [condition]
        while stack:
            node = stack.pop()
            if isinstance(node, And | Or):
                stack.extend(node.children)
            elif isinstance(node, Not):
                stack.append(node.child)
            self._left -= 1
            if not self._left:
                raise RuleError(
                    "an if in the condition of an if, over and over, makes a rule too large; "
                    "write the outer ones with and, or and !"
                )


def _count_nodes(document: Any) -> int:
    stack, count = [document], 0
    while stack:
        node = stack.pop()
        count += 1
        if isinstance(node, Mapping):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return count


class _Reader:
    def __init__(self, typed: bool, copies: _Copies, prefix: str | None = None) -> None:
        self.typed = typed
        self.copies = copies
        self.prefix = prefix
        """Inside ``some``, the name of the list whose elements the variables are."""

    def read_truth(self, node: Any) -> Expr:
        """When `node` counts as true."""
        if not isinstance(node, Mapping):
            return TRUE if _is_truthy(node) else FALSE
        name, operands = _unpack_operation(node)
        if name in ORDER_SIGNS:
            return self.read_comparison(name, operands)
        if name == "var":
            return self.read_variable_truth(self.read_variable(operands))
        if name not in _OPERATIONS:
            raise RuleError(f"the operation {name!r} is not supported")
        return _OPERATIONS[name](self, operands)

    def read_variable_truth(self, variable: _Variable) -> Expr:
        truthy = all_of(present(variable.attribute), negate(equals_any(variable.attribute, _FALSY)))
        return or_absent(truthy, variable.attribute, _is_truthy(variable.default))

    def read_and(self, operands: Sequence[Any]) -> Expr:
        return all_of(*[self.read_truth(operand) for operand in _require_some(operands, "and")])

    def read_or(self, operands: Sequence[Any]) -> Expr:
        return any_of(*[self.read_truth(operand) for operand in _require_some(operands, "or")])

    def read_not(self, operands: Sequence[Any]) -> Expr:
        return negate(self.read_truth(_require_one(operands, "!")))

    def read_if(self, operands: Sequence[Any]) -> Expr:
        """``if``: pairs of a condition and its result, and a result for all other cases."""
        if len(operands) < 2:
            return self.read_truth(operands[0] if operands else None)
        condition, result = self.read_truth(operands[0]), self.read_truth(operands[1])
        self.copies.note(condition)
        otherwise = self.read_if(operands[2:])
        return any_of(all_of(condition, result), all_of(negate(condition), otherwise))

    def read_equality(self, operands: Sequence[Any], strict: bool) -> Expr:
        name = "===" if strict else "=="
        left, right = self.read_operands(operands, name)
        if isinstance(left, _Variable) and isinstance(right, _Variable):
            if not strict:
                self.require_types(name, operands)
            both_absent = all_of(absent(left.attribute), absent(right.attribute))
            return any_of(_compare_variables(Op.EQ, left, right), both_absent)
        variable, value, _ = _put_variable_first(left, right, name)
        if value is None:
            equal: Expr = FALSE
        else:
            if not strict and not _is_plain_text(value):
                self.require_types(name, value)
            equal = Predicate(variable.attribute, Op.EQ, (value,))
        are_equal = strictly_equal if strict else loosely_equal
        return or_absent(equal, variable.attribute, are_equal(variable.default, value))

    def read_comparison(self, name: str, operands: Sequence[Any]) -> Expr:
        if len(operands) == 3 and name in ("<", "<="):
            low, middle, high = operands
            return all_of(
                self.read_comparison(name, [low, middle]),
                self.read_comparison(name, [middle, high]),
            )
        left, right = self.read_operands(operands, name)
        op = ORDER_SIGNS[name]
        if isinstance(left, _Variable) and isinstance(right, _Variable):
            self.require_types(_ORDER, operands)
            return _order_variables(op, left, right)
        variable, value, swapped = _put_variable_first(left, right, name)
        op = _SWAPPED[op] if swapped else op
        if value is None or isinstance(value, bool):
            raise RuleError(f"{_ORDER} of {value!r} are not supported")
        if not _is_plain_text(value):
            self.require_types(_ORDER, value)
        return or_absent(
            Predicate(variable.attribute, op, (value,)),
            variable.attribute,
            compare(op, variable.default, value),
        )

    def read_operands(self, operands: Sequence[Any], name: str) -> tuple[_Operand, _Operand]:
        if len(operands) != 2:
            raise RuleError(f"{name} takes two operands here, not {len(operands)}")
        return self.read_operand(operands[0]), self.read_operand(operands[1])

    def read_operand(self, node: Any) -> _Operand:
        if isinstance(node, Mapping):
            name, operands = _unpack_operation(node)
            if name == "var":
                return self.read_variable(operands)
            if name in _ARITHMETIC:
                return self.read_arithmetic(name, operands)
            raise RuleError(f"the operation {name!r} is not supported as an operand")
        if node is None or is_scalar(node):
            result: _Operand = node
            return result
        raise RuleError(f"a comparison with a list is not supported: {node!r}")

    def read_variable(self, operands: Sequence[Any]) -> _Variable:
        name, *rest = operands or [""]
        default = rest[0] if rest else None
        if default is not None and not is_scalar(default):
            raise RuleError(f"the default of the variable {name!r} is not a value: {default!r}")
        if self.prefix is not None:
            name = self.prefix if name == "" else f"{self.prefix}.{name}"
        if not isinstance(name, str) or not name:
            raise RuleError(f"the variable {name!r} is not a path to an attribute")
        if any(part.isdecimal() for part in name.split(".")):
            raise RuleError(f"the variable {name!r} names one position in a list")
        return _Variable(Attribute(name), default)

    def read_arithmetic(self, sign: str, operands: Sequence[Any]) -> _Variable:
        """Arithmetic on a variable and a number, in either order."""
        left, right = self.read_operands(operands, sign)
        self.require_types(sign, operands)
        if isinstance(left, _Variable) and is_number(right):
            terms: tuple[Term, Term] = (left.term, _constant(right))
        elif isinstance(right, _Variable) and is_number(left):
            terms = (_constant(left), right.term)
        else:
            raise RuleError(f"{sign} is supported for a variable and a number only")
        values = [part.default if isinstance(part, _Variable) else part for part in (left, right)]
        return _Variable(call(sign, terms), _compute(sign, *values))

    def require_types(self, name: str, value: Any) -> None:
        if not self.typed:
            raise RuleError(
                f"{name} converts between texts and numbers, which rules do not, so the result "
                f"for {value!r} is unknown; write === or say that events are typed"
            )

    def read_in(self, operands: Sequence[Any]) -> Expr:
        """``in``: a variable in a list of values, or a text in a variable."""
        if len(operands) != 2:
            raise RuleError(f"in takes two operands, not {len(operands)}")
        needle, haystack = operands
        if isinstance(haystack, list):
            variable = self.read_operand(needle)
            if not isinstance(variable, _Variable):
                raise RuleError("in is supported for a variable in a list only")
            return _one_of(variable, haystack)
        text, searched = self.read_operand(needle), self.read_operand(haystack)
        if not isinstance(searched, _Variable) or not isinstance(text, str) or not text:
            raise RuleError("in is supported for a text in a variable only")
        if searched.default is not None:
            raise RuleError("in of a variable with a default is not supported")
        if not self.typed:
            raise RuleError(
                f"whether {searched.attribute!r} is a text or a list is unknown, and in treats "
                "them differently; say that events are typed if it is a text"
            )
        return contains(searched.attribute, text)

    def read_missing(self, operands: Sequence[Any]) -> Expr:
        return any_of(*[self.read_is_missing(name) for name in _list_names(operands)])

    def read_missing_some(self, operands: Sequence[Any]) -> Expr:
        match operands:
            case [int(needed), list(names)] if needed == 1 and names:
                return all_of(*[self.read_is_missing(name) for name in names])
            case [int(needed), list(names)] if needed == len(names) and names:
                return any_of(*[self.read_is_missing(name) for name in names])
        raise RuleError(f"missing_some is supported for one or all names only: {operands!r}")

    def read_is_missing(self, name: Any) -> Expr:
        attribute = self.read_variable([name]).attribute
        return any_of(absent(attribute), Predicate(attribute, Op.EQ, ("",)))

    def read_some(self, operands: Sequence[Any]) -> Expr:
        if len(operands) != 2:
            raise RuleError("some and none take a variable and a test")
        variable = self.read_operand(operands[0])
        if not isinstance(variable, _Variable) or variable.default is not None:
            raise RuleError("some and none are supported for a variable only")
        element = _Reader(self.typed, self.copies, variable.attribute)
        return require_one_value(element.read_truth(operands[1]))


_OPERATIONS: Final[dict[str, Callable[[_Reader, Sequence[Any]], Expr]]] = {
    "and": _Reader.read_and,
    "or": _Reader.read_or,
    "!": _Reader.read_not,
    "!!": lambda reader, operands: reader.read_truth(_require_one(operands, "!!")),
    "if": _Reader.read_if,
    "?:": _Reader.read_if,
    "==": lambda reader, operands: reader.read_equality(operands, strict=False),
    "===": lambda reader, operands: reader.read_equality(operands, strict=True),
    "!=": lambda reader, operands: negate(reader.read_equality(operands, strict=False)),
    "!==": lambda reader, operands: negate(reader.read_equality(operands, strict=True)),
    "in": _Reader.read_in,
    "missing": _Reader.read_missing,
    "missing_some": _Reader.read_missing_some,
    "some": _Reader.read_some,
    "none": lambda reader, operands: negate(reader.read_some(operands)),
}


def _unpack_operation(node: Mapping[str, Any]) -> tuple[str, list[Any]]:
    if len(node) != 1:
        raise RuleError(f"an operation is an object with one key, not {len(node)}")
    ((name, operands),) = node.items()
    return name, operands if isinstance(operands, list) else [operands]


def _require_one(operands: Sequence[Any], name: str) -> Any:
    if len(operands) != 1:
        raise RuleError(f"{name} takes one operand, not {len(operands)}")
    return operands[0]


def _require_some(operands: Sequence[Any], name: str) -> Sequence[Any]:
    if not operands:
        raise RuleError(f"{name} takes at least one operand")
    return operands


def _list_names(operands: Sequence[Any]) -> list[Any]:
    names = operands[0] if operands and isinstance(operands[0], list) else list(operands)
    if not names:
        raise RuleError("missing takes at least one name")
    return list(names)


def _put_variable_first(left: _Operand, right: _Operand, name: str) -> tuple[_Variable, Any, bool]:
    """The variable, the value it is compared with, and whether they were swapped."""
    if isinstance(left, _Variable):
        return left, right, False
    if isinstance(right, _Variable):
        return right, left, True
    raise RuleError(f"{name} of two values is not supported; write the result")


def _compare_variables(op: Op, left: _Variable, right: _Variable) -> Predicate:
    """A comparison of two variables that are both present."""
    if left.default is not None or right.default is not None:
        raise RuleError("two variables, one of them with a default, cannot be compared")
    return Predicate(name_of(call(op.value, (left.term, right.term))), Op.EQ, (True,))


def _order_variables(op: Op, left: _Variable, right: _Variable) -> Expr:
    """A comparison of two variables; compared with a number, a missing one is 0."""
    no_left, no_right = absent(left.attribute), absent(right.attribute)
    parts: list[Expr] = [
        _compare_variables(op, left, right),
        all_of(no_left, Predicate(right.attribute, _SWAPPED[op], (0,))),
        all_of(no_right, Predicate(left.attribute, op, (0,))),
    ]
    if COMPARISONS[op](0, 0):
        parts.append(all_of(no_left, no_right))
    return any_of(*parts)


def _one_of(variable: _Variable, values: Sequence[Any]) -> Expr:
    for value in values:
        if value is not None and not is_scalar(value):
            raise RuleError(f"in of a list that holds {value!r} is not supported")
    return or_absent(
        equals_any(variable.attribute, [value for value in values if value is not None]),
        variable.attribute,
        any(strictly_equal(variable.default, value) for value in values),
    )


_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}


def _constant(value: Any) -> Constant:
    assert isinstance(value, int | float)
    return Constant(value)


def _compute(sign: str, left: Any, right: Any) -> float:
    """The result of arithmetic on values; in JsonLogic, sums and products of null are NaN."""
    if sign in "+*" and None in (left, right):
        return math.nan
    try:
        return _ARITHMETIC[sign](as_number(left), as_number(right))
    except (ZeroDivisionError, ValueError):
        return math.nan


def _is_truthy(value: Any) -> bool:
    """Whether `value` counts as true: not null, false, 0, an empty text or an empty list."""
    return bool(value)


def _is_plain_text(value: Any) -> bool:
    """Whether `value` is a text that does not spell a number, and so equals only itself."""
    return isinstance(value, str) and math.isnan(as_number(value))
