"""How rules come and go: the writing side of a Matcher.

New rules wait in the tail. A full tail, or a large batch, becomes a segment, together with the
segments before it that are not much larger: so there are never more than a few, and a rule is
encoded again only a logarithmic number of times.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tamis.encode.rules import RuleEncoder
from tamis.engines.base import Engine
from tamis.errors import DuplicateRuleError, RuleError, SchemaError, UnknownRuleError
from tamis.expr.model import Expr
from tamis.expr.normalize import nnf
from tamis.expr.shapes import Shapes
from tamis.expr.weights import RuleWeights
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Snapshot, TailRule, View

__all__ = ["BadRule", "Collection"]

_TAIL = 64
"""How many rules may wait in the tail, where each is evaluated by itself."""

_RATIO = 2
"""A segment is taken into a new one that is at least 1/_RATIO of its size."""


class BadRule(NamedTuple):
    """A rule that was refused and skipped."""

    id: Any
    position: int | None
    """Where in its text the culprit stands, if that is known."""
    message: str

    @classmethod
    def of(cls, id: Any, error: RuleError | SchemaError) -> BadRule:
        """What `error` says about the rule `id`."""
        position = error.position if isinstance(error, RuleError) else None
        return cls(id, position, error.message if isinstance(error, RuleError) else str(error))


class Collection:
    """Rules by id. One thread writes at a time; `snapshot` may be read at any time."""

    def __init__(self, engine: type[Engine], schema: Schema) -> None:
        self._engine = engine
        self._schema = schema
        self._shapes = Shapes()
        self._writing = threading.Lock()
        self.snapshot = Snapshot((), (), self._segment)

    def add(self, rules: Sequence[Rule], replace: bool, bad: list[BadRule] | None = None) -> int:
        """Add rules and return how many; refused ones go to `bad`, or raise if there is none.

        Either all that is to be added is, by one swap, or nothing is.
        """
        with self._writing:
            fresh = self._acceptable(rules, replace, bad)
            views, tail = self._without({rule.id for rule in fresh}) if replace else self._state()
            if len(tail) + len(fresh) <= _TAIL:
                entries = self._tail_entries(fresh, bad)
                tail, added = (*tail, *entries), len(entries)
            else:
                views, added = self._with_segment(views, tail, fresh, bad)
                tail = ()
            if added:
                self.snapshot = Snapshot(views, tail, self._segment)
            return added

    def remove(self, id: RuleId) -> None:
        """Remove the rule `id`."""
        with self._writing:
            if self.snapshot.find(id) is None:
                raise UnknownRuleError(f"there is no rule {id!r}")
            self.snapshot = Snapshot(*self._without({id}), self._segment)

    def _state(self) -> tuple[tuple[View, ...], tuple[TailRule, ...]]:
        return self.snapshot.views, self.snapshot.tail

    def _acceptable(
        self, rules: Iterable[Rule], replace: bool, bad: list[BadRule] | None
    ) -> list[Rule]:
        """The rules whose ids are free or to be replaced.

        A rule that replaces another is parsed here already: if it is refused, the old one stays.
        """
        kept: dict[RuleId, Rule] = {}
        for rule in rules:
            try:
                if rule.id in kept:
                    raise DuplicateRuleError("the id appears twice in the batch")
                if self.snapshot.find(rule.id) is not None:
                    if not replace:
                        raise DuplicateRuleError("the id is taken; pass replace=True to replace it")
                    self._tail_entry(rule)
                kept[rule.id] = rule
            except (RuleError, SchemaError) as error:
                _refuse(rule, error, bad)
        return list(kept.values())

    def _tail_entries(
        self, rules: Iterable[Rule], bad: list[BadRule] | None
    ) -> tuple[TailRule, ...]:
        entries: list[TailRule] = []
        for rule in rules:
            try:
                entries.append(self._tail_entry(rule))
            except (RuleError, SchemaError) as error:
                _refuse(rule, error, bad)
        return tuple(entries)

    def _tail_entry(self, rule: Rule) -> TailRule:
        expr = self._shapes.parse(rule.source) if isinstance(rule.source, str) else rule.source
        weights = self._weights(rule, expr)
        return TailRule(rule, nnf(self._schema.adapt_rule(expr), rule.logic), weights)

    def _weights(self, rule: Rule, expr: Expr) -> RuleWeights:
        weights = RuleWeights.of(rule.weights, expr)
        return weights.mapped(self._schema.adapt) if weights and self._schema else weights

    def _with_segment(
        self,
        views: tuple[View, ...],
        tail: tuple[TailRule, ...],
        fresh: list[Rule],
        bad: list[BadRule] | None,
    ) -> tuple[tuple[View, ...], int]:
        """The views with a new segment of `fresh`, the tail, and views that are not much larger.

        Returns how many of `fresh` are in it, too.
        """
        size = len(fresh) + len(tail)
        kept = len(views)
        while kept and views[kept - 1].size <= _RATIO * size:
            kept -= 1
            size += views[kept].size
        held = [rule for view in views[kept:] for rule in view.rules()]
        held += [entry.rule for entry in tail]
        encoder = self._encoder()
        for rule in held:
            self._encode(encoder, rule)
        before = len(held)
        for rule in fresh:
            try:
                self._encode(encoder, rule)
                held.append(rule)
            except (RuleError, SchemaError) as error:
                _refuse(rule, error, bad)
        segment = Segment(held, encoder.finish(), self._engine, self._schema)
        return (*views[:kept], View(segment, None, len(segment))), len(held) - before

    def _without(self, ids: set[RuleId]) -> tuple[tuple[View, ...], tuple[TailRule, ...]]:
        """The views and the tail of the snapshot with these rules removed."""
        views, tail = self._state()
        tail = tuple(entry for entry in tail if entry.rule.id not in ids)
        return tuple(self._reduced(view, ids) for view in views), tail

    def _reduced(self, view: View, ids: set[RuleId]) -> View:
        places = [place for id in ids if (place := view.place_of(id)) is not None]
        if not places:
            return view
        reduced = view.without(places)
        if 2 * reduced.size >= len(view.segment):
            return reduced
        # More than half of the segment is dead weight by now.
        segment = self._segment(list(reduced.rules()))
        return View(segment, None, len(segment))

    def _segment(self, rules: list[Rule]) -> Segment:
        encoder = self._encoder()
        for rule in rules:
            self._encode(encoder, rule)
        return Segment(rules, encoder.finish(), self._engine, self._schema)

    def _encoder(self) -> RuleEncoder:
        adapt = self._schema.adapt if self._schema else None
        return RuleEncoder(self._schema.scalars, adapt, self._shapes)

    def _encode(self, encoder: RuleEncoder, rule: Rule) -> None:
        if isinstance(rule.source, str) and rule.weights is None:
            encoder.add_text(rule.source, rule.logic)
        else:
            expr = rule.expr
            encoder.add(expr, rule.logic, self._weights(rule, expr))


def _refuse(rule: Rule, error: RuleError | SchemaError, bad: list[BadRule] | None) -> None:
    """Note a refused rule, or raise the error if nobody takes notes."""
    if bad is not None:
        bad.append(BadRule.of(rule.id, error))
        return
    if isinstance(error, RuleError):
        error.rule_id = rule.id
    raise error
