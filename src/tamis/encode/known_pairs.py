"""Encodes an event in one pass over a dictionary that remembers the values seen before.

A join over the bytes of each value's pair (`tamis.encode.event_pairs`) costs a sixth of encoding
the values one by one (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

__all__ = ["KnownPairs", "Unusual"]

_MOST: Final = 1 << 15
"""How many values are remembered; then all are forgotten."""

_LONGEST: Final = 256
"""The longest string that is remembered."""

_Item: TypeAlias = tuple[Any, Any, type]
"""A name, a value, and the value's type: True equals 1, but is another value."""

_pack = Struct("ii").pack


class Unusual(Exception):
    """A value has to be encoded in another way."""


class KnownPairs(dict[_Item, bytes]):
    """The pair of each value seen before, as bytes; none for a value that no rule can see.

    Only strings, integers, doubles, booleans and None are looked up here. Safe to use from several
    threads: a race only encodes a value twice.

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
    """

    __slots__ = ("_axes", "_find_texts", "_is_scalar", "_text_attributes", "_texts_at")

    def __init__(
        self,
        axes: Mapping[str, Any],
        attributes: int,
        is_scalar: Callable[[Any], bool],
        text_attributes: Collection[int],
        find_texts: Callable[[int, str], Sequence[int] | None],
    ) -> None:
        self._axes = axes
        self._is_scalar = is_scalar
        self._text_attributes = text_attributes
        self._find_texts = find_texts
        self._texts_at = attributes

    def __missing__(self, item: _Item) -> bytes:
        """Encode a value, and remember it if a rule mentions its attribute.

        Raises
        ------
        Unusual
            The name is not a string, or the value is none of the usual ones.
        """
        name, value, kind = item
        if kind not in _USUAL or name.__class__ is not str:
            raise Unusual
        if not self._is_scalar(value):
            raise Unusual
        found = self._axes.get(name)
        if found is None or value is None or value != value:
            return b""
        number, _, axis = found
        pairs = _pack(number, axis.code(value))
        if kind is str:
            if number in self._text_attributes:
                texts = self._find_texts(number, value)
                if texts is None:
                    raise Unusual
                pairs += b"".join(_pack(self._texts_at + text, 1) for text in texts)
            if len(value) > _LONGEST:
                return pairs
        if len(self) >= _MOST:
            self.clear()
        self[item] = pairs
        return pairs


_USUAL = frozenset((str, int, float, bool, type(None)))
