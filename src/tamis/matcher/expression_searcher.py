"""Finds the rules that event expressions match; see `tamis.expr.analysis.event_expressions`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32
from tamis.encode.arrow_arrays import to_arrow
from tamis.encode.ragged import starts
from tamis.engines.base import Matches
from tamis.errors import EventError, RuleError
from tamis.expr.analysis.event_expressions import Verdict, stabs
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, predicates
from tamis.expr.names import display_name, is_computed
from tamis.expr.normalize import nnf
from tamis.matcher.batch_searcher import Form, schema_of_matches
from tamis.matcher.expression_reader import EventExpression, ExpressionReader
from tamis.matcher.results import id_type, merge_lists, merge_matches
from tamis.matcher.rule import Rule, RuleId, RuleSource
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.selection import Selection
from tamis.matcher.skipped_events import SkippedEvents
from tamis.matcher.snapshot import View
from tamis.matcher.tail import TailRule

__all__ = ["ExpressionSearcher"]


class ExpressionSearcher:
    """Finds the rules that at least one of the events described by an expression satisfies.

    Parameters
    ----------
    views
        The rules in segments.
    schema
        The declared types of attributes.
    reader
        Reads the expressions.
    """

    def __init__(self, views: Sequence[View], schema: Schema, reader: ExpressionReader) -> None:
        self._views = views
        self._schema = schema
        self._reader = reader

    def match(
        self, event: RuleSource, tail: Iterable[TailRule], selection: Selection
    ) -> list[RuleId]:
        """Find the ids of the matching rules, in the order in which they were added.

        Parameters
        ----------
        event
            The event expression, in any of the forms of a rule.
        tail
            Rules that are in no segment.
        selection
            Which rules to consider.

        Raises
        ------
        EventError
            The expression is not supported, or whether a rule matches cannot be decided.
        """
        read = self._reader.read(event)
        ids: list[RuleId] = []
        for view in self._views:
            segment = view.segment
            places = self._search_segment(read, segment, view.mask(selection))
            ids += segment.ids.array(places).tolist()
        return ids + [
            entry.rule.id
            for entry in tail
            if selection.includes(entry.rule) and self._matches(read, entry.rule, entry.tree)
        ]

    def match_many(
        self,
        events: Iterable[RuleSource],
        selection: Selection,
        form: Form,
        skipped: SkippedEvents | None,
    ) -> pa.Table:
        """Find the matching rules of many expressions; see `BatchSearcher.match`.

        Refused events are reported to `skipped`; without it, the first one raises.
        """
        segments = [view.segment for view in self._views]
        masks = [view.mask(selection) for view in self._views]
        found: list[list[NDArray[np.int32]]] = [[] for _ in segments]
        numbers: list[int] = []
        for number, event in enumerate(events):
            try:
                read = self._reader.read(event)
                places = [
                    self._search_segment(read, segment, mask)
                    for segment, mask in zip(segments, masks, strict=True)
                ]
            except (EventError, RuleError) as error:
                if skipped is None:
                    raise EventError(f"event {number}: {error}") from error
                skipped.add({number: EventError(str(error))})
                continue
            numbers.append(number)
            for part, of_segment in zip(found, places, strict=True):
                part.append(of_segment)
        if skipped is not None:
            skipped.warn()
        parts = [
            Matches(starts(map(len, part)), np.concatenate([NO_INT32, *part])) for part in found
        ]
        return _to_table(segments, parts, np.array(numbers, np.int64), form)

    def _search_segment(
        self, event: EventExpression, segment: Segment, mask: NDArray[np.uint8] | None
    ) -> NDArray[np.int32]:
        """Find the places of the matching rules, the oldest first, among those of `mask`."""
        for name, bases in segment.computed_attributes:
            _check_computed(event, name, bases)
        parts = [segment.match_expression(alternative, mask) for alternative in event.alternatives]
        if len(parts) == 1 and not len(parts[0].undecided):
            return parts[0].matched
        matched = np.unique(np.concatenate([NO_INT32, *(part.matched for part in parts)]))
        undecided = np.concatenate([NO_INT32, *(part.undecided for part in parts)])
        # The engine leaves few rules undecided; each of those is evaluated by itself.
        others = [
            place
            for place in np.setdiff1d(undecided, matched).tolist()
            if self._place_matches(event, segment, place)
        ]
        places = np.union1d(matched, np.array(others, np.int32)).astype(np.int32)
        return segment.by_age(places)

    def _place_matches(self, event: EventExpression, segment: Segment, place: int) -> bool:
        rule = segment.columns.rule(place)
        return self._matches(event, rule, nnf(self._schema.adapt_rule(rule.expr), rule.logic))

    def _matches(self, event: EventExpression, rule: Rule, tree: Expr) -> bool:
        """Whether `rule` matches; `tree` is its negation normal form."""
        for predicate in predicates(tree):
            if is_computed(predicate.attribute):
                _check_computed(event, predicate.attribute, bases_of(predicate.attribute))
        verdict = stabs(tree, event.alternatives)
        if verdict is Verdict.MAYBE:
            raise EventError(
                f"cannot decide whether the event matches rule {rule.id!r}: the rule looks for a "
                "pattern in strings of which the event does not list all, or has too many ORs; "
                "list the strings with = or IN"
            )
        return verdict is Verdict.YES


def _check_computed(event: EventExpression, name: str, bases: Iterable[str]) -> None:
    """Refuse an attribute that is derived from an attribute of the event expression."""
    if not event.attributes.isdisjoint(bases):
        raise EventError(
            f"cannot decide whether the event matches rules with {display_name(name)}: "
            "it is derived from an attribute that the event describes only in part"
        )


def _to_table(
    segments: Sequence[Segment], parts: Sequence[Matches], numbers: NDArray[np.int64], form: Form
) -> pa.Table:
    """The matches of the events with these numbers; see `BatchSearcher.match`."""
    schema = schema_of_matches(form, id_type(segments))
    if form == "lists":
        if not segments:
            parts = [Matches(np.zeros(len(numbers) + 1, np.int64), NO_INT32)]
        return pa.table([to_arrow(numbers), merge_lists(segments, parts)], schema=schema)
    merged = merge_matches(segments, parts, numbers)
    return pa.table(list(merged), schema=schema)
