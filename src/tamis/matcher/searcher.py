"""Questions about one event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.expr.analysis.explain import Explanation, explain_flat
from tamis.expr.analysis.why_not import Obstacles, obstacles_flat
from tamis.expr.evaluate import score_flat
from tamis.expr.event import Event, FlatEvent
from tamis.expr.weights import EventWeights
from tamis.matcher.expression_searcher import Stabbing
from tamis.matcher.held import FEW, Held
from tamis.matcher.ids import Ids
from tamis.matcher.rule import Rule, RuleId, RuleSource, Tagged
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Chosen, Snapshot, View
from tamis.matcher.tail import Reading, TailRule

__all__ = ["Asking", "check_n"]


class Asking(Held):
    """Finds the rules that an event satisfies, and says why."""

    def match(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The ids of the rules that `event` satisfies, in the order in which they were added.

        Parameters
        ----------
        event
            Attributes and their values.
        only
            Look at these rules only: ids (those that no rule has are ignored), or
            ``tamis.tagged("gold")`` for rules with certain tags.
        weights
            Checked, but without effect here: they count in :meth:`top`.
        at
            The time at which rules have to be valid; by default that of the matcher's clock.
        """
        if weights is not None:
            EventWeights.of(weights)
        return self._ids(*self._found(event, only, at))

    def match_array(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> NDArray[Any]:
        """As :meth:`match`, but as an array, and in no particular order.

        It is an array of integers if all ids are integers, else one of objects.
        """
        segments, tail = self._found(event, only, at)
        parts: list[NDArray[Any]] = [segment.ids.array(places) for segment, places in segments]
        if tail:
            parts.append(_id_array([entry.rule.id for entry in tail]))
        if len(parts) == 1:
            return parts[0]
        if any(part.dtype == object for part in parts):
            parts = [part.astype(object) for part in parts]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def first(
        self,
        event: Event,
        n: int = 1,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The `n` matching rules with the highest priorities, the highest first.

        Of equal priorities the rule that was added first comes first.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules at most.
        only, at
            As in :meth:`match`.
        """
        check_n(n)
        segments, tail = self._found(event, only, at)
        found: list[tuple[int, RuleId]] = []
        for segment, places in segments:
            by_age = segment.by_age(places)
            priorities = segment.records.lives.priorities(by_age)
            best = np.argsort(-priorities, kind="stable")[:n]
            ids = segment.ids.array(by_age[best]).tolist()
            found += zip(priorities[best].tolist(), ids, strict=True)
        found += [(entry.rule.priority, entry.rule.id) for entry in tail]
        # The sort is stable, and what is older stands first.
        found.sort(key=lambda pair: -pair[0])
        return [id for _, id in found[:n]]

    def top(
        self,
        event: Event,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[tuple[RuleId, float]]:
        """The `n` matching rules with the highest scores, best first, with their scores.

        Of equal scores the rule that was added first comes first.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules at most.
        only, at
            As in :meth:`match`.
        weights
            What the event weighs: ``{("author", "Smith"): 0.8}``; 1 by default.
        """
        check_n(n)
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        event_weights = EventWeights.of(weights)
        scored: list[tuple[RuleId, float]] = []
        joins, flat = self._joins(snapshot), None
        if joins is not None or weights is not None or snapshot.tail or not snapshot.views:
            flat = self._with_joined(self._schema.read(event), joins.usages if joins else ())
        for view in snapshot.views:
            segment = view.segment
            if flat is None:
                encoded = segment.encode(event)
            elif weights is None:
                encoded = segment.encode_flat(flat)
            else:
                encoded = segment.encode_weighted(flat, event_weights)
            places, scores = segment.engine.top_one(encoded, n, view.mask(chosen))
            scored += zip(segment.ids.array(places).tolist(), scores.tolist(), strict=True)
        reading = Reading(event, self._schema, flat)
        for entry in self._in_tail(snapshot, reading, chosen):
            tail_score = score_flat(entry.tree, reading.flat, entry.weights, event_weights)
            assert tail_score is not None
            scored.append((entry.rule.id, tail_score))
        # The sort is stable, and what is older stands first.
        scored.sort(key=lambda pair: -pair[1])
        return scored[:n]

    def match_expression(
        self,
        event: RuleSource,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The ids of the rules that an event may satisfy of which only so much is known.

        Parameters
        ----------
        event
            Predicates, in any of the forms of a rule: ``"price BETWEEN 20 AND 40 AND genre =
            'classics'"``. It stands for all events that have one value for each attribute it
            mentions, one that satisfies what it says of the attribute, and no other attributes.
            With an OR, it stands for the events of each alternative.
        only, at
            As in :meth:`match`.

        Returns
        -------
        list
            The rules that at least one of these events satisfies, in the order in which they were
            added.

        Raises
        ------
        EventError
            The event says of a string no more than a pattern such as ``LIKE '%x%'``; or a rule
            asks for one, and the event leaves endlessly many strings to look at; or a rule asks for
            a function of an attribute that the event mentions.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 25")
        >>> m.add("dear", "price > 50")
        >>> m.match_expression("price BETWEEN 20 AND 40 AND genre = 'classics'")
        ['cheap']
        """
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        asked = Stabbing(event, self._schema)
        views: tuple[View, ...] = snapshot.views
        tail: Iterable[TailRule] = snapshot.tail
        if len(snapshot.tail) > FEW:
            views, tail = self._frozen_views(snapshot), ()
        found: list[RuleId] = []
        for view in views:
            places = asked.places(view.segment, view.mask(chosen))
            found += view.segment.ids.array(view.segment.by_age(places)).tolist()
        return found + [
            entry.rule.id
            for entry in tail
            if chosen.includes(entry.rule) and asked.matches(entry.rule, entry.tree)
        ]

    def explain(self, id: RuleId, event: Event) -> Explanation:
        """Why the rule `id` matches `event`, or does not: a tree of what held and what did not.

        It prints as an indented tree; ``to_json()`` gives the same as plain data.
        """
        return self._explained(self.rule(id), event)

    def why(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> dict[RuleId, Explanation]:
        """Why each rule matches that `event` satisfies, in the order of :meth:`match`.

        Parameters
        ----------
        event
            Attributes and their values.
        only, at
            As in :meth:`match`.
        """
        segments, tail = self._found(event, only, at)
        rules = [
            segment.records.rule(place)
            for segment, places in segments
            for place in segment.by_age(places).tolist()
        ]
        rules += [entry.rule for entry in tail]
        return {rule.id: self._explained(rule, event) for rule in rules}

    def why_not(self, id: RuleId, event: Event, *, at: datetime | None = None) -> Obstacles:
        """The fewest predicates that would have to change for the rule `id` to match `event`.

        It prints as lines; ``to_json()`` gives the same as plain data. Predicates are taken to be
        independent of one another: of ``x > 3 AND x < 2`` both may be told to change, since an
        attribute may have several values. A rule that is not valid `at` the time says so, too.

        Raises
        ------
        UnknownRuleError
            There is no rule of that id.
        """
        rule = self.rule(id)
        expr = self._schema.adapt_rule(rule.expr)
        found = obstacles_flat(expr, self._read_for(expr, event), rule.logic)
        if rule.life.is_valid(self._moment(at)):
            return found
        return msgspec.structs.replace(found, invalid=str(rule.life))

    def _explained(self, rule: Rule, event: Event) -> Explanation:
        expr = self._schema.adapt_rule(rule.expr)
        return explain_flat(expr, self._read_for(expr, event), rule.logic)

    def _found(
        self, event: Event, only: Tagged | Iterable[RuleId] | None, at: datetime | None
    ) -> tuple[list[tuple[Segment, NDArray[np.int32]]], list[TailRule]]:
        """What one event matches: places in segments, and rules of the tail.

        The places have to be used before the next call.
        """
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        if self._joins(snapshot) is not None:
            return self._found_flat(self._schema.read(event), chosen)
        segments = [
            (
                view.segment,
                view.segment.engine.match_one(view.segment.encode(event), view.mask(chosen)),
            )
            for view in snapshot.views
        ]
        return segments, self._in_tail(snapshot, Reading(event, self._schema), chosen)

    def _found_flat(
        self, event: FlatEvent, chosen: Chosen
    ) -> tuple[list[tuple[Segment, NDArray[np.int32]]], list[TailRule]]:
        """As `_found`, for an event that was read before."""
        snapshot = self._snapshot
        joins = self._joins(snapshot)
        if joins is None:
            encoded = [view.segment.encode_flat(event) for view in snapshot.views]
        else:
            encoded, event = joins.encode_event(snapshot.views, event, self._document_store)
        segments = [
            (view.segment, view.segment.engine.match_one(part, view.mask(chosen)))
            for view, part in zip(snapshot.views, encoded, strict=True)
        ]
        return segments, self._in_tail(snapshot, Reading(event, self._schema, event), chosen)

    def _in_tail(self, snapshot: Snapshot, event: Reading, chosen: Chosen) -> list[TailRule]:
        """The rules of the tail that an event satisfies; refuses what is no event."""
        if not snapshot.size:
            event.flat  # noqa: B018  nobody else has looked at it
        return snapshot.in_tail(event, chosen) if snapshot.tail else []

    @staticmethod
    def _ids(
        segments: list[tuple[Segment, NDArray[np.int32]]], tail: list[TailRule]
    ) -> list[RuleId]:
        """The ids of what was found, in the order in which the rules were added."""
        found: list[RuleId] = []
        for segment, places in segments:
            found += segment.ids.array(segment.by_age(places)).tolist()
        found += [entry.rule.id for entry in tail]
        return found


def _id_array(ids: list[RuleId]) -> NDArray[Any]:
    return Ids.of(ids).array(np.arange(len(ids)))


def check_n(n: int) -> None:
    """Refuse what is no number of rules."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n is a whole number, not {n!r}")
