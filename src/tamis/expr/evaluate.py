"""What a rule means on an event, in plain Python: the reference for every engine.

A rule is true, false or, in the strong logic, unknown (None); it matches when it is true.
Engines never call this on their way to an answer: they are tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tamis.expr.derive import comparable, values_of
from tamis.expr.event import Event, FlatEvent, flatten
from tamis.expr.model import And, Atom, Expr, Logic, Not, Op, Or, Predicate, Value, check_logic
from tamis.expr.normalize import nnf
from tamis.expr.satisfy import satisfies
from tamis.expr.weights import EventWeights, RuleWeights

__all__ = ["evaluate", "evaluate_flat", "score", "score_flat"]


def evaluate(expr: Expr, event: Event, logic: Logic = "strong") -> bool:
    """Whether `event` satisfies the rule `expr`.

    Parameters
    ----------
    expr
        The rule, as :func:`tamis.parse` returns it.
    event
        Attributes and their values.
    logic
        ``"strong"``: a predicate on an absent attribute is unknown, and so is its negation.
        ``"weak"``: it is false, and its negation true.
    """
    return evaluate_flat(expr, flatten(event), check_logic(logic)) is True


def evaluate_flat(expr: Expr, event: FlatEvent, logic: Logic) -> bool | None:
    """True, False or None (unknown), for an event that :func:`flatten` made."""
    match expr:
        case Predicate():
            return _predicate(expr, event, logic)
        case Atom():
            return _atom(expr, event)
        case Not():
            inner = evaluate_flat(expr.child, event, logic)
            return None if inner is None else not inner
        case And():
            return _decide(expr, event, logic, decisive=False)
        case Or():
            return _decide(expr, event, logic, decisive=True)


def _decide(expr: And | Or, event: FlatEvent, logic: Logic, decisive: bool) -> bool | None:
    """One decisive child decides; failing that, one unknown child makes the whole unknown."""
    unknown = False
    for child in expr.children:
        value = evaluate_flat(child, event, logic)
        if value is decisive:
            return decisive
        unknown = unknown or value is None
    return None if unknown else not decisive


def _predicate(predicate: Predicate, event: FlatEvent, logic: Logic) -> bool | None:
    predicate = comparable(predicate)
    values = values_of(predicate, event)
    if values is None:
        if predicate.op is Op.PRESENT:
            return predicate.negated
        return None if logic == "strong" else predicate.negated
    return _any_satisfies(predicate, values) is not predicate.negated


def _atom(atom: Atom, event: FlatEvent) -> bool:
    values = values_of(atom.predicate, event)
    if values is None:
        return atom.if_absent
    return _any_satisfies(atom.predicate, values) is not atom.negated


def _any_satisfies(predicate: Predicate, values: Sequence[Value]) -> bool:
    return any(satisfies(predicate, value) for value in values)


def score(
    expr: Expr,
    event: Event,
    logic: Logic = "strong",
    weights: Mapping[Any, float] | None = None,
    event_weights: Mapping[tuple[str, Any], float] | None = None,
) -> float | None:
    """The score of the rule `expr` on `event`; None when it does not match.

    Parameters
    ----------
    weights
        What the rule weighs: ``{("author", "Smith"): 2.0}`` for a value of ``=`` or ``IN``,
        ``{"price > 10": 0.5}`` for a whole predicate of another kind; 1 by default.
    event_weights
        What the event weighs: ``{("author", "Smith"): 0.8}``; 1 by default.
    """
    return score_flat(
        nnf(expr, check_logic(logic)),
        flatten(event),
        RuleWeights.of(weights, expr).mapped(comparable),
        EventWeights.of(event_weights),
    )


def score_flat(
    expr: Expr, event: FlatEvent, weights: RuleWeights, event_weights: EventWeights
) -> float | None:
    """The score of a tree of And, Or and Atom; None when it does not hold.

    Sums run over an AND's children and over an event's values from left to right. Every
    engine adds in this order, so that scores are equal to the last bit.
    """
    match expr:
        case Atom():
            if not _atom(expr, event):
                return None
            return 0.0 if expr.negated else _atom_score(expr, event, weights, event_weights)
        case And():
            total = 0.0
            for child in expr.children:
                part = score_flat(child, event, weights, event_weights)
                if part is None:
                    return None
                total += part
            return total
        case Or():
            parts = [score_flat(child, event, weights, event_weights) for child in expr.children]
            return max((part for part in parts if part is not None), default=None)
        case _:
            raise TypeError(f"a score needs a rule in negation normal form, not {expr!r}")


def _atom_score(
    atom: Atom, event: FlatEvent, weights: RuleWeights, event_weights: EventWeights
) -> float:
    predicate = atom.predicate
    total = 0.0
    for value in values_of(predicate, event) or ():
        if satisfies(predicate, value):
            total += weights.get(predicate, value) * event_weights.get(predicate.attribute, value)
    return total
