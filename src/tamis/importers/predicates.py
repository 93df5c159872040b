"""Predicates that several sources speak of, each in its own spelling."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.terms import Attribute
from tamis.expr.model import FALSE, Expr, Not, Op, Or, Predicate, any_of

__all__ = [
    "COMPARISONS",
    "Wild",
    "absent",
    "between",
    "contains",
    "ends_with",
    "equals_any",
    "is_number",
    "is_scalar",
    "like",
    "negation",
    "on_one_value",
    "present",
    "starts_with",
    "within_network",
]

COMPARISONS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}

_ESCAPE: Final = "!"
"""Stands before a wildcard that is meant literally; a backslash is in every Windows path."""

_EXACT: Final = 2**53
"""From here on, doubles leave out integers."""


class Wild(Enum):
    """What stands for characters in a pattern."""

    ANY = "%"
    """Any number of them."""
    ONE = "_"


def is_number(value: Any) -> bool:
    """Whether `value` is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_scalar(value: Any) -> bool:
    """Whether `value` is a JSON string, number or boolean."""
    return isinstance(value, str | int | float)


def present(attribute: str) -> Predicate:
    """``attribute IS NOT NULL``."""
    return Predicate(attribute, Op.PRESENT)


def absent(attribute: str) -> Predicate:
    """``attribute IS NULL``."""
    return Predicate(attribute, Op.PRESENT, negated=True)


def negation(expr: Expr) -> Expr:
    """NOT `expr`; of a predicate, the negated one."""
    if isinstance(expr, Predicate):
        return Predicate(expr.attribute, expr.op, expr.values, not expr.negated)
    return Not(expr)


def equals_any(attribute: str, values: Iterable[Any]) -> Expr:
    """One of `values`, which are no nulls; FALSE if there is none."""
    distinct = tuple({(isinstance(value, bool), value): value for value in values}.values())
    if not distinct:
        return FALSE
    if len(distinct) == 1:
        return Predicate(attribute, Op.EQ, distinct)
    return Predicate(attribute, Op.IN, distinct)


def like(attribute: str, parts: Sequence[str | Wild], *, fold: bool = False) -> Predicate:
    """A text that consists of `parts`; with `fold`, in upper or lower case.

    Where neither wildcards nor case matter it is an equality, which is found faster.
    """
    text = "".join(part for part in parts if isinstance(part, str))
    has_case = fold and text.lower() != text.upper()
    if not has_case and all(isinstance(part, str) for part in parts):
        return Predicate(attribute, Op.EQ, (text,))
    pattern = "".join(_literally(part) if isinstance(part, str) else part.value for part in parts)
    values = (pattern, _ESCAPE) if _ESCAPE in pattern else (pattern,)
    return Predicate(attribute, Op.ILIKE if has_case else Op.LIKE, values)


def _literally(text: str) -> str:
    for special in (_ESCAPE, Wild.ANY.value, Wild.ONE.value):
        text = text.replace(special, _ESCAPE + special)
    return text


def contains(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text with `text` in it."""
    return like(attribute, [Wild.ANY, text, Wild.ANY], fold=fold)


def starts_with(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text that begins with `text`."""
    return like(attribute, [text, Wild.ANY], fold=fold)


def ends_with(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text that ends with `text`."""
    return like(attribute, [Wild.ANY, text], fold=fold)


def between(attribute: str, low: tuple[Op, float] | None, high: tuple[Op, float] | None) -> Expr:
    """One number between two bounds, ``(Op.GT, 0)`` and ``(Op.LE, 5)``; None is no bound.

    Two predicates would each look for a value of their own in an attribute of several values. A
    BETWEEN looks for one, and an open end becomes the next double, which leaves no number out.
    """
    if low is None or high is None:
        bound = low or high
        assert bound is not None
        return Predicate(attribute, bound[0], (bound[1],))
    return Predicate(
        attribute,
        Op.BETWEEN,
        (_inside(*low, math.inf), _inside(*high, -math.inf)),
    )


def _inside(op: Op, bound: float, toward: float) -> float:
    if op in (Op.GE, Op.LE):
        return bound
    if abs(bound) >= _EXACT:
        raise RuleError(f"the open bound {bound!r} of a range is not exact; close the range there")
    return math.nextafter(bound, toward)


def within_network(attribute: str, network: str) -> Expr:
    """An address of `network`, such as ``10.0.0.0/8``."""
    return CONDITIONS["cidr"].build((Attribute(attribute),), (network,))


def on_one_value(expr: Expr) -> Expr:
    """`expr` itself if it holds when one value of its attribute alone makes it hold.

    So an attribute of several values has a value for which `expr` holds just when `expr` holds for
    the attribute. An AND might take its values from several elements, and a negation speaks of all.
    """
    if isinstance(expr, Predicate) and not expr.negated:
        return expr
    if isinstance(expr, Or):
        return any_of(*[on_one_value(child) for child in expr.children])
    raise RuleError(
        "several conditions, or a negated one, on one element of a list cannot be said: "
        "an attribute holds all values of the list, not its elements"
    )
