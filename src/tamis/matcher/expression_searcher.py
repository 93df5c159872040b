"""The rules that an event expression matches; see `tamis.expr.analysis.event_expressions`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tamis.errors import EventError
from tamis.expr.analysis.event_expressions import Verdict, alternatives, stabs
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, predicates
from tamis.expr.names import is_worked_out, name_shown
from tamis.expr.normalize import nnf
from tamis.matcher.rule import Rule, RuleSource, expr_of
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment

__all__ = ["Stabbing"]

_NO_PLACES = np.empty(0, np.int32)


class Stabbing:
    """An event expression that rules are looked for.

    Parameters
    ----------
    event
        The expression, in any of the forms of a rule.
    schema
        What is declared about attributes.

    Raises
    ------
    EventError
        It cannot be asked; see `tamis.expr.analysis.event_expressions.alternatives`.
    """

    def __init__(self, event: RuleSource, schema: Schema) -> None:
        self._schema = schema
        expr = schema.adapt_rule(expr_of(event))
        self._attributes = frozenset(predicate.attribute for predicate in predicates(expr))
        for name in self._attributes:
            if is_worked_out(name):
                raise EventError(
                    f"an event expression speaks of attributes, not of {name_shown(name)}"
                )
        self._alternatives = alternatives(expr, schema.lines_of)

    def places(self, segment: Segment, mask: NDArray[np.uint8] | None) -> NDArray[np.int32]:
        """The places of the matching rules of a segment, rising, of those whose `mask` is set."""
        self._check(segment.engine.rules.dictionary.attributes)
        found = [segment.stab(alternative, mask) for alternative in self._alternatives]
        matched = np.unique(np.concatenate([_NO_PLACES, *(part.matched for part in found)]))
        undecided = np.concatenate([_NO_PLACES, *(part.undecided for part in found)])
        # The engine leaves few rules undecided; those are asked one by one.
        others = [
            place
            for place in np.setdiff1d(undecided, matched).tolist()
            if self._matches(segment.records.rule(place))
        ]
        return np.union1d(matched, np.array(others, np.int32)).astype(np.int32)

    def _check(self, names: Iterable[str]) -> None:
        """Refuse rules that derive something from what the event leaves open."""
        for name in names:
            if is_worked_out(name) and not self._attributes.isdisjoint(bases_of(name)):
                raise EventError(
                    f"whether the event matches rules that ask for {name_shown(name)} cannot be "
                    "told, as it is worked out from an attribute of which only so much is known"
                )

    def _matches(self, rule: Rule) -> bool:
        return self.matches(rule, nnf(self._schema.adapt_rule(rule.expr), rule.logic))

    def matches(self, rule: Rule, tree: Expr) -> bool:
        """Whether a rule matches, whose negation normal form is `tree`.

        Raises
        ------
        EventError
            That cannot be told.
        """
        self._check(predicate.attribute for predicate in predicates(tree))
        verdict = stabs(tree, self._alternatives)
        if verdict is Verdict.MAYBE:
            raise EventError(
                f"whether the event matches rule {rule.id!r} cannot be told: the rule looks for a "
                "pattern in strings of which the event does not list all, or has too many ORs; "
                "list the strings with = or IN"
            )
        return verdict is Verdict.YES
