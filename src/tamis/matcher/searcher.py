"""Searches one snapshot for the rules that a single event satisfies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.expr.evaluate import score_flat
from tamis.expr.event import Event, FlatEvent, extend_event, refuse_unreadable
from tamis.expr.weights import EventWeights
from tamis.joins.document_store import DocumentStore
from tamis.matcher.give_way import announced
from tamis.matcher.ids import Ids
from tamis.matcher.join_predicates import JoinPredicates
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.selection import EVERY_RULE, Selection
from tamis.matcher.snapshot import Snapshot
from tamis.matcher.tail import LazyEvent, TailRule

__all__ = ["Searcher"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Part: TypeAlias = tuple[Segment, NDArray[np.int32], NDArray[np.uint8] | None]
"""A segment, an event as pairs (`tamis.encode.event_pairs`), and the mask of a selection."""


def _announced(
    search: Callable[Concatenate[Searcher, _P], _R],
) -> Callable[Concatenate[Searcher, _P], _R]:
    """The same method; where there are new rules, others give way to it."""
    announcing = announced(search)

    @wraps(search)
    def announce(self: Searcher, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return (announcing if self.snapshot.tail else search)(self, *args, **kwargs)

    return announce


class Searcher:
    """Finds the rules of a snapshot that an event satisfies. Any number of threads may use it.

    Parameters
    ----------
    snapshot
        The rules.
    schema
        The declared types of attributes.
    documents
        The documents that join predicates refer to.
    """

    def __init__(self, snapshot: Snapshot, schema: Schema, documents: DocumentStore) -> None:
        self.snapshot = snapshot
        self._schema = schema
        self._documents = documents
        self._joins = JoinPredicates.of(snapshot)
        if self._joins is not None:
            documents.watch(self._joins.usages)
            documents.listen(self._joins.filters)
        self.needs_time = bool(snapshot.tail) or any(view.has_times for view in snapshot.views)
        """Whether it matters when an event comes."""
        self._masks: list[NDArray[np.uint8] | None] | None = None
        """The mask of each view for EVERY_RULE."""
        self._combined: dict[int, tuple[object, object, NDArray[np.uint8]]] = {}
        """The last combination of two masks for each view."""
        self._only_segment = only = self._find_only_segment()
        has_texts = only is not None and only.engine.rules.texts.size > 0
        self._only_ranked = None if has_texts else only
        """The same without text predicates: pairs do not tell how many values satisfy one."""

    def _find_only_segment(self) -> Segment | None:
        """The segment that alone answers with integers; None where more is to be done."""
        views = self.snapshot.views
        if len(views) != 1 or self.snapshot.tail or self._joins is not None:
            return None
        return None if views[0].segment.ids.has_texts else views[0].segment

    def match(self, event: Event, selection: Selection) -> list[RuleId]:
        """Find the ids of the matching rules, in the order in which they were added."""
        segment = self._only_segment
        if segment is not None:
            (mask,) = self._masks_of(selection)
            ids: list[RuleId] = segment.engine.find_ids(
                segment.encode_pairs(event), mask, True
            ).tolist()
            return ids
        return self._match_parts(event, selection)

    @_announced
    def _match_parts(self, event: Event, selection: Selection) -> list[RuleId]:
        return self._list_ids(*self._search(event, selection))

    @_announced
    def match_receivers(
        self, event: FlatEvent, selection: Selection
    ) -> tuple[list[RuleId], frozenset[str]]:
        """Find the ids of the matching rules, in the order of `match`, and their subscriptions.

        The schema has read `event` already.
        """
        parts, tail = self._search_flat(event, selection)
        ids: list[RuleId] = []
        subscriptions: set[str] = set()
        for part in parts:
            segment, pairs, mask = part
            if not segment.columns.has_subscriptions:
                ids += _find_ids(part, True).tolist()
                continue
            places = segment.engine.find_places(pairs, mask)
            ids += segment.ids.array(places).tolist()
            subscriptions |= segment.columns.subscriptions(places)
        ids += [entry.rule.id for entry in tail]
        subscriptions.update(s for entry in tail if (s := entry.rule.subscription) is not None)
        return ids, frozenset(subscriptions)

    @property
    def has_joins(self) -> bool:
        """Whether a rule refers to earlier documents."""
        return self._joins is not None

    @property
    def join_names(self) -> frozenset[str]:
        """The attributes that stand for join predicates."""
        return frozenset() if self._joins is None else frozenset(self._joins.usages)

    @_announced
    def find_places(
        self, event: FlatEvent, selection: Selection
    ) -> tuple[list[tuple[Segment, NDArray[np.integer]]], list[TailRule]]:
        """Find the places of the matching rules by segment, and those of the tail."""
        parts, tail = self._search_flat(event, selection)
        found = [
            (segment, segment.engine.find_places(pairs, mask).copy())
            for segment, pairs, mask in parts
        ]
        return found, tail

    def match_array(self, event: Event, selection: Selection) -> NDArray[Any]:
        """Find the ids of the matching rules, in no particular order."""
        segment = self._only_segment
        if segment is not None:
            (mask,) = self._masks_of(selection)
            found = segment.engine.find_ids(segment.encode_pairs(event), mask, False)
            return found.astype(np.int64, copy=False)
        return self._match_array_of_parts(event, selection)

    @_announced
    def _match_array_of_parts(self, event: Event, selection: Selection) -> NDArray[Any]:
        segments, tail = self._search(event, selection)
        parts = [_find_ids(part, False) for part in segments]
        parts = [ids if ids.dtype == object else ids.astype(np.int64, copy=False) for ids in parts]
        if tail:
            ids = Ids.of([entry.rule.id for entry in tail])
            parts.append(ids.array(np.arange(ids.size)))
        if len(parts) == 1:
            return parts[0]
        if any(part.dtype == object for part in parts):
            parts = [part.astype(object) for part in parts]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @_announced
    def match_rules(self, event: Event, selection: Selection) -> list[Rule]:
        """Find the matching rules themselves, in the order in which they were added."""
        segments, tail = self._search(event, selection)
        rules = [
            segment.columns.rule(place)
            for segment, pairs, mask in segments
            for place in segment.engine.find_places(pairs, mask).tolist()
        ]
        return rules + [entry.rule for entry in tail]

    @_announced
    def first(self, event: Event, n: int, selection: Selection) -> list[RuleId]:
        """Find the `n` matching rules of the highest priorities; of equal ones the oldest first."""
        segments, tail = self._search(event, selection)
        candidates: list[tuple[int, RuleId]] = []
        for segment, pairs, mask in segments:
            by_age = segment.engine.find_places(pairs, mask)
            priorities = segment.columns.validities.priorities(by_age)
            # ~p orders as -p does, and unlike it never overflows.
            best = np.argsort(~priorities, kind="stable")[:n]
            ids = segment.ids.array(by_age[best]).tolist()
            candidates += zip(priorities[best].tolist(), ids, strict=True)
        candidates += [(entry.rule.priority, entry.rule.id) for entry in tail]
        # Older rules come first in the list, and the sort is stable.
        candidates.sort(key=lambda candidate: -candidate[0])
        return [id for _, id in candidates[:n]]

    def top(
        self,
        event: Event,
        n: int,
        selection: Selection,
        weights: Mapping[tuple[str, Any], float] | None = None,
    ) -> list[tuple[RuleId, float]]:
        """Find the `n` matching rules of the highest scores; of equal ones the oldest first."""
        segment = self._only_ranked
        if segment is not None:
            (mask,) = self._masks_of(selection)
            if weights is None:
                return segment.engine.top_ids(segment.encode_pairs(event), n, mask)
            plain = segment.encode_weighted_pairs(event, weights)
            if plain is not None:
                return segment.engine.top_ids(plain[0], n, mask, plain[1])
        return self._top_of_parts(event, n, selection, weights)

    @_announced
    def _top_of_parts(
        self,
        event: Event,
        n: int,
        selection: Selection,
        weights: Mapping[tuple[str, Any], float] | None,
    ) -> list[tuple[RuleId, float]]:
        snapshot, joins = self.snapshot, self._joins
        flat: FlatEvent | None = None
        if joins is not None or snapshot.tail or not snapshot.views:
            flat = self._schema.read(event)
        if joins is not None and flat is not None:
            refuse_unreadable(flat, joins.news)
            flat = extend_event(flat, self._documents.evaluate_joins(joins.usages, flat))
        # Where all values are plain, the encoder checks the weights.
        event_weights = None if flat is None else EventWeights.of(weights)
        scored: list[tuple[RuleId, float]] = []
        for view, mask in zip(snapshot.views, self._masks_of(selection), strict=True):
            segment = view.segment
            engine = segment.engine
            # Pairs do not tell how many values satisfy a text predicate.
            if flat is None and weights is None and engine.rules.texts.size == 0:
                places, scores = engine.top_pairs(segment.encode_pairs(event), n, mask)
            elif flat is None and weights is None:
                places, scores = engine.top_one(segment.encode(event), n, mask)
            elif weights is None:
                assert flat is not None
                places, scores = engine.top_one(segment.encode_flat(flat), n, mask)
            else:
                plain = None if flat else segment.encode_weighted_pairs(event, weights)
                if plain is not None:
                    places, scores = engine.top_pairs(plain[0], n, mask, plain[1])
                else:
                    if event_weights is None or flat is None:
                        event_weights = EventWeights.of(weights)
                        flat = self._schema.read(event)
                    encoded = segment.encode_weighted(flat, event_weights)
                    places, scores = engine.top_one(encoded, n, mask)
            scored += zip(segment.ids.array(places).tolist(), scores.tolist(), strict=True)
        if snapshot.tail:
            lazy = LazyEvent(event, self._schema, flat)
            assert event_weights is not None
            for entry in snapshot.match_tail(lazy, selection):
                score = score_flat(entry.tree, lazy.flat, entry.weights, event_weights)
                assert score is not None
                scored.append((entry.rule.id, score))
        if len(snapshot.views) == 1 and not snapshot.tail:
            return scored
        # Older rules come first in the list, and the sort is stable.
        scored.sort(key=lambda pair: -pair[1])
        return scored[:n]

    def _masks_of(self, selection: Selection) -> list[NDArray[np.uint8] | None]:
        """The mask of each view; None where all rules are selected."""
        if selection is not EVERY_RULE:
            return [view.mask(selection) for view in self.snapshot.views]
        masks = self._masks
        if masks is None:
            # Two threads may both compute them; either result is right.
            masks = self._masks = [view.mask(selection) for view in self.snapshot.views]
        return masks

    def _search(self, event: Event, selection: Selection) -> tuple[list[_Part], list[TailRule]]:
        """What each segment has to look for, and the rules of the tail that match."""
        if self._joins is not None:
            return self._search_flat(self._schema.read(event), selection)
        snapshot = self.snapshot
        parts = [
            (view.segment, view.segment.encode_pairs(event), mask)
            for view, mask in zip(snapshot.views, self._masks_of(selection), strict=True)
        ]
        if snapshot.tail:
            return parts, snapshot.match_tail(LazyEvent(event, self._schema), selection)
        if not parts:
            # Nothing has read the event yet, but one that is malformed has to be refused.
            self._schema.read(event)
        return parts, []

    def _search_flat(
        self, event: FlatEvent, selection: Selection
    ) -> tuple[list[_Part], list[TailRule]]:
        snapshot, joins = self.snapshot, self._joins
        masks = self._masks_of(selection)
        if joins is None:
            encoded = [view.segment.encode_flat(event) for view in snapshot.views]
        else:
            encoded, event, starts = joins.encode_event(snapshot.views, event, self._documents)
            if starts is not None:
                both = enumerate(zip(masks, starts, strict=True))
                masks = [self._combine(place, mask, start) for place, (mask, start) in both]
        parts = [
            (view.segment, view.segment.to_pairs(part), mask)
            for view, part, mask in zip(snapshot.views, encoded, masks, strict=True)
        ]
        if not snapshot.tail:
            return parts, []
        return parts, snapshot.match_tail(LazyEvent(event, self._schema, event), selection)

    def _combine(
        self, place: int, mask: NDArray[np.uint8] | None, start: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8] | None:
        """The rules that both masks have, for the view at a place."""
        if mask is None or start is None:
            return start if mask is None else mask
        last = self._combined.get(place)
        if last is None or last[0] is not mask or last[1] is not start:
            # Two threads may both compute it; either result is right.
            last = self._combined[place] = mask, start, mask & start
        return last[2]

    def _list_ids(self, parts: list[_Part], tail: list[TailRule]) -> list[RuleId]:
        """List the ids that the parts find, in the order in which the rules were added."""
        ids: list[RuleId] = []
        for part in parts:
            ids += _find_ids(part, True).tolist()
        ids += [entry.rule.id for entry in tail]
        return ids


def _find_ids(part: _Part, in_order: bool) -> NDArray[Any]:
    """The ids of the rules that match, valid until the thread's next search."""
    segment, pairs, mask = part
    if segment.ids.has_texts:
        return segment.ids.array(segment.engine.find_places(pairs, mask))
    return segment.engine.find_ids(pairs, mask, in_order)
