"""Predicates that several systems have, each in its own spelling."""

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
    "ORDER_SIGNS",
    "Wild",
    "absent",
    "any_number",
    "between",
    "contains",
    "ends_with",
    "equals_any",
    "is_number",
    "is_scalar",
    "like",
    "matches_regex",
    "negate",
    "or_absent",
    "present",
    "require_one_value",
    "starts_with",
    "within_bounds",
    "within_network",
]

COMPARISONS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}

ORDER_SIGNS: Final = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}

_ESCAPE: Final = "!"
"""Precedes a literal wildcard; not a backslash, which every Windows path contains."""

_EXACT: Final = 2**53
"""From here on, doubles skip integers."""


class Wild(Enum):
    """A wildcard in a pattern."""

    ANY = "%"
    """Any number of characters."""
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


def or_absent(expr: Expr, attribute: str, accept_absent: bool = True) -> Expr:
    """`expr`, or `attribute` is absent; `expr` alone unless `accept_absent`."""
    return any_of(expr, absent(attribute)) if accept_absent else expr


def negate(expr: Expr) -> Expr:
    """NOT `expr`; for a predicate, the negated predicate."""
    if isinstance(expr, Predicate):
        return Predicate(expr.attribute, expr.op, expr.values, not expr.negated)
    return Not(expr)


def equals_any(attribute: str, values: Iterable[Any]) -> Expr:
    """The attribute equals one of `values`, which contain no null; FALSE without values."""
    distinct = tuple({(isinstance(value, bool), value): value for value in values}.values())
    if not distinct:
        return FALSE
    if len(distinct) == 1:
        return Predicate(attribute, Op.EQ, distinct)
    return Predicate(attribute, Op.IN, distinct)


def like(attribute: str, parts: Sequence[str | Wild], *, fold: bool = False) -> Predicate:
    """A text that consists of `parts`; with `fold`, in any case.

    Where neither wildcards nor case matter this is an equality, which matches faster.
    """
    text = "".join(part for part in parts if isinstance(part, str))
    has_case = fold and text.lower() != text.upper()
    if not has_case and all(isinstance(part, str) for part in parts):
        return Predicate(attribute, Op.EQ, (text,))
    pattern = "".join(_escape(part) if isinstance(part, str) else part.value for part in parts)
    values = (pattern, _ESCAPE) if _ESCAPE in pattern else (pattern,)
    return Predicate(attribute, Op.ILIKE if has_case else Op.LIKE, values)


def _escape(text: str) -> str:
    for special in (_ESCAPE, Wild.ANY.value, Wild.ONE.value):
        text = text.replace(special, _ESCAPE + special)
    return text


def contains(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text that contains `text`."""
    return like(attribute, [Wild.ANY, text, Wild.ANY], fold=fold)


def starts_with(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text that starts with `text`."""
    return like(attribute, [text, Wild.ANY], fold=fold)


def ends_with(attribute: str, text: str, *, fold: bool = False) -> Predicate:
    """A text that ends with `text`."""
    return like(attribute, [Wild.ANY, text], fold=fold)


def matches_regex(attribute: str, pattern: str, flags: str = "") -> Predicate:
    """A text in which RE2 finds `pattern`; `flags` such as ``"i"``."""
    return Predicate(attribute, Op.RLIKE, (f"(?{flags}){pattern}" if flags else pattern,))


def any_number(attribute: str) -> Expr:
    """Any number, but no text or boolean."""
    return any_of(Predicate(attribute, Op.LE, (0,)), Predicate(attribute, Op.GT, (0,)))


def between(attribute: str, low: tuple[Op, float] | None, high: tuple[Op, float] | None) -> Expr:
    """One number between two bounds, such as ``(Op.GT, 0)`` and ``(Op.LE, 5)``; None is unbounded.

    On an attribute of several values, two predicates could each hold for another value. A BETWEEN
    holds for one. An open end becomes the next double, which leaves no number out.
    """
    if low is None or high is None:
        bound = low or high
        assert bound is not None
        return Predicate(attribute, bound[0], (bound[1],))
    ends = (_close_bound(*low, math.inf), _close_bound(*high, -math.inf))
    return Predicate(attribute, Op.BETWEEN, ends)


def within_bounds(attribute: str, bounds: Sequence[tuple[Op, float]]) -> Expr | None:
    """One number within `bounds`; None if there are two lower or two upper ones."""
    lows = [bound for bound in bounds if bound[0] in (Op.GT, Op.GE)]
    highs = [bound for bound in bounds if bound[0] in (Op.LT, Op.LE)]
    if len(lows) > 1 or len(highs) > 1:
        return None
    return between(attribute, lows[0] if lows else None, highs[0] if highs else None)


def _close_bound(op: Op, bound: float, toward: float) -> float:
    if op in (Op.GE, Op.LE):
        return bound
    if abs(bound) >= _EXACT:
        raise RuleError(f"the open bound {bound!r} of a range is not exact; close the range there")
    return math.nextafter(bound, toward)


def within_network(attribute: str, network: str) -> Expr:
    """An address of `network`, such as ``10.0.0.0/8``."""
    return CONDITIONS["cidr"].build((Attribute(attribute),), (network,))


def require_one_value(expr: Expr) -> Expr:
    """Return `expr` if a single value of its attribute can make it hold, and raise otherwise.

    Then `expr` holds for a list exactly if it holds for one of its elements. An AND could hold for
    different elements, and a negation considers all of them.
    """
    if isinstance(expr, Predicate) and not expr.negated:
        return expr
    if isinstance(expr, Or):
        return any_of(*[require_one_value(child) for child in expr.children])
    raise RuleError(
        "several conditions, or a negated one, on one element of a list are not supported: "
        "an attribute holds all values of the list, not its elements"
    )
