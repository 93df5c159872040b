"""An immutable run of rules with an engine of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.columns import AttributeConflict, ColumnEncoder
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine
from tamis.errors import EventError, SchemaError
from tamis.expr.event import Event, FlatEvent
from tamis.expr.weights import EventWeights
from tamis.matcher.rule import Rule, RuleId, Tagged
from tamis.matcher.schema import Schema

__all__ = ["Segment", "id_array"]


def id_array(ids: list[RuleId]) -> NDArray[np.object_] | NDArray[np.int64]:
    """`ids` as an array: of integers if all are, else of objects."""
    if all(isinstance(id, int) for id in ids):
        return np.array(ids, np.int64)
    array = np.empty(len(ids), object)
    array[:] = ids
    return array


class Segment:
    """Rules in the order in which they were added, and the engine that finds them.

    Parameters
    ----------
    rules
        The rules.
    encoded
        The rules, encoded in the same order.
    engine
        The engine to build.
    schema
        What is declared about attributes.
    """

    def __init__(
        self, rules: Sequence[Rule], encoded: EncodedRules, engine: type[Engine], schema: Schema
    ) -> None:
        self.rules = rules
        self.engine = engine(encoded)
        self._schema = schema
        self._events = EventEncoder(encoded.dictionary, encoded.texts)
        self._columns = ColumnEncoder(
            encoded.dictionary, encoded.texts, schema.conform if schema else None
        )
        self.ids: list[RuleId] = [rule.id for rule in rules]
        self.places = {id: place for place, id in enumerate(self.ids)}
        """Where the rule of each id stands."""
        self._id_array: NDArray[Any] | None = None
        self._tagged: dict[str, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def id_array(self) -> NDArray[Any]:
        """The ids as an array."""
        if self._id_array is None:
            self._id_array = id_array(self.ids)
        return self._id_array

    def _places_tagged(self, tag: str) -> NDArray[np.int64]:
        if self._tagged is None:
            places: dict[str, list[int]] = {}
            for place, rule in enumerate(self.rules):
                for name in rule.tags:
                    places.setdefault(name, []).append(place)
            self._tagged = {name: np.array(found, np.int64) for name, found in places.items()}
        return self._tagged.get(tag, _NOWHERE)

    def mask_of(self, chosen: Tagged | Collection[RuleId]) -> NDArray[np.uint8]:
        """A mask of the rules with one of these tags, or with one of these ids."""
        mask = np.zeros(len(self), np.uint8)
        if isinstance(chosen, Tagged):
            for tag in chosen:
                mask[self._places_tagged(tag)] = 1
        else:
            mask[[self.places[id] for id in chosen if id in self.places]] = 1
        return mask

    def encode(self, event: Event) -> Events:
        """One event, encoded for this segment."""
        if self._schema:
            return self._events.encode_flat([self._schema.read(event)])
        return self._events.encode(event)

    def encode_weighted(self, event: FlatEvent, weights: EventWeights) -> Events:
        """One event that weighs its values, encoded for this segment."""
        return self._events.encode_weighted(event, weights)

    def encode_many(self, events: Sequence[Event], first: int = 0) -> Events:
        """Events given as mappings; `first` is the number of the first one, for errors."""
        if not self._schema:
            return self._events.encode_many(events, first)
        flat = []
        for number, event in enumerate(events, first):
            try:
                flat.append(self._schema.read(event))
            except (EventError, SchemaError) as error:
                raise type(error)(f"event {number}: {error}") from None
        return self._events.encode_flat(flat)

    def encode_batch(self, batch: pa.RecordBatch) -> Events:
        """Events given as rows of Arrow data."""
        try:
            return self._columns.encode(batch)
        except AttributeConflict:
            return self.encode_many(self._columns.rows(batch))


_NOWHERE = np.empty(0, np.int64)
