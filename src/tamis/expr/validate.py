"""Checks the trees of rules that were built by hand.

The text and the JSON form build their predicates through :func:`build_predicate`, too, so a rule
is refused for the same reasons in every form.
"""

from __future__ import annotations

from typing import Any

from tamis.errors import RuleError
from tamis.expr.functions.derive import check_derived
from tamis.expr.model import (
    MAX_NODES,
    And,
    Atom,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    check_size,
    is_unicode,
    map_predicates,
    refuse_size,
    value_of_literal,
)
from tamis.expr.names import DERIVED, JOINED, RECEIVED_BY, is_aggregate
from tamis.expr.patterns import check_pattern

__all__ = ["build_predicate", "check"]

_ARITY: dict[Op, tuple[int, float, str]] = {
    Op.IN: (1, float("inf"), "at least one value"),
    Op.BETWEEN: (2, 2, "two values"),
    Op.PRESENT: (0, 0, "no value"),
    Op.LIKE: (1, 2, "a pattern and at most an escape character"),
    Op.ILIKE: (1, 2, "a pattern and at most an escape character"),
    Op.RLIKE: (1, 1, "one pattern"),
}
_ONE = (1, 1, "one value")


def build_predicate(
    attribute: str, op: Op, values: tuple[Any, ...], negated: bool = False
) -> Predicate:
    """Build a predicate, or raise a RuleError if its name, values or pattern are not valid."""
    if not isinstance(attribute, str) or not attribute:
        raise RuleError(f"an attribute's name is a non-empty string, not {attribute!r}")
    if not is_unicode(attribute):
        raise RuleError("an attribute's name contains half a surrogate pair")
    if attribute.startswith(JOINED) and not is_aggregate(attribute):
        raise RuleError(f"an attribute's name must not begin with {attribute[0]!r}")
    if not isinstance(op, Op):
        raise RuleError(f"an operator is one of tamis.Op, not {op!r}")
    if not isinstance(values, tuple | list):
        raise RuleError(f"the values of a predicate are a tuple, not {type(values).__name__}")
    least, most, expected = _ARITY.get(op, _ONE)
    if not least <= len(values) <= most:
        raise RuleError(f"{op} takes {expected}, not {len(values)}")
    result = Predicate(attribute, op, tuple([value_of_literal(v) for v in values]), bool(negated))
    if op.is_text:
        if is_aggregate(attribute):
            raise RuleError(f"{op} has no meaning for an aggregate; compare it with a value")
        check_pattern(result)
    if attribute.startswith(DERIVED):
        check_derived(result)
    return result


def check(expr: Any) -> Expr:
    """Return `expr` if its size is within the limits and every predicate is well-formed.

    Raises
    ------
    RuleError
        `expr` is not a tree of And, Or, Not and Predicate, or a predicate is malformed.
    """
    _check_nodes(expr)
    check_size(expr)
    return map_predicates(expr, _check_predicate)


def _check_predicate(given: Predicate) -> Predicate:
    is_joined = isinstance(given.attribute, str) and given.attribute.startswith(JOINED)
    if is_joined and given.positive == Predicate(given.attribute, Op.EQ, (True,)):
        return given
    if given.attribute == RECEIVED_BY:
        raise RuleError(f"an attribute's name must not begin with {RECEIVED_BY[0]!r}")
    return build_predicate(given.attribute, given.op, given.values, given.negated)


def _check_nodes(expr: Any) -> None:
    stack = [expr]
    nodes = 0
    while stack:
        node = stack.pop()
        nodes += 1
        # A part that the tree has in many places counts, and is visited, in each of them.
        if nodes > MAX_NODES:
            refuse_size()
        if isinstance(node, And | Or):
            if not isinstance(node.children, tuple | list):
                raise RuleError(
                    f"the children of {type(node).__name__} are a tuple, "
                    f"not {type(node.children).__name__}"
                )
            if len(node.children) == 1:
                raise RuleError(
                    f"{type(node).__name__} of one child; use the child itself, "
                    "or tamis.all_of and tamis.any_of, which do"
                )
            stack.extend(node.children)
        elif isinstance(node, Not):
            stack.append(node.child)
        elif isinstance(node, Atom) or not isinstance(node, Predicate):
            raise RuleError(
                f"a rule is made of And, Or, Not and Predicate, not {type(node).__name__}"
            )
