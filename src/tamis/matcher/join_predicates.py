"""The join predicates of all rules in a snapshot, and whether constants or joins come first.

Section 4.3.1 of "Index Structures and Algorithms for Efficient Profile Matching" (2001) applies the
index of constant predicates and that of join predicates one after the other, in the order that is
likely to cost less. Here the index of rules is applied once, at the end, to both. Before that, the
event's constants may decide which join predicates are needed at all (`segment_joins.py`). That pays
off where join predicates are many or costly and events need few.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.arrow_rows import read_rows
from tamis.errors import EventError, SchemaError, combine_errors
from tamis.expr.event import Event, FlatEvent, extend_event, refuse_unreadable
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import And, Atom, Expr
from tamis.expr.names import JOINED, is_computed
from tamis.expr.normalize import atoms_of
from tamis.joins.document_store import DocumentStore, JoinAttributes
from tamis.joins.prefilter import JoinUsage
from tamis.joins.value_sets import ValueSet, values_satisfying_predicate
from tamis.matcher.inputs import EventChunk
from tamis.matcher.schema import Schema
from tamis.matcher.segment_joins import MOST_SPANS
from tamis.matcher.snapshot import Snapshot, View
from tamis.matcher.tail import TailRule

__all__ = ["CostModel", "JoinPredicates", "evaluate_batch_joins", "news_of"]

_Mask: TypeAlias = NDArray[np.uint8] | None
"""A mask of the rules of a segment, by place; None for all."""


class CostModel:
    """Decides which phase comes first, by the costs of section 4.3.1.

    Joins first: j log D + k' log N; constants first: k log N + j' log D. Here j is the number of
    join predicates, a conjunction counting more, k that of the event's attributes, D and N the
    numbers of documents and rules. What is left for the second phase is estimated: j' by the share
    of the join predicates that earlier events needed. The rules are searched at the end in either
    order, so that k' is 0: the look at the constants is what joins first saves.

    Parameters
    ----------
    joins
        j.
    rules
        N.
    """

    _PROBE = 64
    """One event in this number has constants first regardless, to keep the estimate up to date."""

    def __init__(self, joins: float, rules: int) -> None:
        self._joins = joins
        self._log_rules = math.log2(rules + 2)
        self._share = 0.0
        self._events = 0

    def estimate(self, attributes: int, documents: int) -> tuple[float, float]:
        """The costs of joins first and of constants first, in predicate evaluations."""
        log_documents = math.log2(documents + 2)
        joins_first = self._joins * log_documents
        left = self._share * self._joins * log_documents
        return joins_first, attributes * self._log_rules + left

    def constants_first(self, attributes: int, documents: int) -> bool:
        """Whether constants first is likely cheaper, by how many attributes an event has."""
        self._events += 1
        joins_first, constants_first = self.estimate(attributes, documents)
        return constants_first < joins_first or self._events % self._PROBE == 0

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
        in_tail = [usage for entry in tail for usage in _usages_of(entry)]
        self._in_tail = frozenset(usage.name for usage in in_tail)
        """Those in rules of the tail, which every event needs."""
        self._has_texts = any(joins.has_texts for joins in segments)
        by_name: dict[str, list[JoinUsage]] = {}
        for usage in chain(*(joins.usages.values() for joins in segments), in_tail):
            by_name.setdefault(usage.name, []).append(usage)
        self.usages = {name: _merge_usages(usages) for name, usages in by_name.items()}
        self.news = news_of(self.usages)
        self.filters = [joins.profiles for joins in segments if joins.profiles]
        """The pre-filter of each segment that has one."""
        self._singles = frozenset[str]().union(*(some.singles for some in self.filters))
        self._replaced = frozenset(
            name
            for name in self.usages
            if name not in self._in_tail
            and all(name in joins.replaced for joins in segments if name in joins.usages)
        )
        """The join predicates that the pre-filter replaces."""
        size = sum(len(view.segment) for view in views)
        self._order = CostModel(sum(_cost(join_named(name)) for name in by_name), size)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self | None:
        """The join predicates of a snapshot; None where it has none."""
        joins = cls(snapshot.views, snapshot.tail.join_rules())
        return joins if joins.usages else None

    def encode_event(
        self, views: Sequence[View], event: FlatEvent, documents: DocumentStore
    ) -> tuple[list[Events], FlatEvent, list[_Mask] | None]:
        """The event encoded for each view, and the event itself, both with join attributes.

        The last part is the mask of the rules of each view that the event may satisfy, if any.
        """
        refuse_unreadable(event, self.news)
        is_single = bool(self.filters) and all(len(event.get(n, ())) < 2 for n in self._singles)
        if self._has_texts or not self._order.constants_first(len(event), len(documents)):
            found, masks = self._evaluate(self.usages, views, event, documents, is_single)
            whole = extend_event(event, found)
            return [view.segment.encode_flat(whole) for view in views], whole, masks
        parts = [view.segment.encode_flat(event) for view in views]
        segments = [view.segment.joins for view in views]
        needed = set(self._in_tail)
        for joins, part in zip(segments, parts, strict=True):
            if joins is not None:
                needed.update(joins.find_needed(part))
        self._order.learn(len(needed) / len(self.usages))
        documents.spared += len(self.usages) - len(needed)
        found, masks = self._evaluate(needed, views, event, documents, is_single)
        encoded = [
            part if joins is None else joins.add_join_attributes(part, found)
            for joins, part in zip(segments, parts, strict=True)
        ]
        return encoded, extend_event(event, found), masks

    def _evaluate(
        self,
        names: Collection[str],
        views: Sequence[View],
        event: FlatEvent,
        documents: DocumentStore,
        is_single: bool,
    ) -> tuple[JoinAttributes, list[_Mask] | None]:
        """Evaluate join predicates, except for those that the pre-filter replaces."""
        if not is_single:
            return documents.evaluate_used_joins(names, self.usages, event), None
        # Both with one lock: what a mask replaces has to fit the other predicates.
        with documents.lock:
            documents.complete()
            is_heard = all(documents.is_heard_by(some) for some in self.filters)
            if not is_heard or sum(not some.is_ready() for some in self.filters):
                # The documents were read anew, change fast, or another thread searches other rules.
                return documents.evaluate_used_joins(names, self.usages, event), None
            left = [name for name in names if name not in self._replaced]
            found = documents.evaluate_used_joins(left, self.usages, event)
            masks = [
                None if (joins := view.segment.joins) is None else joins.profiles.find_mask()
                for view in views
            ]
        if len(left) < len(names):
            documents.spared += len(names) - len(left)
            found |= {name: [True] for name in names if name in self._replaced}
        return found, masks


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


def _usages_of(entry: TailRule) -> Iterator[JoinUsage]:
    positive: dict[str, bool] = {}
    known = _known_values(entry.tree)
    for atom in atoms_of(entry.tree):
        name = atom.predicate.attribute
        if name.startswith(JOINED):
            positive[name] = positive.get(name, True) and not (atom.negated or atom.if_absent)
    return (
        JoinUsage(name, is_positive, tuple(sorted(known.items(), key=itemgetter(0))))
        for name, is_positive in positive.items()
    )


def _known_values(tree: Expr) -> dict[str, ValueSet]:
    """The values that a rule confines attributes to, if these have a single value."""
    known: dict[str, ValueSet] = {}
    for part in tree.children if isinstance(tree, And) else (tree,):
        if isinstance(part, Atom) and not (part.negated or part.if_absent):
            name, values = part.predicate.attribute, values_satisfying_predicate(part.predicate)
            if values is not None and not is_computed(name):
                known[name] = known[name] & values if name in known else values
    return known


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
