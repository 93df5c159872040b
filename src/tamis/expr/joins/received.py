"""Join predicates about what the rule's own subscription has received: ``FROM received d``.

Section 4.2 of "Index Structures and Algorithms for Efficient Profile Matching" (2001) compares a
new document with those that its subscriber has received before. The same text means something else
in the rules of two subscriptions, so each rule is *bound* to its own when it is added: from then on
the predicate is one about all documents, with a condition on who received them.
"""

from __future__ import annotations

from functools import partial

from tamis.errors import RuleError
from tamis.expr.joins.subqueries import join_named
from tamis.expr.joins.write import join_name
from tamis.expr.model import Expr, Predicate, map_predicates, predicates
from tamis.expr.names import JOINED

__all__ = ["bind_predicate", "bind_received", "mentions_received"]


def mentions_received(rule: str | Expr) -> bool:
    """Whether a rule may have a predicate about received documents: True in doubt, for a text."""
    if isinstance(rule, str):
        return "received" in rule.lower()
    return any(
        predicate.attribute.startswith(JOINED) and join_named(predicate.attribute).received
        for predicate in predicates(rule)
    )


def bind_received(expr: Expr, subscription: str | None) -> Expr:
    """`expr` with each predicate about received documents bound to a subscription.

    Raises
    ------
    RuleError
        There is such a predicate, and no subscription.
    """
    return map_predicates(expr, partial(bind_predicate, subscription=subscription))


def bind_predicate(predicate: Predicate, subscription: str | None) -> Predicate:
    """As `bind_received`, for one predicate."""
    if not predicate.attribute.startswith(JOINED):
        return predicate
    join = join_named(predicate.attribute)
    if not join.received:
        return predicate
    if subscription is None:
        raise RuleError(
            "FROM received is about what the rule's subscription has received, and this rule has "
            "none; add it with subscription='…', or write FROM seen"
        )
    name = join_name(join.bind(subscription))
    return Predicate(name, predicate.op, predicate.values, predicate.negated)
