"""Encodes an event in one pass over a dictionary that remembers the values seen before.

A join over the bytes of each value's pair (`tamis.encode.event_pairs`) costs a sixth of encoding
the values one by one (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from math import isfinite
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from tamis.errors import EventError, SchemaError
from tamis.expr.event import Event, FlatEvent, read_plain_list, value_of_item
from tamis.expr.model import Value
from tamis.expr.names import is_computed

__all__ = [
    "CONVERTED",
    "LOOKED_UP",
    "DeclaredTypes",
    "KnownKeys",
    "KnownPairs",
    "Unusual",
    "is_name",
]

_MOST: Final = 1 << 15
"""How many values are remembered; then all are forgotten."""

_LONGEST: Final = 256
"""The longest string that is remembered."""

_MOST_LEVELS: Final = 16
"""The most levels of objects in objects."""

_BEYOND: Final = 2.0**63
"""Doubles from here on are not remembered: an equal integer has too many bits, and is refused."""

_LONGEST_LIST: Final = 64
"""The most values of a list."""

CONVERTED: Final = (date, Decimal, np.number, np.bool_)
"""The types of items that become values without being flattened; a time is a date, too."""

_Item: TypeAlias = tuple[Any, Any] | tuple[Any, Any, type]
"""A name and a value, and the value's type if it is not in LOOKED_UP: True equals 1, but is another
value."""

_WITH_TYPE: Final = 3
"""The length of an item with a type."""

_pack = Struct("ii").pack


class Unusual(Exception):
    """A value has to be encoded in another way."""


class DeclaredTypes(Protocol):
    """The types that some attributes have to have."""

    def __contains__(self, name: object) -> bool:
        """Whether an attribute has a declared type."""

    def __iter__(self) -> Iterator[str]:
        """The attributes that have one."""

    def conform_value(self, name: str, value: Value) -> Value:
        """The value of an attribute as one of the declared type; raises a SchemaError."""

    def read(self, event: Event) -> FlatEvent:
        """Flatten an event and have its values conform; raises a SchemaError or an EventError."""


class KnownPairs(dict[_Item, bytes]):
    """The pair of each value seen before, as bytes; none for a value that no rule can see.

    Strings, integers, doubles, booleans and None are remembered. Times, dates, decimals and NumPy's
    numbers are encoded anew each time: an hour that clocks repeat is two times that compare as
    equal. Safe to use from several threads: a race only encodes a value twice.

    Parameters
    ----------
    axes
        The number, known codes and axis of each attribute, by name.
    attributes
        How many attributes there are.
    is_scalar
        Whether a value needs no further reading.
    text_attributes
        The attributes with text predicates.
    find_texts
        The numbers of the text predicates that a string satisfies; None if they are not known yet.
    declared
        The declared types of attributes, if there are any.

    Attributes
    ----------
    unseen
        How many values that no rule can see were looked up since events had few of them.
    """

    __slots__ = (
        "_axes",
        "_declared",
        "_find_texts",
        "_has_types",
        "_is_scalar",
        "_mentioned",
        "_text_attributes",
        "_texts_at",
        "unseen",
    )

    def __init__(
        self,
        axes: Mapping[str, Any],
        attributes: int,
        is_scalar: Callable[[Any], bool],
        text_attributes: Collection[int],
        find_texts: Callable[[int, str], Sequence[int] | None],
        declared: DeclaredTypes | None = None,
    ) -> None:
        self._axes = axes
        self._is_scalar = is_scalar
        self._text_attributes = text_attributes
        self._find_texts = find_texts
        self._texts_at = attributes
        self._declared = declared
        self._mentioned = frozenset(_with_objects([*axes, *(declared or ())]))
        self._has_types = False
        """Whether types are part of keys: an event had a value that needs it."""
        self.unseen = 0

    def __missing__(self, item: _Item) -> bytes:
        """Encode a value, and remember it if a rule mentions its attribute.

        Raises
        ------
        Unusual
            The name is not a valid string, or the value is none of the usual ones.
        """
        name, value = item[:2]
        kind = type(value)
        if not is_name(name):
            raise Unusual
        found, declared = self._axes.get(name), self._declared
        if found is None:
            self.unseen += 1
        if kind in _REMEMBERED:
            if not self._is_scalar(value):
                raise Unusual
        elif not isinstance(value, CONVERTED):
            raise Unusual
        elif found is not None or declared is not None:
            value = _convert(name, value)
        if value is None or value != value:
            return b""
        if declared is not None:
            try:
                value = declared.conform_value(name, value)
            except SchemaError:
                raise Unusual from None
        if found is None:
            return b""
        number, _, axis = found
        pairs = _pack(number, axis.code(value))
        if value.__class__ is str and number in self._text_attributes:
            texts = self._find_texts(number, value)
            if texts is None:
                raise Unusual
            pairs += b"".join(_pack(self._texts_at + text, 1) for text in texts)
        if kind not in _REMEMBERED or (kind is str and len(item[1]) > _LONGEST):
            return pairs
        if kind is float and abs(item[1]) >= _BEYOND:
            return pairs
        if len(self) >= _MOST:
            self.clear()
        self[item] = pairs
        return pairs

    def recall(self, items: Iterable[_Item]) -> None:
        """Remember values that another set of rules has seen, before events need them."""
        unseen = self.unseen
        for item in items:
            with suppress(Unusual):
                self[item]
            self._has_types |= len(item) == _WITH_TYPE
        self.unseen = unseen

    def select_mentioned(self, event: dict[Any, Any]) -> dict[Any, Any]:
        """What rules may see of an event; all of it if a name may not be valid.

        Where that is most of the event, counts `unseen` anew: the selection did not pay.

        Raises
        ------
        TypeError
            A name is not a string.
        """
        if not event or min(event) <= " ":
            return event
        selected = {name: event[name] for name in event.keys() & self._mentioned}
        if 4 * len(selected) > 3 * len(event):
            self.unseen = 0
        return selected

    def join_scalars(self, event: dict[Any, Any]) -> bytearray:
        """The pairs of an event without objects and lists.

        They are no bytes, for which kernels would be compiled once more: as a read-only array.

        Raises
        ------
        Unusual, TypeError
            The event has to be encoded in another way.
        """
        values = event.values()
        if not self._has_types:
            if LOOKED_UP.issuperset(map(type, values)):
                return bytearray().join(map(self.__getitem__, event.items()))
            # The next event is probably of the same kind.
            self._has_types = True
        items = zip(event, values, map(type, values), strict=True)
        return bytearray().join(map(self.__getitem__, items))

    def join_nested(self, event: dict[Any, Any]) -> bytearray:
        """The pairs of an event with objects and lists.

        Raises
        ------
        Unusual, TypeError
            The event has to be flattened and encoded in another way.
        """
        scalars: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        _unnest(event, "", scalars, lists, 1)
        pairs = self.join_scalars(scalars)
        for name in lists:
            pairs += self._join_list(name, lists[name])
        return pairs

    def _join_list(self, name: str, items: list[Any]) -> bytes:
        """The pairs of a list of strings or numbers."""
        if not items:
            return b""
        found = self._axes.get(name)
        has_texts = found is not None and found[0] in self._text_attributes
        if has_texts or (self._declared is not None and name in self._declared):
            raise Unusual
        plain = read_plain_list(items)
        if plain is None or len(plain[0]) > _LONGEST_LIST:
            raise Unusual
        if found is None:
            return b""
        return b"".join([self[name, value, value.__class__] for value in plain[0]])


class KnownKeys(dict[tuple[Any, Any], bytes]):
    """The pairs of strings and numbers by name and value, which tell them apart.

    So they do as long as no boolean is looked up: True equals 1. Safe to use from several threads.

    Parameters
    ----------
    pairs
        The pairs by name, value and type.
    """

    def __init__(self, pairs: KnownPairs) -> None:
        self._pairs = pairs

    def __missing__(self, key: tuple[Any, Any]) -> bytes:
        """Encode a value, and remember it if it has a pair.

        Raises
        ------
        Unusual
            The name or the value is none of the usual ones, or is one that no weight may have.
        """
        name, value = key
        if value.__class__ is float and not isfinite(value):
            raise Unusual
        pair = self._pairs[name, value, value.__class__]
        is_long = value.__class__ is str and len(value) > _LONGEST
        if not pair or value.__class__ not in _NAMED or is_long:
            return pair
        if len(self) >= _MOST:
            self.clear()
        self[key] = pair
        return pair


def _with_objects(names: Iterable[str]) -> Iterator[str]:
    """Names of attributes and of all objects that they may be in: of a.b.c also a.b and a."""
    for name in names:
        yield name
        while "." in name:
            name = name.rpartition(".")[0]
            yield name


def _unnest(
    items: dict[Any, Any],
    path: str,
    scalars: dict[str, Any],
    lists: dict[str, list[Any]],
    level: int,
) -> None:
    """Add the items of an object, those of objects in it among them, by their whole names."""
    if level > _MOST_LEVELS:
        raise Unusual
    for name, item in items.items():
        if not is_name(name):
            raise Unusual
        whole = path + name
        kind = item.__class__
        if kind is dict:
            _unnest(item, f"{whole}.", scalars, lists, level + 1)
        elif whole in scalars or whole in lists:
            # An attribute that is given in two ways has the values of both.
            raise Unusual
        elif kind is list:
            lists[whole] = item
        else:
            scalars[whole] = item


def is_name(name: Any) -> bool:
    """Whether an event may have an attribute of this name."""
    return name.__class__ is str and (name > " " or not is_computed(name))


def _convert(name: str, item: Any) -> Value | None:
    """An item as a value, or None where it stands for absence."""
    try:
        return value_of_item(name, item)
    except EventError:
        raise Unusual from None


_NAMED = frozenset((str, int, float))
"""Types whose equal values have equal pairs."""
LOOKED_UP: Final = _NAMED.union((type(None),))
"""Types that need not be part of a key."""
_REMEMBERED = LOOKED_UP.union((bool,))
