"""The join predicates of all rules in a snapshot, and whether constants or joins come first.

Section 4.3.1 of "Index Structures and Algorithms for Efficient Profile Matching" (2001) applies the
index of constant predicates and that of join predicates one after the other, in the order that is
likely to cost less. Here the index of rules is applied once, at the end, to both. Before that, the
event's constants may decide which join predicates are needed at all (`segment_joins.py`). That pays
off where join predicates are many or costly and events need few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Self

from tamis.encode.arrays import Events
from tamis.encode.arrow_rows import read_rows
from tamis.errors import EventError, SchemaError, combine_errors
from tamis.expr.event import Event, FlatEvent, extend_event, refuse_unreadable
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.names import JOINED
from tamis.expr.normalize import atoms_of
from tamis.joins.document_store import DocumentStore
from tamis.joins.prefilter import JoinUsage
from tamis.matcher.inputs import EventChunk
from tamis.matcher.schema import Schema
from tamis.matcher.segment_joins import MOST_SPANS
from tamis.matcher.snapshot import Snapshot, View
from tamis.matcher.tail import TailRule

__all__ = ["JoinPredicates", "evaluate_batch_joins", "news_of"]


class _Order:
    """Decides which phase comes first, by what earlier events needed."""

    _GUARDS = 6.0
    """The cost of checking the guards, in evaluations of a simple join predicate."""
    _PROBE = 64
    """One event in so many is checked regardless, to keep the estimate up to date."""

    def __init__(self, cost: float) -> None:
        self._cost = cost
        """The cost of evaluating all join predicates."""
        self._share = 0.0
        """The share of them that an event needs."""
        self._events = 0

    def constants_first(self) -> bool:
        """Whether checking the guards first is likely cheaper."""
        self._events += 1
        saved = (1.0 - self._share) * self._cost
        return saved > self._GUARDS or self._events % self._PROBE == 0

    def learn(self, share: float) -> None:
        """Note the share of the join predicates that an event needed."""
        self._share += 0.05 * (share - self._share)


class JoinPredicates:
    """The join predicates of all rules in a snapshot.

    Attributes
    ----------
    usages
        How the rules use each of them, by its attribute.
    news
        The attributes of new documents that they compare.
    """

    def __init__(self, views: Sequence[View], tail: Iterable[TailRule]) -> None:
        segments = [joins for view in views if (joins := view.segment.joins) is not None]
        in_tail = {name: usage for entry in tail for name, usage in _usages_of(entry)}
        self._in_tail = frozenset(in_tail)
        """Those in rules of the tail, which every event needs."""
        self._has_texts = any(joins.has_texts for joins in segments)
        by_name: dict[str, list[JoinUsage]] = {}
        for usage in chain(*(joins.usages.values() for joins in segments), in_tail.values()):
            by_name.setdefault(usage.name, []).append(usage)
        self.usages = {name: _merge_usages(usages) for name, usages in by_name.items()}
        self.news = news_of(self.usages)
        self._order = _Order(sum(_cost(join_named(name)) for name in by_name))

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self | None:
        """The join predicates of a snapshot; None where it has none."""
        joins = cls(snapshot.views, snapshot.tail.join_rules())
        return joins if joins.usages else None

    def encode_event(
        self, views: Sequence[View], event: FlatEvent, documents: DocumentStore
    ) -> tuple[list[Events], FlatEvent]:
        """The event encoded for each view, and the event itself, both with join attributes."""
        refuse_unreadable(event, self.news)
        if self._has_texts or not self._order.constants_first():
            found = documents.evaluate_used_joins(self.usages, self.usages, event)
            whole = extend_event(event, found)
            return [view.segment.encode_flat(whole) for view in views], whole
        parts = [view.segment.encode_flat(event) for view in views]
        segments = [view.segment.joins for view in views]
        needed = set(self._in_tail)
        for joins, part in zip(segments, parts, strict=True):
            if joins is not None:
                needed.update(joins.find_needed(part))
        self._order.learn(len(needed) / len(self.usages))
        documents.spared += len(self.usages) - len(needed)
        found = documents.evaluate_used_joins(needed, self.usages, event)
        encoded = [
            part if joins is None else joins.add_join_attributes(part, found)
            for joins, part in zip(segments, parts, strict=True)
        ]
        return encoded, extend_event(event, found)


def evaluate_batch_joins(
    chunk: EventChunk, first: int, names: Collection[str], schema: Schema, documents: DocumentStore
) -> list[FlatEvent]:
    """The join attributes of each event of a chunk, without the event's own.

    Parameters
    ----------
    chunk, first
        The events, and the number of the first one, for errors.
    names
        The join attributes.
    schema, documents
        The declared types, and the documents seen before.
    """
    rows: Iterable[Event] = chunk
    if not isinstance(chunk, list):
        rows = read_rows(chunk, news_of(names), first)
    events = schema.read_many(rows, first)
    news = news_of(names)
    errors: dict[int, EventError | SchemaError] = {}
    for number, event in enumerate(events, first):
        try:
            refuse_unreadable(event, news)
        except EventError as error:
            errors[number] = error
    if errors:
        raise combine_errors(errors)
    return [dict(documents.evaluate_joins(names, event)) for event in events]


def news_of(names: Collection[str]) -> frozenset[str]:
    """The attributes of new documents that join predicates compare."""
    return frozenset(chain.from_iterable(join_named(name).news for name in names))


def _usages_of(entry: TailRule) -> Iterator[tuple[str, JoinUsage]]:
    positive: dict[str, bool] = {}
    for atom in atoms_of(entry.tree):
        name = atom.predicate.attribute
        if name.startswith(JOINED):
            positive[name] = positive.get(name, True) and not (atom.negated or atom.if_absent)
    return ((name, JoinUsage(name, is_positive)) for name, is_positive in positive.items())


def _merge_usages(usages: Sequence[JoinUsage]) -> JoinUsage:
    """How several sets of rules together use a join predicate."""
    if len(usages) == 1:
        return usages[0]
    is_positive = all(usage.is_positive for usage in usages)
    known = dict(usages[0].known)
    for usage in usages[1:]:
        others = dict(usage.known)
        known = {name: known[name] | others[name] for name in known.keys() & others.keys()}
    bounded = sorted((name, spans.at_most(MOST_SPANS)) for name, spans in known.items())
    return JoinUsage(usages[0].name, is_positive, tuple(bounded))


def _cost(join: Join) -> float:
    """The cost of evaluating a join predicate, where a simple one costs 1."""
    is_simple = join.aggregate is None and sum(1 for _ in join.leaves()) == 1
    return 1.0 if is_simple else 20.0
