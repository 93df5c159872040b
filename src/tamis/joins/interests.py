"""Finds, for a document, what is interested in it: by a value that it has to have.

Most constants are equalities, so a new document is looked up by its values and meets few, however
many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from tamis.expr.event import FlatEvent, Kind, value_key
from tamis.expr.model import Op, Predicate, Value

__all__ = ["Interests"]

_T = TypeVar("_T")


class Interests(Generic[_T]):
    """Items by predicates on documents that must all hold."""

    def __init__(self) -> None:
        self._by_value: dict[str, dict[tuple[Kind, Value], list[_T]]] = {}
        self._others: list[_T] = []
        """Those without a test of a value for equality."""

    def add(self, tests: Sequence[Predicate], item: _T) -> None:
        """Add an item that is interested in documents which satisfy all of `tests`."""
        equal = (t for t in tests if t.op in (Op.EQ, Op.IN) and not t.negated)
        test = next(equal, None)
        if test is None:
            self._others.append(item)
            return
        by_value = self._by_value.setdefault(test.attribute, {})
        for value in test.values:
            by_value.setdefault(value_key(value), []).append(item)

    def find(self, document: FlatEvent) -> Iterator[_T]:
        """The items that may be interested in a document, each once."""
        found: dict[int, _T] = {}
        for attribute, by_value in self._by_value.items():
            for value in document.get(attribute, ()):
                for item in by_value.get(value_key(value), ()):
                    found[id(item)] = item
        yield from found.values()
        yield from self._others
