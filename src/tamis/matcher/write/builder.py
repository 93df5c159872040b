"""Builds segments: from new rules, from the tail, and from other segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tamis.encode.merge.rules import merge_rules
from tamis.encode.rules import RuleEncoder
from tamis.engines.base import Engine
from tamis.errors import DuplicateRuleError, RuleError, SchemaError
from tamis.expr.functions.derive import make_comparable
from tamis.expr.model import TRUE, Expr, Predicate, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.bulk import SharedReader
from tamis.expr.weights import RuleWeights
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns, RuleColumnsBuilder
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import View
from tamis.matcher.tail import TailRule
from tamis.matcher.write.responsive import clear_in_steps, take_in_steps
from tamis.matcher.write.state import Batch

__all__ = ["BadRule", "SegmentBuilder", "refuse"]

_TAIL_BATCH = 16
"""A batch of up to so many rules goes to the tail; a larger one becomes a segment at once."""

_NO_WEIGHTS: Final = RuleWeights.of(None, TRUE)

_TWICE: Final = "the id appears twice in the batch"


class BadRule(NamedTuple):
    """A rule that was refused and skipped."""

    id: Any
    position: int | None
    """The offset of the culprit in the rule's text, if it is known."""
    message: str

    @classmethod
    def of(cls, id: Any, error: RuleError | SchemaError) -> BadRule:
        """The rule `id`, refused with `error`."""
        position = error.position if isinstance(error, RuleError) else None
        return cls(id, position, error.message if isinstance(error, RuleError) else str(error))


def refuse(id: Any, error: RuleError | SchemaError, bad: list[BadRule] | None) -> None:
    """Append the rule `id` to `bad`; without such a list, raise the error."""
    if bad is not None:
        bad.append(BadRule.of(id, error))
        return
    if isinstance(error, RuleError):
        error.rule_id = id
    raise error


class SegmentBuilder:
    """Builds segments and reads rules for the tail. Safe to use from several threads.

    Parameters
    ----------
    engine
        The engine of new segments.
    schema
        The declared attributes.
    takes_joins
        Whether rules may hold join predicates.
    """

    def __init__(self, engine: type[Engine], schema: Schema, takes_joins: bool = True) -> None:
        self.engine = engine
        self.schema = schema
        self._takes_joins = takes_joins
        self._reader = SharedReader(self._adapt)

    def after_fork(self) -> None:
        """In a forked child: replace a lock that a thread of the parent may have held."""
        self._reader.after_fork()

    def prepare(self, rules: Sequence[Rule], bad: list[BadRule] | None) -> Batch:
        """Read and check new rules, and build a segment if they are many.

        Refused rules are appended to `bad`; without such a list, the first one raises.
        """
        if len(rules) > _TAIL_BATCH:
            return self._prepare_segment(rules, bad)
        entries: dict[RuleId, TailRule] = {}
        for rule in rules:
            try:
                if rule.id in entries:
                    raise DuplicateRuleError(_TWICE)
                entries[rule.id] = self.read_rule(rule)
            except (RuleError, SchemaError) as error:
                refuse(rule.id, error, bad)
        kept = tuple(entries.values())
        return Batch([entry.rule for entry in kept], kept, None)

    def _prepare_segment(self, rules: Sequence[Rule], bad: list[BadRule] | None) -> Batch:
        encoder, columns = self._encoder(), RuleColumnsBuilder()
        accepted: list[Rule] = []
        ids: set[RuleId] = set()
        for some in take_in_steps(rules):
            first = len(accepted)
            for rule in some:
                try:
                    if rule.id in ids:
                        raise DuplicateRuleError(_TWICE)
                    self._encode(encoder, rule)
                except (RuleError, SchemaError) as error:
                    refuse(rule.id, error, bad)
                else:
                    ids.add(rule.id)
                    accepted.append(rule)
            columns.add(accepted[first:])
        segment = self._finish(columns, encoder)
        clear_in_steps([ids])
        return Batch(accepted, (), segment)

    def read_rule(self, rule: Rule) -> TailRule:
        """Read a rule for the tail.

        Raises
        ------
        RuleError, SchemaError
            It is not valid.
        """
        source = rule.source
        if isinstance(source, str):
            if rule.weights is None:
                tree = self._reader.read_tree(source, rule.logic)
                return TailRule(rule, tree, _NO_WEIGHTS, _has_joins(tree))
            source = self._reader.parse(source)
        weights = self._weights(rule, source)
        tree = self._reader.normalize(source, rule.logic)
        return TailRule(rule, tree, weights, _has_joins(tree))

    def freeze(self, entries: Iterable[TailRule]) -> Segment:
        """Build a segment from rules of the tail, oldest first."""
        encoder, columns = self._encoder(), RuleColumnsBuilder()
        for some in take_in_steps(entries):
            columns.add([entry.rule for entry in some])
            for rule, tree, weights, _ in some:
                # A text without weights takes the reader's fast roads although its tree is known:
                # 13 ms for 1,024 two-level rules, against 23 ms for their trees. A model takes the
                # tree: 71 ms, against 120 ms if it were normalised again.
                if isinstance(rule.source, str) and rule.weights is None:
                    encoder.add_text(rule.source, rule.logic)
                else:
                    encoder.add_tree(tree, weights)
        return self._finish(columns, encoder)

    def _finish(self, columns: RuleColumnsBuilder, encoder: RuleEncoder) -> Segment:
        encoded = encoder.finish()
        clear_in_steps(encoder.leftovers)
        return Segment.build(columns.finish(), encoded, self.engine, self.schema)

    def merge(self, views: Sequence[View], sample: Sequence[EventChunk] = ()) -> Segment:
        """Build one segment from the living rules of several, oldest first.

        Parameters
        ----------
        views
            The segments to merge.
        sample
            Events like those to come, by which the engine may order the rules.
        """
        parts = [(view.segment, view.places()) for view in views]
        columns = RuleColumns.concat([segment.columns.take(places) for segment, places in parts])
        encoded = merge_rules([(segment.engine.rules, places) for segment, places in parts])
        return Segment.build(columns, encoded, self.engine, self.schema, sample)

    def _weights(self, rule: Rule, expr: Expr) -> RuleWeights:
        weights = RuleWeights.of(rule.weights, expr)
        if weights and self.schema:
            weights = weights.map(self.schema.adapt)
        return weights.map(make_comparable) if weights else weights

    def _encoder(self) -> RuleEncoder:
        return RuleEncoder(self.schema.scalars, self._reader.bulk_reader())

    @property
    def _adapt(self) -> Callable[[Predicate], Predicate] | None:
        """What is applied to every predicate of a rule."""
        if not self._takes_joins:
            return self._adapt_without_joins
        return self.schema.adapt if self.schema else None

    def _adapt_without_joins(self, predicate: Predicate) -> Predicate:
        if predicate.attribute.startswith(JOINED):
            raise RuleError(
                "a rule with a join predicate needs the documents seen before; "
                "there are none here, add it to a Matcher of its own"
            )
        return self.schema.adapt(predicate)

    def _encode(self, encoder: RuleEncoder, rule: Rule) -> None:
        if isinstance(rule.source, str) and rule.weights is None:
            encoder.add_text(rule.source, rule.logic)
        else:
            expr = rule.expr
            encoder.add(expr, rule.logic, self._weights(rule, expr))


def _has_joins(tree: Expr) -> bool:
    return any(predicate.attribute.startswith(JOINED) for predicate in predicates(tree))
