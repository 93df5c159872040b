"""What the kept documents say to a join predicate.

Whatever the quantifier, all is a matter of whether some document satisfies a condition (`exists`):
ANY is true if one satisfies the comparison, ALL is false if one satisfies its negation, and either
is unknown if one that counts lacks the attribute.

One comparison is answered from an aggregate of the attribute's index (∃ x < d.x is x < max). Of a
conjunction the condition with the fewest documents is looked up; few documents are looked at one
by one, and of many the bit vectors are intersected, smallest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

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
from tamis.expr.model import Op, Predicate
from tamis.joins.ordered_index import AttributeIndex, compared_with
from tamis.joins.value_sets import EVERYTHING, Spans, of_predicate

__all__ = ["IndexedDocuments", "JoinEvaluator"]

_FEW: Final = 128
"""How many documents are looked at one by one rather than by bit vectors."""

_SPARSE: Final = 16
"""A bit vector may have so many bits for each document, and a few more."""

Bits = NDArray[np.bool_]
"""A mark for each number from the oldest document's on."""


class IndexedDocuments(Protocol):
    """Documents by number."""

    oldest: int
    """No document has a lower number."""
    next: int
    """The number of the next document."""

    def __len__(self) -> int:
        """How many there are."""

    def index(self, attribute: str) -> AttributeIndex:
        """The index of an attribute."""

    def document(self, number: int) -> FlatEvent:
        """The document of that number."""

    def numbers(self) -> Iterator[int]:
        """The numbers of all documents, rising."""


class _Part(NamedTuple):
    """A part of a conjunction, and where documents that satisfy it are to be found."""

    condition: Condition
    estimate: int
    """About how many documents satisfy it, at most."""
    where: AttributeIndex | None = None
    spans: Spans = EVERYTHING
    """Documents that satisfy it have a value there in `where`."""


class JoinEvaluator:
    """JoinEvaluator join predicates from documents, which stay the same meanwhile."""

    def __init__(self, documents: IndexedDocuments) -> None:
        self._documents = documents

    def truth(self, join: Join, event: FlatEvent) -> bool | None:
        """As :func:`tamis.expr.evaluate.join_truth`, but faster."""
        compared, where = join.compared, join.where
        if compared is None:
            return self.exists(where, event)
        if compared.new not in event:
            return None if self.exists(where, event) else join.quantifier is Quantifier.ALL
        is_all = join.quantifier is Quantifier.ALL
        decisive = _negated(compared) if is_all else compared
        if self.exists(_both(where, decisive), event):
            return not is_all
        if self._documents.index(compared.old).present < len(self._documents):
            lacking = Test(Predicate(compared.old, Op.PRESENT, (), negated=True), of_old=True)
            if self.exists(_both(where, lacking), event):
                return None
        return is_all

    def compile(self, join: Join) -> Callable[[FlatEvent], bool | None]:
        """What :meth:`truth` says about one join predicate, with all decided that can be."""
        comparison = join.compared
        if comparison is not None and join.where == NO_CONDITION:
            return self._compile_quantifier(join.quantifier, comparison)
        if isinstance(join.where, Comparison) and not join.where.negated and comparison is None:
            return self._compile_exists(join.where)
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
            return index.any_compared(op, news)

        return exists

    def _compile_quantifier(
        self, quantifier: Quantifier, comparison: Comparison
    ) -> Callable[[FlatEvent], bool | None]:
        documents, index, new = (
            self._documents,
            self._documents.index(comparison.old),
            comparison.new,
        )
        is_all = quantifier is Quantifier.ALL
        decisive = _negated(comparison) if is_all else comparison
        by_end, exists = index.number_test(decisive.op, decisive.negated), self._exists_compared

        def truth(event: FlatEvent) -> bool | None:
            news = event.get(new)
            if news is None:
                return None if len(documents) else is_all
            is_plain = len(news) == 1 and news[0].__class__ in _NUMBERS and not index.several
            if by_end(news[0]) if is_plain else exists(decisive, event):
                return not is_all
            return is_all if index.present == len(documents) else None

        return truth

    def exists(self, condition: Condition, event: FlatEvent) -> bool:
        """Whether there is a document that satisfies a condition."""
        match condition:
            case Comparison():
                return self._exists_compared(condition, event)
            case Test():
                return self._exists_tested(condition, event)
            case Some(children):
                return any(self.exists(child, event) for child in children)
            case Every(children):
                if not children:
                    return len(self._documents) > 0
                return self._exists_all(children, event)

    def _exists_compared(self, comparison: Comparison, event: FlatEvent) -> bool:
        news, index = event.get(comparison.new), self._documents.index(comparison.old)
        if news is None or not index.present:
            return False
        if not comparison.negated:
            return index.any_compared(comparison.op, news)
        if len(news) == 1 and not index.several:
            return index.any_unlike(comparison.op, news[0])
        return self._marks_any(comparison, event)

    def _exists_tested(self, test: Test, event: FlatEvent) -> bool:
        if not test.of_old:
            return len(self._documents) > 0 and _holds(test.predicate, event)
        predicate = test.predicate
        index = self._documents.index(predicate.attribute)
        if predicate.op is Op.PRESENT:
            return index.present < len(self._documents) if predicate.negated else index.present > 0
        spans = of_predicate(predicate)
        if spans is None or (predicate.negated and index.several):
            return self._marks_any(test, event)
        return index.first(spans) is not None

    def _exists_all(self, conditions: tuple[Condition, ...], event: FlatEvent) -> bool:
        parts: list[_Part] = []
        for condition in conditions:
            part = self._part(condition, event)
            if part is None or not part.estimate:
                return False
            parts.append(part)
        parts.sort(key=lambda part: part.estimate)
        rest = Every(conditions)
        if parts[0].estimate <= _FEW or self._is_sparse():
            return any(
                is_true(rest, self._documents.document(number), event)
                for number in self._candidates(parts[0])
            )
        found: Bits | None = None
        for part in parts:
            if isinstance(part.condition, Test) and not part.condition.of_old:
                continue
            bits = self._bits(part.condition, event)
            found = bits if found is None else found & bits
            if not found.any():
                return False
        return True

    def _part(self, condition: Condition, event: FlatEvent) -> _Part | None:
        """Where to look for what satisfies a condition; None where nothing does."""
        everything = len(self._documents)
        match condition:
            case Comparison(old, op, new, negated):
                news = event.get(new)
                if news is None:
                    return None
                index = self._documents.index(old)
                if negated:
                    several = bool(index.several)
                    spans = EVERYTHING if several else ~compared_with(op, news)
                else:
                    spans = compared_with(op, news)
                return _Part(condition, index.estimate(spans), index, spans)
            case Test(predicate, of_old):
                if not of_old:
                    return _Part(condition, everything) if _holds(predicate, event) else None
                index = self._documents.index(predicate.attribute)
                if predicate.op is Op.PRESENT and predicate.negated:
                    return _Part(condition, everything - index.present)
                plain = None if predicate.negated and index.several else of_predicate(predicate)
                spans = EVERYTHING if plain is None else plain
                return _Part(condition, index.estimate(spans), index, spans)
            case _:
                return _Part(condition, everything)

    def _candidates(self, part: _Part) -> Iterator[int]:
        if part.where is None:
            return self._documents.numbers()
        return iter(part.where.numbers(part.spans).tolist())

    def _is_sparse(self) -> bool:
        span = self._documents.next - self._documents.oldest
        return span > _SPARSE * len(self._documents) + 4096

    def _marks_any(self, condition: Condition, event: FlatEvent) -> bool:
        if self._is_sparse():
            documents = (self._documents.document(number) for number in self._documents.numbers())
            return any(is_true(condition, document, event) for document in documents)
        return bool(self._bits(condition, event).any())

    # --- Bit vectors ---

    def bits(self, join: Join, event: FlatEvent) -> Bits:
        """The document bit vector of a join predicate: which documents satisfy what it asks."""
        condition = join.where
        if join.compared is not None:
            condition = _both(condition, join.compared)
        numbers = np.fromiter(self._documents.numbers(), np.int64, len(self._documents))
        return self._bits(condition, event)[numbers - self._documents.oldest]

    def _bits(self, condition: Condition, event: FlatEvent) -> Bits:
        match condition:
            case Comparison(old, op, new, negated):
                news, index = event.get(new), self._documents.index(old)
                if news is None:
                    return self._marked(_NONE)
                found = self._marked(index.numbers(compared_with(op, news)))
                return self._marked(index.numbers()) & ~found if negated else found
            case Test(predicate, of_old):
                if not of_old:
                    return self._all() if _holds(predicate, event) else self._marked(_NONE)
                return self._bits_of_test(predicate)
            case Every(children):
                found = self._all()
                for child in children:
                    found &= self._bits(child, event)
                return found
            case Some(children):
                found = self._marked(_NONE)
                for child in children:
                    found |= self._bits(child, event)
                return found

    def _bits_of_test(self, predicate: Predicate) -> Bits:
        index = self._documents.index(predicate.attribute)
        if predicate.op is Op.PRESENT and predicate.negated:
            return self._all() & ~self._marked(index.numbers())
        spans = of_predicate(predicate.positive)
        if spans is None:
            numbers = index.numbers().tolist()
            held = [n for n in numbers if _holds(predicate.positive, self._documents.document(n))]
            found = self._marked(np.array(held, np.int64))
        else:
            found = self._marked(index.numbers(spans))
        return self._marked(index.numbers()) & ~found if predicate.negated else found

    def _marked(self, numbers: NDArray[np.int64]) -> Bits:
        bits = np.zeros(self._documents.next - self._documents.oldest, np.bool_)
        bits[numbers - self._documents.oldest] = True
        return bits

    def _all(self) -> Bits:
        return self._marked(np.fromiter(self._documents.numbers(), np.int64, len(self._documents)))


_NUMBERS: Final = frozenset((int, float))
_NONE: Final = np.empty(0, np.int64)


def _negated(comparison: Comparison) -> Comparison:
    return Comparison(comparison.old, comparison.op, comparison.new, negated=not comparison.negated)


def _both(where: Condition, other: Condition) -> Condition:
    """The conjunction of a condition and another."""
    if isinstance(where, Every):
        return Every((*where.children, other)) if where.children else other
    return Every((where, other))


def _holds(predicate: Predicate, document: FlatEvent) -> bool:
    return evaluate_flat(predicate, document, "strong") is True
