"""Explains why a rule matches an event, or what keeps it from matching."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec

from tamis.expr.analysis.explain import Explanation, explain_flat
from tamis.expr.analysis.why_not import Obstacles, find_obstacles
from tamis.expr.evaluate import refuse_unreadable_in
from tamis.expr.event import Event, FlatEvent, extend_event
from tamis.expr.joins.predicate import Quantifier
from tamis.expr.joins.received import bind_predicate
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Expr, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.write import to_sql
from tamis.joins.document_store import DocumentId, DocumentStore
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
        expr = self._schema.adapt_types(rule.expr)
        names = {p.attribute for p in predicates(expr) if p.attribute.startswith(JOINED)}
        with self._documents.held() if names else nullcontext():
            read = self._read(event, expr, rule.subscription)
            counted = {name: self._find_counted(name, read, rule.subscription) for name in names}
        schema = self._schema
        return explain_flat(expr, read, rule.logic, counted, schema.adapt_rule, schema.find_nodes)

    def find_obstacles(self, rule: Rule, event: Event, at: int) -> Obstacles:
        """Find what keeps `rule` from matching `event` at a time in microseconds."""
        expr = self._schema.adapt_rule(rule.expr)
        read = self._read(event, expr, rule.subscription)
        obstacles = self._shorten(rule.expr, find_obstacles(expr, read, rule.logic))
        if rule.validity.is_valid(at):
            return obstacles
        return msgspec.structs.replace(obstacles, invalid=str(rule.validity))

    def _shorten(self, expr: Expr, obstacles: Obstacles) -> Obstacles:
        """Name nodes of a taxonomy in place of all values below them."""
        adapt, texts = self._schema.adapt, {}
        for said in predicates(expr):
            for part in (said.positive, msgspec.structs.replace(said, negated=True)):
                texts[to_sql(adapt(part))] = to_sql(part)
        changes = obstacles.changes and tuple(
            msgspec.structs.replace(change, text=texts.get(change.text, change.text))
            for change in obstacles.changes
        )
        return msgspec.structs.replace(obstacles, changes=changes)

    def _read(self, event: Event, expr: Expr, subscription: str | None) -> FlatEvent:
        """Read `event`, and evaluate the join predicates of `expr` for it."""
        flat = self._schema.read(event)
        refuse_unreadable_in(expr, flat)
        joins = {p for p in predicates(expr) if p.attribute.startswith(JOINED)}
        if not joins:
            return flat
        bound = {p.attribute: bind_predicate(p, subscription).attribute for p in joins}
        found = self._documents.evaluate_joins(set(bound.values()), flat)
        known = {name: found[own] for name, own in bound.items() if own in found}
        return extend_event(flat, known)

    def _find_counted(
        self, name: str, event: FlatEvent, subscription: str | None
    ) -> tuple[DocumentId, ...]:
        """The documents that a join predicate counts, or that satisfy its comparison."""
        join = join_named(name)
        if join.received and subscription is not None:
            join = join.bind(subscription)
        if join.quantifier is Quantifier.ALL:
            return ()
        return tuple(self._documents.find_counted(join, event))
