"""Rules → segments: what is prepared aside, before anybody sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.encode.merge.rules import merged
from tamis.encode.plain_rules import PlainTexts
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.errors import DuplicateRuleError, RuleError, SchemaError
from tamis.expr.functions.derive import comparable
from tamis.expr.model import TRUE, Atom, Expr, Logic, Predicate, map_predicates, predicates
from tamis.expr.names import JOINED
from tamis.expr.normalize import nnf
from tamis.expr.text.shapes import Shapes
from tamis.expr.weights import RuleWeights
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Row, Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns, RuleColumnsBuilder
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import View
from tamis.matcher.tail import TailRule
from tamis.matcher.write.responsive import empty

__all__ = ["BadRule", "Maker", "Prepared"]

_FEW = 16
"""Up to how many rules of a batch wait in the tail; more become a segment at once."""

_AT_ONCE = 512
"""How many rules are made into columns at a time: in one long call other threads would wait."""


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


class Prepared(NamedTuple):
    """Rules that were accepted as such, and are ready to become part of a collection."""

    entries: tuple[TailRule, ...]
    """Few rules, for the tail."""
    segment: Segment | None
    """Many rules; then there are no entries."""
    rows: tuple[bytes, ...]
    """What is to be stored, in pieces: lists of `Row` in MessagePack. Empty if nothing is."""


class Maker:
    """Makes segments, and rules for the tail; safe to use from several threads.

    Parameters
    ----------
    engine
        The engine of new segments.
    schema
        What is declared about attributes.
    keeps_rows
        Whether rules are to be stored, and so come with their rows.
    takes_joins
        Whether rules may hold join predicates.
    """

    def __init__(
        self,
        engine: type[Engine],
        schema: Schema,
        keeps_rows: bool = False,
        takes_joins: bool = True,
    ) -> None:
        self.engine = engine
        self.schema = schema
        self._keeps_rows = keeps_rows
        self._takes_joins = takes_joins
        self._shapes = Shapes()
        self._texts = _PlainTrees(schema)

    def after_fork(self) -> None:
        """In a forked child: another thread may have been reading a rule, and held a lock."""
        self._texts = _PlainTrees(self.schema)

    def prepare(self, rules: Sequence[Rule], bad: list[BadRule] | None) -> Prepared:
        """Parse rules and build what is to be built; refused ones go to `bad`, or raise."""
        if len(rules) > _FEW:
            return self._prepared_segment(rules, bad)
        entries: dict[RuleId, TailRule] = {}
        for rule in rules:
            try:
                if rule.id in entries:
                    raise DuplicateRuleError(_TWICE)
                entries[rule.id] = self.tail_rule(rule)
            except (RuleError, SchemaError) as error:
                refuse(rule.id, error, bad)
        kept = tuple(entries.values())
        return Prepared(kept, None, self._rows([entry.rule for entry in kept]))

    def _prepared_segment(self, rules: Sequence[Rule], bad: list[BadRule] | None) -> Prepared:
        encoder, columns = self._encoder(), RuleColumnsBuilder()
        rows: list[bytes] = []
        ids: set[RuleId] = set()
        for some in _pieces(rules, _AT_ONCE):
            kept = []
            for rule in some:
                try:
                    if rule.id in ids:
                        raise DuplicateRuleError(_TWICE)
                    self._encode(encoder, rule)
                except (RuleError, SchemaError) as error:
                    refuse(rule.id, error, bad)
                else:
                    ids.add(rule.id)
                    kept.append(rule)
            columns.add(kept)
            rows += self._rows(kept)
        segment = self._built(columns, encoder)
        empty([ids])
        return Prepared((), segment, tuple(rows))

    def _rows(self, rules: Sequence[Rule]) -> tuple[bytes, ...]:
        if not self._keeps_rows or not rules:
            return ()
        return (msgspec.msgpack.encode([Row.of(rule) for rule in rules]),)

    def tail_rule(self, rule: Rule) -> TailRule:
        """A rule as it waits in the tail."""
        source = rule.source
        if isinstance(source, str):
            tree = self._texts.tree(source, rule.logic) if rule.weights is None else None
            if tree is not None:
                return TailRule(rule, tree, _NO_WEIGHTS, _has_joins(tree))
            source = self._shapes.parse(source)
        weights = self._weights(rule, source)
        adapt = self._adapt
        adapted = map_predicates(source, adapt) if adapt is not None else source
        tree = nnf(adapted, rule.logic)
        return TailRule(rule, tree, weights, _has_joins(tree))

    def segment(self, rules: Sequence[Rule]) -> Segment:
        """A segment of rules that were accepted before."""
        encoder, columns = self._encoder(), RuleColumnsBuilder()
        for some in _pieces(rules, _AT_ONCE):
            columns.add(some)
            for rule in some:
                self._encode(encoder, rule)
        return self._built(columns, encoder)

    def _built(self, columns: RuleColumnsBuilder, encoder: RuleEncoder) -> Segment:
        encoded = encoder.finish()
        empty(encoder.leftovers)
        return Segment.build(columns.finish(), encoded, self.engine, self.schema)

    def merged(self, views: Sequence[View], sample: Sequence[EventChunk] = ()) -> Segment:
        """One segment of the living rules of several, oldest first."""
        parts = [(view.segment, view.places()) for view in views]
        columns = RuleColumns.concat([segment.columns.take(places) for segment, places in parts])
        encoded = merged([(segment.engine.rules, places) for segment, places in parts])
        return Segment.build(columns, encoded, self.engine, self.schema, sample)

    def rebuilt(
        self, columns: RuleColumns, encoded: EncodedRules, order: NDArray[np.int32]
    ) -> Segment:
        """A segment of rules that lie as another engine had them, in its `order`."""
        places = np.argsort(order).astype(np.int32)
        if not np.array_equal(places, np.arange(len(places))):
            columns, encoded = columns.take(places), merged([(encoded, places)])
        return Segment.build(columns, encoded, self.engine, self.schema)

    def _weights(self, rule: Rule, expr: Expr) -> RuleWeights:
        weights = RuleWeights.of(rule.weights, expr)
        if weights and self.schema:
            weights = weights.mapped(self.schema.adapt)
        return weights.mapped(comparable) if weights else weights

    def _encoder(self) -> RuleEncoder:
        return RuleEncoder(self.schema.scalars, self._adapt, self._shapes)

    @property
    def _adapt(self) -> Callable[[Predicate], Predicate] | None:
        """What is done to every predicate, if anything is."""
        if not self._takes_joins:
            return self._adapt_constant
        return self.schema.adapt if self.schema else None

    def _adapt_constant(self, predicate: Predicate) -> Predicate:
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


class _PlainTrees:
    """Reads plain rules one by one. Predicates that were read before are the same atoms again.

    Safe to use from several threads.
    """

    def __init__(self, schema: Schema) -> None:
        self._adapt = schema.adapt if schema else None
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._atoms: list[Atom] = []
        self._plain = PlainTexts(self._number, self._adapt)

    def _number(self, atom: Atom) -> int:
        self._atoms.append(atom)
        return len(self._atoms) - 1

    def tree(self, text: str, logic: Logic) -> Expr | None:
        """The rule in negation normal form; None if it is not plain."""
        with self._lock:
            if len(self._atoms) > _REMEMBERED:
                self._forget()
            plain = self._plain.read(text, logic)
            return None if plain is None else plain.tree(self._atoms)


_REMEMBERED = 65_536
"""How many distinct predicates are kept."""

_NO_WEIGHTS = RuleWeights.of(None, TRUE)

_TWICE = "the id appears twice in the batch"


def refuse(id: Any, error: RuleError | SchemaError, bad: list[BadRule] | None) -> None:
    """Note a refused rule, or raise the error if nobody takes notes."""
    if bad is not None:
        bad.append(BadRule.of(id, error))
        return
    if isinstance(error, RuleError):
        error.rule_id = id
    raise error


def _pieces(rules: Iterable[Rule], size: int) -> Iterator[list[Rule]]:
    rest = iter(rules)
    while piece := list(islice(rest, size)):
        yield piece
