"""JsonLogic: ``{"and": [{"<": [{"var": "temp"}, 110]}, {"==": [{"var": "pie"}, "apple"]}]}``.

A variable that is missing is null, and null is less than 1, equals nothing but null, and counts as
false; the rules are for the weak logic and say the rest themselves. What JsonLogic makes of values
is JavaScript's: ``==`` and ``<`` turn texts, booleans and numbers into each other. No rule here
does that, so a comparison that depends on it is refused, unless the caller says that events hold
numbers as numbers and texts as texts.

A variable stands for one value; lists are for ``some``, ``none`` and the second place of ``in``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tamis.errors import RuleError
from tamis.expr.functions.terms import Attribute, Call, Constant, Term, call, name_of
from tamis.expr.model import FALSE, TRUE, Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.javascript import as_number, loosely_equal, ordered, strictly_equal
from tamis.importers.predicates import (
    COMPARISONS,
    absent,
    contains,
    equals_any,
    is_number,
    is_scalar,
    negation,
    on_one_value,
    present,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["logic", "read"]

_COMPARED: Final = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_SWAPPED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_FALSY: Final = (False, 0, "")
_ORDER: Final = "<, <=, > and >="


class _Variable(NamedTuple):
    """A variable, or what arithmetic makes of one."""

    term: Attribute | Call
    default: Any
    """What stands for it where it is missing: null, or a value; NaN, which equals nothing."""

    @property
    def attribute(self) -> str:
        return name_of(self.term)


_Operand: TypeAlias = _Variable | str | int | float | bool | None


def read(source: RuleSource, *, typed: bool = False) -> Imported:
    """The rules of `source`.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to rules, or objects with an ``id`` and a ``rule``.
    typed
        Whether a variable is always of the kind that it is compared with, in all events: a number
        is never given as a text, nor a text as a list.
    """

    def take(id: RuleId, document: Any) -> Rule:
        return make_rule(id, logic(document, typed=typed), "weak")

    return import_entries(read_entries(source), identify_by("rule", "logic"), take)


def logic(document: Any, *, typed: bool = False) -> Expr:
    """When `document` is truthy, as a rule for the weak logic.

    Raises
    ------
    RuleError
        It cannot be said, and the message tells why.
    """
    return _Reader(typed).truth(document)


class _Reader:
    def __init__(self, typed: bool, prefix: str | None = None) -> None:
        self.typed = typed
        self.prefix = prefix
        """Inside ``some``, the name of the list whose elements the variables are."""

    def truth(self, node: Any) -> Expr:
        """When `node` counts as true."""
        if not isinstance(node, Mapping):
            return TRUE if _truthy(node) else FALSE
        name, operands = _operation(node)
        if name in _COMPARED:
            return self.compared(name, operands)
        if name == "var":
            return self.truth_of_variable(self.variable(operands))
        if name not in _OPERATIONS:
            raise RuleError(f"the operation {name!r} cannot be said")
        return _OPERATIONS[name](self, operands)

    def truth_of_variable(self, variable: _Variable) -> Expr:
        there = all_of(
            present(variable.attribute), negation(equals_any(variable.attribute, _FALSY))
        )
        return any_of(there, absent(variable.attribute)) if _truthy(variable.default) else there

    def both(self, operands: Sequence[Any]) -> Expr:
        return all_of(*[self.truth(operand) for operand in _some_at_least(operands, "and")])

    def either(self, operands: Sequence[Any]) -> Expr:
        return any_of(*[self.truth(operand) for operand in _some_at_least(operands, "or")])

    def negated(self, operands: Sequence[Any]) -> Expr:
        return negation(self.truth(_only(operands, "!")))

    def choice(self, operands: Sequence[Any]) -> Expr:
        """``if``: a condition and what it leads to, again and again, and what is left."""
        if len(operands) < 2:
            return self.truth(operands[0] if operands else None)
        condition, result = self.truth(operands[0]), self.truth(operands[1])
        otherwise = self.choice(operands[2:])
        return any_of(all_of(condition, result), all_of(negation(condition), otherwise))

    def equal(self, operands: Sequence[Any], strict: bool) -> Expr:
        name = "===" if strict else "=="
        left, right = self.two(operands, name)
        if isinstance(left, _Variable) and isinstance(right, _Variable):
            if not strict:
                self.require_types(name, operands)
            both = all_of(absent(left.attribute), absent(right.attribute))
            return any_of(_related(Op.EQ, left, right), both)
        variable, value, _ = _variable_first(left, right, name)
        if value is None:
            held: Expr = FALSE
        else:
            if not strict and not _is_plain_text(value):
                self.require_types(name, value)
            held = Predicate(variable.attribute, Op.EQ, (value,))
        when_absent = (
            strictly_equal(variable.default, value)
            if strict
            else loosely_equal(variable.default, value)
        )
        return any_of(held, absent(variable.attribute)) if when_absent else held

    def compared(self, name: str, operands: Sequence[Any]) -> Expr:
        if len(operands) == 3 and name in ("<", "<="):
            low, middle, high = operands
            return all_of(self.compared(name, [low, middle]), self.compared(name, [middle, high]))
        left, right = self.two(operands, name)
        op = _COMPARED[name]
        if isinstance(left, _Variable) and isinstance(right, _Variable):
            self.require_types(_ORDER, operands)
            return _ordered_variables(op, left, right)
        variable, value, swapped = _variable_first(left, right, name)
        op = _SWAPPED[op] if swapped else op
        if value is None or isinstance(value, bool):
            raise RuleError(f"{_ORDER} of {value!r} cannot be said")
        if not _is_plain_text(value):
            self.require_types(_ORDER, value)
        held = Predicate(variable.attribute, op, (value,))
        return (
            any_of(held, absent(variable.attribute))
            if ordered(op, variable.default, value)
            else held
        )

    def two(self, operands: Sequence[Any], name: str) -> tuple[_Operand, _Operand]:
        if len(operands) != 2:
            raise RuleError(f"{name} takes two operands here, not {len(operands)}")
        return self.operand(operands[0]), self.operand(operands[1])

    def operand(self, node: Any) -> _Operand:
        if isinstance(node, Mapping):
            name, operands = _operation(node)
            if name == "var":
                return self.variable(operands)
            if name in _ARITHMETIC:
                return self.arithmetic(name, operands)
            raise RuleError(f"the operation {name!r} cannot be said as an operand")
        if node is None or is_scalar(node):
            result: _Operand = node
            return result
        raise RuleError(f"a comparison with a list cannot be said: {node!r}")

    def variable(self, operands: Sequence[Any]) -> _Variable:
        name, *rest = operands or [""]
        default = rest[0] if rest else None
        if default is not None and not is_scalar(default):
            raise RuleError(f"the default of the variable {name!r} is no value: {default!r}")
        if self.prefix is not None:
            name = self.prefix if name == "" else f"{self.prefix}.{name}"
        if not isinstance(name, str) or not name:
            raise RuleError(f"the variable {name!r} is no path to an attribute")
        if any(part.isdecimal() for part in name.split(".")):
            raise RuleError(f"the variable {name!r} asks for one place in a list")
        return _Variable(Attribute(name), default)

    def arithmetic(self, sign: str, operands: Sequence[Any]) -> _Variable:
        """A variable and a number, in either order."""
        if len(operands) != 2:
            raise RuleError(f"{sign} takes two operands here, not {len(operands)}")
        self.require_types(sign, operands)
        left, right = map(self.operand, operands)
        if isinstance(left, _Variable) and is_number(right):
            terms: tuple[Term, Term] = (left.term, Constant(_number(right)))
        elif isinstance(right, _Variable) and is_number(left):
            terms = (Constant(_number(left)), right.term)
        else:
            raise RuleError(f"{sign} of anything but a variable and a number cannot be said")
        values = [part.default if isinstance(part, _Variable) else part for part in (left, right)]
        return _Variable(call(sign, terms), _computed(sign, *values))

    def require_types(self, name: str, value: Any) -> None:
        if not self.typed:
            raise RuleError(
                f"{name} turns texts and numbers into each other, so what it makes of {value!r} "
                "cannot be said; write === or say that events are typed"
            )

    def member(self, operands: Sequence[Any]) -> Expr:
        """``in``: a variable among values, or a text within a variable."""
        if len(operands) != 2:
            raise RuleError(f"in takes two operands, not {len(operands)}")
        needle, hay = operands
        if isinstance(hay, list):
            variable = self.operand(needle)
            if not isinstance(variable, _Variable):
                raise RuleError("in of anything but a variable and a list cannot be said")
            return _one_of(variable, hay)
        text, found = self.operand(needle), self.operand(hay)
        if not isinstance(found, _Variable) or not isinstance(text, str) or not text:
            raise RuleError("in of anything but a text and a variable cannot be said")
        if found.default is not None:
            raise RuleError("in of a variable with a default cannot be said")
        if not self.typed:
            raise RuleError(
                f"whether {found.attribute!r} is a text or a list, which in tells apart, "
                "is not known; say that events are typed if it is a text"
            )
        return contains(found.attribute, text)

    def missing(self, operands: Sequence[Any]) -> Expr:
        return any_of(*[self.is_missing(name) for name in _names(operands)])

    def missing_some(self, operands: Sequence[Any]) -> Expr:
        match operands:
            case [int(needed), list(names)] if needed == 1 and names:
                return all_of(*[self.is_missing(name) for name in names])
            case [int(needed), list(names)] if needed == len(names) and names:
                return any_of(*[self.is_missing(name) for name in names])
        raise RuleError(f"missing_some of neither one nor all names cannot be said: {operands!r}")

    def is_missing(self, name: Any) -> Expr:
        attribute = self.variable([name]).attribute
        return any_of(absent(attribute), Predicate(attribute, Op.EQ, ("",)))

    def some(self, operands: Sequence[Any]) -> Expr:
        if len(operands) != 2:
            raise RuleError("some and none take a variable and a test")
        of = self.operand(operands[0])
        if not isinstance(of, _Variable) or of.default is not None:
            raise RuleError("some and none of anything but a variable cannot be said")
        return on_one_value(_Reader(self.typed, of.attribute).truth(operands[1]))


_OPERATIONS: Final[dict[str, Callable[[_Reader, Sequence[Any]], Expr]]] = {
    "and": _Reader.both,
    "or": _Reader.either,
    "!": _Reader.negated,
    "!!": lambda reader, operands: reader.truth(_only(operands, "!!")),
    "if": _Reader.choice,
    "?:": _Reader.choice,
    "==": lambda reader, operands: reader.equal(operands, strict=False),
    "===": lambda reader, operands: reader.equal(operands, strict=True),
    "!=": lambda reader, operands: negation(reader.equal(operands, strict=False)),
    "!==": lambda reader, operands: negation(reader.equal(operands, strict=True)),
    "in": _Reader.member,
    "missing": _Reader.missing,
    "missing_some": _Reader.missing_some,
    "some": _Reader.some,
    "none": lambda reader, operands: negation(reader.some(operands)),
}


def _operation(node: Mapping[str, Any]) -> tuple[str, list[Any]]:
    if len(node) != 1:
        raise RuleError(f"an operation is an object with one key, not {len(node)}")
    ((name, operands),) = node.items()
    return name, operands if isinstance(operands, list) else [operands]


def _only(operands: Sequence[Any], name: str) -> Any:
    if len(operands) != 1:
        raise RuleError(f"{name} takes one operand, not {len(operands)}")
    return operands[0]


def _some_at_least(operands: Sequence[Any], name: str) -> Sequence[Any]:
    if not operands:
        raise RuleError(f"{name} takes at least one operand")
    return operands


def _names(operands: Sequence[Any]) -> list[Any]:
    names = operands[0] if operands and isinstance(operands[0], list) else list(operands)
    if not names:
        raise RuleError("missing takes at least one name")
    return list(names)


def _variable_first(left: _Operand, right: _Operand, name: str) -> tuple[_Variable, Any, bool]:
    """A variable, what it is compared with, and whether they stood the other way round."""
    if isinstance(left, _Variable):
        return left, right, False
    if isinstance(right, _Variable):
        return right, left, True
    raise RuleError(f"{name} of two values cannot be said; write the outcome")


def _related(op: Op, left: _Variable, right: _Variable) -> Predicate:
    """Two variables that are both there, compared."""
    if left.default is not None or right.default is not None:
        raise RuleError("two variables, one of them with a default, cannot be compared")
    return Predicate(name_of(call(op.value, (left.term, right.term))), Op.EQ, (True,))


def _ordered_variables(op: Op, left: _Variable, right: _Variable) -> Expr:
    """Two variables in order; one that is missing is 0 to the other, if that is a number."""
    no_left, no_right = absent(left.attribute), absent(right.attribute)
    parts: list[Expr] = [
        _related(op, left, right),
        all_of(no_left, Predicate(right.attribute, _SWAPPED[op], (0,))),
        all_of(no_right, Predicate(left.attribute, op, (0,))),
    ]
    if COMPARISONS[op](0, 0):
        parts.append(all_of(no_left, no_right))
    return any_of(*parts)


def _one_of(variable: _Variable, values: Sequence[Any]) -> Expr:
    for value in values:
        if value is not None and not is_scalar(value):
            raise RuleError(f"in of a list that holds {value!r} cannot be said")
    held = equals_any(variable.attribute, [value for value in values if value is not None])
    if any(strictly_equal(variable.default, value) for value in values):
        return any_of(held, absent(variable.attribute))
    return held


_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}


def _number(value: Any) -> int | float:
    assert isinstance(value, int | float)
    return value


def _computed(sign: str, left: Any, right: Any) -> float:
    """What arithmetic makes of values; sums and products of null are no numbers to JsonLogic."""
    if sign in "+*" and None in (left, right):
        return math.nan
    try:
        return _ARITHMETIC[sign](as_number(left), as_number(right))
    except (ZeroDivisionError, ValueError):
        return math.nan


def _truthy(value: Any) -> bool:
    """What counts as true: not null, false, 0, the empty text and the empty list."""
    return bool(value)


def _is_plain_text(value: Any) -> bool:
    """Whether `value` is a text that is no number, and so equals only itself."""
    return isinstance(value, str) and math.isnan(as_number(value))
