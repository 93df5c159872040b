"""Explains why a rule matches an event, or what keeps it from matching."""

from __future__ import annotations

import msgspec

from tamis.expr.analysis.explain import Explanation, explain_flat
from tamis.expr.analysis.why_not import Obstacles, find_obstacles
from tamis.expr.evaluate import refuse_unreadable_in
from tamis.expr.event import Event, FlatEvent
from tamis.expr.joins.received import bind_predicate
from tamis.expr.model import Expr, predicates
from tamis.expr.names import JOINED
from tamis.joins.document_store import DocumentStore
from tamis.matcher.join_predicates import add_join_attributes
from tamis.matcher.rule import Rule
from tamis.matcher.schema import Schema

__all__ = ["Explainer"]


class Explainer:
    """Explains single rules by evaluating them, without an index.

    Parameters
    ----------
    schema
        The declared types of attributes.
    documents
        The documents that join predicates refer to.
    """

    def __init__(self, schema: Schema, documents: DocumentStore) -> None:
        self._schema = schema
        self._documents = documents

    def explain(self, rule: Rule, event: Event) -> Explanation:
        """Explain which parts of `rule` hold for `event` and which do not."""
        expr = self._schema.adapt_rule(rule.expr)
        return explain_flat(expr, self._read(event, expr, rule.subscription), rule.logic)

    def find_obstacles(self, rule: Rule, event: Event, at: int) -> Obstacles:
        """Find what keeps `rule` from matching `event` at a time in microseconds."""
        expr = self._schema.adapt_rule(rule.expr)
        read = self._read(event, expr, rule.subscription)
        obstacles = find_obstacles(expr, read, rule.logic)
        if rule.validity.is_valid(at):
            return obstacles
        return msgspec.structs.replace(obstacles, invalid=str(rule.validity))

    def _read(self, event: Event, expr: Expr, subscription: str | None) -> FlatEvent:
        """Read `event`, and evaluate the join predicates of `expr` for it."""
        flat = self._schema.read(event)
        refuse_unreadable_in(expr, flat)
        joins = {p for p in predicates(expr) if p.attribute.startswith(JOINED)}
        if not joins:
            return flat
        bound = {p.attribute: bind_predicate(p, subscription).attribute for p in joins}
        truths = self._documents.evaluate_joins(set(bound.values()), flat)
        known = {name: truths[own] for name, own in bound.items() if own in truths}
        return add_join_attributes(flat, known)
