"""Whether one value satisfies the positive form of a predicate."""

from __future__ import annotations

import operator
from functools import lru_cache

from tamis.expr.event import kind_of
from tamis.expr.model import Op, Predicate, Value
from tamis.expr.patterns import text_test
from tamis.forks import call_in_child

__all__ = ["satisfies"]


def satisfies(predicate: Predicate, value: Value) -> bool:
    """Whether one value satisfies the positive form of `predicate`."""
    op, operands = predicate.op, predicate.values
    if op is Op.PRESENT:
        return True
    if op.is_text:
        return isinstance(value, str) and _text_test(predicate.positive)(value)
    if op is Op.IN:
        return any(_equal(value, operand) for operand in operands)
    if op is Op.BETWEEN:
        low, high = operands
        return _compares(Op.GE, value, low) and _compares(Op.LE, value, high)
    return _compares(op, value, operands[0])


_text_test = lru_cache(maxsize=4096)(text_test)
call_in_child(_text_test.cache_clear)


def _equal(value: Value, operand: Value) -> bool:
    return kind_of(value) is kind_of(operand) and value == operand


def _compares(op: Op, value: Value, operand: Value) -> bool:
    # Python compares an int with a float by mathematical value, strings by code point, and
    # False before True. Only values of different kinds need a check.
    return kind_of(value) is kind_of(operand) and bool(_COMPARISONS[op](value, operand))


_COMPARISONS = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
