"""Aggregates over documents, kept up to date as documents come and go.

``(SELECT COUNT(*) FROM seen d WHERE d.kind = 'login' AND d.user = user AND d.at > at - INTERVAL '5
minutes')``: a *window* has the documents that satisfy the constants, grouped by the attributes that
have to be equal (``user``), each group in the order of the attribute that is compared (``at``), in
a tree with totals. An event looks up its group and adds up a range of it: O(log D).

This takes a conjunction in which every comparison is an equality, except those with one attribute.
Anything else, and an event or a document with several values where it matters, is computed from the
documents that satisfy the condition, one by one.

COUNT DISTINCT over a range that is open at one end counts the values by their last or their first
document in the order. A range within the documents looks at each distinct value of the group.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from tamis.expr.evaluate import evaluate_flat, is_true
from tamis.expr.event import FlatEvent, Kind, kind_of, value_key
from tamis.expr.joins.aggregates import aggregate_documents
from tamis.expr.joins.predicate import (
    Aggregate,
    Comparison,
    Condition,
    Every,
    Function,
    Join,
    Test,
    leaves,
)
from tamis.expr.joins.shifts import shift_values
from tamis.expr.model import Op, Predicate, Value
from tamis.joins.aggregate_tree import AggregateTree, Cut
from tamis.joins.evaluate import JoinEvaluator
from tamis.joins.interests import Interests
from tamis.joins.measures import Measure, make_measure
from tamis.joins.ordered_index import key_of

__all__ = ["AllDocuments", "Window", "Windows"]

_SEVERAL: Final = 64
"""With more documents of several compared values than this, a window gives up."""

_Group: TypeAlias = tuple[tuple[Kind, Value], ...]
"""The values of the attributes that have to be equal."""

_Answer: TypeAlias = list[Value] | None


class AllDocuments(Protocol):
    """Documents by number."""

    def numbers(self) -> Iterator[int]:
        """The numbers of all documents, rising."""

    def document(self, number: int) -> FlatEvent:
        """The document of that number."""


class Shape(NamedTuple):
    """The parts of a conjunction that a window can answer."""

    tests: tuple[Predicate, ...]
    """What old documents have to satisfy by themselves."""
    filters: tuple[Condition, ...]
    """The same, as conditions with AND and OR."""
    new_tests: tuple[Condition, ...]
    """What the event has to satisfy by itself."""
    equal: tuple[Comparison, ...]
    """One for each attribute that has to be equal."""
    ranges: tuple[Comparison, ...]
    """Comparisons with one other attribute."""

    @classmethod
    def of(cls, where: Condition) -> Shape | None:
        """The parts of a condition; None if it is not such a conjunction."""
        tests: list[Predicate] = []
        filters: list[Condition] = []
        new_tests: list[Condition] = []
        equal: list[Comparison] = []
        ranges: list[Comparison] = []
        for part in where.children if isinstance(where, Every) else (where,):
            if isinstance(part, Test) and part.of_old:
                tests.append(part.predicate)
            elif _is_only_of(part, old=True):
                filters.append(part)
            elif _is_only_of(part, old=False):
                new_tests.append(part)
            elif isinstance(part, Comparison) and not part.negated:
                (equal if part.op is Op.EQ else ranges).append(part)
            else:
                return None
        is_simple = len({c.old for c in equal}) == len(equal) and len({c.old for c in ranges}) < 2
        if not is_simple:
            return None
        return cls(tuple(tests), tuple(filters), tuple(new_tests), tuple(equal), tuple(ranges))


def _is_only_of(condition: Condition, old: bool) -> bool:
    """Whether all parts of a condition test one side of the join."""
    return all(isinstance(leaf, Test) and leaf.of_old is old for leaf in leaves(condition))


class _Trees:
    """The documents of one group, for any aggregate but COUNT DISTINCT."""

    __slots__ = ("_measure", "_trees")

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._trees: dict[tuple[Kind | None, Kind], AggregateTree] = {}
        """By the kind of the keys, which compare with their like, and by that of the rows."""

    def __bool__(self) -> bool:
        return bool(self._trees)

    def add(self, kind: Kind | None, key: Any, number: int, values: Sequence[Value]) -> None:
        for of_rows, row in self._measure.rows(values):
            tree = self._trees.get((kind, of_rows))
            if tree is None:
                tree = self._trees[kind, of_rows] = AggregateTree(self._measure.reducers)
            tree.add(key, number, row)

    def remove(self, kind: Kind | None, key: Any, number: int, values: Sequence[Value]) -> None:
        for of_rows, _ in self._measure.rows(values):
            tree = self._trees[kind, of_rows]
            tree.remove(key, number)
            if not len(tree):
                del self._trees[kind, of_rows]

    def result(self, kind: Kind | None, low: Cut | None, high: Cut | None) -> _Answer:
        found = {}
        for (of_keys, of_rows), tree in self._trees.items():
            if of_keys == kind:
                totals = tree.reduce(low, high)
                if totals[0]:
                    found[of_rows] = totals
        return self._measure.result(found)


class _Distinct:
    """The documents of one group, for COUNT DISTINCT."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[Kind | None, _DistinctKeys] = {}

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def add(self, kind: Kind | None, key: Any, number: int, values: Sequence[Value]) -> None:
        for value in values:
            self._by_kind.setdefault(kind, _DistinctKeys()).add(key, number, value)

    def remove(self, kind: Kind | None, key: Any, number: int, values: Sequence[Value]) -> None:
        for value in values:
            keys = self._by_kind[kind]
            keys.remove(key, number, value)
            if not keys.by_value:
                del self._by_kind[kind]

    def result(self, kind: Kind | None, low: Cut | None, high: Cut | None) -> _Answer:
        keys = self._by_kind.get(kind)
        return [0 if keys is None else keys.count(low, high)]


class _DistinctKeys:
    """The keys of each distinct value, with the first and the last of them in order."""

    __slots__ = ("_firsts", "_lasts", "by_value")

    def __init__(self) -> None:
        self.by_value: dict[tuple[Kind, Value], list[tuple[Any, int]]] = {}
        self._firsts = AggregateTree()
        self._lasts = AggregateTree()

    def add(self, key: Any, number: int, value: Value) -> None:
        keys = self.by_value.setdefault(value_key(value), [])
        before = (keys[0], keys[-1]) if keys else None
        insort(keys, (key, number))
        self._move(before, (keys[0], keys[-1]))

    def remove(self, key: Any, number: int, value: Value) -> None:
        name = value_key(value)
        keys = self.by_value[name]
        before = keys[0], keys[-1]
        del keys[bisect_left(keys, (key, number))]
        if not keys:
            del self.by_value[name]
        self._move(before, (keys[0], keys[-1]) if keys else None)

    def _move(self, before: Any, after: Any) -> None:
        """Have the trees know the first and the last key of a value."""
        for place, tree in enumerate((self._firsts, self._lasts)):
            old, new = before and before[place], after and after[place]
            if old != new:
                if old is not None:
                    tree.remove(old, old[1])
                if new is not None:
                    tree.add(new, new[1])

    def count(self, low: Cut | None, high: Cut | None) -> int:
        # Keys are pairs here. A pair with a number lies above the pair without, and none has two.
        low = None if low is None else _cut_pairs(low)
        high = None if high is None else _cut_pairs(high)
        if low is None and high is None:
            return len(self.by_value)
        if low is not None and low[0] <= self._firsts.lowest:
            low = None
        if high is not None and high[0] > self._lasts.highest:
            high = None
        if high is None:
            return self._lasts.reduce(low, None)[0]
        if low is None:
            return self._firsts.reduce(None, high)[0]
        between = 0
        for keys in self.by_value.values():
            place = bisect_left(keys, low[0])
            between += place < len(keys) and keys[place] < high[0]
        return between


def _cut_pairs(cut: Cut) -> Cut:
    """A cut between keys as one between pairs of a key and a number."""
    return (cut[0], float("inf") if cut[1] else -1), 0


class Window:
    """The documents that an aggregate may count, grouped and ordered.

    Parameters
    ----------
    shape
        The condition.
    aggregate
        What is computed.
    """

    def __init__(self, shape: Shape, aggregate: Aggregate) -> None:
        self.tests = shape.tests
        self._filters = shape.filters
        self._aggregate = aggregate
        self._equal = tuple(comparison.old for comparison in shape.equal)
        self._ordered = shape.ranges[0].old if shape.ranges else None
        self._groups: dict[_Group, _Trees | _Distinct] = {}
        self._several: dict[int, None] = {}
        """The documents with several values of the ordered attribute, which are in no group."""

    def add(self, number: int, document: FlatEvent) -> None:
        """Take note of a new document, whose number is the highest so far."""
        if not self._takes(document):
            return
        kind, key = self._place(document, number)
        if key is None:
            self._several[number] = None
            return
        values = self._values(document)
        for name in self._names(document):
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = self._make_group()
            group.add(kind, key, number, values)

    def remove(self, number: int, document: FlatEvent) -> None:
        """Take note that a document was removed."""
        if not self._takes(document):
            return
        kind, key = self._place(document, number)
        if key is None:
            del self._several[number]
            return
        values = self._values(document)
        for name in self._names(document):
            group = self._groups.get(name)
            if group is not None:
                group.remove(kind, key, number, values)
                if not group:
                    del self._groups[name]

    def result(self, shape: Shape, event: FlatEvent) -> tuple[_Answer] | None:
        """The aggregate's value on an event; None if it has to be computed in another way."""
        if self._several:
            return None
        if not all(is_true(test, {}, event) for test in shape.new_tests):
            return self._empty()
        name: list[tuple[Kind, Value]] = []
        for comparison in shape.equal:
            news = shift_values(event.get(comparison.new, ()), comparison.shift)
            if len(news) > 1:
                return None
            if not news:
                return self._empty()
            name.append(value_key(news[0]))
        kind, low, high = None, None, None
        for comparison in shape.ranges:
            news = shift_values(event.get(comparison.new, ()), comparison.shift)
            if len(news) > 1:
                return None
            if not news or kind not in (None, kind_of(news[0])):
                return self._empty()
            kind, key = kind_of(news[0]), key_of(news[0])
            if comparison.op in (Op.GT, Op.GE):
                cut = key, int(comparison.op is Op.GT)
                low = cut if low is None else max(low, cut)
            else:
                cut = key, int(comparison.op is Op.LE)
                high = cut if high is None else min(high, cut)
        group = self._groups.get(tuple(name))
        return self._empty() if group is None else (group.result(kind, low, high),)

    def _empty(self) -> tuple[_Answer]:
        return (aggregate_documents(self._aggregate, ()),)

    def _takes(self, document: FlatEvent) -> bool:
        """Whether a document may be counted at all."""
        needed = (*self._equal, *(() if self._ordered is None else (self._ordered,)))
        return (
            all(attribute in document for attribute in needed)
            and all(evaluate_flat(test, document, "strong") is True for test in self.tests)
            and all(is_true(condition, document, {}) for condition in self._filters)
        )

    def _place(self, document: FlatEvent, number: int) -> tuple[Kind | None, Any]:
        """The kind and the key of a document in its group; no key if it has several."""
        if self._ordered is None:
            return None, number
        values = document[self._ordered]
        return (kind_of(values[0]), key_of(values[0])) if len(values) == 1 else (None, None)

    def _values(self, document: FlatEvent) -> Sequence[Value]:
        attribute = self._aggregate.attribute
        return () if attribute is None else document.get(attribute, ())

    def _names(self, document: FlatEvent) -> Iterator[_Group]:
        """The groups of a document: one for each combination of its values."""
        return product(*(map(value_key, document[attribute]) for attribute in self._equal))

    def _make_group(self) -> _Trees | _Distinct:
        function, attribute = self._aggregate.function, self._aggregate.attribute
        if function is Function.COUNT_DISTINCT:
            return _Distinct()
        return _Trees(make_measure(function, attribute))

    @property
    def is_hopeless(self) -> bool:
        """Whether too many documents have several values for the window to be of use."""
        return len(self._several) > _SEVERAL


_Key: TypeAlias = tuple[
    frozenset[Predicate], frozenset[Condition], tuple[str, ...], str | None, Aggregate
]


class Windows:
    """All windows of a collection of documents."""

    def __init__(self, documents: AllDocuments) -> None:
        self._documents = documents
        self._by_key: dict[_Key, Window] = {}
        self._index: Interests[Window] = Interests()

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, number: int, document: FlatEvent) -> None:
        """Take note of a new document."""
        for window in self._index.find(document):
            window.add(number, document)

    def remove(self, number: int, document: FlatEvent) -> None:
        """Take note that a document was removed."""
        for window in self._index.find(document):
            window.remove(number, document)

    def keep(self, joins: Iterable[Join]) -> None:
        """Drop the windows that no aggregate among these uses."""
        used = {_key_of(shape, a) for shape, a in map(_shape_of, joins) if shape and a}
        self._by_key = {key: window for key, window in self._by_key.items() if key in used}
        index: Interests[Window] = Interests()
        for window in self._by_key.values():
            index.add(window.tests, window)
        self._index = index

    def compile(self, join: Join, evaluator: JoinEvaluator) -> _Compiled:
        """A function that computes an aggregate on an event."""
        return _Compiled(self, join, evaluator)

    def find(self, shape: Shape, aggregate: Aggregate) -> Window:
        """The window of a condition, built at the first call."""
        key = _key_of(shape, aggregate)
        window = self._by_key.get(key)
        if window is None:
            window = Window(shape, aggregate)
            for number in self._documents.numbers():
                window.add(number, self._documents.document(number))
            # Have it kept up to date, and only then found: an exception may come between.
            self._index.add(window.tests, window)
            self._by_key[key] = window
        return window

    def scan(self, join: Join, event: FlatEvent, evaluator: JoinEvaluator) -> _Answer:
        """Compute an aggregate from each document that satisfies its condition."""
        assert join.aggregate is not None
        numbers = evaluator.find_numbers(join.where, event)
        return aggregate_documents(join.aggregate, map(self._documents.document, numbers))


class _Compiled:
    """Computes one aggregate on events."""

    __slots__ = ("_aggregate", "_evaluator", "_join", "_shape", "_windows")

    def __init__(self, windows: Windows, join: Join, evaluator: JoinEvaluator) -> None:
        self._windows = windows
        self._join = join
        self._shape, self._aggregate = _shape_of(join)
        self._evaluator = evaluator

    def __call__(self, event: FlatEvent) -> _Answer:
        if self._shape is not None and self._aggregate is not None:
            window = self._windows.find(self._shape, self._aggregate)
            answer = None if window.is_hopeless else window.result(self._shape, event)
            if answer is not None:
                return answer[0]
        return self._windows.scan(self._join, event, self._evaluator)


def _shape_of(join: Join) -> tuple[Shape | None, Aggregate | None]:
    return (None, None) if join.aggregate is None else (Shape.of(join.where), join.aggregate)


def _key_of(shape: Shape, aggregate: Aggregate) -> _Key:
    equal = tuple(comparison.old for comparison in shape.equal)
    ordered = shape.ranges[0].old if shape.ranges else None
    return frozenset(shape.tests), frozenset(shape.filters), equal, ordered, aggregate
