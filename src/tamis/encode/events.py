"""Events given as mappings → flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import compress, repeat
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, Events
from tamis.encode.column_codes import codes_of_list
from tamis.encode.derived import DerivedAttribute, DerivedAttributes, ReadValues
from tamis.encode.dictionary import ABSENT
from tamis.encode.event_pairs import to_pairs
from tamis.encode.event_rows import merge_lists, merge_rows
from tamis.encode.guards import Guards
from tamis.encode.known_pairs import (
    CONVERTED,
    LOOKED_UP,
    DeclaredTypes,
    KnownKeys,
    KnownPairs,
    Unusual,
    is_name,
)
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules
from tamis.errors import EventError, SchemaError, combine_errors
from tamis.expr.event import (
    Event,
    FlatEvent,
    flatten,
    read_plain_list,
    refuse_unreadable,
    value_of_item,
)
from tamis.expr.model import Value, is_unicode
from tamis.expr.numbers import INT_MAX, INT_MIN
from tamis.expr.weights import EventWeights, are_plain_weights

__all__ = ["AxesEncoder", "EventEncoder", "KnownAxis", "StringAt"]

_ONE_ROW = [np.array([0, size], np.int64) for size in range(64)]
"""`Events.start` of a single event, by its number of entries: the case that must be fast."""

_UNSEEN = 256
"""After this number of values that no rule can see, only what rules mention is looked up."""

_FEW = 16
"""Fewer codes of an attribute than this are added to lists, more as an array."""


class _Axis(Protocol):
    def code(self, value: Value) -> int:
        """The code of a value."""


KnownAxis: TypeAlias = tuple[int, Callable[[Any], int | None], _Axis]
"""An attribute's number, the codes of the values that rules mention, and the axis for others."""


class StringAt(NamedTuple):
    """A string of an attribute with text predicates, in one of several events."""

    row: int
    attribute: int
    value: str
    weight: float = 1.0


class _Rows:
    """Encoded events under construction, row by row."""

    __slots__ = ("_arrays", "_before", "attribute", "code", "start", "texts", "weight")

    def __init__(self) -> None:
        self._arrays: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        """Attributes and codes that come before those in the lists below."""
        self._before = 0
        """How many codes these arrays have."""
        self.start = [0]
        self.attribute: list[int] = []
        self.code: list[int] = []
        self.texts: list[StringAt] = []
        self.weight: list[float] = []

    def add_codes(self, attribute: int, codes: NDArray[np.int32]) -> None:
        """Add codes of one attribute to the current event."""
        if len(codes) < _FEW:
            self.attribute += [attribute] * len(codes)
            self.code += codes.tolist()
        else:
            self._end_lists()
            self._arrays.append((np.full(len(codes), attribute, np.int32), codes))
            self._before += len(codes)

    def _end_lists(self) -> None:
        """Turn the lists into arrays."""
        size = len(self.code)
        entries = np.array(self.attribute + self.code, np.int32)
        self._arrays.append((entries[:size], entries[size:]))
        self._before += size
        self.attribute.clear()
        self.code.clear()

    def end_row(self) -> None:
        """End the current event."""
        self.start.append(self._before + len(self.code))

    def events(self) -> Events:
        """The events, without their texts."""
        self._end_lists()
        size = self._before
        if len(self._arrays) == 1:
            ((attribute, code),) = self._arrays
        else:
            attribute, code = map(np.concatenate, zip(*self._arrays, strict=True))
        if len(self.start) == 2 and size < len(_ONE_ROW):
            start, text_start = _ONE_ROW[size], _ONE_ROW[0]
        else:
            start, text_start = np.array(self.start), np.zeros(len(self.start), np.int64)
        weight = np.array(self.weight) if self.weight else NO_DOUBLES
        return Events(start, attribute, code, text_start, NO_INT32, weight, NO_DOUBLES)


class AxesEncoder:
    """Encodes events by the axes of attributes. Safe to use from several threads.

    Parameters
    ----------
    axes
        The attributes that rules mention. Some may be added later, none removed.
    text_attributes
        The numbers of those with text predicates.
    derived
        Those that are computed from others.
    """

    def __init__(
        self,
        axes: Mapping[str, KnownAxis],
        text_attributes: Collection[int] = frozenset(),
        derived: DerivedAttributes | None = None,
    ) -> None:
        self._axes = axes
        self._text_attributes = text_attributes
        self._derived = derived
        self._bases = derived.bases if derived else frozenset()

    def encode(self, event: Event) -> Events:
        """Encode one event, given as a mapping."""
        rows = _Rows()
        self._add(event, rows)
        return self._finish(rows)

    def encode_flat(self, events: Iterable[FlatEvent], first: int | None = None) -> Events:
        """Encode events that are flattened already.

        An error names the event by its number, counted from `first`, unless that is None.
        """
        rows = _Rows()
        if first is None:
            for event in events:
                self._add_flat(event, rows)
        else:
            self._add_all(self._add_flat, enumerate(events, first), rows)
        return self._finish(rows)

    def _add_all(
        self, add: Callable[[Any, _Rows], None], events: Iterable[tuple[int, Any]], rows: _Rows
    ) -> None:
        """Add all events, each with its number; an error knows all that are refused."""
        errors: dict[int, EventError | SchemaError] = {}
        for number, event in events:
            try:
                add(event, rows)
            except (EventError, SchemaError) as error:
                errors[number] = error
        if errors:
            raise combine_errors(errors)

    def _finish(self, rows: _Rows) -> Events:
        return rows.events()

    def _add(self, event: Event, rows: _Rows) -> None:
        """Add an event: in one pass if its values are plain, else flattened first.

        Plain are strings, numbers, booleans, nulls, times, and lists of strings or numbers.
        """
        codes, texts = len(rows.code), len(rows.texts)
        is_mapping = event.__class__ is dict or isinstance(event, Mapping)
        read = ReadValues({}, {})
        if is_mapping and self._add_plain(event, rows, read):
            if self._derived:
                self._add_derived(self._derived, self._derived.select_bases(event, read), rows)
            rows.end_row()
            return
        del rows.attribute[codes:], rows.code[codes:], rows.texts[texts:]
        self._add_flat(flatten(event), rows)

    def _add_plain(self, event: Event, rows: _Rows, read: ReadValues) -> bool:
        """Add an event of plain values; False for any other. `read` gets what was converted."""
        if self._derived and self._derived.are_in(event):
            return False
        axis_of, texts = self._axes.get, self._text_attributes
        add_attribute, add_code = rows.attribute.append, rows.code.append
        for name, value in event.items():
            kind = value.__class__
            found = axis_of(name)
            if found is not None and kind in LOOKED_UP:
                number, known, axis = found
                code = known(value)
                if code is None:
                    if value is None or value != value:
                        continue
                    if not _is_scalar(value):
                        return False
                    code = axis.code(value)
                add_attribute(number)
                add_code(code)
                if kind is str and number in texts:
                    rows.texts.append(StringAt(len(rows.start) - 1, number, value))
            elif found is not None and kind is bool:
                add_attribute(found[0])
                add_code(found[2].code(value))
            elif isinstance(value, CONVERTED) and is_name(name):
                try:
                    converted = value_of_item(name, value)
                except EventError:
                    return False
                read.values[name] = [] if converted is None else [converted]
                if found is not None and converted is not None:
                    add_attribute(found[0])
                    add_code(found[2].code(converted))
            elif kind is list and is_name(name):
                plain = read_plain_list(value)
                if plain is None or len(plain[0]) >= _MANY:
                    return False
                read.values[name], read.sizes[name] = plain
                if found is not None:
                    self._add_values(name, found[0], found[2], plain[0], rows, None)
            elif not is_name(name) or not _is_scalar(value):
                return False
        return True

    def _add_flat(self, event: FlatEvent, rows: _Rows, weights: EventWeights | None = None) -> None:
        refuse_unreadable(event, self._axes, self._bases)
        axis_of, texts = self._axes.get, self._text_attributes
        for name, values in event.items():
            found = axis_of(name)
            if found is None:
                continue
            number, known, axis = found
            if weights is not None or len(values) > 1 or number in texts:
                self._add_values(name, number, axis, values, rows, weights)
                continue
            (value,) = values
            code = known(value) if value.__class__ in LOOKED_UP else None
            rows.attribute.append(number)
            rows.code.append(axis.code(value) if code is None else code)
        if self._derived:
            self._add_derived(self._derived, event, rows, weights)
        rows.end_row()

    def _add_derived(
        self,
        attributes: DerivedAttributes,
        event: FlatEvent,
        rows: _Rows,
        weights: EventWeights | None = None,
    ) -> None:
        for derived in attributes:
            if weights is None and derived.how.family is not None:
                rows.add_codes(derived.number, derived.codes(event))
            elif weights is not None or not self._add_derived_code(derived, event, rows):
                values = derived.values(event)
                self._add_values(derived.name, derived.number, derived.axis, values, rows, weights)

    def _add_derived_code(self, derived: DerivedAttribute, event: FlatEvent, rows: _Rows) -> bool:
        """Add what is derived from a single value; False if it is not, or a text."""
        if derived.how.of_one is None or derived.number in self._text_attributes:
            return False
        given = event.get(derived.how.inputs[0].attribute, ())
        if len(given) != 1:
            return False
        code = derived.code_of_one(given[0])
        if code != ABSENT:
            rows.attribute.append(derived.number)
            rows.code.append(code)
        return True

    def _add_values(
        self,
        name: str,
        number: int,
        axis: _Axis,
        values: Iterable[Value],
        rows: _Rows,
        weights: EventWeights | None,
    ) -> None:
        """Add the values of one attribute."""
        if weights is None and isinstance(values, list) and len(values) >= _MANY:
            codes = codes_of_list(axis, values)
            rows.attribute += [number] * len(codes)
            rows.code += codes
            if number in self._text_attributes:
                row = len(rows.start) - 1
                rows.texts += [StringAt(row, number, v) for v in values if isinstance(v, str)]
            return
        for value in values:
            rows.attribute.append(number)
            rows.code.append(axis.code(value))
            weight = 1.0
            if weights is not None:
                weight = weights.get(name, value)
                rows.weight.append(weight)
            if isinstance(value, str) and number in self._text_attributes:
                rows.texts.append(StringAt(len(rows.start) - 1, number, value, weight))


class EventEncoder(AxesEncoder):
    """Encodes events for one set of rules. Safe to use from several threads.

    Parameters
    ----------
    rules
        The rules.
    derived
        The derived attributes of their dictionary, if the caller has them already.
    declared
        The declared types of attributes, if there are any.
    """

    def __init__(
        self,
        rules: EncodedRules,
        derived: DerivedAttributes | None = None,
        declared: DeclaredTypes | None = None,
    ) -> None:
        axes = rules.dictionary.axes
        super().__init__(
            {
                name: (number, axes[number].exact.get, axes[number])
                for name, number in rules.dictionary.attributes.items()
            },
            rules.texts.attributes,
            DerivedAttributes(rules.dictionary) if derived is None else derived,
        )
        self._texts = rules.texts
        self._guards = Guards(rules, sorted(rules.texts.attributes), texts=True)
        self._attributes = len(axes)
        texts = rules.texts
        self._known = KnownPairs(
            self._axes, len(axes), _is_scalar, texts.attributes, texts.cached_match, declared
        )
        self._has_pairs = not self._derived
        """Whether pairs are all that an event leads to."""
        self._declared = declared
        self._pair_of_key = KnownKeys(self._known).__getitem__
        self._weighs_pairs = not (self._derived or texts.attributes or declared is not None)
        """Whether an event with weights may be encoded as pairs."""

    def _add(self, event: Event, rows: _Rows) -> None:
        if self._declared is None:
            super()._add(event, rows)
        else:
            self._add_flat(self._declared.read(event), rows)

    def encode_pairs(self, event: Event) -> NDArray[np.int32]:
        """Encode one event, given as a mapping, as pairs; see `tamis.encode.event_pairs`."""
        pairs = self._join_pairs(event)
        if pairs is None:
            return to_pairs(self.encode(event), self._attributes)
        return np.frombuffer(pairs, np.int32)

    def encode_many(self, events: Iterable[Event], first: int = 0) -> Events:
        """Encode events given as mappings; an error names the event, counted from `first`."""
        return self.add_texts(*self.encode_entries(events, first))

    def encode_entries(
        self, events: Iterable[Event], first: int = 0
    ) -> tuple[Events, list[StringAt]]:
        """Encode events, or parts of events, but for the strings that the second result lists.

        Whether these need their text predicates depends on all entries of an event.
        """
        pairs: list[bytes | bytearray] = []
        others: list[tuple[int, Event]] = []
        for number, event in enumerate(events, first):
            found = self._join_pairs(event) if 2 * len(others) <= len(pairs) + _FEW else None
            if found is None:
                others.append((number, event))
            pairs.append(found or b"")
        if not others:
            return self._split_pairs(pairs), []
        rows = _Rows()
        self._add_all(self._add, others, rows)
        encoded = rows.events()
        if len(others) == len(pairs):
            return encoded, rows.texts
        places = [number - first for number, _ in others]
        merged = merge_rows(self._split_pairs(pairs), encoded, np.array(places))
        return merged, [text._replace(row=places[text.row]) for text in rows.texts]

    def _join_pairs(self, event: Event) -> bytearray | None:
        """The pairs of an event; None if it is unusual."""
        known = self._known
        if not self._has_pairs or event.__class__ is not dict:
            return None
        try:
            if known.unseen >= _UNSEEN:
                event = known.select_mentioned(event)
            return known.join_scalars(event)
        except Unusual:
            return None
        except TypeError:  # A list or an object cannot be looked up.
            pass
        try:
            return known.join_nested(event)
        except (Unusual, TypeError):
            return None

    def last_seen(self, most: int) -> list[Any]:
        """The values that were encoded last, for `recall`, but no more than `most`."""
        return list(self._known)[-most:]

    def recall(self, values: Iterable[Any]) -> None:
        """Encode values that another encoder has seen, before events need them."""
        self._known.recall(values)

    def _split_pairs(self, pairs: Sequence[bytes | bytearray]) -> Events:
        """The events of pairs, where those of texts follow the string that satisfies them."""
        start = starts(np.fromiter(map(len, pairs), np.int64, len(pairs)) // _PAIR_BYTES)
        number, code = np.frombuffer(b"".join(pairs), np.int32).reshape(-1, 2).T
        is_text = number >= self._attributes
        if not self._texts.attributes or not is_text.any():
            entries = number.copy(), code.copy()  # which kernels may take as writable
            no_texts = np.zeros_like(start), NO_INT32
            return Events(start, *entries, *no_texts, NO_DOUBLES, NO_DOUBLES)
        before = np.concatenate(([0], np.cumsum(is_text)))[start]
        texts = number[is_text] - self._attributes
        return Events(
            start - before, number[~is_text], code[~is_text], before, texts, NO_DOUBLES, NO_DOUBLES
        )

    def encode_weighted(self, event: FlatEvent, weights: EventWeights) -> Events:
        """Encode one event with weights for its values."""
        rows = _Rows()
        self._add_flat(event, rows, weights)
        return self._finish(rows)

    def encode_weighted_pairs(
        self, event: Event, weights: Mapping[tuple[str, Any], float]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Encode one event as pairs, with the weight of each; None if it has to be flattened first.

        So it has to be unless its values, and those that have weights, are strings and numbers. A
        time without a weight may be among them.
        """
        is_plain = event.__class__ is dict and weights.__class__ is dict
        if not (is_plain and self._weighs_pairs):
            return None
        if not _WEIGHED.issuperset(map(type, event.values())):
            return None
        keys: Collection[tuple[Any, Any]] = event.items()
        given: Iterable[float]
        try:
            if not are_plain_weights(weights, event.items()):
                return None
            if len(weights) == len(event):
                # Each value has a weight: the order of the weights is as good as the event's.
                keys, given = weights, weights.values()
            else:
                given = map(weights.get, keys, repeat(1.0))
            pairs = bytearray().join(map(self._pair_of_key, keys))
            if len(pairs) < _PAIR_BYTES * len(keys):
                # A value that no rule can see has no pair.
                given = compress(given, map(self._pair_of_key, keys))
            weight = np.fromiter(given, np.float64, len(pairs) // _PAIR_BYTES)
        except (Unusual, OverflowError):
            return None
        return np.frombuffer(pairs, np.int32), weight

    def _finish(self, rows: _Rows) -> Events:
        return self.add_texts(rows.events(), rows.texts)

    def add_texts(self, events: Events, strings: Sequence[StringAt]) -> Events:
        """`events` with the text predicates that strings of theirs satisfy and that may be needed.

        `events` has all its entries: guards are among them. The strings are rising by row, and none
        of them has its predicates already.
        """
        if not strings:
            return events
        sizes = np.zeros(len(events.start), np.int64)
        satisfied: list[int] = []
        weights: list[float] = []
        needed: dict[int, list[bool]] = {}
        for row, attribute, value, weight in strings:
            found = self._texts.cached_match(attribute, value)
            if found is None:
                if attribute not in needed:
                    rows = self._guards.rows_that_need(attribute, events)
                    needed[attribute] = rows.tolist()
                if not needed[attribute][row]:
                    continue
                found = self._texts.match(attribute, value)
            satisfied += found
            weights += [weight] * len(found)
            sizes[row + 1] += len(found)
        text_start, text = merge_lists(
            (events.text_start, events.text), (np.cumsum(sizes), np.array(satisfied, np.int32))
        )
        return events._replace(
            text_start=text_start,
            text=text,
            text_weight=np.array(weights) if len(events.weight) else NO_DOUBLES,
        )


_PAIR_BYTES = 8

_MANY = 64
"""From how many values of an attribute on they are looked up all at once."""

_WEIGHED = LOOKED_UP.union((datetime, date))
"""Types whose equal values have equal codes; not booleans, since True equals 1."""


def _is_scalar(value: Any) -> bool:
    """Whether a value can be looked up without being flattened or refused."""
    kind = value.__class__
    if kind is str:
        return is_unicode(value)
    if kind is int:
        return bool(INT_MIN <= value <= INT_MAX)
    return kind is float or kind is bool or value is None
