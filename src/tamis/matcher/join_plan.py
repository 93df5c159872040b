"""The join predicates of all rules, and in which order an event is looked at.

Section 4.3.1 of "Index Structures and Algorithms for Efficient Profile Matching" (2001) applies the
index of constant predicates and that of join predicates one after the other, in the order that is
likely to cost less. Here the index of rules is applied once, at the end, to both. What may come
first is a glance at an event's constants, so that few join predicates are left to evaluate
(`segment_joins.py`); it is worth while where there are many, or costly ones, and events need few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from tamis.encode.arrays import Events
from tamis.expr.event import Event, FlatEvent, extended
from tamis.expr.joins.predicate import Join
from tamis.expr.model import Value
from tamis.expr.names import JOINED
from tamis.expr.normalize import atoms_of
from tamis.expr.text.sql import join_of
from tamis.joins.documents import Documents
from tamis.joins.prefilter import Demand
from tamis.matcher.inputs import EventChunk
from tamis.matcher.schema import Schema
from tamis.matcher.segment_joins import MOST_SPANS
from tamis.matcher.snapshot import Snapshot, View
from tamis.matcher.tail import TailRule

__all__ = ["JoinedRules", "joined_of", "joins_of", "with_truths"]


class _Order:
    """Which phase comes first, as far as that can be told from the events before."""

    _GUARDS = 6.0
    """What a glance at an event's constants costs, in evaluations of a simple join predicate."""
    _PROBE = 64
    """Every so many events constants come first whatever the estimate, to keep it up to date."""

    def __init__(self, cost: float) -> None:
        self._cost = cost
        """What it costs to evaluate all join predicates."""
        self._share = 0.0
        """How many of them an event needs, of all."""
        self._events = 0

    def constants_first(self) -> bool:
        """Whether it is likely cheaper to look at an event's constants first."""
        self._events += 1
        saved = (1.0 - self._share) * self._cost
        return saved > self._GUARDS or self._events % self._PROBE == 0

    def learn(self, share: float) -> None:
        """Take notice of how many join predicates an event needed."""
        self._share += 0.05 * (share - self._share)


class JoinedRules:
    """The join predicates of all rules of a snapshot.

    Attributes
    ----------
    demands
        What rules make of each, by its attribute.
    tail
        Those in rules of the tail, which every event needs.
    """

    def __init__(self, views: Sequence[View], tail: Iterable[TailRule]) -> None:
        segments = [joins for view in views if (joins := view.segment.joins) is not None]
        in_tail = {name: demand for entry in tail for name, demand in _demands_of(entry)}
        self.tail = frozenset(in_tail)
        self.has_texts = any(joins.has_texts for joins in segments)
        by_name: dict[str, list[Demand]] = {}
        for demand in chain.from_iterable(joins.demands.values() for joins in segments):
            by_name.setdefault(demand.name, []).append(demand)
        for name, demand in in_tail.items():
            by_name.setdefault(name, []).append(demand)
        self.demands = {name: _together(demands) for name, demands in by_name.items()}
        self.order = _Order(sum(_cost(join_of(name)) for name in by_name))

    def encoded(
        self, views: Sequence[View], event: FlatEvent, documents: Documents
    ) -> tuple[list[Events], FlatEvent]:
        """An event encoded for each view and as it is, with what join predicates become."""
        if self.has_texts or not self.order.constants_first():
            truths = documents.demanded(self.demands, self.demands, event)
            whole = with_truths(event, truths)
            return [view.segment.encode_flat(whole) for view in views], whole
        parts = [view.segment.encode_flat(event) for view in views]
        segments = [view.segment.joins for view in views]
        needed = set(self.tail)
        for joins, part in zip(segments, parts, strict=True):
            if joins is not None:
                needed.update(joins.needed(part))
        self.order.learn(len(needed) / len(self.demands))
        documents.spared += len(self.demands) - len(needed)
        truths = documents.demanded(needed, self.demands, event)
        encoded = [
            part if joins is None else joins.with_truths(part, truths)
            for joins, part in zip(segments, parts, strict=True)
        ]
        return encoded, with_truths(event, truths)


def with_truths(event: FlatEvent, truths: Mapping[str, bool]) -> FlatEvent:
    """An event with the attributes of join predicates."""
    return extended(event, {name: _AS_VALUES[truth] for name, truth in truths.items()})


_AS_VALUES: tuple[list[Value], list[Value]] = ([False], [True])
"""A truth as the values of an attribute, which nobody changes."""


def _demands_of(entry: TailRule) -> Iterator[tuple[str, Demand]]:
    plain: dict[str, bool] = {}
    for atom in atoms_of(entry.tree):
        name = atom.predicate.attribute
        if name.startswith(JOINED):
            plain[name] = plain.get(name, True) and not (atom.negated or atom.if_absent)
    return ((name, Demand(name, is_plain)) for name, is_plain in plain.items())


def _together(demands: Sequence[Demand]) -> Demand:
    """What several sets of rules make of a join predicate."""
    if len(demands) == 1:
        return demands[0]
    is_plain = all(demand.is_plain for demand in demands)
    known = dict(demands[0].known)
    for demand in demands[1:]:
        others = dict(demand.known)
        known = {name: known[name] | others[name] for name in known.keys() & others.keys()}
    spans = sorted((name, found.at_most(MOST_SPANS)) for name, found in known.items())
    return Demand(demands[0].name, is_plain, tuple(spans))


def _cost(join: Join) -> float:
    """What it takes to evaluate a join predicate, where a simple one takes 1."""
    return 1.0 if sum(1 for _ in join.leaves()) == 1 else 20.0


def joins_of(snapshot: Snapshot) -> JoinedRules | None:
    """The join predicates of all rules; None where there are none."""
    joined = JoinedRules(snapshot.views, snapshot.tail.joined())
    return joined if joined.demands else None


def joined_of(
    chunk: EventChunk, first: int, names: Collection[str], schema: Schema, documents: Documents
) -> list[FlatEvent]:
    """What join predicates become for each of many events.

    Parameters
    ----------
    chunk, first
        The events, and the number of the first one, for errors.
    names
        The attributes of the join predicates.
    schema, documents
        What is declared about attributes, and the documents seen before.
    """
    rows: Iterable[Event] = chunk
    if not isinstance(chunk, list):
        rows = _rows(chunk, frozenset().union(*(join_of(name).news for name in names)))
    events = schema.read_many(rows, first)
    return [with_truths({}, documents.joined(names, event)) for event in events]


def _rows(batch: pa.RecordBatch, names: Collection[str]) -> list[dict[str, Any]]:
    """The rows of a batch as mappings, with the columns that may hold attributes of these names."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for column_name, column in zip(batch.schema.names, batch.columns, strict=True):
        is_event = not column_name
        if not is_event and not any(f"{name}.".startswith(f"{column_name}.") for name in names):
            continue
        for row, value in zip(rows, column.to_pylist(maps_as_pydicts="strict"), strict=True):
            for key, item in (value or {}).items() if is_event else [(column_name, value)]:
                row[key] = [row[key], item] if key in row else item
    return rows
