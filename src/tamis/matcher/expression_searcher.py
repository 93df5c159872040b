"""Finds the rules that an event expression matches; see `tamis.expr.analysis.event_expressions`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32
from tamis.errors import EventError
from tamis.expr.analysis.event_expressions import Verdict, find_alternatives, stabs
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, predicates
from tamis.expr.names import display_name, is_computed
from tamis.expr.normalize import nnf
from tamis.matcher.rule import Rule, RuleId, RuleSource, to_expr
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.selection import Selection
from tamis.matcher.snapshot import View
from tamis.matcher.tail import TailRule

__all__ = ["ExpressionSearcher"]


class ExpressionSearcher:
    """Finds the rules that at least one of the events described by an expression satisfies.

    Parameters
    ----------
    event
        The event expression, in any of the forms of a rule.
    schema
        The declared types of attributes.

    Raises
    ------
    EventError
        The expression is not supported; see
        `tamis.expr.analysis.event_expressions.alternatives`.
    """

    def __init__(self, event: RuleSource, schema: Schema) -> None:
        self._schema = schema
        expr = schema.adapt_rule(to_expr(event))
        self._attributes = frozenset(predicate.attribute for predicate in predicates(expr))
        for name in self._attributes:
            if is_computed(name):
                raise EventError(
                    f"an event expression has predicates on attributes, not on {display_name(name)}"
                )
        self._alternatives = find_alternatives(expr, schema.lines_of)

    def search(
        self, views: Sequence[View], tail: Iterable[TailRule], selection: Selection
    ) -> list[RuleId]:
        """Find the ids of the matching rules, in the order in which they were added.

        Raises
        ------
        EventError
            Whether a rule matches cannot be decided.
        """
        ids: list[RuleId] = []
        for view in views:
            segment = view.segment
            places = self._search_segment(segment, view.mask(selection))
            ids += segment.ids.array(segment.by_age(places)).tolist()
        return ids + [
            entry.rule.id
            for entry in tail
            if selection.includes(entry.rule) and self._matches(entry.rule, entry.tree)
        ]

    def _search_segment(
        self, segment: Segment, mask: NDArray[np.uint8] | None
    ) -> NDArray[np.int32]:
        """Find the places of the matching rules, rising, among those whose `mask` is set."""
        self._check_attributes(segment.engine.rules.dictionary.attributes)
        parts = [segment.match_expression(alternative, mask) for alternative in self._alternatives]
        matched = np.unique(np.concatenate([NO_INT32, *(part.matched for part in parts)]))
        undecided = np.concatenate([NO_INT32, *(part.undecided for part in parts)])
        # The engine leaves few rules undecided; each of those is evaluated by itself.
        others = [
            place
            for place in np.setdiff1d(undecided, matched).tolist()
            if self._place_matches(segment, place)
        ]
        return np.union1d(matched, np.array(others, np.int32)).astype(np.int32)

    def _place_matches(self, segment: Segment, place: int) -> bool:
        rule = segment.columns.rule(place)
        return self._matches(rule, nnf(self._schema.adapt_rule(rule.expr), rule.logic))

    def _matches(self, rule: Rule, tree: Expr) -> bool:
        """Whether `rule` matches; `tree` is its negation normal form."""
        self._check_attributes(predicate.attribute for predicate in predicates(tree))
        verdict = stabs(tree, self._alternatives)
        if verdict is Verdict.MAYBE:
            raise EventError(
                f"cannot decide whether the event matches rule {rule.id!r}: the rule looks for a "
                "pattern in strings of which the event does not list all, or has too many ORs; "
                "list the strings with = or IN"
            )
        return verdict is Verdict.YES

    def _check_attributes(self, names: Iterable[str]) -> None:
        """Refuse attributes that are derived from an attribute of the event expression."""
        for name in names:
            if is_computed(name) and not self._attributes.isdisjoint(bases_of(name)):
                raise EventError(
                    f"cannot decide whether the event matches rules with {display_name(name)}: "
                    "it is derived from an attribute that the event describes only in part"
                )
