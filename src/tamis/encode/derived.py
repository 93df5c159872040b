"""The derived attributes that a set of rules mentions, computed from events.

Their names are among the dictionary's attributes; no others are computed. Of a family of conditions
only those are that rules mention: the strings of the attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32
from tamis.encode.dictionary import ABSENT, Axis, Dictionary
from tamis.expr.event import FlatEvent, make_flat
from tamis.expr.functions.derive import Derivation, derivation, index_conditions
from tamis.expr.functions.families import NO_CONDITION, Conditions
from tamis.expr.model import Value
from tamis.expr.names import DERIVED

__all__ = ["DerivedAttribute", "DerivedAttributes", "ReadValues"]


_REMEMBERED: Final = 16_384
"""How many codes are remembered for each derived attribute."""


class ReadValues(NamedTuple):
    """What an event's lists, times, dates and decimals were read as."""

    values: dict[str, list[Value]]
    """The distinct values of each attribute; none where the item stands for absence."""
    sizes: dict[str, int]
    """How many values each list has."""


class DerivedAttribute:
    """One derived attribute of a dictionary."""

    __slots__ = ("_codes", "_conditions", "axis", "how", "name", "number")

    def __init__(self, name: str, number: int, axis: Axis) -> None:
        self.name = name
        self.number = number
        self.axis = axis
        self.how: Derivation = derivation(name)
        # Built by `prepare` or for the first event. Two threads may build it at once; either
        # result will do.
        self._conditions: Conditions | None = None
        self._codes: dict[tuple[type, Value], int] = {}
        """The codes that were derived from single values, ABSENT among them."""

    def code_of_one(self, value: Value) -> int:
        """The code of what is derived from a single value; only where `how.of_one` is given."""
        key = (value.__class__, value)  # True equals 1, but is another value
        code = self._codes.get(key)
        if code is None:
            assert self.how.of_one is not None
            derived = self.how.of_one(value)
            code = ABSENT if derived is None else self.axis.code(derived)
            if len(self._codes) >= _REMEMBERED:
                self._codes.clear()
            self._codes[key] = code
        return code

    def prepare(self) -> Conditions | None:
        """Build the index of conditions, if there is one, so that no event waits for it."""
        if self._conditions is None and self.how.family is not None:
            self._conditions = index_conditions(self.name, self.axis.strings)
        return self._conditions

    def codes(self, event: FlatEvent) -> NDArray[np.int32]:
        """The codes of the family's conditions that hold on an event; empty if it is absent.

        The strings of the axis are the conditions, in the same order.
        """
        conditions = self.prepare()
        assert conditions is not None, "only families of conditions are encoded by their places"
        places = self.how.find_places(event, conditions)
        if places is None:
            return NO_INT32
        if len(places) == 0:
            return np.array([self.axis.code(NO_CONDITION)], np.int32)
        return (self.axis.strings_at + 1 + 2 * places).astype(np.int32)

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

    def select_bases(self, event: Mapping[str, Any], read: ReadValues) -> FlatEvent:
        """What is derived from, in an event of scalars and of items that were read already."""
        flat: dict[str, list[Value]] = {}
        for name in self.bases:
            values = read.values.get(name)
            if values is None:
                value = event.get(name)
                if value is not None and value == value:
                    flat[name] = [value]
            elif values:
                flat[name] = values
        return make_flat(flat, read.sizes)
