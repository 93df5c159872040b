"""Builds segments: from new rules, from the tail, and from other segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.encode.merge.rules import merge_rules
from tamis.encode.plain.reader import PlainReader, PlainRules
from tamis.encode.plain.warm_up import is_compiled, is_loaded
from tamis.encode.plain.weights import weigh_rules
from tamis.encode.reorder import reorder_rules
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.errors import DuplicateRuleError, RuleError, refusal_of, report_defect
from tamis.expr.functions.derive import make_comparable
from tamis.expr.joins.received import bind_predicate, bind_received, mentions_received
from tamis.expr.model import TRUE, Expr, Predicate, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.bulk import SharedReader
from tamis.expr.weights import RuleWeights
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import View
from tamis.matcher.tail import TailRule
from tamis.matcher.write.bad_rules import BadRule, refuse
from tamis.matcher.write.new_rules import FEW_RULES, NewRules
from tamis.matcher.write.responsive import clear_in_steps
from tamis.matcher.write.state import Batch

__all__ = ["SegmentBuilder"]

_LEAST_FOR_KERNELS: Final = 10_000
"""Fewer rules are read without the kernels of `tamis.encode.plain`, unless these are loaded: that
takes as long as reading so many rules."""

_LEAST_FOR_COMPILER: Final = 500_000
"""From this number on, reading rules without kernels takes longer than compiling these."""

_NO_WEIGHTS: Final = RuleWeights.of(None, TRUE)

_TWICE: Final = "the id appears twice in the batch"


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

    def prepare(self, rules: list[Rule] | NewRules, bad: list[BadRule] | None) -> Batch:
        """Read and check new rules, and build a segment if they are many.

        Refused rules are appended to `bad`; without such a list, the first one raises.
        """
        if isinstance(rules, NewRules):
            if len(rules.columns) > FEW_RULES:
                return self._prepare_segment(rules, bad)
            rules = rules.rules()
        elif len(rules) > FEW_RULES:
            return self._prepare_segment(NewRules.of(rules), bad)
        entries: dict[RuleId, TailRule] = {}
        for rule in rules:
            check_time()
            try:
                if rule.id in entries:
                    raise DuplicateRuleError(_TWICE)
                entries[rule.id] = self.read_rule(rule)
            except Exception as error:
                refuse(rule.id, refusal_of(error, rule.source), bad)
        kept = tuple(entries.values())
        return Batch([entry.rule for entry in kept], kept, None)

    def _prepare_segment(self, new: NewRules, bad: list[BadRule] | None) -> Batch:
        columns, (was_plain, plain, weighed) = new.columns, self._read_plain(new)
        plain, is_plain = _weigh(new, was_plain, plain, weighed)
        others = self._encoder()
        repeated = frozenset(columns.ids.find_repeated().tolist())
        accepted: set[RuleId] = set()
        """Ids that are there more than once, and taken by a rule."""
        refused: list[int] = []
        others_at: list[int] = []
        for place in sorted(repeated.union(np.flatnonzero(~is_plain).tolist())):
            check_time()
            id = columns.ids.at(place)
            try:
                if id in accepted:
                    raise DuplicateRuleError(_TWICE)
                if not is_plain[place]:
                    if place in new.unstorable:
                        self.read_rule(new.rule(place))  # It may say more about what is wrong.
                        raise new.unstorable[place]
                    self._encode(others, new.rule(place))
            except Exception as error:
                refuse(id, refusal_of(error, new.rule(place).source), bad)
                refused.append(place)
                continue
            if place in repeated:
                accepted.add(id)
            if not is_plain[place]:
                others_at.append(place)
        encoded = _join(was_plain, is_plain, plain, refused, others, others_at)
        clear_in_steps(others.leftovers)
        if refused:
            columns = columns.take(np.delete(np.arange(len(columns)), refused))
        segment = Segment.build(columns, encoded, self.engine, self.schema)
        return Batch(columns, (), segment)

    def _read_plain(self, new: NewRules) -> PlainRules:
        """The rules that kernels read."""
        are_texts, sources = new.are_texts(), new.columns.sources
        count = len(are_texts)
        needs_none = self.schema.has_levels or (count < _LEAST_FOR_KERNELS and not is_loaded())
        if needs_none or (count < _LEAST_FOR_COMPILER and not is_compiled()):
            return _no_plain(count)
        try:
            reader = PlainReader(self._adapt, self.schema.adapted, self.schema.scalars)
            reader.add(sources.start, sources.data, new.columns.kinds & np.uint8(1))
            return reader.finish(are_texts)
        except Exception as error:
            report_defect(error)
            return _no_plain(count)

    def read_rule(self, rule: Rule) -> TailRule:
        """Read a rule for the tail.

        Raises
        ------
        RuleError, SchemaError
            It is not valid.
        """
        source = rule.source
        if isinstance(source, str):
            if self._is_plain_text(rule):
                tree = self._reader.read_tree(source, rule.logic)
                # Only a SELECT becomes a join predicate.
                has_joins = "select" in source.casefold() and _has_joins(tree)
                return TailRule(rule, tree, _NO_WEIGHTS, has_joins)
            source = self._reader.parse(source)
        weights = self._weights(rule, source)
        tree = self._reader.normalize(self._expand(rule, source), rule.logic)
        return TailRule(rule, tree, weights, _has_joins(tree))

    def freeze(self, entries: Iterable[TailRule]) -> Segment:
        """Build a segment from rules of the tail, oldest first."""
        # Texts are read again although their trees are known: kernels read 1,024 of them in 6 ms,
        # mostly without the interpreter's lock, and encoding the trees takes 23.
        segment = self._prepare_segment(
            NewRules.of([entry.rule for entry in entries]), None
        ).segment
        assert segment is not None
        return segment

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
        if weights and rule.subscription is not None:
            weights = weights.map(partial(bind_predicate, subscription=rule.subscription))
        if weights and self.schema:
            weights = self.schema.adapt_weights(weights)
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
        if self._is_plain_text(rule):
            encoder.add_text(rule.text, rule.logic)
        else:
            expr = rule.expr
            weights = self._weights(rule, expr)
            encoder.add(self._expand(rule, expr), rule.logic, weights)

    def _expand(self, rule: Rule, expr: Expr) -> Expr:
        """A rule's model with what depends on its subscription and on declared levels."""
        return self.schema.expand(bind_received(expr, rule.subscription))

    def _is_plain_text(self, rule: Rule) -> bool:
        """Whether a rule is a text that `_expand` leaves as it is, and has no weights."""
        is_text = isinstance(rule.source, str) and rule.weights is None
        return is_text and not self.schema.has_levels and not mentions_received(rule.source)


def _no_plain(count: int) -> PlainRules:
    """What kernels read where they read none of `count` rules."""
    return PlainRules(np.zeros(count, np.bool_), RuleEncoder().finish(), np.empty(0, np.uint8))


def _weigh(
    new: NewRules, is_plain: NDArray[np.bool_], plain: EncodedRules, weighed: NDArray[np.uint8]
) -> tuple[EncodedRules, NDArray[np.bool_]]:
    """Give plain rules their weights. Returns them, and which rules are plain with these."""
    number = np.cumsum(is_plain) - 1
    weights = {
        int(number[place]): rule.weights
        for place, rule in new.objects.items()
        if is_plain[place] and rule.weights
    }
    plain, left = weigh_rules(plain, weighed, weights)
    is_left = np.zeros(plain.size, np.bool_)
    is_left[left] = True
    still_plain = is_plain.copy()
    still_plain[is_plain] = ~is_left
    return plain, still_plain


def _join(
    was_plain: NDArray[np.bool_],
    is_plain: NDArray[np.bool_],
    plain: EncodedRules,
    refused: Sequence[int],
    others: RuleEncoder,
    others_at: Sequence[int],
) -> EncodedRules:
    """Join the plain rules that were not refused with the others, in the order of their places.

    `plain` has the rules that `was_plain` marks.
    """
    is_kept = is_plain.copy()
    is_kept[list(refused)] = False
    kept = np.flatnonzero(is_kept)
    if not others_at and len(kept) == plain.size:
        return plain
    if len(kept) == 0:
        return others.finish()
    chosen = (np.cumsum(was_plain) - 1)[kept]
    parts = [(plain, chosen)]
    if others_at:
        parts.append((others.finish(), np.arange(len(others_at))))
    merged = merge_rules(parts)
    order = np.argsort(np.concatenate((kept, np.array(others_at, np.int64))))
    conjunctions = len(merged.forms.conjunction_start) - 1
    is_rule = len(merged.forms.owner) == 0 and conjunctions
    return reorder_rules(merged, order, order if is_rule else np.arange(conjunctions))


def _has_joins(tree: Expr) -> bool:
    return any(predicate.attribute.startswith(JOINED) for predicate in predicates(tree))
