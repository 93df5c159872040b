"""Functions that are whole conditions: ``contains(name, 'x')``, ``cidr(ip, '10.0.0.0/8')``.

Most are another spelling of one predicate or of a few, which is what the rule's tree contains; the
others are conditions of a family (:mod:`tamis.expr.functions.families`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final, NamedTuple

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.functions.families import FAMILIES, condition_text
from tamis.expr.functions.scalar import Type
from tamis.expr.functions.terms import Attribute, Call, Term, call, name_of
from tamis.expr.model import And, Expr, Op, Or, Predicate, Value
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.literals import spell

__all__ = ["CONDITIONS", "Condition"]

_Terms = tuple[Term, ...]
_Values = tuple[Value, ...]


class Condition(NamedTuple):
    """A function that is a condition."""

    takes: tuple[Type, ...]
    """The types of the terms."""
    literals: int
    """How many literals follow the terms; 0 for one list of them."""
    build: Callable[[_Terms, _Values], Expr]
    inspects_literals: bool = True
    """Whether `build` may decide by what the literals are. If not, all calls with literals of the
    same kinds build the same tree with other values, and can share a template."""


def _name(term: Term) -> str:
    if isinstance(term, Attribute | Call):
        return name_of(term)
    raise RuleError(f"{spell(term.value)} is neither an attribute nor a function of one")


def _require_string(function: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    raise RuleError(f"{function} takes a string, not {spell(value)}")


def _like(function: str, op: Op, before: str, after: str) -> Condition:
    def build(terms: _Terms, values: _Values) -> Expr:
        text = _require_string(function, values[0])
        escape: tuple[str, ...] = ()
        if "%" in text or "_" in text:
            escape = ("\\",)
            for special in "\\%_":
                text = text.replace(special, "\\" + special)
        return validate.build_predicate(_name(terms[0]), op, (before + text + after, *escape))

    return Condition((Type.STRING,), 1, build)


def _regexp_full(terms: _Terms, values: _Values) -> Expr:
    name, pattern = _name(terms[0]), _require_string("regexp_full", values[0])
    validate.build_predicate(name, Op.RLIKE, (pattern,))
    return validate.build_predicate(name, Op.RLIKE, (rf"\A(?:{pattern})\z",))


def _cidr(terms: _Terms, values: _Values) -> Expr:
    text = _require_string("cidr", values[0])
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise RuleError(f"{text!r} is not a network; write one like '10.0.0.0/8'") from None
    ends = (str(network.network_address), str(network.broadcast_address))
    return validate.build_predicate(_name(call("address", terms)), Op.BETWEEN, ends)


def _within_box(terms: _Terms, values: _Values) -> Expr:
    south, west, north, east = values
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | LongDecimal):
            raise RuleError(f"within_box takes degrees, not {spell(value)}")
    latitude, longitude = map(_name, terms)
    between = validate.build_predicate(latitude, Op.BETWEEN, (south, north))
    if west <= east:  # type: ignore[operator]  # numbers
        return And((between, validate.build_predicate(longitude, Op.BETWEEN, (west, east))))
    # The box crosses the 180th meridian.
    sides = [(Op.GE, west), (Op.LE, east)]
    return And(
        (between, Or(tuple([validate.build_predicate(longitude, op, (v,)) for op, v in sides])))
    )


def _intersects(terms: _Terms, values: _Values) -> Expr:
    return validate.build_predicate(_name(terms[0]), Op.IN, values)


def _of_family(function: str) -> Condition:
    family = FAMILIES[function]

    def build(terms: _Terms, values: _Values) -> Expr:
        name = name_of(call(function, terms))
        return Predicate(name, Op.EQ, (condition_text(family, values),))

    return Condition(family.takes, family.literals, build)


CONDITIONS: Final[dict[str, Condition]] = {
    "contains": _like("contains", Op.LIKE, "%", "%"),
    "startswith": _like("startswith", Op.LIKE, "", "%"),
    "endswith": _like("endswith", Op.LIKE, "%", ""),
    "icontains": _like("icontains", Op.ILIKE, "%", "%"),
    "istartswith": _like("istartswith", Op.ILIKE, "", "%"),
    "iendswith": _like("iendswith", Op.ILIKE, "%", ""),
    "regexp_full": Condition((Type.STRING,), 1, _regexp_full),
    "cidr": Condition((Type.STRING,), 1, _cidr),
    "within_box": Condition((Type.NUMBER, Type.NUMBER), 4, _within_box),
    "intersects": Condition((Type.ANY,), 0, _intersects, inspects_literals=False),
    **{function: _of_family(function) for function in FAMILIES},
}
"""All conditions by name."""
