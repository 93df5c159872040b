"""A segment: an immutable set of rules with an engine of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.encode.arrays import NO_INT32, Choices, Events
from tamis.encode.columns import AttributeConflict, ColumnEncoder
from tamis.encode.derived import DerivedAttributes
from tamis.encode.event_expressions import ChoiceEncoder
from tamis.encode.event_pairs import to_pairs
from tamis.encode.events import EventEncoder
from tamis.encode.json.encoder import JsonEncoder
from tamis.encode.json.texts import JsonTexts
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine
from tamis.engines.kernels.event_expressions import ExpressionMatches
from tamis.expr.analysis.event_expressions import Alternative
from tamis.expr.event import Event, FlatEvent, extend_event, flatten
from tamis.expr.functions.derive import bases_of
from tamis.expr.names import JOINED, is_computed
from tamis.expr.weights import EventWeights
from tamis.forks import computed_once
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.schema import Schema
from tamis.matcher.segment_joins import SegmentJoins
from tamis.matcher.selection import Tagged
from tamis.matcher.write.responsive import giving_way

__all__ = ["Segment"]

_RECALLED: Final = 4096
"""How many values a new segment takes over from another one."""


class Segment:
    """Rules, and the engine that finds them.

    A rule's *place* is its number in the engine's layout. Its *age* is its number in the order in
    which the segment's rules were added.

    Parameters
    ----------
    columns
        The rules by place.
    engine
        The engine over the same rules.
    schema
        The declared types of attributes.
    """

    def __init__(self, columns: RuleColumns, engine: Engine, schema: Schema) -> None:
        self.columns = columns
        self.ids = columns.ids
        self.engine = engine
        self._encoders = _Encoders(engine.rules, schema)
        self._encode_pairs = self._encoders.events.encode_pairs
        engine.ids = self.ids.numbers
        self._joins: SegmentJoins | None = None
        self._has_joins = any(
            name.startswith(JOINED) for name in engine.rules.dictionary.attributes
        )

    @classmethod
    def build(
        cls,
        columns: RuleColumns,
        encoded: EncodedRules,
        engine: type[Engine],
        schema: Schema,
        sample: Sequence[EventChunk] = (),
    ) -> Segment:
        """Build a segment.

        Parameters
        ----------
        columns, encoded
            The rules in the order in which they were added: as the caller gave them, and encoded.
        engine, schema
            As above.
        sample
            Events like those to come, to which the engine may adapt its layout.
        """
        events = _Encoders(encoded, schema).encode_sample(sample) if sample else None
        built = engine.choose(encoded)(encoded, sample=events)
        segment = cls(columns.arrange(built.order), built, schema)
        # Built now, so that no search has to wait for them.
        segment.ids.index  # noqa: B018
        segment.joins  # noqa: B018
        for derived in segment._encoders.derived:
            derived.prepare()
        return segment

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def joins(self) -> SegmentJoins | None:
        """The join predicates of the rules; None if there are none."""
        joins = self._joins
        if joins is None and self._has_joins:
            # Two threads may both build it; either result is right.
            joins = self._joins = SegmentJoins(self.engine.rules)
        return joins

    @computed_once
    def computed_attributes(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The attributes of rules that are computed from others, each with those others."""
        names = self.engine.rules.dictionary.attributes
        return tuple((name, frozenset(bases_of(name))) for name in names if is_computed(name))

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes of events that matter to a rule."""
        return self._encoders.columns.attributes

    def ages(self, places: NDArray[np.integer]) -> NDArray[np.integer]:
        """The ages of the rules at these places."""
        return places if self.engine.place_of_age is None else self.engine.order[places]

    def places_of(self, ages: NDArray[np.int32]) -> NDArray[np.int32]:
        """The places of the rules of these ages."""
        places = self.engine.place_of_age
        return ages if places is None else places[ages]

    def by_age(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Order places by age, the oldest first. May sort `places` in place."""
        ages = places if self.engine.place_of_age is None else self.engine.order[places]
        ages.sort()
        return self.places_of(ages)

    def mask_of(self, only: Tagged | Collection[RuleId]) -> NDArray[np.uint8]:
        """A mask of the rules with certain tags, or with one of these ids."""
        if isinstance(only, Tagged):
            return self.columns.mask_tagged(only)
        mask = np.zeros(len(self), np.uint8)
        places = (self.ids.find(id) for id in only)
        mask[[place for place in places if place is not None]] = 1
        return mask

    def encode(self, event: Event) -> Events:
        """Encode one event for this segment."""
        check_time()
        return self._encoders.events.encode(event)

    def encode_pairs(self, event: Event) -> NDArray[np.int32]:
        """Encode one event for this segment, as pairs; see `tamis.encode.event_pairs`."""
        check_time()
        return self._encode_pairs(event)

    def to_pairs(self, event: Events) -> NDArray[np.int32]:
        """An encoded event as pairs, without its weights."""
        return to_pairs(event, len(self.engine.rules.dictionary.axes))

    def encode_flat(self, event: FlatEvent) -> Events:
        """Encode one event that the schema has already read."""
        check_time()
        return self._encoders.events.encode_flat([event])

    def prepare(self, other: Segment | None) -> None:
        """Do what the first searches would have to do.

        They may have values that searches in another segment had. Gives way to other searches.
        """
        self.engine.prepare()
        if other is not None:
            values = other._encoders.events.last_seen(_RECALLED)
            self._encoders.events.recall(giving_way(values))

    def encode_weighted(self, event: FlatEvent, weights: EventWeights) -> Events:
        """Encode one event with weights of its values."""
        return self._encoders.events.encode_weighted(event, weights)

    def encode_weighted_pairs(
        self, event: Event, weights: Mapping[tuple[str, Any], float]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Encode one event as pairs with weights; None if it has to be flattened first."""
        check_time()
        return self._encoders.events.encode_weighted_pairs(event, weights)

    def match_expression(
        self, alternative: Alternative, mask: NDArray[np.uint8] | None
    ) -> ExpressionMatches:
        """Find the places that match an alternative of an event expression."""
        check_time()
        event = self._encoders.choices.encode(alternative)
        if isinstance(event, Choices):
            return self.engine.match_expression(event, mask)
        return ExpressionMatches(self.engine.find_places(event, mask).astype(np.int32), NO_INT32)

    def encode_chunk(
        self, chunk: EventChunk, first: int = 0, joins: Sequence[FlatEvent] = ()
    ) -> Events:
        """Encode events that are mappings or Arrow rows.

        Parameters
        ----------
        chunk
            The events.
        first
            The number of the first event, for error messages.
        joins
            The join attributes of each event, if there are rules with join predicates.
        """
        if joins and self._has_joins:
            return self._encoders.encode_joins(chunk, first, joins)
        return self._encoders.encode_chunk(chunk, first)

    def encode_texts(self, texts: JsonTexts, first: int = 0) -> Events:
        """Encode events that are JSON texts, without join attributes."""
        return self._encoders.texts.encode(texts, first)


class _Encoders:
    """The encoders of events for one set of rules."""

    def __init__(self, rules: EncodedRules, schema: Schema) -> None:
        self._schema = schema
        self.derived = DerivedAttributes(rules.dictionary)
        self.events = EventEncoder(rules, self.derived, schema or None)
        conform, read = (schema.conform, schema.read) if schema else (None, flatten)
        self.columns = ColumnEncoder(rules, conform, read, self.derived)
        self.choices = ChoiceEncoder(rules)
        special = self.derived.bases.union(schema.kinds)
        self.texts = JsonEncoder(rules, self.events, special)

    def encode_sample(self, chunks: Sequence[EventChunk]) -> Events:
        """Encode all events of a sample at once."""
        rows: list[Event] = []
        for chunk in chunks:
            rows += chunk if isinstance(chunk, list) else self.columns.rows(chunk)
        return self.events.encode_many(rows)

    def encode_chunk(self, chunk: EventChunk, first: int) -> Events:
        """Encode events without join attributes; see `Segment.encode_chunk`."""
        if isinstance(chunk, list):
            return self.events.encode_many(chunk, first)
        try:
            return self.columns.encode(chunk, first)
        except AttributeConflict:
            return self.events.encode_many(self.columns.rows(chunk, first), first)

    def encode_joins(self, chunk: EventChunk, first: int, joins: Sequence[FlatEvent]) -> Events:
        """Encode events with their join attributes."""
        is_list = isinstance(chunk, list)
        rows = self._schema.read_many(chunk if is_list else self.columns.rows(chunk, first), first)
        return self.events.encode_flat(map(extend_event, rows, joins), first)
