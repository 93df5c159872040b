"""The derived attributes that a set of rules mentions, computed from events.

Their names are among the dictionary's attributes; no others are computed. Of a family of conditions
only those are that rules mention: the strings of the attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tamis.encode.dictionary import Axis, Dictionary
from tamis.expr.event import FlatEvent
from tamis.expr.functions.derive import Derivation, derivation, index_conditions
from tamis.expr.functions.families import Conditions
from tamis.expr.model import Value
from tamis.expr.names import DERIVED

__all__ = ["DerivedAttribute", "DerivedAttributes"]


class DerivedAttribute:
    """One derived attribute of a dictionary."""

    __slots__ = ("_conditions", "axis", "how", "name", "number")

    def __init__(self, name: str, number: int, axis: Axis) -> None:
        self.name = name
        self.number = number
        self.axis = axis
        self.how: Derivation = derivation(name)
        # Built by `prepare` or for the first event. Two threads may build it at once; either
        # result will do.
        self._conditions: Conditions | None = None

    def prepare(self) -> Conditions | None:
        """Build the index of conditions, if there is one, so that no event waits for it."""
        if self._conditions is None and self.how.family is not None:
            self._conditions = index_conditions(self.name, self.axis.strings)
        return self._conditions

    def values(self, event: FlatEvent) -> list[Value]:
        """Its distinct values for an event; empty if it is absent."""
        conditions = self.prepare()
        if conditions is None:
            return self.how.values(event)
        return self.how.find_holding(event, conditions)


class DerivedAttributes:
    """All derived attributes of a dictionary; false if there are none.

    Attributes
    ----------
    bases
        The attributes of events that they are computed from.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self._all = [
            DerivedAttribute(name, number, dictionary.axes[number])
            for name, number in dictionary.attributes.items()
            if name.startswith(DERIVED)
        ]
        self._names = frozenset(derived.name for derived in self._all)
        self.bases = frozenset(item.attribute for d in self._all for item in d.how.inputs)

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[DerivedAttribute]:
        return iter(self._all)

    def are_in(self, event: Mapping[str, Any]) -> bool:
        """Whether an event itself has an attribute of such a name, which is not allowed."""
        return not self._names.isdisjoint(event)

    def of_scalars(
        self, event: Mapping[str, Any]
    ) -> Iterator[tuple[DerivedAttribute, list[Value]]]:
        """As `of`, for an event of scalars: strings, numbers, booleans, nulls and NaNs."""
        flat: FlatEvent = {}
        for name in self.bases:
            value = event.get(name)
            if value is not None and value == value:
                flat[name] = [value]
        return self.of(flat)

    def of(self, event: FlatEvent) -> Iterator[tuple[DerivedAttribute, list[Value]]]:
        """The derived attributes that are present in an event, and their values."""
        for derived in self._all:
            values = derived.values(event)
            if values:
                yield derived, values
