"""Suggests changes of an event that make a failed predicate hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from tamis.errors import TamisError
from tamis.expr.evaluate import evaluate
from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Expr, Logic, Not, Op, Predicate, Value
from tamis.expr.names import is_computed
from tamis.expr.numbers import LongDecimal

__all__ = ["Edit", "suggest_edits"]


class Edit(NamedTuple):
    """A change of one attribute of an event."""

    attribute: str
    value: Value | None
    """The value to set; None to remove the attribute."""


def suggest_edits(condition: Expr, logic: Logic) -> list[Edit]:
    """Suggest changes each of which makes a condition hold; none if there is no simple one.

    Parameters
    ----------
    condition
        A predicate, or the negation of one.
    logic
        Decides whether a negated predicate holds where its attribute is absent.
    """
    predicate = condition.child if isinstance(condition, Not) else condition
    if not isinstance(predicate, Predicate) or is_computed(predicate.attribute):
        return []
    edits = [Edit(predicate.attribute, value) for value in _candidates(predicate)]
    edits.append(Edit(predicate.attribute, None))
    return [edit for edit in _distinct(edits) if _holds(condition, edit, logic)][:3]


def _holds(condition: Expr, edit: Edit, logic: Logic) -> bool:
    event: dict[str, Any] = {} if edit.value is None else {edit.attribute: edit.value}
    try:
        return evaluate(condition, event, logic)
    except TamisError:
        return False


def _distinct(edits: list[Edit]) -> list[Edit]:
    return list({(edit.value.__class__, edit.value): edit for edit in edits}.values())


def _candidates(predicate: Predicate) -> Iterator[Value]:
    """Values at which the truth of a predicate may change."""
    if predicate.op is Op.PRESENT:
        yield from (1, "x")
        return
    if predicate.op in (Op.LIKE, Op.ILIKE):
        pattern = str(predicate.values[0])
        yield pattern.replace("%", "").replace("_", "a")
        yield "x"
        return
    for value in predicate.values[:3]:
        yield value
        yield from _neighbours(value)


def _neighbours(value: Value) -> Iterator[Value]:
    match kind_of(value):
        case Kind.BOOLEAN:
            yield not value
        case Kind.NUMBER if isinstance(value, int | float):
            yield from (value + 1, value - 1)
        case Kind.STRING:
            yield f"{value}x"
            yield "x"
        case Kind.TIMESTAMP if not isinstance(value, LongDecimal | str | int | float):
            yield from _shifted(value)


def _shifted(time: Any) -> Iterator[Value]:
    for days in (1, -1):
        try:
            yield time + timedelta(days=days)
        except OverflowError:
            continue
