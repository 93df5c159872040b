"""What a stream of events holds: the attributes and the kinds of their values, in little memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tamis.encode.arrow_layouts import nesting_depth, plain
from tamis.encode.arrow_values import EVERYTHING, UnreadableValues, parts_of, readable
from tamis.errors import EventError
from tamis.expr.event import MAX_DEPTH, Kind, kind_of, value_of_item
from tamis.expr.model import Value
from tamis.matcher.inputs import EventChunk
from tamis.matcher.schema import Schema

__all__ = ["ObservedAttribute", "ObservedEvents"]

_MOST_NAMES: Final = 10_000
"""How many attributes are remembered that no rule mentions: events may have ids as keys."""

_SCALARS: Final = (str, bytes, bytearray, memoryview)


class ObservedAttribute:
    """An attribute that events have.

    Attributes
    ----------
    examples
        The kinds of its values, each with the first value seen, or None where that is not known.
    """

    __slots__ = ("_classes", "examples")

    def __init__(self) -> None:
        self.examples: dict[Kind, Value | None] = {}
        self._classes: set[type] = set()
        """The Python types whose kind is known: most values need no closer look."""

    def add_item(self, name: str, item: Any) -> None:
        """Add a value of an event; None, NaN and what rules cannot compare are left out."""
        if item.__class__ in self._classes:
            return
        try:
            value = value_of_item(name, item)
        except EventError:
            return
        if value is not None:
            self._classes.add(item.__class__)
            self.examples.setdefault(kind_of(value), value)


class ObservedEvents:
    """The attributes of all events seen so far.

    Parameters
    ----------
    mentioned
        The attributes that rules mention.
    schema
        The declared types; a value of a declared attribute has the declared kind.
    """

    def __init__(self, mentioned: frozenset[str], schema: Schema) -> None:
        self.size = 0
        """How many events were added."""
        self.attributes: dict[str, ObservedAttribute] = {}
        self._mentioned = mentioned
        self._declared = schema.kinds

    def add(self, chunk: EventChunk) -> None:
        """Add events.

        Raises
        ------
        EventError
            An event is not a mapping.
        """
        if isinstance(chunk, list):
            for number, event in enumerate(chunk, self.size):
                if not isinstance(event, Mapping):
                    raise EventError(
                        f"event {number}: an event is a mapping of attributes to values, "
                        f"not {type(event).__name__}"
                    )
                self._add_object("", event, 0)
            self.size += len(chunk)
            return
        for name, column in zip(chunk.schema.names, chunk.columns, strict=True):
            if nesting_depth(column.type) <= MAX_DEPTH:
                self._add_column(name, column)
        self.size += chunk.num_rows

    def kinds(self, name: str) -> frozenset[Kind]:
        """The kinds of values that an attribute has; empty if no event has it."""
        observed = self.attributes.get(name)
        if observed is None or not observed.examples:
            return frozenset()
        declared = self._declared.get(name)
        return frozenset(observed.examples) if declared is None else frozenset([declared])

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def _find(self, name: str) -> ObservedAttribute | None:
        """The attribute `name`; None if there are too many attributes to remember this one."""
        found = self.attributes.get(name)
        if found is None and (name in self._mentioned or len(self.attributes) < _MOST_NAMES):
            found = self.attributes[name] = ObservedAttribute()
        return found

    def _add_object(self, path: str, item: Mapping[Any, Any], depth: int) -> None:
        for key, inner in item.items():
            self._add_item(_join(path, str(key)), inner, depth + 1)

    def _add_item(self, path: str, item: Any, depth: int) -> None:
        if item is None or depth > MAX_DEPTH:
            return
        if isinstance(item, Mapping):
            self._add_object(path, item, depth)
        elif isinstance(item, Sequence | set | frozenset) and not isinstance(item, _SCALARS):
            for inner in item:
                self._add_item(path, inner, depth + 1)
        elif item == item:  # NaN, which equals nothing, is absent
            observed = self._find(path)
            if observed is not None:
                observed.add_item(path, item)

    def _add_column(self, path: str, values: pa.Array) -> None:
        values = plain(values)
        if pa.types.is_nested(values.type):
            try:
                for part in parts_of(path, values, None, EVERYTHING):
                    self._add_column(part.name, part.values)
            except UnreadableValues:
                return  # a map whose keys are no names
        elif pa.types.is_dictionary(values.type):
            self._add_column(path, values.dictionary.take(values.indices.unique().drop_null()))
        elif values.null_count < len(values):
            self._add_leaf(path, values)

    def _add_leaf(self, path: str, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
            if values.null_count == len(values):
                return
        observed = self._find(path)
        kind = _kind_of_type(values.type)
        if observed is not None and kind is not None and kind not in observed.examples:
            try:
                (example,) = readable(path, values.drop_null().slice(0, 1), None).to_pylist()
            except UnreadableValues:
                example = None
            observed.examples[kind] = None if kind is Kind.TIMESTAMP else example


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind_of_type(kind: pa.DataType) -> Kind | None:
    """The kind of the values of an Arrow type; None if rules cannot compare them."""
    types = pa.types
    if types.is_boolean(kind):
        return Kind.BOOLEAN
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Kind.NUMBER
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Kind.STRING
    if types.is_timestamp(kind) or types.is_date(kind):
        return Kind.TIMESTAMP
    return None
