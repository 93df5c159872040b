"""What a rule means on an event, in plain Python: the reference for every engine.

A rule is true, false or, in the strong logic, unknown (None); it matches if it is true. Engines
never call this to find an answer: they are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tamis.deadline import check_time
from tamis.errors import RuleError
from tamis.expr.event import (
    Event,
    FlatEvent,
    extend_event,
    flatten,
    has_unreadable,
    refuse_unreadable,
    require_readable,
)
from tamis.expr.functions.derive import bases_of, make_comparable, values_of
from tamis.expr.joins.aggregates import aggregate_documents
from tamis.expr.joins.predicate import Comparison, Condition, Every, Join, Quantifier, Some, Test
from tamis.expr.joins.received import bind_received
from tamis.expr.joins.shifts import shift_values
from tamis.expr.joins.subqueries import join_named
from tamis.expr.json import from_json
from tamis.expr.model import (
    And,
    Atom,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    check_logic,
    predicates,
)
from tamis.expr.names import JOINED
from tamis.expr.normalize import nnf
from tamis.expr.satisfy import satisfies
from tamis.expr.text.grammar import parse
from tamis.expr.weights import EventWeights, RuleWeights

__all__ = [
    "add_joins",
    "evaluate",
    "evaluate_flat",
    "is_true",
    "join_truth",
    "join_values",
    "refuse_unreadable_in",
    "score",
    "score_flat",
]


def evaluate(
    expr: Expr | str | Mapping[str, Any] | bool,
    event: Event,
    logic: Logic = "strong",
    *,
    documents: Iterable[Event] = (),
    received: Iterable[Event] | None = None,
) -> bool:
    """Whether `event` satisfies the rule `expr`.

    Parameters
    ----------
    expr
        The rule as text, as a model, or in the JSON form. A text is parsed in every call; to
        evaluate it often, pass what :func:`tamis.parse` returns.
    event
        Attributes and their values.
    logic
        ``"strong"``: a predicate on an absent attribute is unknown, and so is its negation.
        ``"weak"``: it is false, and its negation true.
    documents
        The documents seen before, for join predicates.
    received
        The documents that the rule's subscription has received, for predicates ``FROM received``.
        Without it, a rule with such a predicate is refused.

    Raises
    ------
    RuleError
        The rule is refused.
    EventError
        The event is not a mapping, or has a value that no rule can compare in an attribute that
        the rule mentions.
    """
    model = _to_model(expr)
    plain = flatten(event)
    refuse_unreadable_in(model, plain)
    seen = [require_readable(flatten(document)) for document in documents]
    if received is None:
        bind_received(model, None)  # which refuses a rule about received documents
    own = [require_readable(flatten(document)) for document in received or ()]
    flat = add_joins(model, plain, seen, own)
    return evaluate_flat(model, flat, check_logic(logic)) is True


def _to_model(rule: Any) -> Expr:
    if isinstance(rule, Predicate | And | Or | Not | Atom):
        return rule
    if isinstance(rule, str):
        return parse(rule)
    if isinstance(rule, Mapping | bool):
        return from_json(rule)
    raise RuleError(
        f"a rule is a text, a model or the JSON form (a dict), not {type(rule).__name__}"
    )


def refuse_unreadable_in(expr: Expr, event: FlatEvent) -> None:
    """Raise an EventError if a rule mentions an attribute with a value that no kind can hold."""
    if not has_unreadable(event):
        return
    for name in {predicate.attribute for predicate in predicates(expr)}:
        bases = join_named(name).news if name.startswith(JOINED) else bases_of(name)
        refuse_unreadable(event, frozenset(bases))


def evaluate_flat(expr: Expr, event: FlatEvent, logic: Logic) -> bool | None:
    """As :func:`evaluate`, for a flat event; None if the rule is unknown."""
    match expr:
        case Predicate():
            return _predicate_truth(expr, event, logic)
        case Atom():
            return _atom_holds(expr, event)
        case Not():
            inner = evaluate_flat(expr.child, event, logic)
            return None if inner is None else not inner
        case And():
            return _decide(expr, event, logic, decisive=False)
        case Or():
            return _decide(expr, event, logic, decisive=True)


def _decide(expr: And | Or, event: FlatEvent, logic: Logic, decisive: bool) -> bool | None:
    """One decisive child decides; without one, an unknown child makes the whole unknown."""
    check_time()
    unknown = False
    for child in expr.children:
        value = evaluate_flat(child, event, logic)
        if value is decisive:
            return decisive
        unknown = unknown or value is None
    return None if unknown else not decisive


def _predicate_truth(predicate: Predicate, event: FlatEvent, logic: Logic) -> bool | None:
    predicate = make_comparable(predicate)
    values = values_of(predicate, event)
    if values is None:
        if predicate.op is Op.PRESENT:
            return predicate.negated
        return None if logic == "strong" else predicate.negated
    return _any_satisfies(predicate, values) is not predicate.negated


def _atom_holds(atom: Atom, event: FlatEvent) -> bool:
    values = values_of(atom.predicate, event)
    if values is None:
        return atom.if_absent
    return _any_satisfies(atom.predicate, values) is not atom.negated


def _any_satisfies(predicate: Predicate, values: Sequence[Value]) -> bool:
    return any(satisfies(predicate, value) for value in values)


def add_joins(
    expr: Expr,
    event: FlatEvent,
    documents: Sequence[FlatEvent],
    received: Sequence[FlatEvent] = (),
) -> FlatEvent:
    """`event` with each join predicate and each aggregate of `expr` as an attribute."""
    names = {p.attribute for p in predicates(expr) if p.attribute.startswith(JOINED)}
    joins = {name: join_named(name) for name in names}
    found = {
        name: join_values(join, event, received if join.received else documents)
        for name, join in joins.items()
    }
    known: FlatEvent = {name: values for name, values in found.items() if values is not None}
    return extend_event(event, known)


def join_values(join: Join, event: FlatEvent, documents: Iterable[FlatEvent]) -> list[Value] | None:
    """The values of the attribute that a join predicate becomes; None if it is unknown."""
    if join.aggregate is None:
        truth = join_truth(join, event, documents)
        return None if truth is None else [truth]
    counted = (document for document in documents if is_true(join.where, document, event))
    return aggregate_documents(join.aggregate, counted)


def join_truth(join: Join, event: FlatEvent, documents: Iterable[FlatEvent]) -> bool | None:
    """The truth of a join predicate as in SQL: True, False or None (unknown)."""
    counted = (document for document in documents if is_true(join.where, document, event))
    if join.compared is None:
        return any(True for _ in counted)
    decisive = join.quantifier is Quantifier.ANY
    unknown = False
    for document in counted:
        value = _leaf_truth(join.compared, document, event)
        if value is decisive:
            return decisive
        unknown = unknown or value is None
    return None if unknown else not decisive


def is_true(condition: Condition, document: FlatEvent, event: FlatEvent) -> bool:
    """Whether a subquery's condition is true of an old document and the event."""
    match condition:
        case Every(children):
            return all(is_true(child, document, event) for child in children)
        case Some(children):
            return any(is_true(child, document, event) for child in children)
        case _:
            return _leaf_truth(condition, document, event) is True


def _leaf_truth(leaf: Comparison | Test, document: FlatEvent, event: FlatEvent) -> bool | None:
    if isinstance(leaf, Test):
        return _predicate_truth(leaf.predicate, document if leaf.of_old else event, "strong")
    olds, news = document.get(leaf.old), event.get(leaf.new)
    if olds is None or news is None:
        return None
    shifted = shift_values(news, leaf.shift)
    if not shifted:
        return None
    tests = [Predicate(leaf.old, leaf.op, (new,)) for new in shifted]
    pairs = (satisfies(test, old) for old in olds for test in tests)
    return any(pairs) is not leaf.negated


def score(
    expr: Expr | str | Mapping[str, Any] | bool,
    event: Event,
    logic: Logic = "strong",
    weights: Mapping[Any, float] | None = None,
    event_weights: Mapping[tuple[str, Any], float] | None = None,
) -> float | None:
    """The score of the rule `expr` on `event`; None if it does not match.

    Parameters
    ----------
    expr, event, logic
        As in :func:`evaluate`.
    weights
        The weights of the rule: ``{("author", "Smith"): 2.0}`` for a value of ``=`` or ``IN``,
        ``{"price > 10": 0.5}`` for a whole predicate of another kind; 1 by default.
    event_weights
        The weights of the event: ``{("author", "Smith"): 0.8}``; 1 by default.
    """
    model = _to_model(expr)
    flat = flatten(event)
    refuse_unreadable_in(model, flat)
    return score_flat(
        nnf(model, check_logic(logic)),
        flat,
        RuleWeights.of(weights, model).map(make_comparable),
        EventWeights.of(event_weights),
    )


def score_flat(
    expr: Expr, event: FlatEvent, weights: RuleWeights, event_weights: EventWeights
) -> float | None:
    """The score of a tree of And, Or and Atom; None if it does not hold.

    Sums run over an AND's children and over an event's values from left to right. Every
    engine adds in this order, so scores agree to the last bit.
    """
    match expr:
        case Atom():
            if not _atom_holds(expr, event):
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
