"""Evaluates join predicates over indexed documents.

Every quantifier comes down to whether some document satisfies a condition (`exists`): ANY is true
if one satisfies the comparison, ALL is false if one satisfies its negation, and either is unknown
if one of the documents concerned lacks the attribute.

An aggregate of the attribute's index decides a single comparison (∃ x < d.x is x < max). Of a
conjunction, the condition with the fewest documents is looked up. If these are few they are checked
one by one. Otherwise the documents that satisfy the conjunction's constants become a selection with
indexes of its own (`selected_documents.py`), in which the rest of the conjunction is evaluated; and
if there is nothing to select, the bit vectors of all conditions are intersected, smallest first.
The join predicates that an event needs share the bit vectors of equal conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.expr.evaluate import evaluate_flat, is_true
from tamis.expr.event import FlatEvent
from tamis.expr.joins.predicate import (
    NO_CONDITION,
    Comparison,
    Condition,
    Every,
    Join,
    Quantifier,
    Some,
    Test,
)
from tamis.expr.joins.shifts import shift_values
from tamis.expr.model import Op, Predicate, Value
from tamis.joins.ordered_index import AttributeIndex
from tamis.joins.value_sets import (
    EVERYTHING,
    ValueSet,
    values_satisfying_any,
    values_satisfying_predicate,
)

__all__ = ["IndexedDocuments", "JoinEvaluator", "condition_of", "list_selections"]

_FEW: Final = 128
"""Up to how many documents are checked one by one rather than by bit vectors."""

_PROBE: Final = 16
"""How many documents are checked before bit vectors: often one of them satisfies everything."""

_SPARSE: Final = 16
"""How many bits for each document, besides a few, make a bit vector too sparse."""

Bits: TypeAlias = NDArray[np.bool_]
"""A bit for each number from that of the oldest document on."""


class IndexedDocuments(Protocol):
    """Documents by number, with an index of each attribute."""

    oldest: int
    """No document has a lower number."""
    next: int
    """The number of the next document."""

    def __len__(self) -> int:
        """How many documents there are."""

    def index(self, attribute: str) -> AttributeIndex:
        """The index of an attribute."""

    def document(self, number: int) -> FlatEvent:
        """The document of that number."""

    def numbers(self) -> Iterator[int]:
        """The numbers of all documents, rising."""

    def select(self, tests: tuple[Predicate, ...]) -> JoinEvaluator | None:
        """The evaluator over the documents that satisfy `tests`, if there is room for it."""


class _Part(NamedTuple):
    """A part of a conjunction, and where to find the documents that satisfy it."""

    condition: Condition
    estimate: int
    """About how many documents satisfy it, at most."""
    lookup: AttributeIndex | None = None
    values: ValueSet = EVERYTHING
    """Documents that satisfy the condition have one of `values` in `lookup`, if that is given."""


class JoinEvaluator:
    """Evaluates join predicates over documents, which must not change meanwhile."""

    def __init__(self, documents: IndexedDocuments) -> None:
        self._documents = documents
        self._shared: dict[Condition, Bits] = {}
        """Bit vectors for the event and the documents in `_shared_for`."""
        self._shared_for: tuple[FlatEvent | None, int, int] = (None, 0, 0)

    def truth(self, join: Join, event: FlatEvent) -> bool | None:
        """The same as :func:`tamis.expr.evaluate.join_truth`, but faster."""
        compared, where = join.compared, join.where
        if compared is None:
            return self.exists(where, event)
        if compared.new not in event:
            return None if self.exists(where, event) else join.quantifier is Quantifier.ALL
        is_all = join.quantifier is Quantifier.ALL
        decisive = _negate(compared) if is_all else compared
        if self.exists(_both(where, decisive), event):
            return not is_all
        some_lack = self._documents.index(compared.old).present < len(self._documents)
        if some_lack and self.exists(_both(where, _lacks(compared)), event):
            return None
        return is_all

    def compile(self, join: Join) -> Callable[[FlatEvent], bool | None]:
        """A function that computes :meth:`truth` of one join predicate."""
        comparison = join.compared
        if comparison is not None and join.where == NO_CONDITION:
            return self._compile_quantifier(join.quantifier, comparison)
        where = join.where
        is_simple = isinstance(where, Comparison) and where.shift is None and not where.negated
        if comparison is None and isinstance(where, Comparison) and is_simple:
            return self._compile_exists(where)
        return lambda event: self.truth(join, event)

    def _compile_exists(self, comparison: Comparison) -> Callable[[FlatEvent], bool]:
        new, op = comparison.new, comparison.op
        index = self._documents.index(comparison.old)
        by_end = index.number_test(op)

        def exists(event: FlatEvent) -> bool:
            news = event.get(new)
            if news is None:
                return False
            if len(news) == 1 and news[0].__class__ in _NUMBERS:
                return by_end(news[0])
            return index.any_satisfies(op, news)

        return exists

    def _compile_quantifier(
        self, quantifier: Quantifier, comparison: Comparison
    ) -> Callable[[FlatEvent], bool | None]:
        documents, new = self._documents, comparison.new
        index = documents.index(comparison.old)
        is_all = quantifier is Quantifier.ALL
        decisive = _negate(comparison) if is_all else comparison
        by_end, exists = index.number_test(decisive.op, decisive.negated), self._exists_comparison

        def truth(event: FlatEvent) -> bool | None:
            news = event.get(new)
            if news is None:
                return None if len(documents) else is_all
            is_number = len(news) == 1 and news[0].__class__ in _NUMBERS
            by_number = is_number and not index.several
            if by_end(news[0]) if by_number else exists(decisive, event):
                return not is_all
            return is_all if index.present == len(documents) else None

        return truth

    def exists(self, condition: Condition, event: FlatEvent) -> bool:
        """Whether some document satisfies a condition."""
        match condition:
            case Comparison():
                return self._exists_comparison(condition, event)
            case Test():
                return self._exists_test(condition, event)
            case Some(children):
                return any(self.exists(child, event) for child in children)
            case Every(children):
                if not children:
                    return len(self._documents) > 0
                return self._exists_conjunction(children, event)

    def _exists_comparison(self, comparison: Comparison, event: FlatEvent) -> bool:
        news, index = _news(comparison, event), self._documents.index(comparison.old)
        if not news or not index.present:
            return False
        if not comparison.negated:
            return index.any_satisfies(comparison.op, news)
        if len(news) == 1 and not index.several:
            return index.any_violates(comparison.op, news[0])
        return self._any_bit(comparison, event)

    def _exists_test(self, test: Test, event: FlatEvent) -> bool:
        if not test.of_old:
            return len(self._documents) > 0 and _holds(test.predicate, event)
        predicate = test.predicate
        index = self._documents.index(predicate.attribute)
        if predicate.op is Op.PRESENT:
            return index.present < len(self._documents) if predicate.negated else index.present > 0
        values = values_satisfying_predicate(predicate)
        if values is None or (predicate.negated and index.several):
            return self._any_bit(test, event)
        return index.first(values) is not None

    def _exists_conjunction(self, conditions: tuple[Condition, ...], event: FlatEvent) -> bool:
        parts: list[_Part] = []
        for condition in conditions:
            part = self._part(condition, event)
            if part is None or not part.estimate:
                return False
            parts.append(part)
        parts.sort(key=lambda part: part.estimate)
        whole = Every(conditions)
        if parts[0].estimate <= _FEW or self._is_sparse():
            return self._any_of(whole, self._candidates(parts[0]), event)
        tests = _tests_of_old(conditions)
        selected = self._documents.select(tests) if tests else None
        if selected is not None:
            rest = tuple([c for c in conditions if not (isinstance(c, Test) and c.of_old)])
            return selected.exists(rest[0] if len(rest) == 1 else Every(rest), event)
        lookup, values = parts[0].lookup, parts[0].values
        if lookup is not None and self._any_of(whole, lookup.some_numbers(values, _PROBE), event):
            return True
        intersection: Bits | None = None
        for part in parts:
            if isinstance(part.condition, Test) and not part.condition.of_old:
                continue
            bits = self._shared_bits(part.condition, event)
            intersection = bits if intersection is None else intersection & bits
            if not intersection.any():
                return False
        return True

    def _any_of(self, condition: Condition, numbers: Iterable[int], event: FlatEvent) -> bool:
        """Whether one of these documents satisfies a condition."""
        return any(
            is_true(condition, self._documents.document(number), event) for number in numbers
        )

    def _part(self, condition: Condition, event: FlatEvent) -> _Part | None:
        """Where to find documents that satisfy a condition; None if there are none."""
        everything = len(self._documents)
        match condition:
            case Comparison(old, op, _, negated):
                news = _news(condition, event)
                if not news:
                    return None
                index = self._documents.index(old)
                values = values_satisfying_any(op, news)
                if negated:
                    values = EVERYTHING if index.several else ~values
                return _Part(condition, index.estimate(values), index, values)
            case Test(predicate, of_old):
                if not of_old:
                    return _Part(condition, everything) if _holds(predicate, event) else None
                index = self._documents.index(predicate.attribute)
                if predicate.op is Op.PRESENT and predicate.negated:
                    return _Part(condition, everything - index.present)
                exact = None
                if not (predicate.negated and index.several):
                    exact = values_satisfying_predicate(predicate)
                values = EVERYTHING if exact is None else exact
                return _Part(condition, index.estimate(values), index, values)
            case _:
                return _Part(condition, everything)

    def _candidates(self, part: _Part) -> Iterator[int]:
        if part.lookup is None:
            return self._documents.numbers()
        return iter(part.lookup.numbers(part.values).tolist())

    def _is_sparse(self) -> bool:
        """Whether most bits of a bit vector would stand for removed documents."""
        bits = self._documents.next - self._documents.oldest
        return bits > _SPARSE * len(self._documents) + 4096

    def _any_bit(self, condition: Condition, event: FlatEvent) -> bool:
        if self._is_sparse():
            return self._any_of(condition, self._documents.numbers(), event)
        return bool(self._shared_bits(condition, event).any())

    def find_numbers(self, condition: Condition, event: FlatEvent) -> list[int]:
        """The numbers of the documents that satisfy a condition, rising."""
        children = condition.children if isinstance(condition, Every) else (condition,)
        parts: list[_Part] = []
        for child in children:
            part = self._part(child, event)
            if part is None or not part.estimate:
                return []
            parts.append(part)
        fewest = min(parts, key=lambda part: part.estimate, default=None)
        if fewest is not None and (fewest.estimate <= _FEW or self._is_sparse()):
            document = self._documents.document
            numbers = dict.fromkeys(self._candidates(fewest))
            return sorted(n for n in numbers if is_true(condition, document(n), event))
        found = np.flatnonzero(self._bits(condition, event)) + self._documents.oldest
        numbers_found: list[int] = found.tolist()
        return numbers_found

    # --- Bit vectors ---

    def numbers_satisfying(self, tests: tuple[Predicate, ...]) -> NDArray[np.int64]:
        """The numbers of the documents that satisfy all of `tests`, rising."""
        bits = self._bits(Every(tuple([Test(test, of_old=True) for test in tests])), {})
        return np.flatnonzero(bits) + self._documents.oldest

    def _shared_bits(self, condition: Condition, event: FlatEvent) -> Bits:
        """As `_bits`, computed once for all join predicates that an event needs."""
        documents, (before, following, count) = self._documents, self._shared_for
        if before is not event or (following, count) != (documents.next, len(documents)):
            self._shared = {}
            self._shared_for = event, documents.next, len(documents)
        bits = self._shared.get(condition)
        if bits is None:
            bits = self._shared[condition] = self._bits(condition, event)
        return bits

    def bits(self, join: Join, event: FlatEvent) -> Bits:
        """The document bit vector of a join predicate: which documents satisfy its condition."""
        return self._bits(condition_of(join), event)[self._numbers() - self._documents.oldest]

    def _bits(self, condition: Condition, event: FlatEvent) -> Bits:
        match condition:
            case Comparison(old, op, _, negated):
                news, index = _news(condition, event), self._documents.index(old)
                if not news:
                    return self._set_bits(_NONE)
                bits = self._set_bits(index.numbers(values_satisfying_any(op, news)))
                return self._set_bits(index.numbers()) & ~bits if negated else bits
            case Test(predicate, of_old):
                if not of_old:
                    return self._all_bits() if _holds(predicate, event) else self._set_bits(_NONE)
                return self._bits_of_test(predicate)
            case Every(children):
                bits = self._all_bits()
                for child in children:
                    bits &= self._bits(child, event)
                return bits
            case Some(children):
                bits = self._set_bits(_NONE)
                for child in children:
                    bits |= self._bits(child, event)
                return bits

    def _bits_of_test(self, predicate: Predicate) -> Bits:
        index = self._documents.index(predicate.attribute)
        if predicate.op is Op.PRESENT and predicate.negated:
            return self._all_bits() & ~self._set_bits(index.numbers())
        positive = predicate.positive
        values = values_satisfying_predicate(positive)
        if values is None:
            numbers = index.numbers().tolist()
            satisfying = [n for n in numbers if _holds(positive, self._documents.document(n))]
            bits = self._set_bits(np.array(satisfying, np.int64))
        else:
            bits = self._set_bits(index.numbers(values))
        return self._set_bits(index.numbers()) & ~bits if predicate.negated else bits

    def _set_bits(self, numbers: NDArray[np.int64]) -> Bits:
        bits = np.zeros(self._documents.next - self._documents.oldest, np.bool_)
        bits[numbers - self._documents.oldest] = True
        return bits

    def _all_bits(self) -> Bits:
        return self._set_bits(self._numbers())

    def _numbers(self) -> NDArray[np.int64]:
        return np.fromiter(self._documents.numbers(), np.int64, len(self._documents))


_NUMBERS: Final = frozenset((int, float))
_NONE: Final = np.empty(0, np.int64)


def _news(comparison: Comparison, event: FlatEvent) -> Sequence[Value]:
    """The values of the event that a comparison compares with old ones; none if it is unknown."""
    news = event.get(comparison.new, ())
    return news if comparison.shift is None else shift_values(news, comparison.shift)


def _negate(comparison: Comparison) -> Comparison:
    return msgspec.structs.replace(comparison, negated=not comparison.negated)


def _lacks(comparison: Comparison) -> Test:
    """That an old document lacks the attribute that is compared."""
    return Test(Predicate(comparison.old, Op.PRESENT, (), negated=True), of_old=True)


def _tests_of_old(conditions: tuple[Condition, ...]) -> tuple[Predicate, ...]:
    return tuple([c.predicate for c in conditions if isinstance(c, Test) and c.of_old])


def condition_of(join: Join) -> Condition:
    """What a document that counts for a join predicate satisfies."""
    return join.where if join.compared is None else _both(join.where, join.compared)


def list_selections(join: Join) -> Iterator[tuple[Predicate, ...]]:
    """The tests of old documents by which evaluating a join predicate may select documents."""
    conditions = [join.where]
    if join.compared is not None:
        conditions += [_both(join.where, join.compared), _both(join.where, _lacks(join.compared))]
    while conditions:
        condition = conditions.pop()
        if isinstance(condition, Every):
            yield _tests_of_old(condition.children)
        if isinstance(condition, Every | Some):
            conditions += condition.children


def _both(where: Condition, other: Condition) -> Condition:
    """The conjunction of two conditions."""
    if isinstance(where, Every):
        return Every((*where.children, other)) if where.children else other
    return Every((where, other))


def _holds(predicate: Predicate, document: FlatEvent) -> bool:
    return evaluate_flat(predicate, document, "strong") is True
