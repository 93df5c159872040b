"""The documents that satisfy the constants of a join predicate, with indexes of their own.

For ``EXISTS (SELECT 1 FROM seen d WHERE d.kind = 'sale' AND d.price < price)`` an index of all
prices does not help: the lowest price may be that of another kind. Among the sales alone the lowest
price decides, however many documents there are. So documents that satisfy the same constants are
kept as a *selection*, shared by all rules with these constants, from the first time that a
predicate would have to scan documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np

from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent
from tamis.expr.model import Predicate
from tamis.joins.evaluate import IndexedDocuments, JoinEvaluator
from tamis.joins.interests import Interests
from tamis.joins.ordered_index import AttributeIndex

__all__ = ["SelectedDocuments", "Selections", "Tests"]

Tests: TypeAlias = tuple[Predicate, ...]
"""Predicates on an old document that must all hold."""

_ROOM: Final = 8
_SMALL: Final = 100_000
"""Selections together may have so many entries for each document, and so many more."""


class SelectedDocuments:
    """The documents that satisfy `tests`, under numbers of their own without large gaps.

    Parameters
    ----------
    tests
        What they satisfy.
    documents
        All documents.
    numbers
        The numbers that those which satisfy the tests have among all documents, rising.

    Attributes
    ----------
    oldest, next
        No selected document has a number below `oldest`; the next one gets `next`.
    evaluator
        Evaluates conditions on the selected documents.
    """

    def __init__(self, tests: Tests, documents: IndexedDocuments, numbers: Iterable[int]) -> None:
        self.tests = tests
        self._documents = documents
        self._among_all = dict(enumerate(numbers))
        self._numbers = {outer: number for number, outer in self._among_all.items()}
        self.oldest, self.next = 0, len(self._numbers)
        self._indexes: dict[str, AttributeIndex] = {}
        self.evaluator = JoinEvaluator(self)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self) -> Iterator[int]:
        """The numbers of all selected documents, rising."""
        return iter(self._among_all)

    def document(self, number: int) -> FlatEvent:
        """The selected document of that number."""
        return self._documents.document(self._among_all[number])

    def index(self, attribute: str) -> AttributeIndex:
        """The index of an attribute in the selected documents, built at the first call."""
        index = self._indexes.get(attribute)
        if index is None:
            first = self._documents.oldest
            renumbered = np.full(self._documents.next - first, -1, np.int64)
            outer = np.fromiter(self._numbers, np.int64, len(self))
            renumbered[outer - first] = np.fromiter(self._among_all, np.int64, len(self))
            index = self._documents.index(attribute).restrict(renumbered, first)
            self._indexes[attribute] = index
        return index

    def select(self, tests: Tests) -> None:
        """No selection of a selection, which has no tests left."""

    def add(self, outer: int, document: FlatEvent) -> None:
        """Take note of a new document, given its number among all documents."""
        if not all(evaluate_flat(test, document, "strong") is True for test in self.tests):
            return
        number, self.next = self.next, self.next + 1
        self._numbers[outer] = number
        self._among_all[number] = outer
        for attribute, index in self._indexes.items():
            if attribute in document:
                index.add(number, document[attribute])

    def remove(self, outer: int, document: FlatEvent) -> None:
        """Take note that a document was removed, given its number among all documents."""
        number = self._numbers.pop(outer, None)
        if number is None:
            return
        del self._among_all[number]
        for attribute, index in self._indexes.items():
            if attribute in document:
                index.remove(number, document[attribute])
        while self.oldest < self.next and self.oldest not in self._among_all:
            self.oldest += 1

    def entries(self) -> int:
        """How many entries its indexes have at most, and one for each document."""
        return len(self._numbers) * (1 + len(self._indexes))


class Selections:
    """All selections of a collection of documents, by their tests."""

    def __init__(self, documents: IndexedDocuments) -> None:
        self._documents = documents
        self._by_tests: dict[Tests, SelectedDocuments] = {}
        self._interests: Interests[SelectedDocuments] = Interests()

    def __len__(self) -> int:
        return len(self._by_tests)

    def find(self, tests: Tests, evaluator: JoinEvaluator) -> JoinEvaluator | None:
        """The evaluator over the documents that satisfy `tests`; None if there is no room for it.

        Parameters
        ----------
        tests
            What the documents satisfy.
        evaluator
            Finds these documents among all, the first time.
        """
        found = self._by_tests.get(tests)
        if found is None:
            entries = sum(selected.entries() for selected in self._by_tests.values())
            if entries > _ROOM * len(self._documents) + _SMALL:
                return None
            numbers = evaluator.numbers_satisfying(tests)
            found = SelectedDocuments(tests, self._documents, numbers.tolist())
            self._register(found)
        return found.evaluator

    def keep(self, used: Collection[Tests]) -> None:
        """Drop the selections that are not `used`."""
        new = Selections(self._documents)
        for tests, selected in self._by_tests.items():
            if tests in used:
                new._register(selected)
        self._by_tests, self._interests = new._by_tests, new._interests

    def add(self, number: int, document: FlatEvent) -> None:
        """Take note of a new document."""
        for selected in self._interests.find(document):
            selected.add(number, document)

    def remove(self, number: int, document: FlatEvent) -> None:
        """Take note that a document was removed."""
        for selected in self._interests.find(document):
            selected.remove(number, document)

    def _register(self, selected: SelectedDocuments) -> None:
        """Have a selection kept up to date, and only then found: an exception may come between."""
        self._interests.add(selected.tests, selected)
        self._by_tests[selected.tests] = selected
