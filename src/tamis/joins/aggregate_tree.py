"""An ordered tree whose nodes have totals, so that the total of a range takes O(log D).

A B+ tree: leaves have entries in the order of their keys, inner nodes the totals of their children.
A range is a few whole children at each level and two partial ones. Entries with equal keys are in
the order of their numbers, which rise from document to document.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

__all__ = ["AggregateTree", "Cut", "Reducer"]

_MOST: Final = 64
"""How many entries a leaf and how many children a node has at most; more are split."""

Reducer: TypeAlias = Callable[[Iterable[Any]], Any]
"""Computes the total of a column: `sum`, `min` or `max`."""

Cut: TypeAlias = tuple[Any, int]
"""``(key, 0)`` lies right below all entries of that key, ``(key, 1)`` right above them."""


class _Node:
    """A leaf, or an inner node.

    Attributes
    ----------
    keys
        The keys of the entries, or the first key of each child.
    numbers
        The numbers of the entries, or that of the first entry of each child.
    counts
        How many entries each child has; None in a leaf.
    columns
        What the reducers reduce, for each entry or each child.
    children
        None in a leaf.
    """

    __slots__ = ("children", "columns", "counts", "keys", "numbers")

    def __init__(self, width: int, children: list[_Node] | None = None) -> None:
        self.keys: list[Any] = []
        self.numbers: list[int] = []
        self.counts: list[int] | None = None if children is None else []
        self.columns: list[list[Any]] = [[] for _ in range(width)]
        self.children = children

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def count(self) -> int:
        return len(self.keys) if self.counts is None else sum(self.counts)

    def place_of(self, cut: Cut) -> int:
        """How many keys lie below a cut."""
        return (bisect_right if cut[1] else bisect_left)(self.keys, cut[0])

    def split(self) -> _Node:
        """Cut off the second half, and return it."""
        half = len(self.keys) // 2
        other = _Node(len(self.columns), None if self.children is None else self.children[half:])
        other.keys, other.numbers = self.keys[half:], self.numbers[half:]
        other.columns = [column[half:] for column in self.columns]
        del self.keys[half:], self.numbers[half:]
        for column in self.columns:
            del column[half:]
        if self.children is not None and self.counts is not None:
            other.counts = self.counts[half:]
            del self.children[half:], self.counts[half:]
        return other


class AggregateTree:
    """Entries in the order of their keys, with the totals of any range of them.

    Parameters
    ----------
    reducers
        How to reduce each column of the entries.
    """

    __slots__ = ("_reducers", "_root")

    def __init__(self, reducers: Sequence[Reducer] = ()) -> None:
        self._reducers = tuple(reducers)
        self._root = _Node(len(self._reducers))

    def __len__(self) -> int:
        return self._root.count

    @property
    def lowest(self) -> Any:
        """The lowest key; there must be one."""
        return self._root.keys[0]

    @property
    def highest(self) -> Any:
        """The highest key; there must be one."""
        node = self._root
        while node.children is not None:
            node = node.children[-1]
        return node.keys[-1]

    def add(self, key: Any, number: int, row: Sequence[Any] = ()) -> None:
        """Add an entry with a value for each column; no entry of its key has a higher number."""
        path = self._descend(key, number)
        leaf = path[-1][0]
        at = bisect_right(leaf.keys, key)
        leaf.keys.insert(at, key)
        leaf.numbers.insert(at, number)
        for column, value in zip(leaf.columns, row, strict=True):
            column.insert(at, value)
        self._update(path)

    def remove(self, key: Any, number: int) -> None:
        """Remove an entry; it must be there."""
        path = self._descend(key, number)
        leaf = path[-1][0]
        first, last = bisect_left(leaf.keys, key), bisect_right(leaf.keys, key)
        at = bisect_left(leaf.numbers, number, first, last)
        del leaf.keys[at], leaf.numbers[at]
        for column in leaf.columns:
            del column[at]
        self._update(path)

    def reduce(self, low: Cut | None = None, high: Cut | None = None) -> tuple[int, list[Any]]:
        """How many entries lie between two cuts, and the totals of their columns.

        Without entries, there are no totals.
        """
        parts: list[list[Any]] = [[] for _ in self._reducers]
        count = self._collect(self._root, low, high, parts)
        if not count:
            return 0, []
        return count, [reduce(p) for reduce, p in zip(self._reducers, parts, strict=True)]

    def _collect(
        self, node: _Node, low: Cut | None, high: Cut | None, parts: list[list[Any]]
    ) -> int:
        """Add to `parts` what is to be reduced between two cuts, and return how many entries."""
        begin = 0 if low is None else node.place_of(low)
        end = len(node) if high is None else node.place_of(high)
        if node.children is None:
            if begin >= end:
                return 0
            for part, column in zip(parts, node.columns, strict=True):
                part += column[begin:end]
            return end - begin
        count = 0
        if low is not None and begin:
            # Some entries of the child before may lie above the cut.
            child = node.children[begin - 1]
            count += self._collect(child, low, high if begin > end - 1 else None, parts)
            if begin > end - 1:
                return count
        if high is not None and end:
            end -= 1
            count += self._collect(node.children[end], None, high, parts)
        if begin < end:
            assert node.counts is not None
            for part, column in zip(parts, node.columns, strict=True):
                part += column[begin:end]
            count += sum(node.counts[begin:end])
        return count

    def _descend(self, key: Any, number: int) -> list[tuple[_Node, int]]:
        """The nodes from the root to the leaf where an entry belongs, each with the next child."""
        node, path = self._root, []
        while node.children is not None:
            # Among children that begin with the same key, numbers rise.
            first, last = bisect_left(node.keys, key), bisect_right(node.keys, key)
            place = max(bisect_right(node.numbers, number, first, last) - 1, 0)
            path.append((node, place))
            node = node.children[place]
        path.append((node, 0))
        return path

    def _update(self, path: list[tuple[_Node, int]]) -> None:
        """Bring the nodes above a changed leaf up to date; split or drop children."""
        for (node, place), (child, _) in zip(path[-2::-1], path[:0:-1], strict=True):
            assert node.children is not None
            assert node.counts is not None
            if not child.keys:
                del node.children[place], node.counts[place], node.keys[place], node.numbers[place]
                for column in node.columns:
                    del column[place]
                continue
            self._describe(node, place, child)
            if len(child) > _MOST:
                node.children.insert(place + 1, child.split())
                node.counts.insert(place + 1, 0)
                node.keys.insert(place + 1, None)
                node.numbers.insert(place + 1, 0)
                for column in node.columns:
                    column.insert(place + 1, None)
                self._describe(node, place, child)
                self._describe(node, place + 1, node.children[place + 1])
        self._fit_root()

    def _describe(self, node: _Node, place: int, child: _Node) -> None:
        """Have a node know the first entry and the totals of a child."""
        assert node.counts is not None
        node.counts[place] = child.count
        node.keys[place], node.numbers[place] = child.keys[0], child.numbers[0]
        for reduce, column, below in zip(self._reducers, node.columns, child.columns, strict=True):
            column[place] = reduce(below)

    def _fit_root(self) -> None:
        root = self._root
        if len(root) > _MOST:
            halves = [root, root.split()]
            self._root = _Node(len(self._reducers), halves)
            assert self._root.counts is not None
            self._root.keys, self._root.numbers = [None, None], [0, 0]
            self._root.counts[:] = [0, 0]
            self._root.columns = [[None, None] for _ in self._reducers]
            for place, half in enumerate(halves):
                self._describe(self._root, place, half)
        elif root.children is not None and not root.children:
            self._root = _Node(len(self._reducers))
        elif root.children is not None and len(root.children) == 1:
            self._root = root.children[0]
